"""Lines that rules allow are run in a real bash, which may do nothing that was not allowed (A4).

`POLYLECT_ATTACK_TRIES` says how many made-up lines are tried; `make attack` tries 100 000.
"""

import random
import shutil
import subprocess
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from attacks.test_deafness import call, step
from attacks.tries import tries
from engine_process import Place, message
from machine import PATIENCE
from polylect.permissions.command_rules import commands_in, why_not
from polylect.permissions.rules import parse

BASH = shutil.which("bash") or ""
SORT = shutil.which("sort") or ""
TRIES = tries(160)
SHARDS = max(4, TRIES // 2000)
"""Tests that share the tries: each has to end in the time that a test may take."""
pytestmark = pytest.mark.skipif(not BASH, reason="there is no bash")

NAMES = ("good", "evil", "fine", "go", "od", "ev", "il", "a", "x", "END", "goodevil", "1", "b", "id", "f")
OURS = {"good", "fine", "go", "build.sh"}
STUB = '#!/bin/sh\necho "$0" >> "$LOG"\n'
TEXTS = (
    *("Bash(good:*)", "Bash(fine b:*)", "Bash(go od:*)", "Bash(./build.sh)", "Bash(printf:*)", "Bash(sort:*)"),
    *("Bash(test:*)", "Bash(wait:*)", "Bash(jobs:*)", "Bash(echo:*)"),
)
RULES = [rule for text in TEXTS for rule in parse(text, "allow", "/w", "/h")]
STRANGE = ("\r", "\u00a0", "\u3000", "\x1f", "\x0b", "\x0c", "\x85", "\u2028", "\u200b")
"""White space to Python or to the eye, and part of a name to bash."""


class Shell:
    """A real bash in which programs only note that they were run. Its folder is a trap: it holds programs of other
    names, and folders with programs that are found if `PATH` is changed."""

    def __init__(self, folder: Path) -> None:
        self.programs, self.home, self.log = folder / "programs", folder / "home", folder / "log"
        for name in NAMES:
            self._program(self.programs / name)
        (self.programs / "sort").symlink_to(SORT)
        for strange in ("", *STRANGE):
            self._program(self.home / f"build.sh{strange}")
        for number in range(10):
            self._program(self.home / str(number) / "good")
        self._own = {path.name for path in self.home.iterdir()}

    def _program(self, path: Path) -> None:
        path.parent.mkdir(exist_ok=True)
        path.write_text(STUB)
        path.chmod(0o755)

    def runs(self, line: str) -> tuple[set[str], set[str]]:
        """The programs that ran, those that were not meant by their path; and the files that were made."""
        self.log.write_text("")
        env = {"PATH": str(self.programs), "LOG": str(self.log), "HOME": str(self.home), "x": "evil"}
        subprocess.run(
            [BASH, "-c", line],
            cwd=self.home,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
        made = {path.name for path in self.home.iterdir()} - self._own
        for name in made:
            (self.home / name).unlink()
        return {self._named(path) for path in self.log.read_bytes().decode().split("\n") if path}, made

    def _named(self, path: str) -> str:
        return path.removeprefix(f"{self.programs}/").removeprefix("./")


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return Shell(tmp_path_factory.mktemp("shell"))


def allowed(line: str) -> bool:
    return not why_not(line, commands_in(line), RULES)


PIECES = [
    *(
        "good",
        "good a",
        "evil",
        "evil",
        "fine b",
        "go",
        "od",
        "ev",
        "il",
        "x=1",
        "1",
        "a",
        "END",
        "x",
        "in",
        "do",
        "done",
    ),
    *(" ", " ", " ", " ", "\n", "\n", "\t", ";", "&&", "||", "|", "&", "|&", "; ", " && ", " | "),
    *(
        "(",
        ")",
        "{ ",
        "; }",
        "}",
        "$(",
        "`",
        "<(",
        ">(",
        "((",
        "))",
        "${x}",
        "$x",
        "${x:-",
        "$((",
        "<<END\n",
        "\nEND\n",
    ),
    *(
        "'",
        '"',
        "\\",
        "\\\n",
        " \\\n",
        "$'",
        '$"',
        "#",
        " #",
        "!",
        "! ",
        "<",
        ">",
        ">&",
        "2>&1",
        "<<<",
        "<<'END'\n",
        "*",
    ),
    *(
        "if ",
        "then ",
        "fi",
        "case x in x) ",
        ";;",
        " esac",
        "[[ ",
        " ]]",
        "~",
        "?",
        "=",
        ",",
        "{",
        "eval ",
        "-",
    ),
    *(
        "good $(",
        "good `",
        'good "',
        "good '",
        "$(good)",
        "`good`",
        "<(good)",
        "(good)",
        "good; good",
        "'evil'",
        "$(evil)",
    ),
    *("%n", "%5n", " PATH", "-o", "-v", "o", "u", "--out", "--output=f", "--comp", " f", "-x ", "-p", "-np x"),
    *("printf ", "sort ", "test ", "[ ", " ]", "jobs ", "wait ", "./build.sh", "\\", *STRANGE),
]
SEEDS = [
    "good",
    "good a | fine b && good; good &",
    'good $(good a) "$(good)" `good` <(good)',
    "good <<END\na $(good) b\nEND\ngood",
    "good <<'END'\n$(evil)\nEND\n",
    "good \"a $x b\" 'evil' \\\\ $'evil'",
    "if good; then good; else fine b; fi",
    "case x in x) good;; evil) good;; esac # evil",
    "(good; good) | { good; } 2>&1 >/dev/null",
    'good <<<"$(good)" <<<a',
    "good \\\n a ${x:-evil} $((1+2)) # evil\ngood",
    "good \"$(good <<'END'\nit's ) evil\nEND\n)\"",
    "printf %s aaaaa PATH; good",
    "sort -u -k 1 build.sh | good",
    "test -f a && [ a = b ] || good",
    "wait -n x; jobs -l x; good",
    "./build.sh",
]


def lines(seed: int) -> Iterator[str]:
    """Lines that are allowed, made from good ones by putting pieces in and taking some out."""
    chance = random.Random(seed)
    while True:
        line = chance.choice(SEEDS)
        for _ in range(chance.randint(1, 4)):
            begin = chance.randint(0, len(line))
            line = line[:begin] + chance.choice(["", *PIECES]) + line[begin + chance.choice((0, 0, 0, 1, 3)) :]
        if allowed(line):
            yield line


@pytest.mark.parametrize("shard", range(SHARDS))
def test_bash_does_nothing_of_an_allowed_line_that_was_not_allowed(shell: Shell, shard: int) -> None:
    for line in islice(lines(seed=shard), TRIES // SHARDS):
        ran, made = shell.runs(line)
        assert ran <= OURS, repr(line)
        assert not made, repr(line)


@pytest.mark.parametrize(
    "line",
    [
        "good\ngood $(good a) \"`good`\" 'evil' \\evil",
        "good <<END\n$(good) evil\nEND\ngood",
        "if good; then good; fi && (good; good) | { good; }",
        "case x in x) good;; esac # evil",
        "! fine b evil <(good) 2>/dev/null &",
        " ./build.sh\n",
        "sort -ur build.sh | good -o",
        "printf '%s%%\\n' a; test -n a; good",
    ],
)
def test_what_is_allowed_is_not_only_what_is_trivial(shell: Shell, line: str) -> None:
    assert allowed(line)
    ran, made = shell.runs(line)
    assert ran & OURS
    assert ran <= OURS
    assert not made


@pytest.mark.parametrize("strange", STRANGE)
def test_an_exact_rule_is_for_exactly_that_command(shell: Shell, strange: str) -> None:
    line = f"./build.sh{strange}"
    assert shell.runs(line)[0] == {f"build.sh{strange}"}
    assert not allowed(line)
    assert not allowed(strange + "./build.sh")
    assert allowed("./build.sh \t\n")


def test_a_blank_after_a_backslash_is_part_of_the_command() -> None:
    (rule,) = parse("Bash(./a\\)", "allow", "/w", "/h")
    assert why_not("./a\\ ", commands_in("./a\\ "), [rule])


@pytest.mark.parametrize(
    "line",
    [
        "printf 'aaaaa%n' PATH; good",
        "printf '%s%5n' aaaaa PATH; good",
        "printf -v PATH 5; good",
        "printf -vPATH 5; good",
    ],
)
def test_what_sets_a_variable_is_asked_for(shell: Shell, line: str) -> None:
    assert shell.runs(line)[0] == {"5/good"}
    assert not allowed(line)


@pytest.mark.parametrize("line", ["jobs -x evil", "jobs -x evil a", "jobs; jobs -x evil"])
def test_what_runs_another_command_is_asked_for(shell: Shell, line: str) -> None:
    assert "evil" in shell.runs(line)[0]
    assert not allowed(line)


@pytest.mark.parametrize("flags", ["-p x", "-np x", "-fnp x", "-px"])
def test_wait_that_sets_a_variable_is_asked_for(flags: str) -> None:
    assert not allowed(f"wait {flags}")


OUTPUT = ["--output"[:size] + "=f" for size in range(3, 9)] + ["--output"[:size] + " f" for size in range(3, 9)]


@pytest.mark.parametrize("flags", [*OUTPUT, "-o f", "-of", "-uo f", "-ruof", "-uro f"])
def test_sort_that_writes_a_file_is_asked_for(shell: Shell, flags: str) -> None:
    line = f"sort {flags} build.sh"
    assert shell.runs(line)[1] == {"f"}
    assert not allowed(line)


@pytest.mark.parametrize("flags", ["--compress-program=evil", "--comp=evil", "-uT .", "--temp=."])
def test_sort_that_runs_or_writes_on_the_way_is_asked_for(flags: str) -> None:
    assert not allowed(f"sort {flags} build.sh")


# The same with a whole engine.

ALLOWED = ["Bash(printf:*)", "Bash(sort:*)", "Bash(jobs:*)", "Bash(wait:*)", "Bash(ls:*)", "Bash(./build.sh)"]
PASSED_BY = (
    *("printf 'aaaaa%n' PATH; ls", "sort -uo made build.sh", "sort --outp=made build.sh", "jobs -x touch made"),
    *("wait -np x", *(f"./build.sh{strange}" for strange in STRANGE)),
)
"""Lines that were once allowed by rules that do not mean them."""


def test_an_engine_runs_only_the_lines_that_its_rules_mean(tmp_path: Path) -> None:
    with Place(tmp_path) as place:
        place.configure(f"[tools]\nallow = {ALLOWED}\n")
        for name in ("build.sh", *(f"build.sh{strange}" for strange in STRANGE), "5/ls"):
            path = place.workspace / name
            path.parent.mkdir(exist_ok=True)
            path.write_text("#!/bin/sh\necho it ran\n")
            path.chmod(0o755)
        calls = [call("Bash", command=line) for line in ("./build.sh", *PASSED_BY)]
        script = "".join(step(number, one) for number, one in enumerate(calls, 1)) + '[[reply]]\ntext = "done"\n'
        engine = place.started("--approval-mode", "dont_ask", script=script)
        engine.send(message("go"))
        frames = engine.until("stream_end")
        made = (place.workspace / "made").exists()
    judged = [frame["type"] for frame in frames if frame["type"] in ("tool_running", "tool_cancelled")]
    assert (judged, made) == (["tool_running", *["tool_cancelled"] * len(PASSED_BY)], False)
