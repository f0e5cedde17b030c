"""What is kept of a conversation, and what the next process makes of it (S1, T1, T4)."""

import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from doubles import Crash, Echo, Log, Part, Played, Run, Talk, check_history, converse, run
from polylect.providers.scripted import Scripted
from polylect.sessions import folder
from polylect.sessions.replay import CUT_OFF
from polylect.sessions.session import Session
from polylect.sessions.store import FileStore, MemoryStore
from polylect.vocab.answers import ShellResult
from polylect.vocab.commands import AddContext, Answer, Cancel, Prompt
from polylect.vocab.content import Message, Text, ToolCall, ToolResult, Usage
from polylect.vocab.entries import Body, Compacted, Configured, Entry, MessageAdded, Opened, TurnClosed, TurnOpened
from polylect.vocab.errors import SessionError
from polylect.vocab.events import Ask, Event, Reply, Settled, TurnEnded
from polylect.vocab.ports import BlockDone, ReplyDone

HELLO = Prompt("t1", "Hello")
ids = map(str, count(1))


def opened(root: Path) -> FileStore:
    """The log of the session, new or old."""
    new = not log_of(root).exists() or not log_of(root).stat().st_size
    place = (folder.create if new else folder.resume)(str(root), "s1", "/w")
    return FileStore(place, cwd="/w", new_id=ids.__next__)


def read_back(root: Path) -> Session:
    store = opened(root)
    session = Session(store)
    store.close()
    return session


def log_of(root: Path) -> Path:
    return root / "s1" / "log.jsonl"


def conversation_with_everything(root: Path) -> list[Message]:
    """Two turns with calls, one denied, a steer, a context, a prompt that was cancelled."""

    def host(event: Event) -> Answer | None:
        return Answer(event.ask, "deny") if isinstance(event, Ask) else None

    steps = [
        [{"text": "Hi"}, {"call": "Echo", "id": "c1", "args": {"text": "ä\u2028"}}, {"call": "Run", "id": "c2"}],
        [{"call": "Crash", "id": "c3"}],
        "done",
    ]

    async def conversation(talk: Talk) -> None:
        talk.send(AddContext("before"), HELLO, Prompt("t2", "Again"))
        talk.send(Prompt("t3", "Never"), Cancel("prompt", "t3"))

    model = Scripted.in_order(steps, "bye")
    talk = run(conversation, root, model, Echo(), Run(), Crash(), host=host, store=opened(root))
    return talk.messages


# On disk.


def test_T1_a_prompt_is_in_the_log_before_it_is_acknowledged_and_synced_before_its_end_is_told(tmp_path: Path) -> None:
    seen: list[tuple[str, int]] = []

    def host(event: Event) -> None:
        if isinstance(event, Reply | TurnEnded):
            seen.append((type(event).__name__, log_of(tmp_path).read_bytes().count(b"\n")))

    talk = converse(
        tmp_path, Scripted.in_order("Hi"), [Prompt("t1", "Hello", ref="r1")], host=host, store=opened(tmp_path)
    )
    assert seen == [("Reply", 2), ("TurnEnded", 5)]  # opened, said; then turn opened, said, turn closed
    assert talk.story[-1] == "settled"


def test_S1_the_log_is_synced_before_the_end_of_a_turn_is_told(tmp_path: Path) -> None:
    store = Log()

    def host(event: Event) -> None:
        if isinstance(event, TurnEnded):
            assert isinstance(store.bodies[-1], TurnClosed)
            assert store.synced == len(store.written)

    converse(tmp_path, Scripted.in_order("Hi"), [HELLO], host=host, store=store)
    assert store.bodies[0] == MessageAdded(Message("user", (Text("Hello"),)), "t1")


def test_each_entry_names_the_one_before_it_also_after_a_restart(tmp_path: Path) -> None:
    conversation_with_everything(tmp_path)
    converse(tmp_path, Played([ReplyDone("end")]), [Prompt("t9", "More")], store=opened(tmp_path))
    entries = read_back(tmp_path).store.entries
    assert isinstance(entries[0].body, Opened)
    assert sum(isinstance(entry.body, Opened) for entry in entries) == 1
    assert [entry.parent for entry in entries] == ["", *(entry.id for entry in entries[:-1])]


