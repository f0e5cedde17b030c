"""Runs an engine inside another Python program, without a child process or pipes; docs/embedding.md shows how.

`open_engine` opens one conversation: commands go in by `engine.handle`, events come out by a function of the caller's.
`Wire` adds a codec, for a host that speaks a dialect. `InProcess` is the same engine as a link for the host SDK. When
the context is left, what runs is stopped and every process has ended.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from polylect.app.serving.in_process import EventSink, InProcessLink, always_writable
from polylect.app.serving.mcp_servers import open_servers
from polylect.dialects.base import EngineSide, Env
from polylect.engine.agent import Agent, EngineCallbacks
from polylect.engine.engine import Engine
from polylect.engine.hooks import NoHooks
from polylect.engine.settings import Settings
from polylect.extensions.extensions import Extensions
from polylect.sessions.session import Session
from polylect.sessions.store import MemoryStore
from polylect.system.child_environment import command_environment
from polylect.system.clock_and_ids import new_id, now_ms
from polylect.tools.process.custody import Custody
from polylect.tools.sandbox.sandbox import Sandbox
from polylect.tools.standard import standard_tools
from polylect.tools.worker.pool import WorkerPool
from polylect.vocab.commands import Command
from polylect.vocab.content import Abilities
from polylect.vocab.events import Event
from polylect.vocab.ports import Provider, Store, Tool

ENV = Env(now=now_ms, new_id=new_id)
"""The clock and the ids for a codec, which does no I/O."""


@asynccontextmanager
async def open_engine(
    say: EventSink,
    provider: Provider,
    *,
    workspace: str = ".",
    tools: MutableMapping[str, Tool] | None = None,
    store: Store | None = None,
    env: Mapping[str, str] | None = None,
    env_names: Sequence[str] = (),
    wait_writable: Callable[[], Awaitable[None]] = always_writable,
    sandbox: Sandbox | None = None,
    extensions: Sequence[str] = (),
    hooks: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    offered: Abilities | None = None,
    **settings: Any,
) -> AsyncIterator[Engine]:
    """`handle` takes commands; `say` is called with every event, at once and in order, and must not wait.

    Of `env`, which is `os.environ` if nothing is said, commands see what `system/child_environment.py` lists, and what
    `env_names` adds to that (`"NAME"` or `"PREFIX_*"`). `wait_writable` is awaited between batches of the model's
    words: a sink that is full makes the model wait there (`room` is its old name). The commands of the standard tools
    run in the `sandbox`. `extensions` are files, `hooks` the table of the settings of that name; StartError is raised
    if an extension cannot be loaded. `offered` is what hosts are told beside what the model can do. Further settings
    are those of `engine/settings.py`.
    On leaving, what runs is stopped and every process is gone.
    """
    wait_writable = settings.pop("room", wait_writable)
    command_env = command_environment(os.environ if env is None else env, env_names)
    own_tools = standard_tools(sandbox=sandbox) if tools is None else tools

    custody = Custody()
    options: dict[str, Any] = {"files": extensions, "required": extensions, "commands": hooks, "env": command_env}
    user_code = Extensions(own_tools, custody, **options) if extensions or hooks else None

    def make_agent(callbacks: EngineCallbacks) -> Agent:
        if "compaction" in settings:  # its old name
            settings["output_cleanup"] = settings.pop("compaction")
        values = Settings(workspace=os.path.realpath(workspace), **settings)
        roots = [os.path.realpath(path) for path in (values.workspace, *values.folders)]
        return Agent(
            settings=values,
            provider=provider,
            tools=own_tools,
            session=Session(store or MemoryStore("")),
            processes=custody,
            worker=WorkerPool(custody, sandbox, roots),
            env=command_env,
            hooks=user_code or NoHooks(),
            offered=offered or Abilities(),
            callbacks=callbacks,
            open_servers=partial(open_servers, custody),
            wait_writable=wait_writable,
            new_id=new_id,
        )

    engine = Engine(make_agent, say)
    try:
        if user_code:
            await user_code.loaded()
        yield engine
    finally:
        await engine.close()


class Wire:
    """Connects an engine to bytes in a dialect: `say` is the sink for its events, `receive` takes the host's bytes."""

    def __init__(self, codec: EngineSide, write: Callable[[bytes], None]) -> None:
        self._codec = codec
        self._write = write
        self._engine: Engine | None = None

    def connect(self, engine: Engine) -> None:
        self._engine = engine
        self._handle(self._codec.start())

    def say(self, event: Event) -> None:
        if follows := self._codec.send(event):
            asyncio.get_running_loop().call_soon(self._handle, follows)  # never while an event is being handled
        self._flush()

    def receive(self, data: bytes) -> None:
        """Handles bytes from the host, in pieces of any size."""
        self._handle(self._codec.receive(data))

    def receive_eof(self) -> None:
        self._handle(self._codec.receive_eof())
        if self._engine:
            self._engine.input_closed(stop=False)

    def _handle(self, commands: list[Command]) -> None:
        assert self._engine, "connect it to its engine first"
        for command in commands:
            self._engine.handle(command)
        self._flush()

    def _flush(self) -> None:
        if data := self._codec.data_to_send():
            self._write(data)


class InProcess(InProcessLink):
    """A link of the host SDK to an engine in this process: `connect(lambda: InProcess(provider, workspace="."))`."""

    def __init__(self, provider: Provider, **options: Any) -> None:
        super().__init__(lambda say: open_engine(say, provider, **options))
