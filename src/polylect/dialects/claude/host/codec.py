"""The host's end: bytes to events, commands to bytes.

It speaks the control protocol, and hands out each block once (`translator.py`). Prompts are kept back while a turn
runs, because the vendor's program makes one of those that wait.
"""

from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from polylect.dialects.base import Env
from polylect.dialects.claude.frames.lenient import Object, inner, text
from polylect.dialects.claude.host.commands import Commands
from polylect.dialects.claude.host.decode import Bad, EventReader
from polylect.dialects.claude.versions import VERSIONS
from polylect.dialects.host_base import ENGINE_GONE, Diagnostics, Refusal, complete, refused
from polylect.dialects.prompt_queue import PromptQueue
from polylect.vocab import commands as c
from polylect.vocab import events as e
from polylect.vocab.complete import Completer
from polylect.wire import jsonl

_HOST_CALLS = {"hook_callback": "hook", "mcp_message": "mcp_message", "request_user_dialog": "dialog"}


class HostSide:
    """Understands every version. `offers` is what `Hello` has under that name, `initialize` further fields of the
    request of that name: agents, systemPrompt, jsonSchema ... `hold=False` sends prompts at once, for engines that give
    each a turn of its own. `resumed` says that the totals may begin with those of an earlier process."""

    def __init__(
        self,
        env: Env,
        *,
        version: str = VERSIONS[0],
        max_line: int = jsonl.MAX_LINE,
        hold: bool = True,
        resumed: bool = False,
        offers: Object | None = None,
        initialize: Object | None = None,
    ) -> None:
        self._env = env
        self._lines = jsonl.Splitter(max_line)
        self._own_lines = jsonl.Splitter(max_line)
        self._reader = EventReader(env.new_id, resumed=resumed)
        self._completer = Completer(env.new_id)
        self._queue = PromptQueue(hold=hold)
        self._settled = True
        fields = {"forwardSubagentText": True, **(initialize or {})}
        self._commands = Commands(env.new_id, self._reader, self._queue, offers=offers or {}, fields=fields)
        self._diagnostics = Diagnostics(env.now)
        self.outcomes = self._diagnostics.outcomes

    # The hinge.

    def start(self) -> list[e.Event]:
        self._commands.begin()
        return []

    def receive(self, data: bytes) -> list[e.Event]:
        return [event for line in self._lines.feed(data) for event in self._hear(line)]

    def receive_eof(self) -> list[e.Event]:
        heard = [event for line in self._lines.end() for event in self._hear(line)]
        turns = [*self._queue.running, *[prompt.turn for prompt in self._queue.drop()]]
        heard_of = [turn for turn in turns if turn not in self._commands.silent]
        gone = [e.TurnEnded("error", failure=ENGINE_GONE, turn=turn) for turn in heard_of]
        return [*heard, *self._complete([*self._reader.flush(), *gone]), *self._completer.close()]

    def send(self, command: c.Command) -> list[e.Event]:
        try:
            return self._complete(self._commands.say(command))
        except Refusal as refusal:
            return [refused(command, refusal)]

    def data_to_send(self) -> bytes:
        return self._commands.take()

    def to_log(self) -> list[str]:
        return self._diagnostics.to_log()

    def overhear(self, data: bytes) -> list[e.Event]:
        heard: list[e.Event] = []
        for line in self._own_lines.feed(data):
            try:
                heard += self._note(jsonl.parse(line)) if isinstance(line, bytes) else []
            except ValueError:
                continue  # what the engine will not understand either
        return self._complete(heard)

    # What the engine says.

    def _hear(self, line: bytes | jsonl.TooLong) -> list[e.Event]:
        if isinstance(line, jsonl.TooLong):
            return self._malformed(line.start, f"the line is longer than {line.limit} bytes")
        try:
            found = jsonl.parse(line)
            kind = _kind(found)
            meaning = _CONTROL[kind](self, found) if kind in _CONTROL else self._reader.read(kind, found)
        except ValueError as error:
            return self._malformed(line, str(error))
        self.outcomes["unknown" if meaning is None else "known"] += 1
        return self._complete([e.UnknownEvent(kind, line)] if meaning is None else self._follow(meaning))

    def _malformed(self, line: bytes, why: str) -> list[e.Event]:
        return self._completer.add(self._diagnostics.malformed(line, why))

    def _follow(self, events: list[e.Event]) -> Iterator[e.Event]:
        """A prompt comes back as what was said in its turn, and the next one goes out when its time has come."""
        silent = self._commands.silent
        for event in events:
            match event:
                case e.TurnStarted():
                    yield from self._begin(event)
                case e.TurnEnded(turn=turn):
                    if turn not in silent:
                        yield event
                    silent.discard(turn)
                    self._commands.steers.discard(turn)
                    self._commands.release(self._queue.ended(turn))
                    yield from self._rest()
                case e.AgentEnded():
                    yield event
                    yield from self._rest()
                case e.Settled():
                    yield from self._rest()
                case e.QueueChanged(prompts):
                    yield replace(event, prompts=tuple(turn for turn in prompts if turn not in silent))
                case _:
                    yield event

    def _begin(self, event: e.TurnStarted) -> Iterator[e.Event]:
        prompt, steer = self._queue.prompt(event.turn), event.turn in self._commands.steers
        self._queue.began(event.turn)
        if event.turn in self._commands.silent:
            return
        self._settled = False
        yield replace(event, cause="engine") if steer else event
        if prompt:
            yield e.UserMessage(prompt.text, "steer" if steer else "prompt", prompt.attachments, turn=event.turn)
        self._commands.release(self._queue.ready())  # a tape may begin after the greeting

    def _rest(self) -> list[e.Event]:
        """Most engines do not say that nothing runs and nothing waits."""
        if self._settled or self._queue.running or not self._completer.idle:
            return []
        self._settled = True
        return [e.Settled()]

    def _complete(self, events: Iterable[e.Event]) -> list[e.Event]:
        return complete(self._completer, events)

    # The control protocol, from the engine.

    def _asked(self, found: Object) -> list[e.Event] | None:
        id, request = text(found, "request_id"), inner(found, "request")
        subtype = text(request, "subtype")
        if not id or not subtype:
            raise Bad("expected a request_id and a request with a subtype")
        if subtype in ("can_use_tool", "elicitation"):
            return self._ask(id, request)
        if subtype not in _HOST_CALLS:
            why = f"Unsupported control request subtype: {subtype}"
            self._commands.respond(id, error=why, code="unsupported_request")
            return None
        self._commands.host_calls[id] = subtype
        return [e.HostCall(id, _HOST_CALLS[subtype], _params(subtype, request), turn=self._reader.turn)]

    def _ask(self, id: str, request: Object) -> list[e.Event]:
        reader, call = self._reader, text(request, "tool_use_id")
        if not reader.calls.knows(call):
            request = {**request, "tool_use_id": ""}
        lane = reader.calls.lane(call) or reader.agents.lane(text(request, "agent_id"))
        return [*self._commands.questions.open(id, request, turn=reader.turn, lane=lane)]

    def _taken_back(self, found: Object) -> list[e.Event]:
        id = text(found, "request_id")
        if self._commands.host_calls.pop(id, None):
            return [e.HostCallEnded(id)]
        return [*(self._commands.questions.close(id) or [])]

    def _answered(self, found: Object) -> list[e.Event]:
        response = inner(found, "response")
        if not text(response, "request_id"):
            raise Bad("response: expected an object with a request_id")
        return self._commands.requests.answered(response)

    # What our own end has said by other means.

    def _note(self, found: Object) -> list[e.Event]:
        match text(found, "type"):
            case "user" if turn := text(found, "uuid"):
                content = inner(found, "message").get("content")
                self._queue.began(turn, c.Prompt(turn, content) if isinstance(content, str) else None)
                self._reader.sent[turn] = None
            case "control_request":
                request = inner(found, "request")
                greet = self._commands.greet if text(request, "subtype") == "initialize" else None
                self._commands.requests.overheard(text(found, "request_id"), text(request, "subtype"), greet)
            case "control_response":
                return self._note_answer(inner(found, "response"))
        return []

    def _note_answer(self, response: Object) -> list[e.Event]:
        id, given = text(response, "request_id"), inner(response, "response")
        self._commands.host_calls.pop(id, None)
        how = {"allow": "allowed", "deny": "denied", "accept": "answered"}
        told = how.get(text(given, "behavior") or text(given, "action"), "cancelled")
        return [replace(closed, how=told) for closed in self._commands.questions.close(id) or []]


_CONTROL: dict[str, Callable[[HostSide, Object], list[e.Event] | None]] = {
    "control_request": HostSide._asked,
    "control_response": HostSide._answered,
    "control_cancel_request": HostSide._taken_back,
}


def _kind(found: Object) -> str:
    """Its type; of a `system` frame, that and its subtype."""
    kind, subtype = found.get("type"), found.get("subtype")
    if not isinstance(kind, str) or not kind:
        raise Bad("type: expected a word")
    if kind != "system":
        return kind
    if not isinstance(subtype, str) or not subtype:
        raise Bad("subtype: expected a word")
    return f"system/{subtype}"


def _params(subtype: str, request: Object) -> Object:
    if subtype == "hook_callback":
        given, call = request.get("input"), text(request, "tool_use_id")
        return {"callback": text(request, "callback_id"), "input": given, "call": call}
    return {key: value for key, value in request.items() if key != "subtype"}
