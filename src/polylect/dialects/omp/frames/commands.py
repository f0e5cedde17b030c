"""The frames that a host sends, as structs.

There are commands, each answered by a `response`, and answers to requests of the engine, which get none. `read.py`
decodes them and `table.py` lists them.
"""

from typing import Annotated, Any

from msgspec import UNSET, Struct, UnsetType

from polylect.dialects.omp.frames.events import Frame
from polylect.dialects.omp.frames.messages import Image, InterruptMode, Level, QueueMode, ToolOutcome
from polylect.dialects.schema import one_of


class Request(Frame, frozen=True, kw_only=True):
    """A command. `id` is echoed as it came; most hosts send strings, and no type is required."""

    id: str | int | UnsetType = UNSET


# Prompting.


class Prompt(Request, frozen=True, tag="prompt"):
    message: str
    images: tuple[Image, ...] = ()
    streaming_behavior: Annotated[str, one_of("steer", "followUp")] | UnsetType = UNSET


class Steer(Request, frozen=True, tag="steer"):
    message: str
    images: tuple[Image, ...] = ()


class FollowUp(Request, frozen=True, tag="follow_up"):
    message: str
    images: tuple[Image, ...] = ()


class Abort(Request, frozen=True, tag="abort"):
    pass


class AbortAndPrompt(Request, frozen=True, tag="abort_and_prompt"):
    message: str
    images: tuple[Image, ...] = ()


class ClearQueue(Request, frozen=True, tag="clear_queue"):
    """pi has it; for omp it is an addition. Drops the messages that wait for the running turn or the next one. `data`
    has the dropped texts, as in `get_queue`."""


class GetQueue(Request, frozen=True, tag="get_queue"):
    """Addition. `data` is `{steering: [text], followUp: [text]}`."""


class RemoveQueuedMessage(Request, frozen=True, tag="remove_queued_message"):
    """After 18.3. Data is `{removed}`."""

    message: str
    queue: Annotated[str, one_of("steering", "followUp")]


class PromoteQueuedMessage(Request, frozen=True, tag="promote_queued_message"):
    """After 18.3: a follow-up becomes the last of the messages that steer. Data is `{promoted}`."""

    message: str


class AbortAndRestoreQueue(Request, frozen=True, tag="abort_and_restore_queue"):
    """After 18.3: `clear_queue` and `abort` in one. Data is that of `clear_queue`."""


# State and settings.


class GetState(Request, frozen=True, tag="get_state"):
    pass


class GetMessages(Request, frozen=True, tag="get_messages"):
    pass


class GetLastAssistantText(Request, frozen=True, tag="get_last_assistant_text"):
    pass


class SetModel(Request, frozen=True, tag="set_model"):
    provider: str
    model_id: str


class CycleModel(Request, frozen=True, tag="cycle_model"):
    pass


class GetAvailableModels(Request, frozen=True, tag="get_available_models"):
    pass


class SetThinkingLevel(Request, frozen=True, tag="set_thinking_level"):
    level: Level


class CycleThinkingLevel(Request, frozen=True, tag="cycle_thinking_level"):
    pass


class SetSteeringMode(Request, frozen=True, tag="set_steering_mode"):
    mode: QueueMode


class SetFollowUpMode(Request, frozen=True, tag="set_follow_up_mode"):
    mode: QueueMode


class SetInterruptMode(Request, frozen=True, tag="set_interrupt_mode"):
    mode: InterruptMode


class SetAutoCompaction(Request, frozen=True, tag="set_auto_compaction"):
    enabled: bool


class SetAutoRetry(Request, frozen=True, tag="set_auto_retry"):
    enabled: bool


class AbortRetry(Request, frozen=True, tag="abort_retry"):
    pass


class Compact(Request, frozen=True, tag="compact"):
    custom_instructions: str | UnsetType = UNSET


class Bash(Request, frozen=True, tag="bash"):
    """`excludeFromContext` (pi): the model is not told of it."""

    command: str
    exclude_from_context: bool | UnsetType = UNSET


class AbortBash(Request, frozen=True, tag="abort_bash"):
    pass


# Sessions.


class NewSession(Request, frozen=True, tag="new_session"):
    parent_session: str | UnsetType = UNSET


class GetSessionStats(Request, frozen=True, tag="get_session_stats"):
    pass


class ExportHtml(Request, frozen=True, tag="export_html"):
    output_path: str | UnsetType = UNSET


class SwitchSession(Request, frozen=True, tag="switch_session"):
    session_path: str


class Branch(Request, frozen=True, tag="branch"):
    entry_id: str


class GetBranchMessages(Request, frozen=True, tag="get_branch_messages"):
    pass


class SetSessionName(Request, frozen=True, tag="set_session_name"):
    name: str


