"""Conversations that come from omp and Claude Code, and go there. The files below were written by the real programs,
omp 13.19 and Claude Code 2.1.325, and shortened; `polylect sessions export` was tried on both."""

import json
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from doubles import check_history
from polylect.sessions.formats import claude, detect, omp
from polylect.sessions.formats.conversation import Conversation, Imported, WrongFormat, iso, milliseconds
from polylect.sessions.formats.listing import stored_sessions
from polylect.sessions.replay import CUT_OFF, Replay, shell_message
from polylect.vocab.answers import ShellResult
from polylect.vocab.content import Document, Image, Message, Text, Thinking, ToolCall, ToolResult, Usage
from polylect.vocab.entries import Body, Compacted, Configured, ContextAdded, Entry, MessageAdded, ShellRan

Json = dict[str, Any]
PNG = "aGVsbG8="


def lines(*values: Json | bytes) -> list[bytes]:
    return [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]


def recalled(taken: Imported) -> Replay:
    numbers = count(1)
    return Replay([Entry(str(next(numbers)), "", at, body) for at, body in taken.bodies])


def conversation(*bodies: Body) -> Conversation:
    entries = [Entry(str(number), "", 1000 * number, body) for number, body in enumerate(bodies, 1)]
    return Conversation("s1", "/w", 1000, Replay(entries), lambda message: message)


def exported(form: ModuleType, of: Conversation) -> bytes:
    return b"".join(form.pieces(of))


def user(*blocks: Text | Image | Document | str) -> Message:
    return Message("user", tuple(Text(block) if isinstance(block, str) else block for block in blocks))


CALLS = (ToolCall("toolu_1", "Bash", {"command": "echo one"}), ToolCall("toolu_2", "Bash", {"command": "false"}))
EVERYTHING: tuple[Body, ...] = (
    ContextAdded("Be brief."),
    Configured({"name": "My name"}),
    MessageAdded(user("please go", Image("image/png", PNG))),
    MessageAdded(
        Message(
            "assistant",
            (Thinking("hm", "c2ln"), Thinking("", redacted="eHg="), Text("I look."), *CALLS),
            "calls",
            Usage(50, 7, 40, 3),
            "m",
            "anthropic",
        ),
        "t1",
        "r1",
    ),
    MessageAdded(
        Message(
            "tool",
            (
                ToolResult("toolu_1", "Bash", "one", images=(Image("image/png", PNG),)),
                ToolResult("toolu_2", "Bash", "Exit code 1", "error"),
            ),
        )
    ),
    MessageAdded(Message("assistant", (Text("All done."),), "end", Usage(60, 7), "m", "anthropic"), "t1", "r2"),
    MessageAdded(user("and?")),
    MessageAdded(Message("assistant", (Text("Nothing."),), "end", Usage(70, 7), "m", "anthropic"), "t2", "r3"),
    Compacted("They said go.", 4, 107),
    MessageAdded(user("then go on")),
)


# omp.

