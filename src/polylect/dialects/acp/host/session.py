"""One session of the connection, with its sub-agents, turns, prompts that wait, and what was last said of it.

The wire names a session by an id; commands and events call the main session by the empty name and others by the name
that the host opened them with. Sub-agents are sessions of the wire, too: here they are agents of their session.
"""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from polylect.dialects.acp.host.content import block_text
from polylect.dialects.acp.host.decode import (
    STOP_REASONS,
    UpdateReader,
    UserText,
    block_of,
    read_failure,
    turn_ended,
)
from polylect.dialects.acp.host.settings import Settings
from polylect.dialects.acp.host.tool_calls import BadFrame
from polylect.dialects.acp.host.usage import SessionUsage, our_usage
from polylect.dialects.base import Env
from polylect.dialects.lenient import Object, amount, inner, objects, text, whole
from polylect.dialects.prompt_queue import PromptQueue
from polylect.dialects.provider_failures import provider_failure
from polylect.vocab import events as e
from polylect.vocab.commands import Prompt
from polylect.vocab.content import Failure, Usage
from polylect.vocab.grammar.complete import Completer

_TURNLESS = (e.SettingChanged, e.ServerChanged, e.Ready, e.Reply, e.Settled)
_CONVERSATION = ("agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update")


class Session:
    """A session. `id` is what the wire calls it, empty until that is known.

    Args:
        name: What commands and events call it; empty for the main session.
        settings: Its settings.
        env: The clock, and ids for turns that nobody asked for.
    """

    def __init__(
        self,
        name: str,
        id: str,
        settings: Settings,
        env: Env,
        *,
        queue: PromptQueue,
        completer: Completer,
    ) -> None:
        self.name, self.id = name, id
        self.settings, self.usage = settings, SessionUsage()
        self.queue, self.completer = queue, completer
        self.turn = ""
        """The turn that runs; empty for none, and for one that the agent began without a word."""
        self.cancelled: set[str] = set()
        """Turns that the host has cancelled and that have not ended."""
        self.cancelled_at = 0
        """When the first of these was cancelled."""
        self.steers: list[str] = []
        """Messages that were sent into the running turn. codex repeats them in version 2."""
        self.replay: Literal["", "show", "drop"] = ""
        """Whether the updates that come are of the past, and what is done with them."""
        self._env = env
        self.reader = UpdateReader(settings, self.usage, env.now)
        self._children: dict[str, _Child] = {}
        """Sub-agents, by the ids of their sessions."""
        self._user = UserText()
        self._settled = True

    def opened(self, id: str, *, ours: bool) -> None:
        """The wire calls it so. `ours`: the agent is polylect, whose calls are complete when it announces them."""
        self.id, self.reader.calls.ours = id, ours

    def knows(self, id: str) -> bool:
        """Whether a session of the wire is this one, or one of its sub-agents."""
        return bool(id) and (id == self.id or id in self._children)

    def agent_of(self, id: str) -> str:
        """The agent whose session of the wire has this id; the main agent has the empty id."""
        return self._children[id].agent if id in self._children else ""

    def reader_of(self, agent: str) -> UpdateReader:
        return next((child.reader for child in self._children.values() if child.agent == agent), self.reader)

    def note_terminal(self, terminal: str, answer: Object) -> None:
        """The agent was told this of a terminal that the host runs for it."""
        for _, reader in self._readers():
            reader.calls.note_terminal(terminal, answer)

    def cancellable(self, agent: str) -> str:
        """The session of a sub-agent that can be cancelled by itself; empty if there is no such agent."""
        children = self._children.items()
        return next((id for id, child in children if child.agent == agent and child.cancellable), "")

    # Turns.

    def begin(self, prompt: Prompt) -> list[e.Event]:
        """A prompt goes to the agent. The wire does not say that a turn begins."""
        self._turn_began(prompt.turn)
        message = e.UserMessage(prompt.text, "prompt", prompt.attachments)
        return self.place([e.TurnStarted(), message])

    def end(self, event: e.TurnEnded) -> list[e.Event]:
        """The prompt of a turn is answered, or an engine's own turn has ended: everything in it is closed."""
        closing = self.place(self.reader.calls.close()) if event.turn == self.turn else []
        ended = replace(event, session=self.name)
        self.cancelled.discard(event.turn)
        if event.turn == self.turn:
            self.turn = ""
        return [*closing, ended]

    def settle(self) -> list[e.Event]:
        """`Settled`, once, when nothing runs and nothing waits."""
        if self._settled or self.queue.running or self.turn or not self.completer.idle:
            return []
        self._settled = True
        return [e.Settled(session=self.name)]

    def cancel(self, now: int) -> None:
        """The host has cancelled the running turn."""
        if not self.cancelled:
            self.cancelled_at = now
        self.cancelled.update(self.queue.running)
        for _, reader in self._readers():
            reader.calls.cancelled = True

    def _turn_began(self, turn: str) -> None:
        self.turn, self._settled = turn, False
        self.steers.clear()
        self.reader.turn_began()
        self.usage.turn_began()

    def add_child(self, id: str, agent: str = "") -> None:
        """A session of the wire is a sub-agent of this one; without a name of its own it is known by that id."""
        reader = UpdateReader(Settings({}), SessionUsage(), self._env.now)
        reader.calls.ours = self.reader.calls.ours
        self._children[id] = _Child(agent or id, reader)

    def due(self) -> int | None:
        """Milliseconds until `wake` has to be called; None for never."""
        times = [reader.calls.due() for _, reader in self._readers()]
        return min((time for time in times if time is not None), default=None)

    def wake(self) -> list[e.Event]:
        """Time has passed. Returns what follows from that."""
        return [event for agent, reader in self._readers() for event in self.place(reader.calls.wake(), agent)]

    def _readers(self) -> list[tuple[str, UpdateReader]]:
        return [("", self.reader), *((child.agent, child.reader) for child in self._children.values())]

    # Updates.

    def update(self, id: str, update: Object) -> list[e.Event] | None:
        """The events of an update; None if its kind is not known. Raises BadFrame."""
        kind = text(update, "sessionUpdate")
        own = inner(inner(update, "_meta"), "polylect")
        if kind == "subagent_update":
            return self._subagent(id, update, own)
        if kind in ("session_message", "session_message_chunk"):
            return self._session_message(id, update)
        if kind == "session_info_update" and (turn := inner(own, "turn")):
            return self._own_turn(turn)
        agent = self.agent_of(id)
        if self.replay and not agent:
            return self._replayed(kind, update)
        if kind == "user_message_chunk" and not agent and self._is_echo(update):
            return []
        events = self.reader_of(agent).read(update, idle=not (self.turn or agent))
        if events is None:
            return None
        return [*self.place(events, agent), *(self._run_over(update) if kind == "session_info_update" else [])]

    def place(self, events: Iterable[e.Event], agent: str = "") -> list[e.Event]:
        """The events with their turn, agent and session."""
        placed: list[e.Event] = []
        for event in events:
            turn = "" if isinstance(event, _TURNLESS) else event.turn or self.turn
            placed.append(replace(event, turn=turn, agent=event.agent or agent, session=self.name))
        return placed

    def _is_echo(self, update: Object) -> bool:
        """Whether a message of the user is the prompt of the running turn or a steer, which this end reports itself."""
        words, prompt = block_text(inner(update, "content")), self.queue.prompt(self.turn)
        if words in self.steers:
            self.steers.remove(words)
            return True
        return prompt is not None and words == prompt.text

    def _own_turn(self, fields: Object) -> list[e.Event]:
        """polylect says that a turn begins or ends that no prompt of this client has begun."""
        turn = text(fields, "id")
        if text(fields, "state") == "started":
            self.queue.began(turn)
            self._turn_began(turn)
            return self.place([e.TurnStarted("prompt" if text(fields, "cause") == "prompt" else "engine")])
        ended = turn_ended(fields)
        if turn == self.turn:
            ended = replace(ended, usage=self.usage.spent(ended.usage))
        return self.end(ended)

    def _run_over(self, update: Object) -> list[e.Event]:
        """codex and goose say when nothing runs any more: that ends a turn that the agent began without a word."""
        meta = inner(update, "_meta")
        idle = "idle" in str(inner(meta, "codex").get("threadStatus", ""))
        ended = idle or inner(meta, "goose").get("activeRunId", "") is None
        return [e.Settled(session=self.name)] if ended and not self.turn and not self.completer.idle else []

    # Sub-agents.

    def _subagent(self, id: str, update: Object, own: Object) -> list[e.Event]:
        child, state, about = text(update, "sessionId"), inner(update, "state"), inner(own, "agent")
        if not child:
            raise BadFrame("sessionId: expected the id of a sub-agent")
        if child == self.id:  # in the middle of a recording; a session is not an agent of its own
            return []
        events: list[e.Event] = []
        if child not in self._children:
            if text(state, "state") == "idle":
                return []
            self.add_child(child, text(about, "id"))
            name = text(about, "name") or text(update, "title")
            task = text(about, "task") or text(update, "description")
            parent, call = text(about, "parent") or self.agent_of(id), text(about, "call")
            background = about.get("background") is True
            events.append(e.AgentStarted(parent, call, name, task, background, agent=self.agent_of(child)))
        known = self._children[child]
        known.cancellable |= isinstance(inner(update, "capabilities").get("cancel"), dict)
        if progress := inner(own, "progress"):
            words, used = text(progress, "text"), our_usage(inner(progress, "usage"))
            events.append(e.AgentProgress(words, used, whole(progress, "calls"), agent=known.agent))
        if text(state, "state") == "idle":
            del self._children[child]
            events += self.place(known.reader.calls.close(), known.agent)
            events.append(_agent_ended(known.agent, state))
        return self.place(events)

    def _session_message(self, id: str, update: Object) -> list[e.Event]:
        """A message between agents. That to a sub-agent is its task; the answer was written by it already."""
        agent = self.agent_of(id)
        if not agent or text(update, "senderSessionId") == id:
            return []
        content = update.get("content")
        words = (
            block_text(content) if isinstance(content, dict) else "".join(map(block_text, objects(update, "content")))
        )
        return self.place([e.UserMessage(words, "engine")], agent) if words else []

    # The past of a session that is loaded.

    def _replayed(self, kind: str, update: Object) -> list[e.Event] | None:
        """Each message of the user begins a turn of the past."""
        if kind == "user_message_chunk":
            id = text(update, "messageId")
            events = [] if self._user.continues(id) else self._user_message()
            self._user.add(id, block_of(update))
            return self._shown(events)
        events = self._user_message() if kind in _CONVERSATION else []
        if kind in _CONVERSATION and not self.turn:
            events += self._begin_past()
        read = self.reader.read(update)
        if read is None:
            return None
        return [*self._shown([*events, *self.place(read)])] if kind in _CONVERSATION else self.place(read)

    def replay_answered(self) -> list[e.Event]:
        """The request that loads the session is answered, which ends a message; the replay may go on."""
        return self._shown(self._user_message())

    def end_replay(self) -> list[e.Event]:
        """What comes from now on is live."""
        events = [*self._user_message(), *(self.end(e.TurnEnded("end", turn=self.turn)) if self.turn else [])]
        events = self._shown(events)
        self.replay = ""
        return events

    def _user_message(self) -> list[e.Event]:
        user, self._user = self._user, UserText()
        if not user:
            return []
        before = self.end(e.TurnEnded("end", turn=self.turn)) if self.turn else []
        began = self._begin_past()
        message = e.UserMessage(user.text, "replay", tuple(user.attachments))
        return [*before, *began, *self.place([message])]

    def _begin_past(self) -> list[e.Event]:
        self._turn_began(self._env.new_id())
        self._settled = True  # nothing runs
        return self.place([e.TurnStarted(cause="engine")])

    def _shown(self, events: list[e.Event]) -> list[e.Event]:
        return events if self.replay == "show" else []


