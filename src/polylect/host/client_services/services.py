"""Files and terminals that the SDK serves to an engine which asks its host for them, inside the workspace.

Agents of ACP, and polylect where its settings say so, leave reading and writing files and running commands to their
host (`HostCall` in `vocab/events.py`). `ClientServices` does that for hosts that have no editor of their own.
`supervision/conversation.py` passes the calls on; whoever speaks a wire by himself can call `handle`.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from polylect.host.client_services.faults import ServiceFault
from polylect.host.client_services.terminals import TerminalService
from polylect.host.client_services.text_files import FileService

_FILES = ("read_text_file", "write_text_file")


class ClientServices:
    """What one host serves to one engine.

    Args:
        cwd: The folder in which the engine works.
        folders: Further folders that files and commands may be in.
        files: Whether text files are read and written.
        terminal: Whether commands are run.
        env: The environment of commands. Keys and other secrets are removed, as for commands of our own engine.
        missing_as_empty: Whether a file that is not there is answered with an empty text. gemini 0.61 cannot create a
            file if that is an error.
    """

    def __init__(
        self,
        cwd: str,
        folders: Sequence[str] = (),
        *,
        files: bool,
        terminal: bool,
        env: Mapping[str, str] | None = None,
        missing_as_empty: bool = False,
    ) -> None:
        roots = [os.path.realpath(folder) for folder in (cwd, *folders)]
        self._files = FileService(roots, missing_as_empty=missing_as_empty) if files else None
        self._terminals = TerminalService(roots, os.environ if env is None else env) if terminal else None

    def offers(self) -> dict[str, Any]:
        """Returns the `offers` of `Hello`."""
        files = {"files": {"read": True, "write": True}} if self._files else {}
        return {**files, **({"terminal": True} if self._terminals else {})}

    def serves(self, method: str) -> bool:
        """Whether a `HostCall` of this `method` is for these services, though it may be refused."""
        return method in _FILES or method in TerminalService.METHODS

    async def handle(self, method: str, params: Any) -> dict[str, Any]:
        """Does what a `HostCall` asks for and returns its result.

        Args:
            method: The method of the call.
            params: Its fields. Fields that are null count as absent.

        Raises:
            ServiceFault: It cannot be done; `code` says why in a word.
        """
        fields = {key: value for key, value in params.items() if value is not None} if isinstance(params, dict) else {}
        if method in _FILES and self._files:
            return await self._files.handle(method, fields)
        if method in TerminalService.METHODS and self._terminals:
            return await self._terminals.handle(method, fields)
        raise ServiceFault("unsupported", f"this host does not do {method!r}")

    async def undo(self, method: str, result: Any) -> None:
        """Releases the terminal of a call that nobody waits for any more. `method` and `result`: of that call."""
        if method == "create_terminal" and self._terminals and isinstance(result, dict):
            await self._terminals.release(str(result.get("terminal")))

    def end_terminals(self) -> None:
        """Kills all commands, because the turn was cancelled. Their output can still be asked for."""
        if self._terminals:
            self._terminals.end_all()

    def forget_terminals(self) -> None:
        """Kills all commands and forgets their terminals, because the engine that knew them is gone."""
        if self._terminals:
            self._terminals.forget_all()

    async def close(self) -> None:
        """Ends everything that still runs, in bounded time."""
        if self._terminals:
            await self._terminals.close()
