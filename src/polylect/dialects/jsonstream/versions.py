"""The differences between 0.1.0 (aionrs) and 0.2.0 (wayland-core) as tables.

Imports nothing, because it is read before `ready` is written. The code of both ends asks these tables, and
compares version numbers only where a version has frames of its own.
"""

VERSIONS = ("0.2.0", "0.1.0")
"""The default first."""

MAX_FRAME = 8 * 1024 * 1024
"""The longest line in bytes that either end writes. Deployed readers drop longer lines, or end the engine for one."""

TEXT_KEY = {"0.1.0": "input", "0.2.0": "content"}
"""What `message` calls its text. Both are read in both versions; our host side writes both for 0.1.0."""

WIRE_MODES = {
    "0.1.0": {"default": "default", "auto_edit": "auto_edit", "force": "yolo"},
    "0.2.0": {"default": "default", "auto_edit": "auto_edit", "force": "force"},
}
"""Our modes as they are written. Those that are not here are written as they are."""

OUR_MODES = {
    **{word: mode for words in WIRE_MODES.values() for mode, word in words.items()},
    "dangerously_skip_permissions": "force",
    "dangerously-skip-permissions": "force",
    "dangerously_skip_sandbox_and_permissions": "force",
    "plan": "plan",
    "dont_ask": "dont_ask",
}
"""Every word for a mode that is read, in both versions, and the mode it means."""

_USUAL = ("thinking", "effort", "effort_levels", "modes", "current_mode", "mcp")
ALL_CAPABILITIES = {"0.1.0": ("tool_approval", "image_input", *_USUAL), "0.2.0": ("tool_approval", *_USUAL)}
"""What `config_changed` tells, in this order: who knows the event knows them. aionrs tells them in `ready` too."""

READY_CAPABILITIES = {"0.1.0": ("tool_approval", "thinking", "mcp"), "0.2.0": ALL_CAPABILITIES["0.2.0"]}
"""What `ready` tells by the documents, in this order."""

IMAGE_WORDS = {True: "supported", False: "unsupported", None: "unknown"}
"""Whether the model can see pictures, as `image_input`."""

FLAGS: dict[str, tuple[str, ...]] = {
    "0.1.0": (),
    "0.2.0": (
        "streaming_tools",
        "sub_agent_traces",
        "cost_attribution",
        "hitl_suspend",
        "non_destructive_compact",
        "structured_traces",
        "rpc_tool_script",
        "browser_suite",
        "computer_use",
        "plugins",
        "gepa_enabled",
        "user_model_backend",
        "online_evolution",
        "memory_enabled",
    ),
}
"""Capabilities that are written only when they are on, after the others and in this order. They come from the engine's
`Abilities.extras`; with none of them on, the object has the bytes of the baseline."""

TEXT_FLAG = "user_model_backend"
"""The one flag that is a text."""

FAMILIES: dict[str, tuple[str, ...]] = {
    "tool_chunk": ("streaming_tools",),
    "sub_agent_event": ("sub_agent_traces",),
    "session_cost": ("cost_attribution",),
    "approval_required": ("hitl_suspend",),
    "suspend": ("hitl_suspend",),
    "approval_resume": ("hitl_suspend",),
    "compact_offload": ("non_destructive_compact",),
    "trace_event": ("structured_traces",),
    "browser_event": ("browser_suite",),
    "browser_policy_denied": ("browser_suite",),
    "cua_event": ("computer_use",),
    "cua_policy_denied": ("computer_use",),
    "plugin_event": ("plugins",),
    "evolution_event": ("gepa_enabled", "online_evolution"),
}
"""Events that are written only while one of these flags is on. They are read whatever the flags say."""

FINISH_REASONS: dict[str, dict[str, str]] = {
    "0.1.0": {},
    "0.2.0": {
        "end": "stop",
        "cancelled": "stop",
        "refused": "stop",
        "length": "length",
        "limit": "max_turns",
        "error": "error",
    },
}
"""How a turn ended, where `stream_end` says so. `max_turns` came with core 0.12.22; with `length` instead, a limit of
ours would look like one of the model's."""

SORTS_MAPS = {"0.1.0": False, "0.2.0": True}
"""Whether the keys of `args` and `metadata` are sorted. The examples of 0.1.0 leave them as the model wrote them."""

NULL_MSG_ID = {"0.1.0": True, "0.2.0": False}
"""Whether an `error` that belongs to no turn says `"msg_id":null` or leaves the key out."""

ERRORS_END_TURNS = {"0.1.0": False, "0.2.0": True}
"""Whether hosts take any `error` during a turn for its end. There, what ends nothing has to be an `info`."""

SAYS_MCP_FAILED = {"0.1.0": False, "0.2.0": True}
"""Whether there is a word for a server that failed. Without one it is an `info`, and then a `mcp_ready` without tools,
which is what releases a host that waits."""

ERROR_CODES = {
    "host": "protocol_error",
    "user": "config_error",
    "provider": "provider_error",
    "tool": "tool_error",
    "engine": "internal_error",
}
"""Whose fault it was, as an error code: the same in both versions."""