OMP = lines(
    {"type": "session", "version": 3, "id": "15cf01d3d0abae20", "timestamp": "2026-11-15T10:47:46.754Z", "cwd": "/w",
     "title": "My name"},
    {"type": "model_change", "id": "56649d8a", "parentId": None, "timestamp": "2026-11-15T10:47:47.988Z",
     "model": "mock/m1"},
    {"type": "thinking_level_change", "id": "0c10fdfc", "parentId": "56649d8a",
     "timestamp": "2026-11-15T10:47:47.988Z", "thinkingLevel": None},
    {"type": "message", "id": "7474c7a6", "parentId": "0c10fdfc", "timestamp": "2026-11-15T10:47:48.070Z",
     "message": {"role": "user", "content": [{"type": "text", "text": "please go"}], "attribution": "user",
                 "timestamp": 1794739668065}},
    {"type": "message", "id": "f2840e5d", "parentId": "7474c7a6", "timestamp": "2026-11-15T10:47:48.166Z",
     "message": {"role": "assistant", "content": [
         {"type": "thinking", "thinking": "hm", "thinkingSignature": "c2ln"}, {"type": "text", "text": "I look."},
         {"type": "toolCall", "id": "toolu_7a", "name": "bash", "arguments": {"command": "echo one"}},
         {"type": "toolCall", "id": "toolu_7b", "name": "bash", "arguments": {"command": "false"}}],
         "api": "anthropic-messages", "provider": "mock", "model": "m1", "usage": {
             "input": 50, "output": 7, "cacheRead": 50, "cacheWrite": 0, "totalTokens": 107,
             "cost": {"input": 0.00015, "output": 0.0001, "cacheRead": 0, "cacheWrite": 0, "total": 0.00025}},
         "stopReason": "toolUse", "timestamp": 1794739668079, "responseId": "msg_7", "duration": 78, "ttft": 65}},
    {"type": "message", "id": "961bebd3", "parentId": "f2840e5d", "timestamp": "2026-11-15T10:47:48.182Z",
     "message": {"role": "toolResult", "toolCallId": "toolu_7b", "toolName": "bash", "isError": True, "details": {},
                 "content": [{"type": "text", "text": "exit 1"}], "timestamp": 1794739668158}},
    {"type": "message", "id": "095e7478", "parentId": "961bebd3", "timestamp": "2026-11-15T10:47:48.182Z",
     "message": {"role": "toolResult", "toolCallId": "toolu_7a", "toolName": "bash", "isError": False,
                 "content": [{"type": "text", "text": "one"}], "timestamp": 1794739668158}},
    {"type": "message", "id": "9dd22e69", "parentId": "095e7478", "timestamp": "2026-11-15T10:47:48.238Z",
     "message": {"role": "assistant", "content": [{"type": "text", "text": "All done."}], "provider": "mock",
                 "model": "m1", "stopReason": "stop", "timestamp": 1794739668197}},
)  # fmt: skip


def test_a_session_file_of_omp_becomes_entries() -> None:
    taken = omp.import_lines(OMP)
    assert (taken.cwd, taken.notes) == ("/w", [])
    replay = recalled(taken)
    assert replay.settings == {"name": "My name", "model": "mock/m1"}
    assert replay.messages == [
        user("please go"),
        Message(
            "assistant",
            (
                Thinking("hm", "c2ln"),
                Text("I look."),
                ToolCall("toolu_7a", "bash", {"command": "echo one"}),
                ToolCall("toolu_7b", "bash", {"command": "false"}),
            ),
            "calls",
            Usage(50, 7, 50, 0, 0.00025),
            "m1",
            "mock",
        ),
        Message("tool", (ToolResult("toolu_7a", "bash", "one"), ToolResult("toolu_7b", "bash", "exit 1", "error"))),
        Message("assistant", (Text("All done."),), "end", Usage(), "m1", "mock"),
    ]
    assert taken.bodies[-1][0] == milliseconds("2026-11-15T10:47:48.238Z")


def omp_entry(id: str, parent: str | None, kind: str = "message", **more: Any) -> Json:
    return {"type": kind, "id": id, "parentId": parent, "timestamp": "2026-11-15T10:48:00.000Z", **more}


def said(text: str, role: str = "user") -> Json:
    return {"role": role, "content": text}


def test_a_command_of_the_person_s_own_goes_to_omp_and_comes_back() -> None:
    ran = ShellResult("ls", "a.py\n", 2, truncated=True, lines=1, size=5)
    bodies = (
        MessageAdded(user("Hello")),
        ShellRan(ran),
        ShellRan(ShellResult("sleep 9", cancelled=True)),
        *EVERYTHING[-1:],
    )
    out = exported(omp, conversation(*bodies)).splitlines()
    assert json.loads(out[2])["message"] == {
        "role": "bashExecution", "command": "ls", "output": "a.py\n", "exitCode": 2, "cancelled": False,
        "truncated": True, "timestamp": 2000,
    }  # fmt: skip
    assert [body for _, body in omp.import_lines(out).bodies] == list(bodies)


def test_the_session_before_is_named_in_the_header() -> None:
    out = exported(omp, conversation(Configured({"parent": "/s/old.jsonl"}), MessageAdded(user("Hello"))))
    assert json.loads(out.splitlines()[0])["parentSession"] == "/s/old.jsonl"


