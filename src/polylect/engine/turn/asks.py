"""Open questions to the host, such as approvals.

Each question is closed exactly once: answered, timed out, cancelled, or denied because the host is gone (A1, A2). It is
registered before it is emitted, so that a quick answer finds it (A3). Only a clear yes allows anything.
"""

import asyncio
from collections.abc import Callable
from typing import Literal

from polylect.vocab.commands import Answer
from polylect.vocab.events import Ask, AskClosed, Event

NOBODY = "nobody is there to ask: the host has closed its end"


class Asks:
    """The open questions by id, shared by an agent and its sub-agents."""

    def __init__(self) -> None:
        self._open: dict[str, asyncio.Future[Answer]] = {}
        self._questions: dict[str, Ask] = {}
        self._nobody = False
        self.tokens: set[str] = set()
        """Every ask id of this process: none of them may ever reach the model."""

    async def ask(self, ask: Ask, emit: Callable[[Event], None], timeout: float) -> Answer:
        """Ask the host and wait for the answer. A timeout becomes a denial; zero seconds means no limit."""
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
        """Deliver an answer. False if no such question is open."""
        return self._resolve(answer.ask, answer)

    def stop(self, turn: str) -> None:
        """Close the questions of a turn that is being cancelled, so that late answers are refused."""
        for ask in [ask for ask, question in self._questions.items() if question.turn == turn]:
            self._open.pop(ask, None)

    def host_gone(self) -> None:
        """The host is gone: deny all open and all later questions."""
        self._nobody = True
        for ask in list(self._open):
            self._resolve(ask, Answer(ask, "deny", reason=NOBODY))

    def scrub(self, text: str) -> str:
        """Remove question ids from a text for the model, which could otherwise forge an answer (A6)."""
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
