"""Writes small JSON without `json` or msgspec: for first lines, which are written before anything is imported."""

from _json import encode_basestring


def line(value: object) -> bytes:
    """The value as a line of JSON with its newline, without raw line separators; `jsonl.dump` for small values."""
    text = _render(value).encode("utf-8", "replace")
    return text.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029") + b"\n"


def _render(value: object) -> str:
    """The JSON text of dicts, lists, tuples, texts, booleans, None and whole numbers; anything else as its text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join([f"{encode_basestring(key)}:{_render(item)}" for key, item in value.items()]) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join([_render(item) for item in value]) + "]"
    return encode_basestring(str(value))
