"""Which calls may run without asking (A4, A7, P2): the whole table."""

import pytest

from polylect.permissions.gate import ProposedCall, verdict
from polylect.permissions.rules import written
from polylect.vocab.content import Category, Mode, Rule
from polylect.vocab.modes import MODES

ALLOW_LIST = ("Read",)
TOOLS: dict[str, Category] = {"Read": "info", "Look": "info", "Edit": "edit", "Bash": "exec", "mcp__x__y": "mcp"}
OUTSIDE = "/etc/passwd"


def decided(
    name: str,
    mode: Mode = "default",
    *rules: Rule,
    outside: str = "",
    category: Category | None = None,
    command: str = "",
) -> str:
    proposed = ProposedCall(name, category or TOOLS[name], {"command": command}, (outside,) if outside else ())
    return verdict(proposed, mode, ALLOW_LIST, rules).decision


RUNS: dict[tuple[Mode, str], set[str]] = {
    ("default", "inside"): {"Read"},
    ("default", "outside"): set(),
    ("auto_edit", "inside"): {"Read", "Look", "Edit"},
    ("auto_edit", "outside"): set(),
    ("force", "inside"): set(TOOLS),
    ("force", "outside"): set(TOOLS),
    ("plan", "inside"): {"Read", "Look"},
    ("plan", "outside"): set(),
    ("dont_ask", "inside"): {"Read"},
    ("dont_ask", "outside"): set(),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("where", ["inside", "outside"])
@pytest.mark.parametrize("name", TOOLS)
def test_A7_P2_a_mode_lets_run_what_the_table_says_and_outside_the_workspace_everything_is_asked_for(
    mode: Mode, where: str, name: str
) -> None:
    refused = mode == "dont_ask" or (mode == "plan" and TOOLS[name] != "info")
    expected = "allow" if name in RUNS[mode, where] else "deny" if refused else "ask"
    assert decided(name, mode, outside=OUTSIDE if where == "outside" else "") == expected


def test_the_reason_says_what_a_person_has_to_know() -> None:
    assert (
        verdict(ProposedCall("Bash", "exec", {}), "default", (), ()).why == "exec calls are asked for in mode default"
    )
    outside = ProposedCall("Read", "info", {}, ("/w/a", OUTSIDE))
    assert verdict(outside, "default", ("Read",), [Rule("path", "/w")]).why == (
        "it touches /etc/passwd, which is outside the workspace"
    )
    command = ProposedCall("Bash", "exec", {"command": "git log > out"})
    assert verdict(command, "default", (), [Rule("prefix", "git log")]).why == (
        "exec calls are asked for in mode default: it writes to out"
    )
    assert verdict(command, "dont_ask", (), ()).why == ("exec calls need approval, and the mode dont_ask denies them")
    assert "nothing can be changed or run" in verdict(command, "plan", ("Bash",), ()).why
    assert verdict(ProposedCall("Bash", "exec", {"command": "ls"}), "default", (), [Rule("tool", "Bash")]).why == (
        "the rule Bash allows it"
    )


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        (Rule("category", "exec"), {"Bash"}),
        (Rule("category", "edit"), {"Edit"}),
        (Rule("category", "info"), {"Look"}),
        (Rule("tool", "Edit"), {"Edit"}),
        (Rule("tool", "mcp__x__y"), {"mcp__x__y"}),
        (Rule("tool", "Ed"), set()),
        (Rule("category", ""), set()),
        (Rule("path", "/"), set()),
        (Rule("category", "exec", effect="ask"), set()),
    ],
)
def test_A4_a_rule_allows_its_category_or_its_tool_and_nothing_beside(rule: Rule, names: set[str]) -> None:
    asks = {name for name in TOOLS if decided(name) == "ask"}
    assert {name for name in asks if decided(name, "default", rule) == "allow"} == names
    assert all(decided(name, "auto_edit", rule, outside=OUTSIDE) == "ask" for name in TOOLS if rule.kind != "path")


