"""Rules as people write them, and what they speak of."""

import os
from pathlib import Path

import pytest

from polylect.permissions.gate import ProposedCall, verdict
from polylect.permissions.rulebook import Rulebook, fault_in
from polylect.permissions.rules import BadRule, Effect, parse, split, written
from polylect.vocab.content import Category, Rule

CATEGORIES: dict[str, Category] = {"Read": "info", "Grep": "info", "Edit": "edit", "Write": "edit", "Bash": "exec"}


def decided(texts: str, name: str, effect: Effect = "allow", path: str = "", mcp: str = "", **args: str) -> str:
    """What one rule makes of a call in mode default (or, for denials, in force)."""
    rules = [rule for text in texts.split(" ; ") for rule in parse(text, effect, "/w", "/home/me")]
    touched = (path,) if path else ()
    outside = () if path.startswith("/w/") else touched
    category = CATEGORIES.get(name, "mcp")
    proposed = ProposedCall(name, category, dict(args), outside, touched, mcp)
    return verdict(proposed, "default" if effect == "allow" else "force", (), rules).decision


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("Bash", Rule("tool", "Bash")),
        ("Bash(*)", Rule("tool", "Bash")),
        ("Bash(git log:*)", Rule("prefix", "git log:*", tool="Bash")),
        ("Bash(git log *)", Rule("prefix", "git log *", tool="Bash")),
        ("Bash(npm run build)", Rule("command", "npm run build", tool="Bash")),
        ("Bash(make && make test)", Rule("command", "make && make test", tool="Bash")),
        ("Edit(src/**)", Rule("path", "/w/src/**", tool="Edit")),
        ("Edit(./src/a.py)", Rule("path", "/w/src/a.py", tool="Edit")),
        ("Edit(*.py)", Rule("path", "/w/**/*.py", tool="Edit")),
        ("Read(~/notes/**)", Rule("path", "/home/me/notes/**", write=False, tool="Read")),
        ("Read(//etc/hosts)", Rule("path", "/etc/hosts", write=False, tool="Read")),
        ("Edit(/src/**)", Rule("path", "/w/src/**", tool="Edit")),
        ("Edit(../other/**)", Rule("path", "/other/**", tool="Edit")),
        ("WebFetch(domain:Example.com)", Rule("domain", "example.com", tool="WebFetch")),
        ("mcp__github", Rule("tool", "mcp__github")),
        ("mcp__github__get-issue", Rule("tool", "mcp__github__get-issue")),
    ],
)
def test_a_string_is_read_as_the_rule_it_means(text: str, rule: Rule) -> None:
    assert parse(text, "allow", "/w", "/home/me") == (rule,)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Bash(",
        "Bash()",
        "Bash( )",
        "Read()",
        "(ls)",
        "Bash(ls)x",
        "Bash(git*)",
        "Bash(git * main)",
        "Bash(* --help:*)",
        "Bash($x:*)",
        "WebFetch(domain:a b)",
        "mcp__a(b)",
    ],
)
def test_a_string_that_could_be_misread_is_refused_with_what_to_write_instead(text: str) -> None:
    with pytest.raises(BadRule):
        parse(text, "allow", "/w", "/home/me")
    assert repr(text) in fault_in(["Bash", text])


def test_rules_in_a_row_are_parted_outside_parentheses() -> None:
    assert split("Bash(git log:*), Edit,Read(a b)  mcp__x") == ["Bash(git log:*)", "Edit", "Read(a b)", "mcp__x"]
    assert split("Bash(echo $(date)),Read") == ["Bash(echo $(date))", "Read"]
    assert split("") == []


@pytest.mark.parametrize("text", ["Bash(ls", "Bash(curl, Read", "Bash(", "Bash(a))", "Read Bash)"])
def test_rules_in_a_row_whose_parentheses_do_not_match_are_refused_and_none_is_taken_for_a_wider_one(text: str) -> None:
    with pytest.raises(BadRule):
        split(text)


