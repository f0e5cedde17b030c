"""Commands at certain moments, as Claude Code users know them. Each is a real process."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from doubles import Echo, Run, Talk, converse, run
from doubles_extensions import loaded
from polylect.extensions.shell_hooks import parse_output
from polylect.providers.scripted import Scripted
from polylect.sessions.store import MemoryStore
from polylect.vocab.commands import Answer, Cancel, Command, Compact, Prompt
from polylect.vocab.content import Message, Text
from polylect.vocab.events import (
    Ask,
    CompactionEnded,
    Event,
    ExtensionFailed,
    Notice,
    TextDelta,
    ToolFinished,
    TurnEnded,
)
from polylect.vocab.hooks import HookResult

HELLO = Prompt("t1", "Hello")
ENV = {"PATH": os.environ.get("PATH", os.defpath)}


def call(name: str = "Echo", **args: Any) -> dict[str, Any]:
    return {"call": name, "id": "c1", "args": args}


def hooked(folder: Path, event: str, command: str, *replies: Any, tool: Any = None, **options: Any) -> Talk:
    row = {"command": command, **options.pop("row", {})}
    hooks = loaded(commands={event: [row]}, env=ENV)
    model = Scripted.in_order(*(replies or ([call(text="x"), "done"],)))
    return converse(folder, model, options.pop("commands", [HELLO]), tool or Echo(), hooks=hooks, **options)


def printed(value: dict[str, Any]) -> str:
    return f"cat >/dev/null; echo '{json.dumps(value)}'"


def specific(**fields: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": fields}


def test_a_hook_is_told_of_the_call_on_its_standard_input(tmp_path: Path) -> None:
    talk = hooked(tmp_path, "PreToolUse", 'cat > told.json; echo "$CLAUDE_PROJECT_DIR" > where')
    assert json.loads((tmp_path / "told.json").read_text()) == {
        "session_id": "s1",
        "cwd": str(tmp_path),
        "hook_event_name": "PreToolUse",
        "permission_mode": "default",
        "prompt_id": "t1",
        "tool_name": "Echo",
        "tool_input": {"text": "x"},
        "tool_use_id": "c1",
    }
    assert (tmp_path / "where").read_text().strip() == str(tmp_path)
    assert talk.of(ToolFinished)[0].outcome == "ok"


def test_exit_status_2_denies_with_what_is_on_stderr(tmp_path: Path) -> None:
    talk = hooked(tmp_path, "PreToolUse", "echo 'not here' >&2; exit 2")
    finished = talk.of(ToolFinished)[0]
    assert (finished.outcome, finished.output) == ("denied", "Tool denied: not here")


def test_another_exit_status_is_reported_and_decides_nothing(tmp_path: Path) -> None:
    talk = hooked(tmp_path, "PreToolUse", "echo oops >&2; exit 1")
    command, error = "echo oops >&2; exit 1", "HookFailed: exit status 1: oops"
    assert talk.of(ExtensionFailed) == [ExtensionFailed(command, "PreToolUse", error, turn="t1")]
    assert talk.of(ToolFinished)[0].outcome == "ok"


def test_a_hook_that_takes_too_long_is_ended_and_reported(tmp_path: Path) -> None:
    talk = hooked(tmp_path, "PostToolUse", "sleep 600", row={"timeout": 0.1})
    assert talk.of(ExtensionFailed)[0].error == "TimeoutError: no end after 0.1 s"
    assert talk.of(ToolFinished)[0].outcome == "ok"


@pytest.mark.parametrize("command", ["sleep 600", "kill -9 $$", 'printf \'{"decision": "block"\''])
def test_a_guard_that_gives_no_answer_denies(tmp_path: Path, command: str) -> None:
    finished = hooked(tmp_path, "PreToolUse", command, row={"timeout": 0.5}).of(ToolFinished)[0]
    assert finished.outcome == "denied"
    assert finished.reason.startswith("the hook ")
    assert finished.reason.endswith("so the call is not run")


@pytest.mark.parametrize(("matcher", "outcome"), [("Echo|Edit", "denied"), ("Ech", "ok"), ("*", "denied")])
def test_a_matcher_names_whole_tools(tmp_path: Path, matcher: str, outcome: str) -> None:
    talk = hooked(tmp_path, "PreToolUse", "exit 2", row={"matcher": matcher})
    assert talk.of(ToolFinished)[0].outcome == outcome


def test_what_it_prints_can_allow_change_and_ask(tmp_path: Path) -> None:
    asks: list[Event] = []

    def host(event: Event) -> Command | None:
        if isinstance(event, Ask):
            asks.append(event)
            return Answer(event.ask, "deny")
        return None

    def judged(**fields: Any) -> ToolFinished:
        replies = [call("Run", command="a"), "done"]
        command = printed(specific(hookEventName="PreToolUse", **fields))
        return hooked(tmp_path, "PreToolUse", command, replies, tool=Run(), host=host).of(ToolFinished)[0]

    assert judged(permissionDecision="allow", updatedInput={"command": "b"}).output == "ran b"
    assert judged(permissionDecision="allow", additionalContext="mind the gap").output == "ran a\n\nmind the gap"
    assert not asks
    assert judged(permissionDecision="ask", permissionDecisionReason="sure?").outcome == "denied"
    assert [event.reason for event in asks if isinstance(event, Ask)] == ["sure?"]


def test_it_can_answer_in_the_place_of_the_person(tmp_path: Path) -> None:
    replies = [call("Run", command="a"), "done"]
    command = printed(specific(hookEventName="PermissionRequest", decision={"behavior": "allow"}))
    talk = hooked(tmp_path, "PermissionRequest", command, replies, tool=Run())
    assert talk.of(ToolFinished)[0].output == "ran a"
    assert talk.of(Ask) == []
    denied = hooked(tmp_path, "PermissionRequest", "echo 'not here' >&2; exit 2", replies, tool=Run())
    assert denied.of(ToolFinished)[0].output == "Tool denied: not here"


def test_it_is_told_of_all_calls_of_a_step(tmp_path: Path) -> None:
    hooked(tmp_path, "PostToolBatch", "cat > told.json")
    fields = json.loads((tmp_path / "told.json").read_text())
    assert [one["tool_name"] for one in fields["tool_calls"]] == ["Echo"]
    assert fields["hook_event_name"] == "PostToolBatch"


def test_continue_false_ends_the_turn(tmp_path: Path) -> None:
    talk = hooked(tmp_path, "PreToolUse", printed({"continue": False, "stopReason": "enough"}))
    assert talk.of(ToolFinished)[0].output == "Tool denied: enough"
    assert talk.of(TurnEnded)[0].reason == "cancelled"


def test_what_a_tool_returned_can_be_commented(tmp_path: Path) -> None:
    talk = hooked(tmp_path, "PostToolUse", "cat > told.json; echo 'lint fails' >&2; exit 2")
    assert talk.of(ToolFinished)[0].output == "x\n\nlint fails"
    fields = json.loads((tmp_path / "told.json").read_text())
    assert fields["tool_response"] == {"output": "x", "is_error": False}


def test_plain_output_at_a_prompt_is_context_and_exit_status_2_refuses_it(tmp_path: Path) -> None:
    talk = hooked(tmp_path, "UserPromptSubmit", "cat; echo; echo branch main", "Hi", store=MemoryStore("s1"))
    content = talk.messages[0].content
    assert content[0] == Text("Hello")
    assert isinstance(content[1], Text)
    assert '"prompt":"Hello"' in content[1].text
    assert content[1].text.endswith("branch main")
    refused = hooked(tmp_path, "UserPromptSubmit", "echo secret found >&2; exit 2", "Hi")
    assert [event.text for event in refused.of(Notice)] == ["secret found"]
    assert refused.messages == []


def test_a_session_starts_and_ends_with_its_hooks(tmp_path: Path) -> None:
    row = {"command": "cat > end.json"}
    hooks = loaded(commands={"SessionStart": [{"command": "cat"}], "SessionEnd": [row]}, env=ENV)
    talk = converse(tmp_path, Scripted.in_order("Hi"), [HELLO], hooks=hooks)
    assert json.loads((tmp_path / "end.json").read_text())["hook_event_name"] == "SessionEnd"
    # A JSON object on stdout is a verdict, and this one says nothing.
    assert talk.session.contexts == []
    spoken = hooked(tmp_path, "SessionStart", "cat >/dev/null; echo be brief", "Hi")
    assert spoken.session.contexts == ["be brief"]


def test_a_stop_can_be_sent_on_once(tmp_path: Path) -> None:
    command = "grep -q 'active\":true' || { echo 'run the tests' >&2; exit 2; }; exit 0"
    talk = hooked(tmp_path, "Stop", command, "a", "b")
    assert "".join(event.text for event in talk.of(TextDelta)) == "ab"
    assert talk.messages[2] == Message("user", (Text("run the tests"),))


def test_a_summary_can_be_refused(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(HELLO, Prompt("t2", "Again"))
        await talk.engine.settled()
        talk.send(Compact())

    hooks = loaded(commands={"PreCompact": [{"command": "grep -q manual && echo no >&2 && exit 2"}]}, env=ENV)
    talk = run(conversation, tmp_path, Scripted.in_order("a" * 400, "b" * 400), hooks=hooks)
    assert [event.error for event in talk.of(CompactionEnded)] == ["The conversation was not shortened: no"]


def test_p1_a_stop_ends_the_hook_that_runs(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "started")
    started = os.open(tmp_path / "started", os.O_RDWR)
    hooks = loaded(commands={"PreToolUse": [{"command": "echo $$ > started; sleep 600"}]}, env=ENV)

    async def conversation(talk: Talk) -> None:
        hook_started = asyncio.Event()
        asyncio.get_running_loop().add_reader(started, hook_started.set)
        talk.send(HELLO)
        await hook_started.wait()
        asyncio.get_running_loop().remove_reader(started)
        talk.send(Cancel())

    talk = run(conversation, tmp_path, Scripted.in_order([call(text="x"), "on"]), Echo(), hooks=hooks)
    assert talk.of(TurnEnded)[0].reason == "cancelled"
    pid = int(os.read(started, 20))
    os.close(started)
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(
    ("event", "out", "opinion"),
    [
        ("PreToolUse", b"", HookResult()),
        ("PreToolUse", b"just talk", HookResult()),
        ("PreToolUse", b"[1]", HookResult()),
        ("PreToolUse", b'{"decision":"approve"}', HookResult("allow")),
        ("PreToolUse", b'{"decision":"block","reason":"r"}', HookResult("deny", "r")),
        ("PostToolUse", b'{"hookSpecificOutput":{"updatedToolOutput":{"a":1}}}', HookResult(output='{"a":1}')),
        ("Stop", b'{"continue":false}', HookResult(interrupt=True)),
        ("SessionStart", b"\xff hi", HookResult(context="\ufffd hi")),
    ],
)
def test_what_a_hook_prints_is_read_with_care(event: str, out: bytes, opinion: HookResult) -> None:
    assert parse_output(event, out) == opinion


@pytest.mark.parametrize(
    "out",
    [
        b'{"hookSpecificOutput":{"permissionDecision":"perhaps"}}',
        b'{"hookSpecificOutput":{"permissionDecision":"allow","updatedInput":[1]}}',
        b'{"decision":"Block"}',
        b'{"continue":"no"}',
    ],
)
def test_an_object_that_makes_no_sense_is_a_failure(out: bytes) -> None:
    with pytest.raises(ValueError, match=r"is no|is neither"):
        parse_output("PreToolUse", out)