GIT = (Rule("prefix", "git log"), Rule("prefix", "git status:*"), Rule("prefix", "cargo *"))


@pytest.mark.parametrize(
    ("command", "decision"),
    [
        ("git log", "allow"),
        ("git log --oneline", "allow"),
        ("git status", "allow"),
        ("cargo test --all", "allow"),
        ("git log && git status", "allow"),
        ("git log; cargo build | cargo fmt\ngit status &", "allow"),
        ("git logs", "ask"),
        ("git log-evil", "ask"),
        ("cargo-evil", "ask"),
        ("git", "ask"),
        ("sudo git log", "ask"),
        ("X=1 git log", "ask"),
        ("git log; rm -rf .", "ask"),
        ("git log && rm -rf .", "ask"),
        ("git log || rm -rf .", "ask"),
        ("git log | sh", "ask"),
        ("git log & rm x", "ask"),
        ("git log\nrm x", "ask"),
        ("git log $(rm x)", "ask"),
        ("git log `rm x`", "ask"),
        ("git log > ~/.bashrc", "ask"),
        ("git log <(rm x)", "ask"),
        ("git log $(git status)", "allow"),
        ("git log > /dev/null 2>&1", "allow"),
        ("git log << END", "ask"),
        ("", "ask"),
        (";;", "ask"),
    ],
)
def test_A4_a_prefix_matches_at_a_word_and_every_part_of_a_chain_must_match(command: str, decision: str) -> None:
    assert decided("Bash", "default", *GIT, command=command) == decision


@pytest.mark.parametrize("value", ["", "*", ":*", " ", "{"])
def test_A4_an_empty_prefix_allows_nothing(value: str) -> None:
    assert decided("Bash", "default", Rule("prefix", value), command="ls") == "ask"


def test_A4_a_prefix_speaks_of_shell_commands_only_and_a_denied_one_allows_nothing() -> None:
    assert decided("mcp__x__y", "default", Rule("prefix", "ls"), command="ls") == "ask"
    assert decided("Edit", "default", Rule("prefix", "ls"), command="ls") == "ask"
    denied = Rule("prefix", "rm", effect="deny")
    assert decided("Bash", "default", denied, command="ls") == "ask"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "rule",
    [
        Rule("category", "exec", effect="deny"),
        Rule("tool", "Bash", effect="deny"),
        Rule("prefix", "rm", effect="deny"),
        Rule("command", "rm x", effect="deny", tool="Bash"),
        Rule("path", "/etc", effect="deny"),
    ],
)
def test_a_deny_rule_wins_over_every_mode_and_every_other_rule(mode: Mode, rule: Rule) -> None:
    allowing = (Rule("category", "exec"), Rule("tool", "Bash"), Rule("prefix", "rm"), Rule("path", "/"))
    proposed = ProposedCall("Bash", "exec", {"command": "rm x"}, (), ("/etc/passwd",))
    judged = verdict(proposed, mode, ("Bash",), [*allowing, rule])
    assert judged.decision == "deny"
    assert judged.why == f"the rule {written(rule)} denies it"


@pytest.mark.parametrize("mode", ["default", "auto_edit", "force"])
def test_an_ask_rule_wins_over_whatever_allows(mode: Mode) -> None:
    allowing = (Rule("tool", "Bash"), Rule("prefix", "git"))
    asking = Rule("prefix", "git push", effect="ask")
    assert decided("Bash", mode, *allowing, asking, command="git push") == "ask"
    assert decided("Bash", mode, *allowing, asking, command="git log") == "allow"


def test_a_rule_for_one_tool_says_nothing_about_another() -> None:
    rule = Rule("prefix", "ls", tool="Bash")
    assert verdict(ProposedCall("Shell", "exec", {"command": "ls"}), "default", (), [rule]).decision == "ask"
    denied = Rule("prefix", "ls", effect="deny", tool="Bash")
    assert verdict(ProposedCall("Shell", "exec", {"command": "ls"}), "force", (), [denied]).decision == "allow"