@pytest.mark.parametrize(
    ("text", "name", "path", "decision"),
    [
        ("Edit(src/**)", "Edit", "/w/src/a/b.py", "allow"),
        ("Edit(src/**)", "Write", "/w/src/a.py", "allow"),
        ("Edit(src/**)", "Edit", "/w/src2/a.py", "ask"),
        ("Edit(src/**)", "Edit", "/src/a.py", "ask"),
        ("Edit(src/**)", "Read", "/w/src/a.py", "ask"),
        ("Edit(src/**)", "Bash", "/w/src/a.py", "ask"),
        ("Write(src/**)", "Edit", "/w/src/a.py", "ask"),
        ("Edit(src)", "Edit", "/w/src/a.py", "allow"),
        ("Edit(src/*)", "Edit", "/w/src/a.py", "allow"),
        ("Edit(src/*)", "Edit", "/w/src/a/b.py", "ask"),
        ("Edit(src/?.py)", "Edit", "/w/src/a.py", "allow"),
        ("Edit(src/?.py)", "Edit", "/w/src/aa.py", "ask"),
        ("Edit(*.py)", "Edit", "/w/a/b/c.py", "allow"),
        ("Edit(*.py)", "Edit", "/w/c.py", "allow"),
        ("Edit(*.py)", "Edit", "/home/c.py", "ask"),
        ("Edit(app/[id]/page.ts)", "Edit", "/w/app/[id]/page.ts", "allow"),
        ("Read(~/notes/**)", "Read", "/home/me/notes/a", "allow"),
        ("Read(~/notes/**)", "Grep", "/home/me/notes", "allow"),
        ("Read(~/notes/**)", "Edit", "/home/me/notes/a", "ask"),
        ("Read(~/notes/**)", "Read", "/home/you/notes/a", "ask"),
        ("Edit(/etc/**)", "Edit", "/etc/passwd", "ask"),
        ("Edit(//etc/**)", "Edit", "/etc/passwd", "allow"),
        ("Edit(/w/src/**)", "Edit", "/w/src/a", "allow"),
    ],
)
def test_a_path_allows_its_tools_what_lies_there_and_nothing_else(
    text: str, name: str, path: str, decision: str
) -> None:
    assert decided(text, name, path=path) == decision


@pytest.mark.parametrize(
    ("text", "name", "path", "decision"),
    [
        ("Read(.env)", "Read", "/w/deep/.env", "deny"),
        ("Read(.env)", "Edit", "/w/.env", "deny"),  # an edit shows what it changes
        ("Read(.env)", "Read", "/w/.envrc", "allow"),
        ("Edit(.env)", "Read", "/w/.env", "allow"),
        ("Read(secrets/*)", "Read", "/w/secrets/a/b", "deny"),
        ("Read(/etc/**)", "Read", "/etc/passwd", "deny"),
        ("Read(/etc/**)", "Read", "/w/etc/x", "deny"),
        ("Edit", "Edit", "/w/a", "deny"),
        ("Edit", "Write", "/w/a", "allow"),
    ],
)
def test_a_denied_path_is_denied_in_every_reading_also_in_force(text: str, name: str, path: str, decision: str) -> None:
    assert decided(text, name, "deny", path=path) == decision


