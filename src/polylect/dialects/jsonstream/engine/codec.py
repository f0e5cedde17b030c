"""The engine's end of the json-stream wire: lines of a host to commands, events to lines.

The wire has no replies: a command that succeeds is answered by its effects, one that fails by an `error` or `info`. An
answer is accepted only for an ask that waits, and only once. Asks and host calls that a json-stream host cannot handle
are refused at once, because the engine would wait for ever. Serving code makes one `EngineSide` a connection.
"""

from collections import Counter

from polylect.dialects.base import Env
from polylect.dialects.jsonstream import asks as asks_format
from polylect.dialects.jsonstream import events, undocumented_commands
from polylect.dialects.jsonstream import wayland_desktop as desktop
from polylect.dialects.jsonstream.commands import COMMANDS
from polylect.dialects.jsonstream.engine.encode import EventWriter
from polylect.dialects.jsonstream.frames import base as shapes
from polylect.dialects.jsonstream.frames import optional
from polylect.dialects.jsonstream.frames import table as frames
from polylect.dialects.jsonstream.frames.read import Bad, Unknown, read_command, read_event
from polylect.dialects.jsonstream.undocumented_commands import ContinueWithBudget, GrantPath
from polylect.dialects.jsonstream.versions import ERROR_CODES, OUR_MODES, SAYS_MCP_FAILED, VERSIONS
from polylect.dialects.line_codec import LineCodec
from polylect.vocab import commands as c
from polylect.vocab import events as e
from polylect.vocab.content import Failure, Usage
from polylect.wire import jsonl

_NO_APPROVAL = "no approval waits for this resume_token"
_READ = COMMANDS | undocumented_commands.COMMANDS


