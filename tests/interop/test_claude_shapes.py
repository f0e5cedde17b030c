"""One conversation, held by the real claude and by polylect: the same frames in the same order, no field missing."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from interop import claude_hosts
from interop.claude_frames import FLAGS, Frame, Program, name
from interop.claude_model import WAIT, Model, Step, agent, text, thinking, use
from interop.test_claude_engine import CLAUDE, OFFLINE
from machine import PATIENCE

pytestmark = pytest.mark.interop
Script = dict[str, list[Step]]
Talk = Callable[[Program], Awaitable[object]]
PROMPT = "11111111-1111-4111-8111-111111111111"
TOUCH = use("c1", "Bash", command="touch one; echo hi", description="one")
OTHER = use("c2", "Bash", command="touch two", description="two")

UNTOLD = {
    "system/thinking_tokens": "an estimate of what the last frames of the reply count exactly",
    "command_lifecycle/queued": "we tell it of prompts that have to wait",
}
"""Frames of theirs that we do not send."""
LATER = {"system/task_progress": "we tell it with the call that it is about, they shortly before"}
"""Frames that come somewhere else in the order."""
_SERVICE = "of the vendor's own service, or counters of the vendor's own"
_SCREEN = "for the vendor's own screen"
MISSING = {
    "assistant/thinking": {"thinking_display": _SERVICE, "thinking_duration_ms": _SERVICE},
    "control_request/can_use_tool": {
        "request.blocked_path": "a command is not looked through for what it writes",
        "request.permission_suggestions[].": "other rules are suggested",
    },
    "result": {
        **dict.fromkeys(("fast_mode", "safety_stops", "subagent_stats", "usage.fallback_credit"), _SERVICE),
        **dict.fromkeys(("usage.inference_geo", "usage.iterations", "usage.speed"), _SERVICE),
        "usage.output_tokens_details": "not told apart by all our providers",
        "api_error_status": "there only if there was an error",
        **dict.fromkeys(("first_", "time_to_request_ms", "ttft_", "request_sent_wall_ms"), _SERVICE),
    },
    "stream_event": {
        "api_message_id": "the message_start of the same reply has it",
        "ttft_ms": "in the result",
        "user_message_uuid": "the init before it has them",
        "abandoned_blocks": "what was begun and did not end is said as it is",
        **dict.fromkeys(("thinking_display", "owed_rows"), _SERVICE),
    },
    "stream_event/message_delta": {
        **dict.fromkeys(("event.context_management", "event.delta.container", "event.delta.stop_details"), _SERVICE),
        **dict.fromkeys(
            ("event.usage.iterations", "event.usage.output_tokens_details", "event.usage.fallback_credit"), _SERVICE
        ),
    },
    "system/init": {
        **dict.fromkeys(("fast_mode_disabled_reason", "product_feedback_disabled"), _SERVICE),
        **dict.fromkeys(("additional_directories", "original_cwd", "view_mode", "terminal_slash_commands"), _SCREEN),
        **dict.fromkeys(("per_turn_effort_active", "ultrathink_", "messaging_socket_path"), _SCREEN),
        "memory_paths": "there is no memory of that kind here",
        "plugins[].": "none of the vendor's plugins are here",
    },
    "system/status": {"user_message_uuids": "the init before it has them"},
    "system/task_": {"run_id": "a task runs once here"},
    "user/tool_result": {
        "tool_result_meta[].permission_decision": "there only if somebody was asked: here nobody is for an agent",
    },
}
"""Fields of theirs that ours have not, by how the names of frame and field begin."""


async def answered(program: Program) -> None:
    await program.until(lambda frame: frame["type"] == "result")


async def interrupted(program: Program) -> None:
    await program.until(lambda frame: frame["type"] == "assistant")
    program.request("interrupt")
    await answered(program)


def allow(frame: Frame) -> Frame:
    return {"behavior": "allow", "updatedInput": frame["request"]["input"]}


def deny(frame: Frame) -> Frame:
    return {"behavior": "deny", "message": "not today"}


def child(word: str) -> list[Step]:
    call = use(f"{word}-call", "Bash", command=f"touch {word}", description=word)
    return [[thinking(f"{word} thinks"), text("Let me see."), call], [text(f"{word} is done.")]]


def held(
    place: Path, script: Script, *flags: str, talk: Talk = answered, verdict: Callable[[Frame], Frame] = allow
) -> tuple[list[Frame], list[Frame]]:
    """The conversation as claude and as polylect held it; both end in the same way."""

    async def one(program: Path, folder: Path) -> tuple[list[Frame], int]:
        work = folder / "work"
        work.mkdir(parents=True)
        async with Model(script) as model:
            own = {"CLAUDE_CONFIG_DIR": str(folder / "claude"), "CLAUDE_CODE_SDK_READS_SESSION_STATE": "1"}
            env = {"PATH": os.environ["PATH"], **claude_hosts.env(folder, model), **OFFLINE, **own}
            argv = [str(program), *FLAGS, "--permission-prompt-tool", "stdio", "--model", "claude-sonnet-5", *flags]
            async with Program(argv, work, env, verdict) as started:
                started.request("initialize")
                await started.until(lambda frame: frame["type"] == "control_response")
                started.prompt("GO", uuid=PROMPT)
                await talk(started)
                return started.frames, await started.end()

    async def both() -> tuple[list[Frame], list[Frame]]:
        programs = ((CLAUDE, place / "theirs"), (claude_hosts.link(place), place / "ours"))
        (theirs, their_exit), (ours, our_exit) = await asyncio.gather(*(one(*each) for each in programs))
        assert our_exit == their_exit
        return theirs, ours

    return asyncio.run(asyncio.wait_for(both(), 2 * PATIENCE))


def kind(frame: Frame) -> str:
    state = frame.get("state") or frame.get("patch", {}).get("status") or frame.get("status")
    return f"{name(frame)}/{state}" if state else name(frame)


def order(frames: list[Frame]) -> list[str]:
    return [result for result in map(kind, frames) if result not in UNTOLD and result not in LATER]


def by_call(frames: list[Frame]) -> dict[str, list[str]]:
    """In order for each call: which of several goes first is anybody's choice."""
    actual: dict[str, list[str]] = {}
    for frame in frames:
        if kind(frame) not in UNTOLD and not kind(frame).startswith(("system/session_state_changed", *LATER)):
            actual.setdefault(_call(frame), []).append(kind(frame))
    return actual


