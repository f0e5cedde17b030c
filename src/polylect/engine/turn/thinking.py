"""Thinking levels: which ones a model offers, which one is set, and the settings behind each.

Hosts name levels (`off`, `low`, `high`); providers take a token budget, an effort, or both. Pure.
"""

from typing import Any

from polylect.engine.settings import Settings
from polylect.vocab.answers import LEVELS, THINKING_TOKENS
from polylect.vocab.ports import ModelInfo

_BUDGETS = {level: tokens for level, tokens in THINKING_TOKENS.items() if tokens}
_NONE = "none"
"""What some models call it when they are not to think."""


def levels(info: ModelInfo) -> tuple[str, ...]:
    """The levels that the model offers, from `off` upwards; empty if it cannot think."""
    known = info.effort_levels or (tuple(_BUDGETS)[:-1] if info.thinking else ())
    offered = tuple(level for level in LEVELS if level in known)
    return ("off", *offered) if offered else ()


def nearest(level: str, info: ModelInfo) -> str:
    """The highest offered level that is not above this one, else the lowest; empty if the model cannot think."""
    offered = levels(info)
    if level == "off" or not offered:
        return offered[0] if offered else ""
    below = [one for one in offered[1:] if LEVELS.index(one) <= LEVELS.index(level)]
    return below[-1] if below else offered[1]


def chosen(level: str, info: ModelInfo) -> dict[str, Any]:
    """The settings for a level: budget and effort, so that it also applies to the next model."""
    level_offered = nearest(level, info)
    if level_offered in ("", "off"):
        return {"thinking": 0, "effort": _NONE if _NONE in info.effort_levels else ""}
    return {"thinking": _BUDGETS[level_offered], "effort": level_offered}


def effort(settings: Settings, info: ModelInfo) -> str:
    """The effort to request from this model: as set, or the nearest that it offers."""
    if settings.effort in info.effort_levels or settings.effort not in LEVELS:
        return settings.effort if settings.effort in info.effort_levels else ""
    return nearest(settings.effort, info) if info.effort_levels else ""


def current(settings: Settings, info: ModelInfo) -> str:
    """The level that the settings amount to for this model; empty if it has none."""
    if not levels(info) or (info.thinking and not settings.thinking):
        return "off" if levels(info) else ""
    if (level := effort(settings, info)) in LEVELS:
        return level
    if not info.thinking:
        return "off"
    return nearest(
        [level for level in _BUDGETS if _BUDGETS[level] <= settings.thinking or level == "minimal"][-1], info
    )