class EngineSide(LineCodec[c.Command]):
    """The engine's end of one connection. `version` is 0.1.0 or 0.2.0; `max_line` the longest line that is read.

    `path_grants` and `budget_grants`: whether the host may widen what the engine reaches and spends; the launcher says.
    `announce_calls`: whether calls without a question are shown with their arguments, to a host that knows that frame.
    """

    exit_code = 0

    def __init__(
        self,
        env: Env,
        *,
        version: str = VERSIONS[0],
        max_line: int = jsonl.MAX_LINE,
        path_grants: bool = True,
        budget_grants: bool = True,
        announce_calls: bool = False,
    ) -> None:
        super().__init__(env, max_line)
        self._version = version
        self._writer = EventWriter(version, announce_calls=announce_calls and version != "0.1.0")
        self._grants = {GrantPath: path_grants, ContinueWithBudget: budget_grants}
        self._text = self._writer.text
        self._commands: dict[str, c.Command] = {}
        """Commands that wait for their reply, by ref."""
        self._resumed: dict[str, shapes.ApprovalResume] = {}
        """Those among them with a token that only the engine can know: it was asked before a restart."""

    @property
    def lost(self) -> Counter[str]:
        """How many events the wire had no frame for, by the name of the event."""
        return self._writer.lost

    # The interface of a codec.

    def send(self, event: e.Event) -> list[c.Command]:
        if type(event) is e.TextDelta:
            self._text(event)
        elif isinstance(event, e.Reply):
            self._reply(event)
        elif follows := self._cannot_ask(event):
            self.lost[type(event).__name__] += 1
            return follows
        else:
            self._writer.write(event)
        return []

    def _cannot_ask(self, event: e.Event) -> list[c.Command]:
        """The refusal of an ask or call that the host cannot answer, else the engine would wait for ever (L1)."""
        match event:
            case e.HostCall(call=call, method=method):
                return [
                    c.HostReply(call, error=f"a json-stream host cannot be asked for {method}", session=event.session)
                ]
            case e.Ask(ask=ask, kind="form" | "url" as kind):
                return [
                    c.Answer(ask, "cancelled", reason=f"a json-stream host cannot show a {kind}", session=event.session)
                ]
            case _:
                return []

    def data_to_send(self) -> bytes:
        return self._writer.data_to_send()

    def due(self) -> int | None:
        """Nothing is ever held back."""
        return None

    def note_sent(self, data: bytes) -> list[c.Command]:
        for line in self._own_lines.feed(data):
            match read_event(line):
                case shapes.Ready(capabilities=capabilities) as ready, fields:
                    mode = OUR_MODES.get(capabilities.current_mode, capabilities.current_mode)
                    self._writer.note_abilities(events.abilities_of(fields.get("capabilities", {})), mode)
                    self._writer.note(ready)
                case frame, _:
                    self._writer.note(frame)
        return []

    # Lines of the host.

    def _receive_line(self, line: bytes | jsonl.TooLong) -> list[c.Command]:
        raw = line.start if isinstance(line, jsonl.TooLong) else line
        match read_command(line, self._version):
            case Unknown(kind, fields) if self._version != "0.1.0" and (refusal := desktop.refusal_of(kind, fields)):
                self._writer.write_frame(refusal)
                return []
            case Unknown(kind):
                self._write_error(_unknown(kind, self._version))
                return [c.UnknownCommand(kind, raw)]
            case Bad(why, kind, name):
                return [self._malformed(raw, why, kind, name)]
            case frame, fields:
                try:
                    return self._command(frame)
                except asks_format.UnknownAsk as error:
                    self._writer.refuse(_unknown_ask(fields["type"], str(error)))
                    return [c.MalformedCommand(raw, str(error))]
                except ValueError as error:
                    return [self._malformed(raw, str(error), fields["type"], fields.get("name", ""))]

    def _command(self, frame: shapes.Frame) -> list[c.Command]:
        match frame:
            case shapes.Ping():
                self._writer.write_frame(shapes.Pong())
                return []
            case GrantPath() | ContinueWithBudget() if not self._grants[type(frame)]:
                self._writer.write_frame(_not_authorized(frame))
                return []
            case shapes.ToolApprove() | shapes.ToolDeny():
                command: c.Command = self._answer(frame)
            case shapes.ApprovalResume():
                command = self._resume(frame)
            case _:
                command = _READ[type(frame)](frame, self._env.new_id())
        self._commands[command.ref] = command
        return [command]

    def _answer(self, frame: shapes.ToolApprove | shapes.ToolDeny) -> c.Answer:
        """Only a call that waits can be answered, and only once (A1)."""
        ask = self._writer.asks.get(frame.call_id)
        if ask is None:
            raise asks_format.UnknownAsk(f"no call with the call_id {frame.call_id[:80]!r} waits for an answer")
        answer = asks_format.answer_of(frame, ask, self._env.new_id())
        del self._writer.asks[frame.call_id]
        return answer

    def _resume(self, frame: shapes.ApprovalResume) -> c.Answer:
        ask = self._writer.suspended.get(frame.resume_token)
        if ask is None and (self._writer.busy or not self._writer.can_write("approval_required")):
            raise asks_format.UnknownAsk(_NO_APPROVAL)
        answer = asks_format.resume_of(frame, self._env.new_id())
        if ask is None:
            self._resumed[answer.ref] = frame
        else:
            self._writer.suspended[frame.resume_token] = None
        return answer

    def _malformed(self, raw: bytes, why: str, kind: str, name: str) -> c.Command:
        if kind:
            self._write_error(f"Invalid {kind} command: {why}")
        else:
            self._write_error(f'Invalid command: {why}. Send one JSON object with a "type" on each line.')
        if kind == "add_mcp_server" and name and SAYS_MCP_FAILED[self._version]:
            self._writer.server_failed(name, why)
        return c.MalformedCommand(raw, why)

    def _write_error(self, message: str) -> None:
        self._writer.error(shapes.Fault(ERROR_CODES["host"], message))

    # Replies of the engine. Only refusals and a few results have a frame.

    def _reply(self, event: e.Reply) -> None:
        command, failure = self._commands.pop(event.ref, None), event.failure
        resumed = self._resumed.pop(event.ref, None)
        if command and (answer := self._answer_to(command, failure)):
            self._writer.write_frame(answer)
            return
        if failure is None:
            if isinstance(command, c.Prompt):
                self._writer.open(command.turn)
            if resumed:
                self._writer.write_frame(optional.ApprovalResumed(resumed.resume_token, resumed.approved))
            return
        fault = events.fault(failure)
        match command:
            case c.Prompt(turn) if failure.code != "duplicate_turn":
                self._writer.error(fault, turn)
                self._writer.stream_end(turn, "error", Usage())
            case c.AddServer(server):
                self._writer.error(fault)
                if SAYS_MCP_FAILED[self._version] or failure.code != "late_server":
                    self._writer.server_failed(server.name, failure.message, explained=True)
            case _ if resumed and failure.code == "unknown_ask":
                self._writer.refuse(_unknown_ask("approval_resume", _NO_APPROVAL))
            case _:
                self._writer.refuse(fault)

    def _answer_to(self, command: c.Command, failure: Failure | None) -> shapes.Frame | None:
        tools = self._writer.tools.pop(command.name, []) if isinstance(command, c.ChangeServer) else []
        return undocumented_commands.answer_to(command, failure, tools)


def _not_authorized(frame: GrantPath | ContinueWithBudget) -> shapes.Frame:
    if isinstance(frame, GrantPath):
        return desktop.path_grant_refused(frame.grant_id, frame.root)
    return undocumented_commands.budget_refused(frame, "host_not_authorized")


def _unknown_ask(kind: str, why: str) -> shapes.Fault:
    return shapes.Fault(ERROR_CODES["host"], f"Invalid {kind} command: {why}")


def _unknown(kind: str, version: str) -> str:
    """The text that aionrs 0.1.0 documents, and the nearest command if there is one."""
    from difflib import get_close_matches  # 3 ms, and only for hosts that misspell

    near = get_close_matches(kind[:80], frames.COMMANDS[version], n=1)
    return f"Unknown command type: {kind[:80]}" + (f". Did you mean {near[0]}?" if near else "")
