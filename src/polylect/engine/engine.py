"""The engine's entry point: dispatches commands to handlers and owns what outlives a turn.

`handle` takes a command and returns at once, so that answers, cancels and queries are served while anything else runs
(L4). Every command with a `ref` gets exactly one `Reply` (L2). A handler returns None for success, a `Failure`, or
`LATER` if it replies itself when its work is done. Handlers that are more than a few lines live in `commands/`.
`app/serving/serve.py` feeds commands in and passes `output` for the events.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec.structs import replace

from polylect import __version__
from polylect.engine.agent import Agent, EngineCallbacks
from polylect.engine.commands import host_capabilities, queries
from polylect.engine.commands.background import LATER, BackgroundTasks, attempted
from polylect.engine.commands.compact import CompactQueue
from polylect.engine.commands.configure import BadSetting, schema_fault
from polylect.engine.commands.context import CommandContext, HeldCommands, McpServers
from polylect.engine.commands.settings_changes import SettingsChanges
from polylect.engine.commands.slash import SlashCommands
from polylect.engine.commands.switch_session import SessionSwitch
from polylect.engine.commands.user_shell import UserShell
from polylect.engine.context import attachments
from polylect.engine.heartbeat import Heartbeat
from polylect.engine.settings import MOST_REMINDERS, Settings
from polylect.engine.subagents.personas import described_by, find_personas
from polylect.engine.subagents.spawn import RunningAgents, Spawn
from polylect.engine.tools.exit_plan import ExitPlanMode
from polylect.engine.traces import Tracer
from polylect.engine.turn.steering import STEER
from polylect.engine.turn.turns import TurnQueue
from polylect.permissions.rules import BadRule
from polylect.vocab import commands as c
from polylect.vocab.answers import SessionOpened
from polylect.vocab.content import Failure, Message, Text
from polylect.vocab.errors import SessionError
from polylect.vocab.events import Event, Notice, PlanChanged, Ready, TurnEnded

_REMINDER = "todo-"
_UNFINISHED = (
    "These steps of your list are not done. Go on with them, or bring the list up to date if they no longer matter:"
)


class Engine:
    """One conversation with one host. Must be made and used inside a running event loop.

    `make_agent` builds the main agent, complete, with what it calls in this engine. `output` receives every event.
    """

    def __init__(self, make_agent: Callable[[EngineCallbacks], Agent], output: Callable[[Event], None]) -> None:
        heartbeat = Heartbeat(output)
        self.emit = heartbeat.emit
        self.agent = make_agent(
            EngineCallbacks(
                emit=heartbeat.emit,
                stop_turn=lambda: self.turns.stop(keep=True),
                offer_changed=lambda: self._capabilities.renew(),
                queue_changed=lambda: self.turns.emit_queue(),
                expand_command=lambda prompt, emit: self._slash.expand(prompt, emit),
                wait_for_servers=lambda: self.context.servers.wait(),
            )
        )
        if self.settings.structured_traces or self.agent.trace:
            heartbeat.output = Tracer(
                output,
                lambda: self.agent.provider.name,
                emit_traces=self.settings.structured_traces,
                record=self.agent.trace,
            ).receive
        self.running_agents = RunningAgents()
        self.turns = TurnQueue(self.agent, heartbeat, on_end=self._remind, at_work=lambda: self.running_agents.busy)
        places = (os.path.expanduser("~"), self.settings.workspace)  # who may define agents and slash commands
        trusted = self.settings.trust_workspace
        personas = find_personas(places, trusted=trusted, fault=self.agent.reading_fault)
        spawn = _spawn_tool(self.settings)(self.agent, personas, self._report, self.running_agents)
        self.agent.tools[spawn.name] = spawn
        self.agent.tools[ExitPlanMode.name] = ExitPlanMode(self._leave_plan)
        if self.settings.script_tool:
            from polylect.engine.tools.script import Script  # few have it

            self.agent.tools[Script.name] = Script()
        background = BackgroundTasks()
        self.context = context = CommandContext(
            agent=self.agent,
            turns=self.turns,
            changes=SettingsChanges(self.agent, self.turns, self.running_agents.finished),
            running_agents=self.running_agents,
            personas=personas,
            servers=McpServers(self.agent),
            background=background,
            held=HeldCommands(self.agent, background, self.handle),
            places=places,
        )
        self._shell = UserShell(context)
        self._compact_queue = CompactQueue(context)
        self._capabilities = host_capabilities.HostCapabilities(context)
        self.sessions = SessionSwitch(context, self._shell, self._capabilities.emit_cost)
        self._slash = SlashCommands(context, self.sessions, lambda: self._capabilities.hello_received)
        self._reminded = 0
        self._prompted = False
        self.agent.hooks.start(self.agent.hook_context(), resumed=bool(self.agent.session.messages))

    @property
    def settings(self) -> Settings:
        return self.agent.settings

    # From outside.

    @property
    def session_id(self) -> str:
        """The session of the conversation, which may have gone on in another one."""
        return self.agent.session.id

    def ready(self) -> Ready:
        """What a host is told of the engine."""
        settings, abilities = self.settings, self.agent.abilities()
        return Ready(__version__, settings.model, settings.mode, abilities, session=self.session_id)

    def opened(self) -> SessionOpened:
        """The answer to the command that has opened its session."""
        session = self.agent.session
        return SessionOpened(session.id, session.store.file, resumed=bool(session.messages))

    def handle(self, command: c.Command) -> None:
        """Carry out one command. Never waits; the reply is emitted now or when the work is done."""
        held = self.context.held
        if held.holding and type(command) not in _AT_ONCE:
            return held.add(command)
        if held and isinstance(command, c.Cancel):  # what was said before it is stopped too, once it is there
            held.add(replace(command, ref=""))
        match command:
            case c.Query():
                return queries.answer(self.context, command)
            case c.MalformedCommand():
                return None  # its codec has answered it
            case _ if take := _COMMANDS.get(type(command)):
                failure = attempted(take, self, command)
                if failure is LATER:
                    return None
            case c.UnknownCommand(kind):
                failure = Failure("unknown_command", f"Unknown command type: {kind}", "host")
            case _:
                failure = Failure("unsupported", f"this engine cannot do {type(command).__name__} yet", "host")
        self.context.reply(command, failure=failure)
        self.turns.next()

    def input_closed(self, *, stop: bool) -> None:
        """The host sends no more commands. Open and later questions are denied; with `stop` all work is cancelled."""
        self.agent.asks.host_gone()
        self.agent.host_calls.host_gone()
        if stop:
            self._stop()

    async def settled(self) -> None:
        """Returns once no turn runs or waits and no background work is left."""
        await self.turns.settled()
        while (
            await self.running_agents.finished()
            or await self._shell.finished()
            or await self.context.background.finished()
        ):
            await self.turns.settled()

    async def close(self) -> None:
        """Stop everything and close every resource."""
        self.context.held.close()
        self._stop()
        await self.running_agents.finished()
        await self._shell.finished()
        await self.context.background.close()
        await self.turns.settled()
        self.turns.keep_undelivered_steers()
        await self._capabilities.close()
        await self.agent.client.close()
        await self.agent.hooks.close()
        await self.context.servers.close()
        for tool in list(self.agent.tools.values()):
            if close := getattr(tool, "close", None):
                await close()
        await self.agent.worker.close()
        await self.agent.processes.close()
        await self.context.changes.close()
        with suppress(Exception):
            await self.agent.provider.close()
        self.agent.session.store.close()

    def _stop(self) -> None:
        """Cancel all turns and all background work for good."""
        self._compact_queue.drop()
        self.turns.end()
        self.running_agents.cancel_background()
        self._shell.cancel()

    def _report(self, text: str) -> bool:
        """Start a turn with the report of a background agent. Returns whether the report could be stored."""
        stored = self._add_turn(f"agent-{self.agent.new_id()}", text)
        self.turns.next()
        return stored

    def _remind(self, ended: TurnEnded) -> None:
        """Start another turn if the model ended with unfinished items on its todo list, a few times at most."""
        todos = self.agent.todos
        left = [item.text for item in todos if item.status != "completed"]
        self._reminded = self._reminded if ended.turn.startswith(_REMINDER) else 0
        enabled = self.settings.todo_reminder and ended.reason == "end" and not self.turns.waiting
        if enabled and left and self._reminded < MOST_REMINDERS:
            self._reminded += 1
            self.emit(PlanChanged(tuple(todos)))
            self._add_turn(f"{_REMINDER}{self.agent.new_id()}", f"{_UNFINISHED}\n- " + "\n- ".join(left))

    def _add_turn(self, turn: str, text: str) -> bool:
        try:
            self.agent.session.accept(turn, Message("user", (Text(text),)))
        except SessionError as error:
            self.emit(Notice(f"What the model was to be told next could not be kept: {error}", "warning"))
            return False
        self.turns.add(c.Prompt(turn, text), cause="engine")
        return True

    # Commands: each is carried out, or the failure says why not.

    def _prompt(self, command: c.Prompt) -> Failure | None:
        turns = self.turns
        if not command.turn:
            message = "the prompt has no id: give it one, and every event of its turn will carry it"
            return Failure("no_turn", message, "host")
        if command.turn in turns.ids:
            return Failure("duplicate_turn", f"a prompt with the id {command.turn!r} is not finished yet", "host")
        if turns.waiting >= self.settings.queue:
            message = f"{turns.waiting} prompts are waiting, which is the limit; send this one again later"
            return Failure("queue_full", message, "host", retryable=True)
        if command.busy == "refuse" and turns.engaged:
            return Failure("busy", "a turn is running", "host", retryable=True)
        if command.schema and (fault := schema_fault(command.schema)):
            return Failure("bad_schema", f"the schema of the answer cannot be used: {fault}", "host")
        user_message = self._read(command)
        if isinstance(user_message, Failure):
            return user_message
        self.agent.session.accept(command.turn, user_message, command)
        self._prompted = True
        if command.busy == "interrupt":
            self._compact_queue.drop()
        turns.add(command)
        return None

    def _steer(self, command: c.Steer) -> Failure | None:
        agent = self.running_agents.find(command.to) if command.to else self.agent
        if agent is None:
            return Failure("unknown_agent", f"no agent {command.to!r} is at work", "host")
        if not self.turns.running and command.idle == "refuse":
            return Failure("idle", "no turn is running that could be steered; send a prompt", "host")
        user_message = self._read(command)
        if isinstance(user_message, Failure):
            return user_message
        id = f"{STEER}{self.agent.new_id()}"
        agent.session.accept(id, user_message)
        agent.steer_queue.add(id, command)
        return None

    def _read(self, command: c.Prompt | c.Steer) -> Message | Failure:
        """The message for the model with all attachments read, or why the prompt is refused."""
        try:
            fault = partial(self.agent.reading_fault, chosen=True)
            content = attachments.blocks(command.text, command.attachments, self.settings.workspace, fault)
        except attachments.AttachmentError as error:
            return Failure("bad_attachment", str(error), "host")
        return Message("user", content) if content else Failure("empty_prompt", "the prompt is empty", "host")

    def _change_steer(self, command: c.ChangeSteer) -> Failure | None:
        steer_queue = self.agent.steer_queue
        if id := steer_queue.find(command.text, command.when):
            if command.action == "promote":
                steer_queue.promote(id)
            else:
                steer_queue.delivered(id)
                with suppress(SessionError):
                    self.agent.session.cancel(id)
        self.context.reply(command, bool(id))
        self.turns.emit_queue()
        return LATER

    def _cancel(self, command: c.Cancel) -> Failure | None:
        match command.what:
            case "turn" if command.target not in ("", self.turns.running):
                self.turns.drop(command.target)  # if it waits; one that has ended is left alone
                self.turns.end_dropped()
            case "turn":
                self._compact_queue.drop()
                self.turns.drop(queued=command.queued == "drop")
                self.turns.stop(keep=command.queued == "keep")
            case "compaction":
                self._compact_queue.drop()
                if self.turns.running:
                    self.agent.compactor.cancel()
                else:
                    self.turns.stop(keep=True)
            case "retry":
                self.turns.cancel_retry()
            case "prompt":
                self.turns.drop(command.target)
                self.turns.end_dropped()
            case "steers":
                dropped = replace(self.turns.queue, prompts=())
                self.turns.drop_steers(keep=False)
                self.context.reply(command, dropped)
                return LATER
            case "agent":
                stop_task = getattr(self.agent.tools.get("Bash"), "stop_task", lambda task: False)
                if not self.running_agents.cancel(command.target) and not stop_task(command.target):
                    return Failure("unknown_agent", f"no agent {command.target!r} is at work", "host")
            case "shell":
                self._shell.cancel(command.target)
        return None

    def _answer(self, command: c.Answer) -> Failure | None:
        if self.agent.asks.answer(command):
            return None
        from polylect.engine.commands.resume_approval import resume  # only for questions of an earlier process

        return resume(self.context, command)

    def _known_agents(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Adds agents that the host describes; returns the other settings."""
        if isinstance(agents := settings.get("agents"), dict):
            try:
                self.context.personas.update(described_by(agents))
            except ValueError as error:
                raise BadSetting(str(error)) from None
            self._capabilities.renew()
        return {key: value for key, value in settings.items() if key != "agents"}

    def _note_seen(self, files: Any) -> None:
        """Files that the host knows to be read, by path, with their times of change in milliseconds. A file that has
        another time by now still has to be read before it is edited."""
        for path, milliseconds in files.items() if isinstance(files, dict) else ():
            with suppress(OSError, ValueError):
                real = self.agent.real_path(path)
                status = os.stat(real)
                if status.st_mtime_ns // 1_000_000 == milliseconds:
                    self.agent.seen[real] = (status.st_mtime_ns, status.st_size)

    def configure(self, command: c.Configure) -> Failure | None:
        """Apply settings and rules from the host, all or none of them."""
        settings = dict(command.settings)
        self._note_seen(settings.pop("seen", None))
        try:
            rules = self.agent.read_rules(settings.pop("rules")) if "rules" in settings else self.agent.rules.configured
            cycled = self.context.changes.change(self._known_agents(settings))
        except BadRule as error:
            return Failure(BadSetting.code, str(error), "host")
        except BadSetting as error:
            return Failure(error.code, str(error), "host")
        self.agent.rules.configured = rules
        if "mode" in settings:
            self._capabilities.renew()
        if "cycle" not in command.settings:
            return None
        self.context.reply(command, cycled)
        return LATER

    def _leave_plan(self) -> None:
        """Leave plan mode, unless the answer to the plan has already set another mode."""
        if self.settings.mode == "plan":
            self.configure(c.Configure({"mode": "default"}))

    def _add_context(self, command: c.AddContext) -> Failure | None:
        self.agent.session.add_context(command.text)
        return None

    def _add_server(self, command: c.AddServer) -> Failure | None:
        name = command.server.name
        if self._prompted and not self._capabilities.hello_received:
            return Failure(
                "late_server", f"the MCP server {name!r} comes too late: add servers before the first prompt", "host"
            )
        if self._capabilities.is_early(command.server):
            return None
        if servers := self.context.servers.opened():
            servers.add(command.server)
            return None
        return Failure("mcp", f"the MCP server {name!r} cannot be added: this engine has no MCP", "host")

    def _change_server(self, command: c.ChangeServer) -> Failure | None:
        try:
            if servers := self.context.servers.current:
                servers.change(command.name, command.action)
                return None
        except LookupError as error:
            return Failure("mcp", str(error), "host")
        return Failure("mcp", f"there is no MCP server {command.name!r}", "host")

    def _grant(self, command: c.Grant) -> Failure | None:
        if command.revoke:
            revoked = self.agent.rules.revoke(command.rule, command.id)
            return None if revoked else Failure("unknown_grant", "no such permission was granted", "host")
        if command.rule is None and not command.tokens and not command.cost:
            return Failure("bad_grant", "a grant names a rule, tokens or dollars", "host")
        if command.tokens or command.cost:
            self.agent.meter.grant(tokens=command.tokens, cost=command.cost)
        if command.rule is not None:
            self.agent.rules.add(command.rule, command.id, command.until_ms)
            if command.rule.kind == "path" and command.rule.effect == "allow" and os.path.isdir(command.rule.value):
                fields = {"directory": command.rule.value, "source": "register_repo_root"}
                observed = self.agent.hooks.observe(self.agent.hook_context(), "DirectoryAdded", fields)
                self.context.background.start(observed)
        return None


