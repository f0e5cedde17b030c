"""An engine inside another Python program: no child process, no pipes. What it says goes to any function you name."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from polylect.app.serving.in_process import Inside, Say, plenty
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
"""What a codec may not find out by itself."""


@asynccontextmanager
async def open_engine(
    say: Say,
    provider: Provider,
    *,
    workspace: str = ".",
    tools: MutableMapping[str, Tool] | None = None,
    store: Store | None = None,
    env: Mapping[str, str] | None = None,
    env_names: Sequence[str] = (),
    wait_writable: Callable[[], Awaitable[None]] = plenty,
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
    kept = command_environment(os.environ if env is None else env, env_names)
    own = standard_tools(sandbox=sandbox) if tools is None else tools

    custody = Custody()
    code: dict[str, Any] = {"files": extensions, "required": extensions, "commands": hooks, "env": kept}
    own_code = Extensions(own, custody, **code) if extensions or hooks else None

    def make_agent(callbacks: EngineCallbacks) -> Agent:
        if "compaction" in settings:  # its old name
            settings["output_cleanup"] = settings.pop("compaction")
        known = Settings(workspace=os.path.realpath(workspace), **settings)
        return Agent(
            settings=known,
            provider=provider,
            tools=own,
            session=Session(store or MemoryStore("")),
            processes=custody,
            worker=WorkerPool(custody, sandbox, [os.path.realpath(path) for path in (known.workspace, *known.folders)]),
            env=kept,
            hooks=own_code or NoHooks(),
            offered=offered or Abilities(),
            callbacks=callbacks,
            open_servers=partial(open_servers, custody),
            wait_writable=wait_writable,
            new_id=new_id,
        )

    engine = Engine(make_agent, say)
    try:
        if own_code:
            await own_code.loaded()
        yield engine
    finally:
        await engine.close()


class Wire:
    """A codec and a function that writes bytes: a sink that speaks a dialect, and its other direction."""

    def __init__(self, codec: EngineSide, write: Callable[[bytes], None]) -> None:
        self._codec = codec
        self._write = write
        self._engine: Engine | None = None

    def connect(self, engine: Engine) -> None:
        self._engine = engine
        self._take(self._codec.start())

    def say(self, event: Event) -> None:
        if follows := self._codec.send(event):
            asyncio.get_running_loop().call_soon(self._take, follows)  # never inside of what is being said
        self._flush()

    def receive(self, data: bytes) -> None:
        """Bytes from the host, in any pieces."""
        self._take(self._codec.receive(data))

    def receive_eof(self) -> None:
        self._take(self._codec.receive_eof())
        if self._engine:
            self._engine.input_closed(stop=False)

    def _take(self, commands: list[Command]) -> None:
        assert self._engine, "connect it to its engine first"
        for command in commands:
            self._engine.handle(command)
        self._flush()

    def _flush(self) -> None:
        if data := self._codec.data_to_send():
            self._write(data)


class InProcess(Inside):
    """A link of the host SDK to an engine in this process: `connect(lambda: InProcess(provider, workspace="."))`."""

    def __init__(self, provider: Provider, **options: Any) -> None:
        super().__init__(lambda say: open_engine(say, provider, **options))
