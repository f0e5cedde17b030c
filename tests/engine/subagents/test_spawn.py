"""Sub-agents: their lanes, their rights (A8), their end, what they cost."""

import asyncio
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from doubles import Echo, Hang, Log, Run, Stubborn, Talk, converse, run
from polylect.engine.subagents.personas import Persona, find_personas, parse
from polylect.providers.scripted import Scripted
from polylect.sessions.folder import create
from polylect.sessions.session import Session
from polylect.sessions.store import FileStore, MemoryStore
from polylect.vocab.answers import ModelCard
from polylect.vocab.commands import Answer, Cancel, Command, Configure, Prompt, Query, Steer
from polylect.vocab.content import Failure, Usage
from polylect.vocab.events import (
    AgentEnded,
    AgentStarted,
    Ask,
    Event,
    Notice,
    Reply,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from polylect.vocab.ports import Provider, ToolContext, ToolReturn


def script(*replies: dict[str, Any]) -> Scripted:
    return Scripted.from_values({"reply": replies})


def spawn(*tasks: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"call": "Spawn", "id": "s1", "args": {"tasks": list(tasks), **more}}


def task(name: str, **more: str) -> dict[str, str]:
    return {"name": name, "prompt": f"do {name}", **more}


def allow(event: Event) -> Command | None:
    return Answer(event.ask, "allow") if isinstance(event, Ask) else None


TWO = (
    {"when": {"prompt": "both", "step": 1}, "say": [spawn(task("one"), task("two"))]},
    {"when": {"prompt": "both"}, "say": ["done"]},
)


def lane(talk: Talk, agent: str) -> list[Event]:
    return [event for event in talk.events if event.agent == agent]


def test_two_agents_work_at_once_each_in_its_own_lane_and_report_in_order(tmp_path: Path) -> None:
    model = script(
        {"when": {"prompt": "do one"}, "say": ["I am one"], "usage": {"input": 10, "output": 1}},
        {"when": {"prompt": "do two"}, "say": ["I am two"], "usage": {"input": 20, "output": 2}},
        *TWO,
    )
    talk = converse(tmp_path, model, [Prompt("t1", "both")], mode="force")
    assert [(event.agent, event.parent, event.call, event.name) for event in talk.of(AgentStarted)] == [
        ("s1", "", "s1", "one"),
        ("s1/2", "", "s1", "two"),
    ]
    assert [event.text for event in lane(talk, "s1") if isinstance(event, TextDelta)] == ["I am one"]
    assert [event.text for event in lane(talk, "s1/2") if isinstance(event, TextDelta)] == ["I am two"]
    [finished] = [event for event in talk.of(ToolFinished) if event.name == "Spawn"]
    assert finished.output == (
        "## one [OK]\nI am one\n[turns: 1 | tokens: 10 in / 1 out]\n\n---\n\n"
        "## two [OK]\nI am two\n[turns: 1 | tokens: 20 in / 2 out]"
    )


def test_no_two_calls_have_one_id_whoever_made_them(tmp_path: Path) -> None:
    echo = {"say": [{"call": "Echo", "id": "call_0"}]}
    model = script({"when": {"prompt": "do", "step": 1}, **echo}, {"when": {"prompt": "do"}, "say": ["x"]}, *TWO)
    talk = converse(tmp_path, model, [Prompt("t1", "both")], Echo(), mode="force")
    assert sorted(done.call for done in talk.of(ToolFinished)) == ["call_0", "call_0-2", "s1"]


def test_t5_what_agents_cost_is_part_of_the_turn_and_of_the_session_once(tmp_path: Path) -> None:
    own = {"input": 100, "output": 10}
    model = script(
        {"when": {"prompt": "do"}, "say": ["x"], "usage": {"input": 1, "output": 1}},
        *({**reply, "usage": own} for reply in TWO),
    )
    talk = converse(tmp_path, model, [Prompt("t1", "both")], mode="force")
    assert talk.of(TurnEnded)[0].usage == Usage(202, 22)
    assert talk.session.usage == Usage(202, 22)
    assert len(talk.session.ledger) == 4


def test_a8_an_agent_asks_through_its_parents_host_and_a_denial_is_its_own(tmp_path: Path) -> None:
    model = script(
        {"when": {"prompt": "do one", "step": 1}, "say": [{"call": "Run", "id": "r1", "args": {"command": "rm"}}]},
        {"when": {"prompt": "do one", "result": {"outcome": "denied"}}, "say": ["was denied"]},
        {"when": {"prompt": "do two"}, "say": ["fine"]},
        *TWO,
    )

    def host(event: Event) -> Command | None:
        if not isinstance(event, Ask):
            return None
        return Answer(event.ask, "allow" if event.name == "Spawn" else "deny", reason="no")

    talk = converse(tmp_path, model, [Prompt("t1", "both")], Run(), host=host)
    assert [(ask.name, ask.agent) for ask in talk.of(Ask)] == [("Spawn", ""), ("Run", "s1")]
    assert [(ended.agent, ended.ok, ended.summary) for ended in talk.of(AgentEnded)] == [
        ("s1/2", True, "fine"),
        ("s1", True, "was denied"),
    ]


def test_a_stop_reaches_agents_and_their_calls(tmp_path: Path) -> None:
    model = script(
        {"when": {"prompt": "do one"}, "say": [{"call": "Hang", "id": "h1"}]},
        {"when": {"prompt": "do two"}, "say": [{"hang": True}]},
        *TWO,
    )

    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "both"))
        while not any(event.call == "h1" for event in talk.of(ToolStarted)):
            await talk.until(ToolStarted, len(talk.of(ToolStarted)) + 1)
        talk.send(Cancel())

    talk = run(conversation, tmp_path, model, Hang(), mode="force")
    assert sorted((ended.agent, ended.ok) for ended in talk.of(AgentEnded)) == [("s1", False), ("s1/2", False)]
    assert [(done.call, done.outcome) for done in talk.of(ToolFinished)] == [("h1", "cancelled"), ("s1", "cancelled")]
    assert talk.of(TurnEnded)[0].reason == "cancelled"


