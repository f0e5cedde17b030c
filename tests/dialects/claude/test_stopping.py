"""Interrupts (section 4.3) and sub-agents (section 6.3), in the orders that were measured on the real program."""

from typing import Any

import pytest

from conversations import SMALL, called, step, text
from dialects.claude.engine_driver import EngineDriver, name, user
from polylect.vocab.commands import Cancel, Command, Prompt
from polylect.vocab.content import Text
from polylect.vocab.events import (
    AgentEnded,
    AgentProgress,
    AgentStarted,
    Ask,
    AskClosed,
    BlockEnded,
    Event,
    QueueChanged,
    Reply,
    ReplyEnded,
    StepEnded,
    StepStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UserMessage,
)


def begin(driver: EngineDriver) -> str:
    turn = driver.prompt()
    driver.send(TurnStarted(turn=turn), UserMessage("go", turn=turn), StepStarted(turn=turn))
    return turn


def interrupt(driver: EngineDriver, **fields: Any) -> list[Command]:
    commands = driver.request("interrupt", **fields)
    driver.send(*(Reply(command.ref) for command in commands))
    return commands


def cut(turn: str) -> list[Event]:
    return [ReplyEnded("cancelled", turn=turn), StepEnded(turn=turn), TurnEnded("cancelled", turn=turn)]


CLOSERS = ["content_block_stop", "message_delta", "message_stop"]


@pytest.mark.parametrize(("version", "closers"), [("2.1.325", CLOSERS), ("2.1.197", [])])
def test_an_interrupt_while_the_model_talks(version: str, closers: list[str]) -> None:
    driver = EngineDriver(partial=True, version=version)
    turn = begin(driver)
    driver.send(TextDelta("I w", turn=turn))
    assert driver.names[-1] == "content_block_delta"
    [cancel] = interrupt(driver)
    assert isinstance(cancel, Cancel)
    assert (cancel.what, cancel.queued) == ("turn", "keep")
    driver.send(BlockEnded(Text("I w"), turn=turn), *cut(turn))
    frames = driver.frames
    assistant = "assistant text aborted" if closers else "assistant text"
    assert [name(frame) for frame in frames] == [
        "control_response", assistant, "[Request interrupted by user]", *closers,
        "result/error_during_execution",
    ]  # fmt: skip
    assert frames[-1]["terminal_reason"] == "aborted_streaming"
    receipt = {"still_queued": []} if closers else None
    assert frames[0]["response"].get("response") == receipt


def test_an_interrupt_while_a_tool_runs() -> None:
    driver = EngineDriver()
    turn = begin(driver)
    driver.send(*called("c1", "Bash", {"command": "sleep 9"}, turn=turn), ReplyEnded("calls", SMALL, turn=turn))
    driver.send(ToolStarted("c1", "Bash", turn=turn))
    driver.frames  # noqa: B018  (what came before)
    interrupt(driver)
    driver.send(ToolFinished("c1", "Bash", "stopped", "cancelled", turn=turn), StepEnded(turn=turn))
    driver.send(TurnEnded("cancelled", turn=turn))
    frames = driver.frames
    assert [name(frame) for frame in frames] == [
        "control_response", "user tool_result", "[Request interrupted by user for tool use]",
        "result/error_during_execution",
    ]  # fmt: skip
    assert frames[-1]["terminal_reason"] == "aborted_tools"


def test_an_interrupt_while_somebody_is_asked() -> None:
    driver = EngineDriver()
    turn = begin(driver)
    driver.send(*called("c1", "Bash", {"command": "ls"}, turn=turn), ReplyEnded("calls", SMALL, turn=turn))
    driver.send(Ask("a1", call="c1", name="Bash", args={"command": "ls"}, turn=turn))
    assert driver.names[-1] == "control_request/can_use_tool"
    interrupt(driver)
    driver.send(AskClosed("a1", "cancelled", turn=turn), ToolFinished("c1", "Bash", "no", "cancelled", turn=turn))
    driver.send(StepEnded(turn=turn), TurnEnded("cancelled", turn=turn))
    frames = driver.frames
    assert [name(frame) for frame in frames] == [
        "control_cancel_request", "control_response", "user tool_result",
        "[Request interrupted by user for tool use]", "result/error_during_execution",
    ]  # fmt: skip
    assert [denial["tool_use_id"] for denial in frames[-1]["permission_denials"]] == ["c1"]
    assert driver.respond("a1", {"behavior": "allow"}) == []
    assert driver.names == []


