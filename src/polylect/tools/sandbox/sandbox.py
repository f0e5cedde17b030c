"""Keeps commands apart from the rest of the machine (P4): bubblewrap where it works, else Landlock, else nothing.

They write in the workspace, in folders that were granted, in caches and temporary folders; the rest they only read,
and the usual secrets not even that.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from polylect.system.child_environment import loader_variables
from polylect.tools.process.programs import find_program
from polylect.tools.sandbox.bwrap import bwrap_argv
from polylect.tools.sandbox.fence import Fence
from polylect.tools.sandbox.policy import HiddenPlaces, cache_paths, expand, git_paths, is_real, temporary_paths
from polylect.vocab.errors import ToolError
from polylect.vocab.ports import Processes

Mode = Literal["auto", "bwrap", "landlock", "off"]
MODES: tuple[Mode, ...] = ("auto", "bwrap", "landlock", "off")
Kind = Literal["bwrap", "landlock", "none"]

_PLACES = "/usr/bin:/bin:/usr/local/bin:"
_PROBE_TIME = 5.0
_MOST_WORDS = 9000
"""bubblewrap's own limit."""
_log = logging.getLogger(__name__)


class Sandbox:
    """How the commands of one session are kept. What the machine offers is found out with the first one."""

    def __init__(
        self,
        mode: Mode = "auto",
        *,
        network: bool = True,
        writable: Sequence[str] = (),
        hidden: Sequence[str] = (),
        readable: Sequence[str] = (),
        env: Mapping[str, str],
    ) -> None:
        self.mode = mode
        self.network = network
        self.kind: Kind | None = "none" if mode == "off" else None
        """What is in force; None until that is known."""
        self.why = "it is switched off by [sandbox] mode" if mode == "off" else ""
        """What is missing for something better."""
        self._env = env
        self._loader = loader_variables(env) if os.access("/usr/bin/env", os.X_OK) else {}
        self._told = writable, hidden
        self._readable = [path for one in readable if (path := expand(one, env))]
        self._scope: list[str] = []
        """Goes before bubblewrap's command line where Landlock can keep sockets without a path out of reach."""
        self._left_out: set[str] = set()
        self._usual: tuple[list[str], HiddenPlaces] | None = None
        self._settling = asyncio.Lock()

    async def argv(self, argv: Sequence[str], workspace: str, roots: Sequence[str], processes: Processes) -> list[str]:
        """The command line that runs this one inside. Raises ToolError if what was asked for cannot be had."""
        await self.settle(workspace, processes)
        if self._loader:  # set by the command itself: what builds the sandbox must not load libraries from there
            argv = ["/usr/bin/env", *(f"{name}={value}" for name, value in self._loader.items()), *argv]
        match self.kind:
            case "bwrap":
                words = bwrap_argv(self._bwrap(workspace), self.fence(workspace, roots), argv)
                if len(words) > _MOST_WORDS:
                    raise ToolError(
                        "[sandbox] hides or opens more places than bubblewrap takes: name the folders around them."
                    )
                return [*self._scope, *words]
            case "landlock":
                return [*self.fence(workspace, roots).words(), *argv]
            case _:
                return list(argv)

    def hidden(self, workspace: str) -> Sequence[str]:
        """What commands may not read, whether it exists or not. Of nested places the inner one counts."""
        return self._look_up(workspace)[1].all()

    def writable(self, workspace: str) -> Sequence[str]:
        """What commands may change beside the workspace and granted folders: real paths of the session's start."""
        return self._look_up(workspace)[0]

    def fence(self, workspace: str, roots: Sequence[str]) -> Fence:
        """What a command may reach now: asked before each one, because hidden places come and go."""
        usual, places = self._look_up(workspace)
        granted = (workspace, *roots)
        if not is_real(workspace):
            raise ToolError(
                f"{workspace} has become a link, or lies behind one: nothing runs until it is a folder again."
            )
        opened = self._real(dict.fromkeys((*granted, *usual)))
        hidden = [path for path in places.now(granted) if path not in opened]
        return Fence(opened, hidden, self._real(self._readable), network=self.network)

    def _real(self, places: Iterable[str]) -> list[str]:
        """Those in whose path no link has been put since they were granted: it would open what nobody has opened."""
        places = list(places)
        real = [path for path in places if is_real(path)]
        for path in set(places).difference(real, self._left_out):
            self._left_out.add(path)
            _log.warning("%s has become a link, or lies behind one: commands may no longer use it", path)
        return real

    def _look_up(self, workspace: str) -> tuple[list[str], HiddenPlaces]:
        """What is opened and what is to be hidden: once, before a command could change the answer."""
        if self._usual is None:
            writable, hidden = self._told
            own = [path for one in writable if (path := expand(one, self._env))]
            opened = [
                *map(os.path.realpath, git_paths(workspace)),
                *temporary_paths(self._env),
                *cache_paths(self._env),
                *own,
            ]
            self._usual = opened, HiddenPlaces(hidden, self._env)
        return self._usual

    async def settle(self, workspace: str, processes: Processes) -> None:
        """Find out by trying, once, what this machine offers. What the settings hide or open has no say in it: where
        that cannot be done, the call fails, and no weaker sandbox takes the place of the better one."""
        async with self._settling:
            if self.kind is None:
                await self._find_kind(workspace, processes)

    async def _find_kind(self, workspace: str, processes: Processes) -> None:
        faults: list[str] = []
        if self.mode in ("auto", "bwrap"):
            for scope in (Fence([], only_scope=True).words(), []):  # the first takes Landlock, and no setuid bwrap
                fault = await self._try_bwrap(scope, workspace, processes)
                if not fault:
                    self.kind, self._scope = "bwrap", scope
                    return
            faults.append(fault)
        if self.mode in ("auto", "landlock"):
            fault = self._landlock_fault()
            if not fault:
                self.kind, self.why = "landlock", "; ".join(faults)
                return
            faults.append(fault)
        self.why = "; ".join(faults)
        if self.mode != "auto" or not self.network:
            raise ToolError(f"Commands cannot be run in the sandbox that the settings ask for: {self.why}.")
        self.kind = "none"
        _log.warning("commands run without a sandbox: %s", self.why)

    async def _try_bwrap(self, scope: Sequence[str], workspace: str, processes: Processes) -> str:
        """What keeps bubblewrap from working here; empty if nothing does."""
        program = self._bwrap(workspace)
        if not program:
            return "bubblewrap (bwrap) is not installed"
        output: list[bytes] = []
        argv = [*scope, *bwrap_argv(program, Fence([], network=self.network), ("/bin/sh", "-c", ":"))]
        try:
            end = await processes.run(
                argv, cwd=workspace, env={}, timeout=_PROBE_TIME, on_output=lambda stream, data: output.append(data)
            )
        except ToolError as error:
            return str(error)
        if end.code == 0:
            return ""
        return f"bubblewrap does not work here: {b''.join(output).decode(errors='replace').strip() or end.code}"

    def _landlock_fault(self) -> str:
        if sys.platform != "linux":
            return "Landlock is only to be had on Linux"
        from polylect.tools.sandbox.landlock import OLDEST, can_cut_network, version  # ctypes: 3 ms, seldom needed

        if version() < OLDEST:
            return f"this kernel has no Landlock of version {OLDEST} or later"
        if not self.network and not can_cut_network():
            return "Landlock cannot cut off the network on this machine"
        return ""

    def _bwrap(self, workspace: str) -> str:
        """The usual places come first, and a program of that name in the workspace does not count."""
        if sys.platform != "linux":
            return ""
        return find_program("bwrap", {"PATH": _PLACES + self._env.get("PATH", "")}, workspace)
