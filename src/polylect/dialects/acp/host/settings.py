"""The settings of a session: config options, modes, models and slash commands, and how they are changed.

Agents have config options (`configOptions`), the older `modes`, or the withdrawn `models`; some have several of them
for the same thing. Config options come first. Their categories decide what they are to us: `mode`, `model` and
`thought_level`, which is our setting `thinking`. Any other option is known by its own id.
"""

from collections.abc import Mapping
from typing import Any

from polylect.dialects.acp.frames import client
from polylect.dialects.acp.frames.content import Shape
from polylect.dialects.host_base import Refusal
from polylect.dialects.lenient import Object, inner, objects, text
from polylect.vocab.answers import CommandCard, ModelCard
from polylect.vocab.events import Event, SettingChanged
from polylect.vocab.modes import MODE_WORDS

_KEYS = {"mode": "mode", "model": "model", "thought_level": "thinking"}
_MODE_IDS = {
    **MODE_WORDS,
    "autoEdit": "auto_edit",
    "read-only": "default",
    "workspace-write": "auto_edit",
    "agent-full-access": "force",
    "approve": "default",
    "build": "default",
    "full-access": "force",
}
"""What ids of modes mean that agents of others have, beside those that an engine is known for."""

Change = tuple[str, Shape, str, Any]
"""A request that changes a setting: its method and params, our name of the setting, and the new value on the wire."""


class SetModel(Shape, frozen=True, kw_only=True):
    """The params of `session/set_model`, which is withdrawn; only for agents that answer with `models`."""

    session_id: str
    model_id: str


