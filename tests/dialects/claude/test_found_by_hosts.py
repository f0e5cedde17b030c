"""What the vendor's own SDKs tripped over."""

from typing import Literal

import pytest

from dialects.claude.engine_talk import Talk, user
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


def begun(**options: bool) -> tuple[Talk, str]:
    talk = Talk(**options)
    turn = talk.prompt()
    talk.say(TurnStarted(turn=turn), StepStarted(turn=turn))
    assert talk.names == ["system/init"]
    return talk, turn


def test_a_block_does_not_wait_for_the_next_one_to_begin() -> None:
    talk, turn = begun()
    talk.say(TextDelta("One.", turn=turn), BlockEnded(Text("One."), turn=turn))
    assert (talk.names, talk.codec.due()) == ([], 20)
    talk.clock.now += 20
    assert (talk.names, talk.codec.due()) == (["assistant text"], None)
    talk.say(ReplyEnded("cancelled", turn=turn))
    assert talk.names == [], "what has been said stays as it is"


def test_a_prompt_without_an_id_is_said_again_under_the_name_of_its_turn() -> None:
    """That is what files are set back by."""
    talk, turn = begun(replay=True)
    talk.say(UserMessage("go", turn=turn))
    [frame] = talk.frames
    assert (frame["isReplay"], frame["uuid"]) == (True, turn)


def test_a_host_that_has_denied_a_call_hears_its_own_words() -> None:
    talk, turn = begun()
    talk.say(ToolCalled("c1", "Bash", {}, turn=turn), Ask("a1", call="c1", name="Bash", turn=turn))
    talk.say(ToolFinished("c1", "Bash", "Tool denied: not today", "denied", reason="not today", turn=turn))
    told = talk.frames[-1]
    assert told["message"]["content"][0]["content"] == "not today"
    assert told["tool_result_meta"] == [
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
    talk, turn = begun()
    talk.say(ToolCalled("c1", name, {}, turn=turn), ToolFinished("c1", name, "5", "ok", turn=turn))
    assert talk.frames[-1]["message"]["content"][0]["content"] == [{"type": "text", "text": "5"}]


def test_an_agent_is_of_the_kind_that_was_asked_for_and_stopped_if_the_host_says_so() -> None:
    talk, turn = begun()
    talk.say(ToolCalled("k1", "Agent", {"subagent_type": "parrot"}, turn=turn))
    talk.say(AgentStarted(call="k1", name="repeat", task="Say it again", agent="k1", turn=turn))
    started = talk.frames[-1]
    assert (started["subagent_type"], started["description"]) == ("parrot", "repeat")
    [command] = talk.request("stop_task", task_id="k1")
    assert isinstance(command, Cancel)
    talk.say(AgentEnded(False, "cancelled", agent="k1", turn=turn))
    updated, notified = talk.frames
    assert (updated["patch"]["status"], notified["status"]) == ("killed", "stopped")


def test_an_agent_ends_with_the_turn_that_was_interrupted() -> None:
    talk, turn = begun()
    talk.say(AgentStarted(call="k1", name="repeat", agent="k1", turn=turn))
    talk.request("interrupt")
    talk.say(AgentEnded(False, "cancelled", agent="k1", turn=turn))
    assert talk.frames[-1]["status"] == "stopped"


def test_a_prompt_waits_for_the_answer_to_the_greeting_that_it_followed() -> None:
    """Its servers may still be coming up."""
    talk = Talk()
    hello, *others = talk.request("initialize", sdkMcpServers=["sums"])
    assert talk.hear(user()) == []
    assert talk.say(*(Reply(command.ref) for command in others)) == []
    [prompt] = talk.say(Reply(hello.ref))
    assert isinstance(prompt, Prompt)
    assert talk.names == ["control_response"]


def test_where_no_more_will_be_said_a_prompt_does_not_wait() -> None:
    talk = Talk()
    talk.request("initialize")
    talk.hear(user())
    assert [type(command) for command in talk.codec.receive_eof()] == [Prompt]


@pytest.mark.parametrize(("reason", "state"), [("end", "completed"), ("cancelled", "cancelled")])
def test_a_prompt_whose_turn_was_interrupted_is_cancelled(reason: Literal["end", "cancelled"], state: str) -> None:
    talk = Talk()
    turn = talk.prompt(uuid="u1")
    talk.say(TurnStarted(turn=turn), TurnEnded(reason, turn=turn))
    assert talk.names[-1] == f"lifecycle {state}"
