"""One conversation on two pipes: bytes to commands, commands to the engine, events to bytes."""

import asyncio
import gc
import logging
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Literal

import msgspec

from polylect import plug
from polylect.app import config, secrets, stdio
from polylect.app.available import Available
from polylect.app.confine import open_sandbox
from polylect.app.opening import is_long, new_id, open_session
from polylect.app.otel import open_spans
from polylect.app.packed import PackedImports
from polylect.app.provider import keys, open_provider
from polylect.app.start import ENDING, Start, flags
from polylect.app.toolbox import Toolbox
from polylect.dialects.base import EngineSide, Env
from polylect.engine.agent import Agent
from polylect.engine.configure import DEFAULT_THINKING
from polylect.engine.engine import Engine
from polylect.engine.hooks import NoHooks
from polylect.engine.library import FileLibrary
from polylect.engine.session import Session
from polylect.engine.settings import Settings
from polylect.engine.switching import restore
from polylect.extensions.find import files_in, offered
from polylect.tools.processes import Custody
from polylect.tools.sandbox import Sandbox
from polylect.vocab.commands import AddServer, Cancel, Command, Configure, Prompt, Quit
from polylect.vocab.content import Abilities, Failure
from polylect.vocab.errors import PolylectError
from polylect.vocab.events import Event, Failed, Reply, ServerChanged, TurnEnded
from polylect.vocab.hooks import Hooks
from polylect.vocab.ports import Servers, Tool
from polylect.wire.jsonl import MAX_LINE

_PATIENCE = 30.0
"""How long a host that reads nothing may keep an engine that has ended."""
_LAST_SPANS = 2.0
_LAST_PACK = 0.5
"""Once, so that those who only ever ask one thing start faster from then on as well."""
_SERVERS = 20.0
"""How long the one prompt of a command line waits for its servers."""
_LULL = 0.01
"""A host that has said nothing for so long after the start is thinking."""
_log = logging.getLogger(__name__)


def load(values: Mapping[str, object]) -> None:
    """The one wire that will be spoken and the one service that will answer, while imports are cheap."""
    import_module(f"polylect.dialects.{values.get('face') or 'jsonstream'}.engine_side")
    with suppress(ImportError, LookupError):  # which is told when it is opened
        plug.load("providers", str(values["provider"]))


def run(start: Start, packed: PackedImports) -> int:
    secrets.conceal(keys(start.values))
    _log_to_stderr(str(start.values.get("log_level", "")))
    with asyncio.Runner() as runner:
        code = runner.run(_Conversation(start, packed).run())
        sys.stderr.flush()
        os._exit(code)  # before the runner waits for what ignores its end: a tool, a thread in a system call


