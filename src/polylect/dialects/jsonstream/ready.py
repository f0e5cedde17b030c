"""Makes the `ready` line and the `capabilities` object in it.

`ready_line` is the only author of `ready`. The start-up code calls it before anything that costs time is imported, so
this module imports only `versions` and `dialects/little_json.py`. The engine's codec calls it where nobody has written
`ready` before it, and uses the same `capabilities` for `config_changed`.
"""

from polylect.dialects import little_json
from polylect.dialects.jsonstream.versions import (
    ALL_CAPABILITIES,
    FLAGS,
    IMAGE_WORDS,
    READY_CAPABILITIES,
    TEXT_FLAG,
    WIRE_MODES,
)

USUAL_MODES = tuple(WIRE_MODES["0.2.0"])


def ready_line(version: str, session: str, offered: dict[str, object] | None = None, *, persistence: str = "") -> bytes:
    """The line `ready`. A codec that did not write it is told by `note_sent`.

    offered   the `capabilities` of the engine; without them, those of an engine with nothing special
    persistence   tells today's Wayland Desktop whether the session is kept
    """
    frame: dict[str, object] = {"type": "ready", "version": version}
    if session:
        frame["session_id"] = session
    if persistence:
        frame["session_persistence"] = persistence
    return little_json.line({**frame, "capabilities": offered or capabilities(version)})


def capabilities(
    version: str,
    *,
    approval: bool = True,
    thinking: bool = False,
    effort_levels: tuple[str, ...] = (),
    modes: tuple[str, ...] = USUAL_MODES,
    mode: str = "default",
    mcp: bool = False,
    images: bool | None = None,
    model: str = "",
    extras: dict[str, object] | None = None,
    complete: bool = False,
) -> dict[str, object]:
    """What the engine offers, in the order of the wire. `extras` are the flags that are on. `complete` is for
    `config_changed`, and for the `ready` of aionrs, which tell more than the `ready` of the document.

    A mode beyond the usual ones is offered while it is the current one: what is chosen is always among the choices.
    """
    words = WIRE_MODES[version]
    offered = modes if mode in modes else (*modes, mode)
    values: dict[str, object] = {
        "tool_approval": approval,
        "image_input": IMAGE_WORDS[images],
        "thinking": thinking,
        "effort": bool(effort_levels),
        "effort_levels": list(effort_levels),
        "modes": [words.get(choice, choice) for choice in offered],
        "current_mode": words.get(mode, mode),
        "mcp": mcp,
    }
    named = {key: values[key] for key in (ALL_CAPABILITIES if complete else READY_CAPABILITIES)[version]}
    return named | _flags(version, extras or {}) | ({"current_model": model} if model else {})


def _flags(version: str, extras: dict[str, object]) -> dict[str, object]:
    """Those that are on. Only one of them is a text; whatever else another engine may have said, on is true."""
    on = {flag: extras[flag] for flag in FLAGS[version] if extras.get(flag)}
    if not isinstance(on.get(TEXT_FLAG), str):
        on.pop(TEXT_FLAG, None)
    return {flag: value if flag == TEXT_FLAG else True for flag, value in on.items()}
