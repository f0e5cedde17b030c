"""Writes frames as lines into the buffer that `data_to_send` empties, and keeps what all frames share.

No line is longer than `MAX_FRAME`: the Python SDK ends its session for a longer one. Long texts are shortened in the
middle, never ids. With `--output-format json` or `text` only the result is written. Everything on the engine's end
writes through one `LineWriter`; it also gives them the session id, new ids, the time and the version of the wire.
"""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Concatenate, Literal, ParamSpec

from msgspec import UNSET
from msgspec.structs import replace

from polylect.dialects import line_limit
from polylect.dialects.base import Env
from polylect.dialects.claude.frames import notices
from polylect.dialects.claude.frames import turn as shapes
from polylect.dialects.claude.versions import MAX_FRAME, NEWER
from polylect.wire import jsonl

Fields = ParamSpec("Fields")
Output = Literal["stream-json", "json", "text"]
Level = Literal["info", "warning"]
LineId = Callable[[str, int, str], str]
"""Derives the uuid of a message from its turn, its number in the turn and its text, so that a resumed session
finds the message again.
"""
PIECE = 160 * 1024
"""So many characters of text fit into a line however they are escaped."""


class LineWriter:
    def __init__(self, env: Env, version: str, *, session: str, output: Output, line_id: LineId | None = None) -> None:
        self.new_id = env.new_id
        self.now = env.now
        self.line_id: LineId = line_id or (lambda turn, number, words: self.new_id())
        self._output = output
        self._lines: list[bytes] = []
        self.newer = NEWER[version]
        self.version = version
        self.session = session
        self.relayed: set[str] = set()
        """Kinds of frames that the engine reports itself, as another one behind a bridge does. None is made here."""
        self.lost: Counter[str] = Counter()
        """How many events had no frame on this wire, by the name of the event."""

    def data_to_send(self) -> bytes:
        """The bytes written since the last time."""
        data = b"".join(self._lines)
        self._lines.clear()
        return data

    def timestamp(self) -> str:
        whole = datetime.fromtimestamp(self.now() / 1000, UTC)
        return whole.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def envelope(self) -> shapes.Envelope:
        return {"session_id": self.session, "uuid": self.new_id()}

    def write(self, frame: shapes.Frame | dict[str, Any]) -> bytes:
        """Write a frame. Returns its line, also if the output format leaves it out."""
        line = line_limit.line(frame, MAX_FRAME, large=isinstance(frame, shapes.Result))
        if self._output == "stream-json":
            self._lines.append(line)
        elif isinstance(frame, shapes.Result):  # read whole, so it may be as long as it is
            self._lines.append(jsonl.dump(frame) if self._output == "json" else _words(frame))
        return line

    def write_new(
        self,
        shape: Callable[Concatenate[str, str, Fields], shapes.SessionFrame],
        *args: Fields.args,
        **fields: Fields.kwargs,
    ) -> None:
        """Make a frame with these fields, the session and a uuid of its own, and write it."""
        self.write(shape(self.session, self.new_id(), *args, **fields))

    def write_line(self, line: bytes) -> None:
        """Write a line that the caller has encoded and knows to be short enough. For `stream-json` output only."""
        self._lines.append(line)

    def inform(self, text: str, level: Level = "info") -> None:
        self.write_new(notices.Informational, subtype="informational", content=text, level=level)

    def tool_result(self, frame: shapes.User, block: shapes.ToolResultBlock, path: str) -> None:
        """Write the result of a call. If it is too long, `tool_use_result` is left out; if it still is, the output is
        cut in the middle, with a note where the whole is."""
        if len(jsonl.dump(frame)) > MAX_FRAME:
            frame = replace(frame, tool_use_result=UNSET)
            if len(jsonl.dump(frame)) > MAX_FRAME:
                frame = replace(frame, message=shapes.Words([replace(block, content=_cut(block.content, path))]))
        self.write(frame)


def _words(frame: shapes.Result) -> bytes:
    """The result as text: what the model answered, or the errors."""
    text = frame.result if isinstance(frame.result, str) else "\n".join(frame.errors or [])
    return f"{text}\n".encode(errors="replace")


def _cut(content: str | list[shapes.TextBlock | shapes.ImageBlock], path: str) -> str:
    """The text of a result cut to `PIECE` characters. Images are replaced by their media type."""
    blocks = [shapes.TextBlock(content)] if isinstance(content, str) else content
    text = "\n".join(
        block.text if isinstance(block, shapes.TextBlock) else f"[{block.source.media_type}: too large for a line]"
        for block in blocks
    )
    where = f"the whole is in {path}" if path else "the model was told all of it"
    note = f"\n... [{len(text) - PIECE} characters left out here; {where}] ...\n"
    return text if len(text) <= PIECE else text[: PIECE // 2] + note + text[-PIECE // 2 :]
