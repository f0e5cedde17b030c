"""Going on in another session: what ran there is closed first, what was known there is forgotten."""

import asyncio
import os
import threading
from itertools import count
from pathlib import Path
from typing import Any, Literal

import pytest

from doubles import PATIENCE, Act, Hang, Played, Stubborn, Talk, run
from polylect.sessions.folder import LONG
from polylect.sessions.library import FileLibrary
from polylect.sessions.replay import message_text
from polylect.sessions.session import Session
from polylect.sessions.store import FileStore, MemoryStore
from polylect.vocab.answers import ModelCard, Queue, SessionOpened
from polylect.vocab.commands import Answer, Cancel, Configure, Grant, OpenSession, Prompt, Query, Steer
from polylect.vocab.content import Failure, Message, PlanItem, Rule, Text, ToolCall, Usage
from polylect.vocab.entries import Configured, MessageAdded
from polylect.vocab.events import (
    Ask,
    Event,
    Notice,
    PlanChanged,
    Reply,
    SettingChanged,
    Settled,
    ToolStarted,
    TurnEnded,
)
from polylect.vocab.ports import BlockDone, Provider, ReplyDone, ToolContext, ToolReturn

ids = map("e{}".format, count(1))
HANG = [BlockDone(ToolCall("c1", "Hang", {})), ReplyDone("calls")]


def text_reply(text: str, usage: Usage | None = None) -> list[Any]:
    return [BlockDone(Text(text)), ReplyDone("end", usage or Usage())]


