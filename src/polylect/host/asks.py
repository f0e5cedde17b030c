"""Questions of an engine to its host, and policies that answer them.

An `Ask` is the event with methods that answer it. A policy is a function that answers in the place of a person; the
conversation (`host/supervision/conversation.py`) calls it by `decide`. Every ask is answered: a policy that fails or
gives no clear answer denies.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, get_args

from polylect.host.errors import InvalidType, InvalidValue
from polylect.vocab import events
from polylect.vocab.commands import Answer
from polylect.vocab.content import Category, Rule

if TYPE_CHECKING:
    from polylect.host.supervision.conversation import Conversation


class Ask(events.Ask, frozen=True, tag="ask"):
    """A question with its answers: `await ask.allow()`, `await ask.deny("why")`, `await ask.answer("blue")`."""

    via: Any = None
    """What its answer is sent through."""

    @property
    def open(self) -> bool:
        """Whether it still waits for an answer."""
        return self.ask in self.via.asks

    async def allow(self, *, always: bool | Rule = False, args: dict[str, Any] | None = None) -> None:
        """Allows the call.

        Args:
            always: True allows this category for the rest of the session; a `Rule` allows what it describes.
            args: Arguments to run the call with, instead of those that the model gave.

        Raises:
            InvalidType: `always` is neither a bool nor a `Rule`.
        """
        if not isinstance(always, bool | Rule):
            raise InvalidType(f"always is True, False or a Rule, not {always!r}")
        rule = always if isinstance(always, Rule) else Rule("category", self.category) if always else None
        await self._reply(Answer(self.ask, "allow", args=args, always=rule))

    async def deny(self, reason: str = "", *, interrupt: bool = False) -> None:
        """Denies the call.

        Args:
            reason: What the model is told.
            interrupt: Also end the turn.
        """
        await self._reply(Answer(self.ask, "deny", reason=reason, interrupt=interrupt))

    async def answer(self, value: Any) -> None:
        """Answers a question that does not ask for a permission; `allow` and `deny` are for those.

        Args:
            value: The id or label of a choice, a text, the values of a form, or True or False for a `confirm`.

        Raises:
            InvalidValue: It asks for a permission.
            InvalidType: It is a `confirm`, and `value` is no bool.
        """
        if self.kind == "permission":
            raise InvalidValue('a permission is given by `await ask.allow()` and refused by `await ask.deny("why")`')
        if self.kind != "confirm":
            return await self._reply(Answer(self.ask, "allow", value=value))
        if not isinstance(value, bool):
            raise InvalidType(f"the answer to a yes-or-no question is True or False, not {value!r}")
        return await (self.allow() if value else self.deny())

    async def _reply(self, answer: Answer) -> None:
        await self.via.reply_to(answer)

    def _event(self) -> events.Ask:
        """The event alone, as the engine sent it: the conversation is neither shown nor written."""
        return events.Ask(**{name: getattr(self, name) for name in events.Ask.__struct_fields__})

    def to_dict(self) -> dict[str, Any]:
        return self._event().to_dict()

    def to_json(self) -> str:
        return self._event().to_json()

    def __repr__(self) -> str:
        return repr(self._event())


_log = logging.getLogger(__name__)
Policy = Callable[[Ask], "Verdict | Awaitable[Verdict]"]
"""Answers for a person: True allows, False denies, a text denies with that reason; `ask.allow(...)` may be awaited
inside, and then None is returned."""
Verdict = bool | str | None
_UNCLEAR = "the host's policy gave no clear answer: {!r}"


def bind(ask: events.Ask, conversation: "Conversation") -> Ask:
    """Returns the event `ask` with methods that send the answer through the `conversation`."""
    return Ask(**{name: getattr(ask, name) for name in events.Ask.__struct_fields__}, via=conversation)


async def decide(policy: Policy, ask: Ask) -> None:
    """Answers an ask by a policy. If the policy raises, or returns None without having answered, the ask is denied.

    Args:
        policy: The policy, async or not.
        ask: The ask.
    """
    try:
        verdict = policy(ask)
        if isinstance(verdict, Awaitable):
            verdict = await verdict
    except asyncio.CancelledError:
        if getattr(asyncio.current_task(), "cancelling", int)():
            raise
        verdict = "what the host's policy waited for was cancelled"
    except Exception as error:  # noqa: BLE001  (the host's own code, and the engine waits)
        _log.exception("the policy failed")
        verdict = f"the host's policy failed: {type(error).__name__}: {error}"
    if verdict is True:
        await ask.allow()
    elif verdict is not None or ask.open:
        await ask.deny(verdict if isinstance(verdict, str) else "" if verdict is False else _UNCLEAR.format(verdict))


def deny_all(ask: Ask) -> Verdict:
    """A policy for `connect(approve=...)` that denies every `ask`."""
    return "nobody is there to be asked"


def allow_all(ask: Ask) -> Verdict:
    """A policy for `connect(approve=...)` that allows every `ask`."""
    return True


def category(*allowed: str) -> Policy:
    """Returns a policy for `connect(approve=...)` that allows some categories of tools and denies the others.

    Args:
        *allowed: The categories: info, edit, exec, mcp.

    Raises:
        InvalidValue: There is no such category.
    """
    for name in allowed:
        if name not in get_args(Category):
            raise InvalidValue(f"there is no category {name!r}; there are {', '.join(get_args(Category))}")
    return lambda ask: ask.category in allowed or f"only {', '.join(allowed)} is allowed here"


__all__ = ["Ask", "Policy", "Verdict", "allow_all", "bind", "category", "decide", "deny_all"]