def _call(frame: Frame) -> str:
    match frame:
        case {"parent_tool_use_id": str(parent)}:
            return parent
        case {"message": {"content": [{"type": "tool_use", "id": id}]}} | {"tool_use_id": str(id)}:
            return str(id)
        case {"message": {"content": [{"type": "tool_result", "tool_use_id": id}]}}:
            return str(id)
        case {"request": {"subtype": "can_use_tool", "tool_use_id": id}}:
            return str(id)
        case {"subtype": "task_updated"}:
            return "a task"
    return ""


def compare_fields(theirs: list[Frame], ours: list[Frame]) -> None:
    """What all their frames of a kind have, each of ours has."""
    for said in sorted(set(map(name, ours))):
        samples = [_paths(frame) for frame in theirs if name(frame) == said]
        assert samples, f"only we say {said}"
        expected = {path for path in set.intersection(*samples) if not _accepted(said, path)}
        for frame in ours:
            if name(frame) == said:
                assert expected - _paths(frame) == set(), f"{said} has to have them"


def _accepted(said: str, path: str) -> bool:
    return any(said.startswith(start) and path.startswith(tuple(fields)) for start, fields in MISSING.items())


_OPAQUE = ("input", "tool_use_result", "modelUsage", "model_usage_since_last_result", "response")


def _paths(value: Any, above: str = "") -> set[str]:
    if isinstance(value, list):
        return {path for one in value for path in _paths(one, f"{above}[]")}
    if not isinstance(value, dict):
        return set()
    actual: set[str] = set()
    for key, one in value.items():
        path = f"{above}.{key}" if above else key
        actual |= {path} | (set() if key in _OPAQUE else _paths(one, path))
    return actual


CONVERSATIONS: dict[str, tuple[Script, tuple[str, ...], dict[str, Any]]] = {
    "text and thinking": ({"GO": [[thinking("hm"), text("Hi.")]]}, (), {}),
    "a call that is allowed": ({"GO": [[text("I do."), TOUCH], [text("Done.")]]}, (), {}),
    "a call that is denied": ({"GO": [[text("I do."), TOUCH], [text("Well.")]]}, (), {"verdict": deny}),
    "in pieces": ({"GO": [[thinking("hm"), text("Hi.")]]}, ("--include-partial-messages",), {}),
    "an agent": ({"GO": [[agent("k1", "FIRST")], [text("Done.")]], "FIRST": child("FIRST")}, (), {}),
    "an agent that is heard": (
        {"GO": [[agent("k1", "FIRST")], [text("Done.")]], "FIRST": child("FIRST")},
        ("--forward-subagent-text",),
        {},
    ),
    "interrupted": ({"GO": [[text("First."), WAIT, text("Second.")]]}, (), {"talk": interrupted}),
    "interrupted in pieces": (
        {"GO": [[text("First."), WAIT, text("Second.")]]},
        ("--include-partial-messages",),
        {"talk": interrupted},
    ),
}


