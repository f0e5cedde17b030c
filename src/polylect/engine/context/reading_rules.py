"""Whether the rules let a file be told to the model where no call asks for it.

AGENTS.md and what it includes, command files, agents, skills and attached files reach the model without a Read. They
pass the same rules: what `Read(path)` denies is not told. Where a rule wants to be asked first there is nobody to ask,
so that is not told either; an attached file was chosen by a person, and only a denial stands against it.
"""

from collections.abc import Iterable

from polylect.permissions.rules import covers, in_family, written
from polylect.vocab.content import Rule


def reading_fault(rules: Iterable[Rule], path: str, *, chosen: bool = False) -> str:
    """Why this file is not told; empty if no rule is against it.

    `path` is absolute and without links. `chosen` says that a person has named the file.
    """
    effects = ("deny",) if chosen else ("deny", "ask")
    for rule in rules:
        if rule.kind == "path" and rule.effect in effects and in_family(rule, "Read", "info") and covers(rule, path):
            return f"the rule {written(rule)} is against reading it"
    return ""
