"""The two versions of the wire that are spoken here, and what only the newer one says."""

VERSIONS = ("2.1.325", "2.1.197")
MAX_FRAME = 1024 * 1024
"""In bytes. Python hosts end for a line of more characters."""

NEWER = {"2.1.325": True, "2.1.197": False}
"""Says capabilities, receipts of interrupts, `command_lifecycle`, `permission_denied`, `session_state_changed`,
`aborted`, `result_index`, and closes the partial messages of a reply that was interrupted."""

CAPABILITIES = ("interrupt_receipt_v1", "interrupt_cancel_queued_v1", "msg_lifecycle_v1")
"""What a host may count on."""

WIRE_MODES = {
    "default": "default",
    "auto_edit": "acceptEdits",
    "force": "bypassPermissions",
    "plan": "plan",
    "dont_ask": "dontAsk",
}
OUR_MODES = {word: mode for mode, word in WIRE_MODES.items()} | {"manual": "default", "auto": "default"}
"""Nothing here judges calls by itself, so `auto` asks."""

STOPS = {"end": "end_turn", "calls": "tool_use", "length": "max_tokens", "refused": "refusal"}
"""Why a model stopped; a reply that was cut short has no word for it."""