def test_what_agents_had_reported_when_they_were_stopped_is_not_lost(tmp_path: Path) -> None:
    model = script(
        {"when": {"prompt": "do one"}, "say": ["I found it"]},
        {"when": {"prompt": "do two"}, "say": [{"hang": True}]},
        *TWO,
    )

    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "both"))
        await talk.until(AgentEnded)
        talk.send(Cancel())

    talk = run(conversation, tmp_path, model, mode="force")
    [done] = talk.of(ToolFinished)
    assert done.outcome == "cancelled"
    assert "Until then:\n\n## one [OK]\nI found it\n" in done.output
    assert "## two [ERROR]\ncancelled\n" in done.output


def test_one_agent_can_be_stopped_while_the_other_goes_on(tmp_path: Path) -> None:
    model = script(
        {"when": {"prompt": "do one"}, "say": [{"hang": True}]},
        {"when": {"prompt": "do two"}, "say": ["fine"]},
        *TWO,
    )

    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "both"))
        await talk.until(AgentEnded)
        talk.send(Cancel("agent", "nobody", ref="unknown"), Cancel("agent", "s1", ref="known"))

    talk = run(conversation, tmp_path, model, mode="force")
    assert [(reply.ref, reply.failure is None) for reply in talk.of(Reply)] == [("unknown", False), ("known", True)]
    assert [(ended.agent, ended.ok, ended.summary, ended.failure) for ended in talk.of(AgentEnded)] == [
        ("s1/2", True, "fine", None),
        ("s1", False, "cancelled", Failure("cancelled", "cancelled", "engine")),
    ]
    assert talk.of(TurnEnded)[0].reason == "end"


