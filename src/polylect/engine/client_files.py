"""Text files of the host: `HostCall`s behind the port `TextFiles`, for file tools and checkpoints.

A host that edits files offers them in its `Hello`. Then tools read what the editor has, saved or not, and their changes
appear in it. Only files in the workspace and the folders beside it are asked for. A host that does not answer in time
(the setting `client_timeout`) is not asked again for PAUSE seconds, so that many calls do not wait for it one after the
other. An answer that is no text, or too long, counts as none.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from polylect.engine.host_calls import HostFault
from polylect.vocab.errors import NoHostAnswer, ToolError
from polylect.vocab.events import Event
from polylect.vocab.ports import FileState
from polylect.wire.line_endings import HEAD_SIZE, like_existing, plain

if TYPE_CHECKING:
    from polylect.engine.agent import Agent

PAUSE = 30.0
MOST_BYTES = 32 * 1024 * 1024
"""Of a text that the host may answer with: as large as a file on disk that is edited."""
_NEW_FILE = 0o644


def client_files(agent: "Agent", turn: str = "") -> "ClientFiles | None":
    """The text files of the agent's host; None if it offers none, or they are not to be used."""
    if not agent.client.read or agent.settings.client_files == "off" or agent.host_calls.gone:
        return None
    return ClientFiles(agent, agent.emitter(turn))


class ClientFiles:
    """The `TextFiles` of one call. Only a host that can be asked what is in a file is asked to change it."""

    def __init__(self, agent: "Agent", emit: Callable[[Event], None]) -> None:
        self._agent = agent
        self._emit = emit
        self.writable = agent.client.write

    def has(self, path: str) -> bool:
        return self._agent.in_folders(path)

    async def read(self, path: str) -> bytes | None:
        try:
            result = await self._call("read_text_file", {"path": path})
        except HostFault as fault:
            if fault.code == "missing":
                return None
            raise ToolError(f"The host refuses to read {path}: {fault}") from None
        text = result.get("content") if isinstance(result, dict) else None
        if not isinstance(text, str):
            raise NoHostAnswer("The host was asked for the text, and its answer is none")
        try:
            data = text.encode()
        except UnicodeEncodeError:
            raise NoHostAnswer("The host's text holds half a character (a lone surrogate)") from None
        if len(data) > MOST_BYTES:
            raise NoHostAnswer(f"The host's text has more than {MOST_BYTES} bytes")
        return data

    async def write(self, path: str, text: bytes) -> None:
        try:
            await self._call("write_text_file", {"path": path, "content": text.decode()})
        except HostFault as fault:
            raise ToolError(f"The host did not write {path}: {fault}") from None
        except NoHostAnswer as fault:
            raise NoHostAnswer(f"{fault}, so it is not known whether {path} was written. Read it again.") from None

    async def _call(self, method: str, params: dict[str, Any]) -> Any:
        """Raises NoHostAnswer, or HostFault if the host says no."""
        client, loop = self._agent.client, asyncio.get_running_loop()
        if loop.time() < client.silent_until:
            raise NoHostAnswer("The host has not answered before and is not asked for its files now")
        try:
            return await self._agent.host_calls.call(
                method, params, self._emit, timeout=self._agent.settings.client_timeout
            )
        except HostFault as fault:
            if fault.code == "timeout":
                client.silent_until = loop.time() + PAUSE
            if fault.code in ("timeout", "gone"):
                raise NoHostAnswer(f"The host was asked for its files, but {fault}") from None
            raise


class CheckpointFiles:
    """Files as checkpoints save and restore them: with what the host's editor has not saved.

    They are restored on disk in any case. The host is then told, so that its editor shows the same.
    """

    def __init__(self, agent: "Agent") -> None:
        self._agent = agent
        self._worker = agent.worker

    async def file_state(self, path: str) -> FileState | None:
        state = await self._worker.file_state(path)
        files = self._files(path)
        if files is None or (state and not _is_text(state.data)):
            return state
        try:
            text = await files.read(path)
        except ToolError:
            return state  # a call that changes it gets the same fault
        if text is None or plain(text) == plain(state.data if state else b""):
            return state
        if state is None:
            return FileState(text, _NEW_FILE)
        return FileState(like_existing(state.data[:HEAD_SIZE], text.decode()).encode(), state.mode)

    async def restore(self, path: str, state: FileState | None) -> None:
        await self._worker.restore(path, state)
        files = self._files(path)
        if files and state and _is_text(state.data):
            try:
                await files.write(path, state.data)
            except ToolError:
                pass  # its editor sees that the file on disk has changed

    async def count_changes(self, old: bytes, new: bytes) -> tuple[int, int]:
        return await self._worker.count_changes(old, new)

    def _files(self, path: str) -> ClientFiles | None:
        files = client_files(self._agent)
        return files if files and files.writable and files.has(path) else None


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in data
