"""Asking a person, and what becomes of the answer (A1 to A6, P2)."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from doubles import Act, Echo, Edit, Played, Run, Show, Stubborn, Talk, converse, run
from polylect.providers.scripted import Scripted
from polylect.sessions.store import MemoryStore
from polylect.vocab.commands import Answer, Cancel, Command, Prompt
from polylect.vocab.content import UNPARSED, Rule, ToolCall, ToolResult
from polylect.vocab.events import Ask, AskClosed, Event, Reply, ToolFinished, ToolStarted
from polylect.vocab.ports import BlockDone, ReplyDone, ToolContext, ToolReturn

HELLO = Prompt("t1", "Hello")


def call(id: str, name: str = "Run", **args: Any) -> dict[str, Any]:
    return {"call": name, "id": id, "args": args}


def answering(verdict: Any = "allow", **fields: Any) -> Callable[[Event], Command | None]:
    def host(event: Event) -> Command | None:
        return Answer(event.ask, verdict, **fields) if isinstance(event, Ask) else None

    return host


def one_call(
    folder: Path, *tools: Act, host: Callable[[Event], Command | None], free: tuple[str, ...] = (), **args: Any
) -> Talk:
    tool = tools[0] if tools else Run()
    model = Scripted.in_order([call("c1", tool.name, **args), "ok"])
    return converse(folder, model, [HELLO], tool, host=host, allow_list=free)


def test_A1_a_yes_lets_the_call_run(tmp_path: Path) -> None:
    talk = one_call(tmp_path, host=answering("allow", ref="r1"), command="ls")
    assert talk.story[5:11] == [
        "ask ask-1 c1 Run {'command': 'ls'} exec calls are asked for in mode default",
        "reply r1",
        "ask_closed ask-1 allowed",
        "tool_started c1 Run",
        "tool_finished c1 Run ran ls",
        "step_ended",
    ]


@pytest.mark.parametrize(
    ("verdict", "fields", "closed", "reason"),
    [
        ("deny", {}, "denied", "Denied"),
        ("deny", {"reason": "not now"}, "denied not now", "not now"),
        ("cancelled", {}, "cancelled", "Denied"),
        ("perhaps", {}, "denied", "Denied"),
        ("", {"value": True, "args": {"command": "rm"}, "always": Rule("category", "exec")}, "denied", "Denied"),
    ],
)
def test_A1_anything_but_a_clear_yes_is_a_no(
    verdict: str, fields: dict[str, Any], closed: str, reason: str, tmp_path: Path
) -> None:
    tool = Run()
    model = Scripted.in_order([call("c1"), call("c2"), "ok"])
    talk = converse(tmp_path, model, [HELLO], tool, host=answering(verdict, **fields))
    assert talk.story[6:9] == [
        f"ask_closed ask-1 {closed}",
        f"tool_finished c1 Run Tool denied: {reason} denied {reason}",
        "step_ended",
    ]
    assert tool.ran == []
    assert len(talk.of(Ask)) == 2


def test_A1_an_answer_to_nothing_and_a_second_answer_are_answered_with_an_error(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(HELLO, Answer("ask-1", "allow", ref="early"))
        ask = await talk.until(Ask)
        talk.send(
            Answer("c1", "allow", ref="its call"),
            Answer("", "allow", ref="none"),
            Answer(ask.ask, "deny", ref="first"),
            Answer(ask.ask, "allow", ref="second"),
        )
        await talk.engine.settled()
        talk.send(Answer(ask.ask, "allow", ref="late"))

    tool = Run()
    talk = run(conversation, tmp_path, Scripted.in_order([call("c1"), "ok"]), tool)
    refused = {reply.ref for reply in talk.of(Reply) if reply.failure and reply.failure.code == "unknown_ask"}
    assert refused == {"early", "its call", "none", "second", "late"}
    assert [reply.ref for reply in talk.of(Reply) if not reply.failure] == ["first"]
    assert tool.ran == []


def test_A2_an_ask_with_a_deadline_is_denied_when_it_passes_and_the_model_is_told(tmp_path: Path) -> None:
    model = Scripted.in_order([call("c1"), "ok"])
    talk = converse(tmp_path, model, [HELLO], Run(), approval_timeout=0.01)
    assert talk.of(Ask)[0].timeout_ms == 10
    assert talk.story[6:8] == [
        "ask_closed ask-1 timeout approval timed out after 0.01 s",
        "tool_finished c1 Run Tool denied: approval timed out after 0.01 s denied approval timed out after 0.01 s",
    ]
    assert talk.story[-2:] == ["turn_ended t1 end 2", "settled"]


def test_A2_L1_when_input_ends_what_is_asked_is_denied_at_once_and_so_is_what_would_be_asked(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(HELLO)
        await talk.until(Ask)
        talk.engine.input_closed(stop=False)

    model = Scripted.in_order([call("c1"), call("c2"), "ok"])
    talk = run(conversation, tmp_path, model, Run())
    nobody = "nobody is there to ask: the host has closed its end"
    assert [line for line in talk.story if line.startswith("ask_closed")] == [
        f"ask_closed ask-1 denied {nobody}",
        f"ask_closed ask-2 denied {nobody}",
    ]
    assert talk.story[-2:] == ["turn_ended t1 end 3", "settled"]


def test_L1_when_input_ends_and_the_host_wants_it_so_everything_stops(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(HELLO, Prompt("t2", "Again"))
        await talk.until(Ask)
        talk.engine.input_closed(stop=True)

    talk = run(conversation, tmp_path, Scripted.in_order([call("c1"), "ok"]), Run())
    assert talk.story[-3:] == ["turn_ended t1 cancelled 1", "turn_ended t2 cancelled", "settled"]


def test_A3_all_calls_of_a_step_are_asked_for_at_once_and_answered_in_any_order(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(HELLO)
        await talk.until(Ask, 3)
        assert talk.of(AskClosed) == []
        talk.send(Answer("ask-3", "allow"), Answer("ask-2", "deny"))
        await talk.until(ToolFinished, 2)
        talk.send(Answer("ask-1", "allow"))

    model = Scripted.in_order([[call("c1"), call("c2"), call("c3")], "ok"])
    talk = run(conversation, tmp_path, model, Run())
    assert [(event.call, event.outcome) for event in talk.of(ToolFinished)] == [
        ("c3", "ok"),
        ("c2", "denied"),
        ("c1", "ok"),
    ]
    results = [block for block in talk.messages[2].content if isinstance(block, ToolResult)]
    assert [(result.call, result.outcome) for result in results] == [("c1", "ok"), ("c2", "denied"), ("c3", "ok")]


def test_A3_an_answer_given_the_moment_the_ask_is_heard_counts(tmp_path: Path) -> None:
    """Not a tick later: the ask is registered before it is said."""
    talks: list[Talk] = []

    def host(event: Event) -> Command | None:
        if isinstance(event, Ask):
            talks[0].send(Answer(event.ask, "allow"))
        return None

    async def conversation(talk: Talk) -> None:
        talks.append(talk)
        talk.send(HELLO)

    talk = run(conversation, tmp_path, Scripted.in_order([call("c1"), "ok"]), Run(), host=host)
    assert talk.story[6:8] == ["ask_closed ask-1 allowed", "tool_started c1 Run"]


@pytest.mark.parametrize(
    ("rule", "asked"),
    [
        (None, ["c1", "c2", "c3"]),
        (Rule("category", "exec"), ["c1"]),
        (Rule("tool", "Run"), ["c1"]),
        (Rule("prefix", "git"), ["c1", "c3"]),
        (Rule("category", "edit"), ["c1", "c2", "c3"]),
    ],
)
def test_A4_what_is_always_allowed_is_not_asked_for_again(rule: Rule | None, asked: list[str], tmp_path: Path) -> None:
    steps = [call("c1", command="git log"), call("c2", command="git push"), call("c3", command="gitk"), "ok"]
    talk = converse(tmp_path, Scripted.in_order(steps), [HELLO], Run(), host=answering(always=rule))
    assert [ask.call for ask in talk.of(Ask)] == asked


class Greedy(Run):
    """Takes its arguments apart."""

    async def work(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        args["list"].clear()
        return ToolReturn(args.pop("command"))


def test_A5_what_was_approved_is_what_runs_whoever_changes_the_arguments(tmp_path: Path) -> None:
    def host(event: Event) -> Command | None:
        if isinstance(event, Ask):
            event.args["list"].append("evil")
            return Answer(event.ask, "allow")
        return None

    tool = Run("Greedy")
    talk = one_call(tmp_path, tool, host=host, command="ls", list=[])
    assert tool.ran == [{"command": "ls", "list": []}]
    assert talk.of(ToolFinished)[0].output == "ran ls"


def test_A5_T4_a_tool_that_changes_its_arguments_does_not_change_history(tmp_path: Path) -> None:
    talk = one_call(tmp_path, Greedy(), host=answering(), command="ls", list=["a"])
    assert ToolCall("c1", "Greedy", {"command": "ls", "list": ["a"]}) in talk.messages[1].content


def test_A5_arguments_that_the_host_replaced_are_what_runs(tmp_path: Path) -> None:
    tool = Run()
    one_call(tmp_path, tool, host=answering(args={"command": "ls -l"}), command="rm -rf .")
    assert tool.ran == [{"command": "ls -l"}]


# Questions of a tool's own.


class Curious(Act):
    """Asks the person which way to go."""

    async def work(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        answer = await context.ask(Ask("", kind="choice", title="Which?"))
        return ToolReturn(f"{answer.verdict} {answer.value} {answer.reason}")


@pytest.mark.parametrize(
    ("answer", "closed", "output"),
    [
        (answering("allow", value="left"), "answered", "allow left "),
        (answering("deny", reason="busy"), "denied busy", "deny None busy"),
        (answering("cancelled"), "cancelled", "cancelled None "),
    ],
)
def test_A1_a_running_tool_can_ask_and_is_told_the_answer(
    answer: Callable[[Event], Command | None], closed: str, output: str, tmp_path: Path
) -> None:
    talk = one_call(tmp_path, Curious(), host=answer, free=("Curious",))
    assert talk.story[5:9] == [
        "tool_started c1 Curious",
        "ask ask-1 choice c1",
        f"ask_closed ask-1 {closed}",
        f"tool_finished c1 Curious {output}",
    ]


def test_L1_a_tool_that_was_left_behind_by_a_stop_can_ask_nobody(tmp_path: Path) -> None:
    class Nagging(Stubborn):
        async def work(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
            await super().work(args, context)
            requested.append(await context.ask(Ask("", kind="choice", title="Still there?")))
            received.set()
            return ToolReturn("late")

    async def conversation(talk: Talk) -> None:
        talk.send(HELLO)
        await tool.started.wait()
        talk.send(Cancel())
        await talk.engine.settled()
        tool.released.set()
        await received.wait()

    received = asyncio.Event()
    requested: list[Answer] = []
    tool = Nagging()
    model = Scripted.in_order([call("c1", "Nagging"), "ok"])
    talk = run(conversation, tmp_path, model, tool, cancel_timeout=0.01, allow_list=("Nagging",))
    assert talk.of(Ask) == []
    assert requested[0].verdict != "allow"


def test_A1_a_call_whose_arguments_were_cut_off_is_neither_asked_for_nor_run(tmp_path: Path) -> None:
    tool = Run()
    broken = BlockDone(ToolCall("c1", "Run", {}, {UNPARSED: '{"comm'}))
    model = Played([broken, ReplyDone("length")], [ReplyDone("end")])
    talk = converse(tmp_path, model, [HELLO], tool, mode="force")
    assert talk.of(Ask) == []
    assert tool.ran == []
    assert talk.of(ToolFinished)[0].outcome == "error"


# Tokens.


def test_A6_ask_ids_are_random_and_say_nothing_of_the_call(tmp_path: Path) -> None:
    ids = set()
    for _ in range(2):
        model = Scripted.in_order([[call("c1"), call("c2")], "ok"])
        talk = converse(tmp_path, model, [HELLO], Run(), host=answering(), new_id=lambda: os.urandom(8).hex())
        ids |= {ask.ask for ask in talk.of(Ask)}
    assert len(ids) == 4


def test_A6_ask_ids_never_reach_the_model_nor_come_back_in_output(tmp_path: Path) -> None:
    steps = [
        call("c1"),
        call("c2", "Show", pieces=["it was ask-1", ", or ask-2?"]),
        call("c3", "Echo", text="ask-1"),
        "ok",
    ]
    talk = converse(tmp_path, Scripted.in_order(steps), [HELLO], Run(), Show(), Echo(), host=answering())
    assert talk.story[14:17] == [
        "tool_output c2 it was [removed]",
        "tool_output c2 , or ask-2?",
        "tool_finished c2 Show it was [removed], or ask-2?",
    ]
    assert talk.of(ToolFinished)[2].output == "[removed]"
    results = [block for message in talk.messages for block in message.content if isinstance(block, ToolResult)]
    assert all("ask-1" not in result.output for result in results)


# Files outside the workspace.


def outside(tmp_path: Path) -> tuple[Path, Path]:
    workspace, data = tmp_path / "workspace", tmp_path / "data"
    workspace.mkdir()
    data.mkdir()
    (workspace / "link").symlink_to(data)
    return workspace, data


class Reach(Edit):
    """Says where it may go."""

    async def work(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        return ToolReturn(" ".join(context.roots))


@pytest.mark.parametrize("path", ["../data/a", "link/a", "{data}/a"])
def test_P2_outside_the_workspace_is_asked_for_even_in_auto_edit_and_approved_for_this_call_only(
    path: str, tmp_path: Path
) -> None:
    workspace, data = outside(tmp_path)
    where = path.replace("{data}", str(data))
    steps = [call("c1", "Reach", path="a"), call("c2", "Reach", path=where), call("c3", "Reach", path=where), "ok"]
    talk = converse(
        workspace, Scripted.in_order(steps), [HELLO], Reach(), host=answering(), mode="auto_edit", allow_list=("Reach",)
    )
    assert [(ask.call, ask.reason) for ask in talk.of(Ask)] == [
        ("c2", f"it touches {data}/a, which is outside the workspace"),
        ("c3", f"it touches {data}/a, which is outside the workspace"),
    ]
    assert [event.output for event in talk.of(ToolFinished)] == [
        str(workspace),
        f"{workspace} {data}/a",
        f"{workspace} {data}/a",
    ]


@pytest.mark.parametrize(("write", "asked"), [(True, ["c1"]), (False, ["c1", "c3"])])
def test_P2_a_path_that_is_always_allowed_is_open_for_reading_or_for_edits_too(
    write: bool, asked: list[str], tmp_path: Path
) -> None:
    workspace, data = outside(tmp_path)
    where = f"{data}/a"
    steps = [call("c1", "Look", path=where), call("c2", "Look", path=where), call("c3", "Reach", path=where), "ok"]
    host = answering(always=Rule("path", str(data), write=write))
    talk = converse(
        workspace, Scripted.in_order(steps), [HELLO], Reach(), Reach("Look", "info"), host=host, mode="auto_edit"
    )
    assert [ask.call for ask in talk.of(Ask)] == asked
    assert talk.of(ToolFinished)[2].output == f"{workspace} {data if write else where}"


def test_P2_folders_beside_the_workspace_are_open_also_by_way_of_a_symlink(tmp_path: Path) -> None:
    workspace, data = outside(tmp_path)
    model = Scripted.in_order([call("c1", "Reach", path=f"{data}/a"), "ok"])
    folders = (str(workspace / "link"),)
    talk = converse(workspace, model, [HELLO], Reach(), mode="auto_edit", folders=folders)
    assert talk.of(Ask) == []
    assert talk.of(ToolFinished)[0].output == f"{workspace} {data}"


def test_P2_arguments_that_the_host_replaced_may_go_where_they_say_and_nowhere_else(tmp_path: Path) -> None:
    workspace, data = outside(tmp_path)
    model = Scripted.in_order([call("c1", "Reach", path=f"{data}/a"), "ok"])
    talk = converse(workspace, model, [HELLO], Reach(), host=answering(args={"path": f"{data}/b"}))
    assert talk.of(ToolFinished)[0].output == f"{workspace} {data}/b"


def test_P2_output_kept_in_a_file_can_be_read_back_and_nothing_beside_it(tmp_path: Path) -> None:
    workspace, data = outside(tmp_path)

    class Spill(Echo):
        async def work(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
            return ToolReturn(context.spill("long"))

    store = MemoryStore(str(data))
    steps = [call("c1", "Spill"), call("c2", "Look", path="{result}"), call("c3", "Look", path=f"{data}/other"), "ok"]
    talk = converse(
        workspace,
        Scripted.in_order(steps),
        [HELLO],
        Spill(),
        Echo("Look"),
        mode="auto_edit",
        host=answering(),
        store=store,
    )
    assert [ask.call for ask in talk.of(Ask)] == ["c3"]


def test_two_edits_of_one_step_do_not_run_at_the_same_time(tmp_path: Path) -> None:
    at_work: list[str] = []

    class Careful(Edit):
        async def work(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
            at_work.append(context.call)
            assert len(at_work) == 1
            await asyncio.sleep(0)
            at_work.remove(context.call)
            return ToolReturn("fine")

    reply = [BlockDone(ToolCall(id, "Careful", {})) for id in ("c1", "c2", "c3")]
    model = Played([*reply, ReplyDone("calls")], [ReplyDone("end")])
    talk = converse(tmp_path, model, [HELLO], Careful(), mode="auto_edit")
    assert [event.output for event in talk.of(ToolFinished)] == ["fine"] * 3
    assert len(talk.of(ToolStarted)) == 3