def test_an_agent_that_works_can_be_told_something_and_asked_what_it_did(tmp_path: Path) -> None:
    model = script(
        {"when": {"prompt": "do one", "step": 1}, "say": [{"call": "Echo", "id": "e1", "args": {"text": "x"}}]},
        {"when": {"prompt": "faster"}, "say": ["fine"]},
        {"when": {"prompt": "start", "step": 1}, "say": [spawn(task("one"))]},
        {"when": {"prompt": "start"}, "say": ["done"]},
    )

    def host(event: Event) -> Command | None:
        match event:
            case ToolStarted(agent="s1"):
                return Steer("faster", to="s1")
            case ToolFinished(agent="s1"):
                return Query("agent_messages", {"agent": "s1"}, ref="r1")
            case TurnEnded():
                return Steer("faster", to="s1", ref="r2")
        return None

    talk = converse(tmp_path, model, [Prompt("t1", "start")], Echo(), host=host, mode="force")
    requested, late = talk.of(Reply)
    assert [item.message.role for item in requested.data] == ["user", "assistant"]
    assert late.failure == Failure("unknown_agent", "no agent 's1' is at work", "host")
    said = [(event.text, event.origin) for event in lane(talk, "s1") if isinstance(event, UserMessage)]
    assert said == [("do one", "prompt"), ("faster", "steer")]
    assert talk.of(AgentEnded)[0].summary == "fine"


def test_an_agent_that_is_stopped_before_its_first_step_has_ended_too(tmp_path: Path) -> None:
    def host(event: Event) -> Command | None:
        return Cancel("agent", event.agent) if isinstance(event, AgentStarted) else None

    model = script({"when": {"prompt": "do"}, "say": [{"hang": True}]}, *TWO)
    talk = converse(tmp_path, model, [Prompt("t1", "both")], mode="force", host=host)
    assert [ended.summary for ended in talk.of(AgentEnded)] == ["cancelled", "cancelled"]
    assert talk.of(TurnEnded)[0].reason == "end"


def test_a_no_to_an_agents_call_that_interrupts_ends_the_turn(tmp_path: Path) -> None:
    def host(event: Event) -> Command | None:
        if isinstance(event, Ask) and event.agent:
            return Answer(event.ask, "deny", reason="stop it", interrupt=True)
        return allow(event)

    model = script({"when": {"prompt": "do"}, "say": [{"call": "Run", "args": {"command": "rm"}}]}, *TWO)
    talk = converse(tmp_path, model, [Prompt("t1", "both"), Prompt("t2", "both")], Run(), host=host)
    assert [ended.reason for ended in talk.of(TurnEnded)] == ["cancelled", "cancelled"]
    assert {ended.summary for ended in talk.of(AgentEnded)} == {"cancelled"}


def test_an_agent_in_the_background_can_be_stopped_and_what_became_of_it_is_told(tmp_path: Path) -> None:
    model = script(
        {"when": {"prompt": "do late"}, "say": [{"hang": True}]},
        {"when": {"prompt": "go", "step": 1}, "say": [spawn(task("late"), background=True)]},
        {"when": {"prompt": "cancelled"}, "say": ["I see"]},
        {"say": ["they are at work"]},
    )

    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "go"))
        await talk.until(TurnEnded)
        talk.send(Cancel("agent"))

    talk = run(conversation, tmp_path, model, mode="force")
    assert [event.text for event in talk.of(TextDelta)] == ["they are at work", "I see"]


def test_an_engine_that_closes_ends_agents_in_the_background_however_deep_and_hears_no_more_of_them(
    tmp_path: Path,
) -> None:
    async def whole() -> Talk:
        talk = Talk(tmp_path, model, mode="force")
        talk.send(Prompt("t1", "go"))
        await talk.until(AgentStarted, 2)
        await talk.until(TurnEnded)
        await talk.end()
        return talk

    model = script(
        {"when": {"prompt": "do deep"}, "say": [{"hang": True}]},
        {"when": {"prompt": "do late", "step": 1}, "say": [spawn(task("deep"), background=True)]},
        {"when": {"step": 1}, "say": [spawn(task("late"))]},
        {"say": ["well"]},
    )
    talk = asyncio.run(whole())
    assert [ended.ok for ended in talk.of(AgentEnded)] == [True, False]
    assert len(talk.of(TurnStarted)) == 1


