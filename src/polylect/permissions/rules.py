"""Rules as people write them: `Bash(git log:*)`, `Edit(src/**)`, `WebFetch(domain:example.com)`, `mcp__server`.

Paths: `src/a` and `./src/a` are below the workspace, `*.env` is at any depth there, `~/a` is below the home, `//a`
begins at the root of the file system. `/a` is read as the workspace's own `a`, and beside that, where it narrows rights
or stays inside the workspace, as it stands. What narrows rights counts for the target of a link too. `*`, `**` and `?`
are patterns, unless a backslash stands before them; those in the workspace's own name are not.

Rules can come from a project and paths from a model. So rules have a bounded length, paths of more than `MOST_PATH`
characters are not compared, and patterns are matched without backtracking (see `wire/path_patterns.py`).
"""

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

from polylect.vocab.content import Category, Rule
from polylect.vocab.tool_names import own_name
from polylect.wire.lazy_regex import pattern
from polylect.wire.path_patterns import ANYTHING, FOLDERS, MOST_LENGTH, ONE, STAR, expression, literal

Effect = Literal["allow", "deny", "ask"]

_RULE = pattern(r"([\w.*-]+)(?:\((.*)\))?", re.DOTALL)
_DOMAIN = pattern(r"(?:\*\.)?[a-z0-9-]+(?:\.[a-z0-9-]+)*")
_URL = pattern(r"https?://([a-z0-9-]+(?:\.[a-z0-9-]+)*)\.?(?::\d+)?(?=[/?#]|$)[^\\\s]*", re.IGNORECASE)
_SIGN = pattern(r"\\[*?\\]|(?:(?<=/)|^)\*\*/|\*\*|\*|\?")
_ESCAPED = pattern(r"\\([*?\\])")
MOST_PATH = 4096
"""Characters. The operating system opens no longer path, so one is outside of what is allowed and inside of what is
denied."""
# A rule for Read or Edit speaks of every tool that does that to files.
_FAMILIES: dict[str, Category] = {"Read": "info", "Edit": "edit"}


class BadRule(ValueError):
    """The text names the rule and what would be right."""


def parse(text: str, effect: Effect, workspace: str, home: str) -> tuple[Rule, ...]:
    """What a rule string means. One string can be two rules where its path can be read in two ways. Raises BadRule."""
    if len(text) > MOST_LENGTH:
        raise BadRule(f"{text[:40]!r}... has {len(text)} characters: a rule has at most {MOST_LENGTH}")
    match = _RULE.fullmatch(text.strip())
    if not match:
        raise BadRule(f"{text!r} is not a rule: write Tool, Tool(path), Bash(command:*) or mcp__server__tool")
    tool, content = own_name(match[1]), match[2]
    if content is not None and not content.strip():
        raise BadRule(f"{text!r}: nothing stands between the parentheses; for all of it write {tool}")
    if content is None or (content.strip() in ("*", "**") and tool not in _FAMILIES):
        return (Rule("tool", tool, effect=effect),)
    if tool == "Bash":
        return (_command(text, content, effect),)
    if content.startswith("domain:"):
        domain = content.removeprefix("domain:").strip().lower()
        if not _DOMAIN.fullmatch(domain):
            raise BadRule(f"{text!r}: {domain!r} is not a domain; write domain:example.com or domain:*.example.com")
        return (Rule("domain", domain, effect=effect, tool=tool),)
    if tool.startswith("mcp__"):
        raise BadRule(f"{text!r}: a rule for an MCP tool takes no arguments")
    paths = list(_paths(content, effect, workspace, home))
    if effect != "allow":
        paths += [real for path in paths if (real := _resolved(path)) not in paths]
    return tuple(Rule("path", path, tool != "Read", effect, tool) for path in paths)


def split(text: str) -> list[str]:
    """Rules in a row, parted by commas or blanks outside parentheses, as flags carry them. Raises BadRule."""
    rules, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            break
        if depth == 0 and (letter == "," or letter.isspace()):
            rules.append("")
        else:
            rules[-1] += letter
    if depth:
        raise BadRule(f"{text!r}: its parentheses do not match; write rules like Bash(git log:*),Read")
    return [rule for rule in rules if rule]


def _command(text: str, content: str, effect: Effect) -> Rule:
    from polylect.permissions.command_rules import BLANKS, prefix_words  # with a parser: only for rules of commands

    prefix = content.strip(BLANKS).endswith((":*", " *"))
    if prefix and not prefix_words(content):
        raise BadRule(f"{text!r}: before the * there has to be a plain command, like Bash(git log:*)")
    if not prefix and "*" in content and not prefix_words(content):
        raise BadRule(f"{text!r}: a * can only stand at the end, after a whole word: Bash(git log:*)")
    return Rule("prefix" if prefix else "command", content.strip(BLANKS), effect=effect, tool="Bash")


