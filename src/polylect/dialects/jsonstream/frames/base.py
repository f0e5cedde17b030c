"""The frames of the baseline, in both versions. Fields stand in the order of the wire; optional ones have a default.

Where the two versions differ there are two structs, the one of 0.1.0 called `Old...`. `read.py` accepts more than these
structs allow. Frames that only 0.2.0 has beside its baseline are in `optional.py`; `table.py` lists all.
"""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from polylect.dialects.schema import one_of

Id = Annotated[str, Meta(min_length=1, max_length=1024)]
Count = Annotated[int, Meta(ge=0)]
Opaque = dict[str, Any]
"""An object that is passed on as it is. Its keys are sorted when it is written, except in 0.1.0."""


Category = Annotated[str, one_of("info", "edit", "exec", "mcp")]
Status = Annotated[str, one_of("success", "error")]
OutputType = Annotated[str, one_of("text", "diff", "image")]
FinishReason = Annotated[str, one_of("stop", "length", "error", "max_turns")]
Mode = Annotated[str, one_of("default", "auto_edit", "force", "yolo", "plan", "dont_ask")]
Transport = Annotated[str, one_of("stdio", "sse", "streamable-http", "streamable_http")]


class Frame(Struct, frozen=True, omit_defaults=True, tag_field="type"):
    pass


class ExtraFrame(Frame, frozen=True):
    """A frame that our engine does not make and no other wire has: in the vocabulary it is an `Extra`."""


# Events, engine to host.


ImageInput = Annotated[str, one_of("supported", "unsupported", "unknown")]


