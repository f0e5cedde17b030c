"""The vendor's TypeScript SDK drives polylect, which it takes for the claude program."""

import asyncio
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path
from typing import Any

import pytest

from interop import claude_hosts
from interop.claude_model import WAIT, Model, Step, agent, text, thinking, use

pytestmark = pytest.mark.interop
PINS = Path(os.environ.get("POLYLECT_INTEROP_CLAUDE_NODE") or Path(__file__).parent / "claude_node")
DRIVER = Path(__file__).parent / "claude_driver.mjs"
TOUCH = use("c1", "Bash", command="touch made", description="make it")
MAKE = {"MAKE": [[text("I make it."), TOUCH], [text("That was it.")]]}
Script = dict[str, list[Step]]


@pytest.fixture(scope="session")
def modules() -> Path:
    """Installed once, beside the other peers, without the program of 200 MB that it carries."""
    cache = Path(claude_hosts.PEERS).parent
    digest = hashlib.sha256((PINS / "package-lock.json").read_bytes()).hexdigest()[:16]
    folder = cache / f"claude-node-{digest}"
    with open(cache / "claude-node.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            begun = Path(tempfile.mkdtemp(dir=cache, prefix="begun-"))
            for name in ("package.json", "package-lock.json"):
                shutil.copy(PINS / name, begun)
            how = ("--ignore-scripts", "--legacy-peer-deps", "--omit=optional", "--no-audit", "--no-fund")
            subprocess.run(("npm", "ci", *how), cwd=begun, check=True, stdin=subprocess.DEVNULL)
            begun.rename(folder)
    return folder / "node_modules"


class Heard:
    """What the driver printed."""

    def __init__(self, lines: list[bytes], model: Model, work: Path) -> None:
        actual = [json.loads(line) for line in lines]
        self.messages: list[dict[str, Any]] = [one["message"] for one in actual if "message" in one]
        self.notes: list[list[Any]] = [one["note"] for one in actual if "note" in one]
        self.asked = model.asked
        self.work = work

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.messages if message.get("subtype") == kind or message["type"] == kind]

    def blocks(self, parent: str | None = None) -> list[dict[str, Any]]:
        spoken = [one for one in self.messages if one["type"] in ("assistant", "user")]
        return [block for one in spoken if one["parent_tool_use_id"] == parent for block in one["message"]["content"]]

    def texts(self, parent: str | None = None) -> list[str]:
        return [block["text"] for block in self.blocks(parent) if block["type"] == "text"]

    @property
    def results(self) -> list[tuple[str, Any, bool]]:
        actual = [block for block in self.blocks() if block["type"] == "tool_result"]
        return [(block["tool_use_id"], block["content"], block["is_error"]) for block in actual]

    @property
    def end(self) -> dict[str, Any]:
        return self.of("result")[-1]


def play(place: Path, modules: Path, scene: str, script: Script) -> Heard:
    """The scene of the driver by this name. Nothing may be complained of on stderr."""
    work = place / "work"
    work.mkdir(exist_ok=True)

    async def main(model: Model) -> Heard:
        pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
        node = await asyncio.create_subprocess_exec("node", str(DRIVER), scene, limit=1 << 24, env=os.environ, **pipes)
        env = claude_hosts.env(place, model)
        result = {"modules": str(modules), "cli": str(claude_hosts.link(place)), "cwd": str(work), "env": env}
        try:
            out, _ = await node.communicate(json.dumps(result).encode())
        except asyncio.CancelledError:
            node.kill()
            await node.communicate()
            raise
        return Heard(out.splitlines(), model, work)

    received = claude_hosts.play(script, main)
    assert [words for words in received.notes if words[0] == "stderr"] == []
    return received


def test_a_text_is_asked_and_answered(tmp_path: Path, modules: Path) -> None:
    received = play(tmp_path, modules, "text", {"HELLO": [[thinking("hm"), text("Hi there.")]]})
    assert [message["type"] for message in received.messages] == ["system", "assistant", "assistant", "result"]
    assert [block["type"] for block in received.blocks()] == ["thinking", "text"]
    assert (received.end["subtype"], received.end["result"]) == ("success", "Hi there.")
    assert received.end["session_id"] == str(uuid.UUID(received.end["session_id"]))
    assert received.notes == []


