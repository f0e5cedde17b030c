"""Permission rules and updates in the notation of this wire, both ways.

    {"toolName": "Bash", "ruleContent": "git log:*"}   <->   Rule("prefix", "git log", tool="Bash")
    {"toolName": "Edit", "ruleContent": "src/**"}      ->    Rule("path", "<cwd>/src/**", write=True, tool="Edit")

`suggestions` offers the host what would make an ask unnecessary. `Updates` reads what its answer changes. A rule that
cannot be understood is skipped and reported, never widened. Both ends call it.
"""

from typing import Any, Literal

from polylect.dialects.claude.versions import OUR_MODES
from polylect.vocab.commands import Command, Configure, Grant
from polylect.vocab.content import Rule
from polylect.vocab.events import Ask
from polylect.wire.path_patterns import literal

_BLANKS = " \t\n"
"""White space that bash ignores around a command. Other white space is part of the command."""

Effect = Literal["allow", "deny", "ask"]
_EFFECTS: dict[str, Effect] = {"allow": "allow", "deny": "deny", "ask": "ask"}


def suggestions(ask: Ask) -> list[dict[str, Any]]:
    """The permission updates that would make this ask unnecessary the next time."""
    if ask.category == "edit":
        return [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]
    rule: dict[str, Any] = {"toolName": ask.name}
    if ask.name == "Bash":
        command = ask.args.get("command")
        if not _is_exact(command):
            return []
        rule["ruleContent"] = command
    return [{"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session"}]


def _is_exact(command: Any) -> bool:
    """Whether a rule with this text allows only this command. A star at the end would make it a prefix."""
    if not isinstance(command, str):
        return False
    bare = command.strip(_BLANKS)
    return 0 < len(bare) <= 200 and not bare.endswith((":*", " *"))


class Updates:
    """The `updatedPermissions` of an answer, as commands.

    always     the first rule that allows; the `Answer` itself carries it
    commands   all other changes
    problems   a sentence for each update that was skipped
    """

    def __init__(self, updates: Any, cwd: str, granted: list[Rule]) -> None:
        self.always: Rule | None = None
        self.commands: list[Command] = []
        self.problems: list[str] = []
        self._cwd = cwd
        self._granted = granted
        """Rules of this and earlier answers, which `replaceRules` revokes."""
        for update in updates if isinstance(updates, list) else []:
            try:
                self._apply(update)
            except ValueError as error:
                self.problems.append(str(error))
        if not any(isinstance(command, Grant) and command.revoke for command in self.commands):
            self._let_answer_carry()

    def _apply(self, update: Any) -> None:
        match update:
            case {"type": "addRules", "rules": list(rules), "behavior": str(behavior)}:
                self._grant(self._readable(rules, behavior))
            case {"type": "replaceRules", "rules": list(rules), "behavior": str(behavior)}:
                new = [rule_of(rule, behavior, self._cwd) for rule in rules]
                self._revoke([rule for rule in self._granted if rule.effect == behavior])
                self._grant(new)
            case {"type": "removeRules", "rules": list(rules), "behavior": str(behavior)}:
                self._revoke(self._readable(rules, behavior))
            case {"type": "setMode", "mode": str(mode)} if mode in OUR_MODES:
                self.commands.append(Configure({"mode": OUR_MODES[mode]}))
            case {"type": "addDirectories" | "removeDirectories" as kind, "directories": list(folders)}:
                revoke = kind == "removeDirectories"
                paths = [folder for folder in folders if isinstance(folder, str) and folder.startswith("/")]
                self.commands += [Grant(rule=Rule("path", path), revoke=revoke) for path in paths]
            case _:
                raise ValueError("a permission update of an unknown kind was skipped")

    def _readable(self, rows: list[Any], behavior: str) -> list[Rule]:
        rules = []
        for rule in rows:
            try:
                rules.append(rule_of(rule, behavior, self._cwd))
            except ValueError as error:
                self.problems.append(str(error))
        return rules

    def _grant(self, rules: list[Rule]) -> None:
        self._granted += [rule for rule in rules if rule not in self._granted]
        self.commands += [Grant(rule=rule) for rule in rules]

    def _revoke(self, rules: list[Rule]) -> None:
        self._granted[:] = [rule for rule in self._granted if rule not in rules]
        self.commands += [Grant(rule=rule, revoke=True) for rule in rules]

    def _let_answer_carry(self) -> None:
        for command in self.commands:
            if isinstance(command, Grant) and command.rule in self._granted and command.rule.effect == "allow":
                self.always = command.rule
                self.commands.remove(command)
                return


def rule_of(entry: Any, behavior: str, cwd: str) -> Rule:
    """The rule in an entry of the wire.

    entry      `toolName`, and maybe `ruleContent`: `git log:*`, `src/**`, `domain:example.com`
    behavior   allow, deny or ask
    cwd        relative paths are below it

    Raises ValueError with a sentence for people.
    """
    match entry:
        case {"toolName": str(tool)} if tool and behavior in _EFFECTS:
            content = entry.get("ruleContent")
        case _:
            raise ValueError("a permission rule without a toolName, or with an unknown behavior, was skipped")
    effect = _EFFECTS[behavior]
    if content is None:
        return Rule("tool", tool, effect=effect)
    if not isinstance(content, str) or not (text := content.strip(_BLANKS)):
        raise ValueError(f"a permission rule for {tool[:80]!r} whose ruleContent is no text was skipped")
    if tool == "Bash":
        prefix = text.removesuffix(":*").removesuffix(" *").strip(_BLANKS)
        return Rule("command" if prefix == text else "prefix", prefix, effect=effect, tool=tool)
    if text.startswith("domain:"):
        return Rule("domain", text.removeprefix("domain:").strip().lower(), effect=effect, tool=tool)
    return Rule("path", _path(text, cwd), write=tool != "Read", effect=effect, tool=tool)


def _path(text: str, cwd: str) -> str:
    if text.startswith("//"):
        return text[1:]
    if text.startswith("~") or not cwd:
        raise ValueError(
            f"the permission rule for {text!r} was skipped: write the path in full, as //{text.strip('~/')}"
        )
    if text.startswith("/"):
        return literal(cwd) + text
    if "/" in text.rstrip("/"):
        return f"{literal(cwd)}/{text.removeprefix('./')}"
    return f"{literal(cwd)}/**/{text}"


def written(rule: Rule) -> dict[str, Any]:
    """A rule as an entry of the wire, with its behavior."""
    match rule.kind:
        case "tool" | "category":
            entry = {"toolName": rule.value}
        case "prefix":
            entry = {"toolName": rule.tool or "Bash", "ruleContent": f"{rule.value.removesuffix(':*')}:*"}
        case "domain":
            entry = {"toolName": rule.tool, "ruleContent": f"domain:{rule.value}"}
        case "path":
            entry = {"toolName": rule.tool or ("Edit" if rule.write else "Read"), "ruleContent": f"/{rule.value}"}
        case _:
            entry = {"toolName": rule.tool or "Bash", "ruleContent": rule.value}
    return {**entry, "behavior": rule.effect}


def rule_text(entry: dict[str, Any]) -> str:
    """An entry of the wire as people write it: `Bash(git log:*)`."""
    content = entry.get("ruleContent")
    return f"{entry['toolName']}({content})" if content else str(entry["toolName"])


def entry_of(text: str) -> dict[str, Any]:
    """The reverse of `rule_text`."""
    tool, opening, content = text.partition("(")
    return {"toolName": tool, "ruleContent": content.removesuffix(")")} if opening else {"toolName": tool}
