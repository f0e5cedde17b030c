"""One agent: its model, tools, conversation, rights and budget.

There is one main agent, and one more for each sub-agent that runs. All events of an agent carry its `id`; the main
agent's is empty. A sub-agent shares the open questions, rules, hooks and budget of its parent, and never has more
rights than it (A8). `app/serving/assembly.py` builds the main agent, `subagents/spawn.py` the others; turns, calls and
commands work on it.
"""

import os
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from polylect.engine.client_files import CheckpointFiles
from polylect.engine.client_offer import ClientOffer
from polylect.engine.context.instructions import InstructionFiles
from polylect.engine.context.prompt import system_prompt
from polylect.engine.hooks import EngineHookContext, NoHooks
from polylect.engine.host_calls import HostCalls
from polylect.engine.settings import Settings
from polylect.engine.traces import Record
from polylect.engine.turn.asks import Asks
from polylect.engine.turn.budget import Meter
from polylect.engine.turn.compaction import Compactor
from polylect.engine.turn.steering import SteerQueue
from polylect.permissions.gate import opens
from polylect.permissions.rulebook import Rulebook, reading_fault, rules_in
from polylect.permissions.rules import is_below
from polylect.sessions.checkpoints import Checkpoints
from polylect.sessions.session import Session
from polylect.sessions.spills import spill_folders
from polylect.system.plain_files import real_path
from polylect.vocab.commands import Answer
from polylect.vocab.content import Abilities, Category, Message, Mode, PlanItem, Rule, Usage
from polylect.vocab.events import Ask, Event
from polylect.vocab.hooks import HookContext, Hooks, PreparedPrompt
from polylect.vocab.ports import Library, Models, Processes, Provider, Servers, Tool, ToolSpec, Worker, tokens_of
from polylect.vocab.tool_names import same_tool

ExpandCommand = Callable[[PreparedPrompt, Callable[[Event], None]], Awaitable[PreparedPrompt]]


def _nothing() -> None:
    pass


class EngineCallbacks(Struct, frozen=True, kw_only=True, eq=False):
    """What an agent calls in the engine that it belongs to. A sub-agent has only the first two.

    Args:
        emit: Sends an event to the host.
        stop_turn: Ends the turn that the main agent is at.
        offer_changed: To be called when tools, servers or commands have come or gone.
        queue_changed: To be called when the steers that wait have changed.
        expand_command: Expands or carries out a prompt that may be a slash command.
        wait_for_servers: Awaited before the first request of a turn.
    """

    emit: Callable[[Event], None]
    stop_turn: Callable[[], None] = _nothing
    offer_changed: Callable[[], None] = _nothing
    queue_changed: Callable[[], None] = _nothing
    expand_command: ExpandCommand | None = None
    wait_for_servers: Callable[[], Awaitable[None]] | None = None


_LONGEST_PATH = 4096
_SEES_IMAGES = {"supported": True, "unsupported": False}


