"""The codec of the host's end: bytes of the engine to events, commands of the host to bytes.

Frames of the control protocol are handled here, all others by `decode`; the `Completer` adds the events that this wire
leaves out, so that every turn follows the grammar of the vocabulary. One prompt at a time is sent to the vendor's
program, because it merges prompts that wait into one turn (`PromptQueue`). A bad line never raises: it becomes a
`MalformedEvent`. `polylect.host` creates it and drives it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from polylect.dialects.base import Env
from polylect.dialects.claude.host.commands import CommandWriter
from polylect.dialects.claude.host.decode import BadFrame, EventReader
from polylect.dialects.claude.versions import VERSIONS
from polylect.dialects.host_base import ENGINE_GONE
from polylect.dialects.host_codec import HostCodec
from polylect.dialects.lenient import Object, inner, text
from polylect.vocab import commands as c
from polylect.vocab import events as e
from polylect.wire import jsonl

_HOST_CALLS = {"hook_callback": "hook", "mcp_message": "mcp_message", "request_user_dialog": "dialog"}


class HostSide(HostCodec):
    """Understands every version of the wire. Options beside `version` and `max_line`:

    hold         send one prompt at a time; False for engines that give each prompt a turn of its own
    resumed      the totals of the engine may begin with those of an earlier process
    cost_before  what the session had cost before this process, if that is known
    offers       what the host offers to the engine, as in `Hello.offers`
    initialize   further fields of the `initialize` request: agents, systemPrompt, jsonSchema and others
    """

    def __init__(
        self,
        env: Env,
        *,
        version: str = VERSIONS[0],
        max_line: int = jsonl.MAX_LINE,
        hold: bool = True,
        resumed: bool = False,
        cost_before: float | None = None,
        offers: Object | None = None,
        initialize: Object | None = None,
    ) -> None:
        super().__init__(env, max_line, hold=hold)
        self._reader = EventReader(env.new_id, resumed=resumed, cost_before=cost_before)
        fields = {"forwardSubagentText": True, **(initialize or {})}
        self._commands = CommandWriter(
            self._out.append, env.new_id, self._reader, self._queue, offers=offers or {}, fields=fields
        )

    # The interface of a codec.

    def memory(self, *, new_session: bool) -> Mapping[str, Any]:
        return {} if new_session else {"resumed": True, "cost_before": self._reader.cost.of_session.cost}

    def start(self) -> list[e.Event]:
        self._commands.begin()
        return []

    def _engine_gone(self) -> list[e.Event]:
        turns = [*self._queue.running, *[prompt.turn for prompt in self._queue.drop()]]
        announced = [turn for turn in turns if turn not in self._commands.silent]
        gone = [e.TurnEnded("error", failure=ENGINE_GONE, turn=turn) for turn in announced]
        return [*self._reader.flush(), *gone]

    def _handle(self, command: c.Command) -> list[e.Event]:
        return self._commands.write(command)

    def note_sent(self, data: bytes) -> list[e.Event]:
        events: list[e.Event] = []
        for line in self._own_lines.feed(data):
            try:
                events += self._overhear_frame(jsonl.parse(line)) if isinstance(line, bytes) else []
            except ValueError:
                continue  # what the engine will not understand either
        return self._complete(events)

    # Lines of the engine.

    def _receive_line(self, line: bytes | jsonl.TooLong) -> list[e.Event]:
        if isinstance(line, jsonl.TooLong):
            return self._malformed(line.start, f"the line is longer than {line.limit} bytes")
        try:
            frame = jsonl.parse(line)
            kind = _kind(frame)
            events = _CONTROL[kind](self, frame) if kind in _CONTROL else self._reader.read(kind, frame)
        except ValueError as error:
            return self._malformed(line, str(error))
        self.outcomes["unknown" if events is None else "known"] += 1
        return self._complete([e.UnknownEvent(kind, line)] if events is None else self._after(events))

    def _after(self, events: list[e.Event]) -> Iterator[e.Event]:
        """Adds the user message and `Settled`, hides silent turns, and sends the next prompt when a turn has ended."""
        silent = self._commands.silent
        for event in events:
            match event:
                case e.TurnStarted():
                    yield from self._turn_started(event)
                case e.TurnEnded(turn=turn):
                    if turn not in silent:
                        yield event
                    silent.discard(turn)
                    self._commands.steers.discard(turn)
                    self._commands.release(self._queue.ended(turn))
                    yield from self._settle_if_idle()
                case e.AgentEnded():
                    yield event
                    yield from self._settle_if_idle()
                case e.Settled():
                    yield from self._settle_if_idle()
                case e.QueueChanged(prompts):
                    yield replace(event, prompts=tuple(turn for turn in prompts if turn not in silent))
                case _:
                    yield event

    def _turn_started(self, event: e.TurnStarted) -> Iterator[e.Event]:
        if event.turn in self._commands.silent:
            self._queue.began(event.turn)
            return
        yield from self._begin_turn(event, steer=event.turn in self._commands.steers)
        self._commands.release(self._queue.ready())  # a tape may begin after `initialize`

    # The control protocol, from the engine.

    def _control_request(self, frame: Object) -> list[e.Event] | None:
        id, request = text(frame, "request_id"), inner(frame, "request")
        subtype = text(request, "subtype")
        if not id or not subtype:
            raise BadFrame("expected a request_id and a request with a subtype")
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
        agent = reader.calls.agent_of(call) or reader.agents.agent_of(text(request, "agent_id"))
        return [*self._commands.asks.open(id, request, turn=reader.turn, agent=agent)]

    def _control_cancel(self, frame: Object) -> list[e.Event]:
        id = text(frame, "request_id")
        if self._commands.host_calls.pop(id, None):
            return [e.HostCallEnded(id)]
        return [*(self._commands.asks.close(id) or [])]

    def _control_response(self, frame: Object) -> list[e.Event]:
        response = inner(frame, "response")
        if not text(response, "request_id"):
            raise BadFrame("response: expected an object with a request_id")
        return self._commands.requests.answered(response)

    # Lines that this end has written by other means.

    def _overhear_frame(self, frame: Object) -> list[e.Event]:
        match text(frame, "type"):
            case "user" if turn := text(frame, "uuid"):
                content = inner(frame, "message").get("content")
                self._queue.began(turn, c.Prompt(turn, content) if isinstance(content, str) else None)
                self._reader.sent[turn] = None
            case "control_request":
                request = inner(frame, "request")
                handler = self._commands.initialized if text(request, "subtype") == "initialize" else None
                self._commands.requests.note_sent(text(frame, "request_id"), text(request, "subtype"), handler)
            case "control_response":
                return self._overhear_response(inner(frame, "response"))
        return []

    def _overhear_response(self, response: Object) -> list[e.Event]:
        id, payload = text(response, "request_id"), inner(response, "response")
        self._commands.host_calls.pop(id, None)
        how = {"allow": "allowed", "deny": "denied", "accept": "answered"}
        outcome = how.get(text(payload, "behavior") or text(payload, "action"), "cancelled")
        return [replace(closed, how=outcome) for closed in self._commands.asks.close(id) or []]


_CONTROL: dict[str, Callable[[HostSide, Object], list[e.Event] | None]] = {
    "control_request": HostSide._control_request,
    "control_response": HostSide._control_response,
    "control_cancel_request": HostSide._control_cancel,
}


def _kind(frame: Object) -> str:
    """The type of a frame; `system/` and the subtype of a `system` frame. Raises BadFrame."""
    kind, subtype = frame.get("type"), frame.get("subtype")
    if not isinstance(kind, str) or not kind:
        raise BadFrame("type: expected a word")
    if kind != "system":
        return kind
    if not isinstance(subtype, str) or not subtype:
        raise BadFrame("subtype: expected a word")
    return f"system/{subtype}"


def _params(subtype: str, request: Object) -> Object:
    if subtype == "hook_callback":
        hook_input, call = request.get("input"), text(request, "tool_use_id")
        return {"callback": text(request, "callback_id"), "input": hook_input, "call": call}
    return {key: value for key, value in request.items() if key != "subtype"}
