"""Event frames of 0.2.0 that a host can do without, each written only while its capability is on; the first few always.

Subclasses of `ExtraFrame` are an `Extra` of the same kind in the vocabulary.
"""

from typing import Annotated, Any

from msgspec import UNSET, Struct, UnsetType

from polylect.dialects.jsonstream.frames.base import Count, ExtraFrame, Frame, Opaque
from polylect.dialects.schema import one_of

# Always on: who does not know them drops them.


class ProviderCircuitEvent(Frame, frozen=True, kw_only=True, tag="provider_circuit_event"):
    primary: str
    fallback: str | None = None
    state: Annotated[str, one_of("closed", "open", "half_open")]
    error: str | None = None


class BudgetExceeded(Frame, frozen=True, tag="budget_exceeded"):
    reason: str
    observed: str
    limit: str


class ToolPanicked(Frame, frozen=True, tag="tool_panicked"):
    msg_id: str
    call_id: str
    tool_name: str
    panic_message: str


class PluginRegistrationFailed(Frame, frozen=True, tag="plugin_registration_failed"):
    plugin_name: str
    surface: str
    error_kind: str
    message: str


# streaming_tools


class ToolChunk(Frame, frozen=True, tag="tool_chunk"):
    """One line of output, without its line break. `tool_result` still has the whole output."""

    msg_id: str
    call_id: str
    tool_name: str
    chunk: str


# sub_agent_traces


class SubAgentEvent(Frame, frozen=True, tag="sub_agent_event"):
    """`inner` is an event frame of the sub-agent. If the sub-agent was stopped, the last frame also has
    `terminal_state`, because its `stream_end` does not say so."""

    parent_call_id: str
    agent_name: str
    inner: Opaque
    terminal_state: str | UnsetType = UNSET


# cost_attribution


class CostRow(Struct, frozen=True, omit_defaults=True):
    """One request to a model. `priced` is written (as false) only if the price is not known, so that zero is not read
    as free."""

    turn: Count
    model: str
    provider: str
    cost_usd: float
    priced: bool | UnsetType = UNSET


class SessionCost(Frame, frozen=True, tag="session_cost"):
    """The cost of the whole session so far. `per_turn` may be empty but is always written."""

    session_id: str
    total_cost_usd: float
    per_turn: list[CostRow]


# hitl_suspend


class ApprovalRequired(Frame, frozen=True, kw_only=True, tag="approval_required"):
    call_id: str
    resume_token: str
    correlation_id: str = ""
    reason: str
    context: str


class Suspend(Frame, frozen=True, tag="suspend"):
    reason: str
    resume_token: str


class ApprovalResumed(Frame, frozen=True, tag="approval_resume"):
    """Repeats the answer that the host gave with `approval_resume`. Also written if a timeout or a stop decided."""

    resume_token: str
    approved: bool


# non_destructive_compact


class CompactOffload(ExtraFrame, frozen=True, tag="compact_offload"):
    msg_id: str
    reason: str
    tokens_freed: Count
    active_window_percent: Count | None = None


# structured_traces


class TracedCall(Struct, frozen=True):
    """A row of `tool_calls` in a trace: the fields that hosts use."""

    call_id: str
    tool_name: str
    input: Any
    output_summary: str
    duration_ms: int
    error: str | None = None
    cancelled: bool = False


class Trace(Struct, frozen=True):
    """The object in a `trace_event`: the fields that hosts use."""

    turn: int
    model: str
    provider: str
    input_tokens: int
    output_tokens: int
    cache_read: int
    cache_write: int
    cost_usd: float
    duration_ms: int
    tool_calls: list[TracedCall]
    cost_priced: bool = True


class TraceEvent(ExtraFrame, frozen=True, tag="trace_event"):
    msg_id: str
    trace: Opaque


# browser_suite, computer_use


class BrowserEvent(ExtraFrame, frozen=True, kw_only=True, tag="browser_event"):
    msg_id: str
    call_id: str
    op: str
    url: str | None = None
    summary: str


class BrowserPolicyDenied(ExtraFrame, frozen=True, tag="browser_policy_denied"):
    msg_id: str
    url: str
    reason: str


class CuaEvent(ExtraFrame, frozen=True, kw_only=True, tag="cua_event"):
    msg_id: str
    call_id: str
    op: str
    coords: tuple[int, int] | None = None
    summary: str


class CuaPolicyDenied(ExtraFrame, frozen=True, kw_only=True, tag="cua_policy_denied"):
    msg_id: str
    op: str
    app: str = ""
    reason: str


# plugins, gepa_enabled, online_evolution


class PluginEvent(Frame, frozen=True, tag="plugin_event"):
    plugin_name: str
    event_type: str
    payload: Any


class EvolutionEvent(ExtraFrame, frozen=True, tag="evolution_event"):
    run_id: str
    generation: Count
    parent_id: str
    child_id: str
    mutation_kind: str
    score: float
    retained: bool