@pytest.mark.parametrize(("says", "gone"), [({"hang": True}, ["late"]), ("late news", [])])
def test_an_agent_that_never_reported_is_told_of_once_when_the_session_goes_on(
    tmp_path: Path, says: Any, gone: list[str]
) -> None:
    model = script(
        {"when": {"prompt": "do late"}, "say": [says]},
        {"when": {"prompt": "go", "step": 1}, "say": [spawn(task("late"), background=True)]},
        {"say": ["well"]},
    )
    store = MemoryStore("")

    async def whole(prompt: str, turns: int) -> Talk:
        talk = Talk(tmp_path, model, mode="force", store=store)
        assert list(talk.session.lost_agents) == (gone if prompt == "two" else [])
        talk.send(Prompt(prompt, prompt))
        await talk.until(TurnEnded, turns)
        await talk.end()
        return talk

    asyncio.run(whole("go", 1 if gone else 2))
    second, third = asyncio.run(whole("two", 1)), asyncio.run(whole("three", 1))
    result = "Agents that were at work in the background when the engine ended are gone: late."
    assert [event.text for event in second.of(Notice)] == [result] * len(gone)
    assert [event.text.startswith(result) for event in second.of(UserMessage)] == [True] * len(gone) + [False]
    assert third.of(Notice) == []


def test_an_agent_in_the_background_reports_in_a_turn_that_nobody_asked_for(tmp_path: Path) -> None:
    model = script(
        {"when": {"prompt": "do late"}, "say": ["late news"]},
        {"when": {"prompt": "go", "step": 1}, "say": [spawn(task("late"), background=True)]},
        {"when": {"prompt": "late news"}, "say": ["I see"]},
        {"say": ["they are at work"]},
    )
    talk = converse(tmp_path, model, [Prompt("t1", "go")], mode="force")
    first, second = talk.of(TurnStarted)
    assert (first.cause, second.cause) == ("prompt", "engine")
    assert [event.text for event in talk.of(TextDelta) if event.turn == second.turn] == ["I see"]


def test_t5_what_an_agent_uses_after_its_turn_is_in_the_usage_of_the_next_one(tmp_path: Path) -> None:
    nothing = {"input": 0, "output": 0}
    model = script(
        {"when": {"prompt": "do late", "step": 1}, "say": [{"call": "Stubborn"}], "usage": nothing},
        {"when": {"prompt": "do late"}, "say": ["late news"], "usage": {"input": 10, "output": 2}},
        {"when": {"prompt": "go", "step": 1}, "say": [spawn(task("late"), background=True)]},
        {"when": {"prompt": "late news"}, "say": ["I see"], "usage": {"input": 100, "output": 3}},
        {"say": ["they are at work"], "usage": {"input": 1000, "output": 4}},
    )
    waiting = Stubborn()

    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "go"))
        await talk.until(TurnEnded)
        await waiting.started.wait()
        waiting.released.set()

    talk = run(conversation, tmp_path, model, waiting, mode="force")
    first, second = (event.usage for event in talk.of(TurnEnded))
    assert second == Usage(110, 5)
    assert first + second == talk.session.usage
    assert "[turns: 2 | tokens: 10 in / 2 out]" in talk.of(UserMessage)[-1].text


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({"tasks": []}, "Give 1 to 5 tasks, not 0."),
        ({"tasks": [task(str(number)) for number in range(6)]}, "Give 1 to 5 tasks, not 6."),
        ({"tasks": [task("x", agent="nobody")]}, "There is no agent 'nobody'. Known ones: none."),
        ({"tasks": "x"}, "These are not tasks: Expected `array`, got `str` - at `$.tasks`."),
    ],
)
def test_tasks_that_make_no_sense_are_answered(tmp_path: Path, args: dict[str, Any], told: str) -> None:
    model = script({"when": {"step": 1}, "say": [{"call": "Spawn", "args": args}]}, {"say": ["well"]})
    talk = converse(tmp_path, model, [Prompt("t1", "x")], mode="force")
    assert talk.of(ToolFinished)[0].output == told


def test_agents_nest_only_so_deep(tmp_path: Path) -> None:
    model = script(
        {"when": {"step": 1}, "say": [{"call": "Spawn", "args": {"tasks": [task("deeper")]}}]}, {"say": ["{result}"]}
    )
    talk = converse(tmp_path, model, [Prompt("t1", "x")], mode="force")
    assert len(talk.of(AgentStarted)) == 2
    assert any("may not be nested deeper than 2" in done.output for done in talk.of(ToolFinished))


