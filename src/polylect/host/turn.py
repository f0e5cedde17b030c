"""A turn as a host reads it: its events one by one, or its result.

`Agent.prompt` makes a `Turn`. What it has to know while it runs, its limits among them, is in
`host/supervision/open_turns.py`. Each turn ends exactly once: with `TurnEnded`, or with an exception if the engine is
gone or the turn took too long.
"""

import warnings
from collections.abc import AsyncIterator, Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from polylect.host.errors import WrongState
from polylect.host.limits import Limits
from polylect.host.results import Result
from polylect.host.supervision.open_turns import OpenTurn
from polylect.vocab.commands import Prompt, Steer
from polylect.vocab.events import Event

if TYPE_CHECKING:
    from polylect.host.supervision.conversation import Conversation

_SHORT = 60
"""Characters of a prompt that a warning shows."""


class Turn:
    """`async for event in turn` reads it as it comes, `await turn` waits for its `Result`; both begin it.

    Whoever leaves the loop early leaves the turn running: `cancel` stops it. Where the task that awaits the result is
    cancelled, as `asyncio.wait_for` does, so is the turn. Its events are read once, by one task. What it asks while
    nobody reads it, since its result is awaited or because the loop was left, is denied unless a policy answers. A turn
    that is thrown away before it has begun gives a `RuntimeWarning`, because its prompt was never sent.
    """

    def __init__(self, conversation: "Conversation", prompt: Prompt, limits: Limits) -> None:
        self._conversation = conversation
        self._prompt = prompt
        self._open = OpenTurn(conversation, prompt, limits)
        self._used = False
        """Whether somebody waited for it or cancelled it; `OpenTurn.loop` says whether it was begun."""

    @property
    def id(self) -> str:
        """The id that all events of this turn have as `turn`."""
        return self._open.id

    @property
    def result(self) -> Result:
        """What is known of it, as far as it has been read."""
        return self._open.result

    def _limits_left(self) -> Limits:
        """Its limits, without what it has used of them. For `ask`, which may need several turns."""
        return self._open.limits_left()

    async def __aiter__(self) -> AsyncIterator[Event]:
        if self._open.result.reason:
            raise WrongState("the events of this turn were read already: `turn.result` has what they said")
        self._open.check_no_reader()
        self._open.attended = True
        try:
            while (event := await self._open.next()) is not None:
                yield event
        finally:
            self._open.leave()

    async def __anext__(self) -> Event:
        self._open.check_no_reader()
        if (event := await self._open.next()) is None:
            raise StopAsyncIteration
        return event

    def __await__(self) -> Generator[Any, None, Result]:
        self._used = True
        return (yield from self._open.finish().__await__())  # which keeps this object until then

    if not TYPE_CHECKING:  # type checkers report a name that is not there by themselves

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(name, "await")

    async def cancel(self) -> None:
        """It ends soon, with the reason `cancelled`; if it waits for others, at the latest when its time has come."""
        self._used = True
        await self._open.cancel()

    async def steer(self, text: str, *, last: bool = False) -> None:
        """Adds a message to the running turn.

        Args:
            text: The message.
            last: Hand it over before the turn would end, instead of after the calls under way.
        """
        await self._conversation.steer(Steer(text, when="last" if last else "soon"))

    def __del__(self) -> None:
        """Nobody can read it any more. The garbage may be collected in any thread."""
        with suppress(AttributeError, RuntimeError):  # it could not be made, or the loop has ended
            if self._open.loop:
                self._open.loop.call_soon_threadsafe(self._open.abandon)
            elif not (self._used or self._conversation.failed):
                text = self._prompt.text
                short = text if len(text) <= _SHORT else f"{text[:_SHORT]}…"
                message = f"the prompt {short!r} was never sent: await its turn, or read it with `async for`"
                warnings.warn(message, RuntimeWarning, stacklevel=2, source=self)


def no_attribute(name: str, how: str) -> AttributeError:
    """Returns the error for a name that a turn does not have. It says `how` to get the result, if that has it."""
    hint = f": {how} it, its result has that" if hasattr(Result, name) else ""
    return AttributeError(f"a turn has no {name!r}{hint}", name=name)
