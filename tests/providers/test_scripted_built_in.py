"""The built-in script does something a newcomer understands, for any prompt in any workspace."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from polylect.providers.scripted import Scripted, open_provider
from polylect.providers.settings import ProviderSettings
from polylect.vocab.content import Block, Message, Outcome, Text, ToolCall, ToolResult
from polylect.vocab.ports import BlockDone, ModelRequest, ReplyDone, TextChunk

SAMPLE = Path(__file__).parents[2] / "examples" / "sample-project"


class Conversation:
    """The smallest engine there can be: files and processes are real, approval is a set of refused tools."""

    def __init__(self, workspace: Path, refused: tuple[str, ...] = ()) -> None:
        self.workspace = workspace
        self.refused = refused
        self.model = open_provider(ProviderSettings())
        self.messages: list[Message] = []

    def prompt(self, text: str) -> list[str]:
        """The calls of the turn, as `Name outcome`."""
        self.messages.append(Message("user", (Text(text),)))
        done: list[str] = []
        for _ in range(10):
            blocks = asyncio.run(_reply(self.model, self.messages))
            self.messages.append(Message("assistant", blocks))
            results = tuple(self.run(block) for block in blocks if isinstance(block, ToolCall))
            if not results:
                return done
            self.messages.append(Message("tool", results))
            done += [f"{result.name} {result.outcome}" for result in results]
        raise AssertionError("the turn does not end")

    @property
    def last_text(self) -> str:
        return "".join(block.text for block in self.messages[-1].content if isinstance(block, Text))

    def call(self, name: str) -> ToolCall:
        calls = [b for m in self.messages for b in m.content if isinstance(b, ToolCall) and b.name == name]
        return calls[-1]

    def run(self, call: ToolCall) -> ToolResult:
        if call.name in self.refused:
            return ToolResult(call.call, call.name, "The user refused.", "denied")
        outcome, output = TOOLS[call.name](self.workspace, **call.args)
        return ToolResult(call.call, call.name, output, outcome)


async def _reply(model: Scripted, messages: list[Message]) -> tuple[Block, ...]:
    events = [event async for batch in model.stream(ModelRequest("m", "s", messages)) for event in batch]
    assert isinstance(events[-1], ReplyDone)
    assert events[-1].usage.input > 0
    assert events[-1].usage.cost == 0.0
    return tuple(event.block for event in events if isinstance(event, BlockDone))


def _glob(workspace: Path, pattern: str) -> tuple[Outcome, str]:
    actual = sorted(str(path.relative_to(workspace)) for path in workspace.glob(pattern) if path.is_file())
    return "ok", "\n".join(actual) or "No files matched the pattern"


def _read(workspace: Path, file_path: str) -> tuple[Outcome, str]:
    lines = (workspace / file_path).read_text().splitlines()
    return "ok", "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines, 1))


def _write(workspace: Path, file_path: str, content: str) -> tuple[Outcome, str]:
    (workspace / file_path).write_text(content)
    return "ok", f"Created {file_path}"


def _edit(workspace: Path, file_path: str, old_string: str, new_string: str) -> tuple[Outcome, str]:
    text = (workspace / file_path).read_text()
    if text.count(old_string) != 1:
        return "error", f"{text.count(old_string)} matches"
    (workspace / file_path).write_text(text.replace(old_string, new_string))
    return "ok", f"Edited {file_path}"


def _bash(workspace: Path, command: str) -> tuple[Outcome, str]:
    done = subprocess.run(["sh", "-c", command], cwd=workspace, capture_output=True, text=True, check=False)
    output = f"Exit code: {done.returncode}\nSTDOUT:\n{done.stdout}\nSTDERR:\n{done.stderr}"
    return "error" if done.returncode else "ok", output


TOOLS: dict[str, Callable[..., tuple[Outcome, str]]] = {
    "Glob": _glob,
    "Read": _read,
    "Write": _write,
    "Edit": _edit,
    "Bash": _bash,
}


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / "sample", ignore=shutil.ignore_patterns("__pycache__")))


def _tests_pass(workspace: Path) -> bool:
    done = subprocess.run([sys.executable, "-m", "unittest"], cwd=workspace, capture_output=True, check=False)
    return done.returncode == 0


@pytest.mark.parametrize("prompt", ["Hello", "hi!", " Hey there. ", "Good morning"])
def test_a_greeting_is_answered_in_chunks_and_without_tools(prompt: str, tmp_path: Path) -> None:
    talk = Conversation(tmp_path)
    assert talk.prompt(prompt) == []
    assert talk.last_text == "Hi! How can I help?"


def test_text_comes_in_several_small_chunks(tmp_path: Path) -> None:
    async def chunks() -> list[str]:
        request = ModelRequest("m", "", [Message("user", (Text("fix it"),))])
        stream = open_provider(ProviderSettings()).stream(request)
        return [event.text async for batch in stream for event in batch if isinstance(event, TextChunk)]

    assert asyncio.run(chunks())[:4] == ["I ", "am ", "polylect's ", "built-in "]


def test_in_the_sample_project_it_mends_the_bug_and_the_tests_pass(sample: Path) -> None:
    assert not _tests_pass(sample)
    talk = Conversation(sample)
    assert talk.prompt("Fix the failing test") == ["Glob ok", "Read ok", "Edit ok", "Bash ok"]
    assert _tests_pass(sample)
    assert talk.last_text.startswith("The tests pass.")
    assert "- Edit shelf/pages.py: ok\n- Bash python3 -m unittest: ok" in talk.last_text
    assert talk.prompt("And again") == ["Glob ok", "Read ok", "Bash ok"]


def test_in_the_sample_project_a_refused_edit_leaves_the_bug_and_says_so(sample: Path) -> None:
    talk = Conversation(sample, refused=("Edit",))
    assert talk.prompt("Fix it") == ["Glob ok", "Read ok", "Edit denied", "Bash error"]
    assert talk.last_text.startswith("The tests do not pass.")
    assert "- Edit shelf/pages.py: denied" in talk.last_text


def test_in_any_other_workspace_it_takes_notes_and_touches_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1\n")
    (tmp_path / "README.md").write_text("one\ntwo\n")
    talk = Conversation(tmp_path)
    assert talk.prompt("Do something") == ["Glob ok", "Read ok", "Write ok", "Bash ok", "Edit ok"]
    notes = (tmp_path / "polylect-notes.md").read_text()
    assert notes.startswith("# Notes")
    assert "- [x] read README.md\n- [x] count its lines: 2\n" in notes
    assert (tmp_path / "README.md").read_text() == "one\ntwo\n"
    assert "- Write polylect-notes.md: ok" in talk.last_text


def test_on_a_second_visit_it_edits_its_notes(tmp_path: Path) -> None:
    (tmp_path / "main.rs").write_text("fn main() {}\n")
    Conversation(tmp_path).prompt("x")
    again = Conversation(tmp_path)
    for visits in ("||", "|||"):
        assert again.prompt("Tell me more") == ["Glob ok", "Read ok", "Edit ok", "Bash ok"]
        assert f"Visits: {visits}\n" in (tmp_path / "polylect-notes.md").read_text()


def test_in_an_empty_folder_it_proposes_a_first_file(tmp_path: Path) -> None:
    assert Conversation(tmp_path).prompt("x") == ["Glob ok", "Write ok", "Bash ok"]
    assert [path.name for path in tmp_path.iterdir()] == ["polylect-notes.md"]


@pytest.mark.parametrize("refused", ["Glob", "Read", "Write", "Edit", "Bash"])
def test_whatever_is_refused_is_left_alone_and_named_at_the_end(refused: str, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("one\n")
    talk = Conversation(tmp_path, refused=(refused,))
    assert f"{refused} denied" in talk.prompt("x")
    assert talk.last_text.endswith("What was denied is untouched.")
    assert f"- {refused} " in talk.last_text
    assert (tmp_path / "polylect-notes.md").exists() == (refused in ("Edit", "Bash"))


def test_file_names_cannot_become_commands(tmp_path: Path) -> None:
    for name in ("README; touch evil", "$(touch evil).py", "-rf.py", "a b.md", "`touch evil`.txt"):
        (tmp_path / name).write_text("x\n")
    talk = Conversation(tmp_path)
    talk.prompt("x")
    assert talk.call("Bash").args == {"command": "ls -la"}
    assert not (tmp_path / "evil").exists()


def test_the_prompt_never_reaches_a_command(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("one\n")
    talk = Conversation(tmp_path)
    talk.prompt("{args.file_path} {match.1}; touch evil")
    assert talk.call("Bash").args == {"command": "wc -l README.md"}