def test_a_conversation_goes_on(tmp_path: Path, modules: Path) -> None:
    received = play(tmp_path, modules, "turns", {"ONE": [[text("One.")]], "TWO": [[text("Two.")]]})
    assert [end["result"] for end in received.of("result")] == ["One.", "Two."]
    assert len({end["session_id"] for end in received.of("result")}) == 1
    assert "One." in json.dumps(received.asked[-1]["messages"])


def test_a_block_comes_in_pieces_and_then_whole(tmp_path: Path, modules: Path) -> None:
    received = play(tmp_path, modules, "partials", MAKE)
    events = [message["event"] for message in received.of("stream_event")]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert "".join(delta.get("text", "") for delta in deltas) == "I make it.That was it."
    assert received.texts() == ["I make it.", "That was it."]


def test_a_call_is_allowed_with_another_input(tmp_path: Path, modules: Path) -> None:
    received = play(tmp_path, modules, "allow", MAKE)
    assert received.notes == [["asked", "Bash", TOUCH["input"], "c1"]]
    assert [path.name for path in received.work.iterdir()] == ["other"]


def test_a_call_is_denied_and_the_model_is_told_why(tmp_path: Path, modules: Path) -> None:
    received = play(tmp_path, modules, "deny", MAKE)
    assert received.results == [("c1", "not today", True)]
    assert [denial["tool_use_id"] for denial in received.end["permission_denials"]] == ["c1"]
    assert not any(received.work.iterdir())


def test_a_denial_can_end_the_turn(tmp_path: Path, modules: Path) -> None:
    received = play(tmp_path, modules, "stop", MAKE)
    assert (received.end["subtype"], received.end["terminal_reason"]) == ("error_during_execution", "aborted_tools")
    assert len(received.asked) == 1


def test_a_hook_denies_a_call(tmp_path: Path, modules: Path) -> None:
    received = play(tmp_path, modules, "hooks", MAKE)
    assert received.notes == [["hook", "PreToolUse", "c1"]]
    assert "nothing is made here" in received.results[0][1]
    assert not any(received.work.iterdir())


def test_hooks_add_to_what_the_model_knows(tmp_path: Path, modules: Path) -> None:
    received = play(tmp_path, modules, "context", MAKE)
    assert [words[1] for words in received.notes] == ["UserPromptSubmit", "PostToolUse"]
    assert "said by UserPromptSubmit" in json.dumps(received.asked[0]["messages"])
    assert "said by PostToolUse" in json.dumps(received.asked[-1]["messages"])


def test_a_server_inside_the_host_is_called_by_the_model(tmp_path: Path, modules: Path) -> None:
    received = play(tmp_path, modules, "server", {"SUM": [[use("c1", "mcp__sums__add", a=2, b=3)], [text("Five.")]]})
    assert received.notes == [["servers", [["sums", "connected"]]]]
    assert received.results[0] == ("c1", [{"type": "text", "text": "5"}], False)
    assert "mcp__sums__add" in received.of("init")[0]["tools"]


def test_settings_are_changed_and_questions_answered(tmp_path: Path, modules: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "notes.txt").write_text("a note")
    received = play(tmp_path, modules, "settings", {"HELLO": [[text("Hi.")]]})
    assert [requested["model"] for requested in received.asked] == ["claude-sonnet-5", "claude-opus-5-5"]
    assert "You are a parrot." in json.dumps(received.asked[0]["system"])
    assert "WebFetch" not in [tool["name"] for tool in received.asked[0]["tools"]]
    assert [init["permissionMode"] for init in received.of("init")] == ["default", "acceptEdits"]
    result = {words[0]: words[1:] for words in received.notes}
    assert 0 < result["context"][0] < result["context"][1]
    assert {"compact", "clear"} <= set(result["commands"][0])
    assert result["models"][0] > 0
    assert result["auto"] == [True, 0]
    assert (result["reloaded"][0] > 0, result["reloaded"][1:]) == (True, [0, 0])
    assert result["moved"] == [False]
    assert result["file"] == ["a note", False, None]
    assert result["plan"] == [False, 1]
    assert result["refused"][0].startswith(
        "Unsupported control request subtype: set_cwd. Start an engine in that folder"
    )


