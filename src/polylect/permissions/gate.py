"""Decides whether a call may run: allow, ask or deny.

A pure function of the mode, the rules and what the call would touch. Deny rules win over everything, also over the mode
`force`. Ask rules win over whatever allows. `engine/turn/calls.py` asks before every call; the order of the checks is
documented in docs/safety.md.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from msgspec import Struct

from polylect.permissions.rules import covers, in_family, names_host, names_tool, written
from polylect.vocab.content import Category, Mode, Origin, Rule
from polylect.vocab.tool_names import EXIT_PLAN, same_tool

_MODE_ALLOWS: dict[Mode, frozenset[str]] = {
    "default": frozenset(),
    "auto_edit": frozenset({"info", "edit"}),
    "force": frozenset({"info", "edit", "exec", "mcp"}),
    "plan": frozenset({"info"}),
    "dont_ask": frozenset(),
}

_FREE = {
    "AskUserQuestion": "it asks the person itself",  # to ask whether it may would be one question too many
    "StructuredOutput": "it only gives the answer that was asked for",
    "Agent": "the calls of an agent are judged one by one",
}


class ProposedCall(Struct, frozen=True):
    """A call as the gate sees it.

    `outside` are the paths it would touch beyond the workspace and granted folders. `hidden` are those that the sandbox
    hides from commands, wherever they are; none of them is in `outside`. `unwritable` are those of `outside` that the
    sandbox does not let commands change.
    """

    name: str
    category: Category
    args: dict[str, Any]
    outside: tuple[str, ...] = ()
    touched: tuple[str, ...] = ()
    """All paths it would touch."""
    long_name: str = ""
    """Of a server's tool: `mcp__server__tool`, whatever the model calls it. Rules that allow it have to say this."""
    guarded: tuple[str, ...] = ()
    """Those among them that decide what runs later: a repository's hooks, our own settings."""
    origin: Origin = "builtin"
    """Where the tool comes from. Tools that need no permission, and the allow list, are built-in ones only."""
    hidden: tuple[str, ...] = ()
    unwritable: tuple[str, ...] = ()

    @property
    def command(self) -> str | None:
        command = self.args.get("command")
        return command if self.category == "exec" and isinstance(command, str) else None


class Verdict(Struct, frozen=True):
    """The decision, and the reason in words that a host can show."""

    decision: Literal["allow", "ask", "deny"]
    why: str


def verdict(call: ProposedCall, mode: Mode, allow_list: Sequence[str], rules: Iterable[Rule]) -> Verdict:
    """Judge a call. `allow_list` names built-in tools that need no approval; `rules` are all that hold now."""
    by_effect: dict[str, list[Rule]] = {"deny": [], "ask": [], "allow": []}
    for rule in rules:
        by_effect[rule.effect].append(rule)
    judged = _objection(call, mode, by_effect) or _permission(call, mode, allow_list, by_effect["allow"])
    if judged.decision == "ask" and mode == "dont_ask":
        calls = f"{call.category} calls"
        why = judged.why.replace(f"{calls} are asked for in mode dont_ask", f"{calls} need approval", 1)
        return Verdict("deny", f"{why}, and the mode dont_ask denies {'it' if why == judged.why else 'them'}")
    return judged


# What stands against it.


def _objection(call: ProposedCall, mode: Mode, rules: dict[str, list[Rule]]) -> Verdict | None:
    matches = [(rule, _applies_to(rule, call)) for rule in (*rules["deny"], *rules["ask"])]
    denying = [rule for rule, caught in matches if caught and rule.effect == "deny"]
    if denying:
        return Verdict("deny", f"the rule {written(denying[0])} denies it")
    if call.name == EXIT_PLAN:
        return Verdict("ask", "whether a plan is carried out is for a person to decide")
    if mode == "plan" and call.category not in _MODE_ALLOWS[mode]:
        return Verdict("deny", "the mode is plan: files can be read, nothing can be changed or run")
    for rule, caught in matches:
        if caught:
            return Verdict("ask", f"the rule {written(rule)} wants it to be asked for")
        if caught is None:
            return Verdict("ask", f"it cannot be told whether the rule {written(rule)} speaks of it")
    return None


def _applies_to(rule: Rule, call: ProposedCall) -> bool | None:
    """Whether a rule is about this call; None if that cannot be decided."""
    match rule.kind:
        case "category":
            return rule.value == call.category
        case "tool":
            return _names(rule, call)
        case "path":
            return in_family(rule, call.name, call.category) and any(covers(rule, path) for path in call.touched)
        case "domain":
            url = call.args.get("url")
            return rule.tool == call.name and (names_host(rule, url) if isinstance(url, str) else False)
        case "prefix" | "command":
            if call.command is None or rule.tool not in ("", call.name):
                return False
            from polylect.permissions.command_rules import catches  # with a parser: only for commands

            return catches(rule, call.command)


