"""Read: a text file, with line numbers."""

import asyncio
import os
from typing import Annotated, Any

from msgspec import Meta, Struct

from polylect.tools.arguments import TypedTool, shown
from polylect.tools.files import opened_file, stamp
from polylect.tools.paths import admit, real_paths
from polylect.vocab.content import Category
from polylect.vocab.errors import ToolError
from polylect.vocab.ports import ToolContext, ToolReturn

TEXT = """\
Shows a text file of the workspace, each line with its number (from 1) and a tab before it.
A long file is shown in parts: the answer then says which offset to go on with.
Read a file before you change it with Edit. For a folder use Glob."""

MOST = 100_000
"""Bytes shown at a time."""
_SNIFF = 8192
_CHUNK = 256 * 1024


class Arguments(Struct, frozen=True):
    file_path: Annotated[str, Meta(description="The file, absolute or relative to the workspace.")]
    offset: Annotated[int, Meta(ge=0, description="How many lines to skip first.")] = 0
    limit: Annotated[int, Meta(ge=0, description="How many lines to show at most; 0 for as many as fit.")] = 0


class Read(TypedTool[Arguments]):
    name = "Read"
    category: Category = "info"
    text = TEXT
    arguments = Arguments

    def describe(self, args: dict[str, Any]) -> str:
        return f"Read {shown(args, 'file_path')}"

    def touches(self, args: dict[str, Any], workspace: str) -> tuple[str, ...]:
        return real_paths(args, "file_path", workspace)

    async def work(self, args: Arguments, context: ToolContext) -> ToolReturn:
        real = admit(args.file_path, context)
        try:
            with opened_file(args.file_path, real) as file:
                status = os.fstat(file)
                output = await _show(file, status.st_size, args)
        except (FileNotFoundError, NotADirectoryError):
            raise ToolError(f"Failed to read file {args.file_path}: there is none. {_nearby(real)}") from None
        except OSError as fault:
            raise ToolError(f"Failed to read file {args.file_path}: {fault.strerror}") from None
        context.seen[real] = stamp(status)
        return ToolReturn(output)


async def _show(file: int, size: int, args: Arguments) -> str:
    if b"\0" in os.pread(file, _SNIFF, 0):
        return f"(binary file, {size} bytes)"
    page = Page(args.offset, args.limit)
    while not page.full and (data := os.read(file, _CHUNK)):
        page.add(data)
        await asyncio.sleep(0)  # a file of any size, and the engine still hears its host
    page.end()
    if page.lines:
        return "\n".join(page.lines) + page.note
    if args.offset:
        raise ToolError(f"{args.file_path} has only {page.number} lines: offset {args.offset} is past its end.")
    return "(empty file)"


class Page:
    """The wanted lines of a text that comes in pieces."""

    def __init__(self, offset: int, limit: int) -> None:
        self.lines: list[str] = []
        self.number = 0
        """Lines passed so far, shown or not."""
        self.note = ""
        self.full = False
        self._offset = offset
        self._limit = limit
        self._room = MOST
        self._rest = b""

    def add(self, data: bytes) -> None:
        breaks = data.count(b"\n")
        if breaks and self.number + breaks < self._offset:  # all of it is before the page
            self.number += breaks
            self._rest = data[data.rfind(b"\n") + 1 :]
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(line)
        if len(self._rest) > self._room and self.number >= self._offset:
            self._take(self._rest)
        elif self.number < self._offset:
            self._rest = self._rest[:1]  # of a line that is skipped only its being there matters

    def end(self) -> None:
        if self._rest:
            self._take(self._rest)

    def _take(self, line: bytes) -> None:
        if self.full:
            return
        self.number += 1
        if self.number <= self._offset:
            return
        if len(line) > self._room:
            self._stop(line)
            return
        self._room -= len(line) + 8
        self._show(line)
        if len(self.lines) == self._limit:
            self.full = True

    def _stop(self, line: bytes) -> None:
        self.full = True
        if self.lines:
            self.note = f"\n\n(There is more: go on with offset {self.number - 1}.)"
        else:
            self._show(line[: self._room])
            self.note = f"\n\n(Line {self.number} is cut here. The next one is at offset {self.number}.)"

    def _show(self, line: bytes) -> None:
        text = line.removesuffix(b"\r").decode(errors="replace")
        self.lines.append(f"{self.number:6d}\t{text.removeprefix(chr(0xFEFF)) if self.number == 1 else text}")


def _nearby(real: str) -> str:
    """What is there instead of a missing file."""
    from difflib import get_close_matches  # 5 ms, only when something is missing

    folder, name = os.path.split(real)
    while not os.path.isdir(folder):
        folder, name = os.path.split(folder)
    names = sorted(os.listdir(folder)) if os.access(folder, os.R_OK) else []
    if close := get_close_matches(name, names, n=3, cutoff=0.5):
        return f"Did you mean {' or '.join(os.path.join(folder, found) for found in close)}?"
    return f"Look with Glob what is in {folder}."
