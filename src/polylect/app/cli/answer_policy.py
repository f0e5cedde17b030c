"""Rules of the one who starts a run, as answers to what any engine asks."""

import os
from collections.abc import Callable, Sequence

from polylect.host.asking import Ask, Verdict
from polylect.permissions.gate import ProposedCall, verdict
from polylect.permissions.rulebook import fault_in
from polylect.permissions.rules import parse
from polylect.vocab.content import Category, Rule

_NAMES = {"bash": "Bash", "read": "Read", "write": "Write", "edit": "Edit", "grep": "Grep", "find": "Glob"}
"""What other engines call tools that rules are written for."""
_CATEGORIES: dict[str, Category] = {"Bash": "exec", "Read": "info", "Grep": "info", "Glob": "info", "Write": "edit"}
NOBODY = "nobody is there to be asked"
"""How the reason begins if it was not a rule that said no."""
BY_RULE = "the rule "
"""How it begins if it was."""
_PATHS = ("file_path", "path", "notebook_path")


def rule_fault(texts: Sequence[str]) -> str:
    """What is wrong with rules as someone wrote them; empty if nothing is."""
    return fault_in(list(texts))


def by_rules(allow: Sequence[str], deny: Sequence[str], cwd: str) -> Callable[[Ask], Verdict]:
    """Yes to what an allow rule names and no deny rule does; no to everything else, and why."""
    home, cwd = os.path.realpath(os.path.expanduser("~")), os.path.realpath(cwd)
    rules: list[Rule] = [rule for text in deny for rule in parse(text, "deny", cwd, home)]
    rules += [rule for text in allow for rule in parse(text, "allow", cwd, home)]

    def judge(ask: Ask) -> Verdict:
        if ask.kind != "permission":
            return NOBODY
        judged = verdict(_wanted(ask, cwd), "default", (), rules)
        if judged.decision == "allow":
            return True
        # The engine knows why it asks: a rule of its own, say, which these rules know nothing of.
        return judged.why if judged.decision == "deny" else f"{NOBODY}: {ask.reason or judged.why}"

    return judge


def _wanted(ask: Ask, cwd: str) -> ProposedCall:
    name = _NAMES.get(ask.name, ask.name)
    told = [ask.args[key] for key in _PATHS if isinstance(ask.args.get(key), str)]
    paths = tuple(os.path.realpath(os.path.join(cwd, path)) for path in told)
    outside = tuple(path for path in paths if os.path.commonpath([path, cwd]) != cwd)
    category = _CATEGORIES.get(name, ask.category)
    return ProposedCall(name, category, ask.args, outside, paths, name if name.startswith("mcp__") else "")
