"""Reads single values of claude's settings and checks their types.

`start_settings` reads `--settings` and settings files with it, before the engine exists; `engine/flag_settings` reads
what a host changes in a running session. So this module imports nothing.
"""

TYPE_CHECKING = False  # typing itself would cost 5 ms
if TYPE_CHECKING:
    from typing import Any, TypeVar

    T = TypeVar("T")

EFFECTS = ("allow", "deny", "ask")
RIGHTS = (*EFFECTS, "defaultMode", "additionalDirectories")
"""What `permissions` may have."""


def value_of(settings: "dict[str, Any]", name: str, kind: "type[T]") -> "T | None":
    """The value; None if there is none. Raises ValueError if it is not of this kind."""
    value = settings.get(name)
    if value is not None and not isinstance(value, kind):
        raise ValueError(f"{name}: {value!r:.80} is not of the kind {kind.__name__}")
    return value


def texts_of(settings: "dict[str, Any]", name: str) -> list[str] | None:
    """A list of strings; None if there is none. Raises ValueError."""
    texts = value_of(settings, name, list)
    if texts and not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{name}: expected a list of strings")
    return texts