def test_only_the_branch_of_the_last_line_is_taken_and_roles_of_their_own_become_words() -> None:
    more = lines(
        omp_entry("a1", "9dd22e69", message=said("left behind")),
        omp_entry("b1", "9dd22e69", message={"role": "bashExecution", "command": "ls", "output": "a.py"}),
        omp_entry("b2", "b1", message={"role": "bashExecution", "command": "pwd", "excludeFromContext": True}),
        omp_entry("b3", "b2", message={"role": "fileMention", "files": [{"path": "a.py", "content": "a = 1"}]}),
        omp_entry("b4", "b3", "custom_message", content="mind this", customType="x", display=False),
        omp_entry("b5", "b4", "compaction", summary="So far.", firstKeptEntryId="9dd22e69", tokensBefore=9),
        omp_entry("b6", "b5", message={"role": "hologram", "content": "?"}),
        omp_entry("b7", "b6", "label", targetId="b1", label="here"),
    )
    taken = omp.import_lines([*OMP, *more, b"", b'{"torn'])
    replay = recalled(taken)
    assert replay.messages[4:] == [
        shell_message(ShellResult("ls", "a.py")),
        user(Document("a.py", "text/plain", "a = 1")),
        user("mind this"),
    ]
    assert replay.compactions == [(7, Compacted("So far.", 3, 9))]
    assert taken.notes == ["1 lines could not be read", "a message of the role 'hologram' was left out"]


def test_pictures_that_omp_keeps_elsewhere_are_fetched_or_said_to_be_gone() -> None:
    content = [{"type": "image", "data": f"blob:sha256:{name}", "mimeType": "image/png"} for name in ("aa", "bb")]
    taken = omp.import_lines([OMP[0], *lines(omp_entry("a", None, message={"role": "user", "content": content}))],
                     {"aa": PNG, "bb": ""}.__getitem__)  # fmt: skip
    assert recalled(taken).messages == [user(Image("image/png", PNG), "[an image that is no longer there]")]


def test_everything_survives_the_way_to_omp_and_back() -> None:
    there = exported(omp, conversation(*EVERYTHING))
    back = recalled(omp.import_lines(there.split(b"\n")))
    here = conversation(*EVERYTHING).replay
    assert back.messages == [user("Be brief."), *here.messages]
    assert back.settings == {"name": "My name"}
    assert back.compactions == [(7, Compacted("They said go.", 5, 107))]


def test_each_line_for_omp_names_the_one_before_it() -> None:
    header, *entries = map(json.loads, exported(omp, conversation(*EVERYTHING)).splitlines())
    assert header == {
        "type": "session",
        "version": 3,
        "id": "s1",
        "timestamp": iso(1000),
        "cwd": "/w",
        "title": "My name",
    }
    assert [entry["parentId"] for entry in entries] == [None, *(entry["id"] for entry in entries[:-1])]


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ([], "first line"),
        ([b"hello"], "first line"),
        ([b"\xff\xfe"], "first line"),
        ([b"[" * 100_000], "first line"),
        (lines({"type": "session", "version": 4, "id": "x"}), "version 4"),
        (lines({"type": "session", "version": 3}), "first line"),
        (lines({"type": "session", "version": 3, "id": "x"}), "no message"),
        (lines({"type": "session", "version": 3, "id": "x"}, omp_entry("a", "a", message=said(""))), "no message"),
    ],
)
def test_what_is_no_session_file_of_omp_is_refused_with_a_reason(file: list[bytes], why: str) -> None:
    with pytest.raises(WrongFormat, match=why):
        omp.import_lines(file)


# Claude Code.


def claude_line(uuid: str, parent: str | None, kind: str, message: Json | None = None, **more: Any) -> Json:
    about = {"isSidechain": False, "userType": "external", "cwd": "/w", "sessionId": "1111", "version": "2.1.325"}
    fields = {"message": message} if message else {}
    stamp = {"timestamp": "2026-11-15T10:47:18.111Z", "gitBranch": "HEAD"}
    return {"parentUuid": parent, "type": kind, "uuid": uuid, **fields, **about, **stamp, **more}


def claude_reply(id: str, block: Json, stop: str = "tool_use") -> Json:
    usage = {"input_tokens": 50, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 50, "output_tokens": 7,
             "server_tool_use": {"web_search_requests": 0}, "service_tier": "standard"}  # fmt: skip
    return {"id": id, "type": "message", "role": "assistant", "model": "m", "content": [block], "stop_reason": stop,
            "stop_sequence": None, "usage": usage}  # fmt: skip


