"""The codec of the engine's end: bytes of the host to commands, events of the engine to bytes.

It splits lines, sorts frames by type and hands them on: `user` to `prompts`, `control_request` to
`control_requests`, `control_response` to `asks`. Events go to `encode`, replies to whoever sent the command.
A bad line never raises: it becomes a `MalformedCommand` and a warning to the host. Prompts wait until `initialize` is
answered, because servers inside the host may serve them. `app/serving` creates it and drives it.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from polylect.dialects.base import Env
from polylect.dialects.claude.engine.asks import PendingAsks
from polylect.dialects.claude.engine.control_requests import ControlRequests
from polylect.dialects.claude.engine.encode import EventWriter, States
from polylect.dialects.claude.engine.engine_info import EngineInfo
from polylect.dialects.claude.engine.line_writer import LineId, LineWriter, Output
from polylect.dialects.claude.engine.prompts import Prompts
from polylect.dialects.claude.versions import OUR_MODES, VERSIONS
from polylect.dialects.line_codec import LineCodec
from polylect.vocab.commands import Command, Configure, Hello, MalformedCommand, Quit, UnknownCommand
from polylect.vocab.events import Ask, AskClosed, Event, HostCall, HostCallEnded, Reply
from polylect.wire import jsonl


class EngineSide(LineCodec[Command]):
    """Options beside `version` and `max_line`:

    session, cwd, model, mode   values until the engine reports its own
    key_source                  `apiKeySource` of init
    pid                         reported in the answer to initialize
    partial                     blocks also as deltas (--include-partial-messages)
    replay                      prompts are written back (--replay-user-messages)
    forward_agents              the text of sub-agents is shown too (--forward-subagent-text)
    session_state               write `session_state_changed`; "hidden" adds `sdk_host_only`
    prompts                     a host answers permission prompts; else asks are denied at once
    strict                      a bad line ends the conversation (--strict-input)
    output                      all of it (`stream-json`), or only the result as `json` or as `text`
    prompt                      the one prompt of `-p`, submitted at the start
    line_id                     derives the uuids of messages, so that they can be found again; else random
    max_output                  the most output tokens of a model; else unknown
    """

    def __init__(
        self,
        env: Env,
        *,
        version: str = VERSIONS[0],
        max_line: int = jsonl.MAX_LINE,
        session: str = "",
        cwd: str = "",
        model: str = "",
        mode: str = "default",
        key_source: str = "none",
        pid: int = 0,
        partial: bool = False,
        replay: bool = False,
        forward_agents: bool = False,
        prompts: bool = True,
        session_state: States = False,
        strict: bool = False,
        output: Output = "stream-json",
        prompt: str = "",
        line_id: LineId | None = None,
        max_output: Callable[[str], int] | None = None,
    ) -> None:
        super().__init__(env, max_line)
        self._out = LineWriter(env, version, session=session, output=output, line_id=line_id)
        self._prompts = Prompts(self._out, replay=replay)
        info = EngineInfo(cwd=cwd, model=model, mode=OUR_MODES.get(mode, mode), key_source=key_source)
        self._writer = EventWriter(self._out, info, self._prompts, partial=partial, states=session_state)
        self._writer.tasks.forward = forward_agents
        if max_output:
            self._writer.cost.max_output = max_output
        self._asks = PendingAsks(self._writer, prompts=prompts)
        self._requests = ControlRequests(self._writer, self._prompts, self._asks, pid=pid)
        self._prompt = prompt
        self._strict = strict
        self._bad_input = False

    @property
    def lost(self) -> Counter[str]:
        """How many events had no frame on this wire, by the name of the event."""
        return self._out.lost

    @property
    def exit_code(self) -> int:
        """1 if the last result was an error, or a bad line ended the conversation."""
        return int(self._writer.failed or self._bad_input)

    # The interface of a codec.

    def start(self) -> list[Command]:
        """`Hello`, and the prompt of `-p`. Not every host sends `initialize`, but `system/init` needs `Hello`."""
        if not self._prompt:
            return [Hello()]
        return [Hello(), *self._prompts.read({"message": {"role": "user", "content": self._prompt}})]

    def receive_eof(self) -> list[Command]:
        return [*super().receive_eof(), *self._release_prompts()]

    def send(self, event: Event) -> list[Command]:
        match event:
            case Reply():
                self._reply(event)
                return [] if self._requests.open_initializes else self._release_prompts()
            case Ask():
                return self._asks.ask(event)
            case AskClosed():
                self._asks.ask_closed(event)
            case HostCall():
                return self._asks.host_call(event)
            case HostCallEnded():
                self._asks.host_call_ended(event)
            case _:
                self._writer.write(event)
        return []

    def data_to_send(self) -> bytes:
        return self._writer.data_to_send()

    def due(self) -> int | None:
        """In how many milliseconds `data_to_send` has to be called again; None if nothing is held back."""
        return self._writer.due()

    def note_sent(self, data: bytes) -> list[Command]:
        """Nothing is written to this wire by other means."""
        return []

    # Lines of the host.

    def _receive_line(self, line: bytes | jsonl.TooLong) -> list[Command]:
        if isinstance(line, jsonl.TooLong):
            return self._malformed(line.start, f"the line is longer than {line.limit} bytes")
        try:
            frame = jsonl.parse(line)
            kind = frame.get("type")
            if not isinstance(kind, str):
                raise ValueError('expected a "type"')
            if kind not in _FRAMES:
                self._out.inform(f"A line of the unknown type {kind[:80]!r} was skipped.", "warning")
                return [UnknownCommand(kind, line)]
            return _FRAMES[kind](self, frame, line)
        except ValueError as error:
            return self._malformed(line, str(error))

    def _malformed(self, raw: bytes, why: str) -> list[Command]:
        self._out.inform(f"A line was skipped: {why}", "warning")
        self._bad_input = self._bad_input or self._strict
        return [MalformedCommand(raw, why), *([Quit(f"bad input: {why}")] if self._strict else [])]

    def _user(self, frame: dict[str, Any], raw: bytes) -> list[Command]:
        self._prompts.held += self._prompts.read(frame)
        return [] if self._requests.open_initializes else self._release_prompts()

    def _release_prompts(self) -> list[Command]:
        held, self._prompts.held = self._prompts.held, []
        return [*held]

    def _control_request(self, frame: dict[str, Any], raw: bytes) -> list[Command]:
        return self._requests.handle(frame, raw)

    def _control_response(self, frame: dict[str, Any], raw: bytes) -> list[Command]:
        response = frame.get("response")
        if not isinstance(response, dict):
            raise ValueError("control_response: expected a response")
        return self._asks.answer(response)

    def _keep_alive(self, frame: dict[str, Any], raw: bytes) -> list[Command]:
        return []

    def _environment(self, frame: dict[str, Any], raw: bytes) -> list[Command]:
        variables = frame.get("variables")
        if not isinstance(variables, dict):
            raise ValueError("update_environment_variables: expected variables")
        return [Configure({"environment": variables})]

    # Replies of the engine.

    def _reply(self, event: Reply) -> None:
        if self._requests.reply(event):
            return
        turn = self._prompts.replied(event.ref)
        if turn is not None and event.failure is None:
            self._prompts.accepted(turn, busy=self._writer.turn is not None)
        elif turn is not None and event.failure:
            self._writer.refused(turn, event.failure)


_FRAMES: dict[str, Callable[[EngineSide, dict[str, Any], bytes], list[Any]]] = {
    "user": EngineSide._user,
    "control_request": EngineSide._control_request,
    "control_response": EngineSide._control_response,
    "keep_alive": EngineSide._keep_alive,
    "update_environment_variables": EngineSide._environment,
}
