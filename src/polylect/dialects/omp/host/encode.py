"""Turns commands of the vocabulary into command frames, where that needs no state.

Raises `Refusal` for what this version of the wire has no frame for. Called by the handlers of `codec`.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from polylect.dialects.host_base import Refusal
from polylect.dialects.omp.frames import commands as requests
from polylect.dialects.omp.frames import messages
from polylect.dialects.omp.frames.events import Frame
from polylect.dialects.omp.host.dialogs import QuestionDialog
from polylect.vocab.answers import LEVELS
from polylect.vocab.commands import (
    Answer,
    Authenticate,
    ChangeSteer,
    Configure,
    Hello,
    HostReply,
    OpenSession,
    Query,
    RunShell,
)
from polylect.vocab.content import Attachment, Image
from polylect.vocab.events import Ask, HostCall

Requests = list[requests.Request]


def pictures(attachments: tuple[Attachment, ...]) -> tuple[messages.Image, ...]:
    for attachment in attachments:
        if not isinstance(attachment, Image) or not attachment.data:
            raise Refusal("omp can attach only pictures; name other files in the text")
    return tuple(messages.Image(item.data, item.media_type) for item in attachments if isinstance(item, Image))


def hello(command: Hello, version: str) -> Requests:
    """Only 18 hears what a host offers."""
    offers = command.offers
    if (offers.get("tools") or offers.get("uri_schemes")) and version != "18":
        raise Refusal(f"omp {version} has no word for tools that the host runs")
    frames: Requests = []
    if tools := offers.get("tools"):
        frames.append(_made(requests.SetHostTools, tools=tools))
    if schemes := offers.get("uri_schemes"):
        frames.append(_made(requests.SetHostUriSchemes, schemes=schemes))
    return frames


def authenticate(command: Authenticate, version: str) -> Requests:
    if version != "18" or not command.method:
        raise Refusal(f"omp {version} has no word for logging {'in' if command.method else 'out'}")
    return [requests.Login(command.method)]


def open_session(command: OpenSession, version: str) -> requests.Request:
    match command.how:
        case "resume" if command.within and version == "18":
            return requests.OpenSession(command.within)
        case _ if command.within:
            raise Refusal(f"omp {version} has no word for the sessions of another folder")
        case "new":
            return requests.NewSession(command.parent or UNSET)
        case "load" | "resume":
            return requests.SwitchSession(command.target)
    if command.at:
        return requests.Fork(command.at) if version == "pi" else requests.Branch(command.at)
    if version == "pi":
        return requests.Clone()
    raise Refusal("omp forks a session only at a message of the user's: name it in `at`", "no_entry")


def run_shell(command: RunShell) -> requests.Request:
    return requests.Bash(command.command, command.private or UNSET)


def change_steer(command: ChangeSteer, version: str) -> requests.Request:
    if version != "18":
        raise Refusal(f"omp {version} has no word for a single message that waits; only all of them can be dropped")
    if command.action == "promote":
        return requests.PromoteQueuedMessage(command.text)
    return requests.RemoveQueuedMessage(command.text, "steering" if command.when == "soon" else "followUp")


# Settings.


def configure(command: Configure, version: str, provider: str) -> Requests:
    """One frame for each setting; `provider` serves the model in use."""
    frames = []
    for key, value in command.settings.items():
        if key == "provider" and "model" in command.settings:
            continue
        absent = (version == "pi" and key == "interrupt_mode") or (version != "18" and key in _LATER)
        if key not in _SETTINGS or absent:
            raise Refusal(f"omp {version} has no word for the setting {key!r}")
        frames.append(_SETTINGS[key](value, str(command.settings.get("provider") or provider)))
    return frames


def _model(value: Any, provider: str) -> requests.Request:
    """`provider/name`, where the name may have slashes of its own; or a name of the provider in use."""
    served_by, slash, name = str(value).partition("/")
    if not slash:
        served_by, name = provider, str(value)
    if not served_by:
        raise Refusal("omp needs the provider of a model: provider/name", "bad_setting")
    return requests.SetModel(served_by, name)


def _thinking(value: Any, provider: str) -> requests.Request:
    if value not in LEVELS:
        raise Refusal(f"omp thinks in levels ({', '.join(LEVELS)}), not {value!r}", "bad_setting")
    return requests.SetThinkingLevel(value)


def _cycle(value: Any, provider: str) -> requests.Request:
    match value:
        case "model":
            return requests.CycleModel()
        case "thinking":
            return requests.CycleThinkingLevel()
        case _:
            raise Refusal(f"omp cannot cycle {value!r}")


def _set(shape: type[requests.Request], field: str) -> Callable[[Any, str], requests.Request]:
    return lambda value, provider: _made(shape, **{field: value})


def _made(shape: type[requests.Request], **fields: Any) -> requests.Request:
    wire = {renamed: fields[name] for name, renamed in _renamed(shape) if name in fields}
    try:
        return msgspec.convert({**wire, "type": shape.__struct_config__.tag}, shape)
    except msgspec.ValidationError as error:
        raise Refusal(f"omp cannot say this setting: {error}", "bad_setting") from None


def _renamed(shape: type[requests.Request]) -> list[tuple[str, str]]:
    return [(field.name, field.encode_name) for field in msgspec.structs.fields(shape)]


_LATER = ("todos", "fast", "agent_events", "event_filter")
_SETTINGS: dict[str, Callable[[Any, str], requests.Request]] = {
    "model": _model,
    "thinking": _thinking,
    "cycle": _cycle,
    "name": _set(requests.SetSessionName, "name"),
    "steering_mode": _set(requests.SetSteeringMode, "mode"),
    "follow_up_mode": _set(requests.SetFollowUpMode, "mode"),
    "interrupt_mode": _set(requests.SetInterruptMode, "mode"),
    "auto_compaction": _set(requests.SetAutoCompaction, "enabled"),
    "auto_retry": _set(requests.SetAutoRetry, "enabled"),
    "todos": _set(requests.SetTodos, "phases"),
    "fast": _set(requests.SetFastMode, "enabled"),
    "agent_events": _set(requests.SetSubagentSubscription, "level"),
    "event_filter": _set(requests.SetEventFilter, "events"),
}


# Questions.


def query(command: Query, version: str) -> Requests:
    ask = _QUERIES.get((command.what, version)) or _QUERIES.get((command.what, ""))
    if ask is None:
        raise Refusal(f"omp {version} cannot be asked for {command.what!r}")
    return [ask(command.args)]


def _asking(shape: type[requests.Request], **names: str) -> Callable[[dict[str, Any]], requests.Request]:
    """`names` tells which field of the frame an argument of ours fills."""

    def request(args: dict[str, Any]) -> requests.Request:
        filled = {field: args[name] for name, field in names.items() if args.get(name) not in (None, "")}
        return _made(shape, **filled)

    return request


_messages = _asking(requests.GetMessages)
_page = _asking(requests.GetMessagesPage, cursor="cursor", limit="limit")

_QUERIES: dict[tuple[str, str], Callable[[dict[str, Any]], requests.Request]] = {
    ("state", ""): _asking(requests.GetState),
    ("messages", ""): _messages,
    ("messages", "18"): lambda args: (_page if args.keys() & {"cursor", "limit"} else _messages)(args),
    ("last_text", ""): _asking(requests.GetLastAssistantText),
    ("models", ""): _asking(requests.GetAvailableModels),
    ("stats", ""): _asking(requests.GetSessionStats),
    ("cost", ""): _asking(requests.GetSessionStats),
    ("export", ""): _asking(requests.ExportHtml, path="output_path"),
    ("fork_points", ""): _asking(requests.GetBranchMessages),
    ("fork_points", "pi"): _asking(requests.GetForkMessages),
    ("queue", "13"): _asking(requests.GetQueue),
    ("commands", "pi"): _asking(requests.GetCommands),
    ("commands", ""): _asking(requests.GetAvailableCommands),
    ("context", "18"): _asking(requests.GetState),
    ("agents", "18"): _asking(requests.GetSubagents),
    ("agent_messages", "18"): _asking(requests.GetSubagentMessages, agent="subagent_id"),
    ("login_methods", "18"): _asking(requests.GetLoginProviders),
    ("thinking_levels", "18"): _asking(requests.GetAvailableThinkingLevels),
    ("thinking_levels", "pi"): _asking(requests.GetAvailableThinkingLevels),
    ("entries", "18"): _asking(requests.GetEntries, since="since"),
    ("entries", "pi"): _asking(requests.GetEntries, since="since"),
}
"""By what is asked and, where versions differ, by the version. Some of 13's are additions that omp itself refuses."""


