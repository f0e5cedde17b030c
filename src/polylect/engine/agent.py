"""One agent: a model, its tools, its conversation and its rights. Its events form one lane."""

import os
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr, replace

from polylect.engine.context.prompt import system_prompt
from polylect.engine.context.reading_rules import reading_fault
from polylect.engine.hooks import EngineScene, NoHooks
from polylect.engine.host_calls import HostCalls
from polylect.engine.settings import Settings
from polylect.engine.traces import Record
from polylect.engine.turn.asks import Asks
from polylect.engine.turn.budget import Meter
from polylect.engine.turn.compaction import Compactor
from polylect.engine.turn.steering import SteerQueue
from polylect.permissions.gate import opens
from polylect.permissions.rulebook import Rulebook, rules_in
from polylect.sessions.checkpoints import Checkpoints
from polylect.sessions.session import Session
from polylect.sessions.spills import spill_folders
from polylect.vocab.commands import Answer
from polylect.vocab.content import Abilities, Category, Message, Mode, PlanItem, Rule, Usage
from polylect.vocab.events import Ask, Event
from polylect.vocab.hooks import Heard, Hooks, Scene
from polylect.vocab.ports import Library, Models, Processes, Provider, Servers, Tool, ToolSpec, Worker


class Agent(Struct, kw_only=True, eq=False, dict=True):
    """What a turn works with. `emit` says an event; `room` waits until the host has read enough of them."""

    settings: Settings
    provider: Provider
    tools: MutableMapping[str, Tool]
    session: Session
    processes: Processes
    worker: Worker
    env: Mapping[str, str]
    emit: Callable[[Event], None]
    room: Callable[[], Awaitable[None]]
    new_id: Callable[[], str]
    full: Callable[[], bool] = lambda: False
    """Whether the host has left so much unread that nothing is added which can wait."""
    open_servers: Callable[[], Servers] | None = None
    hooks: Hooks = NoHooks()
    trace: Callable[[Record], None] | None = None
    """Takes a record of every model call and what came of it."""
    models: Models | None = None
    library: Library | None = None
    offered: Abilities = Abilities()
    """What the host is told that this engine can do, whatever its model."""
    command_notice: str = ""
    """What the host is told with the first command of the session; empty once it is said."""
    id: str = ""
    parent: "Agent | None" = None

    def __post_init__(self) -> None:
        parent = self.parent
        self.depth: int = parent.depth + 1 if parent else 0
        self.detached: bool = parent is not None and parent.detached
        """It works in the background and may outlive the turn that started it."""
        own_folders = [os.path.realpath(path) for path in (self.settings.workspace, *self.settings.folders)]
        self._folders: list[str] = parent._folders if parent else own_folders
        self.hooks = parent.hooks if parent else self.hooks
        self.asks: Asks = parent.asks if parent else Asks()
        self.host_calls: HostCalls = parent.host_calls if parent else HostCalls(self.new_id)
        self.offer_changed: Callable[[], None] = lambda: None
        """To be called when tools, servers or commands have come or gone."""
        self.stop_turn: Callable[[], None] = parent.stop_turn if parent else lambda: None
        """Ends the turn that the main agent is at."""
        self.hear_command: Callable[[Heard, Callable[[Event], None]], Awaitable[Heard]] | None = None
        """Takes a prompt that may be a slash command."""
        self.wait_for_servers: Callable[[], Awaitable[None]] | None = None
        """Awaited before the first request of a turn; only the main agent has it."""
        self.steers = SteerQueue()
        self.running: dict[str, str] = {}
        """Calls that run now: id to the tool's name."""
        self.use_session(self.session)

    def use_session(self, session: Session) -> None:
        """Go on in this conversation; nothing that was known of another one stays."""
        self.session = session
        self.compactor = Compactor(
            lambda: self.provider,
            session,
            lambda: self.settings,
            lambda reason: self.hooks.compaction(self.scene(), reason),
            self.charge,
            lambda: sum(self.prompt_tokens()),
        )
        self.spent = Usage()
        """What has been used since the last turn ended, agents in the background included."""
        before = (Usage(), 0.0) if self.settings.budget_anew else (session.usage, session.dollars)
        own = Meter(self.settings.budget, *before)
        self.meter: Meter = self.parent.meter if self.parent else own
        self.turn_meter: Meter | None = None
        """For the caps of the turn at hand; an agent that a turn waits for shares that turn's."""
        self.todos: Sequence[PlanItem] = ()
        """What it has set itself to do."""
        self.seen: dict[str, tuple[int, int]] = {}
        self.rules: Rulebook = self.parent.rules if self.parent else self._own_rules()
        self.checkpoints: Checkpoints = (
            self.parent.checkpoints if self.parent else Checkpoints(session.store, self.worker)
        )

    def _own_rules(self) -> Rulebook:
        """Those of the configuration. What earlier processes put aside for the model it may still read."""
        settings = self.settings
        texts = {"deny": settings.deny, "ask": settings.ask, "allow": settings.allow}
        rules = Rulebook(rules_in(texts, settings.workspace, _home()))
        for folder in spill_folders(self.session.store):
            rules.add(Rule("path", folder, write=False))
        return rules

    def read_rules(self, texts: Any) -> list[Rule]:
        """As a host writes them. Raises BadRule."""
        return rules_in(texts, self.settings.workspace, _home())

    def take_command_notice(self) -> str:
        """The notice, the first time that this agent or one of its sub-agents runs a command; then nothing."""
        if self.parent:
            return self.parent.take_command_notice()
        notice, self.command_notice = self.command_notice, ""
        return notice

    def reading_fault(self, path: str, *, chosen: bool = False) -> str:
        """Why the file at this resolved path is not told to the model: by a rule (see reading_rules.py), or because the
        sandbox hides it from commands."""
        if not chosen and self.worker.hides(path, self.roots("info")):
            return "the sandbox hides it"
        return reading_fault(self.rules, path, chosen=chosen)

    def usable(self) -> dict[str, Tool]:
        """The tools there are in the mode at hand."""
        mode = self.mode
        return {name: tool for name, tool in self.tools.items() if mode in getattr(tool, "modes", (mode,))}

    def tool(self, name: str) -> Tool | None:
        """The tool of this name, if there is one in the mode at hand."""
        tool, mode = self.tools.get(name), self.mode
        return tool if tool is not None and mode in getattr(tool, "modes", (mode,)) else None

    def abilities(self) -> Abilities:
        """What is offered with the model in use."""
        info = self.provider.info(self.settings.model)
        features = {"thinking": info.thinking, "effort_levels": info.effort_levels, "images": info.images}
        return replace(self.offered, **features, extras={**self.offered.extras, "cost_attribution": info.priced})

    def roots(self, category: Category) -> list[str]:
        """Where tools of this category may go without asking first: real paths, as they were when they were granted.
        They are not resolved again, because a command may have put a link there."""
        granted = [rule.value for rule in self.rules if opens(rule, category)]
        return [*self._folders, *granted]

    def specs(self) -> list[ToolSpec]:
        """Those that the model is told of from the start."""
        return [tool.spec for tool in self.usable().values() if not getattr(tool, "deferred", False)]

    def system(self) -> str:
        settings = self.settings
        return system_prompt(settings.workspace, settings.system_prompt, self.session.contexts, self.reading_fault)

    def prompt_tokens(self) -> tuple[int, int]:
        """Tokens of instructions and of tools, by their length."""
        return len(self.system()) // 4, len(msgspec.json.encode(self.specs())) // 4

    @property
    def top(self) -> "Agent":
        """The main one."""
        return self.parent.top if self.parent else self

    @property
    def mode(self) -> Mode:
        """The main one's, also if that has changed since this one was started (A8)."""
        return self.top.settings.mode

    def voice(self, turn: str) -> Callable[[Event], None]:
        """Says new-made events of a turn in this agent's lane, filling in both."""

        turn = "" if self.detached else turn

        def say(event: Event) -> None:
            force_setattr(event, "turn", turn)
            force_setattr(event, "agent", self.id)
            self.emit(event)

        return say

    def scene(self, turn: str = "") -> Scene:
        """Where the user's own code is asked about a turn, or about the session."""
        return EngineScene(
            session=self.session.id,
            turn=turn,
            agent=self.id,
            workspace=self.settings.workspace,
            mode=self.mode,
            voice=self.voice(turn),
            put=self._ask_host,
        )

    async def _ask_host(self, question: Ask, say: Callable[[Event], None]) -> Answer:
        whole = replace(question, ask=f"ask-{self.new_id()}")
        return await self.asks.ask(whole, say, question.timeout_ms / 1000 or self.settings.approval_timeout)

    def charge(self, reply: Message, request: str) -> None:
        """A reply's price is a price of this turn, and of the turn of whoever asked for it."""
        if reply.usage is not None and not self.session.counted(request):
            if self.turn_meter:
                self.turn_meter.spend(reply.usage)
            self._charge_parents(reply, reply.usage, request)

    def _charge_parents(self, reply: Message, usage: Usage, request: str) -> None:
        self.spent += usage
        if self.parent is None:
            self.meter.spend(usage)
        elif not self.parent.session.counted(request):
            self.parent._charge_parents(reply, usage, request)
            self.parent.session.add_messages("", replace(reply, content=(), stop=None), request=request)


def _home() -> str:
    return os.path.realpath(os.path.expanduser("~"))
