"""Judging by rules takes little time for every rule, line and path, and bounded matching means what it meant before."""

import re
import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polylect.permissions.command_rules import _catches, _runs_other_programs, commands_in, prefix_words, why_not
from polylect.permissions.gate import ProposedCall, verdict
from polylect.permissions.rulebook import MOST_RULES, fault_in, rules_in
from polylect.permissions.rules import MOST_PATH, BadRule, Effect, covers, parse
from polylect.permissions.shell_parser import MOST, MOST_STEPS, Simple, Word
from polylect.vocab.content import Rule
from polylect.wire.path_patterns import MOST_LENGTH, literal

SOON = 2.0
"""Seconds. Each case takes some milliseconds; what is not bounded takes minutes."""


def judged(text: str, effect: Effect, *, command: str = "", path: str = "", times: int = 1) -> tuple[str, float]:
    """The decision in mode force (default for what allows), and how long it took with so many rules."""
    rules = [rule for _ in range(times) for rule in parse(text, effect, "/w", "/h")]
    touched = (path,) if path else ()
    proposed = ProposedCall(
        "Bash" if command else "Read", "exec" if command else "info", {"command": command}, (), touched
    )
    begin = time.monotonic()
    decision = verdict(proposed, "default" if effect == "allow" else "force", (), rules).decision
    return decision, time.monotonic() - begin


# Command lines.


def plainly_caught(words: Sequence[Word], prefix: Sequence[str], rule: Rule, *, first: bool = True) -> bool | None:
    """What `_catches` means, word by word. It tries every way to skip options, so it is for short lines only."""
    if not prefix:
        return rule.kind == "prefix" or not words
    if not words:
        return False
    word, rest = words[0], words[1:]
    if not word.literal:
        return None
    if prefix[0] in ((word.text, word.text.rpartition("/")[2]) if first else (word.text,)):
        return plainly_caught(rest, prefix[1:], rule, first=False)
    if first or not word.text.startswith("-"):
        return False
    ways = [plainly_caught(rest[skipped:], prefix, rule, first=False) for skipped in (0, 1)]
    return True if True in ways else None if None in ways else False


some_words = st.sampled_from(["git", "push", "-a", "-b", "x", "/bin/git", "sudo", "a/push"])
some_lines = st.lists(st.builds(Word, some_words, st.sampled_from([True] * 7 + [False])), min_size=1, max_size=7)


@given(
    words=some_lines, prefix=st.lists(some_words, min_size=1, max_size=3), kind=st.sampled_from(["prefix", "command"])
)
def test_a_denied_command_is_found_as_if_every_way_were_tried(words: list[Word], prefix: list[str], kind: str) -> None:
    rule = Rule("prefix" if kind == "prefix" else "command", " ".join(prefix), effect="deny")
    command = Simple(tuple(words))
    starts = range(len(words)) if _runs_other_programs(command) else (0,)
    results = [plainly_caught(words[start:], prefix_words(rule.value), rule) for start in starts]
    assert _catches(rule, command) is (True if True in results else None if None in results else False)


@pytest.mark.parametrize(
    ("command", "decision"),
    [
        ("git " + "-a " * 36, "allow"),
        ("git " + "-a " * 2000 + "push", "ask"),
        ("git " + "-a " * 4000, "allow"),
        ("sudo " + "git -a " * 1000, "allow"),
        ("sudo " + "git " * 4000 + "push", "ask"),
        ("sh " + "'git x; git y' " * 2400, "ask"),
        ("a;" * 2400, "allow"),
        ("a;" * 40_000, "ask"),
        ("echo " + "x" * (MOST + 1), "ask"),
        ("echo '" + "x" * 90_000 + "'", "allow"),
    ],
)
def test_no_command_line_takes_long_and_one_that_is_too_long_is_asked_for(command: str, decision: str) -> None:
    ask, took = judged("Bash(git push:*)", "ask", command=command, times=20)
    assert (ask, took < SOON) == (decision, True)
    deny, took = judged("Bash(git push:*)", "deny", command=command)
    assert (deny, took < SOON) == ("deny" if command.endswith("push") else decision, True)


def test_a_line_that_is_too_long_is_allowed_by_no_prefix_but_by_the_line_itself() -> None:
    line = "ls;" * MOST_STEPS
    ls = Rule("prefix", "ls")
    begin = time.monotonic()
    assert why_not(line, commands_in(line), [ls]) == "it is too long"
    assert why_not(line, commands_in(line), [ls, Rule("command", line)]) == ""
    assert time.monotonic() - begin < SOON


def test_many_rules_and_many_commands_take_no_longer_than_both_together() -> None:
    rules = [Rule("prefix", f"tool{number}") for number in range(1000)]
    line = ";".join(f"tool999 {number}" for number in range(1500))
    begin = time.monotonic()
    assert why_not(line, commands_in(line), rules) == ""
    assert time.monotonic() - begin < SOON


