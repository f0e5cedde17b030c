"""Applies changes of settings: at once where that is safe, otherwise at the end of the running turn.

Mode, name and queue settings apply at once. Model, provider and thinking must not change under a turn, so they wait. A
change is checked as a whole against everything that still waits before any part of it is applied.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from polylect.engine.agent import Agent
from polylect.engine.commands.configure import SWITCHES, BadSetting, configured
from polylect.engine.settings import Settings
from polylect.engine.turn import thinking
from polylect.engine.turn.turns import TurnQueue
from polylect.system.tasks import TaskSet
from polylect.vocab.answers import LEVELS, Cycled, ModelCard
from polylect.vocab.content import Failure
from polylect.vocab.errors import SessionError
from polylect.vocab.events import Failed, Notice, SettingChanged
from polylect.vocab.ports import ModelInfo, Provider

_AT_ONCE = ("mode", "name", *SWITCHES)
_STORED = ("model", "thinking", "effort", "name")
"""What a session is remembered by."""


T = TypeVar("T")


class UnknownModel(BadSetting):
    code = "unknown_model"


class SettingsChanges:
    """The current and the pending settings. `idle` waits until no background agent uses a provider."""

    def __init__(self, agent: Agent, turns: TurnQueue, idle: Callable[[], Awaitable[object]]) -> None:
        self._agent = agent
        self._turns = turns
        self._idle = idle
        self._pending: list[dict[str, Any]] = []
        self._leaving = TaskSet()
        """Providers that are being closed."""

    @property
    def planned(self) -> tuple[Settings, str]:
        """The settings and the provider's name after all pending changes."""
        return self._plan(self._pending)

    def change(self, changes: dict[str, Any], *, quiet: bool = False) -> Cycled | None:
        """Apply changes now or after the turn. Returns the new value of a `cycle`.

        The host gets a notice of what has to wait, unless `quiet`. Raises BadSetting or SessionError; then nothing has
        changed.
        """
        if "cycle" in changes:
            return self._cycle(str(changes["cycle"]))
        _, provider = self.planned
        changes = self._resolved(changes, provider)
        self._plan([*self._pending, changes])
        at_once = {key: value for key, value in changes.items() if key in _AT_ONCE or not self._turns.busy}
        later = {key: value for key, value in changes.items() if key not in at_once}
        if later and not quiet:
            self._agent.emit(Notice(f"{', '.join(later)}: will be changed after the current response"))
        self.apply(at_once)
        if later:
            self._pending.append(later)
            self._turns.after_current(self._apply_next)
        return None

    def apply(self, changes: dict[str, Any]) -> None:
        """Apply changes now, whatever runs. Raises like `change`."""
        agent, changes = self._agent, self._resolved(changes, self._agent.provider.name)
        settings, name = self._plan([changes])
        provider = self._opened(name)
        self._remember(changes, settings, name)
        before, old = agent.abilities(), agent.provider
        agent.settings, agent.provider = settings, provider
        if old is not provider:
            self._close_when_idle(old)
        if (able := agent.abilities()) != before:
            agent.emit(SettingChanged("abilities", able))
        for key, value in changes.items():
            if value is not None:
                if key == "thinking" and value in LEVELS:
                    value = thinking.current(settings, provider.info(settings.model))
                agent.emit(SettingChanged(key, value))

    async def close(self) -> None:
        await self._leaving.finished()

    def _apply_next(self) -> None:
        try:
            self.apply(self._pending.pop(0))
        except (BadSetting, SessionError) as error:
            self._agent.emit(Failed(Failure("bad_setting", str(error), "host")))

    def _plan(self, all_changes: Sequence[dict[str, Any]]) -> tuple[Settings, str]:
        settings, provider = self._agent.settings, self._agent.provider.name
        for changes in all_changes:
            provider = str(changes.get("provider") or provider)
            settings = configured(settings, changes, self.info(provider, str(changes.get("model") or settings.model)))
        return settings, provider

    def info(self, provider: str, model: str) -> ModelInfo:
        if provider == self._agent.provider.name:
            return self._agent.provider.info(model)
        card = self.card(provider, model)
        if card is None:
            return ModelInfo(model)
        known = (card.window, card.max_output, card.thinking, card.effort_levels, card.images)
        return ModelInfo(model, *known, priced=bool(card.prices) and None not in card.prices[:2])

    # Names and models.

    def _resolved(self, changes: dict[str, Any], here: str) -> dict[str, Any]:
        """The changes with the name trimmed, and with the provider of a model that another provider has."""
        if isinstance(name := changes.get("name"), str):
            changes = {**changes, "name": name.strip()}
            if not name.strip():
                raise BadSetting("Session name cannot be empty")
        model, provider = changes.get("model"), changes.get("provider")
        if not isinstance(model, str) or not model:
            return changes
        if provider:
            if self._agent.models and not self.card(str(provider), model):
                raise UnknownModel(f"Model not found: {provider}/{model}")
            return changes
        return {**changes, **self._resolve_model(model, here)}

    def _resolve_model(self, model: str, here: str) -> dict[str, str]:
        """Split `provider/model`. A plain name is left to the provider in use."""
        provider, slash, name = model.partition("/")
        if self.card(here, model) or not slash:
            return {}
        if self.card(provider, name):
            return {"model": name, "provider": provider} if provider != here else {"model": name}
        if provider != here and any(card.provider == provider for card in self.cards()):
            raise UnknownModel(f"Model not found: {model}")
        return {}

    def cards(self) -> Sequence[ModelCard]:
        return self._agent.models.cards() if self._agent.models else ()

    def card(self, provider: str, model: str) -> ModelCard | None:
        return next((card for card in self.cards() if (card.provider, card.name) == (provider, model)), None)

    def _opened(self, name: str) -> Provider:
        if name == self._agent.provider.name:
            return self._agent.provider
        try:
            if self._agent.models is None:
                raise LookupError(f"there is no provider {name!r} here")
            return self._agent.models.open(name)
        except LookupError as error:
            raise UnknownModel(str(error.args[0] if error.args else error)) from None

    def _close_when_idle(self, provider: Provider) -> None:
        """Close a provider once no background agent uses it."""

        async def leave() -> None:
            await self._idle()
            with suppress(Exception):
                await provider.close()

        self._leaving.start(leave())

    def _remember(self, changes: dict[str, Any], settings: Settings, provider: str) -> None:
        session = self._agent.session
        stored = (*_STORED, "mode") if settings.keep_mode else _STORED
        changed = {key: changes[key] for key in stored if changes.get(key) is not None}
        if "model" in changed:
            changed["model"] = f"{provider}/{settings.model}"
        if changed := {key: value for key, value in changed.items() if session.settings.get(key) != value}:
            session.configure(changed)

    # One after the other.

    def _cycle(self, what: str) -> Cycled | None:
        """Change to the next model or thinking level; None if there is only one."""
        settings, provider = self.planned
        match what:
            case "thinking":
                info = self.info(provider, settings.model)
                level = _after(thinking.current(settings, info), thinking.levels(info))
                if level is None:
                    return None
                self.change({"thinking": level})
                return Cycled(thinking=level)
            case "model":
                named = {(card.provider, card.name): card for card in self.cards()}
                following = _after((provider, settings.model), tuple(named))
                if following is None or len(named) < 2:
                    return None
                self.change({"model": following[1], "provider": following[0]})
                settings, provider = self.planned
                return Cycled(named[following], thinking.current(settings, self.info(provider, settings.model)))
        raise BadSetting(f"there is no next {what!r}; there is a next model and a next thinking")


def _after(one: T, many: Sequence[T]) -> T | None:
    """The item after this one, from the start again after the last; the first if this is not one of them."""
    if one in many:
        return many[(many.index(one) + 1) % len(many)]
    return many[0] if many else None
