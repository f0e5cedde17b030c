"""Stands where an engine stands, and passes everything on to another engine over its own wire.

Serving code uses it as it uses our own `Engine`: commands go in by `handle`, events come out by `emit`. It adds the
promises that the host in front relies on, whatever the engine behind does: every command with a `ref` gets one
`Reply`, every prompt one `TurnEnded`, and a question that nobody can answer any more is denied. An engine that died is
started again by the next prompt, in the same session.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from polylect.bridge.loss_report import LossReport
from polylect.host.agent import Agent, conversation_of
from polylect.host.errors import HostError
from polylect.host.supported_commands import UNSUPPORTED
from polylect.system.tasks import TaskSet
from polylect.vocab.answers import SessionOpened, State
from polylect.vocab.commands import Answer, Cancel, Command, HostReply, MalformedCommand, Prompt, Query
from polylect.vocab.content import Failure
from polylect.vocab.events import (
    Ask,
    AskClosed,
    Event,
    Failed,
    HostCall,
    HostCallEnded,
    Ready,
    Reply,
    SettingChanged,
    TurnEnded,
)

Emit = Callable[[Event], None]
_AT_ONCE = (Answer, Cancel, HostReply)
"""Commands that do not wait for those before them: only the running engine can use them."""
_HOST_GONE = "the host has closed its end, so nobody can answer"


class BridgedEngine:
    """The engine behind a bridge.

    Args:
        agent: Made by `connect`, and not entered.
        emit: Gets every event for the host in front.
        losses: Counts what does not get across.
        wait_writable: Waits while the host in front reads too slowly.
        session: What the host in front calls the session; empty for the name that the engine has for it.
    """

    def __init__(
        self,
        agent: Agent,
        emit: Emit,
        losses: LossReport,
        wait_writable: Callable[[], Awaitable[None]],
        *,
        session: str = "",
    ) -> None:
        self._wait_writable = wait_writable
        self._agent = agent
        self._conversation = conversation_of(agent)
        self._conversation.relay_to(self)
        self._emit = emit
        self._losses = losses
        self._front_session = session
        self._open = False
        self._held: list[Event] = []
        """Events that came before the engine was ready for commands."""
        self._waiting: deque[Command] = deque()
        self._sending = False
        self._tasks = TaskSet()
        self._replies: dict[str, Command] = {}
        """Commands that have no reply yet, by their refs."""
        self._turns: dict[str, Prompt] = {}
        """Prompts that were passed on and whose turns have not ended."""
        self._asks: dict[str, Ask] = {}
        self._host_calls: set[str] = set()
        self._host_gone = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._closing = False

    # What serving code needs of an engine.

    async def open(self) -> None:
        """Starts the engine behind. Raises EngineDied."""
        await self._conversation.open()

    def begin(self) -> None:
        """Passes on what the engine has said since it was started. Called when the host in front has `ready`."""
        self._open = True
        for event in self._held:
            self._pass_on(event)
        self._held.clear()

    def ready(self) -> Ready:
        """What the host in front is told of the engine: only what it can do over its own wire."""
        ready = self._conversation.ready
        modes = tuple(mode for mode in ready.abilities.modes if self._agent.can(f"mode:{mode}"))
        extras = {name: value for name, value in ready.abilities.extras.items() if name != "lacks"}
        abilities = replace(ready.abilities, modes=modes, images=self._agent.can("images"), extras=extras)
        return replace(ready, abilities=abilities, session=self.session_id)

    def opened(self) -> SessionOpened:
        return SessionOpened(self.session_id, resumed=self._conversation.options.resumed)

    @property
    def session_id(self) -> str:
        """What the host in front calls the session."""
        return self._front_session or self._agent.session_id

    def handle(self, command: Command) -> None:
        """Passes on one command. Never waits; what cannot be passed on gets its reply."""
        if isinstance(command, MalformedCommand):
            return  # its codec has answered it
        if command.session:
            command = replace(command, session="")  # one engine, one session: its name there is another
        if command.ref:
            self._replies[command.ref] = command
        if isinstance(command, Prompt):
            self._turns[command.turn] = command
        self._idle.clear()
        if isinstance(command, Cancel) and command.what == "turn":
            self._cancel_waiting(command)
        if isinstance(command, _AT_ONCE):
            self._tasks.start(self._send(command))
        else:
            self._waiting.append(command)
            if not self._sending:
                self._sending = True
                self._tasks.start(self._send_waiting())

    def input_closed(self, *, stop: bool) -> None:
        """The host in front sends no more. Open and later questions are denied; with `stop` what runs is cancelled."""
        self._host_gone = True
        for ask in list(self._asks):
            self._deny(ask)
        for call in list(self._host_calls):
            self._tasks.start(self._send(HostReply(call, error=_HOST_GONE)))
        if stop:
            self.handle(Cancel())

    async def settled(self) -> None:
        """Returns once no command waits for its reply and no turn runs."""
        await self._idle.wait()

    async def close(self) -> None:
        """Ends the engine behind, with all that it started."""
        self._closing = True
        self._tasks.cancel()
        await self._agent.close()

    # Commands to the engine behind.

    async def _send_waiting(self) -> None:
        try:
            while self._waiting:
                await self._send(self._waiting.popleft())
        finally:
            self._sending = False

    async def _send(self, command: Command) -> None:
        try:
            if isinstance(command, Query) and command.what == "state" and not self._agent.can("query:state"):
                self.put(Reply(command.ref, self._known_state()))
            else:
                await self._conversation.forward(command)
        except HostError as error:
            self._refuse(command, Failure("engine_gone", str(error), "engine"))
        self._check_idle()

    def _known_state(self) -> State:
        """What the engine has said of itself, for a wire that cannot ask it."""
        settings = {"model": "", "mode": "", **self._conversation.settings}
        return State(
            session=self.session_id,
            model=str(settings["model"]),
            mode=str(settings["mode"]),
            busy=bool(self._turns),
            queued=max(len(self._turns) - 1, 0),
            settled=not self._turns,
        )

    def _cancel_waiting(self, command: Cancel) -> None:
        """Ends prompts that the engine has not been told of: it may be starting."""
        waiting = [one for one in self._waiting if isinstance(one, Prompt) and command.target in ("", one.turn)]
        for prompt in waiting if command.queued == "drop" or command.target else ():
            self._waiting.remove(prompt)
            if prompt.ref:
                self.put(Reply(prompt.ref))
            self.put(TurnEnded("cancelled", turn=prompt.turn))

    def _deny(self, ask: str) -> None:
        self._tasks.start(self._send(Answer(ask, "deny", reason=_HOST_GONE)))

    def _refuse(self, command: Command, failure: Failure) -> None:
        """A command that could not be sent gets its reply, and a prompt its end."""
        if command.ref:
            if command.ref in self._replies:
                self.put(Reply(command.ref, failure=failure))
            self._turns.pop(getattr(command, "turn", ""), None)
        elif isinstance(command, Prompt) and command.turn in self._turns:
            self.put(TurnEnded("error", failure=failure, turn=command.turn))

    # Events from it.

    def put(self, event: Event) -> None:
        """An event of the engine behind. Called by its conversation."""
        if self._open:
            self._pass_on(event)
        else:
            self._held.append(event)

    def _pass_on(self, event: Event) -> None:
        if isinstance(event, Ready):
            return  # the host in front has its own; an engine that was started again is the same to it
        if isinstance(event, Reply) and not self._note_reply(event):
            return
        self._note(event)
        if isinstance(event, SettingChanged) and event.key == "session":
            event = replace(event, value=self.session_id)
        self._emit(replace(event, session="") if event.session else event)
        if not self._replies and not self._turns:
            self._check_idle()

    def _note_reply(self, reply: Reply) -> bool:
        """Whether the host waits for this reply. A second one, and one of another host, are dropped."""
        command = self._replies.pop(reply.ref, None)
        if failure := reply.failure:
            if isinstance(command, Prompt):
                self._turns.pop(command.turn, None)
            if command and failure.code in UNSUPPORTED:
                self._losses.count("command", type(command).__name__, failure.message)
        return command is not None

    def _note(self, event: Event) -> None:
        """Notes what begins and ends by an event."""
        match event:
            case TurnEnded(turn=turn):
                self._turns.pop(turn, None)
            case Ask(ask):
                self._asks[ask] = event
                if self._host_gone:
                    self._deny(ask)
            case AskClosed(ask):
                self._asks.pop(ask, None)
            case HostCall(call):
                self._host_calls.add(call)
            case HostCallEnded(call):
                self._host_calls.discard(call)

    async def wait_writable(self) -> None:
        """Waits before more is read from the engine behind. Called by its conversation."""
        await self._wait_writable()

    def end(self) -> None:
        """The engine behind is gone. What waits for it fails. Called by its conversation."""
        failure = Failure("engine_gone", str(self._conversation.death()), "engine", retryable=True)
        for ask in list(self._asks):
            self._pass_on(AskClosed(ask, "cancelled"))
        for ref in list(self._replies):
            if self._replies[ref] not in self._waiting:
                self._pass_on(Reply(ref, failure=failure))
        waiting = {command.turn for command in self._waiting if isinstance(command, Prompt)}
        for turn in [turn for turn in self._turns if turn not in waiting]:
            self._pass_on(TurnEnded("error", failure=failure, turn=turn))
        if self._open and not self._closing:
            self._emit(Failed(failure))

    def _check_idle(self) -> None:
        if not self._waiting and not self._replies and not self._turns:
            self._idle.set()
