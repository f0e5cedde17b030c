"""The TypeScript compiler accepts our types and what our engine writes, and a host that is written with them works."""

import json
import os
import pty
import re
import select
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from bench.peers import installed

from conversations import CONVERSATIONS
from dialects import everything
from dialects.pair import Pair, env
from engine_process import PATIENCE, Place, launcher
from polylect import plug
from polylect.dialects.base import Dialect

pytestmark = pytest.mark.interop
ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "native_host.mts"
TYPES = sorted((ROOT / "schemas").glob("*.d.ts"))
STRICT = {
    "strict": True,
    "noUncheckedIndexedAccess": True,
    "exactOptionalPropertyTypes": True,
    "noImplicitReturns": True,
    "erasableSyntaxOnly": True,
    "verbatimModuleSyntax": True,
    "allowImportingTsExtensions": False,
    "rewriteRelativeImportExtensions": True,
    "module": "nodenext",
    "target": "es2022",
}
"""Stricter than --strict; and only what node can leave out, so that it runs the example without a compiler."""
WRITES = """
[[reply]]
when.step = 1
say = [{ call = "Write", id = "c1", args = { file_path = "made.txt", content = "x" } }]

[[reply]]
text = "done"
"""
WAITS = """
[[reply]]
when.step = 1
say = [{ call = "Bash", id = "c1", args = { command = "echo begun > begun; sleep 600" } }]
"""


def lines_of(dialect: Dialect, version: str) -> Iterator[tuple[str, bytes]]:
    """What both ends of a wire write, by the name of its union."""
    for conversation in CONVERSATIONS.values():
        pair = Pair(dialect, version)
        pair.play(conversation)
        yield from (("Event", line) for line in pair.to_host.splitlines())
        yield from (("Command", line) for line in pair.to_engine.splitlines())
    if dialect.name == "native":
        engine, host = dialect.engine_side(env()), dialect.host_side(env())
        for event in everything.EVENTS:
            engine.send(event)
        for command in everything.COMMANDS:
            host.send(command)
        yield from (("Event", line) for line in engine.data_to_send().splitlines())
        yield from (("Command", line) for line in host.data_to_send().splitlines())


def samples(types: str, lines: Iterable[tuple[str, bytes]]) -> str:
    """A module in which every line is a constant of its type."""
    text = [f'import type {{ Command, Event }} from "{ROOT / "schemas" / types}";']
    text += [
        f"const _{number}: {union} = {line.decode()};" for number, (union, line) in enumerate(dict.fromkeys(lines))
    ]
    return "\n".join([*text, "export {};", ""])


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example as JavaScript. Everything else is compiled with it, because the compiler needs five seconds."""
    folder = tmp_path_factory.mktemp("typescript")
    native, stream = (plug.load("dialects", name).DIALECT for name in ("native", "jsonstream"))
    wires = {"native": (native, "1"), "jsonstream": (stream, "0.2.0"), "jsonstream-0.1.0": (stream, "0.1.0")}
    assert {path.name for path in TYPES} == {f"{name}.d.ts" for name in wires}
    for name, (dialect, version) in wires.items():
        (folder / f"{name}.mts").write_text(samples(f"{name}.d.ts", lines_of(dialect, version)))
    modules = installed("typescript") / "node_modules"
    options = {**STRICT, "types": ["node"], "typeRoots": [str(modules / "@types")], "rootDir": "/", "outDir": "out"}
    files = [EXAMPLE, ROOT / "tests" / "interop" / "native_types.mts", *TYPES, *folder.glob("*.mts")]
    (folder / "tsconfig.json").write_text(
        json.dumps({"compilerOptions": options, "files": [str(one) for one in files]})
    )
    program = modules / "typescript" / "bin" / "tsc"
    done = subprocess.run(["node", program, "-p", folder], capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    return folder / "out" / EXAMPLE.relative_to("/").with_suffix(".mjs")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path) as place:
        yield place


class Host:
    """The example in a terminal, or without one."""

    def __init__(self, place: Place, script: str, compiled: Path, *words: str, terminal: bool = True) -> None:
        program = place.folder / "bin" / "polylect"
        program.parent.mkdir()
        program.write_text(launcher())
        program.chmod(0o755)
        environment = {**place.env, "PATH": f"{program.parent}{os.pathsep}{place.env['PATH']}"}
        argv = ["node", str(compiled), *words, "go", "--", *place.script(script)]
        self._terminal, inner = pty.openpty()
        self._process = subprocess.Popen(
            ["setsid", "--ctty", "--wait", *argv] if terminal else argv,  # Ctrl-C is for whom the terminal belongs to
            cwd=place.workspace,
            env=environment,
            stdin=inner if terminal else subprocess.DEVNULL,
            stdout=inner,
            stderr=inner,
        )
        os.close(inner)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def wait_for(self, words: str) -> None:
        while words not in self.seen and (more := self._read()):
            self.seen += more
        assert words in self.seen

    def exit_code(self) -> int:
        """All that it printed is in `seen` then."""
        while more := self._read():
            self.seen += more
        os.close(self._terminal)
        return self._process.wait(PATIENCE)

    def _read(self) -> str:
        assert select.select([self._terminal], [], [], PATIENCE)[0], f"nothing more after {self.seen!r}"
        try:
            return os.read(self._terminal, 4096).decode()
        except OSError:  # it has closed its end
            return ""


def test_the_types_are_right_and_the_example_has_at_most_150_lines(compiled: Path) -> None:
    assert compiled.is_file()
    assert len(EXAMPLE.read_text().splitlines()) <= 150
    assert re.findall(r'from "([^"]+)"', compiled.read_text()) == [
        "node:child_process", "node:readline", "node:readline/promises", "node:util",
    ]  # fmt: skip


@pytest.mark.parametrize(("key", "outcome", "made"), [("y\r", "ok", True), ("n\r", "denied", False)])
def test_it_asks_in_the_terminal(place: Place, compiled: Path, key: str, outcome: str, made: bool) -> None:
    host = Host(place, WRITES, compiled)
    host.wait_for("[N]o ")
    host.type(key)
    assert host.exit_code() == 0
    assert f"[Write: {outcome}" in host.seen
    assert "done" in host.seen
    assert (place.workspace / "made.txt").exists() is made


@pytest.mark.parametrize(("words", "made"), [(("--allow", "edit"), True), ((), False)])
def test_a_policy_answers_where_nobody_is(place: Place, compiled: Path, words: tuple[str, ...], made: bool) -> None:
    host = Host(place, WRITES, compiled, *words, terminal=False)
    assert host.exit_code() == 0
    assert "[end, " in host.seen
    assert (place.workspace / "made.txt").exists() is made


def test_ctrl_c_closes_a_question_and_ends_the_turn(place: Place, compiled: Path) -> None:
    host = Host(place, WRITES, compiled)
    host.wait_for("[N]o ")
    host.type("\x03")
    assert host.exit_code() == 130
    assert "[cancelled, " in host.seen
    assert not (place.workspace / "made.txt").exists()


def test_ctrl_c_stops_a_command_that_runs(place: Place, compiled: Path) -> None:
    os.mkfifo(begun := place.workspace / "begun")
    host = Host(place, WAITS, compiled, "--allow", "exec")
    with open(begun) as opened:  # waits until the command opens its end
        opened.read()
    host.type("\x03")
    assert host.exit_code() == 130
    assert "[Bash: cancelled" in host.seen


def test_it_says_why_the_engine_does_not_start(place: Place, compiled: Path) -> None:
    host = Host(place, "nonsense =", compiled)
    assert host.exit_code() in (1, 2)
    assert "polylect: " in host.seen