class Agent(Struct, kw_only=True, eq=False, dict=True):
    """Everything that a turn works with.

    It is complete when it is made. `wait_writable` waits until the host has read enough of what was sent.
    """

    settings: Settings
    provider: Provider
    tools: MutableMapping[str, Tool]
    session: Session
    processes: Processes
    worker: Worker
    env: Mapping[str, str]
    callbacks: EngineCallbacks
    wait_writable: Callable[[], Awaitable[None]]
    new_id: Callable[[], str]
    full: Callable[[], bool] = lambda: False
    """Whether the host has left so much unread that nothing is added which can wait."""
    open_servers: "Callable[[Agent], Servers] | None" = None
    """Loads the MCP servers of an agent; None where there is no MCP."""
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
    background: bool = False
    """It works beside its parent's turn and may outlive it."""

    def __post_init__(self) -> None:
        parent = self.parent
        self.depth: int = parent.depth + 1 if parent else 0
        self.detached: bool = self.background or (parent is not None and parent.detached)
        """It, or an agent that it works for, is in the background."""
        self.emit = self.callbacks.emit
        own_folders = [os.path.realpath(path) for path in (self.settings.workspace, *self.settings.folders)]
        self._folders: list[str] = parent._folders if parent else own_folders
        self.home: str = parent.home if parent else os.path.realpath(os.path.expanduser("~"))
        self._instruction_files: InstructionFiles = (
            parent._instruction_files if parent else InstructionFiles(self.settings.workspace, os.environ)
        )
        self.hooks = parent.hooks if parent else self.hooks
        self.asks: Asks = parent.asks if parent else Asks()
        self.host_calls: HostCalls = parent.host_calls if parent else HostCalls(self.new_id)
        self.client: ClientOffer = parent.client if parent else ClientOffer()
        self.steer_queue = SteerQueue()
        self.running: dict[str, str] = {}
        """Calls that run now: id to the tool's name."""
        self.use_session(self.session)

    def use_session(self, session: Session) -> None:
        """Continue in this session, and reset everything that belonged to the one before."""
        self.session = session
        self.compactor = Compactor(self)
        self.spent = Usage()
        """What has been used since the last turn ended, agents in the background included."""
        before = (Usage(), 0.0) if self.settings.budget_anew else (session.usage, session.dollars)
        own = Meter(self.settings.budget, *before)
        self.meter: Meter = self.parent.meter if self.parent else own
        self.turn_meter: Meter | None = self.parent.turn_meter if self.parent and not self.background else None
        """For the caps of the turn at hand; an agent that a turn waits for shares that turn's."""
        self.todos: Sequence[PlanItem] = ()
        """What it has set itself to do."""
        self.seen: dict[str, tuple[int, int]] = {}
        self.rules: Rulebook = self.parent.rules if self.parent else self._own_rules()
        self.checkpoints: Checkpoints = (
            self.parent.checkpoints if self.parent else Checkpoints(session.store, CheckpointFiles(self))
        )

    def _own_rules(self) -> Rulebook:
        """The rules of the configuration, plus read access to long outputs that earlier processes stored."""
        settings = self.settings
        texts = {"deny": settings.deny, "ask": settings.ask, "allow": settings.allow}
        rules = Rulebook(rules_in(texts, settings.workspace, self.home))
        for folder in spill_folders(self.session.store):
            rules.add(Rule("path", folder, write=False))
        return rules

    def read_rules(self, texts: Any) -> list[Rule]:
        """Parse permission rules in the form a host sends them. Raises BadRule."""
        return rules_in(texts, self.settings.workspace, self.home)

    def take_command_notice(self) -> str:
        """The notice for the first command that this agent or a sub-agent runs; empty at every later call."""
        if self.parent:
            return self.parent.take_command_notice()
        notice, self.command_notice = self.command_notice, ""
        return notice

    def real_path(self, path: str) -> str:
        """The absolute path without links of a path that the host named. Raises ValueError for what is none."""
        if len(path) > _LONGEST_PATH:
            raise ValueError(f"it is longer than {_LONGEST_PATH} characters")
        return real_path(os.path.join(self.settings.workspace, os.path.expanduser(path)))

    def reading_fault(self, path: str, *, chosen: bool = False) -> str:
        """Why rules forbid to show the file at this resolved path to the model; see rulebook.py."""
        if not chosen and self.worker.hides(path, self.roots("info")):
            return "the sandbox hides it"
        return reading_fault(self.rules, path, chosen=chosen)

    def usable(self) -> dict[str, Tool]:
        """The tools that exist in the current mode and with the current model, by name."""
        mode = self.mode
        return {name: tool for name, tool in self.tools.items() if self._exists(tool, mode)}

    def _exists(self, tool: Tool, mode: Mode) -> bool:
        if getattr(tool, "by_service", False) and not self.provider.info(self.settings.model).web_search:
            return False
        return mode in getattr(tool, "modes", (mode,))

    def tool(self, name: str) -> Tool | None:
        """The tool of this name, or None if there is none in the current mode and with the current model."""
        tool = self.tools.get(name)
        return tool if tool is not None and self._exists(tool, self.mode) else None

    def tool_name(self, name: str) -> str:
        """The name of the tool that a model means by this one; see `vocab/tool_names.py`."""
        if name in self.tools:
            return name
        return next((own for own in self.tools if same_tool(own, name)), name)

    def abilities(self) -> Abilities:
        """What the host may use, given the current model."""
        info = self.provider.info(self.settings.model)
        images = _SEES_IMAGES.get(self.settings.image_input, info.images)
        features = {"thinking": info.thinking, "effort_levels": info.effort_levels, "images": images}
        return replace(self.offered, **features, extras={**self.offered.extras, "cost_attribution": info.priced})

    def roots(self, category: Category) -> list[str]:
        """Folders that tools of this category may access without asking: real paths, resolved when they were granted.

        They are not resolved again, because a command may have put a link there.
        """
        granted = [rule.value for rule in self.rules if opens(rule, category)]
        return [*self._folders, *granted]

    def in_folders(self, path: str) -> bool:
        """Whether a real path is in the workspace or a folder beside it."""
        return any(is_below(path, folder) for folder in self._folders)

    def specs(self) -> list[ToolSpec]:
        """The tools that are described to the model from the start; deferred ones are left out."""
        return [tool.spec for tool in self.usable().values() if not getattr(tool, "deferred", False)]

    def system(self) -> str:
        settings = self.settings
        files = self._instruction_files.read(self.reading_fault)
        return system_prompt(settings.workspace, settings.system_prompt, self.session.contexts, files)

    def prompt_tokens(self) -> tuple[int, int]:
        """Estimated tokens of the system prompt and of the tool descriptions."""
        return len(self.system()) // 4, tokens_of(self.specs())

    @property
    def top(self) -> "Agent":
        """The main agent."""
        return self.parent.top if self.parent else self

    @property
    def mode(self) -> Mode:
        """The mode of the main agent. A change of it also applies to sub-agents that already run (A8)."""
        return self.top.settings.mode

    def emitter(self, turn: str) -> Callable[[Event], None]:
        """Returns a function that emits new events with the turn and this agent's id filled in.

        A detached agent emits outside of any turn, because it may outlive the turn that started it.
        """

        turn = "" if self.detached else turn

        def emit(event: Event) -> None:
            force_setattr(event, "turn", turn)
            force_setattr(event, "agent", self.id)
            self.emit(event)

        return emit

    def hook_context(self, turn: str = "") -> HookContext:
        """The context in which hooks are called for a turn or, without one, for the session."""
        return EngineHookContext(
            session=self.session.id,
            turn=turn,
            agent=self.id,
            workspace=self.settings.workspace,
            mode=self.mode,
            emitter=self.emitter(turn),
            asker=self._ask_host,
        )

    async def _ask_host(self, question: Ask, emit: Callable[[Event], None]) -> Answer:
        whole = replace(question, ask=f"ask-{self.new_id()}")
        return await self.asks.ask(whole, emit, question.timeout_ms / 1000 or self.settings.approval_timeout)

    def charge(self, reply: Message, request: str) -> None:
        """Charges the cost of a reply to this agent's turn and to every parent's. Call it once per model request."""
        if reply.usage is not None:
            if self.turn_meter:
                self.turn_meter.spend(reply.usage)
            self._charge_parents(reply, reply.usage, request)

    def _charge_parents(self, reply: Message, usage: Usage, request: str) -> None:
        self.spent += usage
        if self.parent is None:
            self.meter.spend(usage)
        else:
            self.parent._charge_parents(reply, usage, request)
            self.parent.session.add_messages("", replace(reply, content=(), stop=None), request=request)
