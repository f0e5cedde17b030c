"""Questions that change nothing: each is answered with what vocab/answers.py says, also while a turn runs."""

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from doubles import Echo, Hang, Played, Run, Talk, run
from polylect import __version__
from polylect.sessions.replay import shell_message
from polylect.sessions.store import MemoryStore
from polylect.vocab.answers import (
    AgentCard,
    ForkPoint,
    Item,
    Ledger,
    ModelCard,
    Queue,
    ShellResult,
    State,
    Stats,
)
from polylect.vocab.commands import AddContext, Compact, Configure, Grant, Prompt, Query, Steer
from polylect.vocab.content import Failure, Message, Rule, Text, ToolCall, ToolResult, Usage
from polylect.vocab.events import AgentStarted, CompactionEnded, Settled, ToolStarted
from polylect.vocab.ports import BlockDone, ModelInfo, Provider, ReplyDone, TextChunk

LS = ShellResult("ls", "a.py\n", 0, lines=1, size=5)
USED = Usage(10, 5, cost=0.5)
CALL = ToolCall("c1", "Echo", {"text": "ä"})


class Listed:
    """Two models, and nobody else to ask."""

    def cards(self) -> list[ModelCard]:
        return [ModelCard("played", "m", window=1000, prices=(1.0, 2.0)), ModelCard("played", "n")]

    def open(self, provider: str) -> Provider:
        raise LookupError(provider)


def reply(text: str, usage: Usage = USED, request: str = "") -> list[Any]:
    return [TextChunk(text), BlockDone(Text(text)), ReplyDone("end", usage, request, "m")]


def requested(folder: Path, model: Provider, what: str, *prompts: str, **args: Any) -> Any:
    """The answer after these prompts."""
    actual: list[Any] = []

    async def conversation(talk: Talk) -> None:
        for number, prompt in enumerate(prompts, 1):
            talk.send(Prompt(f"t{number}", prompt))
            await talk.until(Settled, number)
        actual.append(await talk.answer(Query(what, args, ref="q")))

    run(conversation, folder, model, Echo(), store=MemoryStore(str(folder), "s1"), models=Listed())
    return actual[0]


def user(text: str) -> Message:
    return Message("user", (Text(text),))


def test_the_state_names_everything_that_is_set(tmp_path: Path) -> None:
    state = requested(tmp_path, Played(reply("Hi")), "state", "Hello")
    assert state.context > 0
    assert replace(state, context=None) == State(
        session="s1", model="m", mode="default", messages=2, provider="played", card=Listed().cards()[0], settled=True
    )


def test_a_model_that_nobody_lists_has_what_its_service_knows_of_it(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        state = await talk.answer(Query("state", ref="q"))
        assert state.card == ModelCard("played", "m", window=9, thinking=True, effort_levels=("low",))
        assert state.thinking == "off"
        assert await talk.answer(Query("thinking_levels", ref="q")) == ("off", "low")

    info = ModelInfo("m", 9, thinking=True, effort_levels=("low",))
    run(conversation, tmp_path, Played(infos=[info]))


def test_the_state_is_told_while_a_turn_runs_and_messages_wait(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "Hello"))
        await talk.until(ToolStarted)
        talk.send(Prompt("t2", "More"), Steer("and this"), Steer("then that", when="last"))
        state = await talk.answer(Query("state", ref="q"))
        assert (state.busy, state.compacting, state.queued, state.settled) == (True, False, 3, False)
        assert await talk.answer(Query("queue", ref="q")) == Queue(("t2",), ("and this",), ("then that",))

    async def cut_short(talk: Talk) -> None:
        await conversation(talk)
        await talk.engine.close()

    run(cut_short, tmp_path, Played([BlockDone(ToolCall("c1", "Hang", {})), ReplyDone("calls")]), Hang())


def test_messages_come_with_their_place_in_the_log(tmp_path: Path) -> None:
    steps = [BlockDone(CALL), ReplyDone("calls", request="r1")]
    items = requested(tmp_path, Played(steps, reply("Hi", request="r2")), "messages", "Hello")
    assert [(item.message.role, item.kind, item.request) for item in items] == [
        ("user", "message", ""),
        ("assistant", "message", "r1"),
        ("tool", "message", ""),
        ("assistant", "message", "r2"),
    ]
    assert items[2].message.content == (ToolResult("c1", "Echo", "ä"),)
    assert len({item.id for item in items}) == 4
    assert all(item.at > 1_700_000_000_000 for item in items)


