"""Questions that wait for a person."""

import asyncio
from collections.abc import Callable
from typing import Literal

from polylect.vocab.commands import Answer
from polylect.vocab.events import Ask, AskClosed, Event

NOBODY = "nobody is there to ask: the host has closed its end"


class Asks:
    """Open questions by id. Each is closed exactly once, whatever happens."""

    def __init__(self) -> None:
        self._open: dict[str, asyncio.Future[Answer]] = {}
        self._questions: dict[str, Ask] = {}
        self._nobody = False
        self.tokens: set[str] = set()
        """Every ask id of this process: none of them may ever reach the model."""

    async def ask(self, ask: Ask, emit: Callable[[Event], None], timeout: float) -> Answer:
        """Put a question and wait. Anything but a clear yes comes back as a no."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[ask.ask] = answer  # before it is written: the answer may be quick
        self._questions[ask.ask] = ask
        self.tokens.add(ask.ask)
        emit(ask)
        if self._nobody:
            self._resolve(ask.ask, Answer(ask.ask, "deny", reason=NOBODY))
        try:
            async with asyncio.timeout(timeout or None):
                reply = await answer
        except TimeoutError:
            reason = f"approval timed out after {timeout:g} s"
            emit(AskClosed(ask.ask, "timeout", reason))
            return Answer(ask.ask, "deny", reason=reason)
        except asyncio.CancelledError:
            emit(AskClosed(ask.ask, "cancelled"))
            raise
        finally:
            self._open.pop(ask.ask, None)
            self._questions.pop(ask.ask, None)
        emit(AskClosed(ask.ask, _how(ask, reply), reply.reason))
        return reply

    def answer(self, answer: Answer) -> bool:
        """False if nobody asked that, or it was answered already."""
        return self._resolve(answer.ask, answer)

    def stop(self, turn: str) -> None:
        """The turn is being stopped: its questions no longer wait for anything, and a late answer is told so."""
        for ask in [ask for ask, question in self._questions.items() if question.turn == turn]:
            self._open.pop(ask, None)

    def nobody_listens(self) -> None:
        """From now on every question is answered with no, those that wait included."""
        self._nobody = True
        for ask in list(self._open):
            self._resolve(ask, Answer(ask, "deny", reason=NOBODY))

    def scrub(self, text: str) -> str:
        if "ask-" in text:
            for token in self.tokens:
                text = text.replace(token, "[removed]")
        return text

    def _resolve(self, ask: str, answer: Answer) -> bool:
        waiting = self._open.get(ask)
        if waiting is None or waiting.done():
            return False
        waiting.set_result(answer)
        return True


def _how(ask: Ask, answer: Answer) -> Literal["allowed", "denied", "answered", "cancelled"]:
    match answer.verdict:
        case "allow":
            return "allowed" if ask.kind == "permission" else "answered"
        case "cancelled":
            return "cancelled"
        case _:
            return "denied"
