"""Interrupts (section 4.3) and sub-agents (section 6.3), in the orders that were measured on the real program."""

from typing import Any

import pytest

from conversations import SMALL, called, step, text
from dialects.claude.engine_talk import Talk, name, user
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


def begin(talk: Talk) -> str:
    turn = talk.prompt()
    talk.say(TurnStarted(turn=turn), UserMessage("go", turn=turn), StepStarted(turn=turn))
    return turn


def interrupt(talk: Talk, **fields: Any) -> list[Command]:
    commands = talk.request("interrupt", **fields)
    talk.say(*(Reply(command.ref) for command in commands))
    return commands


def cut(turn: str) -> list[Event]:
    return [ReplyEnded("cancelled", turn=turn), StepEnded(turn=turn), TurnEnded("cancelled", turn=turn)]


CLOSERS = ["content_block_stop", "message_delta", "message_stop"]


@pytest.mark.parametrize(("version", "closers"), [("2.1.325", CLOSERS), ("2.1.197", [])])
def test_an_interrupt_while_the_model_talks(version: str, closers: list[str]) -> None:
    talk = Talk(partial=True, version=version)
    turn = begin(talk)
    talk.say(TextDelta("I w", turn=turn))
    assert talk.names[-1] == "content_block_delta"
    [cancel] = interrupt(talk)
    assert isinstance(cancel, Cancel)
    assert (cancel.what, cancel.queued) == ("turn", "keep")
    talk.say(BlockEnded(Text("I w"), turn=turn), *cut(turn))
    frames = talk.frames
    said = "assistant text aborted" if closers else "assistant text"
    assert [name(frame) for frame in frames] == [
        "control_response", said, "[Request interrupted by user]", *closers,
        "result/error_during_execution",
    ]  # fmt: skip
    assert frames[-1]["terminal_reason"] == "aborted_streaming"
    receipt = {"still_queued": []} if closers else None
    assert frames[0]["response"].get("response") == receipt


def test_an_interrupt_while_a_tool_runs() -> None:
    talk = Talk()
    turn = begin(talk)
    talk.say(*called("c1", "Bash", {"command": "sleep 9"}, turn=turn), ReplyEnded("calls", SMALL, turn=turn))
    talk.say(ToolStarted("c1", "Bash", turn=turn))
    talk.frames  # noqa: B018  (what came before)
    interrupt(talk)
    talk.say(ToolFinished("c1", "Bash", "stopped", "cancelled", turn=turn), StepEnded(turn=turn))
    talk.say(TurnEnded("cancelled", turn=turn))
    frames = talk.frames
    assert [name(frame) for frame in frames] == [
        "control_response", "user tool_result", "[Request interrupted by user for tool use]",
        "result/error_during_execution",
    ]  # fmt: skip
    assert frames[-1]["terminal_reason"] == "aborted_tools"


def test_an_interrupt_while_somebody_is_asked() -> None:
    talk = Talk()
    turn = begin(talk)
    talk.say(*called("c1", "Bash", {"command": "ls"}, turn=turn), ReplyEnded("calls", SMALL, turn=turn))
    talk.say(Ask("a1", call="c1", name="Bash", args={"command": "ls"}, turn=turn))
    assert talk.names[-1] == "control_request/can_use_tool"
    interrupt(talk)
    talk.say(AskClosed("a1", "cancelled", turn=turn), ToolFinished("c1", "Bash", "no", "cancelled", turn=turn))
    talk.say(StepEnded(turn=turn), TurnEnded("cancelled", turn=turn))
    frames = talk.frames
    assert [name(frame) for frame in frames] == [
        "control_cancel_request", "control_response", "user tool_result",
        "[Request interrupted by user for tool use]", "result/error_during_execution",
    ]  # fmt: skip
    assert [denial["tool_use_id"] for denial in frames[-1]["permission_denials"]] == ["c1"]
    assert talk.respond("a1", {"behavior": "allow"}) == []
    assert talk.names == []


def test_an_interrupt_when_nothing_runs_has_no_result() -> None:
    talk = Talk()
    interrupt(talk)
    assert talk.names == ["control_response"]


def test_an_interrupt_can_take_what_waits_along() -> None:
    talk = Talk()
    begin(talk)
    waiting = talk.prompt(uuid="u-2")
    talk.say(QueueChanged((waiting,)))
    talk.frames  # noqa: B018  (what came before)
    [cancel] = interrupt(talk, cancel_queued=True)
    assert isinstance(cancel, Cancel)
    assert cancel.queued == "drop"
    talk.say(QueueChanged(), TurnEnded("cancelled", turn=waiting))
    receipt, told = talk.frames
    assert receipt["response"]["response"] == {"still_queued": [], "cancelled": ["u-2"]}
    assert (told["command_uuid"], told["state"]) == ("u-2", "cancelled")