def test_S1_a_session_read_back_is_the_session_that_was_written(tmp_path: Path) -> None:
    messages = conversation_with_everything(tmp_path)
    session = read_back(tmp_path)
    assert session.messages == messages
    assert session.contexts == ["before"]
    assert session.calls == {"c1", "c2", "c3"}
    assert session.usage.tokens == sum(message.usage.tokens for message in messages if message.usage)
    assert all("Never" not in str(message) for message in messages)


def test_S1_a_log_cut_at_any_byte_can_be_read_and_gone_on_with(tmp_path: Path) -> None:
    """As a kill or a power cut leaves it. Where the same lines are whole, the same is known."""
    model = Played([BlockDone(ToolCall("c1", "Echo", {"text": "ä"})), ReplyDone("calls")], [ReplyDone("end", Usage(1))])
    messages = converse(tmp_path, model, [HELLO], Echo(), store=opened(tmp_path)).messages
    whole = log_of(tmp_path).read_bytes()
    known: dict[int, list[Message]] = {}
    for size in range(len(whole) + 1):
        log_of(tmp_path).write_bytes(whole[:size])
        store = opened(tmp_path)
        loaded = Session(store).messages
        check_history(loaded)
        assert loaded == known.setdefault(
            whole.count(b"\n", 0, size + 1), loaded
        )  # one that lacks only its end is whole
        store.append(TurnOpened("x"))
        store.close()
    assert known[0] == []
    assert known[whole.count(b"\n")] == messages


def test_S1_after_a_cut_at_any_line_the_conversation_goes_on(tmp_path: Path) -> None:
    conversation_with_everything(tmp_path)
    lines = log_of(tmp_path).read_bytes().splitlines(keepends=True)
    for number in range(1, len(lines)):
        log_of(tmp_path).write_bytes(b"".join(lines[:number]) + lines[number][:20])
        talk = converse(tmp_path, Played([ReplyDone("end")]), [Prompt("t9", "More")], store=opened(tmp_path))
        assert talk.story[-2:] == ["turn_ended t9 end 1", "settled"]
        assert read_back(tmp_path).messages == talk.messages


def test_S1_a_damaged_line_anywhere_loses_that_line_and_keeps_history_valid(tmp_path: Path) -> None:
    conversation_with_everything(tmp_path)
    lines = log_of(tmp_path).read_bytes().splitlines(keepends=True)
    for number in range(len(lines)):
        damaged = [*lines[:number], b'{"id":"\xff\n', *lines[number + 1 :]]
        log_of(tmp_path).write_bytes(b"".join(damaged))
        store = opened(tmp_path)
        check_history(Session(store).messages)
        assert store.damaged == 1
        store.close()


def test_S1_a_log_of_which_nothing_can_be_read_is_not_thrown_away(tmp_path: Path) -> None:
    """It may come from a newer version."""
    conversation_with_everything(tmp_path)
    strange = b'{"id":"1","parent":"","at":0,"body":{"type":"opened_anew"}}\n{"id":"2","par'
    log_of(tmp_path).write_bytes(strange)
    with pytest.raises(SessionError, match="none of the 2 lines of its log can be read"):
        opened(tmp_path)
    assert log_of(tmp_path).read_bytes() == strange
    folder.resume(str(tmp_path), "s1", "/w").close()  # and the refusal has let go of it


@pytest.mark.parametrize(
    "first",
    [
        '{"id":"1","parent":"","at":0,"body":{"type":"opened","session":"s1","cwd":"/w","version":2}}',
        '{"id":"1","parent":"","at":0,"body":{"type":"opened","title":"changed","version":2}}',
    ],
    ids=["same shape", "another shape"],
)
def test_S1_a_log_of_a_later_version_is_refused_with_a_reason_and_left_alone(tmp_path: Path, first: str) -> None:
    conversation_with_everything(tmp_path)
    lines = log_of(tmp_path).read_bytes().splitlines(keepends=True)
    later = first.encode() + b"\n" + b"".join(lines[1:]) + b'{"id":"torn'
    log_of(tmp_path).write_bytes(later)
    with pytest.raises(SessionError, match=r"version 2, this one knows 1\)\. Update polylect"):
        opened(tmp_path)
    assert log_of(tmp_path).read_bytes() == later


