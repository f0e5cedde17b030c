"""The RpcClients that omp and pi ship, each in a process of its own, set on polylect instead of their own engine."""

import json
import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from bench.peers import installed

from engine_process import Engine, Place
from providers.wires import SECRET

HERE = Path(__file__).parent
ENGINE = [sys.executable, "-m", "polylect"]
MODEL = "claude-sonnet-4-5"
Json = dict[str, Any]


class Package(NamedTuple):
    """Where one is installed, and what runs it."""

    name: str
    folder: Path
    runtime: Path | str
    module: str

    @property
    def is_pi(self) -> bool:
        return self.name.startswith("pi")

    @property
    def protocol(self) -> str:
        """The version of the wire that it was written for."""
        return "pi" if self.is_pi else self.name.removeprefix("omp ")[:2]

    @property
    def path(self) -> str:
        """For programs: its own runtime first."""
        here = [str(self.runtime.parent)] if isinstance(self.runtime, Path) else []
        return os.pathsep.join([*here, os.environ["PATH"]])


def package(name: str) -> Package:
    modules = installed(name) / "node_modules"
    if name.startswith("pi"):
        (folder,) = modules.glob("@*/pi-coding-agent")
        return Package(name, folder, "node", "dist/modes/rpc/rpc-client.js")
    (bun,) = modules.glob("@oven/bun-*/bin/bun")  # the launcher beside it is made by a script of the package
    return Package(name, modules / "@oh-my-pi/pi-coding-agent", bun, "src/modes/rpc/rpc-client.ts")


class CallFailed(Exception):
    """The client threw."""


class Client:
    """Calls return what the method returned; what the client's listener heard is kept until somebody wants it."""

    def __init__(self, driver: Engine) -> None:
        self._driver = driver
        self._numbers = count(1)
        self._done: dict[int, Json] = {}
        self._received: deque[Json] = deque()

    def call(self, method: str, *args: object) -> Any:
        return self.result(self.begin(method, *args))

    def begin(self, method: str, *args: object) -> int:
        """Without waiting for what comes of it."""
        id = next(self._numbers)
        self._driver.send({"id": id, "call": method, "args": list(args)})
        return id

    def result(self, id: int) -> Any:
        while id not in self._done:
            self._read()
        done = self._done.pop(id)
        if done["type"] == "failed":
            raise CallFailed(done["error"])
        return done.get("value")

    def until(self, kind: str, fits: Callable[[Json], bool] = lambda event: True) -> list[Json]:
        """All events up to the first one of this kind that fits, with it."""
        events: list[Json] = []
        while not events or events[-1]["type"] != kind or not fits(events[-1]):
            while not self._received:
                self._read()
            events.append(self._received.popleft())
        return events

    def ask(self, text: str) -> list[Json]:
        """A prompt, and what it led to, up to the end of its last run."""
        events: list[Json] = self.call("promptAndWait", text)
        self._received.clear()
        while events[-1]["type"] != "agent_end":  # newer clients wait until all is settled
            events.pop()
        return events

    def _read(self) -> None:
        frame = self._driver.frame()
        if frame["type"] == "event":
            self._received.append(frame["event"])
        else:
            self._done[frame["id"]] = frame

    def children(self) -> list[str]:
        """The processes that it has started, and theirs, as folders of /proc."""
        actual = [f"/proc/{self._driver.pid}"]
        for process in actual:  # it grows meanwhile
            for children in Path(process).glob("task/*/children"):
                actual += [f"/proc/{pid}" for pid in children.read_text().split()]
        return actual[1:]

    def finish(self) -> int:
        """Nothing more to call: the driver stops its client and ends."""
        return self._driver.finish()[1]


def client(package: Package, place: Place, url: str, *flags: str, tools: Sequence[Json] = ()) -> Client:
    """Its engine asks the model at this address. `tools` are of the host's own: they tell what they were given."""
    options: Json = {"cwd": str(place.workspace), "provider": "anthropic", "model": MODEL, "customTools": tools}
    options["args"] = ["--base-url", url, *flags]
    options |= {"command": ENGINE} if package.protocol == "18" else {"cliPath": str(HERE / "omp_shim.mjs")}
    env = {"PATH": package.path, "POLYLECT_ENGINE": json.dumps(ENGINE), "ANTHROPIC_API_KEY": SECRET}
    argv = [str(package.runtime), str(HERE / "omp_driver.mjs"), str(package.folder / package.module)]
    driver = Engine([*argv, json.dumps(options)], place.workspace, {**place.env, **env})
    place.keep(driver)
    return Client(driver)
