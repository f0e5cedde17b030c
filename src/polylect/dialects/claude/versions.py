"""The two versions of the wire that are supported, and its words for modes and stop reasons."""

VERSIONS = ("2.1.325", "2.1.197")
MAX_FRAME = 1024 * 1024
"""The longest line in bytes. The Python SDK ends its session for a line of more characters."""

NEWER = {"2.1.325": True, "2.1.197": False}
"""Whether a version has capabilities, receipts of interrupts, `command_lifecycle`, `permission_denied`,
`session_state_changed`, `aborted`, `result_index`, and ends the partial messages of an interrupted reply.
"""

CAPABILITIES = ("interrupt_receipt_v1", "interrupt_cancel_queued_v1", "msg_lifecycle_v1")
"""The `capabilities` of `system/init`."""

WIRE_MODES = {
    "default": "default",
    "auto_edit": "acceptEdits",
    "force": "bypassPermissions",
    "plan": "plan",
    "dont_ask": "dontAsk",
}
OUR_MODES = {word: mode for mode, word in WIRE_MODES.items()} | {"manual": "default", "auto": "default"}
"""Modes by the wire's word. In `auto` the vendor's program lets a model judge calls; polylect asks instead."""

STOPS = {"end": "end_turn", "calls": "tool_use", "length": "max_tokens", "refused": "refusal"}
"""`stop_reason` by our reason. A reply that was cut short has none."""