class Settings:
    """The settings of one session.

    Args:
        mode_ids: What this agent calls our modes, where it is known.
    """

    def __init__(self, mode_ids: Mapping[str, str]) -> None:
        self._mode_ids = mode_ids
        self._options: dict[str, Object] = {}
        self._modes: Object = {}
        self._models: Object = {}
        self.values: dict[str, Any] = {}
        """What was last reported, by our names."""

    @property
    def raw(self) -> Object:
        """The settings as the answer that opened a session had them."""
        commands = [{"name": card.name} for card in self.values.get("commands", ())]
        options = list(self._options.values())
        return {"modes": self._modes, "models": self._models, "configOptions": options, "availableCommands": commands}

    # What the agent says.

    def opened(self, result: Object) -> None:
        """The answer to the request that opened the session."""
        self._modes, self._models = inner(result, "modes"), inner(result, "models")
        self._read_options(result)
        self.commands(objects(result, "availableCommands"))
        self.values |= {key: value for key, value in self._current().items() if value not in ("", None)}

    def options_changed(self, fields: Object) -> list[Event]:
        """All config options, in the place of those before."""
        self._read_options(fields)
        return [event for key, value in self._current().items() for event in self.changed(key, value)]

    def mode_changed(self, id: str) -> list[Event]:
        self._modes = self._modes | {"currentModeId": id}
        if option := self._option("mode"):
            option["currentValue"] = id
        return self.changed("mode", self._our_mode(id))

    def commands(self, rows: list[Object]) -> list[Event]:
        cards = [
            CommandCard(name, text(row, "description"), text(inner(row, "input"), "hint"))
            for row in rows
            if (name := text(row, "name"))
        ]
        return self.changed("commands", tuple(cards))

    def changed(self, key: str, value: Any) -> list[Event]:
        if value in ("", None) or self.values.get(key) == value:
            return []
        self.values[key] = value
        return [SettingChanged(key, value)]

    # What can be chosen.

    @property
    def mode(self) -> str:
        return str(self.values.get("mode", ""))

    @property
    def model(self) -> str:
        return str(self.values.get("model", ""))

    def modes(self) -> tuple[str, ...]:
        """The modes that can be chosen, by our names where there are any."""
        return tuple(dict.fromkeys(self._our_mode(id) for id in self._mode_choices()))

    def models(self) -> tuple[ModelCard, ...]:
        listed = [text(row, "modelId") for row in objects(self._models, "availableModels")]
        return tuple(ModelCard("", name) for name in (_choices(self._option("model")) or listed) if name)

    def levels(self) -> tuple[str, ...]:
        """The words for how hard the model may think."""
        return tuple(_choices(self._option("thinking")))

    # What a host changes.

    def change(self, session: str, key: str, value: Any) -> Change:
        """The request that changes a setting. Raises Refusal."""
        key = "thinking" if key == "effort" and self._option("thinking") else key
        if key == "mode":
            return self._change_mode(session, str(value))
        option = self._option(key)
        if option:
            return self._change_option(session, key, option, value)
        if key == "model" and self._models:
            return "session/set_model", SetModel(session_id=session, model_id=str(value)), key, str(value)
        known = ", ".join(dict.fromkeys((*filter(None, map(_key, self._options.values())), *self._options)))
        hint = f"it has {known}" if known else "it has none that can be changed"
        raise Refusal(f"this agent has no setting {key!r}: {hint}")

    def applied(self, change: Change, result: Object) -> list[Event]:
        """The agent has accepted a change. Not every agent reports it by an update, too."""
        method, _, key, value = change
        if method == "session/set_config_option" and isinstance(result.get("configOptions"), list):
            return self.options_changed(result)
        if key == "mode":
            return self.mode_changed(value)
        return self.changed(key, value)

    def _change_mode(self, session: str, mode: str) -> Change:
        choices = self._mode_choices()
        if not choices:
            raise Refusal("this agent has no modes")
        names = [self._mode_ids.get(mode, mode), mode, *(id for id in choices if self._our_mode(id) == mode)]
        id = next((name for name in names if name in choices), "")
        if not id:
            raise Refusal(f"this agent has no mode {mode!r}; its modes are {', '.join(choices)}", "unsupported")
        if option := self._option("mode"):
            return self._change_option(session, "mode", option, id)
        return "session/set_mode", client.SetMode(session_id=session, mode_id=id), "mode", id

    def _change_option(self, session: str, key: str, option: Object, value: Any) -> Change:
        id = text(option, "id")
        if text(option, "type") == "boolean":
            boolean = client.SetConfigOption(session_id=session, config_id=id, value=bool(value), type="boolean")
            return "session/set_config_option", boolean, key, bool(value)
        word = str(value)
        if (choices := _choices(option)) and word not in choices:
            raise Refusal(f"this agent has no {key} {word!r}; there are {', '.join(choices)}", "bad_setting")
        return (
            "session/set_config_option",
            client.SetConfigOption(session_id=session, config_id=id, value=word),
            key,
            word,
        )

    # Inside.

    def _read_options(self, fields: Object) -> None:
        rows = [dict(row) for row in objects(fields, "configOptions") if text(row, "type") in ("select", "boolean")]
        if rows or isinstance(fields.get("configOptions"), list):
            self._options = {id: row for row in rows if (id := text(row, "id"))}

    def _current(self) -> dict[str, Any]:
        """The values that are set now, by our names."""
        values: dict[str, Any] = {
            "mode": text(self._modes, "currentModeId"),
            "model": text(self._models, "currentModelId"),
        }
        values |= {_key(row) or id: row.get("currentValue") for id, row in self._options.items()}
        return values | {"mode": self._our_mode(str(values["mode"] or ""))}

    def _option(self, key: str) -> Object:
        """The config option that is this setting of ours; empty if there is none."""
        by_category = (row for row in self._options.values() if _key(row) == key)
        return next(by_category, self._options.get(key, {}))

    def _mode_choices(self) -> list[str]:
        return _choices(self._option("mode")) or [text(row, "id") for row in objects(self._modes, "availableModes")]

    def _our_mode(self, id: str) -> str:
        ours = {wire: mode for mode, wire in self._mode_ids.items()}
        return ours.get(id) or _MODE_IDS.get(id, id)


def _key(option: Object) -> str:
    """Our name of a config option; empty for one that only its agent knows."""
    return _KEYS.get(text(option, "category"), "")


def _choices(option: Object) -> list[str]:
    """The values of a select option, whether they are grouped or not."""
    rows = objects(option, "options")
    flat = [inside for row in rows for inside in (objects(row, "options") if "group" in row else [row])]
    return [value for row in flat if (value := text(row, "value"))]
