"""Command lines against rules: an allowed line has nothing in it that is not allowed, a denied one anything that is."""

import os
from collections.abc import Sequence
from functools import lru_cache

from polylect.engine.shell import Found, NotUnderstood, Simple, Word, read
from polylect.vocab.content import Rule

# fmt: off
_RUNNERS = frozenset((
    "sudo", "doas", "su", "runuser", "pkexec", "env", "nice", "nohup", "setsid", "stdbuf", "ionice", "chrt",
    "taskset", "timeout", "time", "watch", "script", "unshare", "nsenter", "chroot", "flock", "xargs", "parallel",
    "entr", "ssh", "sh", "bash", "dash", "zsh", "ksh", "fish", "ash", "busybox", "toybox", "eval", "exec", "source",
    ".", "command", "builtin", "trap", "coproc", "alias", "enable", "hash", "compgen", "complete", "bind", "fc",
    "set", "shopt", "export", "declare", "typeset", "readonly", "local", "let", "unset", "read", "mapfile",
    "readarray", "getopts",
))
# fmt: on
"""What runs its arguments, or changes what later words mean. A prefix says nothing about that: it has to be exact."""

_CAREFUL = {
    "find": ("-exec", "-ok", "-delete", "-fprint", "-fls"),
    "fd": ("-x", "-X", "--exec"),
    "rg": ("--pre", "--hostname-bin"),
    "sort": ("-o", "--output", "--compress-program", "-T"),
    "printf": ("-v",),
    "test": ("-v",),
    "[": ("-v",),
    "wait": ("-p",),
}
"""What mostly looks, with the arguments that do more: run something, write, calculate with a variable's content."""


def commands_in(line: str) -> Found | NotUnderstood:
    try:
        return read(line)
    except NotUnderstood as error:
        return error


@lru_cache(maxsize=1024)
def prefix_words(value: str) -> tuple[str, ...]:
    """`git log:*`, `git log *` and `git log ` all mean the words `git log`. None if it is not plainly words."""
    found = commands_in(value.strip().removesuffix(":*").removesuffix(" *"))
    if isinstance(found, NotUnderstood) or found.doubts or found.writes or len(found.commands) != 1:
        return ()
    words = found.commands[0].words
    return tuple(word.text for word in words) if all(word.literal for word in words) else ()


# Allowing.


def why_not(line: str, found: Found | NotUnderstood, rules: Sequence[Rule]) -> str:
    """Why these rules do not allow a command line. Empty if they do."""
    if any(rule.kind == "command" and rule.value.strip() == line.strip() for rule in rules):
        return ""
    if isinstance(found, NotUnderstood):
        return str(found)
    if found.doubts:
        return found.doubts[0]
    if found.writes:
        return f"it writes to {found.writes[0]}"
    for command in found.commands:
        if not any(_allows(rule, command) for rule in rules):
            return f"no rule allows {_shown(command)!r}"
    return "" if found.commands else "it runs nothing"


def _allows(rule: Rule, command: Simple) -> bool:
    prefix = prefix_words(rule.value)
    begin, rest = command.words[: len(prefix)], command.words[len(prefix) :]
    if not prefix or tuple(word.text for word in begin if word.literal) != prefix:
        return False
    name = os.path.basename(prefix[0])
    if rest and (rule.kind == "command" or name in _RUNNERS):
        return False
    risky = _CAREFUL.get(name)
    return risky is None or all(word.literal and not word.text.startswith(risky) for word in rest)


def _shown(command: Simple) -> str:
    return " ".join(word.text for word in command.words[:3])


# Denying. A rail for a model that means well: a program can always be had by another name.


def catches(rule: Rule, found: Found | NotUnderstood) -> bool | None:
    """Is what this rule names anywhere in the line? None if that cannot be told."""
    if isinstance(found, NotUnderstood):
        return None
    return _any([_catches(rule, command) for command in found.commands])


def _catches(rule: Rule, command: Simple) -> bool | None:
    prefix, words = prefix_words(rule.value), command.words
    begins = [_begins(words, prefix, rule)]
    if _name(words[0]) in _RUNNERS or _name(words[0]) in _CAREFUL:
        begins += [_begins(words[start:], prefix, rule) for start in range(1, len(words))]
        lines = [word.text for word in words[1:] if word.literal and len(word.text.split()) > 1]
        begins += [found for line in lines if (found := catches(rule, commands_in(line)))]
    return _any(begins)


def _begins(words: Sequence[Word], prefix: Sequence[str], rule: Rule, *, first: bool = True) -> bool | None:
    """Do the words begin with the prefix, options between them apart?"""
    if not prefix:
        return rule.kind == "prefix" or not words
    if not words:
        return False
    word, rest = words[0], words[1:]
    if not word.literal:
        return None
    if prefix[0] in ((word.text, _name(word)) if first else (word.text,)):
        return _begins(rest, prefix[1:], rule, first=False)
    if first or not word.text.startswith("-"):
        return False
    return _any([_begins(rest[skipped:], prefix, rule, first=False) for skipped in (0, 1)])


def _name(word: Word) -> str:
    return os.path.basename(word.text)


def _any(found: Sequence[bool | None]) -> bool | None:
    return True if True in found else None if None in found else False
