"""Every word for an approval mode that any family of hosts uses, and the mode it means (A7). Imports nothing."""

MODES = {
    "default": "default",
    "manual": "default",
    "auto_edit": "auto_edit",
    "auto-edit": "auto_edit",
    "acceptEdits": "auto_edit",
    "force": "force",
    "yolo": "force",
    "bypassPermissions": "force",
    "dangerously_skip_permissions": "force",
    "dangerously-skip-permissions": "force",
    "dangerously_skip_sandbox_and_permissions": "force",
    "plan": "plan",
    "dont_ask": "dont_ask",
    "dont-ask": "dont_ask",
    "dontAsk": "dont_ask",
}