class Fork(Request, frozen=True, tag="fork"):
    """Only in pi."""

    entry_id: str


class GetForkMessages(Request, frozen=True, tag="get_fork_messages"):
    """Only in pi."""


class Clone(Request, frozen=True, tag="clone"):
    """Only in pi."""


class GetCommands(Request, frozen=True, tag="get_commands"):
    """Only in pi."""


# 14 to 18.


class SetTodos(Request, frozen=True, tag="set_todos"):
    phases: list[Any]


class SetHostTools(Request, frozen=True, tag="set_host_tools"):
    """Each tool has a name, a description and parameters (a JSON Schema)."""

    tools: list[dict[str, Any]]


class SetHostUriSchemes(Request, frozen=True, tag="set_host_uri_schemes"):
    schemes: list[Any]


class GetLoginProviders(Request, frozen=True, tag="get_login_providers"):
    pass


class Login(Request, frozen=True, tag="login"):
    provider_id: str


class SetSubagentSubscription(Request, frozen=True, tag="set_subagent_subscription"):
    level: Annotated[str, one_of("off", "progress", "events")]


class GetSubagents(Request, frozen=True, tag="get_subagents"):
    pass


class GetSubagentMessages(Request, frozen=True, tag="get_subagent_messages"):
    """`fromByte` counts in a transcript with a line for each entry. A sub-agent of ours has no file."""

    subagent_id: str | UnsetType = UNSET
    session_file: str | UnsetType = UNSET
    from_byte: int | UnsetType = UNSET


class CancelSubagent(Request, frozen=True, tag="cancel_subagent"):
    """After 18.3. Data is `{cancelled}`."""

    subagent_id: str


class SteerSubagent(Request, frozen=True, tag="steer_subagent"):
    """After 18.3."""

    subagent_id: str
    message: str


class Handoff(Request, frozen=True, tag="handoff"):
    """A new session that begins with a summary of this one. Data is null: nothing is saved beside it."""

    custom_instructions: str | UnsetType = UNSET


class GetAvailableCommands(Request, frozen=True, tag="get_available_commands"):
    pass


class NegotiateProtocol(Request, frozen=True, tag="negotiate_protocol"):
    protocol_version: int


class GetMessagesPage(Request, frozen=True, tag="get_messages_page"):
    cursor: str | UnsetType = UNSET
    limit: int | UnsetType = UNSET


class SetFastMode(Request, frozen=True, tag="set_fast_mode"):
    enabled: bool


class GetEntries(Request, frozen=True, tag="get_entries"):
    since: str | UnsetType = UNSET


class GetTree(Request, frozen=True, tag="get_tree"):
    """Also in pi. `data` is `{tree: [{entry, children: [...]}], leafId}`."""


class GetAvailableThinkingLevels(Request, frozen=True, tag="get_available_thinking_levels"):
    pass


class OpenSession(Request, frozen=True, tag="open_session"):
    session_dir: str


class SetEventFilter(Request, frozen=True, tag="set_event_filter"):
    """`messageUpdates` (after 18.3.4): `delta` leaves the message so far out of updates, but for its role."""

    events: list[str] | UnsetType | None = UNSET
    message_updates: Annotated[str, one_of("full", "delta")] | UnsetType = UNSET


class SetAskDialog(Request, frozen=True, tag="set_ask_dialog"):
    """After 18.3: choices are asked for by the dialog `ask`, in which several options can be chosen."""

    enabled: bool


# Answers.


class QuestionAnswer(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The answer to one question of the dialog `ask`: labels of options, or the person's own words."""

    id: str
    selected_options: list[str] = []
    custom_input: str | UnsetType = UNSET


class Answer(Frame, frozen=True):
    """The answer to a request of the engine. It gets no response."""


class ExtensionUIResponse(Answer, frozen=True, tag="extension_ui_response"):
    """The answer to a dialog: one of `value`, `confirmed`, `answers` (of `ask`) and `cancelled`. Addition: `reason`,
    why the user said no."""

    id: str
    value: str | UnsetType = UNSET
    confirmed: bool | UnsetType = UNSET
    cancelled: bool | UnsetType = UNSET
    timed_out: bool | UnsetType = UNSET
    answers: list[QuestionAnswer] | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class HostToolResult(Answer, frozen=True, tag="host_tool_result"):
    id: str
    result: ToolOutcome
    is_error: bool | UnsetType = UNSET


class HostToolUpdate(Answer, frozen=True, tag="host_tool_update"):
    id: str
    partial_result: ToolOutcome


class HostUriResult(Answer, frozen=True, tag="host_uri_result"):
    id: str
    content: str | UnsetType = UNSET
    content_type: str | UnsetType = UNSET
    is_error: bool | UnsetType = UNSET
    error: str | UnsetType = UNSET