def test_S1_entries_of_unknown_kinds_stay_where_they_are(tmp_path: Path) -> None:
    conversation_with_everything(tmp_path)
    before = log_of(tmp_path).read_bytes()
    strange = before + b'{"id":"x","parent":"y","at":0,"body":{"type":"painted","colour":"red"}}\n'
    log_of(tmp_path).write_bytes(strange)
    talk = converse(tmp_path, Played([ReplyDone("end")]), [Prompt("t9", "More")], store=opened(tmp_path))
    assert log_of(tmp_path).read_bytes().startswith(strange)
    assert read_back(tmp_path).messages == talk.messages


def test_S1_a_line_that_was_changed_by_hand_is_no_reason_to_refuse_the_session() -> None:
    odd: list[dict[str, Any]] = [{"at_work": [1]}, {"at_work": {"a": 1}}, {"suspended": "x"}, {"suspended": {"c1": 5}}]
    call = Message("assistant", (ToolCall("c1", "Script", {}),))
    log = Log()
    log.append(*map(Configured, odd), Compacted("all of it", -3, 10), MessageAdded(call, "t1"))
    session = Session(log.read_back())
    assert session.context()[0] == call
    assert session.context()[1].content == (ToolResult("c1", "Script", CUT_OFF, "cancelled"),)


def test_a_session_in_which_nothing_was_said_leaves_nothing_behind(tmp_path: Path) -> None:
    opened(tmp_path).close()
    assert list(tmp_path.iterdir()) == []