def _names(rule: Rule, call: ProposedCall) -> bool:
    """Whether a tool rule names this call, by any name of a built-in tool. To allow a server's tool it has to use the
    full name."""
    if call.origin == "builtin" and same_tool(rule.value, call.name):
        return True
    in_full = names_tool(rule.value, call.long_name or call.name)
    return in_full or (rule.effect != "allow" and names_tool(rule.value, call.name))


# What speaks for it.


def _permission(call: ProposedCall, mode: Mode, allow_list: Sequence[str], rules: Sequence[Rule]) -> Verdict:
    hidden = _unopened(call.hidden, call, rules)
    if mode == "force":
        return _forced(hidden, () if call.category == "info" else _unopened(call.unwritable, call, rules))
    builtin = call.origin == "builtin"
    if builtin and (why := _FREE.get(call.name)):
        return Verdict("allow", why)
    if hidden:
        return Verdict("ask", f"it touches {hidden[0]}, which the sandbox hides from commands")
    if outside := _unopened(call.outside, call, rules):
        return Verdict("ask", f"it touches {outside[0]}, which is outside the workspace")
    if call.guarded and call.category != "info":
        return Verdict("ask", f"it changes {call.guarded[0]}, which decides what runs later")
    if call.category in _MODE_ALLOWS[mode]:
        return Verdict("allow", f"the mode is {mode}")
    if builtin and any(same_tool(name, call.name) for name in allow_list):
        return Verdict("allow", f"{call.name} is on the allow list")
    for rule in rules:
        if rule.kind in ("category", "tool", "domain") and _applies_to(rule, call) is True:
            return Verdict("allow", f"the rule {written(rule)} allows it")
    if call.touched and all(any(_grants(rule, path, call) for rule in rules) for path in call.touched):
        return Verdict("allow", "rules allow the files it touches")
    return _by_command(call, mode, rules)


def _forced(hidden: Sequence[str], unwritable: Sequence[str]) -> Verdict:
    """In force nobody is asked, so what the sandbox keeps from commands is denied to the other tools as well."""
    if hidden:
        what, remedy = f"hides {hidden[0]}", 'take its folder out of `hidden` in [sandbox] ("!~/.ssh")'
    elif unwritable:
        what, remedy = f"does not let commands write {unwritable[0]}", "add its folder to `writable` in [sandbox]"
    else:
        return Verdict("allow", "the mode is force")
    remedy = f"allow it by a rule, {remedy}, or use a mode that asks"
    return Verdict("deny", f"the sandbox {what}, and the mode force asks nobody: {remedy}")


def _unopened(paths: Sequence[str], call: ProposedCall, rules: Sequence[Rule]) -> list[str]:
    """Those of the paths that no rule opens to this call."""
    return [path for path in paths if not any(_opens_to(rule, path, call) for rule in rules)]


def _by_command(call: ProposedCall, mode: Mode, rules: Sequence[Rule]) -> Verdict:
    default_reason = f"{call.category} calls are asked for in mode {mode}"
    # A rule that names no tool was made for the engine's own shell.
    tools = ("", call.name) if call.origin == "builtin" else (call.name,)
    rules = [rule for rule in rules if rule.kind in ("prefix", "command") and rule.tool in tools]
    if call.command is None or not rules:
        return Verdict("ask", default_reason)
    from polylect.permissions.command_rules import commands_in, why_not

    why = why_not(call.command, commands_in(call.command), rules)
    return Verdict("ask", f"{default_reason}: {why}") if why else Verdict("allow", "rules allow every command in it")


def _grants(rule: Rule, path: str, call: ProposedCall) -> bool:
    """Whether a path rule allows the call there. Without a tool it allows to read, and to edit with `write`."""
    if rule.kind != "path" or not covers(rule, path):
        return False
    if rule.tool:
        return in_family(rule, call.name, call.category)
    return call.category == "info" or (call.category == "edit" and rule.write)


def _opens_to(rule: Rule, path: str, call: ProposedCall) -> bool:
    return _grants(rule, path, call) or (opens(rule, call.category) and covers(rule, path))


def opens(rule: Rule, category: Category) -> bool:
    """Whether this rule opens a folder or file to calls of this category."""
    named = rule.kind == "path" and rule.effect == "allow" and rule.value.startswith("/")
    return named and not rule.tool and (rule.write or category == "info")