# Answers.


def answer(command: Answer, ask: Ask) -> requests.ExtensionUIResponse:
    """A no to anything but a confirmation closes the dialog."""
    reason: str | UnsetType = command.reason or UNSET
    match command.verdict, ask.kind:
        case "allow", "confirm":
            return requests.ExtensionUIResponse(command.ask, confirmed=command.value is not False)
        case "deny", "confirm":
            return requests.ExtensionUIResponse(command.ask, confirmed=False, reason=reason)
        case (("allow" | "deny"), "permission") if label := _decision(command, ask):
            return requests.ExtensionUIResponse(command.ask, value=label, reason=reason)
        case "allow", _:
            return requests.ExtensionUIResponse(command.ask, value=_chosen(command.value, ask))
        case _:
            return requests.ExtensionUIResponse(command.ask, cancelled=True, reason=reason)


def questions_answer(command: Answer, ask: Ask, dialog: QuestionDialog) -> requests.ExtensionUIResponse | None:
    """The response to a dialog with questions; None while others of them wait. A no to one is a no to all."""
    if command.verdict != "allow":
        return requests.ExtensionUIResponse(dialog.id, cancelled=True, reason=command.reason or UNSET)
    dialog.answers.append(_question_answer(command.value, ask, dialog.questions[ask.ask]))
    whole = len(dialog.answers) == len(dialog.questions)
    return requests.ExtensionUIResponse(dialog.id, answers=dialog.answers) if whole else None


