"""Sub-agents: the tool `Spawn`, which starts agents for tasks, and the list of agents that run.

A sub-agent has its own conversation and limits. It has its parent's model, tools and rights, never more (A8). Its
events carry its own agent id, and its questions go to the parent's host. Agents in the foreground run inside the call;
agents in the background outlive the turn, and their report starts a new turn.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from polylect.engine.agent import Agent, EngineCallbacks
from polylect.engine.subagents.personas import FAMILIES, GENERAL, Persona
from polylect.engine.turn.budget import price_fault
from polylect.sessions.session import Session
from polylect.sessions.store import MemoryStore
from polylect.vocab.answers import AgentCard
from polylect.vocab.content import Category, Failure, Message, Origin, Text
from polylect.vocab.errors import SessionError
from polylect.vocab.events import AgentEnded, AgentStarted, TurnEnded
from polylect.vocab.ports import Tool, ToolContext, ToolReturn, ToolSpec
from polylect.vocab.tool_names import EXIT_PLAN, STRUCTURED_OUTPUT, remark

MOST_TASKS = 5
MOST_DEPTH = 2
MOST_AT_WORK = 40
"""Agents that work at the same time, however deep."""
MOST_IN_BACKGROUND = 16
"""Of these, those that nobody waits for."""
_TEXT = """\
Hand tasks to agents that work on them at the same time, each with its own conversation. Use it for work that can be \
divided: searching in several places, changing unrelated files, checking something from a second side. An agent sees \
nothing of this conversation, so its prompt has to say all it needs to know, and what it should report back.\
"""


class Task(Struct, frozen=True, forbid_unknown_fields=True):
    """One task as the model writes it. `agent` names a persona."""

    name: Annotated[str, Meta(description="A few words a person recognises the task by.")]
    prompt: Annotated[str, Meta(description="All the agent needs to know.")]
    agent: Annotated[str, Meta(description="One of the named agents, if one fits.")] = ""


class Tasks(Struct, frozen=True):
    """The arguments of the tool."""

    tasks: Annotated[tuple[Task, ...], Meta(extra_json_schema={"minItems": 1, "maxItems": MOST_TASKS})]
    background: Annotated[bool, Meta(description="Do not wait for them: their reports come later.")] = False


class RunningAgents:
    """All sub-agents that run, at any depth."""

    def __init__(self) -> None:
        self._working: dict[asyncio.Task[None], AgentCard] = {}
        self._agents: dict[str, Agent] = {}
        self.closed = False

    def start(self, card: AgentCard, agent: Agent, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run an agent in a task of its own and list it until it has ended."""
        task = asyncio.create_task(work)
        self._working[task] = card
        self._agents[card.id] = agent
        task.add_done_callback(self._working.pop)
        task.add_done_callback(lambda task: self._agents.pop(card.id, None))
        return task

    def find(self, agent_id: str) -> Agent | None:
        """The agent of this id, if it runs."""
        return self._agents.get(agent_id)

    def cancel(self, agent_id: str) -> bool:
        """Cancel one agent, or all of them if the id is empty. False if there is no such agent."""
        tasks = [task for task, card in self._working.items() if agent_id in ("", card.id)]
        for task in tasks:  # after its first step: a task that never began could not say that it has ended
            asyncio.get_running_loop().call_soon(_cancel, task)
        return bool(tasks) or not agent_id

    def full(self, more: int, *, background: bool) -> str:
        """Why so many more agents cannot start now; empty if they can."""
        working, hidden = len(self._working), len(self._in_background())
        if background and hidden + more > MOST_IN_BACKGROUND:
            return f"{hidden} agents work in the background; at most {MOST_IN_BACKGROUND} may. Wait for their reports."
        if working + more > MOST_AT_WORK:
            return f"{working} agents are at work; at most {MOST_AT_WORK} may be. Start fewer, or do it yourself."
        return ""

    @property
    def busy(self) -> bool:
        """Whether an agent runs in the background."""
        return bool(self._in_background())

    async def finished(self) -> bool:
        """Wait for the agents in the background. False if there was none."""
        working = self._in_background()
        if working:
            await asyncio.wait(working)
        return bool(working)

    def cancel_background(self) -> None:
        """Cancel all agents in the background and discard their reports."""
        self.closed = True
        for task in self._in_background():
            asyncio.get_running_loop().call_soon(_cancel, task)

    async def cancel_and_wait(self) -> None:
        """Cancel all agents in the background and wait for their end. New ones may start afterwards."""
        self.cancel_background()
        await self.finished()
        self.closed = False

    @property
    def cards(self) -> tuple[AgentCard, ...]:
        """The agents that run."""
        return tuple(self._working.values())

    def _in_background(self) -> list[asyncio.Task[None]]:
        return [task for task, card in self._working.items() if card.background]


