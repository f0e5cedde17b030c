"""The prompts that a host side holds back until the engine is ready and while a turn runs.

Engines differ in what they do with a prompt that comes too early: aionrs and wayland-core drop it, Claude Code merges
it into the next one. So a host side submits each prompt here and sends only what is released;
the others wait in order. `HostCodec` (`dialects/host_codec.py`) makes one.
"""

from collections.abc import Callable

from msgspec.structs import replace

from polylect.dialects.host_base import Refusal
from polylect.vocab.commands import Prompt


class PromptQueue:
    """Prompts that wait, and turns that run. With `hold=False` prompts are released at once, for engines that queue."""

    def __init__(self, *, hold: bool = True) -> None:
        self._hold = hold
        self._ready = not hold
        self._waiting: list[Prompt] = []
        self._running: dict[str, Prompt | None] = {}

    @property
    def running(self) -> list[str]:
        """Turns that were released, or that the engine began by itself, and that have not ended."""
        return list(self._running)

    def __contains__(self, turn: object) -> bool:
        return turn in self._running or any(prompt.turn == turn for prompt in self._waiting)

    def prompt(self, turn: str) -> Prompt | None:
        """The prompt of a running turn, if this host sent it."""
        return self._running.get(turn)

    def admit(self, prompt: Prompt, new_id: Callable[[], str]) -> Prompt:
        """The prompt with a turn id. Raises Refusal if its turn exists, or if one runs and it says `busy="refuse"`."""
        prompt = prompt if prompt.turn else replace(prompt, turn=new_id())
        if prompt.turn in self:
            raise Refusal(f"a turn {prompt.turn!r} is under way already", "duplicate_turn")
        if prompt.busy == "refuse" and self._running:
            raise Refusal("a turn is running", "busy")
        return prompt

    def add(self, prompt: Prompt) -> list[Prompt]:
        """Queue a prompt. Returns the prompts that may go to the engine now."""
        self._waiting.append(prompt)
        return self._release()

    def ready(self) -> list[Prompt]:
        """The engine takes prompts from now on. Returns the prompts that may go now."""
        self._ready = True
        return self._release()

    def began(self, turn: str, prompt: Prompt | None = None) -> None:
        """The engine runs this turn, whether or not this host sent its prompt."""
        self._running.setdefault(turn, prompt)

    def requeue(self, turn: str) -> None:
        """The engine refused this prompt because it was busy: the prompt waits again, before all others."""
        if (prompt := self._running.pop(turn, None)) is not None:
            self._waiting.insert(0, prompt)

    def ended(self, turn: str) -> list[Prompt]:
        """The turn is over. Returns the prompts that may go now."""
        self._running.pop(turn, None)
        return self._release()

    def drop(self, turn: str = "") -> list[Prompt]:
        """Remove the waiting prompt of this turn, or all that wait. Returns what was removed."""
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
