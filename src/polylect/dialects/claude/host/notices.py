"""Reads frames that need no state: notices, notifications, failures, signs of life, and extras.

`NOTICES` has one function for each kind of frame, by type or `system/` and subtype. `decode` adds them to its own
handlers.
"""

from collections.abc import Callable

from polylect.dialects.claude.frames.notices import SYSTEM_EXTRAS, TYPE_EXTRAS
from polylect.dialects.lenient import Object, inner, text
from polylect.vocab.content import Failure
from polylect.vocab.events import Alive, Display, Event, Extra, Failed, Notice

_ENVELOPE = ("type", "subtype", "uuid", "session_id", "parent_tool_use_id")


def details(frame: Object) -> Object:
    return {key: value for key, value in frame.items() if key not in _ENVELOPE}


def _notice(frame: Object) -> list[Event]:
    return [Notice(text(frame, "content"), "warning" if text(frame, "level") == "warning" else "info")]


def _notification(frame: Object) -> list[Event]:
    return [Display("notification", inner(frame, "params") or details(frame))]


def _suggestion(frame: Object) -> list[Event]:
    return [Display("prompt_suggestion", details(frame))]


def _failed(code: str) -> Callable[[Object], list[Event]]:
    def failed(frame: Object) -> list[Event]:
        message = text(frame, "message") or text(frame, "error") or code
        return [Failed(Failure(code, message, "engine"))]

    return failed


def _alive(frame: Object) -> list[Event]:
    return [Alive(text(frame, "tool_use_id"), text(frame, "tool_name"))]


def _rate_limit(frame: Object) -> list[Event]:
    return [Extra("rate_limit_event", inner(frame, "rate_limit_info"))]


def _extra(frame: Object) -> list[Event]:
    return [Extra(text(frame, "subtype") or text(frame, "type"), details(frame))]


_EXTRAS = (*(f"system/{subtype}" for subtype in SYSTEM_EXTRAS), *TYPE_EXTRAS)

NOTICES: dict[str, Callable[[Object], list[Event]]] = {
    "system/informational": _notice,
    "system/local_command_output": _notice,
    "system/notification": _notification,
    "system/mirror_error": _failed("mirror"),
    "system/session_writes_lost": _failed("session_writes_lost"),
    "prompt_suggestion": _suggestion,
    "tool_progress": _alive,
    "keep_alive": _alive,
    "rate_limit_event": _rate_limit,
    **dict.fromkeys(_EXTRAS, _extra),
}