class _Child(Struct):
    """A sub-agent: its id in events, its reader, and whether it can be cancelled by itself."""

    agent: str
    reader: UpdateReader
    cancellable: bool = False


def ended_by(result: Object, session: Session, turn: str) -> e.TurnEnded:
    """The end of a turn by the answer to its prompt. polylect adds its cost, its steps, and a failure."""
    reason = STOP_REASONS.get(text(result, "stopReason"), "end")
    own = inner(inner(result, "_meta"), "polylect")
    used = session.usage.turn_ended(result)
    if cost := amount(own, "cost"):
        used = Usage(used.input, used.output, used.cache_read, used.cache_write, cost)
    if reason == "end" and (words := session.reader.service_error) is not None:
        message = words.strip() or "the service of the agent's model has failed"
        return e.TurnEnded("error", used, failure=provider_failure(message, certain=True), turn=turn)
    return e.TurnEnded(reason, used, whole(own, "steps"), read_failure(inner(own, "failure")), turn=turn)


def _agent_ended(agent: str, state: Object) -> e.AgentEnded:
    stop, error, own = text(state, "stopReason"), inner(state, "error"), inner(inner(state, "_meta"), "polylect")
    details = inner(inner(error, "data"), "polylect")
    failure = None
    if stop == "cancelled":
        failure = Failure("cancelled", "the agent was cancelled", "host")
    elif error or stop == "error":
        failure = read_failure({"code": "error", "owner": "engine", **details, "message": text(error, "message")})
    ok = failure is None and own.get("failed") is not True and stop in ("", "end_turn")
    return e.AgentEnded(ok, text(own, "summary"), failure, agent=agent)
