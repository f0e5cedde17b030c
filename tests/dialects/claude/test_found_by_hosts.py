"""What the vendor's own SDKs tripped over."""

from typing import Literal

import pytest

from dialects.claude.engine_driver import EngineDriver, user
from polylect.vocab.commands import Cancel, Prompt
from polylect.vocab.content import Text
from polylect.vocab.events import (
    AgentEnded,
    AgentStarted,
    Ask,
    BlockEnded,
    Reply,
    ReplyEnded,
    StepStarted,
    TextDelta,
    ToolCalled,
    ToolFinished,
    TurnEnded,
    TurnStarted,
    UserMessage,
)


def begun(**options: bool) -> tuple[EngineDriver, str]:
    driver = EngineDriver(**options)
    turn = driver.prompt()
    driver.send(TurnStarted(turn=turn), StepStarted(turn=turn))
    assert driver.names == ["system/init"]
    return driver, turn


def test_a_block_does_not_wait_for_the_next_one_to_begin() -> None:
    driver, turn = begun()
    driver.send(TextDelta("One.", turn=turn), BlockEnded(Text("One."), turn=turn))
    assert (driver.names, driver.codec.due()) == ([], 20)
    driver.clock.now += 20
    assert (driver.names, driver.codec.due()) == (["assistant text"], None)
    driver.send(ReplyEnded("cancelled", turn=turn))
    assert driver.names == [], "what has been said stays as it is"


def test_a_prompt_without_an_id_is_said_again_under_the_name_of_its_turn() -> None:
    """That is what files are set back by."""
    driver, turn = begun(replay=True)
    driver.send(UserMessage("go", turn=turn))
    [frame] = driver.frames
    assert (frame["isReplay"], frame["uuid"]) == (True, turn)


def test_a_host_that_has_denied_a_call_hears_its_own_words() -> None:
    driver, turn = begun()
    driver.send(ToolCalled("c1", "Bash", {}, turn=turn), Ask("a1", call="c1", name="Bash", turn=turn))
    driver.send(ToolFinished("c1", "Bash", "Tool denied: not today", "denied", reason="not today", turn=turn))
    frame = driver.frames[-1]
    assert frame["message"]["content"][0]["content"] == "not today"
    assert frame["tool_result_meta"] == [
        {
            "id": "c1",
            "permission_decision": {"decision": "reject", "source": "user_reject"},
            "non_execution_kind": "permission-rule",
            "outcome": "denied",
            "tool_name": "Bash",
            "reason": "not today",
        }
    ]


@pytest.mark.parametrize("name", ["mcp__sums__add", "Agent"])
def test_what_servers_and_agents_return_are_blocks(name: str) -> None:
    driver, turn = begun()
    driver.send(ToolCalled("c1", name, {}, turn=turn), ToolFinished("c1", name, "5", "ok", turn=turn))
    assert driver.frames[-1]["message"]["content"][0]["content"] == [{"type": "text", "text": "5"}]


def test_a_call_of_a_server_has_names_to_show() -> None:
    driver, turn = begun()
    driver.send(ToolCalled("c1", "mcp__sums__add_two", {}, turn=turn), ToolCalled("c2", "Bash", {}, turn=turn))
    shown = {"id": "c1", "display_name": "add_two", "server_display_name": "sums", "tool_name": "add_two"}
    assert [frame.get("tool_use_meta") for frame in driver.frames] == [[shown], None]


def test_an_agent_is_of_the_kind_that_was_asked_for_and_stopped_if_the_host_says_so() -> None:
    driver, turn = begun()
    driver.send(ToolCalled("k1", "Agent", {"subagent_type": "parrot"}, turn=turn))
    driver.send(AgentStarted(call="k1", name="repeat", task="Say it again", agent="k1", turn=turn))
    started = driver.frames[-1]
    assert (started["subagent_type"], started["description"]) == ("parrot", "repeat")
    [command] = driver.request("stop_task", task_id="k1")
    assert isinstance(command, Cancel)
    driver.send(AgentEnded(False, "cancelled", agent="k1", turn=turn))
    updated, notified = driver.frames
    assert (updated["patch"]["status"], notified["status"]) == ("killed", "stopped")


def test_an_agent_ends_with_the_turn_that_was_interrupted() -> None:
    driver, turn = begun()
    driver.send(AgentStarted(call="k1", name="repeat", agent="k1", turn=turn))
    driver.request("interrupt")
    driver.send(AgentEnded(False, "cancelled", agent="k1", turn=turn))
    assert driver.frames[-1]["status"] == "stopped"


def test_a_prompt_waits_for_the_answer_to_the_greeting_that_it_followed() -> None:
    """Its servers may still be coming up."""
    driver = EngineDriver()
    hello, *others = driver.request("initialize", sdkMcpServers=["sums"])
    assert driver.receive(user()) == []
    assert driver.send(*(Reply(command.ref) for command in others)) == []
    [prompt] = driver.send(Reply(hello.ref))
    assert isinstance(prompt, Prompt)
    assert driver.names == ["control_response"]


def test_where_no_more_will_be_said_a_prompt_does_not_wait() -> None:
    driver = EngineDriver()
    driver.request("initialize")
    driver.receive(user())
    assert [type(command) for command in driver.codec.receive_eof()] == [Prompt]


@pytest.mark.parametrize(("reason", "state"), [("end", "completed"), ("cancelled", "cancelled")])
def test_a_prompt_whose_turn_was_interrupted_is_cancelled(reason: Literal["end", "cancelled"], state: str) -> None:
    driver = EngineDriver()
    turn = driver.prompt(uuid="u1")
    driver.send(TurnStarted(turn=turn), TurnEnded(reason, turn=turn))
    assert driver.names[-1] == f"lifecycle {state}"
