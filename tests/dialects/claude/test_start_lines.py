"""Going on after a line of the model's own: `--resume-session-at` (claude's wire)."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from doubles import Echo, Played, converse
from engine_process import Place
from polylect.dialects.claude.engine.codec import EngineSide
from polylect.dialects.claude.engine.line_writer import PIECE
from polylect.dialects.claude.start_lines import go_back, line_id
from polylect.embed import ENV
from polylect.sessions import folder
from polylect.sessions.library import FileLibrary
from polylect.sessions.replay import Replay
from polylect.sessions.session import Session
from polylect.sessions.store import FileStore
from polylect.vocab.commands import Prompt
from polylect.vocab.content import Message, Text, Thinking, ToolCall, Usage
from polylect.vocab.errors import SessionError
from polylect.vocab.events import Event
from polylect.vocab.ports import BlockDone, ReplyDone, TextChunk

CALLS = (ToolCall("c1", "Echo", {"text": "a"}), ToolCall("c2", "Echo", {"text": "b"}))
REPLIES = [
    [
        BlockDone(Thinking("Let me see", "sig")),
        BlockDone(Thinking("", "", "sealed")),
        BlockDone(Text("")),
        BlockDone(Text("I look.")),
        *map(BlockDone, CALLS),
        ReplyDone("calls", Usage(10, 1), "r1"),
    ],
    [TextChunk("So "), TextChunk("far."), BlockDone(Text("So far.")), ReplyDone("end", Usage(20, 2), "r2")],
    [BlockDone(Text("x" * (PIECE + 1))), BlockDone(Text("Same.")), BlockDone(Text("Same.")), ReplyDone("end")],
]
TOLD = ["Let me see", "sealed", "I look.", "c1", "c2", "So far.", "x", "x", "Same.", "Same."]


def opened(root: Path) -> FileStore:
    return FileStore(folder.resume(str(root), "s1", "/w"), cwd="/w", new_id=ENV.new_id)


def conversation(root: Path) -> list[Event]:
    store = FileStore(folder.create(str(root), "s1", "/w"), cwd="/w", new_id=ENV.new_id)
    prompts = [Prompt("t1", "Look"), Prompt("t2", "On")]
    return converse(root, Played(*REPLIES), prompts, Echo(), store=store).events


def lines(events: list[Event]) -> list[tuple[str, dict[str, Any]]]:
    """What the model said on the wire: the ids, and the blocks."""
    codec = EngineSide(ENV, line_id=line_id)
    for event in events:
        codec.send(event)
    frames = map(json.loads, codec.data_to_send().splitlines())
    result = [(frame["uuid"], frame["message"]["content"][0]) for frame in frames if frame["type"] == "assistant"]
    return [(uuid, block) for uuid, block in result if block != {"type": "text", "text": ""}]


def ends(messages: list[Message]) -> str:
    """How the last words of the model end."""
    match [message for message in messages if message.role == "assistant"][-1].content[-1]:
        case ToolCall(call):
            return call
        case Thinking(text, _, redacted):
            return redacted or text
        case Text(text):
            return text
    raise AssertionError


def test_every_line_of_the_model_can_be_gone_back_to(tmp_path: Path) -> None:
    result = lines(conversation(tmp_path / "a"))
    assert len({uuid for uuid, _ in result}) == len(result) == len(TOLD)
    for number, (uuid, block) in enumerate(result):
        shutil.rmtree(tmp_path / "b", ignore_errors=True)
        shutil.copytree(tmp_path / "a", tmp_path / "b")
        store = opened(tmp_path / "b")
        go_back(store, uuid)
        session = Session(store)
        assert ends(session.messages).startswith(TOLD[number]), block
        assert len(session.messages) == (3 if number < 5 else 4 if number == 5 else 6) - (number < 3)
        assert session.usage == Usage(30, 3)  # what was left behind was paid for
        store.close()
        again = opened(tmp_path / "b")
        assert Session(again).messages == session.messages
        again.close()


def test_what_is_said_then_follows_it_and_the_other_branch_can_be_gone_back_to(tmp_path: Path) -> None:
    result = dict.fromkeys(uuid for uuid, _ in lines(conversation(tmp_path)))
    first, last = list(result)[2], list(result)[-1]
    before = opened(tmp_path)
    everything = Session(before).messages
    go_back(before, first)
    reply = [BlockDone(Text("Otherwise.")), ReplyDone("end")]
    talk = converse(tmp_path, Played(reply), [Prompt("t3", "Or?")], store=before)
    assert [message.role for message in talk.messages] == ["user", "assistant", "user", "assistant"]
    there = opened(tmp_path)
    assert Session(there).messages == talk.messages
    go_back(there, last)
    assert Session(there).messages == everything
    there.close()


def test_a_fork_of_a_session_with_branches_takes_the_current_one_along(tmp_path: Path) -> None:
    first = lines(conversation(tmp_path))[5][0]
    store = opened(tmp_path)
    go_back(store, first)
    talk = converse(tmp_path, Played([BlockDone(Text("A")), ReplyDone("end")]), [Prompt("t3", "Or?")], store=store)
    library = FileLibrary(str(tmp_path), "/w", ENV.new_id)
    session = opened(tmp_path)
    fork = library.fork(session)
    assert Session(fork).messages == talk.messages
    point = Replay(session.entries).fork_points()[-1]
    before = library.fork(session, point.entry)
    assert (point.text, Session(before).messages) == ("Or?", talk.messages[:-2])
    go_back(fork, first)
    assert Session(fork).messages == talk.messages[:-2]
    for one in (session, fork, before):
        one.close()


def test_an_id_that_nobody_told_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    conversation(tmp_path)
    log = tmp_path / "s1" / "log.jsonl"
    before = log.read_bytes()
    store = opened(tmp_path)
    with pytest.raises(SessionError, match="--resume-session-at: there is no message 'nope' in this session"):
        go_back(store, "nope")
    store.close()
    assert log.read_bytes() == before


def test_ids_are_uuids_and_none_comes_twice_however_turns_are_named() -> None:
    turns = [*map(str, range(50)), *(f"00000000-0000-4000-8000-{number:012}" for number in range(50))]
    ids = {line_id(turn, number, words) for turn in turns for number in range(50) for words in ("a", "b", "")}
    assert len(ids) == 100 * 50 * 3
    assert all(folder.path_of("", id) and [len(part) for part in id.split("-")] == [8, 4, 4, 4, 12] for id in ids)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path) as place:
        yield place


def ask(place: Place, prompt: str, *flags: str, code: int = 0) -> list[dict[str, Any]]:
    wire = ("--output-format", "stream-json", "--input-format", "stream-json", "--verbose")
    line = {"type": "user", "message": {"role": "user", "content": prompt}}
    script = place.script('[[reply]]\ntext = "Turn {turn}: {prompt}"')
    done = place.run(*wire, *script, *flags, given=json.dumps(line).encode() + b"\n")
    assert done.code == code, done.errors
    return done.frames


def test_on_the_wire_the_conversation_goes_on_after_that_message(place: Place) -> None:
    first = ask(place, "one")
    session = first[0]["session_id"]
    ask(place, "two", "--resume", session)
    [uuid] = [frame["uuid"] for frame in first if frame["type"] == "assistant"]
    again = ask(place, "other", "--resume", session, "--resume-session-at", uuid)
    assert (again[-1]["result"], again[-1]["session_id"]) == ("Turn 2: other", session)
    assert ask(place, "on", "--resume", session)[-1]["result"] == "Turn 3: on"
    fork = ask(place, "apart", "--resume", session, "--fork-session", "--resume-session-at", uuid)
    assert fork[-1]["result"] == "Turn 2: apart"
    assert fork[-1]["session_id"] != session
    [refused] = ask(place, "no", "--resume", session, "--resume-session-at", "nope", code=1)
    assert refused["type"] == "result"
    assert "there is no message 'nope'" in refused["errors"][0]
