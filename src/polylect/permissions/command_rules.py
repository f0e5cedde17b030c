"""Judges command lines by rules such as `Bash(git log:*)`. Called by `gate.py`.

An allowed line has nothing in it that no rule allows. A denied one has anything in it that a rule denies, also behind
`sudo` or in `sh -c '...'`. The line is written by the model and some rules by a project, so the work is bounded: a line
is read once for all rules, a rule goes over its words once, and a line that is too long to be read (`shell_parser.py`)
is never allowed by a prefix and always asked about where a rule might deny it.
"""

import os
import re
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from polylect.permissions.shell_parser import MOST_STEPS, NotUnderstood, ParsedLine, Simple, Word, read
from polylect.vocab.content import Rule
from polylect.wire.lazy_regex import pattern

BLANKS = " \t\n"
"""What bash ignores around a command. Other white space is part of a name: `./a` and `./a\\r` are two programs."""

# fmt: off
_RUNNERS = frozenset((
    "sudo", "doas", "su", "runuser", "pkexec", "env", "nice", "nohup", "setsid", "stdbuf", "ionice", "chrt",
    "taskset", "timeout", "time", "watch", "script", "unshare", "nsenter", "chroot", "flock", "xargs", "parallel",
    "entr", "ssh", "sh", "bash", "dash", "zsh", "ksh", "fish", "ash", "csh", "tcsh", "rbash", "busybox", "toybox",
    "setpriv", "prlimit", "setarch", "numactl", "systemd-run", "bwrap", "firejail", "fakeroot", "strace", "ltrace",
    "unbuffer", "rlwrap", "hyperfine", "xvfb-run", "dbus-run-session",
    "eval", "exec", "source", ".", "command", "builtin", "trap", "coproc", "alias", "enable", "hash", "compgen",
    "complete", "compopt", "bind", "fc", "history", "set", "shopt", "export", "declare", "typeset", "readonly", "local",
    "let", "unset", "read", "mapfile", "readarray", "getopts",
))
# fmt: on
"""What runs its arguments, or changes what later words mean. A prefix says nothing about that: it has to be exact."""


class _Careful(Struct, frozen=True):
    """Arguments with which a command that mostly looks does more: run something, write, set or evaluate a variable."""

    letters: str = ""
    """Options of one letter. They are found in a cluster too: `-uo` holds `-o`."""
    options: tuple[str, ...] = ()
    """Options of two dashes. GNU programs take any beginning of them: `--outp=F` is `--output=F`."""
    beginnings: tuple[str, ...] = ()
    """Words that begin like this."""
    form: re.Pattern[str] | None = None
    """Words that hold this."""


_CAREFUL = {
    "find": _Careful(beginnings=("-exec", "-ok", "-delete", "-fprint", "-fls")),
    "fd": _Careful("xX", ("--exec", "--exec-batch")),
    "fdfind": _Careful("xX", ("--exec", "--exec-batch")),
    "rg": _Careful(options=("--pre", "--hostname-bin")),
    "sort": _Careful("oT", ("--output", "--compress-program", "--temporary-directory")),
    "shuf": _Careful("o", ("--output",)),
    "printf": _Careful("v", form=pattern(r"%[-+ #'0-9*.]*[hjlLqtz]*n")),  # %n stores the number of characters
    "test": _Careful("v"),
    "[": _Careful("v"),
    "wait": _Careful("p"),
    "jobs": _Careful("x"),
}


@lru_cache(maxsize=8)  # the rules of one verdict ask for the same line
def commands_in(line: str) -> ParsedLine | NotUnderstood:
    """What a command line holds, or why that cannot be told. Nobody may change what is returned."""
    try:
        return read(line)
    except NotUnderstood as error:
        return error


@lru_cache(maxsize=4096)
def prefix_words(value: str) -> tuple[str, ...]:
    """`git log:*`, `git log *` and `git log ` all mean the words `git log`. None if it is not plainly words."""
    parsed = commands_in(value.strip(BLANKS).removesuffix(":*").removesuffix(" *"))
    if isinstance(parsed, NotUnderstood) or parsed.doubts or parsed.writes or len(parsed.commands) != 1:
        return ()
    words = parsed.commands[0].words
    return tuple(word.text for word in words) if all(word.literal for word in words) else ()


def is_exactly(rule: Rule, line: str) -> bool:
    """Is this the very line that a rule names?"""
    return rule.kind == "command" and _bare(rule.value) == _bare(line)


def _bare(line: str) -> str:
    """The line without the blanks around it. After a backslash, a blank is part of a word."""
    bare = line.strip(BLANKS)
    return line if bare.endswith("\\") else bare


# Allowing.


