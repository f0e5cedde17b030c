"""Edit: one text in a file for another."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from polylect.tools.arguments import TypedTool, shown
from polylect.tools.diff import unified_diff
from polylect.tools.files import as_crlf, is_crlf, read_whole, refuse_if_changed, replace
from polylect.tools.limits import cut_middle
from polylect.tools.paths import admit, real_paths, relative
from polylect.vocab.content import Category
from polylect.vocab.errors import ToolError
from polylect.vocab.ports import ToolContext, ToolReturn

TEXT = """\
Replaces old_string by new_string in a file that you have read. old_string has to be in the file exactly once,
spaces and all and without the line numbers that Read shows: take in a neighbouring line if it is not unique, or set
replace_all. The answer is the change as a unified diff."""

MOST = 10_000
_BOM = b"\xef\xbb\xbf"


class Arguments(Struct, frozen=True):
    file_path: Annotated[str, Meta(description="The file, absolute or relative to the workspace.")]
    old_string: Annotated[str, Meta(description="The text that is there now.")]
    new_string: Annotated[str, Meta(description="The text to put in its place.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence.")] = False


class Edit(TypedTool[Arguments]):
    name = "Edit"
    category: Category = "edit"
    text = TEXT
    arguments = Arguments

    def describe(self, args: dict[str, Any]) -> str:
        return f"Edit {shown(args, 'file_path')}"

    def touches(self, args: dict[str, Any], workspace: str) -> tuple[str, ...]:
        return real_paths(args, "file_path", workspace)

    async def work(self, args: Arguments, context: ToolContext) -> ToolReturn:
        path = args.file_path
        real = admit(path, context)
        try:
            data, status = read_whole(path, real)
        except FileNotFoundError:
            raise ToolError(f"{path} does not exist. Use Write to create it.") from None
        if real not in context.seen:
            raise ToolError(f"Read {path} first: a file can only be edited once you have seen it.")
        refuse_if_changed(path, real, status, context)
        bom, old = _decode(path, data)
        new = _replaced(old, args)
        try:
            changed = bom + new.encode()
        except UnicodeEncodeError:
            raise ToolError("new_string holds half a character (a lone surrogate), which no file can.") from None
        context.seen[real] = replace(path, real, changed, status)
        diff = unified_diff(relative(real, context.workspace), old, new)
        return ToolReturn(cut_middle(diff, MOST), form="diff", metadata={"file_path": path})


def _decode(path: str, data: bytes) -> tuple[bytes, str]:
    bom = _BOM if data.startswith(_BOM) else b""
    try:
        return bom, data[len(bom) :].decode()
    except UnicodeDecodeError:
        raise ToolError(f"{path} is not UTF-8 text, so Edit would damage it. Change it with Bash.") from None


def _replaced(text: str, args: Arguments) -> str:
    old, new = _in_endings_of(text, args)
    if not old:
        raise ToolError("old_string is empty. Name the text to replace, or use Write for the whole file.")
    if old == new:
        raise ToolError("old_string and new_string are the same: nothing to change.")
    count = text.count(old)
    if not count:
        raise ToolError("old_string not found in file. It has to match exactly: read that part again.")
    if count > 1 and not args.replace_all:
        raise ToolError(f"Multiple matches found ({count}). Use replace_all or provide more context.")
    return text.replace(old, new)


def _in_endings_of(text: str, args: Arguments) -> tuple[str, str]:
    """Both strings with the line endings of the file: the model has not seen which ones it has."""
    old, new = args.old_string, args.new_string
    if is_crlf(text):
        return (as_crlf(old) if as_crlf(old) in text else old), as_crlf(new)
    return (old if old in text else old.replace("\r\n", "\n")), new