@pytest.mark.parametrize("conversation", CONVERSATIONS.values(), ids=CONVERSATIONS)
def test_the_same_frames_come_in_the_same_order(
    tmp_path: Path, conversation: tuple[Script, tuple[str, ...], dict[str, Any]]
) -> None:
    script, flags, how = conversation
    theirs, ours = held(tmp_path, script, *flags, **how)
    assert order(ours) == order(theirs)
    assert [kind(frame) for frame in ours if kind(frame) in LATER] == [
        kind(frame) for frame in theirs if kind(frame) in LATER
    ]
    compare_fields(theirs, ours)


AT_ONCE: dict[str, tuple[Script, tuple[str, ...]]] = {
    "a call and the rest of its reply": (
        {"GO": [[text("I do."), TOUCH], [text("Done.")]]},
        ("--include-partial-messages",),
    ),
    "two calls": ({"GO": [[text("I do."), TOUCH, OTHER], [text("Done.")]]}, ()),
    "two agents": (
        {
            "GO": [[agent("k1", "FIRST"), agent("k2", "SECOND")], [text("Done.")]],
            "FIRST": child("FIRST"),
            "SECOND": child("SECOND"),
        },
        (),
    ),
}


@pytest.mark.parametrize(("script", "flags"), AT_ONCE.values(), ids=AT_ONCE)
def test_of_several_at_once_each_has_the_same_frames_in_the_same_order(
    tmp_path: Path, script: Script, flags: tuple[str, ...]
) -> None:
    """Theirs begins a call as soon as its block is whole, ours when the reply is."""
    theirs, ours = held(tmp_path, script, *flags)
    assert by_call(ours) == by_call(theirs)
    compare_fields(theirs, ours)


TOOLS: Script = {
    "GO": [
        [use("write", "Write", file_path="a.txt", content="one\ntwo\nthree\n")],
        [use("read", "Read", file_path="a.txt", offset=2, limit=1)],
        [use("edit", "Edit", file_path="a.txt", old_string="two", new_string="2")],
        [use("again", "Write", file_path="a.txt", content="one\ntwo\n")],
        [
            use("bash", "Bash", command="echo out"),
            use("lines", "Grep", pattern="o", output_mode="content"),
            use("files", "Grep", pattern="o", output_mode="files_with_matches"),
            use("count", "Grep", pattern="o", output_mode="count"),
            use("first", "Grep", pattern=".", output_mode="content", head_limit=1),
            use("second", "Grep", pattern=".", output_mode="content", head_limit=1, offset=1),
            use("none", "Grep", pattern="zzz", output_mode="content"),
            use("glob", "Glob", pattern="*.txt"),
        ],
        [text("Done.")],
    ]
}
NOT_TOLD = {
    "write": {"userModified": "a host that changes the input knows it"},
    "read": {"totalLines": "a page does not tell how long the file is"},
    "edit": {"originalFile": "null is allowed; the patch tells", "contentNotInModelContext": "not in their types"},
    "again": dict.fromkeys(("originalFile", "structuredPatch", "userModified"), "null and [] are allowed"),
    "bash": {"noOutputExpected": "not known"},
    **{key: {"totalLines": "optional"} for key in ("lines", "first", "second", "none")},
    "files": {"totalFiles": "optional"},
    "glob": {"durationMs": "takes its time", "totalMatches": "optional", "countIsComplete": "optional"},
}
"""Fields of theirs that ours have not, or with another value."""


def test_hosts_get_the_same_results_of_tools(tmp_path: Path) -> None:
    theirs, ours = (
        {
            frame["message"]["content"][0]["tool_use_id"]: _details(frame)
            for frame in frames
            if "tool_use_result" in frame
        }
        for frames in held(tmp_path, TOOLS, "--tools", "Read,Write,Edit,Bash,Grep,Glob")
    )
    assert len(theirs) == 12
    for call, details in theirs.items():
        assert {key: ours[call].get(key) for key in details if key not in NOT_TOLD.get(call, {})} == {
            key: value for key, value in details.items() if key not in NOT_TOLD.get(call, {})
        }, call


def _details(frame: Frame) -> Frame:
    """The fields of a result; those of a file are beside the others."""
    details: Frame = frame["tool_use_result"]
    return {**details.pop("file", {}), **details}