@pytest.mark.parametrize(
    ("rule", "path", "reads", "edits"),
    [
        (Rule("path", "/data"), "/data/a", True, True),
        (Rule("path", "/data/"), "/data/a", True, True),
        (Rule("path", "/data"), "/data", True, True),
        (Rule("path", "/data", write=False), "/data/a", True, False),
        (Rule("path", "/data"), "/database", False, False),
        (Rule("path", "/data"), "/etc/passwd", False, False),
        (Rule("path", "/"), "/etc/passwd", True, True),
        (Rule("path", ""), "/etc/passwd", False, False),
        (Rule("path", "data"), "/data/a", False, False),
        (Rule("path", "/data", effect="deny"), "/data/a", False, False),
    ],
)
def test_P2_a_path_rule_opens_what_lies_below_it(rule: Rule, path: str, reads: bool, edits: bool) -> None:
    """In auto_edit, where both would run inside the workspace."""
    assert decided("Read", "auto_edit", rule, outside=path) == ("allow" if reads else "ask")
    assert decided("Edit", "auto_edit", rule, outside=path) == ("allow" if edits else "ask")
    assert decided("Edit", "default", rule, outside=path) == "ask"


def test_P2_force_denies_to_change_what_commands_cannot_change_unless_a_rule_opens_it() -> None:
    write = ProposedCall("Write", "edit", {}, (OUTSIDE,), (OUTSIDE,), unwritable=(OUTSIDE,))
    judged = verdict(write, "force", (), ())
    assert judged.decision == "deny"
    assert judged.why.startswith(f"the sandbox does not let commands write {OUTSIDE}, and the mode force asks nobody")
    assert verdict(write, "force", (), [Rule("path", OUTSIDE, write=True)]).decision == "allow"
    read = ProposedCall("Read", "info", {}, (OUTSIDE,), (OUTSIDE,), unwritable=(OUTSIDE,))
    assert verdict(read, "force", (), ()).decision == "allow"


def test_P2_every_path_that_is_touched_has_to_be_open() -> None:
    proposed = ProposedCall("Read", "info", {}, ("/data/a", OUTSIDE))
    assert verdict(proposed, "auto_edit", (), [Rule("path", "/data")]).decision == "ask"
    assert verdict(proposed, "auto_edit", (), [Rule("path", "/data"), Rule("path", "/etc")]).decision == "allow"


def test_a_question_to_the_person_needs_no_permission_to_be_asked_in_any_mode() -> None:
    question = ProposedCall("AskUserQuestion", "info", {"question": "Which?"})
    for mode in MODES:
        assert verdict(question, mode, (), ()).decision == "allow"


@pytest.mark.parametrize("mode", ["default", "auto_edit"])
def test_P2_a_change_of_what_decides_what_runs_later_is_always_asked_for(mode: Mode) -> None:
    hook = ProposedCall("Write", "edit", {}, touched=("/w/.git/hooks/x",), guarded=("/w/.git/hooks/x",))
    judged = verdict(hook, mode, ["Write"], [Rule("category", "edit")])
    assert (judged.decision, judged.why) == ("ask", "it changes /w/.git/hooks/x, which decides what runs later")


def test_A4_a_path_that_was_always_allowed_for_writing_is_not_asked_for_again() -> None:
    edit = ProposedCall("Write", "edit", {}, ("/else/a",), ("/else/a",))
    assert verdict(edit, "default", [], [Rule("path", "/else", write=True)]).decision == "allow"
    assert verdict(edit, "default", [], [Rule("path", "/else", write=False)]).decision == "ask"


def test_an_agent_needs_no_permission_because_its_calls_do() -> None:
    assert decided("Agent", category="exec") == "allow"
    assert decided("Agent", "plan", category="exec") == "deny"
    assert decided("Agent", "default", Rule("tool", "Agent", effect="deny"), category="exec") == "deny"
