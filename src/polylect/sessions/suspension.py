"""What a script stores in the log while it waits for an approval. Pure.

The answer may come after a restart (`engine/commands/resume_approval.py`). Only digests of the question and of its
token are stored, so that somebody who can read the log cannot answer.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

from polylect.vocab.commands import Answer
from polylect.vocab.content import ToolResult
from polylect.vocab.events import Ask
from polylect.wire import jsonl

SUSPENDED = "suspended"
"""A setting: calls that wait for a person, by their ids. A text instead is only what the model is to be told."""


class Suspension(Struct, frozen=True):
    """A call that waits. `token` and `question` are digests."""

    model_text: str = field(name="told")
    """What the model is told if no answer comes."""
    turn: str
    token: str
    question: str
    """A digest: an answer counts for what was asked, and for nothing else."""
    reason: str
    until: int
    """In milliseconds since 1970."""
    args: dict[str, Any]
    done: tuple[ToolResult, ...]
    """The results of the steps before the one that waits."""


class EarlyAnswer(Struct, frozen=True):
    """An answer that arrived before its question was asked again."""

    answer: Answer
    suspension: Suspension

    def answers(self, ask: Ask) -> bool:
        """Whether it answers this question. A denial does, whatever is asked by now."""
        return self.answer.verdict != "allow" or question_in(ask) == self.suspension.question


def question_in(ask: Ask) -> str:
    """A digest of what a question asks."""
    fields = (ask.name, ask.category, ask.args, ask.title, ask.reason)
    return digest(jsonl.dump(msgspec.to_builtins(fields, order="sorted")).decode())


def digest(text: str) -> str:
    from hashlib import sha256  # OpenSSL: 3 ms and 2 MiB, and only for scripts that wait

    return sha256(text.encode(errors="surrogatepass")).hexdigest()


def suspensions_in(setting: dict[str, Any]) -> dict[str, Suspension]:
    """The suspended calls that can go on, by call id."""
    return {call: msgspec.convert(value, Suspension) for call, value in setting.items() if isinstance(value, dict)}


def model_texts(setting: dict[str, Any]) -> dict[str, str]:
    """What the model is told of each suspended call if no answer comes."""
    return {call: value["told"] if isinstance(value, dict) else value for call, value in setting.items()}


def is_valid(setting: object) -> bool:
    """Whether a stored setting has the right shape."""
    try:
        msgspec.convert(setting, dict[str, str | Suspension])
    except msgspec.ValidationError:
        return False
    return True
