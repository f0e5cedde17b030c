"""Sub-agents, in the form that the client can show.

Where it shows them, each is a session of its own: `subagent_update` on the session of its parent announces it, before
its first update, and tells its end; its messages and calls are updates of its own session. Elsewhere a sub-agent is
the one call that started it, and what it does is the output of that call; only calls that need a person's permission
are shown as calls. Either way its questions reach the client.
"""

from msgspec import UNSET

from polylect.dialects.acp.engine import tool_calls
from polylect.dialects.acp.engine.connection import Connection
from polylect.dialects.acp.engine.encode import SessionWriter
from polylect.dialects.acp.frames.own_meta import own_meta
from polylect.dialects.acp.frames.updates import State, SubagentChanged
from polylect.vocab import events as e
from polylect.vocab.content import Failure
from polylect.wire.jsonrpc import INTERNAL_ERROR, Error


class _Agent:
    """A sub-agent: how it was announced, the writer of its session, and the call that it is the output of."""

    def __init__(self, event: e.AgentStarted, parent: SessionWriter, writer: SessionWriter | None) -> None:
        self.parent = parent
        self.writer = writer
        self.call = event.call
        self.fields = {
            "id": event.agent,
            **({"parent": event.parent} if event.parent else {}),
            "call": event.call,
            "name": event.name,
            **({"background": True} if event.background else {}),
        }


class Subagents:
    """The sub-agents of the session that `main` writes for."""

    def __init__(self, connection: Connection, main: SessionWriter) -> None:
        self._connection = connection
        self._main = main
        self._agents: dict[str, _Agent] = {}

    def write(self, event: e.Event) -> None:
        """Write an event of a sub-agent."""
        agent = self._agents.get(event.agent)
        if isinstance(event, e.AgentStarted):
            self._started(event)
        elif agent and agent.writer:
            self._write_own(event, agent, agent.writer)
        elif agent:
            self._write_progress(event, agent)

    def writer(self, id: str) -> SessionWriter:
        """The writer for an agent; the empty id is the main one."""
        agent = self._agents.get(id)
        return (agent and agent.writer) or self._main

    def announce(self, ask: e.Ask) -> SessionWriter:
        """Returns the writer for the agent that asks, after the call that is asked for is shown."""
        agent, writer = self._agents.get(ask.agent), self.writer(ask.agent)
        if ask.call and ask.call not in writer.calls:
            event = e.ToolCalled(ask.call, ask.name, ask.args, ask.category, ask.title)
            writer.tool_called(event, agent.fields if agent and not agent.writer else None)
        return writer

    def find(self, session: str) -> str:
        """The id of the agent whose session has this id; empty if there is none."""
        agents = self._agents.items()
        return next((id for id, agent in agents if agent.writer and agent.writer.id == session), "")

    def end(self) -> None:
        """The session ends, and all of them with it."""
        for id in list(self._agents):
            self.write(e.AgentEnded(False, failure=Failure("cancelled", "The session was closed", "host"), agent=id))

    def _started(self, event: e.AgentStarted) -> None:
        parent = self.writer(event.parent)
        if not self._connection.client.subagents:
            self._agents[event.agent] = _Agent(event, parent, None)
            return
        writer = SessionWriter(self._connection, self._connection.env.new_id(), self._main.cwd)
        self._agents[event.agent] = agent = _Agent(event, parent, writer)
        parent.update(
            SubagentChanged(
                session_id=writer.id,
                title=event.name or UNSET,
                description=event.task or UNSET,
                capabilities={"cancel": {}},
                state=State(state="running"),
                meta=own_meta(agent=agent.fields),
            )
        )
        writer.release()

    # As sessions of their own.

    def _write_own(self, event: e.Event, agent: _Agent, writer: SessionWriter) -> None:
        match event:
            case e.AgentEnded():
                writer.abandon_calls()
                agent.parent.update(SubagentChanged(session_id=writer.id, state=_end(event)))
                del self._agents[event.agent]
            case e.AgentProgress(text, _, calls):
                meta = own_meta(progress={"text": text, "calls": calls})
                agent.parent.update(SubagentChanged(session_id=writer.id, meta=meta))
            case e.UserMessage():
                writer.write_user(event)
            case _:
                writer.write(event)

    # As the output of a call.

    def _write_progress(self, event: e.Event, agent: _Agent) -> None:
        match event:
            case e.AgentEnded():
                del self._agents[event.agent]
            case e.ToolCalled(_, name, args, _, description):
                self._output(agent, f"{tool_calls.title(name, args, description)}\n")
            case e.AgentProgress(text) if text:
                self._output(agent, f"{text}\n")
            case e.ToolStarted(call) | e.ToolOutput(call) | e.ToolFinished(call) if call in self._main.calls:
                self._main.write(event)

    def _output(self, agent: _Agent, line: str) -> None:
        self._main.tool_output(e.ToolOutput(agent.call, line))


def _end(event: e.AgentEnded) -> State:
    failure, summary = event.failure, own_meta(summary=event.summary, failed=not event.ok)
    if failure is None or failure.code == "cancelled":
        return State(state="idle", stop_reason="cancelled" if failure else "end_turn", meta=summary)
    error = Error(INTERNAL_ERROR, failure.message, {"polylect": {"code": failure.code, "owner": failure.owner}})
    return State(state="idle", stop_reason="error", error=error, meta=summary)