def test_a_prompt_that_is_interrupted_before_its_turn_begins_ends_in_a_result_and_did_not_wait() -> None:
    """L1. All of it may come in one piece, before the engine has heard of any of it."""
    talk = Talk()
    request = {"type": "control_request", "request_id": "i", "request": {"subtype": "interrupt", "cancel_queued": True}}
    prompt, cancel = talk.hear(user("go", uuid="u-1"), request)
    assert isinstance(prompt, Prompt)
    talk.say(Reply(prompt.ref), Reply(cancel.ref), TurnEnded("cancelled", turn=prompt.turn))
    receipt, result, told = talk.frames
    assert receipt["response"]["response"] == {"still_queued": [], "cancelled": []}
    assert (result["type"], result["user_message_uuid"], told["state"]) == ("result", "u-1", "cancelled")


def test_a_prompt_is_taken_back_right_behind_it_and_waits_no_more() -> None:
    talk = Talk()
    begin(talk)
    back = {"subtype": "cancel_async_message", "message_uuid": "u-2"}
    requests = [{"type": "control_request", "request_id": id, "request": back} for id in ("r1", "r2")]
    prompt, first, second = talk.hear(user("more", uuid="u-2"), *requests)
    assert isinstance(prompt, Prompt)
    talk.frames  # noqa: B018  (what came before)
    talk.say(Reply(prompt.ref), QueueChanged(("u-2",)), Reply(first.ref), QueueChanged(), Reply(second.ref))
    interrupt(talk)
    _, *answers = talk.frames
    told = [answer["response"]["response"] for answer in answers]
    assert told == [{"cancelled": True}, {"cancelled": False}, {"still_queued": []}]


def test_a_prompt_that_waits_for_the_greeting_can_be_taken_back_too() -> None:
    talk = Talk()
    greeting = talk.request("initialize", id="g")
    assert talk.hear(user("go", uuid="u-1"), user("go", uuid="u-2")) == []
    interrupt(talk)
    [command] = talk.request("cancel_async_message", message_uuid="u-1")
    assert [one.turn for one in talk.say(Reply(command.ref)) if isinstance(one, Prompt)] == []
    still, told, answer = talk.frames
    assert still["response"]["response"] == {"still_queued": ["u-1", "u-2"]}
    assert (told["command_uuid"], told["state"]) == ("u-1", "cancelled")
    assert answer["response"]["response"] == {"cancelled": True}
    commands = talk.say(*(Reply(command.ref) for command in greeting))
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
    talk = Talk(forward_agents=forward)
    turn = begin(talk)
    talk.say(*called("c1", "Task", {}, turn=turn), ReplyEnded("calls", SMALL, turn=turn))
    talk.say(ToolStarted("c1", "Task", turn=turn), *child("k", "c1", turn))
    talk.say(ToolFinished("c1", "Task", "Found.", turn=turn), StepEnded(turn=turn))
    talk.say(*step(text("So.", turn=turn), turn=turn), TurnEnded("end", SMALL, 2, turn=turn))
    frames = talk.frames
    assert [name(frame) for frame in frames] == [
        "system/init", "assistant tool_use", "system/task_started", "user text*", *SHOWN[forward],
        "user tool_result", "assistant text", "result/success",
    ]  # fmt: skip
    inner = [frame for frame in frames if frame.get("parent_tool_use_id")]
    assert {(frame["parent_tool_use_id"], frame["agent_id"]) for frame in inner} == {("c1", "k")}
    assert not [frame for frame in inner if "tool_use_result" in frame]
    assert frames[-1]["result"] == "So."


def test_an_agent_in_the_background_goes_on_after_the_result_and_wakes_the_session() -> None:
    talk = Talk()
    turn = begin(talk)
    talk.say(*called("c1", "Task", {}, turn=turn), ReplyEnded("calls", SMALL, turn=turn))
    start, *rest = child("b", "c1", "", background=True)
    talk.say(start, ToolFinished("c1", "Task", "launched", turn=turn), StepEnded(turn=turn))
    talk.say(TurnEnded("end", SMALL, 1, turn=turn))
    assert talk.frames[-1]["type"] == "result"
    talk.say(*rest, TurnStarted("engine", turn="agent-1"), UserMessage("Found.", "engine", turn="agent-1"))
    talk.say(*step(text("It is done.", turn="agent-1"), turn="agent-1"), TurnEnded("end", SMALL, 1, turn="agent-1"))
    frames = talk.frames
    assert [name(frame) for frame in frames] == [
        "user text*", *SHOWN[True], "system/init", "assistant text", "result/success",
    ]  # fmt: skip
    assert frames[-1]["origin"] == {"kind": "task-notification"}


def test_two_agents_of_one_call_are_told_apart() -> None:
    talk = Talk(forward_agents=True)
    turn = begin(talk)
    talk.say(*called("c1", "Spawn", {}, turn=turn), ReplyEnded("calls", SMALL, turn=turn))
    for one, two in zip(child("k", "c1", turn), child("l", "c1", turn), strict=True):
        talk.say(one, two)
    said = [frame for frame in talk.frames if frame["type"] == "assistant" and frame["parent_tool_use_id"]]
    texts = [(frame["agent_id"], block.get("text")) for frame in said for block in frame["message"]["content"]]
    assert [text for text in texts if text[1]] == [
        ("k", "Looking."), ("l", "Looking."), ("k", "Found."), ("l", "Found."),
    ]  # fmt: skip
