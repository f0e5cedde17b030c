"""The two versions of the wire that are supported, and its words for modes.

Both ends use these tables, so that a word is translated in one place only. Start-up reads them before `ready`, so this
module imports nothing that costs time.
"""

from polylect.vocab.modes import CLAUDE_MODES

VERSIONS = ("2.1.325", "2.1.197")
MAX_FRAME = 1024 * 1024
"""The longest line in bytes. The Python SDK ends its session for a line of more characters."""

NEWER = {"2.1.325": True, "2.1.197": False}
"""Whether a version has capabilities, receipts of interrupts, `command_lifecycle`, `permission_denied`,
`session_state_changed`, `aborted`, `result_index`, and ends the partial messages of an interrupted reply.
"""

CAPABILITIES = ("interrupt_receipt_v1", "interrupt_cancel_queued_v1", "msg_lifecycle_v1")
"""The `capabilities` of `system/init`."""

WIRE_MODES = CLAUDE_MODES
"""The wire's word by our mode."""
OUR_MODES = {word: mode for mode, word in WIRE_MODES.items()} | {"manual": "default", "auto": "default"}
"""Modes by the wire's word. In `auto` the vendor's program lets a model judge calls; polylect asks instead."""