class OldCapabilities(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Capabilities in 0.1.0. `ready` has the three without a default, `config_changed` has all."""

    tool_approval: bool
    image_input: ImageInput | UnsetType = UNSET
    thinking: bool
    effort: bool | UnsetType = UNSET
    effort_levels: list[str] | UnsetType = UNSET
    modes: list[Mode] | UnsetType = UNSET
    current_mode: Mode | UnsetType = UNSET
    mcp: bool
    current_model: str | UnsetType = UNSET


class Capabilities(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The first seven are always written; the others only while they are true."""

    tool_approval: bool
    thinking: bool
    effort: bool
    effort_levels: list[str]
    modes: list[Mode]
    current_mode: Mode
    mcp: bool
    streaming_tools: bool = False
    sub_agent_traces: bool = False
    cost_attribution: bool = False
    hitl_suspend: bool = False
    non_destructive_compact: bool = False
    structured_traces: bool = False
    rpc_tool_script: bool = False
    browser_suite: bool = False
    computer_use: bool = False
    plugins: bool = False
    gepa_enabled: bool = False
    user_model_backend: str = ""
    online_evolution: bool = False
    memory_enabled: bool = False
    current_model: str | UnsetType = UNSET


class Tool(Struct, frozen=True):
    name: str
    category: Category
    args: Opaque
    description: str


class Usage(Struct, frozen=True, omit_defaults=True):
    """Tokens of this turn. The three kinds of input do not overlap."""

    input_tokens: Count
    output_tokens: Count
    cache_read_tokens: Count = 0
    cache_write_tokens: Count = 0


class Fault(Struct, frozen=True):
    code: str
    message: str
    retryable: bool = False


class OldReady(Frame, frozen=True, kw_only=True, tag="ready"):
    version: str
    session_id: str | None = None
    capabilities: OldCapabilities


class Ready(Frame, frozen=True, kw_only=True, tag="ready"):
    version: str
    session_id: str | None = None
    capabilities: Capabilities


class StreamStart(Frame, frozen=True, tag="stream_start"):
    msg_id: str


class TextDelta(Frame, frozen=True, tag="text_delta"):
    text: str
    msg_id: str


class Thinking(Frame, frozen=True, tag="thinking"):
    text: str
    msg_id: str


class ToolRequest(Frame, frozen=True, tag="tool_request"):
    msg_id: str
    call_id: str
    tool: Tool


class ToolRunning(Frame, frozen=True, tag="tool_running"):
    msg_id: str
    call_id: str
    tool_name: str


class ToolResult(Frame, frozen=True, tag="tool_result"):
    msg_id: str
    call_id: str
    tool_name: str
    status: Status
    output: str
    output_type: OutputType
    metadata: Any = None


class ToolCancelled(Frame, frozen=True, tag="tool_cancelled"):
    msg_id: str
    call_id: str
    reason: str


class ToolDenied(ToolCancelled, frozen=True, tag="tool_cancelled"):
    """A call that a rule of the engine denied before any other frame mentioned it. `tool` is an addition of polylect;
    hosts ignore fields that they do not know."""

    tool: Tool


class OldStreamEnd(Frame, frozen=True, tag="stream_end"):
    msg_id: str
    usage: Usage | None = None


class StreamEnd(Frame, frozen=True, tag="stream_end"):
    msg_id: str
    finish_reason: FinishReason
    usage: Usage | None = None


class OldError(Frame, frozen=True, tag="error"):
    msg_id: str | None
    error: Fault


class Error(Frame, frozen=True, kw_only=True, tag="error"):
    msg_id: str | None = None
    error: Fault


class Info(Frame, frozen=True, tag="info"):
    msg_id: str
    message: str


class OldConfigChanged(Frame, frozen=True, tag="config_changed"):
    capabilities: OldCapabilities


class ConfigChanged(Frame, frozen=True, tag="config_changed"):
    capabilities: Capabilities


class McpReady(Frame, frozen=True, tag="mcp_ready"):
    name: str
    tools: list[str]


class McpFailed(Frame, frozen=True, tag="mcp_failed"):
    name: str
    reason: str


class Pong(Frame, frozen=True, tag="pong"):
    pass


# Commands, host to engine.


class OldMessage(Frame, frozen=True, tag="message"):
    """The text as `input`; our host side writes it as `content` too, as aionrs calls it since 0.1.11."""

    msg_id: Id
    input: str
    content: str | UnsetType = UNSET
    files: list[str] = []


class Message(Frame, frozen=True, tag="message"):
    msg_id: Id
    content: str
    files: list[str] = []


class Stop(Frame, frozen=True, tag="stop"):
    pass


class Prefix(Struct, frozen=True):
    prefix: str


class Path(Struct, frozen=True):
    root: str
    write: bool = False


class Standing(Struct, frozen=True, omit_defaults=True):
    """An approval that is wider than one call and narrower than its category. One of the two fields is set."""

    always_prefix: Prefix | None = None
    always_path: Path | None = None


Scope = Annotated[str, one_of("once", "always")] | Standing


class ToolApprove(Frame, frozen=True, omit_defaults=False, tag="tool_approve"):
    call_id: str
    scope: Scope = "once"
    answer: str | UnsetType | None = UNSET


class ToolDeny(Frame, frozen=True, omit_defaults=False, tag="tool_deny"):
    call_id: str
    reason: str = ""


class ApprovalResume(Frame, frozen=True, tag="approval_resume"):
    resume_token: str
    approved: bool
    modifications: Any = None


class InitHistory(Frame, frozen=True, tag="init_history"):
    text: str


class SetMode(Frame, frozen=True, tag="set_mode"):
    mode: Mode


class SetConfig(Frame, frozen=True, tag="set_config"):
    model: str | None = None
    thinking: Annotated[str, one_of("enabled", "disabled")] | None = None
    thinking_budget: Count | None = None
    effort: str | None = None
    compaction: Annotated[str, one_of("off", "safe", "full")] | None = None


class OldSetConfig(SetConfig, frozen=True, tag="set_config"):
    """`image_input` (aionrs since 0.2.5) says whether the model can see pictures."""

    image_input: ImageInput | None = None


class AddMcpServer(Frame, frozen=True, tag="add_mcp_server"):
    name: str
    transport: Transport
    command: str | None = None
    args: list[str] | None = None
    env: dict[str, str] | None = None
    url: str | None = None
    headers: dict[str, str] | None = None
    cwd: str | None = None


class Ping(Frame, frozen=True, tag="ping"):
    pass