class Place:
    """A library and a first session of it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "sessions"
        self.workspace = folder / "w"
        self.workspace.mkdir()
        self.library = FileLibrary(str(self.root), str(self.workspace), ids.__next__)
        self.store = self.library.create()

    def talk(self, conversation: Any, *replies: list[Any], tools: tuple[Act, ...] = (), **more: Any) -> Talk:
        options = {"store": self.store, "library": self.library, **more}
        return run(conversation, self.workspace, Played(*replies), *tools, **options)

    def stored(self, *bodies: Any) -> FileStore:
        store = self.library.create()
        store.append(*bodies)
        store.close()
        return store

    @property
    def names(self) -> set[str]:
        return set(os.listdir(self.root))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def context_texts(talk: Talk) -> list[str]:
    """What the model would see now."""
    return [message_text(message) for message in talk.engine.agent.session.context()]


def user(text: str) -> MessageAdded:
    return MessageAdded(Message("user", (Text(text),)))


def settings(talk: Talk) -> list[tuple[str, Any]]:
    return [(event.key, event.value) for event in talk.of(SettingChanged)]


def test_a_new_session_knows_nothing_of_the_old_one(place: Place) -> None:
    async def conversation(talk: Talk) -> None:
        agent = talk.engine.agent
        talk.send(Prompt("t1", "Hello"), Grant(rule=Rule("tool", "Run")))
        await talk.until(Settled)
        agent.todos, agent.seen = [PlanItem("go on")], {"/a": (1, 2)}
        opened = await talk.answer(OpenSession("new", parent="/s/old", ref="r"))
        session = agent.session
        assert opened == SessionOpened(session.id, session.store.file)
        assert session.id != place.store.session
        assert (context_texts(talk), agent.todos, agent.seen, list(agent.rules)) == ([], (), {}, [])
        assert (agent.meter.usage, agent.compactor.used()) == (Usage(), sum(agent.prompt_tokens()))
        talk.send(Prompt("t2", "Other"))
        await talk.until(TurnEnded, 2)
        assert context_texts(talk) == ["Other", "two"]
        state = await talk.answer(Query("state", ref="q"))
        assert (state.session, state.file, state.messages) == (session.id, session.store.file, 2)

    talk = place.talk(conversation, text_reply("one", Usage(9, 9)), text_reply("two"))
    assert ("session", talk.engine.agent.session.id) in settings(talk)
    assert talk.of(PlanChanged) == [PlanChanged(())]
    old = place.library.resume(place.store.session)
    assert [message_text(message) for message in Session(old).messages] == ["Hello", "one"]
    new = Session(place.library.resume(talk.engine.agent.session.id))
    assert (new.settings, len(new.messages)) == ({"parent": "/s/old"}, 2)


def test_what_runs_is_stopped_and_what_waits_is_dropped_before_the_answer(place: Place) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "Hello"))
        await talk.until(ToolStarted)
        talk.send(Prompt("t2", "Waits"), Steer("soon"), Steer("last", when="last", idle="keep"))
        await talk.answer(OpenSession("new", ref="r"))
        assert [(end.turn, end.reason) for end in talk.of(TurnEnded)] == [("t1", "cancelled"), ("t2", "cancelled")]
        assert await talk.answer(Query("queue", ref="q")) == Queue()
        assert context_texts(talk) == []

    talk = place.talk(conversation, HANG, tools=(Hang(),))
    assert any(notice.text.startswith("2 messages") and "dropped" in notice.text for notice in talk.of(Notice))
    old = Session(place.library.resume(place.store.session))
    assert [message.role for message in old.messages] == ["user", "assistant", "tool"], "T4, and t2 was never said"


def test_T1_a_fork_takes_messages_for_a_turn_that_were_delivered_and_none_that_wait(place: Place) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(Steer("also", idle="keep"), Prompt("t1", "Hello"))
        await talk.until(TurnEnded)
        talk.send(Steer("waits", idle="keep"))
        points = await talk.answer(Query("fork_points", ref="q"))
        assert [point.text for point in points] == ["Hello", "also"]
        await talk.answer(OpenSession("fork", ref="r1"))
        assert context_texts(talk) == ["Hello", "also", "one"]
        opened = await talk.answer(OpenSession("fork", at=points[1].entry, ref="r2"))
        assert (opened.text, context_texts(talk)) == ("also", ["Hello"])

    place.talk(conversation, text_reply("one"))
    old = Session(place.library.resume(place.store.session))
    assert [message_text(message) for message in old.messages] == ["Hello", "also", "one"], "what waited was dropped"


def test_what_is_said_right_after_it_is_said_in_the_new_session(place: Place) -> None:
    """Hosts need not wait for the answer."""

    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "Hello"))
        await talk.until(ToolStarted)
        talk.send(OpenSession("new", ref="r1"), Prompt("t2", "one", ref="r2"), Query("state", ref="r3"))
        talk.send(OpenSession("new", ref="r4"), Prompt("t3", "two", ref="r5"), Cancel("prompt", "nothing", ref="r6"))
        await talk.until(TurnEnded, 3)
        assert context_texts(talk) == ["two", "yes"]

    talk = place.talk(conversation, HANG, text_reply("yes"), tools=(Hang(),))
    assert [reply.ref for reply in talk.of(Reply)] == ["r6", "r1", "r2", "r3", "r4", "r5"]
    ends = [(end.turn, end.reason) for end in talk.of(TurnEnded)]
    assert ends == [("t1", "cancelled"), ("t2", "cancelled"), ("t3", "end")]


def test_a_stop_in_between_does_not_stop_the_change(place: Place) -> None:
    stubborn = Stubborn()

    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "Hello"))
        await talk.until(ToolStarted)
        talk.send(OpenSession("new", ref="r"), Cancel(), Cancel("compaction"))
        await talk.until(SettingChanged)
        stubborn.released.set()

    call = [BlockDone(ToolCall("c1", "Stubborn", {})), ReplyDone("calls")]
    talk = place.talk(conversation, call, tools=(stubborn,), cancel_timeout=0.01)
    assert talk.engine.agent.session.id != place.store.session


@pytest.mark.parametrize("queued", ["keep", "drop"])
def test_a_stop_stops_what_was_said_before_it_for_the_new_session_and_nothing_after_it(
    place: Place, queued: Literal["keep", "drop"]
) -> None:
    def prompt(turn: str) -> Prompt:
        return Prompt(turn, turn, busy="refuse", ref=turn)

    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "Hello"))
        await talk.until(ToolStarted)
        talk.send(OpenSession("new", ref="new"), prompt("t2"), Cancel(queued=queued, ref="stop"), prompt("t3"))
        await talk.until(TurnEnded, 3)

    talk = place.talk(conversation, HANG, text_reply("yes"), tools=(Hang(),))
    assert [(reply.ref, reply.failure) for reply in talk.of(Reply)] == [
        ("stop", None),
        ("new", None),
        ("t2", None),
        ("t3", None),
    ]
    ends = [(end.turn, end.reason) for end in talk.of(TurnEnded)]
    assert ends == [("t1", "cancelled"), ("t2", "cancelled"), ("t3", "end")]


def test_an_ask_that_is_open_is_closed_with_its_turn(place: Place) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "Hello"))
        ask = await talk.until(Ask)
        await talk.answer(OpenSession("new", ref="r"))
        late = await talk.answer(Answer(ask.ask, "allow", ref="a"))
        assert isinstance(late, Failure)

    class Careful(Hang):
        category = "exec"

    place.talk(conversation, [BlockDone(ToolCall("c1", "Careful", {})), ReplyDone("calls")], tools=(Careful(),))


def test_S3_the_old_session_can_be_had_by_others_at_once_and_gone_back_to(place: Place) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "Hello"))
        await talk.until(Settled)
        await talk.answer(OpenSession("new", ref="r"))
        place.library.resume(place.store.session).close()
        back = await talk.answer(OpenSession("resume", target=place.store.file, ref="r"))
        assert back == SessionOpened(place.store.session, place.store.file)
        talk.send(Prompt("t2", "Again"))
        await talk.until(TurnEnded, 2)
        assert context_texts(talk) == ["Hello", "one", "Again", "two"]

    place.talk(conversation, text_reply("one"), text_reply("two"))
    assert place.names == {place.store.session}, "nothing was said in the other"


def test_a_resumed_session_has_its_name_and_its_budget_goes_on(place: Place) -> None:
    other = place.stored(
        Configured({"name": "mine"}), user("Hi"), MessageAdded(Message("assistant", (Text("yes"),), "end", Usage(7, 3)))
    )

    async def conversation(talk: Talk) -> None:
        await talk.answer(OpenSession("load", target=other.session, ref="r"))
        assert talk.engine.agent.meter.usage == Usage(7, 3)
        await talk.answer(OpenSession("new", ref="r"))

    talk = place.talk(conversation)
    [first, *_, last] = settings(talk)
    assert (first, settings(talk)[1]) == (("session", other.session), ("name", "mine"))
    assert last == ("name", "")


class BlobStore:
    """Two models of one service."""

    def cards(self) -> list[ModelCard]:
        return [ModelCard("played", "m"), ModelCard("played", "n")]

    def open(self, provider: str) -> Provider:
        raise LookupError(provider)


@pytest.mark.parametrize(("model", "then"), [("played/n", "n"), ("gone/n", "m")])
def test_the_model_of_a_session_is_used_again_if_it_can_still_be_had(place: Place, model: str, then: str) -> None:
    other = place.stored(Configured({"model": model}), user("Hi"))

    async def conversation(talk: Talk) -> None:
        await talk.answer(OpenSession("resume", target=other.session, ref="r"))
        assert talk.engine.settings.model == then

    assert (("model", "n") in settings(place.talk(conversation, models=BlobStore()))) == (then == "n")


def test_the_session_in_use_can_be_named_too(place: Place) -> None:
    near = os.path.relpath(place.store.file, place.workspace)

    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "Hello"))
        await talk.until(Settled)
        for target in ("latest", place.store.session, place.store.file, os.path.dirname(place.store.file), near):
            opened = await talk.answer(OpenSession("resume", target=target, ref="r"))
            assert opened == SessionOpened(place.store.session, place.store.file)
        assert context_texts(talk) == ["Hello", "one"]

    place.talk(conversation, text_reply("one"))


def test_a_fork_gives_back_the_message_that_it_leaves_out(place: Place) -> None:
    async def conversation(talk: Talk) -> None:
        for number, text in enumerate(("Hello", "Again"), 1):
            talk.send(Prompt(f"t{number}", text))
            await talk.until(Settled, number)
        points = await talk.answer(Query("fork_points", ref="q"))
        opened = await talk.answer(OpenSession("fork", at=points[1].entry, ref="r"))
        assert (opened.text, context_texts(talk)) == ("Again", ["Hello", "one"])
        opened = await talk.answer(OpenSession("fork", target=place.store.session, ref="r"))
        assert (opened.text, context_texts(talk)) == ("", ["Hello", "one", "Again", "two"])

    place.talk(conversation, text_reply("one"), text_reply("two"))
    assert len(place.names) == 3


def test_a_fork_while_a_turn_runs_is_valid_and_so_is_what_it_left(place: Place) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "Hello"))
        await talk.until(ToolStarted)
        await talk.answer(OpenSession("fork", ref="r"))
        talk.send(Prompt("t2", "Then"))
        await talk.until(TurnEnded, 2)

    talk = place.talk(conversation, HANG, text_reply("yes"), tools=(Hang(),))
    roles = [message.role for message in talk.engine.agent.session.messages]
    assert roles == ["user", "assistant", "tool", "user", "assistant"]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (OpenSession("resume", target="nobody", ref="r"), "not found"),
        (OpenSession("resume", ref="r"), "which session"),
        (OpenSession("resume", target="/missing.jsonl", ref="r"), "there is no session file"),
        (OpenSession("fork", at="nowhere", ref="r"), "is not a message of the person's"),
        (OpenSession("new", cwd="/", ref="r"), "this engine works in"),
        (OpenSession("resume", target="a\0b", ref="r"), "holds a NUL"),
        (OpenSession("new", cwd="a\0b", ref="r"), "holds a NUL"),
    ],
)
def test_L2_what_cannot_be_opened_is_refused_and_the_turn_goes_on(
    place: Place, command: OpenSession, reason: str
) -> None:
    class Wait(Act):
        async def work(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
            refused = await talks[0].answer(command)
            assert isinstance(refused, Failure)
            assert reason in refused.message
            return ToolReturn("still here")

    talks: list[Talk] = []

    async def conversation(talk: Talk) -> None:
        talks.append(talk)
        talk.send(Prompt("t1", "Hello"), Prompt("t2", "Again"))
        await talk.until(TurnEnded, 2)
        assert talk.engine.agent.session.id == place.store.session

    call = [BlockDone(ToolCall("c1", "Wait", {})), ReplyDone("calls")]
    talk = place.talk(conversation, call, text_reply("one"), text_reply("two"), tools=(Wait(),), allow_list=("Wait",))
    assert [end.reason for end in talk.of(TurnEnded)] == ["end", "end"]
    assert "still here" in str(talk.messages)
    assert place.names == {place.store.session}


def test_without_sessions_a_new_one_works_and_others_are_refused(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "Hello"))
        await talk.until(Settled)
        for how in ("resume", "load", "fork"):
            refused = await talk.answer(OpenSession(how, target="x", ref="r"))
            assert "not kept" in refused.message
        opened = await talk.answer(OpenSession("new", ref="r"))
        assert opened.session
        assert (opened.file, context_texts(talk)) == ("", [])

    run(conversation, tmp_path, Played(text_reply("one")), store=MemoryStore(str(tmp_path)))


class Server(Hang):
    """Leaves something running until the session is left."""

    left = 0

    async def leave_session(self) -> None:
        self.left += 1


def test_P1_what_tools_left_running_ends_with_the_session_it_was_started_in(place: Place) -> None:
    tool = Server()

    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "Hello"))
        await talk.until(TurnEnded)
        await talk.answer(OpenSession("resume", talk.session.id, ref="same"))
        assert tool.left == 0
        await talk.answer(OpenSession("new", ref="another"))
        assert tool.left == 1

    place.talk(conversation, text_reply("one"), tools=(tool,))


def test_agents_in_the_background_end_with_the_session_that_they_worked_for(place: Place) -> None:
    tasks = {"tasks": [{"name": "look", "prompt": "Look"}], "background": True}

    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "Hello"))
        await talk.until(TurnEnded)
        await talk.until(ToolStarted, 2)
        await talk.answer(OpenSession("new", ref="r"))
        assert await talk.answer(Query("agents", ref="q")) == ()
        assert not talk.engine.running_agents.closed

    spawn = [BlockDone(ToolCall("c0", "Spawn", tasks)), ReplyDone("calls")]
    talk = place.talk(conversation, spawn, HANG, text_reply("started"), tools=(Hang(),), mode="force")
    assert len(talk.of(TurnEnded)) == 1, "its report starts no turn in a conversation that never heard of it"


def test_settings_that_wait_for_the_turn_s_end_are_set_in_the_new_session_too(place: Place) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "Hello"))
        await talk.until(ToolStarted)
        talk.send(Configure({"max_tokens": 7}))
        await talk.answer(OpenSession("new", ref="r"))
        assert talk.engine.settings.max_tokens == 7

    place.talk(conversation, HANG, tools=(Hang(),))


def test_an_engine_that_closes_while_another_session_is_opened_lets_go_of_both(place: Place) -> None:
    async def conversation() -> None:
        talk = Talk(place.workspace, Played(HANG), Hang(), store=place.store, library=place.library)
        talk.send(Prompt("t1", "Hello"))
        await talk.until(ToolStarted)
        talk.send(OpenSession("new", ref="r"), Prompt("t2", "Never"))
        await talk.end()
        place.library.resume(place.store.session).close()

    asyncio.run(asyncio.wait_for(conversation(), PATIENCE))
    assert place.names == {place.store.session}


def test_what_an_earlier_process_put_aside_may_be_read_without_asking(place: Place) -> None:
    place.store.append(user("Hi"))
    path = place.store.spill("long")
    place.store.append(MessageAdded(Message("user", (Text(path),))))
    fork = place.library.fork(place.store)
    own = fork.spill("longer")

    async def conversation(talk: Talk) -> None:
        granted = {rule.value for rule in talk.engine.agent.rules}
        assert granted == {os.path.dirname(path), os.path.dirname(own)}
        assert not any(rule.write for rule in talk.engine.agent.rules)

    place.talk(conversation, store=fork)


def test_nobody_is_asked_for_an_event(place: Place) -> None:
    """A host that only listens hears the same."""
    events: list[Event] = []

    async def conversation(talk: Talk) -> None:
        talk.send(OpenSession("new"))
        events.append(await talk.until(SettingChanged))

    place.talk(conversation)
    assert isinstance(events[0], SettingChanged)


class Gated(FileLibrary):
    """Every session of it is long, and none is read before `gate` is open."""

    def __init__(self, place: Place) -> None:
        super().__init__(str(place.root), str(place.workspace), ids.__next__)
        self.gate = threading.Event()

    def bytes_to_read(self, target: str) -> int:
        return super().bytes_to_read(target) and LONG + 1

    def resume(self, target: str) -> FileStore:
        assert self.gate.wait(PATIENCE)
        return super().resume(target)


def test_L4_whoever_speaks_is_heard_while_a_long_session_is_read(place: Place) -> None:
    other = place.stored(MessageAdded(Message("user", (Text("before"),))))
    library = Gated(place)

    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "go"))
        await talk.until(ToolStarted)
        talk.send(OpenSession("resume", target=other.session, ref="o"), Prompt("t2", "there", ref="p"))
        assert await talk.answer(Cancel(ref="c")) is None
        assert await talk.until(TurnEnded) == TurnEnded("cancelled", steps=1, turn="t1")
        assert [reply.ref for reply in talk.of(Reply)] == ["c"]
        library.gate.set()
        await talk.until(TurnEnded, 2)

    talk = place.talk(conversation, HANG, text_reply("hello"), tools=(Hang(),), library=library)
    assert [(reply.ref, reply.failure) for reply in talk.of(Reply)] == [("c", None), ("o", None), ("p", None)]
    assert talk.engine.agent.session.id == other.session


def test_L4_a_long_session_that_cannot_be_had_is_refused_and_what_was_held_goes_on_here(place: Place) -> None:
    other = place.stored(MessageAdded(Message("user", (Text("before"),))))
    library = Gated(place)
    held = library.resume

    async def conversation(talk: Talk) -> None:
        library.gate.set()
        lock = held(other.session)
        talk.send(OpenSession("resume", target=other.session, ref="o"), Prompt("t1", "here", ref="p"))
        await talk.until(TurnEnded)
        lock.close()

    talk = place.talk(conversation, text_reply("hello"), library=library)
    refused, taken = talk.of(Reply)
    assert refused.failure is not None
    assert "is in use by process" in refused.failure.message
    assert (taken.ref, taken.failure) == ("p", None)
    assert talk.engine.agent.session.store is place.store


def test_L4_an_engine_that_closes_meanwhile_lets_go_of_it(place: Place) -> None:
    other = place.stored(MessageAdded(Message("user", (Text("before"),))))
    library = Gated(place)

    async def whole() -> None:
        talk = Talk(place.workspace, Played(), store=place.store, library=library)
        talk.send(OpenSession("resume", target=other.session, ref="o"))
        await talk.engine.close()
        reading = asyncio.all_tasks() - {asyncio.current_task()}
        library.gate.set()
        await asyncio.wait(reading, timeout=PATIENCE)
        await asyncio.sleep(0)
        place.library.resume(other.session).close()

    asyncio.run(whole())
