"""The structured result of a call: `tool_use_result` of a `user` frame, from which hosts render files and diffs.

    Edit  {"filePath": "a.py", "oldString": "x", "newString": "y", "structuredPatch": [{"oldStart": 1, ...}], ...}
    Grep  {"mode": "files_with_matches", "numFiles": 1, "filenames": ["a.py"]}

It is made of the arguments of the call and of the text that the model gets, so that tools need not know this wire. What
that text does not say is left out, or null where hosts expect the field. `_SHAPES` has one function for each tool that
hosts know; other tools have their own metadata. `EventWriter` is the caller.
"""

from collections.abc import Callable
from typing import Any

from polylect.dialects.claude.engine.git_operations import git_operation
from polylect.vocab.events import ToolFinished
from polylect.wire.lazy_regex import pattern

Object = dict[str, Any]

_NUMBERED = pattern(r" *(-?\d+)\t(.*)")
_HUNK = pattern(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NOTE = pattern(r"\(\d+ more (?:lines|files)\b.*\)")
_NOTHING = ("No matches found", "No files matched the pattern")


def structured_result(event: ToolFinished, args: Object, duration_ms: int) -> Object | str | None:
    """The value of `tool_use_result`; None if there is none.

    event         the end of the call
    args          the arguments that the model gave
    duration_ms   how long the call ran
    """
    if event.outcome != "ok":
        return event.metadata if event.metadata is not None else f"Error: {event.output[:2000]}"
    shape = _SHAPES.get(event.name)
    if shape is None:
        return event.metadata
    fields = shape(event, args)
    if event.name == "Glob":
        fields["durationMs"] = duration_ms
    return fields


def _bash(event: ToolFinished, args: Object) -> Object:
    """Both streams stand below their names. If commands print these names too, the last `STDERR:` counts."""
    if id := (event.metadata or {}).get("bash_id"):
        return {"stdout": "", "stderr": "", "interrupted": False, "isImage": False, "backgroundTaskId": id}
    streams = event.output.partition("STDOUT:\n")[2]
    stdout, heading, stderr = streams.rpartition("\nSTDERR:\n")
    stdout, stderr = (stdout, stderr) if heading else (event.output, "")
    printed = {"stdout": stdout.rstrip("\n"), "stderr": stderr.rstrip("\n"), "interrupted": False, "isImage": False}
    operation = git_operation(str(args.get("command", "")), event.output)
    return printed | ({"gitOperation": operation} if operation else {})


def _read(event: ToolFinished, args: Object) -> Object:
    if event.images:
        image = event.images[0]
        size = len(image.data) // 4 * 3 - image.data[-2:].count("=")
        return {"type": "image", "file": {"base64": image.data, "type": image.media_type, "originalSize": size}}
    rows = [row for line in event.output.split("\n") if (row := _NUMBERED.fullmatch(line))]
    first = int(rows[0][1]) if rows else 1
    file = {
        "filePath": _path(args),
        "content": "\n".join(row[2] for row in rows),
        "numLines": len(rows),
        "startLine": first,
        "totalLines": max(first + len(rows) - 1, 0),  # at least: a page of a file does not tell how long the file is
    }
    return {"type": "text", "file": file}


def _edit(event: ToolFinished, args: Object) -> Object:
    return {
        "filePath": _path(args),
        "oldString": args.get("old_string", ""),
        "newString": args.get("new_string", ""),
        "replaceAll": args.get("replace_all") is True,
        **_patched(event),
    }


def _multi_edit(event: ToolFinished, args: Object) -> Object:
    return {"filePath": _path(args), "edits": args.get("edits", []), **_patched(event)}


def _patched(event: ToolFinished) -> Object:
    return {"originalFile": None, "structuredPatch": _hunks(event.output), "userModified": False}


def _hunks(diff: str) -> list[Object]:
    """The hunks of a unified diff. A count that is left out is 1."""
    hunks: list[Object] = []
    for line in diff.split("\n"):
        if title := _HUNK.match(line):
            old, old_lines, new, new_lines = (int(number or 1) for number in title.groups())
            numbers = {"oldStart": old, "oldLines": old_lines, "newStart": new, "newLines": new_lines}
            hunks.append({**numbers, "lines": []})
        elif hunks and line[:1] in ("+", "-", " ", "\\"):
            hunks[-1]["lines"].append(line)
    return hunks


def _write(event: ToolFinished, args: Object) -> Object:
    kind = "update" if event.output.startswith("Updated") else "create"
    content = args.get("content", "")
    return {"type": kind, "filePath": _path(args), "content": content, "structuredPatch": [], "originalFile": None}


def _grep(event: ToolFinished, args: Object) -> Object:
    mode, (rows, cut) = args.get("output_mode", "content"), _rows(event.output)
    limits = {"appliedLimit": len(rows)} if cut else {}
    if args.get("offset"):
        limits["appliedOffset"] = args["offset"]
    if mode == "files_with_matches":
        return {"mode": mode, "numFiles": len(rows), "filenames": rows, **limits}
    details: Object = {"mode": mode, "numFiles": 0, "filenames": [], "content": "\n".join(rows)}
    if mode == "count":
        counts = [row.rpartition(":")[2] for row in rows]
        details |= {"numFiles": len(rows), "numMatches": sum(int(count) for count in counts if count.isdecimal())}
    else:
        details["numLines"] = len(rows)
    return {**details, **limits}


def _glob(event: ToolFinished, args: Object) -> Object:
    rows, cut = _rows(event.output)
    return {"filenames": rows, "numFiles": len(rows), "truncated": cut}


def _rows(output: str) -> tuple[list[str], bool]:
    """The lines of a search result, and whether there are more. A remark about the call follows an empty line."""
    output = output.partition("\n\n(")[0]
    rows = [] if output in _NOTHING else output.split("\n")
    cut = bool(rows) and _NOTE.fullmatch(rows[-1]) is not None
    return rows[:-1] if cut else rows, cut


def _path(args: Object) -> str:
    return str(args.get("file_path") or args.get("path") or "")


_SHAPES: dict[str, Callable[[ToolFinished, Object], Object]] = {
    "Bash": _bash,
    "Read": _read,
    "Edit": _edit,
    "MultiEdit": _multi_edit,
    "Write": _write,
    "Grep": _grep,
    "Glob": _glob,
}