def test_a_named_agent_has_its_own_words_model_and_tools(tmp_path: Path) -> None:
    folder = tmp_path / ".polylect" / "agents"
    folder.mkdir(parents=True)
    (folder / "critic.md").write_text(
        "---\nname: critic\ndescription: Finds fault.\ntools: Echo\nmodel: sharp\n---\nBe strict."
    )
    model = script(
        {"when": {"prompt": "do judge", "system": "Be strict.", "model": "sharp", "step": 1}, "say": [{"call": "Run"}]},
        {"when": {"prompt": "do judge"}, "say": ["{result}"]},
        {"when": {"step": 1}, "say": [spawn(task("judge", agent="critic"))]},
        {"say": ["ok"]},
    )
    talk = converse(tmp_path, model, [Prompt("t1", "x")], Echo(), Run(), mode="force", trust_workspace=True)
    assert talk.of(AgentEnded)[0].summary == "Unknown tool: Run. The tools are: Echo."


def test_a_file_that_does_not_say_who_it_is_describes_nobody(tmp_path: Path) -> None:
    assert parse("no front matter") is None
    assert parse("---\ndescription: x\n---\nbody") is None
    assert parse("---\nname: a\nmodel: inherit\n---\n\nbody\n") == Persona("a", prompt="body")
    assert find_personas([str(tmp_path / "nowhere")]) == {}


def test_what_narrows_an_agent_is_read_however_it_is_written() -> None:
    reader = Persona("reader", "Reads: all.", "body", ("Read", "Grep"))
    fields = "name: \"reader\"\ndescription: 'Reads: all.'"
    for tools in ("Read, Grep", "[Read, 'Grep']", "\n  - Read\n  - Grep", "\n- Read\n- Grep"):
        assert parse(f"---\n{fields}\ntools: {tools}\n---\nbody") == reader
    assert parse("---\nname: all\ntools: '*'\n---\nbody") == Persona("all", prompt="body")
    assert parse("---\nname: unended\nbody") is None


class Served:
    """Models of several services."""

    def cards(self) -> Sequence[ModelCard]:
        names = (("scripted", "claude-sonnet-4"), ("scripted", "claude-sonnet-5"), ("other", "claude-opus-5"))
        return [ModelCard(provider, name) for provider, name in names]

    def open(self, provider: str) -> Provider:
        raise LookupError(provider)


@pytest.mark.parametrize(
    ("own", "family", "used"),
    [
        ("claude-haiku-5", "sonnet", "claude-sonnet-5"),
        ("claude-sonnet-4", "sonnet", "claude-sonnet-4"),
        ("claude-sonnet-4", "opus", "claude-sonnet-4"),
        ("claude-sonnet-4", "claude-opus-5", "claude-opus-5"),
    ],
)
def test_an_agent_whose_file_names_a_family_has_a_model_that_there_is(
    tmp_path: Path, own: str, family: str, used: str
) -> None:
    described = Configure({"agents": {"scout": {"description": "Looks.", "prompt": "You look.", "model": family}}})
    model = script(
        {"when": {"prompt": "do one"}, "say": ["seen"]},
        {"when": {"step": 1}, "say": [spawn(task("one", agent="scout"))]},
        {"say": ["done"]},
    )
    talk = converse(tmp_path, model, [described, Prompt("t1", "go")], mode="force", model=own, models=Served())
    assert [row["model"] for row in talk.session.ledger] == [own, used, own]


def test_one_agent_a_call_and_agents_that_the_host_describes(tmp_path: Path) -> None:
    """As hosts of another wire know it: the tool is called Agent, and agents come with the host's hello."""

    def agent(id: str, kind: str) -> dict[str, Any]:
        return {"call": "Agent", "id": id, "args": {"description": id, "prompt": "look", "subagent_type": kind}}

    model = script(
        {"when": {"prompt": "look"}, "say": ["seen"]},
        {"when": {"prompt": "go", "step": 1}, "say": [agent("a", "scout"), agent("b", "nobody")]},
        {"when": {"prompt": "go"}, "say": ["done"]},
    )
    described = Configure({"agents": {"scout": {"description": "Looks.", "prompt": "You look."}}})
    talk = converse(tmp_path, model, [described, Prompt("t1", "go")], mode="force", one_agent=True)
    assert [event.agent for event in talk.events if isinstance(event, AgentStarted)] == ["a"]
    result = {event.call: event.output for event in talk.events if isinstance(event, ToolFinished)}
    assert "seen" in result["a"]
    assert "no agent 'nobody'" in result["b"]