def test_a_denied_link_is_denied_where_it_leads(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    for text in ("Read(link)", "Read(link/**)", "Read(link/*.key)"):
        rules = parse(text, "deny", os.path.realpath(tmp_path), "/home/me")
        proposed = ProposedCall("Read", "info", {}, (), (f"{os.path.realpath(real)}/a.key",))
        assert verdict(proposed, "force", (), rules).decision == "deny"
        assert all("real" not in rule.value for rule in parse(text, "allow", str(tmp_path), "/home/me"))


@pytest.mark.parametrize(
    ("text", "url", "decision"),
    [
        ("WebFetch(domain:example.com)", "https://example.com/a", "allow"),
        ("WebFetch(domain:example.com)", "http://EXAMPLE.com:80?a", "allow"),
        ("WebFetch(domain:example.com)", "https://www.example.com/", "ask"),
        ("WebFetch(domain:*.example.com)", "https://a.b.example.com/", "allow"),
        ("WebFetch(domain:*.example.com)", "https://example.com/", "ask"),
        ("WebFetch(domain:example.com)", "https://badexample.com/", "ask"),
        ("WebFetch(domain:example.com)", "https://example.com.evil.org/", "ask"),
        ("WebFetch(domain:example.com)", "https://example.com@evil.org/", "ask"),
        ("WebFetch(domain:example.com)", "https://evil.org#@example.com/", "ask"),
        ("WebFetch(domain:example.com)", "https://evil.org\\@example.com/", "ask"),
        ("WebFetch(domain:example.com)", "https://example.com\\@evil.org/", "ask"),
        ("WebFetch(domain:example.com)", "file://example.com/etc/passwd", "ask"),
    ],
)
def test_a_domain_is_the_whole_host_of_an_address_that_all_read_the_same(text: str, url: str, decision: str) -> None:
    assert decided(text, "WebFetch", url=url) == decision


def test_a_denied_domain_takes_its_subdomains_along_and_a_strange_address_is_asked_for() -> None:
    assert decided("WebFetch(domain:evil.org)", "WebFetch", "deny", url="https://a.evil.org/") == "deny"
    assert decided("WebFetch(domain:evil.org)", "WebFetch", "deny", url="https://x@evil.org/") == "ask"
    assert decided("WebFetch(domain:evil.org)", "WebFetch", "deny", url="https://good.org/") == "allow"


@pytest.mark.parametrize(
    ("text", "name", "long", "decision"),
    [
        ("mcp__github", "mcp__github__get", "", "allow"),
        ("mcp__github__*", "mcp__github__get", "", "allow"),
        ("mcp__github__get", "get", "mcp__github__get", "allow"),
        ("mcp__github", "get", "mcp__github__get", "allow"),
        ("mcp__github", "mcp__github2__get", "", "ask"),
        ("mcp__github__get", "mcp__github__get_all", "", "ask"),
        ("mcp__github__get", "mcp__github__get__x", "", "ask"),
        ("mcp__", "mcp__github__get", "", "ask"),
    ],
)
def test_a_server_is_named_as_a_whole_or_tool_by_tool(text: str, name: str, long: str, decision: str) -> None:
    assert decided(text, name, mcp=long) == decision


@pytest.mark.parametrize(
    ("rules", "command", "decision"),
    [
        ("Bash(npm run build)", "npm run build", "allow"),
        ("Bash(npm run build)", "npm run build --watch", "ask"),
        ("Bash(npm run build:*)", "npm run build --watch", "allow"),
        ("Bash(npm run build:prod)", "npm run build evil", "ask"),
        ("Bash(make > out)", "make > out", "allow"),
        ("Bash(make > out)", "make > out2", "ask"),
        ("Bash(sudo:*)", "sudo rm", "ask"),
        ("Bash(sudo apt-get update)", "sudo apt-get update", "allow"),
        ("Bash(sudo apt-get:*)", "sudo apt-get install x", "ask"),
        ("Bash(env:*)", "env rm", "ask"),
        ("Bash(xargs:*)", "xargs rm", "ask"),
        ("Bash(bash:*)", "bash -c rm", "ask"),
        ("Bash(eval:*)", "eval rm", "ask"),
        ("Bash(/usr/bin/env:*)", "/usr/bin/env rm", "ask"),
        ("Bash(find:*)", "find . -name x", "allow"),
        ("Bash(find:*)", "find . -exec rm {} +", "ask"),
        ("Bash(find:*)", "find . -delete", "ask"),
        ("Bash(find:*)", "find $x", "ask"),
        ("Bash(find:*)", "find *", "ask"),
        ("Bash(printf:*)", "printf -v 'a[$(rm x)]' b", "ask"),
        ("Bash(printf:*)", "printf %s a", "allow"),
        ("Bash(git log:*) ; Bash(head:*)", "git log | head -3", "allow"),
        ("Bash(git log:*) ; Bash(head:*)", "git log | tail -3", "ask"),
    ],
)
def test_a_command_is_allowed_in_all_its_parts_and_what_runs_others_only_exactly(
    rules: str, command: str, decision: str
) -> None:
    assert decided(rules, "Bash", command=command) == decision


@pytest.mark.parametrize(
    ("command", "decision"),
    [
        ("git push", "deny"),
        ("git push origin", "deny"),
        ("git -C dir --no-pager push", "deny"),
        ("/usr/bin/git push", "deny"),
        ("\\git 'push'", "deny"),
        ("ls; (git push) &", "deny"),
        ("echo $(git push)", "deny"),
        ("X=1 git push > log", "deny"),
        ("for x in a; do git push; done", "deny"),
        ("sudo -u me git push", "deny"),
        ("bash -c 'ls && git push'", "deny"),
        ("find . -exec git push \\;", "deny"),
        ("git $x", "ask"),
        ("$git push", "ask"),
        ("f() { git push; }", "ask"),
        ("git pushy", "allow"),
        ("git log push", "allow"),
        ("echo git push", "allow"),
        ("git commit -m 'git push'", "allow"),
        ("[[ -f a ]] && git log", "allow"),
    ],
)
def test_a_denied_command_is_found_wherever_it_stands_also_in_force(command: str, decision: str) -> None:
    assert decided("Bash(git push:*)", "Bash", "deny", command=command) == decision


def test_a_rule_is_shown_as_it_is_written() -> None:
    for text in ("Bash", "Bash(git log:*)", "Bash(make all)", "Edit(//w/src/**)", "WebFetch(domain:a.b)", "mcp__x"):
        assert written(parse(text, "allow", "/w", "/home/me")[0]) == text
    assert written(Rule("category", "exec")) == "category exec"
    assert written(Rule("prefix", "git log *")) == "Bash(git log:*)"


def test_grants_expire_are_replaced_by_their_id_and_taken_back_but_not_what_was_there_from_the_start() -> None:
    now = [1.0]
    fixed, one, two = Rule("tool", "A"), Rule("tool", "B"), Rule("tool", "C")
    book = Rulebook([fixed], lambda: now[0])
    book.add(one, "g1", until_ms=2000)
    book.add(one, "g1", until_ms=2000)
    book.add(two)
    book.add(two)
    assert list(book) == [fixed, one, two]
    now[0] = 2.0
    assert list(book) == [fixed, two]
    assert [book.revoke(two), book.revoke(two), book.revoke(fixed), book.revoke(id="g1")] == [True, False, False, False]
    book.add(one, "g2")
    assert book.revoke(id="g2")
    assert list(book) == [fixed]


def test_a_granted_path_is_the_real_one_at_that_time_whatever_becomes_a_link_later(tmp_path: Path) -> None:
    real, link = Path(os.path.realpath(tmp_path)) / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to("real")
    book, rule = Rulebook(), Rule("path", str(link))
    book.add(rule)
    link.unlink()
    link.symlink_to("/")
    assert [rule.value for rule in book] == [str(real)]
    assert book.revoke(rule)
    assert list(book) == []