@contextmanager
def disk_of(size: int) -> Iterator[None]:
    """No file can grow beyond this: the kernel writes what fits and refuses the rest, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_S1_what_a_full_disk_leaves_half_written_is_taken_back(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.append(TurnOpened("t1"))
    before = log_of(tmp_path).read_bytes()
    with disk_of(len(before) + 10), pytest.raises(SessionError, match="cannot write the session log"):
        store.append(TurnOpened("t2"), TurnOpened("t3"))
    assert log_of(tmp_path).read_bytes() == before
    store.append(TurnOpened("t4"))
    store.close()
    bodies = [entry.body for entry in read_back(tmp_path).store.entries]
    assert bodies == [Opened("s1", "/w"), TurnOpened("t1"), TurnOpened("t4")]


def test_L1_a_real_full_disk_refuses_the_prompt_or_ends_its_turn_and_the_log_stays_readable(tmp_path: Path) -> None:
    conversation_with_everything(tmp_path)
    start = log_of(tmp_path).read_bytes()
    for room in range(0, 600, 60):
        log_of(tmp_path).write_bytes(start)
        with disk_of(len(start) + room):
            talk = converse(
                tmp_path, Played([BlockDone(Text("Hi")), ReplyDone("end")]), [HELLO], store=opened(tmp_path)
            )
        assert len(talk.of(Settled)) == len(talk.of(TurnEnded)) <= 1
        failures = [event.failure for event in (*talk.of(TurnEnded), *talk.of(Reply)) if event.failure]
        assert {(failure.code, failure.owner) for failure in failures} <= {("storage", "user")}
        session = read_back(tmp_path)
        assert isinstance(session.store, FileStore)
        assert session.store.damaged == 0
        check_history(session.messages)


def test_long_output_is_kept_beside_the_log_or_in_a_file_of_its_own(tmp_path: Path) -> None:
    store = opened(tmp_path)
    path = Path(store.spill("long \ud800"))
    assert path.parent == tmp_path / "s1" / "spill"
    assert path.read_text() == "long ?"
    memory = MemoryStore(str(tmp_path))
    assert Path(memory.spill("long")).read_text() == "long"


# Read back after a crash.


def log(*bodies: Body) -> Log:
    return Log([Entry(str(number), "", 0, body) for number, body in enumerate(bodies)])


def user(text: str) -> Message:
    return Message("user", (Text(text),))


CALLING = Message("assistant", (ToolCall("c1", "Run", {}), ToolCall("c2", "Run", {})), "calls", Usage(1, 1))
RESULTS = Message(
    "tool", (ToolResult("c1", "Run", CUT_OFF, "cancelled"), ToolResult("c2", "Run", CUT_OFF, "cancelled"))
)


@pytest.mark.parametrize(
    ("bodies", "messages"),
    [
        ([], []),
        ([MessageAdded(user("a"), "t1")], [user("a")]),
        ([MessageAdded(user("a"), "t1"), TurnClosed("t1", "cancelled")], []),
        ([MessageAdded(user("a"), "t1"), TurnOpened("t1"), TurnClosed("t1", "cancelled")], [user("a")]),
        ([MessageAdded(user("a"), "t1"), TurnOpened("t1"), MessageAdded(user("b"))], [user("a"), user("b")]),
        (
            [
                MessageAdded(user("a"), "t1"),
                MessageAdded(user("b"), "t2"),
                TurnOpened("t1"),
                MessageAdded(CALLING, "t1"),
            ],
            [user("a"), CALLING, RESULTS, user("b")],
        ),
        (
            [MessageAdded(user("a"), "t1"), TurnOpened("t1"), MessageAdded(CALLING, "t1"), MessageAdded(user("b"))],
            [user("a"), CALLING, RESULTS, user("b")],
        ),
        ([MessageAdded(user("a"), "t1"), TurnOpened("t1"), MessageAdded(RESULTS)], [user("a")]),
        ([TurnOpened("t1"), TurnClosed("t1", "end")], []),
    ],
    ids=["empty", "waiting", "taken back", "stopped", "steered", "in a call", "no results", "no calls", "no prompt"],
)
def test_T4_a_log_that_ends_anywhere_reads_as_a_valid_history_and_the_repair_is_stored(
    bodies: Sequence[Body], messages: list[Message]
) -> None:
    store = log(*bodies)
    session = Session(store)
    assert session.messages == messages
    check_history(session.messages)
    assert Session(store.read_back()).messages == messages


def test_T5_a_model_call_read_back_counts_once(tmp_path: Path) -> None:
    said = Message("assistant", (Text("a"),), "end", Usage(7, 3))
    assert Session(
        log(MessageAdded(said, "t1", "r1"), MessageAdded(said, "t2", "r1"), MessageAdded(said, "t3"))
    ).usage == Usage(14, 6)


def test_T5_a_server_that_repeats_its_ids_hides_no_usage_also_after_a_resume(tmp_path: Path) -> None:
    for number in range(1, 4):
        model = Played([ReplyDone("end", Usage(7, 3), "r1")], [ReplyDone("end", Usage(7, 3), "r1")])
        prompts = [HELLO, Prompt("t2", "again")]
        talk = converse(tmp_path, model, prompts, store=opened(tmp_path))
        assert talk.session.usage == Usage(14 * number, 6 * number)
        assert read_back(tmp_path).usage == Usage(14 * number, 6 * number)


def test_T4_after_a_resume_no_call_id_comes_again(tmp_path: Path) -> None:
    reply: list[Part] = [BlockDone(ToolCall("call_0", "Echo", {})), ReplyDone("calls")]
    first = converse(tmp_path, Played(reply, [ReplyDone("end")]), [HELLO], Echo(), store=opened(tmp_path))
    model = Played(reply, [ReplyDone("end")])
    second = converse(tmp_path, model, [Prompt("t2", "Again")], Echo(), store=opened(tmp_path))
    assert model.requests[0].messages[: len(first.messages)] == tuple(first.messages)
    assert "tool_called call_0-2 Echo info" in second.story


# Commands of the person's own.


def test_what_the_person_ran_is_part_of_the_conversation_and_is_read_back(tmp_path: Path) -> None:
    store = opened(tmp_path)
    session = Session(store)
    session.add_shell_result(ShellResult("ls", "a.py\n```\n", 2, truncated=True, path="/s/x.txt"))
    session.add_shell_result(ShellResult("true", "", 0))
    session.add_shell_result(ShellResult("sleep 9", "z", cancelled=True))
    store.close()
    blocks = [message.content for message in session.messages]
    assert blocks == [
        (
            Text(
                "I ran this command myself: ls\n````\na.py\n```\n````\nIt ended with the exit code 2.\n"
                "This is only its end. All of it is in /s/x.txt"
            ),
        ),
        (Text("I ran this command myself: true\n(no output)"),),
        (Text("I ran this command myself: sleep 9\n```\nz\n```\nI stopped it before it ended."),),
    ]
    assert read_back(tmp_path).messages == session.messages