@pytest.mark.parametrize("background", [False, True])
def test_a8_an_agent_at_work_has_the_mode_that_its_parent_has_now(tmp_path: Path, background: bool) -> None:
    model = script(
        {"when": {"prompt": "do one", "step": 1}, "say": [{"call": "Run", "id": "r1"}]},
        {"when": {"prompt": "do one", "step": 2}, "say": [{"call": "Run", "id": "r2"}]},
        {"when": {"prompt": "start", "step": 1}, "say": [spawn(task("one"), background=background)]},
        {"say": ["done"]},
    )

    def host(event: Event) -> Command | None:
        if isinstance(event, ToolStarted) and event.call == "r1":
            return Configure({"mode": "default"})
        return Answer(event.ask, "deny") if isinstance(event, Ask) else None

    talk = converse(tmp_path, model, [Prompt("t1", "start")], Run(), host=host, mode="force")
    assert [(ask.agent, ask.call) for ask in talk.of(Ask)] == [("s1", "r2")]


class Spill(Echo):
    """Has more to say than the model wants to read."""

    async def work(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        return ToolReturn(context.spill("long"))


def test_a_long_output_of_an_agent_is_beside_the_session_and_goes_with_the_engine(tmp_path: Path) -> None:
    model = script(
        {"when": {"prompt": "do one", "step": 1}, "say": [{"call": "Spill"}]},
        {"when": {"prompt": "do one"}, "say": ["it was long"]},
        *TWO,
    )
    folder = create(str(tmp_path / "sessions"), "s1", str(tmp_path))
    store = FileStore(folder, cwd=str(tmp_path), new_id=map(str, count(1)).__next__)
    talk = converse(tmp_path, model, [Prompt("t1", "both")], Spill(), store=store, mode="force")
    [path] = [Path(done.output) for done in talk.of(ToolFinished) if done.name == "Spill"]
    assert path.parent == Path(folder.path) / "spill"
    assert not path.exists()


def test_l2_a_report_that_could_not_be_kept_is_told_of_now_and_after_a_restart(tmp_path: Path) -> None:
    full: list[bool] = []
    log = Log(full=lambda write: bool(full))
    model = script(
        {"when": {"prompt": "do late", "step": 1}, "say": [{"call": "Run"}]},
        {"when": {"prompt": "do late"}, "say": ["found it"]},
        {"when": {"prompt": "go", "step": 1}, "say": [spawn(task("late"), background=True)]},
        {"say": ["ok"]},
    )

    def host(event: Event) -> Command | None:
        if isinstance(event, AgentEnded):
            full.append(True)
        return Answer(event.ask, "allow") if isinstance(event, Ask) and event.name == "Spawn" else None

    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "go"))
        await talk.until(TurnEnded)
        talk.send(Answer((await talk.until(Ask, 2)).ask, "allow"))
        await talk.until(Notice)
        full.clear()

    talk = run(conversation, tmp_path, model, Run(), host=host, store=log)
    [notice] = talk.of(Notice)
    assert "could not be kept: cannot write the session log" in notice.text
    assert Session(log.read_back()).lost_agents == ("late",)


def test_i5_a_host_that_leaves_and_wants_no_more_ends_agents_in_the_background_too(tmp_path: Path) -> None:
    model = script(
        {"when": {"prompt": "do late"}, "say": [{"hang": True}]},
        {"when": {"prompt": "go", "step": 1}, "say": [spawn(task("late"), background=True)]},
        {"say": ["they are at work"]},
    )

    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "go"))
        await talk.until(TurnEnded)
        talk.engine.input_closed(stop=True)

    talk = run(conversation, tmp_path, model, mode="force")
    assert [(event.agent, event.ok) for event in talk.of(AgentEnded)] == [("s1", False)]
    assert [event.turn for event in talk.of(TurnStarted)] == ["t1"]
    assert Session(talk.store).lost_agents == ("late",)
