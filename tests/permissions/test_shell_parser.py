"""Command lines are read as bash reads them, or not at all. tests/attacks/test_command_lines.py asks bash itself."""

import pytest

from polylect.permissions.command_rules import commands_in
from polylect.permissions.shell_parser import NotUnderstood, read


def commands(line: str) -> list[str]:
    """The commands in a line; a word that the shell would make something else of begins with a question mark."""
    parsed = read(line).commands
    return [" ".join(word.text if word.literal else "?" + word.text for word in one.words) for one in parsed]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("git log", ["git log"]),
        ("  git\tlog \\\n  --oneline # all of it", ["git log --oneline"]),
        ("a && b || c | d |& e; f & g\nh", ["a", "b", "c", "d", "e", "f", "g", "h"]),
        ("a 'b c' \"d e\" f\\ g $'h i' ''", ["a b c d e f g h i "]),
        (r'a "\$b \"c\" \x"', [r'a $b "c" \x']),
        ("'a'\"b\"c", ["abc"]),
        ("a $b ${c} ${d:-e} *.py {f,g} ~/h $((1+2))", ["a ?$b ?${c} ?${d:-e} ?*.py ?{f,g} ?~/h ?$((1+2))"]),
        ("a $(b $(c) `d`)", ["c", "d", "b ?$(c) ?`d`", "a ?$(b $(c) `d`)"]),
        ('a "$(b "c")"', ["b c", 'a ?$(b "c")']),
        ("a <(b) >(c)", ["b", "c", "a ?<(b) ?>(c)"]),
        ("a '$(b)' \"\\$(b)\" \\`b\\`", ["a $(b) $(b) `b`"]),
        ("(a; b) && { c; d; }", ["a", "b", "c", "d"]),
        ("! a | b", ["a", "b"]),
        ("if a; then b; elif c; then d; else e; fi", ["a", "b", "c", "d", "e"]),
        ("while a; do b; done; until c\ndo d\ndone", ["a", "b", "c", "d"]),
        ("for x in a $(b); do c; done", ["b", "c"]),
        ("case $(a) in b|'c') d ;; (e) f;; *) esac", ["a", "d", "f"]),
        ("[[ -f a && $(b) =~ (c|d) ]] && e", ["b", "e"]),
        ("a <<END\n$(b) `c` \\$(d)\nEND\ne", ["b", "c", "a", "e"]),
        ("a <<'END' | b\n$(c)\nEND", ["a", "b"]),
        ("a <<-X <<Y\n\t1\n\tX\n2\nY\nb", ["a", "b"]),
        ("a \"$(b <<'END'\nIt's )\nEND\n)\"", ["b", "a ?$(b <<'END'\nIt's )\nEND\n)"]),
        ('a <<<"$(b)" 2>&1 </dev/null', ["b", "a"]),
        ("echo if then fi }", ["echo if then fi }"]),
        ("a#b #c", ["a#b"]),
    ],
)
def test_every_command_in_a_line_is_found(line: str, expected: list[str]) -> None:
    assert sorted(commands(line)) == sorted(expected)


@pytest.mark.parametrize(
    ("line", "writes"),
    [
        ("a > b", ["b"]),
        ("a >> 'b c' 2> d", ["b c", "d"]),
        ("a &> b", ["b"]),
        ("a &>> b", ["b"]),
        ("a >| b", ["b"]),
        ("a >& b", ["b"]),
        ("a <> b", ["b"]),
        ("> b", ["b"]),
        ("(a) > b", ["b"]),
        ("a > $b", ["a file whose name is not written out"]),
        ("a > /dev/null 2>&1 >&2 2>&- >/dev/stderr", []),
        ("a < b", []),
    ],
)
def test_what_redirections_write_to_is_told(line: str, writes: list[str]) -> None:
    assert read(line).writes == writes


@pytest.mark.parametrize(
    ("line", "doubt"),
    [
        ("A=1 b", "it sets a variable"),
        ("PATH=/tmp", "it sets a variable"),
        ("for PATH in /tmp; do git log; done", "it sets a variable"),
        ("echo $((a))", "it calculates with variables"),
        ("[[ a -eq b ]]", "it has a condition in [[ ]]"),
        ("a < /dev/tcp/host/80", "it is not clear what it reads from"),
        ("a < $b", "it is not clear what it reads from"),
    ],
)
def test_what_is_understood_but_never_simply_allowed_is_a_doubt(line: str, doubt: str) -> None:
    assert read(line).doubts == [doubt]


@pytest.mark.parametrize(
    "line",
    [
        *("", " ", "#", ";", "a;;b", "a &&", "| a", "a | | b", "a & & b", "(a", "a)", "{ a;", "()", "if a; then b"),
        *("'a", '"a', "`a", "$(a", "a <<END\nb", "a <<END", "a <<''\n\n", 'a <<E"N"D\nEND', "a <"),
        *(
            "f() { a; }",
            "function f { a; }",
            "((a))",
            "coproc a",
            "select x in a; do b; done",
            "for ((;;)); do a; done",
        ),
        *("a=(1)", "a[0]=1", "${a@P}", "${!a}", "${a[$(b)]}", "${a:$(b)}", "$[1]", '$"a"', "$'\\''", "`a \\`b\\``"),
        *("g\\\nit", '"$\\\n(b)"', "a &\\\n& b", "a <<END\nb\\\nEND\nc\nEND", "a <<END\nEND2\nEND", "{fd}< a"),
        *("$(a <<END\nb\nEND)\n", "a <<END $(b\n)\nEND\n", "a\rb", "a\0", "a\vb", "a\u00a0b", "a\u2028b", "a\ud800"),
        *("(" * 50 + "a" + ")" * 50, "$(" * 50 + "a" + ")" * 50, "a " * 60_000, "case a in b c) d;; esac", "@(a|b)"),
    ],
)
def test_what_bash_might_read_differently_is_not_understood(line: str) -> None:
    with pytest.raises(NotUnderstood):
        read(line)


def test_no_line_takes_long_or_breaks_the_reader() -> None:
    for piece in ("! ", "(", "{ ", "$(", '"$(', "`", "if ", "a;", "<(", "${a}", "<<a ", "case a in b) "):
        commands_in(piece * 3_000)