def test_an_interrupt_when_nothing_runs_has_no_result() -> None:
    driver = EngineDriver()
    interrupt(driver)
    assert driver.names == ["control_response"]


def test_an_interrupt_can_take_what_waits_along() -> None:
    driver = EngineDriver()
    begin(driver)
    waiting = driver.prompt(uuid="u-2")
    driver.send(QueueChanged((waiting,)))
    driver.frames  # noqa: B018  (what came before)
    [cancel] = interrupt(driver, cancel_queued=True)
    assert isinstance(cancel, Cancel)
    assert cancel.queued == "drop"
    driver.send(QueueChanged(), TurnEnded("cancelled", turn=waiting))
    receipt, lifecycle = driver.frames
    assert receipt["response"]["response"] == {"still_queued": [], "cancelled": ["u-2"]}
    assert (lifecycle["command_uuid"], lifecycle["state"]) == ("u-2", "cancelled")


def test_a_prompt_that_is_interrupted_before_its_turn_begins_ends_in_a_result_and_did_not_wait() -> None:
    """L1. All of it may come in one piece, before the engine has heard of any of it."""
    driver = EngineDriver()
    request = {"type": "control_request", "request_id": "i", "request": {"subtype": "interrupt", "cancel_queued": True}}
    prompt, cancel = driver.receive(user("go", uuid="u-1"), request)
    assert isinstance(prompt, Prompt)
    driver.send(Reply(prompt.ref), Reply(cancel.ref), TurnEnded("cancelled", turn=prompt.turn))
    receipt, result, lifecycle = driver.frames
    assert receipt["response"]["response"] == {"still_queued": [], "cancelled": []}
    assert (result["type"], result["user_message_uuid"], lifecycle["state"]) == ("result", "u-1", "cancelled")


def test_a_prompt_is_taken_back_right_behind_it_and_waits_no_more() -> None:
    driver = EngineDriver()
    begin(driver)
    back = {"subtype": "cancel_async_message", "message_uuid": "u-2"}
    requests = [{"type": "control_request", "request_id": id, "request": back} for id in ("r1", "r2")]
    prompt, first, second = driver.receive(user("more", uuid="u-2"), *requests)
    assert isinstance(prompt, Prompt)
    driver.frames  # noqa: B018  (what came before)
    driver.send(Reply(prompt.ref), QueueChanged(("u-2",)), Reply(first.ref), QueueChanged(), Reply(second.ref))
    interrupt(driver)
    _, *answers = driver.frames
    payloads = [answer["response"]["response"] for answer in answers]
    assert payloads == [{"cancelled": True}, {"cancelled": False}, {"still_queued": []}]


def test_a_prompt_that_waits_for_the_greeting_can_be_taken_back_too() -> None:
    driver = EngineDriver()
    greeting = driver.request("initialize", id="g")
    assert driver.receive(user("go", uuid="u-1"), user("go", uuid="u-2")) == []
    interrupt(driver)
    [command] = driver.request("cancel_async_message", message_uuid="u-1")
    assert [one.turn for one in driver.send(Reply(command.ref)) if isinstance(one, Prompt)] == []
    still, lifecycle, answer = driver.frames
    assert still["response"]["response"] == {"still_queued": ["u-1", "u-2"]}
    assert (lifecycle["command_uuid"], lifecycle["state"]) == ("u-1", "cancelled")
    assert answer["response"]["response"] == {"cancelled": True}
    commands = driver.send(*(Reply(command.ref) for command in greeting))
    assert [command.turn for command in commands if isinstance(command, Prompt)] == ["u-2"]


# Agents.


def child(agent: str, call: str, turn: str, **how: bool) -> list[Event]:
    where = {"agent": agent, "turn": turn}
    finished = ToolFinished(f"{agent}1", "Bash", "a", **where)
    return [
        AgentStarted(call=call, name="scout", task="look", **how, **where),
        UserMessage("look", **where),
        *step(
            text("Looking.", **where),
            called(f"{agent}1", "Bash", {}, **where),
            then=(ToolStarted(f"{agent}1", "Bash", **where), finished),
            **where,
        ),
        AgentProgress("1 call", SMALL, 1, **where),
        *step(text("Found.", **where), **where),
        AgentEnded(summary="Found.", **where),
    ]