class _Conversation:
    def __init__(self, start: Start, packed: PackedImports) -> None:
        self._start = start
        self._packed = packed
        self._inbox: deque[Command] = deque()
        self._end = asyncio.Event()
        self._server_changed = asyncio.Event()
        self._signal = 0
        self._early: list[Command] | None = []
        """What is said before the engine is there."""
        self._there = asyncio.Event()

    async def run(self) -> int:
        start = self._start
        self._codec = _codec(start)
        due = getattr(self._codec, "due", lambda: None)
        self._out = stdio.Outgoing(start.stdout, self._codec.data_to_send, self._host_gone, due)
        asyncio.get_running_loop().add_reader(self._start.signals, self._signalled)
        reading = asyncio.create_task(self._read())
        ended = asyncio.create_task(self._end.wait())
        try:
            if (opened := await self._opened(ended)) is None:
                return 128 + self._signal if self._signal else self._codec_end()
            self._engine = Engine(lambda emit: self._agent(emit, *opened), self._say)
        except PolylectError as error:
            reading.cancel()
            return await self._refuse(str(error))
        self._begin()
        asyncio.get_running_loop().call_later(_LULL, self._warm_up)
        await asyncio.wait([reading, ended], return_when=asyncio.FIRST_COMPLETED)
        failed = self._complain(reading)
        if not failed and not self._end.is_set():
            finished = asyncio.create_task(self._engine.settled())
            await asyncio.wait([finished, ended], return_when=asyncio.FIRST_COMPLETED)
        await self._engine.close()
        await self._send_spans()
        await self._out.drain(1.0 if self._signal else _PATIENCE)
        self._packed.made(_LAST_PACK)
        return 128 + self._signal if self._signal else failed or self._codec_end()

    def _complain(self, reading: asyncio.Task[None]) -> int:
        """Whoever cannot hear any more by a fault of our own says so and ends, rather than going on deaf."""
        if not reading.done() or not (error := reading.exception()):
            return 0
        print(f"polylect: reading has failed: {type(error).__name__}: {error}. Please report this", file=sys.stderr)
        _log.error("reading has failed", exc_info=error)
        return 1

    def _codec_end(self) -> int:
        """Some wires tell by it how the last turn ended."""
        return int(getattr(self._codec, "exit_code", 0))

    async def _opened(self, ended: asyncio.Task[Literal[True]]) -> tuple[Session, FileLibrary | None] | None:
        """A long log is read in a thread, so that the host is heard meanwhile (L4). None if the end came first."""
        if not is_long(self._start):
            return open_session(self._start)
        loading = asyncio.create_task(asyncio.to_thread(open_session, self._start))
        await asyncio.wait([loading, ended], return_when=asyncio.FIRST_COMPLETED)
        return loading.result() if loading.done() else None

    def _begin(self) -> None:
        self._prepare()
        self._add_servers()
        early, self._early = self._early or [], None
        for command in early:
            self._engine.handle(command)
        self._there.set()

    def _prepare(self) -> None:
        """What flags of other programs say about this conversation."""
        values, tools = self._start.values, self._engine.agent.tools
        named, without = values.get("tools"), values.get("without")
        for name in list(tools) if named is not None or without else ():
            if (isinstance(named, list) and name not in named) or (isinstance(without, list) and name in without):
                del tools[name]
        told = {"thinking": values.get("thinking_level"), "name": values.get("name"), "agents": values.get("agents")}
        if values["restore"] and self._engine.agent.session.settings:
            restore(self._engine)
        if settings := {name: value for name, value in told.items() if value}:
            self._engine.handle(Configure(settings))

    def _add_servers(self) -> None:
        """Those of the configuration, now that nobody waits for them (L5)."""
        servers = self._start.values.get("mcp_servers")
        if isinstance(servers, dict) and servers:
            from polylect.mcp.configured import servers_from  # 20 ms, and only where there are servers

            for server in servers_from(servers, self._start.env):
                self._engine.handle(AddServer(server))

    async def _send_spans(self) -> None:
        """Nobody waits long for a collector that does not answer."""
        if self._spans:
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.to_thread(self._spans.close), _LAST_SPANS)

    async def _refuse(self, why: str) -> int:
        """The host has heard `ready`, so it is told here as well."""
        print(f"polylect: {why}", file=sys.stderr)
        self._say(Failed(Failure("start", why, "user")))
        await self._out.drain(1.0)
        return 1

    # In.

    async def _read(self) -> None:
        one_shot = self._start.values.get("input_format") == "text"
        if one_shot:
            await self._there.wait()
            await self._servers_up()
        self._take(self._codec.start())
        if not one_shot:
            await stdio.read(self._start.stdin, self._receive, self._out.room)
        self._take(self._codec.receive_eof())
        await self._there.wait()
        self._engine.input_closed(stop=self._start.values.get("on_eof") == "stop")

    async def _servers_up(self) -> None:
        """There is one prompt, so what it may use is there before it, if it comes soon."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_SERVERS):
                while any(card.status == "pending" for card in self._engine.offers.servers()):
                    self._server_changed.clear()
                    await self._server_changed.wait()

    def _receive(self, data: bytes) -> None:
        self._take(self._codec.receive(data))

    def _take(self, commands: list[Command]) -> None:
        for command in commands:
            if isinstance(command, Quit):
                return self._end.set()
            self._handle(command)
        self._out.wake()

    def _handle(self, command: Command) -> None:
        if self._early is None:
            self._engine.handle(command)
        elif isinstance(command, Cancel) and command.what == "turn":
            self._stop_early(command)
        else:
            self._early.append(command)

    def _stop_early(self, command: Cancel) -> None:
        """Prompts that wait for the session to be read need not wait for their end."""
        waiting, self._early = self._early or [], []
        for one in waiting:
            if isinstance(one, Prompt) and command.queued == "drop":
                self._reply(one)
                self._say(TurnEnded("cancelled", turn=one.turn))
            else:
                self._early.append(one)
        self._reply(command)

    # Out.

    def _reply(self, command: Command) -> None:
        if command.ref:
            self._say(Reply(command.ref))

    def _say(self, event: Event) -> None:
        if isinstance(event, ServerChanged):
            self._server_changed.set()
        if follows := self._codec.send(event):
            self._inbox.extend(follows)
            asyncio.get_running_loop().call_soon(self._take_inbox)
        self._out.wake()

    def _take_inbox(self) -> None:
        while self._inbox:
            self._handle(self._inbox.popleft())

    def _host_gone(self) -> None:
        _log.info("the host has closed its end: stopping")
        self._end.set()

    def _warm_up(self) -> None:
        """What the first request needs and `ready` did not: better now, while the host thinks, than when it asks."""
        len(self._tools)
        getattr(self._provider, "warm", lambda: None)()
        gc.freeze()
        self._packed.make()

    # Signals.

    def _signalled(self) -> None:
        for number in os.read(self._start.signals, 64):
            if number in ENDING:
                self._signal = number
                self._end.set()

    # Putting the engine together.

    def _agent(self, emit: Callable[[Event], None], session: Session, library: FileLibrary | None) -> Agent:
        start, settings = self._start, _settings(self._start)
        self._provider = open_provider(start.values, start.env)
        self._spans = open_spans(start.env, start.session)
        sandbox = open_sandbox(start.values, start.env, start.place.path if start.place else "")
        self._tools = tools = Toolbox(lambda: _standard_tools(settings.workspace, start.env, sandbox))
        custody = Custody(before=secrets.seal, adopt=True)
        env = secrets.public(start.env, keys(start.values))

        def open_servers() -> Servers:
            from polylect.mcp.servers import Servers as McpServers  # 30 ms, and only where there is a server

            def report(event: Event) -> None:
                emit(event)
                agent.offer_changed()

            async def to_host(server: str, message: object) -> object:
                params = {"server_name": server, "message": message}
                return await agent.host_calls.ask("mcp_message", params, emit)

            changed, workspace = agent.offer_changed, settings.workspace
            return McpServers(tools, report, custody, env, workspace, on_commands=changed, host=to_host)

        agent = Agent(
            settings=settings,
            provider=self._provider,
            tools=tools,
            session=session,
            processes=custody,
            env=env,
            open_servers=open_servers,
            hooks=_hooks(start, tools, custody, env, sandbox) or NoHooks(),
            models=Available(start.values, start.env),
            library=library,
            trace=self._spans.keep if self._spans else None,
            offered=Abilities(mcp=bool(start.values.get("mcp_servers")), extras=flags(start.values)),
            emit=emit,
            room=self._out.room,
            full=self._out.full,
            new_id=new_id,
        )
        return agent


def _standard_tools(workspace: str, env: Mapping[str, str], sandbox: Sandbox) -> dict[str, Tool]:
    from polylect.tools.standard import standard_tools  # 6 ms

    return standard_tools(workspace, env, sandbox=sandbox)


def _hooks(
    start: Start, tools: MutableMapping[str, Tool], custody: Custody, env: Mapping[str, str], sandbox: Sandbox
) -> Hooks | None:
    """The user's own code, from places that are trusted. Nothing of it has been looked at before `ready`."""
    workspace, table, named = str(start.values["workspace"]), start.values.get("hooks"), start.values.get("extensions")
    folders = config.extension_folders(start.env, workspace, trusted=bool(start.values.get("trust_workspace")))
    files = [path for folder in folders for path in files_in(folder)]
    files += named if isinstance(named, list) else []
    packages = offered()
    if not (files or table or packages):
        return None
    from polylect.extensions.extensions import Extensions  # 15 ms, and only for those who have some

    async def wrap(argv: Sequence[str]) -> Sequence[str]:
        return await sandbox.argv(argv, workspace, (workspace,), custody)

    commands = table if isinstance(table, dict) else {}
    return Extensions(tools, custody, files=files, packages=packages, commands=commands, env=env, wrap=wrap)