def _spawn_tool(settings: Settings) -> type[Spawn]:
    if not settings.one_agent:
        return Spawn
    from polylect.engine.subagents.one_agent import OneAgent  # few have it

    return OneAgent


_AT_ONCE = (c.Cancel, c.Answer, c.HostReply, c.HostSays)
"""What never waits for another session."""
_COMMANDS: dict[type[c.Command], Callable[..., Failure | None]] = {
    c.Hello: lambda engine, command: engine._capabilities.hello(command),
    c.HostReply: lambda engine, command: host_capabilities.receive_reply(engine.context, command),
    c.HostSays: lambda engine, command: host_capabilities.receive_notification(engine.context, command),
    c.OpenSession: lambda engine, command: engine.sessions.open_session(command),
    c.Rewind: lambda engine, command: engine.sessions.rewind(command),
    c.Prompt: Engine._prompt,
    c.Steer: Engine._steer,
    c.ChangeSteer: Engine._change_steer,
    c.Cancel: Engine._cancel,
    c.Answer: Engine._answer,
    c.Configure: Engine.configure,
    c.AddContext: Engine._add_context,
    c.AddServer: Engine._add_server,
    c.ChangeServer: Engine._change_server,
    c.Compact: lambda engine, command: engine._compact_queue.submit(command),
    c.RunShell: lambda engine, command: engine._shell.run(command),
    c.Grant: Engine._grant,
}