TASK = ["user tool_result*", "system/task_progress"]
ENDED = ["system/task_updated", "system/task_notification"]
SHOWN = {
    False: ["assistant tool_use*", "system/task_progress", *TASK, *ENDED],
    True: ["assistant text*", "assistant tool_use*", "system/task_progress", *TASK, "assistant text*", *ENDED],
}


@pytest.mark.parametrize("forward", [False, True])
def test_an_agent_that_the_turn_waits_for(forward: bool) -> None:
    """Only what it does is shown, unless its words are asked for."""
    driver = EngineDriver(forward_agents=forward)
    turn = begin(driver)
    driver.send(*called("c1", "Task", {}, turn=turn), ReplyEnded("calls", SMALL, turn=turn))
    driver.send(ToolStarted("c1", "Task", turn=turn), *child("k", "c1", turn))
    driver.send(ToolFinished("c1", "Task", "Found.", turn=turn), StepEnded(turn=turn))
    driver.send(*step(text("So.", turn=turn), turn=turn), TurnEnded("end", SMALL, 2, turn=turn))
    frames = driver.frames
    assert [name(frame) for frame in frames] == [
        "system/init", "assistant tool_use", "system/task_started", "user text*", *SHOWN[forward],
        "user tool_result", "assistant text", "result/success",
    ]  # fmt: skip
    inner = [frame for frame in frames if frame.get("parent_tool_use_id")]
    assert {(frame["parent_tool_use_id"], frame["agent_id"]) for frame in inner} == {("c1", "k")}
    assert not [frame for frame in inner if "tool_use_result" in frame]
    assert frames[-1]["result"] == "So."


def test_an_agent_in_the_background_goes_on_after_the_result_and_wakes_the_session() -> None:
    driver = EngineDriver()
    turn = begin(driver)
    driver.send(*called("c1", "Task", {}, turn=turn), ReplyEnded("calls", SMALL, turn=turn))
    start, *rest = child("b", "c1", "", background=True)
    driver.send(start, ToolFinished("c1", "Task", "launched", turn=turn), StepEnded(turn=turn))
    driver.send(TurnEnded("end", SMALL, 1, turn=turn))
    frames = driver.frames
    [listed] = [frame for frame in frames if frame.get("subtype") == "background_tasks_changed"]
    [result] = [frame["tool_use_result"] for frame in frames if "tool_use_result" in frame]
    assert [task["task_id"] for task in listed["tasks"]] == ["b"]
    assert (result["status"], result["agentId"]) == ("async_launched", "b")
    assert frames[-1]["type"] == "result"
    driver.send(*rest, TurnStarted("engine", turn="agent-1"), UserMessage("Found.", "engine", turn="agent-1"))
    driver.send(*step(text("It is done.", turn="agent-1"), turn="agent-1"), TurnEnded("end", SMALL, 1, turn="agent-1"))
    frames = driver.frames
    assert [name(frame) for frame in frames] == [
        "user text*", *SHOWN[True], "system/background_tasks_changed",
        "system/init", "assistant text", "result/success",
    ]  # fmt: skip
    assert [frame["tasks"] for frame in frames if "tasks" in frame] == [[]]
    assert frames[-1]["origin"] == {"kind": "task-notification"}


def test_two_agents_of_one_call_are_told_apart() -> None:
    driver = EngineDriver(forward_agents=True)
    turn = begin(driver)
    driver.send(*called("c1", "Spawn", {}, turn=turn), ReplyEnded("calls", SMALL, turn=turn))
    for one, two in zip(child("k", "c1", turn), child("l", "c1", turn), strict=True):
        driver.send(one, two)
    frames = [frame for frame in driver.frames if frame["type"] == "assistant" and frame["parent_tool_use_id"]]
    texts = [(frame["agent_id"], block.get("text")) for frame in frames for block in frame["message"]["content"]]
    assert [text for text in texts if text[1]] == [
        ("k", "Looking."), ("l", "Looking."), ("k", "Found."), ("l", "Found."),
    ]  # fmt: skip
