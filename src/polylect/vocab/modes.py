"""The words that hosts use for approval modes, and our mode for each (A7).

Dialects and the command line look words up here, so that each word means the same everywhere. Start-up uses it before
`ready`, so this module imports nothing.
"""

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
