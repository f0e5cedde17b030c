"""The approval modes, and every word for one that hosts of any family use (A7). Imports nothing.

Each dialect has one table of its own words in its module `versions`; `MODE_WORDS` is for settings, flags and slash
commands, where a person may use the word of any of them.
"""

MODES = ("default", "auto_edit", "force", "plan", "dont_ask")
"""Our modes: the values of `content.Mode`."""

CLAUDE_MODES = {
    "default": "default",
    "auto_edit": "acceptEdits",
    "force": "bypassPermissions",
    "plan": "plan",
    "dont_ask": "dontAsk",
}
"""Our modes in the words of Claude Code: of its wire, its flags and the input of its hooks."""

OMP_MODES = {"default": "always-ask", "auto_edit": "write", "force": "yolo"}
"""Our modes in the words of omp's `--approval-mode`."""

MODE_WORDS = {
    **{mode: mode for mode in MODES},
    **{word: mode for mode, word in CLAUDE_MODES.items()},
    "manual": "default",
    "auto-edit": "auto_edit",
    "yolo": "force",
    "dangerously_skip_permissions": "force",
    "dangerously-skip-permissions": "force",
    "dangerously_skip_sandbox_and_permissions": "force",
    "dont-ask": "dont_ask",
}
"""The mode that each word means."""