def _question_answer(value: Any, ask: Ask, id: str) -> requests.QuestionAnswer:
    """What is no option is the person's own text. Nothing at all is the first option, as in other dialogs."""
    labels = {option.id: option.label for option in ask.options}
    values = [str(one) for one in (value if isinstance(value, list | tuple) else [value]) if one is not None]
    values = values or list(labels)[:1]
    own = ", ".join(one for one in values if one not in labels)
    return requests.QuestionAnswer(id, [labels[one] for one in values if one in labels], own or UNSET)


def _decision(command: Answer, ask: Ask) -> str:
    """The option that means it, if there is one."""
    kind = "reject_once" if command.verdict == "deny" else "allow_always" if command.always else "allow_once"
    return next((option.label for option in ask.options if option.kind == kind), "")


def _chosen(value: Any, ask: Ask) -> str:
    """Options are known by their label on this wire."""
    first = value[0] if isinstance(value, list | tuple) and value else value
    labels = {option.id: option.label for option in ask.options}
    if first is None and labels:
        return next(iter(labels.values()))
    return labels.get(str(first), str(first)) if first is not None else ""


def host_reply(command: HostReply, call: HostCall) -> Frame:
    if call.method == "uri":
        if command.error:
            return requests.HostUriResult(command.call, is_error=True, error=command.error)
        result = command.result if isinstance(command.result, dict) else {"content": command.result}
        content_type = result.get("contentType") or UNSET
        return requests.HostUriResult(command.call, content=_as_text(result.get("content")), content_type=content_type)
    if command.partial:
        return requests.HostToolUpdate(command.call, _outcome(command.result))
    if command.error:
        return requests.HostToolResult(command.call, _outcome(command.error), is_error=True)
    failed = isinstance(command.result, dict) and command.result.get("isError") is True
    return requests.HostToolResult(command.call, _outcome(command.result), is_error=failed or UNSET)


def _outcome(result: Any) -> messages.ToolOutcome:
    content = result.get("content") if isinstance(result, dict) else None
    try:
        return messages.ToolOutcome(msgspec.convert(content, list[messages.ContentBlock]))
    except msgspec.ValidationError:
        return messages.ToolOutcome([messages.Text(_as_text(result))])


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