def _paths(content: str, effect: Effect, workspace: str, home: str) -> Iterator[str]:
    path, below = content.strip(), literal(workspace)
    if path.startswith("//"):
        yield os.path.normpath(path[1:])
    elif path == "~" or path.startswith("~/"):
        yield os.path.normpath(literal(home) + path[1:])
    elif path.startswith("/"):
        yield os.path.normpath(below + path)
        if effect != "allow" or is_below(os.path.normpath(path), below):
            yield os.path.normpath(path)
    else:
        anywhere = "/" not in path.rstrip("/")
        if anywhere:
            yield os.path.normpath(f"{below}/**/{path}")
        if not anywhere or effect != "allow":
            yield os.path.normpath(f"{below}/{path}")


def _resolved(path: str) -> str:
    """The part before the first pattern, with links resolved."""
    fixed = path if not is_pattern(path) else os.path.dirname(path[: _first_sign(path)])
    return literal(os.path.realpath(_ESCAPED.sub(r"\1", fixed))) + path[len(fixed) :]


def written(rule: Rule) -> str:
    """A rule as a person would write it."""
    match rule.kind:
        case "category":
            return f"category {rule.value}"
        case "tool":
            return rule.value
        case "domain":
            return f"{rule.tool}(domain:{rule.value})"
        case "prefix":
            from polylect.permissions.command_rules import prefix_words

            return f"{rule.tool or 'Bash'}({' '.join(prefix_words(rule.value))}:*)"
        case "command":
            return f"{rule.tool or 'Bash'}({rule.value})"
        case "path":
            return f"{rule.tool or 'path'}(/{rule.value})"


# What a rule speaks of.


def names_tool(value: str, name: str) -> bool:
    """`mcp__server` and `mcp__server__*` name all tools of a server."""
    if name == value:
        return bool(name)
    server = value.removesuffix("*").removesuffix("__")
    whole = server.startswith("mcp__") and "__" not in server.removeprefix("mcp__")
    return whole and name.startswith(server + "__")


def in_family(rule: Rule, name: str, category: Category) -> bool:
    """Does a rule for this tool speak of that one? An edit shows what it changes, so who may not read may not edit."""
    family = _FAMILIES.get(rule.tool)
    reading = rule.tool == "Read" and rule.effect != "allow" and category == "edit"
    return not rule.tool or rule.tool == name or family == category or reading


def covers(rule: Rule, path: str) -> bool:
    """Is it at or below the rule's path? A pattern's last word counts as a folder only where that narrows rights. In a
    rule without a tool, which a host or the engine has made of a folder's name, nothing is a pattern."""
    if not rule.value.startswith("/"):
        return False
    if len(path) > MOST_PATH:
        return rule.effect != "allow"
    if not rule.tool or not any(sign in rule.value for sign in "*?\\"):
        return is_below(path, rule.value)
    below = rule.effect != "allow" or not is_pattern(os.path.basename(rule.value))
    return bool(_pattern(rule.value, below).match(path))


def is_pattern(path: str) -> bool:
    return _first_sign(path) >= 0


def _first_sign(path: str) -> int:
    """Where the first pattern in it begins; -1 if there is none."""
    return next((sign.start() for sign in _SIGN.finditer(path) if not sign[0].startswith("\\")), -1)


def is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


@lru_cache(maxsize=4096)
def _pattern(value: str, below: bool) -> re.Pattern[str]:
    """For `match`. `below` takes what lies below a match, too, as `/**` at the end does with its folder."""
    folder = value.rstrip("/").removesuffix("/**")
    end = r"(?=/|\Z)" if below or folder != value.rstrip("/") else r"\Z"
    return re.compile(expression(list(_tokens(folder)), end), re.DOTALL)


def _tokens(value: str) -> Iterator[str]:
    at = 0
    for sign in _SIGN.finditer(value):
        yield from map(re.escape, value[at : sign.start()])
        yield from _MEANINGS.get(sign[0]) or (re.escape(sign[0][1]),)
        at = sign.end()
    yield from map(re.escape, value[at:])


_MEANINGS = {"**/": (FOLDERS,), "**": ANYTHING, "*": (STAR,), "?": (ONE,)}


def names_host(rule: Rule, url: str) -> bool | None:
    """Is this an address in the rule's domain? None if the address is not one that everybody reads the same."""
    match = _URL.fullmatch(url)
    if not match:
        return None
    host, domain = match.group(1).lower(), rule.value.removeprefix("*.")
    wide = rule.effect != "allow" or rule.value.startswith("*.")
    return (host == domain and not rule.value.startswith("*.")) or (wide and host.endswith("." + domain))
