"""Text files of the host: Read, Write, Edit and MultiEdit work on what an editor has open, saved or not.

The path was judged as for any other file. The text of the host takes the place of the file on disk: it is handed to the
worker as a file in memory, the worker makes the page or the change, and the new text goes to the host. So limits,
checks and messages are those of files on disk.

The disk is used where that loses nothing: to read, if the host says that it has no such file or does not answer; never
to write in the host's place, because the editor may hold changes that are not saved. Pictures, notebooks and binary
files are always read from the disk. `context.seen` has a hash of the text, so that Edit notices a change of the editor.

Called by `file_access.py`.
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from polylect.system.threads import run_in_thread
from polylect.tools.files.regular_files import MOST_EDITED, Stamp, read_for_change
from polylect.tools.process.stdin_file import stdin_file
from polylect.vocab.errors import NoHostAnswer, NoSuchFile, ToolError
from polylect.vocab.ports import TextFiles, ToolContext
from polylect.wire.line_endings import HEAD_SIZE, like_existing, plain

TEXT_CHANGES = ("write", "edit")
"""Operations of the worker that change a text."""
ReadSaved = Callable[[int, int], Awaitable[dict[str, Any]]]
"""Reads so many lines from an offset on, from the disk."""


def text_stamp(data: bytes) -> Stamp:
    """Identifies a text, whatever its line endings. It is never the stamp of a file on disk."""
    from hashlib import sha256  # only for hosts that have files

    text = plain(data)
    return Stamp.unpacked([-int.from_bytes(sha256(text).digest()[:8], "big"), len(text)])


class HostText:
    """One call on one file. `path` is the argument of the model, for messages; `real` is what was judged."""

    def __init__(self, files: TextFiles, path: str, real: str, context: ToolContext) -> None:
        self._files = files
        self._path = path
        self._real = real
        self._context = context

    async def read(self, offset: int, limit: int, saved: ReadSaved) -> dict[str, Any]:
        """What Read shows. Raises ToolError."""
        missing: NoSuchFile | None = None
        try:
            probe = await saved(1, 1)
            if not probe.get("text") or probe["stamp"][1] > MOST_EDITED:
                return await saved(offset, limit)
        except NoSuchFile as error:  # the editor may have it all the same
            missing = error
        try:
            text = await self._files.read(self._real)
        except NoHostAnswer as fault:
            if missing:
                raise missing from None
            value = await saved(offset, limit)
            return {**value, "output": f"{value['output']}\n({fault}. This is the file as it was saved.)"}
        except ToolError:
            if missing:
                raise missing from None
            raise
        if missing and not text:  # some hosts answer with an empty text
            raise missing
        if text is None:
            return await saved(offset, limit)
        request = {"path": self._path, "real": self._real, "offset": offset, "limit": limit}
        value, _ = await self._ask_worker("read", request, text)
        if missing or self._files.writable:  # else changes are made on disk, whose state `saved` has noted
            self._context.seen[self._real] = text_stamp(text)
        return value

    async def change(self, operation: str, request: Mapping[str, Any], file: int) -> dict[str, Any]:
        """Make the change in the host's file. `file` is the one on disk; -1 if there is none. Raises ToolError."""
        saved = await run_in_thread(self._saved, operation, file)
        try:
            text = await self._files.read(self._real)
        except ToolError as fault:
            raise ToolError(f"{self._path} was not changed. {fault}.") from None
        request = {**request, "handed_back": True}
        if text is None or (file < 0 and not text):
            if file < 0 and operation == "edit":
                raise ToolError(f"{self._path} does not exist. Use Write to create it.")
            value, data = await self._context.worker.request(operation, request, file=file)
        else:
            value, data = await self._ask_worker(operation, request, text)
        new = like_existing(saved[:HEAD_SIZE], data.decode()).encode()
        await self._files.write(self._real, new)
        self._context.seen[self._real] = text_stamp(new)
        return value

    def _saved(self, operation: str, file: int) -> bytes:
        """The file on disk, or of one that will be replaced the beginning. One that is no text is not edited."""
        if file < 0:
            return b""
        if operation == "write":
            return os.pread(file, HEAD_SIZE, 0)
        data, _ = read_for_change(self._path, file)
        os.lseek(file, 0, os.SEEK_SET)  # the worker reads it from here on
        try:
            data.decode()
        except UnicodeDecodeError:
            raise ToolError(f"{self._path} is not UTF-8 text, so Edit would damage it. Change it with Bash.") from None
        return data

    async def _ask_worker(
        self, operation: str, request: Mapping[str, Any], text: bytes
    ) -> tuple[dict[str, Any], bytes]:
        """Do it on this text, as if it were a file that has not changed since the conversation saw it."""
        known = self._context.seen.get(self._real)
        if operation in TEXT_CHANGES and known is not None and known != text_stamp(text):
            raise ToolError(f"{self._path} has changed since it was read. Read it again before changing it.")
        file = stdin_file(text)
        try:
            if operation in TEXT_CHANGES:
                request = {**request, "known": Stamp(os.fstat(file)).packed if known is not None else None}
            return await self._context.worker.request(operation, request, file=file)
        finally:
            os.close(file)