def test_a_reply_is_interrupted_and_the_next_prompt_answered(tmp_path: Path, modules: Path) -> None:
    script = {"LONG": [[text("First."), WAIT, text("Second.")]], "SHORT": [[text("Here.")]]}
    received = play(tmp_path, modules, "interrupt", script)
    assert received.texts() == ["First.", "[Request interrupted by user]", "Here."]
    ends = [(end["subtype"], end["terminal_reason"]) for end in received.of("result")]
    assert ends == [("error_during_execution", "aborted_streaming"), ("success", "completed")]


def test_a_session_is_resumed_forked_and_continued(tmp_path: Path, modules: Path) -> None:
    words = ("ONE", "TWO", "THREE", "FOUR")
    received = play(tmp_path, modules, "sessions", {word: [[text("Yes.")]] for word in words})
    one, two, three, four = (end["session_id"] for end in received.of("result"))
    assert one == two != three == four
    said = json.dumps(received.asked[-1]["messages"])
    assert all(word in said for word in words)


def test_an_answer_has_the_form_that_was_asked_for(tmp_path: Path, modules: Path) -> None:
    script = {"SUM": [[use("c1", "StructuredOutput", sum=5)], [text("That was it.")]]}
    received = play(tmp_path, modules, "form", script)
    assert (received.end["subtype"], received.end["structured_output"]) == ("success", {"sum": 5})


def test_two_agents_work_at_once(tmp_path: Path, modules: Path) -> None:
    def child(name: str) -> list[Step]:
        call = use(f"{name}-call", "Bash", command=f"touch {name}", description=name)
        return [[text(f"{name} begins."), call], [text(f"{name} is done.")]]

    calls = [agent("k-FIRST", "FIRST"), agent("k-SECOND", "SECOND")]
    script = {"DELEGATE": [calls, [text("Done.")]], "FIRST": child("FIRST"), "SECOND": child("SECOND")}
    received = play(tmp_path, modules, "agents", script)
    assert {path.name for path in received.work.iterdir()} == {"FIRST", "SECOND"}
    for name in ("FIRST", "SECOND"):
        assert received.texts(f"k-{name}") == [name, f"{name} begins.", f"{name} is done."]
    assert {task["subagent_type"] for task in received.of("task_started")} == {"general-purpose"}
    assert [task["status"] for task in received.of("task_notification")] == ["completed", "completed"]


def test_an_agent_of_the_hosts_own_is_used(tmp_path: Path, modules: Path) -> None:
    call = use("k1", "Agent", description="repeat", prompt="REPEAT", subagent_type="parrot")
    script = {"DELEGATE": [[call], [text("Done.")]], "REPEAT": [[text("Repeat!")]]}
    received = play(tmp_path, modules, "own", script)
    assert received.texts("k1") == ["REPEAT", "Repeat!"]
    assert "parrot" in received.of("init")[0]["agents"]


def test_an_agent_is_stopped(tmp_path: Path, modules: Path) -> None:
    script = {"DELEGATE": [[agent("k1", "WATCH")], [text("It was stopped.")]], "WATCH": [[WAIT, text("Seen.")]]}
    received = play(tmp_path, modules, "task", script)
    assert [task["status"] for task in received.of("task_notification")] == ["stopped"]
    assert received.end["result"] == "It was stopped."


def test_the_last_turn_that_is_allowed_is_the_last(tmp_path: Path, modules: Path) -> None:
    received = play(tmp_path, modules, "limit", MAKE)
    assert received.end["subtype"] == "error_max_turns"
    assert [words[0] for words in received.notes] == ["raised"]


def test_a_result_of_more_than_a_mebibyte_does_not_end_the_host(tmp_path: Path, modules: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "big.txt").write_text("".join(f"{number:0999}\n" for number in range(3000)))
    big = use("c1", "Bash", command="cat big.txt", description="all")
    received = play(tmp_path, modules, "large", {"BIG": [[big], [text("Read.")]]})
    assert [failed for _, _, failed in received.results] == [False]
    assert received.end["result"] == "Read."
