"""The settings that a client can change: mode, model and how hard the model thinks, as config options and as modes.

    SettingChanged("mode", "plan")   ->  current_mode_update and config_option_update
    session/set_config_option        ->  Configure({"model": ...})

Both forms of the mode are always equal: older clients know only `modes`. Every answer and update has all options.
What is shown is what the engine has reported; a setting that it changes later is shown later.
"""

from typing import Any

from polylect.dialects.acp.engine.connection import Refusal
from polylect.dialects.acp.frames.client import SessionMode, SessionModes
from polylect.dialects.acp.frames.updates import AnyConfig, SelectConfig, SelectOption
from polylect.dialects.acp.versions import MODES
from polylect.vocab.answers import LEVELS, ModelCard, State
from polylect.vocab.content import Abilities
from polylect.vocab.events import Ready
from polylect.wire.jsonrpc import INVALID_PARAMS

MODE, MODEL, THINKING = "mode", "model", "thought_level"
"""The ids of the options."""


class ConfigOptions:
    """The settings of one session."""

    def __init__(self) -> None:
        self.mode = "default"
        self._modes = tuple(MODES)
        self._model = ""
        self._provider = ""
        self._thinking = ""
        self._cards: tuple[ModelCard, ...] = ()
        self._card: ModelCard | None = None

    # What the engine reports.

    def ready(self, event: Ready) -> None:
        self.mode, self._model = event.mode or self.mode, event.model or self._model
        self._set_abilities(event.abilities)

    def set_state(self, state: object) -> None:
        if isinstance(state, State):
            self.mode, self._model = state.mode or self.mode, state.model or self._model
            self._provider, self._thinking, self._card = state.provider, state.thinking, state.card

    def set_models(self, cards: object) -> None:
        self._cards = tuple(card for card in cards if isinstance(card, ModelCard)) if isinstance(cards, tuple) else ()

    def change(self, key: str, value: Any) -> None:
        """Note a setting that has changed. Others than those shown are ignored."""
        match key, value:
            case "mode", str(mode) if mode in MODES:
                self.mode = mode
            case "model", str(model):
                self._model, self._card = model, None
            case "provider", str(provider):
                self._provider, self._card = provider, None
            case "thinking", str(level):
                self._thinking = level
            case "thinking", int(tokens):
                self._thinking = self._thinking if tokens else "off"
            case "abilities", Abilities() as abilities:
                self._set_abilities(abilities)

    def _set_abilities(self, abilities: Abilities) -> None:
        self._modes = tuple(mode for mode in MODES if mode in abilities.modes)

    # What the client sees.

    @property
    def modes(self) -> SessionModes:
        shown = [SessionMode(id=mode, name=MODES[mode][0], description=MODES[mode][1]) for mode in self._shown_modes()]
        return SessionModes(current_mode_id=self.mode, available_modes=shown)

    def options(self) -> list[AnyConfig]:
        """All options, the most important first. One without a choice is left out."""
        rows = [
            SelectOption(value=mode, name=MODES[mode][0], description=MODES[mode][1]) for mode in self._shown_modes()
        ]
        mode = SelectConfig(id=MODE, name="Mode", category="mode", current_value=self.mode, options=rows)
        options: list[AnyConfig] = [mode]
        if self._model:
            options.append(self._models())
        if levels := self._levels():
            current = self._thinking if self._thinking in levels else levels[0]
            rows = [SelectOption(value=level, name=level.capitalize()) for level in levels]
            config = SelectConfig(id=THINKING, name="Thinking", category=THINKING, current_value=current, options=rows)
            options.append(config)
        return options

    def _shown_modes(self) -> tuple[str, ...]:
        return tuple(mode for mode in MODES if mode in self._modes or mode == self.mode)

    def _models(self) -> SelectConfig:
        card = self._current_card()
        current = self._value(card) if card else self._model
        rows = [
            SelectOption(value=self._value(card), name=card.name, description=card.provider) for card in self._cards
        ]
        if not any(row.value == current for row in rows):
            rows.insert(0, SelectOption(value=current, name=self._model))
        return SelectConfig(id=MODEL, name="Model", category="model", current_value=current, options=rows)

    def _current_card(self) -> ModelCard | None:
        here = [card for card in self._cards if card.name == self._model]
        return next((card for card in here if card.provider == self._provider), here[0] if here else None)

    def _value(self, card: ModelCard) -> str:
        """The name of a model, with its provider if several have one of this name."""
        shared = sum(other.name == card.name for other in self._cards) > 1
        return f"{card.provider}/{card.name}" if shared else card.name

    def _levels(self) -> tuple[str, ...]:
        """The levels that the model offers, `off` first; empty if it cannot think."""
        card = self._current_card() or self._card
        if card is None:
            return ()
        named = card.effort_levels or (LEVELS[1:6] if card.thinking else ())
        offered = tuple(level for level in LEVELS[1:] if level in named)
        return ("off", *offered) if offered else ()

    # What the client wants.

    def settings(self, option: str, value: object) -> dict[str, Any]:
        """The settings for `Configure` that set an option. Raises Refusal for what is not offered."""
        offered = next((one for one in self.options() if one.id == option), None)
        if not isinstance(offered, SelectConfig):
            names = ", ".join(one.id for one in self.options())
            raise Refusal(INVALID_PARAMS, f"There is no config option {option[:80]!r}; there are {names}")
        values = [row.value for row in offered.options]
        if value not in values:
            listed = ", ".join(values[:20])
            raise Refusal(INVALID_PARAMS, f"{option} cannot be {str(value)[:80]!r}; it can be {listed}")
        return {"thinking" if option == THINKING else option: value}