def _codec(start: Start) -> EngineSide:
    values, told = start.values, start.values.get("max_line")
    max_line = told if isinstance(told, int) and told else MAX_LINE
    env = Env(now=lambda: time.time_ns() // 1_000_000, new_id=new_id)
    if face := str(values.get("face") or ""):
        ours, wire = import_module(f"polylect.app.{face}_face"), plug.load("dialects", face).DIALECT
        options = ours.codec_options(values, start.env, start.session)
        codec: EngineSide = wire.engine_side(Env(env.now, ours.new_id), max_line=max_line, **options)
    else:
        from polylect.dialects.jsonstream import engine_side  # other wires do without: 4 ms

        codec = engine_side.EngineSide(env, version=str(values["protocol"]), max_line=max_line)
    codec.overhear(start.first)
    return codec


def _settings(start: Start) -> Settings:
    values = start.values
    told = {name: values[name] for name in Settings.__struct_fields__ if values.get(name) is not None}
    thinking = values.get("thinking_budget") or DEFAULT_THINKING if values.get("thinking") == "enabled" else 0
    budgets = {name: _under(values, f"{name}:") for name in ("budget", "turn_budget")}
    return msgspec.convert({**told, **budgets, "thinking": thinking}, Settings, strict=False)


def _under(values: Mapping[str, object], prefix: str) -> dict[str, object]:
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}


def _log_to_stderr(level: str) -> None:
    if level:
        form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
        logging.basicConfig(stream=sys.stderr, level=level.upper(), format=form)
    else:
        logging.disable()