def test_a_rule_denies_the_very_line_that_it_names_also_if_that_is_more_than_one_command() -> None:
    assert judged("Bash(make && make test)", "deny", command=" make && make test\n")[0] == "deny"
    assert judged("Bash(make && make test)", "deny", command="make && make all")[0] == "allow"


# Paths.

paths = st.lists(st.text("ab*?\\", min_size=1, max_size=2), min_size=1, max_size=4).map(
    lambda parts: "/" + "/".join(parts)
)
signs = st.lists(st.sampled_from(["a", "b", "/", "*", "**", "/**/", "?", "\\*", "\\?"]), max_size=6).map("".join)


def plainly_covered(value: str, below: bool, path: str) -> bool:
    """What a pattern means, sign by sign. It backtracks without bounds."""
    parts = {"**/": "(?:.*/)?", "/**": "(?:/.*)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    split = re.split(r"(\\[*?\\]|(?<=/)\*\*/|/\*\*$|\*\*|\*|\?)", value)
    text = "".join(
        re.escape(part[1:]) if part[:1] == "\\" and len(part) == 2 else parts.get(part, re.escape(part))
        for part in split
    )
    return bool(re.fullmatch(text + ("(?:/.*)?" if below else ""), path, re.DOTALL))


@given(value=signs, path=paths)
def test_a_path_is_covered_as_its_plain_translation_says(value: str, path: str) -> None:
    value = "/a" + re.sub("/+", "/", value).rstrip("/")
    path = "/a" + path
    assert covers(Rule("path", value, effect="deny", tool="Read"), path) == plainly_covered(value, True, path)


@given(path=paths)
def test_a_path_taken_as_it_is_means_itself(path: str) -> None:
    for other in (path, path + "/x", path + "x", path.replace("*", "a"), path.replace("?", "a")):
        assert covers(Rule("path", literal(path), tool="Read"), other) == (other in (path, path + "/x"))
        assert covers(Rule("path", path), other) == (other in (path, path + "/x"))


@pytest.mark.parametrize("path", ["/w/" + "a/b/" * 2046 + "x", "/w/" + "a/b/" * 1000 + "x", "/w/" + "a" * 4000])
@pytest.mark.parametrize(
    "text", ["Read(**/a/**/b/**/*.pem)", "Read(**?**?**?**?**?**?**?**?**?**?**?**?.x)", f"Read({'*a' * 400}/b)"]
)
def test_no_pattern_and_path_take_long(text: str, path: str) -> None:
    for effect in ("deny", "ask", "allow"):
        decision, took = judged(text, effect, path=path)
        assert took < SOON
        assert decision == {"deny": "deny", "ask": "ask", "allow": "ask"}[effect] if len(path) > MOST_PATH else "allow"


def test_a_path_that_nothing_can_open_is_allowed_by_no_rule_and_stopped_by_each() -> None:
    path = "/w/" + "a/" * MOST_PATH
    decisions = [judged("Read(src/**)", effect, path=path)[0] for effect in ("allow", "ask", "deny")]
    assert decisions == ["ask", "ask", "deny"]


# A workspace's own name.


@pytest.mark.parametrize("workspace", ["/home/me/a*b", "/home/me/a?b", "/home/me/**", "/home/me/a\\*b"])
def test_signs_in_the_name_of_the_workspace_are_no_pattern(workspace: str) -> None:
    other = re.sub(r"\*+|\?", "x", workspace)
    for text in ("Edit(src/**)", "Edit(/src/**)", "Edit(*.py)", "Edit(src/a.py)", "Edit(./src/*.py)"):
        (rule,) = parse(text, "allow", workspace, "/home/me")
        assert covers(rule, f"{workspace}/src/a.py"), text
        assert not covers(rule, f"{other}/src/a.py"), text
        assert any(covers(one, f"{workspace}/src/a.py") for one in parse(text, "deny", workspace, "/home/me")), text
    (rule,) = parse("Read(~/notes)", "allow", "/w", workspace)
    assert covers(rule, f"{workspace}/notes/a")
    assert not covers(rule, f"{other}/notes/a")


# Bounds.


def test_rules_that_are_too_long_or_too_many_are_refused_with_what_to_do() -> None:
    long = f"Read({'a' * MOST_LENGTH})"
    with pytest.raises(BadRule, match=f"has {len(long)} characters: a rule has at most {MOST_LENGTH}"):
        parse(long, "deny", "/w", "/h")
    assert "use at most" in fault_in(["Read"] * (MOST_RULES + 1))
    with pytest.raises(BadRule, match=f"use at most {MOST_RULES}"):
        rules_in({"deny": ["Read"] * MOST_RULES, "ask": ["Edit"]}, "/w", "/h")
