"""May this call run? A pure verdict from the mode, the standing rules and what the call would touch."""

import re
from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct

from polylect.engine.settings import Mode
from polylect.vocab.content import Category, Rule

_MODE_ALLOWS: dict[Mode, frozenset[str]] = {
    "default": frozenset(),
    "auto_edit": frozenset({"info", "edit"}),
    "force": frozenset({"info", "edit", "exec", "mcp"}),
}

# What can hide a second command from a look at the first word: substitutions, and a here-document or redirection that
# writes where no rule looked.
_HIDING = re.compile(r"\$\(|`|[<>]\(|[<>]")
_SEPARATORS = re.compile(r"&&|\|\||[;|&\n]")


class Wanted(Struct, frozen=True):
    """A call as the gate sees it. `outside` are the paths it would touch beyond the workspace and granted folders."""

    name: str
    category: Category
    args: dict[str, Any]
    outside: tuple[str, ...] = ()


class Verdict(Struct, frozen=True):
    """What to do, and why in words a host can show."""

    decision: Literal["allow", "ask"]
    why: str


def verdict(call: Wanted, mode: Mode, allow_list: Sequence[str], rules: Sequence[Rule]) -> Verdict:
    if mode == "force":
        return Verdict("allow", "the mode is force")
    rules = [rule for rule in rules if rule.effect == "allow"]
    unruled = [path for path in call.outside if not any(_covers(rule, path, call.category) for rule in rules)]
    if unruled:
        return Verdict("ask", f"it touches {unruled[0]}, which is outside the workspace")
    if call.category in _MODE_ALLOWS[mode]:
        return Verdict("allow", f"the mode is {mode}")
    if call.name in allow_list:
        return Verdict("allow", f"{call.name} is on the allow list")
    for rule in rules:
        if _permits(rule, call, rules):
            return Verdict("allow", f"{rule.kind} {rule.value or call.category} was always allowed")
    return Verdict("ask", f"{call.category} calls are asked for in mode {mode}")


def _permits(rule: Rule, call: Wanted, rules: Sequence[Rule]) -> bool:
    match rule.kind:
        case "category":
            return rule.value == call.category
        case "tool":
            return rule.value == call.name
        case "prefix":
            command = call.args.get("command")
            return call.category == "exec" and isinstance(command, str) and _every_part_allowed(command, rules)
        case "path":
            return False  # widens what may be touched, not what may be done


def _every_part_allowed(command: str, rules: Sequence[Rule]) -> bool:
    if _HIDING.search(command):
        return False
    parts = [part.strip() for part in _SEPARATORS.split(command)]
    prefixes = [prefix for rule in rules if rule.kind == "prefix" and (prefix := _prefix(rule.value))]
    return all(any(_starts(part, prefix) for prefix in prefixes) for part in parts if part) and any(parts)


def _prefix(value: str) -> str:
    """`git log:*`, `git log *` and `git log ` all mean the words `git log`."""
    return re.split(r"[{*:]", value, maxsplit=1)[0].strip()


def _starts(part: str, prefix: str) -> bool:
    """At a word boundary: `cargo` does not allow `cargo-evil`."""
    return part == prefix or part.startswith(prefix + " ")


def opens(rule: Rule, category: Category) -> bool:
    """Is this a folder or file that calls of this category may touch?"""
    named = rule.kind == "path" and rule.effect == "allow" and rule.value.startswith("/")
    return named and (rule.write or category == "info")


def _covers(rule: Rule, path: str, category: Category) -> bool:
    root = rule.value.rstrip("/")
    return opens(rule, category) and (path == root or path.startswith(root + "/"))