def test_a_command_of_the_person_s_own_is_an_item_of_its_own_kind(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.session.add_shell_result(LS)
        [item] = await talk.answer(Query("messages", ref="q"))
        assert item == Item(item.id, item.at, shell_message(LS), "shell", LS)
        assert await talk.answer(Query("fork_points", ref="q")) == ()
        assert (await talk.answer(Query("stats", ref="q"))).users == 0

    run(conversation, tmp_path, Played(), store=MemoryStore(str(tmp_path)))


def test_after_a_compaction_the_messages_are_the_summary_and_what_was_kept(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        for number in (1, 2):
            talk.send(Prompt(f"t{number}", "word " * 100))
            await talk.until(Settled, number)
        talk.send(Compact())
        await talk.until(CompactionEnded)
        summary, *stored = await talk.answer(Query("messages", ref="q"))
        assert (summary.kind, summary.message) == ("summary", user("All that was."))
        assert summary.before > 0
        assert [item.message for item in stored] == talk.messages[talk.session.visible_from :]
        assert len(await talk.answer(Query("fork_points", ref="q"))) == 2, "the log keeps everything"

    model = Played(reply("word " * 100), reply("word " * 100), reply("All that was."))
    run(conversation, tmp_path, model, store=MemoryStore(str(tmp_path)))


def test_the_last_text_is_that_of_the_last_reply(tmp_path: Path) -> None:
    assert requested(tmp_path, Played(reply(" one "), reply(" two\n")), "last_text", "Hello", "Again") == "two"
    assert requested(tmp_path, Played(), "last_text") is None
    wordless = Played([BlockDone(CALL), ReplyDone("calls")], [ReplyDone("end")])
    assert requested(tmp_path, wordless, "last_text", "Hello") is None


def test_stats_and_cost_count_every_call_once(tmp_path: Path) -> None:
    model = Played([BlockDone(CALL), ReplyDone("calls", Usage(1, 2, cost=0.25), "r1")], reply("Hi"))
    used = Usage(11, 7, cost=0.75)
    assert requested(tmp_path, model, "stats", "Hello") == Stats("s1", 1, 2, 1, 1, used)
    ledger = requested(tmp_path, Played(reply("Hi")), "cost", "Hello")
    row = {"turn": 0, "model": "m", "provider": "played", "cost_usd": 0.5, "usage": Usage(10, 5, cost=0.5)}
    assert ledger == Ledger(Usage(10, 5, cost=0.5), (row,))


def test_the_context_is_told_in_parts_and_as_the_service_counted_it(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(AddContext("word " * 40))
        before = await talk.answer(Query("context", ref="q"))
        assert before.used == sum(part.tokens for part in before.parts)
        talk.send(Prompt("t1", "Hello"))
        await talk.until(Settled)
        report = await talk.answer(Query("context", ref="q"))
        assert (report.used, report.size) == (4000, 8000)
        assert [part.name for part in report.parts] == ["system prompt", "tools", "messages"]
        assert all(part.tokens > 0 for part in report.parts)
        assert report.parts[:2] == before.parts[:2]

    run(conversation, tmp_path, Played(reply("Hi", Usage(3990, 10)), infos=[ModelInfo("m", 8000)]), Echo())


def test_fork_points_are_what_the_person_said(tmp_path: Path) -> None:
    first, second = requested(tmp_path, Played(reply("Hi"), reply("Yes")), "fork_points", "Hello", "Again")
    assert (first.text, second.text) == ("Hello", "Again")
    assert isinstance(first, ForkPoint)
    assert first.entry != second.entry


def test_agents_that_are_at_work_are_named(tmp_path: Path) -> None:
    tasks = [{"name": "look", "prompt": "Look around"}, {"name": "see", "prompt": "See to it"}]

    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "Hello"))
        await talk.until(AgentStarted, 2)
        await talk.until(ToolStarted, 3)
        cards = await talk.answer(Query("agents", ref="q"))
        assert cards == (AgentCard("c0", "look", "Look around"), AgentCard("c0/2", "see", "See to it"))
        await talk.engine.close()

    hang = [[BlockDone(ToolCall(id, "Hang", {})), ReplyDone("calls")] for id in ("c1", "c2")]
    model = Played([BlockDone(ToolCall("c0", "Spawn", {"tasks": tasks})), ReplyDone("calls")], *hang)
    run(conversation, tmp_path, model, Hang(), mode="force")


def test_tools_rules_models_and_version_are_told(tmp_path: Path) -> None:
    rule = Rule("prefix", "git log")

    async def conversation(talk: Talk) -> None:
        talk.send(Grant(rule=rule))
        assert await talk.answer(Query("tools", ref="q")) == ("Echo", "Run", "Spawn")
        talk.send(Configure({"agents": {"scout": {"description": "Looks around", "prompt": "Look."}}}))
        cards = await talk.answer(Query("personas", ref="q"))
        assert [(card.name, bool(card.description)) for card in cards] == [("general-purpose", True), ("scout", True)]
        assert await talk.answer(Query("rules", ref="q")) == (rule,)
        assert await talk.answer(Query("models", ref="q")) == tuple(Listed().cards())
        assert await talk.answer(Query("version", ref="q")) == __version__
        assert await talk.answer(Query("servers", ref="q")) == ()

    run(conversation, tmp_path, Played(), Echo(), Run(), models=Listed())


def test_L2_what_cannot_be_told_is_refused_with_the_reason(tmp_path: Path) -> None:
    for what in ("sessions", "export"):
        refused = requested(tmp_path, Played(), what)
        assert isinstance(refused, Failure)
        assert "not kept" in refused.message
    assert "there is no 'weather'" in requested(tmp_path, Played(), "weather").message
