"""What a codec and the engines behind it pass to each other, whatever carries the bytes.

Commands go to the engine of the first conversation or to the further session that they name; events go to the codec.
Commands that arrive before the engine is open are stored and handled then; a cancel of them is answered at once. What
a codec's `send` returns is queued, never handled in place. `serve.py` has one of these on stdin and stdout.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from polylect import plug
from polylect.app.serving.engine_source import ServedEngine
from polylect.app.serving.further_sessions import FurtherSessions
from polylect.app.startup.start import Start, dialect_start
from polylect.dialects.base import EngineSide, Env
from polylect.system.clock_and_ids import new_id, now_ms
from polylect.vocab.commands import Cancel, Command, Prompt, Quit
from polylect.vocab.content import Failure
from polylect.vocab.events import Event, Failed, Reply, TurnEnded
from polylect.wire.jsonl import MAX_LINE

if TYPE_CHECKING:
    from polylect.app.serving.bridge import Bridge


class Conversation:
    """One connection of a host.

    Args:
        start: The start of the process.
        wake: Called when the codec may have something to send.
        wait_writable: Waits while the host reads too slowly.
        bridge: Opens the engines, if they are not our own.

    Attributes:
        codec: Our end of the wire.
        ended: Set when the host has asked for the end.
        opened: Set when commands reach the engine.
        has_first: Whether the connection begins with a conversation.
    """

    def __init__(
        self,
        start: Start,
        wake: Callable[[], None],
        wait_writable: Callable[[], Awaitable[None]],
        bridge: "Bridge | None" = None,
    ) -> None:
        self.codec = _codec(start)
        self.ended = asyncio.Event()
        self.opened = asyncio.Event()
        wire = dialect_start(start.values)
        self.has_first = wire is None or bool(wire.FIRST_SESSION)
        self._several = bool(wire and wire.SEVERAL_SESSIONS)
        """Whether this wire carries several sessions at once."""
        self._start = start
        self._wake = wake
        self._inbox: deque[Command] = deque()
        self._early_commands: list[Command] | None = []
        """Commands that came before the engine was opened; None afterwards."""
        self._further = FurtherSessions(start, self.emit, wait_writable, bridge)
        self._engine: ServedEngine

    def begin(self, engine: ServedEngine | None) -> None:
        """Handles the commands so far. `engine` is that of the first conversation; None on a wire that has none."""
        if engine is None:
            from polylect.app.serving.stored_sessions import StoredSessions  # other wires do without

            self._engine = StoredSessions(self._start, self._further, self.emit)
        else:
            self._engine = engine
        early, self._early_commands = self._early_commands or [], None
        for command in early:
            self._engine.handle(command)
        self.opened.set()

    def input_closed(self, *, stop: bool) -> None:
        """The host sends no more commands; see `Engine.input_closed`."""
        self._engine.input_closed(stop=stop)
        self._further.input_closed(stop=stop)

    async def settled(self) -> None:
        """Returns once nothing runs or waits."""
        await self._engine.settled()
        await self._further.settled()

    async def close(self) -> None:
        """Ends all sessions."""
        await self._further.close()
        await self._engine.close()

    def fail(self, failure: Failure) -> None:
        """The engine cannot be opened: every prompt so far gets its end, or, if there is none, the host an error."""
        prompts = [command for command in self._early_commands or () if isinstance(command, Prompt)]
        for prompt in prompts:
            self._reply(prompt)
            self.emit(TurnEnded("error", failure=failure, turn=prompt.turn))
        if not prompts:
            self.emit(Failed(failure))

    # Commands from the host.

    def receive(self, data: bytes) -> None:
        self.handle_all(self.codec.receive(data))

    def handle_all(self, commands: list[Command]) -> None:
        for command in commands:
            if isinstance(command, Quit):
                return self.ended.set()
            self.handle(command)
        self._wake()

    def handle(self, command: Command) -> None:
        if self._several and command.session and command.session != self._session:
            self._further.handle(command)
        elif self._early_commands is None:
            self._engine.handle(command)
        elif isinstance(command, Cancel) and command.what == "turn":
            self._cancel_early(command)
        else:
            self._early_commands.append(command)

    @property
    def _session(self) -> str:
        """The id of the first conversation, which may have gone on in another session."""
        return self._engine.session_id if self._early_commands is None else self._start.session

    def _cancel_early(self, command: Cancel) -> None:
        """Cancels prompts that wait for the engine."""
        waiting, self._early_commands = self._early_commands or [], []
        for one in waiting:
            if isinstance(one, Prompt) and command.queued == "drop":
                self._reply(one)
                self.emit(TurnEnded("cancelled", turn=one.turn))
            else:
                self._early_commands.append(one)
        self._reply(command)

    # Events to the host.

    def emit(self, event: Event) -> None:
        if follows := self.codec.send(event):
            self._inbox.extend(follows)
            asyncio.get_running_loop().call_soon(self._handle_inbox)
        self._wake()

    def _handle_inbox(self) -> None:
        while self._inbox:
            self.handle(self._inbox.popleft())

    def _reply(self, command: Command) -> None:
        if command.ref:
            self.emit(Reply(command.ref))


def _codec(start: Start) -> EngineSide:
    values, limit = start.values, start.values.get("max_line")
    max_line = limit if isinstance(limit, int) and limit else MAX_LINE
    env = Env(now=now_ms, new_id=new_id)
    if ours := dialect_start(values):
        engine_side = plug.load(f"dialects.{values['dialect']}.engine", "codec").EngineSide
        options = ours.codec_options(values, start.env, start.session)
        codec: EngineSide = engine_side(Env(env.now, ours.new_id), max_line=max_line, **options)
    else:
        from polylect.dialects.jsonstream.engine.codec import EngineSide as JsonStream  # other wires do without: 4 ms

        codec = JsonStream(
            env,
            version=str(values["protocol"]),
            max_line=max_line,
            path_grants=bool(values.get("path_grants")),
            budget_grants=bool(values.get("budget_grants")),
            announce_calls=bool(values.get("assistant") or values.get("announce_calls")),
        )
    codec.note_sent(start.ready_frame)
    return codec
