"""Turns lines into frames for both ends, or into the reason why a line is no frame.

Never raises. Fields that one version names differently or leaves out are filled in. A frame comes with the object that
it was made of, so that fields without a place in the struct can still be read.
"""

from typing import Any

import msgspec

from polylect.dialects.jsonstream.frames.base import Frame, TextDelta
from polylect.dialects.jsonstream.frames.table import COMMANDS, EVENTS
from polylect.dialects.jsonstream.ready import capabilities
from polylect.dialects.jsonstream.undocumented_commands import UNDOCUMENTED_COMMANDS
from polylect.dialects.jsonstream.versions import FLAGS, TEXT_KEY, VERSIONS
from polylect.vocab.json_words import misfit
from polylect.wire.jsonl import TooLong, dump, parse

_NEWEST = VERSIONS[0]
_COMMANDS = {**COMMANDS, _NEWEST: COMMANDS[_NEWEST] | UNDOCUMENTED_COMMANDS}
_TEXT = b'{"type":"text_delta"'
_decode_text = msgspec.json.Decoder(TextDelta).decode
_NOTHING_OFFERED = capabilities(_NEWEST, approval=False, modes=("default",))


class Bad(msgspec.Struct, frozen=True):
    """A line that is no frame. `name` is the server of an `add_mcp_server`, because hosts wait for an answer by that
    name."""

    why: str
    kind: str = ""
    name: str = ""


class Unknown(msgspec.Struct, frozen=True):
    kind: str
    fields: dict[str, Any] = {}


Received = tuple[Frame, dict[str, Any]] | Unknown | Bad
"""A known frame, with the JSON object it was made of, which may have more fields than the struct."""


def read_command(line: bytes | TooLong, version: str) -> Received:
    return _read(line, _COMMANDS[version], TEXT_KEY[version])


def read_event(line: bytes | TooLong) -> Received:
    """Reads an event of either version. The version that engines state is not used: aionrs and wayland-core state the
    version of the program."""
    if isinstance(line, bytes) and line.startswith(_TEXT) and (frame := _text(line)):
        return frame, {}
    return _read(line, EVENTS[_NEWEST], "")


def _text(line: bytes) -> TextDelta | None:
    """The most frequent event, in a third of the time: only as our own encoder writes it, so that nothing is missed."""
    try:
        frame: TextDelta = _decode_text(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return frame if dump(frame) == line + b"\n" else None


def read_inner(fields: dict[str, Any]) -> Received:
    """Reads the event inside a `sub_agent_event`."""
    return _shape(fields, EVENTS[_NEWEST], "")


def _read(line: bytes | TooLong, types: dict[str, type[Frame]], text_key: str) -> Received:
    if isinstance(line, TooLong):
        return Bad(f"the line is longer than {line.limit} bytes")
    try:
        fields = parse(line)
    except ValueError as error:
        return Bad(str(error))
    return _shape(fields, types, text_key)


def _shape(fields: dict[str, Any], types: dict[str, type[Frame]], text_key: str) -> Received:
    kind = fields.get("type")
    if not isinstance(kind, str) or not kind:
        return Bad('the object has no "type" that is a string')
    if kind not in types:
        return Unknown(kind, fields)
    try:
        return msgspec.convert(_fill_in(kind, fields, text_key), types[kind]), fields
    except RecursionError:
        return Bad("nested too deeply", kind)
    except msgspec.ValidationError as error:
        return Bad(misfit(error), kind, name if isinstance(name := fields.get("name"), str) else "")


def _fill_in(kind: str, fields: dict[str, Any], text_key: str) -> dict[str, Any]:
    """Adds fields that the other version names differently or leaves out."""
    match kind:
        case "message" if text_key not in fields:
            other = "input" if text_key == "content" else "content"
            return {**fields, text_key: fields[other]} if other in fields else fields
        case "stream_end":
            return {"finish_reason": "", **fields}
        case "ready" | "config_changed" if isinstance(offered := fields.get("capabilities", {}), dict):
            baseline = {key: value for key, value in offered.items() if key not in FLAGS[_NEWEST]}
            return {"version": "", **fields, "capabilities": _NOTHING_OFFERED | baseline}
        case "info":
            return {**fields, "msg_id": fields.get("msg_id") or ""}
        case _:
            return fields