def why_not(line: str, parsed: ParsedLine | NotUnderstood, rules: Sequence[Rule]) -> str:
    """Why these rules do not allow a command line. Empty if they do."""
    if any(is_exactly(rule, line) for rule in rules):
        return ""
    if isinstance(parsed, NotUnderstood):
        return str(parsed)
    if parsed.doubts:
        return parsed.doubts[0]
    if parsed.writes:
        return f"it writes to {parsed.writes[0]}"
    by_name: dict[str, list[Rule]] = {}
    for rule in rules:
        by_name.setdefault((prefix_words(rule.value) or ("",))[0], []).append(rule)
    for command in parsed.commands:
        if not any(_allows(rule, command) for rule in by_name.get(command.words[0].text, ())):
            return f"no rule allows {' '.join(word.text for word in command.words[:3])!r}"
    return "" if parsed.commands else "it runs nothing"


def _allows(rule: Rule, command: Simple) -> bool:
    prefix = prefix_words(rule.value)
    begin, rest = command.words[: len(prefix)], command.words[len(prefix) :]
    if not prefix or tuple(word.text for word in begin if word.literal) != prefix:
        return False
    name = os.path.basename(prefix[0])
    if rest and (rule.kind == "command" or name in _RUNNERS):
        return False
    careful = _CAREFUL.get(name)
    return careful is None or all(word.literal and not _does_more(careful, word.text) for word in rest)


def _does_more(careful: _Careful, word: str) -> bool:
    if word.startswith("--"):
        option = word.partition("=")[0]
        more = option != "--" and any(risky.startswith(option) for risky in careful.options)
    else:
        more = word.startswith("-") and any(letter in word for letter in careful.letters)
    return more or word.startswith(careful.beginnings) or bool(careful.form and careful.form.search(word))


# Denying. A rail for a model that means well: a program can always be had by another name.


def catches(rule: Rule, line: str) -> bool | None:
    """Is what this rule names anywhere in the line? None if that cannot be told."""
    if is_exactly(rule, line):
        return True
    index = _index(line)
    if isinstance(index, NotUnderstood):
        return None
    prefix = prefix_words(rule.value)
    if not prefix:
        return rule.kind == "prefix"
    results = {_catches(rule, command) for command in index.get(prefix[0], ())}
    return True if True in results else None if None in results or None in index else False


@lru_cache(maxsize=8)
def _index(line: str) -> dict[str | None, list[Simple]] | NotUnderstood:
    """The commands of a line, by the words that a rule for them can begin with; None where such a word is not known."""
    commands = _with_inner(line)
    if isinstance(commands, NotUnderstood):
        return commands
    index: dict[str | None, list[Simple]] = {}
    for command in commands:
        starts = command.words if _runs_other_programs(command) else command.words[:1]
        for start in {key for word in starts for key in ((word.text, _name(word)) if word.literal else (None,))}:
            index.setdefault(start, []).append(command)
    return index


def _with_inner(line: str) -> list[Simple] | NotUnderstood:
    """The commands of a line, and those in arguments of programs that run their arguments, as in `sh -c '...'`."""
    parsed = ParsedLine()
    try:
        read(line, parsed)
    except NotUnderstood as error:
        return error
    for command in parsed.commands:  # it grows
        for text in _inner_lines(command):
            try:
                read(text, parsed)
            except NotUnderstood as error:
                if parsed.steps > MOST_STEPS:
                    return error
    return parsed.commands


def _inner_lines(command: Simple) -> list[str]:
    words = command.words[1:] if _runs_other_programs(command) else ()
    return [word.text for word in words if word.literal and len(word.text.split(maxsplit=1)) > 1]


def _runs_other_programs(command: Simple) -> bool:
    name = _name(command.words[0])
    return name in _RUNNERS or name in _CAREFUL


def _catches(rule: Rule, command: Simple) -> bool | None:
    """Does the command begin with the rule's words, options between them apart? If it runs others, any of its words
    may be a beginning.

    Goes over the words once, for all places of the prefix at the same time: bit `n` of `here` says that `n` of its
    words have been seen. After an option, the next word may be the option's value.
    """
    prefix, bits = prefix_words(rule.value), dict[str, int]()
    for number, text in enumerate(prefix):
        bits[text] = bits.get(text, 0) | 1 << number
    anywhere, whole, unclear = _runs_other_programs(command), 1 << len(prefix), False
    following, after = 1, 0
    for at, word in enumerate(command.words):
        here, following, after = following | anywhere, after, 0
        if not word.literal:
            unclear = unclear or here != 0
            continue
        fitting = bits.get(word.text, 0) | (bits.get(_name(word), 0) & 1)
        following |= (here & fitting) << 1
        if following & whole:
            if rule.kind == "prefix" or at + 1 == len(command.words):
                return True
            following ^= whole
        if word.text.startswith("-"):
            skipping = here & ~fitting & ~1
            following, after = following | skipping, skipping
    return None if unclear else False


def _name(word: Word) -> str:
    return os.path.basename(word.text)
