"""The permission rules of one conversation.

They come from three places: the configuration when the engine starts, the host's settings, and grants during the
session, which may expire or be revoked. Iterating gives all rules that hold now; `gate.py` judges calls by them.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct, ValidationError, convert
from msgspec.structs import replace

from polylect.permissions.rules import BadRule, Effect, covers, in_family, parse, written
from polylect.vocab.content import Rule

MOST_RULES = 1000
"""Every call is judged by all of them, so their number is bounded, as the length of each is."""


class _Grant(Struct, frozen=True):
    rule: Rule
    """As it was granted; it is taken back by the same words."""
    in_force: Rule
    id: str
    until_ms: int


class Rulebook:
    """Iterates over the rules that hold now."""

    def __init__(self, fixed: Sequence[Rule] = (), now: Callable[[], float] = time.time) -> None:
        self._fixed = tuple(fixed)
        self._granted: list[_Grant] = []
        self._now = now
        self.configured: Sequence[Rule] = ()
        """Those that the host has set as a whole, and can set anew."""

    def __iter__(self) -> Iterator[Rule]:
        now = self._now() * 1000
        self._granted = [grant for grant in self._granted if not grant.until_ms or now < grant.until_ms]
        yield from self._fixed
        yield from self.configured
        yield from [grant.in_force for grant in self._granted]

    def add(self, rule: Rule, id: str = "", until_ms: int = 0) -> None:
        """One with an id that is known takes the place of the other. `until_ms` counts from 1970; 0 is for ever."""
        if id:
            self.revoke(id=id)
        grant = _Grant(rule, _resolved(rule), id, until_ms)
        if grant not in self._granted:
            self._granted.append(grant)

    def revoke(self, rule: Rule | None = None, id: str = "") -> bool:
        """False if there was none. What the conversation began with cannot be taken back."""
        left = [grant for grant in self._granted if not (grant.id == id if id else grant.rule == rule)]
        revoked = len(left) < len(self._granted)
        self._granted = left
        return revoked


def _resolved(rule: Rule) -> Rule:
    """With the real path of what it opens, once: later a command may put a link there."""
    if rule.kind != "path" or rule.effect != "allow" or rule.tool or not rule.value.startswith("/"):
        return rule
    return replace(rule, value=os.path.realpath(rule.value))


def rules_in(texts: Any, workspace: str, home: str) -> list[Rule]:
    """Of texts by what they do: `{"deny": ["Bash(rm:*)"], "allow": ["Read"]}`. Raises BadRule."""
    try:
        by_effect = convert(texts, dict[Effect, tuple[str, ...]])
    except ValidationError as error:
        raise BadRule(f"rules: {error}") from None
    _check_number(sum(map(len, by_effect.values())))
    return [rule for effect, row in by_effect.items() for text in row for rule in parse(text, effect, workspace, home)]


def fault_in(texts: Sequence[str]) -> str:
    """What is wrong with rules as someone wrote them; empty if nothing is."""
    try:
        _check_number(len(texts))
        for text in texts:
            parse(text, "deny", "/", "/")
    except BadRule as error:
        return str(error)
    return ""


def reading_fault(rules: Iterable[Rule], path: str, *, chosen: bool = False) -> str:
    """Why this file must not be shown to the model without a call of Read; empty if no rule forbids it.

    AGENTS.md and what it includes, command files, agents, skills and attached files reach the model without a call. The
    same rules apply to them: what `Read(path)` denies is not shown. Where a rule says `ask` nobody can be asked, so the
    file is not shown either. A file that a person attached is held back by a denial only.

    `path` is absolute and without links. `chosen` says that a person named the file.
    """
    effects = ("deny",) if chosen else ("deny", "ask")
    for rule in rules:
        if rule.kind == "path" and rule.effect in effects and in_family(rule, "Read", "info") and covers(rule, path):
            return f"the rule {written(rule)} is against reading it"
    return ""


def _check_number(number: int) -> None:
    if number > MOST_RULES:
        raise BadRule(f"there are {number} rules: use at most {MOST_RULES}, with wider patterns")
