"""Confines commands (P4): by bubblewrap where it works, else by Landlock, else not at all.

A command may write in the workspace, in granted folders, in caches and in temporary folders. It may read everything
else but the usual places of secrets. What the machine supports is tried out before the first command, or shown by the
first worker. If the settings require something that it does not support, no command runs.

Bash, hooks and the worker pool call `Sandbox.argv`, which returns the command line of the confined command.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Literal

from polylect.system.child_environment import loader_variables
from polylect.tools.process.programs import find_program
from polylect.tools.sandbox.bwrap import bwrap_argv
from polylect.tools.sandbox.fence import Fence
from polylect.tools.sandbox.policy import CacheFolders, HiddenPlaces, expand, git_paths, is_real, temporary_paths
from polylect.vocab.errors import ToolError
from polylect.vocab.ports import Processes

Mode = Literal["auto", "bwrap", "landlock", "off"]
MODES: tuple[Mode, ...] = ("auto", "bwrap", "landlock", "off")
Kind = Literal["bwrap", "landlock", "none"]

_PROGRAM_FOLDERS = "/usr/bin:/bin:/usr/local/bin:"
_PROBE_TIME = 5.0
_MOST_WORDS = 9000
"""bubblewrap's own limit."""
_log = logging.getLogger(__name__)


class Sandbox:
    """The sandbox of one session. `writable`, `hidden` and `readable` are paths of the settings."""

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
        """The sandbox that is used; None before the first command."""
        self.why = "it is switched off by [sandbox] mode" if mode == "off" else ""
        """Why no better sandbox is used."""
        self._env = env
        self._loader = loader_variables(env) if os.access("/usr/bin/env", os.X_OK) else {}
        self._settings = writable, hidden
        self._readable = [path for one in readable if (path := expand(one, env))]
        self._scope = Fence([], network=network, only_scope=True).to_argv()
        """Goes before bubblewrap's command line: Landlock blocks abstract sockets, and seccomp those that ignore
        network namespaces (AF_VSOCK reaches the host of a virtual machine). Empty where bubblewrap does not start so.
        """
        self._rejected: set[str] = set()
        self._found_places: tuple[list[str], HiddenPlaces] | None = None
        self._caches: CacheFolders | None = None
        self._detecting = asyncio.Lock()

    async def argv(self, argv: Sequence[str], workspace: str, roots: Sequence[str], processes: Processes) -> list[str]:
        """The command line that runs this one confined. Raises ToolError if the required sandbox is not available."""
        await self.detect(workspace, processes)
        return self.confine(argv, self.fence(workspace, roots), workspace)

    def confine(self, argv: Sequence[str], fence: Fence, workspace: str) -> list[str]:
        """The command line that runs this one within the fence. Before `detect`: in the sandbox that is tried first."""
        if self._loader:  # set by the command itself: what builds the sandbox must not load libraries from there
            argv = ["/usr/bin/env", *(f"{name}={value}" for name, value in self._loader.items()), *argv]
        bwrap = "" if self.mode == "landlock" else self._bwrap(workspace)
        match self.kind or ("bwrap" if bwrap else "landlock"):
            case "bwrap":
                words = bwrap_argv(bwrap, fence, argv)
                if len(words) > _MOST_WORDS:
                    raise ToolError(
                        "[sandbox] hides or opens more places than bubblewrap takes: name the folders around them."
                    )
                return [*self._scope, *words]
            case "landlock":
                return [*fence.to_argv(), *argv]
            case _:
                return list(argv)

    def hidden(self, workspace: str) -> Set[str]:
        """The places that commands may not read, whether they exist or not. Of nested places the inner one counts."""
        return self._places(workspace)[1].all()

    def writable(self, workspace: str) -> Sequence[str]:
        """What commands may change beside the workspace and granted folders: real paths of the session's start."""
        return self._places(workspace)[0]

    def fence(self, workspace: str, roots: Sequence[str]) -> Fence:
        """What a command may reach now. Computed for each command, because hidden places come and go."""
        usual, places = self._places(workspace)
        if self._caches:
            self._caches.make_missing()
        granted = (workspace, *roots)
        if not is_real(workspace):
            raise ToolError(
                f"{workspace} has become a link, or lies behind one: nothing runs until it is a folder again."
            )
        opened = self._without_links(dict.fromkeys((*granted, *usual)))
        hidden = [path for path in places.now(granted) if path not in opened]
        return Fence(opened, hidden, self._without_links(self._readable), network=self.network)

    def _without_links(self, places: Iterable[str]) -> list[str]:
        """The places whose path still has no link. A link that was created since would open another place."""
        places = list(places)
        real = [path for path in places if is_real(path)]
        for path in set(places).difference(real, self._rejected):
            self._rejected.add(path)
            _log.warning("%s has become a link, or lies behind one: commands may no longer use it", path)
        return real

    def _places(self, workspace: str) -> tuple[list[str], HiddenPlaces]:
        """The writable and the hidden places. Determined once, before a command could change the result."""
        if self._found_places is None:
            writable, hidden = self._settings
            own = [path for one in writable if (path := expand(one, self._env))]
            self._caches = CacheFolders(self._env)
            opened = [
                *map(os.path.realpath, git_paths(workspace)),
                *temporary_paths(self._env),
                *self._caches.paths,
                *own,
            ]
            self._found_places = opened, HiddenPlaces(hidden, self._env)
        return self._found_places

    def close(self) -> None:
        """Remove the folders for caches that were made and are still empty. Called when no command runs any more."""
        if self._caches:
            self._caches.remove_unused()

    def expects_bwrap(self, workspace: str) -> bool:
        """Whether `confine` uses bubblewrap though nothing has shown yet that it works."""
        return self.kind is None and self.mode in ("auto", "bwrap") and bool(self._bwrap(workspace))

    def confirm_bwrap(self) -> None:
        """A process runs in bubblewrap as `confine` starts it: so `detect` need not try it."""
        self.kind = self.kind or "bwrap"

    async def detect(self, workspace: str, processes: Processes) -> None:
        """Try out, once, which sandbox this machine supports. The places of the settings play no part in it: where they
        cannot be applied, the call fails, and no weaker sandbox is used instead."""
        async with self._detecting:
            if self.kind is None:
                await self._detect_kind(workspace, processes)

    async def _detect_kind(self, workspace: str, processes: Processes) -> None:
        if self.mode not in MODES:
            raise ToolError(f"[sandbox] mode = {self.mode!r}: choose one of {', '.join(MODES)}")
        faults: list[str] = []
        if self.mode in ("auto", "bwrap"):
            for scope in (self._scope, []):  # the first takes no setuid bwrap
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
        """Why bubblewrap does not work here; empty if it does."""
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
        """The path of bubblewrap: from the system's folders first, and never from the workspace."""
        if sys.platform != "linux":
            return ""
        return find_program("bwrap", {"PATH": _PROGRAM_FOLDERS + self._env.get("PATH", "")}, workspace)