def claude_result(call: str, output: str, *, error: bool = False) -> Json:
    part = {"type": "tool_result", "tool_use_id": call, "content": output, "is_error": error}
    return {"role": "user", "content": [part]}


def claude_call(call: str, command: str) -> Json:
    return {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": command}}


HM = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
CLAUDE = lines(
    {"type": "queue-operation", "operation": "enqueue", "timestamp": "2026-11-15T10:47:18.028Z", "sessionId": "1111"},
    claude_line("2f6c", None, "user", {"role": "user", "content": "please go"}, promptId="b402"),
    claude_line("efdb", "2f6c", "attachment", attachment={"type": "environment"}, rendered=[{"content": "..."}]),
    {"type": "last-prompt", "lastPrompt": "please go", "leafUuid": "bcfd", "sessionId": "1111"},
    claude_line("2050", "efdb", "assistant", claude_reply("m1", HM)),
    claude_line("2400", "2050", "assistant", claude_reply("m1", {"type": "text", "text": "I look."})),
    claude_line("9100", "2400", "assistant", claude_reply("m1", claude_call("t1", "echo one"))),
    claude_line("bcfd", "9100", "assistant", claude_reply("m1", claude_call("t2", "false"))),
    claude_line("7c9f", "9100", "user", claude_result("t1", "one"), toolUseResult={"stdout": "one"}),
    claude_line("26c3", "bcfd", "user", claude_result("t2", "Exit code 1", error=True), toolUseResult="Exit code 1"),
    claude_line("f775", "26c3", "assistant", claude_reply("m2", {"type": "text", "text": "All done."}, "end_turn")),
)
CLAUDE_MESSAGES = [
    user("please go"),
    Message(
        "assistant",
        (
            Thinking("hm", "c2ln"),
            Text("I look."),
            ToolCall("t1", "Bash", {"command": "echo one"}),
            ToolCall("t2", "Bash", {"command": "false"}),
        ),
        "calls",
        Usage(50, 7, 50),
        "m",
        "anthropic",
    ),
    Message("tool", (ToolResult("t1", "Bash", "one"), ToolResult("t2", "Bash", "Exit code 1", "error"))),
    Message("assistant", (Text("All done."),), "end", Usage(50, 7, 50), "m", "anthropic"),
]


def test_a_transcript_of_claude_code_becomes_entries_also_results_beside_the_way() -> None:
    taken = claude.import_lines(CLAUDE)
    assert (taken.cwd, taken.notes) == ("/w", [])
    assert recalled(taken).messages == CLAUDE_MESSAGES


@pytest.mark.parametrize("leaf", range(1, len(CLAUDE)))
def test_a_transcript_cut_anywhere_is_a_valid_history(leaf: int) -> None:
    if leaf < 2:
        with pytest.raises(WrongFormat):
            claude.import_lines(CLAUDE[:leaf])
        return
    check_history(recalled(claude.import_lines(CLAUDE[:leaf])).messages)


def test_a_compaction_of_claude_code_is_one_here_and_the_messages_before_it_are_kept() -> None:
    segment = {"preservedSegment": {"headUuid": "f775", "anchorUuid": "e602", "tailUuid": "f775"}}
    more = lines(
        claude_line("fb5c", None, "system", subtype="compact_boundary", logicalParentUuid="f775",
                    compactMetadata={"trigger": "auto", "preTokens": 107, **segment}),
        claude_line("e602", "fb5c", "user", {"role": "user", "content": "A summary."}, isCompactSummary=True,
                    isVisibleInTranscriptOnly=True),
        claude_line("f927", "e602", "user", {"role": "user", "content": [{"type": "text", "text": "go on"}]}),
    )  # fmt: skip
    replay = recalled(claude.import_lines([*CLAUDE, *more]))
    assert replay.messages == [*CLAUDE_MESSAGES, user("go on")]
    assert replay.compactions == [(4, Compacted("A summary.", 3, 107))]


def test_rewound_branches_sub_agents_and_errors_of_the_service_are_left_out() -> None:
    more = lines(
        claude_line("aaaa", "f775", "user", {"role": "user", "content": "left behind"}),
        claude_line("bbbb", "f775", "user", {"role": "user", "content": "another way"}),
        {**claude_line("cccc", "bbbb", "assistant", claude_reply("m9", HM)), "isApiErrorMessage": True},
        claude_line("dddd", "never written", "user", {"role": "user", "content": "again"}),
        {**claude_line("eeee", "dddd", "user", {"role": "user", "content": "inside"}), "isSidechain": True},
        {"type": "custom-title", "customTitle": "A name", "sessionId": "1111"},
    )
    replay = recalled(claude.import_lines([*CLAUDE, *more]))
    assert replay.messages == [*CLAUDE_MESSAGES, user("another way"), user("again")]
    assert replay.settings == {"name": "A name"}


def test_everything_survives_the_way_to_claude_code_and_back() -> None:
    there = exported(claude, conversation(*EVERYTHING))
    back = recalled(claude.import_lines(there.split(b"\n")))
    here = conversation(*EVERYTHING).replay
    assert back.messages == [user("Be brief."), *here.messages]
    assert back.settings == {"name": "My name"}
    assert back.compactions == [(7, Compacted("They said go.", 5, 107))]


def test_a_session_is_told_with_the_same_ids_each_time_and_they_are_uuids() -> None:
    assert exported(claude, conversation(*EVERYTHING)) == exported(claude, conversation(*EVERYTHING))
    assert claude.session_id("s1") == claude.session_id("s1")
    assert claude.session_id("11111111-2222-4333-8444-555555555555") == "11111111-2222-4333-8444-555555555555"


def test_a_call_that_was_never_answered_goes_out_answered() -> None:
    cut = conversation(*EVERYTHING[:4])
    for back in (
        claude.import_lines(exported(claude, cut).split(b"\n")),
        omp.import_lines(exported(omp, cut).split(b"\n")),
    ):
        last = recalled(back).messages[-1].content[-1]
        assert isinstance(last, ToolResult)
        assert last.output == CUT_OFF


@pytest.mark.parametrize(
    "file",
    [
        [],
        [b"hello"],
        [b"\x00\xff"],
        lines({"type": "user"}),
        lines({"type": "summary", "summary": "x", "leafUuid": "y"}),
        lines({"type": "user", "uuid": "a", "message": "text"}),
        lines({"type": "user", "uuid": "a", "parentUuid": "a", "message": {"content": ""}}),
    ],
)
def test_what_is_no_transcript_of_claude_code_is_refused_with_a_reason(file: list[bytes]) -> None:
    with pytest.raises(WrongFormat, match="message"):
        claude.import_lines(file)


@pytest.mark.parametrize("file", [OMP, CLAUDE], ids=["omp", "claude"])
def test_a_byte_order_mark_before_a_file_is_no_part_of_it(file: list[bytes], tmp_path: Path) -> None:
    plain, marked = tmp_path / "plain.jsonl", tmp_path / "marked.jsonl"
    plain.write_bytes(b"\n".join(file))
    marked.write_bytes(b"\xef\xbb\xbf" + b"\n".join(file))
    assert detect.read(str(marked)) == detect.read(str(plain))


def test_a_session_of_omp_18_begins_with_its_title(tmp_path: Path) -> None:
    path = tmp_path / "-work" / "2026-01-01T00-00-00-000Z_0a1b.jsonl"
    user = {"role": "user", "content": [{"type": "text", "text": "hello"}]}
    lines = [
        {"type": "title", "v": 1, "title": "Greeting", "pad": "  "},
        {"type": "session", "version": 3, "id": "0a1b", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/work"},
        {"type": "message", "id": "m1", "parentId": None, "timestamp": "2026-01-01T00:00:01.000Z", "message": user},
    ]
    path.parent.mkdir()
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    [card] = stored_sessions(str(tmp_path), "/work")
    assert (card.id, card.cwd, card.name, card.messages, card.first) == ("0a1b", "/work", "Greeting", 1, "hello")
    assert stored_sessions(str(tmp_path), "/elsewhere") == []
    assert stored_sessions(str(tmp_path / "none"), "/work") == []
