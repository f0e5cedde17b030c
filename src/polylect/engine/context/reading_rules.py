"""Whether the permission rules allow to show a file to the model without a call of Read.

AGENTS.md and what it includes, command files, agents, skills and attached files reach the model without a call. The
same rules apply to them: what `Read(path)` denies is not shown. Where a rule says `ask` nobody can be asked, so the
file is not shown either. A file that a person attached is held back by a denial only.
"""

from collections.abc import Iterable

from polylect.permissions.rules import covers, in_family, written
from polylect.vocab.content import Rule


def reading_fault(rules: Iterable[Rule], path: str, *, chosen: bool = False) -> str:
    """Why this file must not be shown to the model; empty if no rule forbids it.

    `path` is absolute and without links. `chosen` says that a person named the file.
    """
    effects = ("deny",) if chosen else ("deny", "ask")
    for rule in rules:
        if rule.kind == "path" and rule.effect in effects and in_family(rule, "Read", "info") and covers(rule, path):
            return f"the rule {written(rule)} is against reading it"
    return ""
