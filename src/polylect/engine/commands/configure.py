"""Checks changes of settings that a host asks for.

`configured` is pure: it returns new `Settings`, or raises BadSetting with a message for the host. `settings_changes.py`
decides when the result applies.
"""

from typing import Any

import msgspec

from polylect.engine.context.output_cleanup import LEVELS
from polylect.engine.settings import Settings
from polylect.engine.turn import thinking
from polylect.engine.turn.budget import price_fault
from polylect.vocab import answers
from polylect.vocab.modes import MODES
from polylect.vocab.ports import ModelInfo

DEFAULT_THINKING = 10_000
SWITCHES = ("steering_mode", "follow_up_mode", "interrupt_mode", "auto_compaction", "auto_retry")
"""What no model request depends on."""
_ELSEWHERE = ("name", "provider", "cycle")
"""Keys that are no settings; see settings_changes.py."""
_KNOWN = (
    "model",
    "mode",
    "thinking",
    "thinking_budget",
    "effort",
    "image_input",
    "compaction",
    "system_prompt",
    "max_tokens",
    "max_turns",
    "json_schema",
    *SWITCHES,
    *_ELSEWHERE,
)


class BadSetting(Exception):
    """A setting is unknown or its value is wrong. The text names it and says what would be right."""

    code = "bad_setting"


def configured(settings: Settings, changes: dict[str, Any], info: ModelInfo) -> Settings:
    """The settings with these changes. `info` describes the model they are for. Raises BadSetting."""
    for key in changes:
        if key not in _KNOWN:
            raise BadSetting(f"there is no setting {key!r}; settings are {', '.join(_KNOWN)}")
    changes = {key: value for key, value in changes.items() if value is not None and key not in _ELSEWHERE}
    if (mode := changes.get("mode", "default")) not in MODES:
        raise BadSetting(f"mode {mode!r} does not exist; modes are {', '.join(MODES)}")
    if isinstance(model := changes.get("model"), str) and not model.strip():
        raise BadSetting("the model has to be named, and the name is empty")
    if model and (fault := price_fault(info, settings.budget, settings.turn_budget)):
        raise BadSetting(fault)
    if (level := changes.get("compaction", "off")) not in LEVELS:
        raise BadSetting(f"compaction {level!r} does not exist; levels are {', '.join(LEVELS)}")
    if (effort := changes.get("effort", "")) and effort not in info.effort_levels:
        levels = ", ".join(info.effort_levels) or "none for this model"
        raise BadSetting(f"effort {effort!r} is not offered; levels are {levels}")
    if (schema := changes.get("json_schema")) and (fault := schema_fault(schema)):
        raise BadSetting(f"json_schema: {fault}")
    new = _thinking(settings, changes, info) | {
        key: changes[key] for key in changes if key not in ("thinking", "thinking_budget")
    }
    if model and model != settings.model:
        new.setdefault("image_input", "unknown")
    if "compaction" in new:  # the word of json-stream's `set_config` for this setting
        new["output_cleanup"] = new.pop("compaction")
    try:
        return msgspec.convert({**msgspec.structs.asdict(settings), **new}, Settings)
    except msgspec.ValidationError as error:
        raise BadSetting(str(error)) from None


def schema_fault(schema: Any) -> str:
    """Why the answers of turns cannot have this schema; empty if they can."""
    from polylect.engine.turn.structured import fault_in_schema  # few hosts want answers in a form

    return fault_in_schema(schema)


def _thinking(settings: Settings, changes: dict[str, Any], info: ModelInfo) -> dict[str, Any]:
    budget = changes.get("thinking_budget")
    match changes.get("thinking"):
        case None:
            return {"thinking": budget} if budget and settings.thinking else {}
        case "disabled" | 0 | False:
            return {"thinking": 0}
        case "enabled" | True if info.thinking:
            return {"thinking": budget or settings.thinking or DEFAULT_THINKING}
        case int(tokens) if info.thinking:
            return {"thinking": tokens}
        case str(level) if level in answers.LEVELS:
            return thinking.chosen(level, info)
        case "enabled" | True | int():
            raise BadSetting(f"the model {info.name} does not offer thinking")
        case other:
            levels = ", ".join(answers.LEVELS)
            raise BadSetting(f"thinking {other!r} is neither 'enabled', 'disabled', a number nor one of {levels}")
