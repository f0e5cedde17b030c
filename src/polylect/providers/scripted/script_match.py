"""Where a conversation stands, as a script sees it, and which reply comes next.

All of it is derived from the request: a resumed session goes on where it was.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from polylect.providers.scripted.parse import Pattern, Reply, ResultPattern, Script, When, listed
from polylect.vocab.content import Document, Message, Text, Thinking, ToolCall, ToolResult
from polylect.vocab.ports import ModelRequest
from polylect.wire import lazy_regex

_HOLE = lazy_regex.pattern(r"\{\{([\w.]+)\}\}|\{([\w.]+)\}")
_NAMES = lazy_regex.pattern(r"(prompt|result|tool|outcome|turn|step|calls|i|(match|args)\.\w+)\Z")


class FinishedCall(Struct, frozen=True):
    """A call of this turn and what came of it."""

    call: ToolCall
    result: ToolResult


class ScriptPosition(Struct, frozen=True):
    """The turn and step of a request. A turn begins at the last user message, a step at each reply after it."""

    request: ModelRequest
    prompt: str
    turn: int
    step: int
    results: tuple[FinishedCall, ...]
    """Of this turn."""
    latest: tuple[FinishedCall, ...]
    """Of the last step."""


class MatchedReply(Struct, frozen=True):
    """The reply to give, and what stands for the placeholders in it."""

    reply: Reply
    values: dict[str, str]


def position_of(request: ModelRequest) -> ScriptPosition:
    """Counts turns and steps in the messages of a request."""
    users = [index for index, message in enumerate(request.messages) if message.role == "user"]
    start = users[-1] if users else -1
    since = request.messages[start + 1 :]
    replies = [index for index, message in enumerate(since) if message.role == "assistant"]
    last = since[replies[-1] :] if replies else ()
    calls = {block.call: block for message in since for block in message.content if isinstance(block, ToolCall)}
    prompt = next((b.text for b in request.messages[start].content if isinstance(b, Text)), "") if users else ""
    return ScriptPosition(request, prompt, len(users), len(replies) + 1, _done(since, calls), _done(last, calls))


def choose(script: Script, position: ScriptPosition) -> MatchedReply | None:
    """The turn's own reply to this step, else the first rule that holds."""
    if position.turn <= len(script.turns):
        replies = script.turns[position.turn - 1]
        if position.step <= len(replies):
            return MatchedReply(replies[position.step - 1], _values(position, {}, None))
    for reply in script.rules:
        if (values := _holds(reply.head.when, position)) is not None:
            return MatchedReply(reply, values)
    return None


def fill(value: Any, values: Mapping[str, str]) -> Any:
    """Put what is known in the place of `{name}`, at any depth. Unknown names stay; `{{name}}` becomes `{name}`."""
    match value:
        case str():
            return _HOLE.sub(lambda hole: _filled(hole, values), value) if "{" in value else value
        case dict():
            return {key: fill(item, values) for key, item in value.items()}
        case list() | tuple():
            return [fill(item, values) for item in value]
        case _:
            return value


def _filled(hole: re.Match[str], values: Mapping[str, str]) -> str:
    if hole[1]:
        return f"{{{hole[1]}}}" if _NAMES.match(hole[1]) else hole[0]
    return values.get(hole[2], hole[0])


def _done(messages: Sequence[Message], calls: Mapping[str, ToolCall]) -> tuple[FinishedCall, ...]:
    return tuple(
        FinishedCall(calls.get(block.call) or ToolCall(block.call, block.name, {}), block)
        for message in messages
        for block in message.content
        if isinstance(block, ToolResult)
    )


def _holds(when: When, position: ScriptPosition) -> dict[str, str] | None:
    if not (_among(position.turn, when.turn) and _among(position.step, when.step)):
        return None
    groups = _texts_hold(when, position)
    if groups is None:
        return None
    for pattern in when.results:
        if (some := _first(pattern, position.results)) is None:
            return None
        groups |= some[1]
    if when.result is None:
        return _values(position, groups, None)
    pattern = ResultPattern(contains=when.result) if isinstance(when.result, str) else when.result
    matched = _first(pattern, position.latest)
    return None if matched is None else _values(position, groups | matched[1], matched[0])


def _texts_hold(when: When, position: ScriptPosition) -> dict[str, str] | None:
    request = position.request
    history = "\n".join(texts(request.messages)) if when.history is not None else ""
    groups: dict[str, str] = {}
    for pattern, text in (
        (when.prompt, position.prompt),
        (when.system, request.system),
        (when.model, request.model),
        (when.history, history),
        (when.tool, "\n".join(tool.name for tool in request.tools)),
    ):
        matched = {} if pattern is None else _find(pattern, text)
        if matched is None:
            return None
        groups |= matched
    return groups


def _first(pattern: ResultPattern, results: Sequence[FinishedCall]) -> tuple[FinishedCall, dict[str, str]] | None:
    for done in reversed(results):
        if not (_among(done.result.name, pattern.tool) and _among(done.result.outcome, pattern.outcome)):
            continue
        parts = [_find(each, str(done.call.args.get(name, ""))) for name, each in pattern.args.items()]
        parts.append(_find(pattern, done.result.output))
        if all(part is not None for part in parts):
            return done, {name: text for part in parts if part for name, text in part.items()}
    return None


def _among(value: int | str, pattern: Any) -> bool:
    """Nothing wanted is anything."""
    return pattern == () or value in listed(pattern)


def _find(pattern: str | Pattern, text: str) -> dict[str, str] | None:
    """The groups of the expression that was found, by number and name; None if the pattern does not hold."""
    if isinstance(pattern, str):
        return {} if pattern in text else None
    if pattern.contains != () and not any(part in text for part in listed(pattern.contains)):
        return None
    if not _among(text, pattern.equals):
        return None
    if pattern.regex == ():
        return {}
    matches = (re.search(expression, text) for expression in listed(pattern.regex))
    match = next(filter(None, matches), None)
    if match is None:
        return None
    numbered = {str(number): text or "" for number, text in enumerate((match[0], *match.groups()))}
    return numbered | {name: text or "" for name, text in match.groupdict().items()}


def _values(position: ScriptPosition, groups: Mapping[str, str], done: FinishedCall | None) -> dict[str, str]:
    done = done or (position.latest[-1] if position.latest else None)
    values = {"prompt": position.prompt, "turn": str(position.turn), "step": str(position.step)}
    values["calls"] = "\n".join(_line(done) for done in position.results)
    values |= {f"match.{name}": text for name, text in groups.items()}
    if done:
        values |= {"result": done.result.output, "tool": done.result.name, "outcome": done.result.outcome}
        values |= {f"args.{name}": str(value) for name, value in done.call.args.items()}
    return values


def _line(done: FinishedCall) -> str:
    """`- Edit README.md: denied`: a call by its name and first argument, and how it ended."""
    subject = next((f" {value!s:.60}" for value in done.call.args.values()), "").splitlines()
    return f"- {done.result.name}{''.join(subject[:1])}: {done.result.outcome}"


def texts(messages: Sequence[Message]) -> list[str]:
    """Everything in a conversation that can be read."""
    parts: list[str] = []
    for message in messages:
        for block in message.content:
            match block:
                case Text(text) | Thinking(text):
                    parts.append(text)
                case Document():
                    parts.append(block.text)
                case ToolCall():
                    parts.append(str(block.args))
                case ToolResult():
                    parts.append(block.output)
    return parts
