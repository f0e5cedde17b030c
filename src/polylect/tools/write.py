"""Write: a whole file, new or in the place of an old one."""

import os
from typing import Annotated, Any

from msgspec import Meta, Struct

from polylect.tools.arguments import TypedTool, shown
from polylect.tools.files import BOM, as_crlf, is_crlf, opened_file, refuse_if_changed, replace
from polylect.tools.paths import admit, real_paths
from polylect.vocab.content import Category
from polylect.vocab.errors import ToolError
from polylect.vocab.ports import ToolContext, ToolReturn

TEXT = """\
Writes a file with exactly this content, in the place of what was there. Missing folders are made.
To change part of a file, use Edit. A file that changed since you read it has to be read again first."""

_SNIFF = 65536


class Arguments(Struct, frozen=True):
    file_path: Annotated[str, Meta(description="The file, absolute or relative to the workspace.")]
    content: Annotated[str, Meta(description="All of the file's text.")]


class Write(TypedTool[Arguments]):
    name = "Write"
    category: Category = "edit"
    text = TEXT
    arguments = Arguments

    def describe(self, args: dict[str, Any]) -> str:
        return f"Write to {shown(args, 'file_path')}"

    def touches(self, args: dict[str, Any], workspace: str) -> tuple[str, ...]:
        return real_paths(args, "file_path", workspace)

    async def work(self, args: Arguments, context: ToolContext) -> ToolReturn:
        path, content = args.file_path, args.content
        real = admit(path, context)
        before, head = _look(path, real)
        if before:
            refuse_if_changed(path, real, before, context)
        try:
            data = _in_manner_of(head, content).encode()
        except UnicodeEncodeError:
            raise ToolError("content holds half a character (a lone surrogate), which no file can.") from None
        context.seen[real] = replace(path, real, data, before)
        lines = content.count("\n") + (not content.endswith("\n") and content != "")
        return ToolReturn(f"{'Updated' if before else 'Created'} {path} ({lines} lines)", metadata={"file_path": path})


def _look(path: str, real: str) -> tuple[os.stat_result | None, bytes]:
    """What is there now, and how it begins."""
    try:
        with opened_file(path, real) as file:
            return os.fstat(file), os.pread(file, _SNIFF, 0)
    except FileNotFoundError:
        return None, b""


def _in_manner_of(head: bytes, content: str) -> str:
    """With the line endings of the file that was there (P3), and with its mark of UTF-8: Read shows neither."""
    mark = BOM.decode()
    text = as_crlf(content) if is_crlf(head.decode("latin-1")) else content
    return mark + text if head.startswith(BOM) and text and not text.startswith(mark) else text