class Spawn:
    """The tool. `report` starts a turn with the text of a background agent, and returns False if that failed."""

    name = "Spawn"
    category: Category = "exec"
    origin: Origin = "builtin"
    composite = True

    def __init__(
        self,
        agent: Agent,
        personas: Mapping[str, Persona],
        report: Callable[[str], bool],
        running_agents: RunningAgents,
    ) -> None:
        self._agent = agent
        self._personas = personas
        self._report = report
        self._running_agents = running_agents

    @property
    def spec(self) -> ToolSpec:
        from polylect.vocab.argument_schema import schema_of  # where the model is told of tools

        return ToolSpec(self.name, self.described(_TEXT), schema_of(Tasks))

    def described(self, text: str) -> str:
        """The tool's description with the list of personas, to which a host may add."""
        personas = sorted(self._personas.items())
        named = "\n".join(f"- {name}: {persona.description}" for name, persona in personas)
        return f"{text}\n\nNamed agents:\n{named}" if named else text

    def describe(self, args: dict[str, Any]) -> str:
        tasks = args.get("tasks")
        names = [str(task.get("name")) for task in tasks if isinstance(task, dict)] if isinstance(tasks, list) else []
        return f"Spawn: {', '.join(names) or 'sub-agent'}"[:120]

    def touches(self, args: dict[str, Any], workspace: str) -> tuple[str, ...]:
        return ()

    def own_arguments(self, args: dict[str, Any]) -> dict[str, Any]:
        """Tasks, also where the model writes one in the form of Claude Code's tool."""
        return tasks_from(args) if "prompt" in args and "tasks" not in args else args

    async def run(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        try:
            request = msgspec.convert(args, Tasks)
        except msgspec.ValidationError as error:
            return ToolReturn(f"These are not tasks: {error}.", ok=False)
        if args.get("isolation"):
            return ToolReturn("An agent works in this workspace: leave out isolation.", ok=False)
        returned = await self._run(request, context)
        ignored = [key for key in args if key not in Tasks.__struct_fields__]
        return replace(returned, output=returned.output + remark(self.name, ignored)) if ignored else returned

    async def _run(self, request: Tasks, context: ToolContext) -> ToolReturn:
        if problem := self._problem(request):
            return ToolReturn(problem, ok=False)
        children = [self._child(task, index, request, context) for index, task in enumerate(request.tasks)]
        if request.background:
            return self._start_background(children)
        working = [self._running_agents.start(child.card, child.agent, child.work()) for child in children]
        try:
            await asyncio.wait(working)
        except asyncio.CancelledError:
            for task in working:
                _cancel(task)
            await asyncio.wait(working)
            from polylect.engine.turn.calls import Context  # loaded long since: this runs inside a call

            if isinstance(context, Context):
                context.cut_short(_reports(children))
            raise
        return ToolReturn(_reports(children), ok=any(child.ok for child in children))

    def _problem(self, request: Tasks) -> str:
        most = self._agent.settings.budget.max_agent_depth or MOST_DEPTH
        if self._agent.depth >= most:
            return f"Agents may not be nested deeper than {most}. Do it yourself."
        if not 0 < len(request.tasks) <= MOST_TASKS:
            return f"Give 1 to {MOST_TASKS} tasks, not {len(request.tasks)}."
        if full := self._running_agents.full(len(request.tasks), background=request.background):
            return full
        unknown = sorted({task.agent for task in request.tasks if task.agent} - {*self._personas, GENERAL})
        known = ", ".join(sorted(self._personas)) or "none"
        if unknown:
            return f"There is no agent {unknown[0]!r}. Known ones: {known}."
        return next(filter(None, map(self._price_problem, request.tasks)), "")

    def _price_problem(self, task: Task) -> str:
        """Why the task's agent may not use its own model while there is a cap in dollars; empty if it may."""
        settings, model = self._agent.settings, self._model(self._personas.get(task.agent, Persona("")))
        if model == settings.model:
            return ""
        fault = price_fault(self._agent.provider.info(model), settings.budget, settings.turn_budget)
        return f"The agent {task.agent!r} was not started: {fault}." if fault else ""

    def _child(self, task: Task, index: int, request: Tasks, context: ToolContext) -> "_Child":
        agent_id = context.call if not index else f"{context.call}/{index + 1}"
        persona = self._personas.get(task.agent, Persona(""))
        agent = self._agent_for(agent_id, persona, background=request.background)
        return _Child(agent, task, context.turn, context.call, self._agent.id)

    def _agent_for(self, agent_id: str, persona: Persona, *, background: bool) -> Agent:
        parent = self._agent
        settings = replace(
            parent.settings,
            model=self._model(persona),
            system_prompt=persona.prompt or parent.settings.system_prompt,
            cancel_timeout=parent.settings.cancel_timeout / 2,  # it has to end before its parent gives it up
        )
        tools: dict[str, Tool] = {
            name: tool
            for name, tool in parent.tools.items()
            if name not in (self.name, STRUCTURED_OUTPUT, EXIT_PLAN)
            and persona.allows(name, getattr(tool, "long_name", ""))
        }
        session = Session(MemoryStore("", beside=parent.session.store))
        session.calls = parent.session.calls  # hosts tell calls apart by id alone, whoever called
        agent = Agent(
            settings=settings,
            provider=parent.provider,
            tools=tools,
            session=session,
            processes=parent.processes,
            worker=parent.worker,
            env=parent.env,
            callbacks=EngineCallbacks(emit=parent.emit, stop_turn=parent.callbacks.stop_turn),
            wait_writable=parent.wait_writable,
            new_id=parent.new_id,
            id=agent_id,
            parent=parent,
            background=background,
        )
        if persona.allows(self.name):
            tools[self.name] = type(self)(agent, self._personas, self._report, self._running_agents)
        return agent

    def _model(self, persona: Persona) -> str:
        """Of a family the newest that the service has, or the parent's model if it has none of it."""
        own, models = self._agent.settings.model, self._agent.top.models
        if persona.model not in FAMILIES:
            return persona.model or own
        served = [card.name for card in models.cards() if card.provider == self._agent.provider.name] if models else []
        return next((name for name in (own, *reversed(served)) if persona.model in name), own)

    def _start_background(self, children: "list[_Child]") -> ToolReturn:
        session = self._agent.top.session
        for child in children:
            _record_running(session, child, child.task.name)
            self._running_agents.start(child.card, child.agent, self._run_in_background(child, session))
        names = ", ".join(child.task.name for child in children)
        return ToolReturn(f"At work in the background: {names}. You will be told what they report.")

    async def _run_in_background(self, child: "_Child", session: Session) -> None:
        await child.work()
        if not self._running_agents.closed and self._report(child.report_text):
            _record_running(session, child, "")


class _Child:
    """One task under way."""

    def __init__(self, agent: Agent, task: Task, turn: str, call: str, parent: str) -> None:
        self.task = task
        self.card = AgentCard(agent.id, task.name, task.prompt, agent.detached)
        self.ok = False
        self.report_text = ""
        self.agent = agent
        self._turn = turn
        started = AgentStarted(parent, call, task.name, task.prompt, background=agent.detached)
        self._say = agent.emitter(turn)
        self._say(started)
        agent.session.accept(turn, Message("user", (Text(task.prompt),)))

    async def work(self) -> None:
        """Never raises: a cancelled agent has ended too, and says so."""
        try:
            hook_context, kind = self.agent.hook_context(self._turn), self.task.agent or GENERAL
            if context := await self.agent.hooks.notify(hook_context, "agent_started", kind):
                self.agent.session.add_context(context)
            from polylect.engine.turn.loop import TurnLoop  # loaded long since: this runs inside a turn

            ended = await TurnLoop(self.agent, self._turn).run()
        except asyncio.CancelledError:  # before it could begin
            ended = TurnEnded("cancelled")
        self.ok = ended.reason in ("end", "length")
        why = ended.failure.message if ended.failure else ended.reason
        words = self._final_text()
        text = "\n".join(filter(None, (words, "" if self.ok and words else why)))
        usage = ended.usage
        tail = f"[turns: {ended.steps} | tokens: {usage.input} in / {usage.output} out]"
        self.report_text = f"## {self.task.name} [{'OK' if self.ok else 'ERROR'}]\n{text}\n{tail}"
        self._say(AgentEnded(self.ok, text, None if self.ok else ended.failure or Failure(ended.reason, why, "engine")))

    def _final_text(self) -> str:
        replies = [message for message in self.agent.session.messages if message.role == "assistant"]
        blocks = replies[-1].content if replies else ()
        return "\n".join(block.text for block in blocks if isinstance(block, Text))


def tasks_from(args: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `Spawn` for one task in the form of Claude Code's tool. Others stay as they are."""
    own = ("description", "prompt", "subagent_type", "run_in_background")
    name, prompt, agent, background = (args.get(key) for key in own)
    task = {"name": name or "agent", "prompt": prompt, "agent": agent or ""}
    return {
        "tasks": [task],
        "background": background or False,
        **{key: value for key, value in args.items() if key not in own},
    }


def _reports(children: Sequence[_Child]) -> str:
    return "\n\n---\n\n".join(child.report_text for child in children)


def _record_running(session: Session, child: _Child, name: str) -> None:
    """Whoever resumes the session learns of agents that never reported."""
    with suppress(SessionError):  # a full disk ends the turn soon enough
        session.set_background_agent(child.card.id, name)


def _cancel(task: asyncio.Task[None]) -> None:
    """Once: a second time would cut short how it stops."""
    if not task.cancelling():
        task.cancel()
