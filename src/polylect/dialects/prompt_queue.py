"""Prompts that a host side keeps back: until the engine is ready, and while a turn runs.

Engines differ in what they do with a prompt that comes too early (aionrs and wayland drop it, Claude merges it into the
next, ACP agents do either), so none gets one before its time.
"""

from collections.abc import Callable

from msgspec.structs import replace

from polylect.dialects.host_base import Refusal
from polylect.vocab.commands import Prompt


class Hold:
    """`hold=False` lets everything through at once, for engines that queue."""

    def __init__(self, *, hold: bool = True) -> None:
        self._hold = hold
        self._ready = not hold
        self._waiting: list[Prompt] = []
        self._running: dict[str, Prompt | None] = {}

    @property
    def running(self) -> list[str]:
        """Turns that were handed over, or that the engine began by itself, and that have not ended."""
        return list(self._running)

    def __contains__(self, turn: object) -> bool:
        return turn in self._running or any(prompt.turn == turn for prompt in self._waiting)

    def prompt(self, turn: str) -> Prompt | None:
        return self._running.get(turn)

    def admit(self, prompt: Prompt, new_id: Callable[[], str]) -> Prompt:
        """The prompt with a turn of its own. Raises Refusal."""
        prompt = prompt if prompt.turn else replace(prompt, turn=new_id())
        if prompt.turn in self:
            raise Refusal(f"a turn {prompt.turn!r} is under way already", "duplicate_turn")
        if prompt.busy == "refuse" and self._running:
            raise Refusal("a turn is running", "busy")
        return prompt

    def add(self, prompt: Prompt) -> list[Prompt]:
        """These may go to the engine now."""
        self._waiting.append(prompt)
        return self._release()

    def ready(self) -> list[Prompt]:
        self._ready = True
        return self._release()

    def began(self, turn: str, prompt: Prompt | None = None) -> None:
        """The engine has this turn, whoever asked for it."""
        self._running.setdefault(turn, prompt)

    def keep(self, turn: str) -> None:
        """It was too early for this one after all: it waits again, before all others."""
        if (prompt := self._running.pop(turn, None)) is not None:
            self._waiting.insert(0, prompt)

    def ended(self, turn: str) -> list[Prompt]:
        self._running.pop(turn, None)
        return self._release()

    def drop(self, turn: str = "") -> list[Prompt]:
        """Forget this prompt that waits, or all of them."""
        dropped = [prompt for prompt in self._waiting if turn in ("", prompt.turn)]
        self._waiting = [prompt for prompt in self._waiting if prompt not in dropped]
        return dropped

    def _release(self) -> list[Prompt]:
        if not self._ready:
            return []
        if not self._hold:
            released, self._waiting = self._waiting, []
        else:
            released = [self._waiting.pop(0)] if self._waiting and not self._running else []
        for prompt in released:
            self._running[prompt.turn] = prompt
        return released
