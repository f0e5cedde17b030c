"""Turns as a host of Claude stream-json hears them, in the orders that were measured on the real program."""

from typing import Any

import pytest

from conversations import PLAIN, SMALL, called, step, text
from dialects.claude.engine_driver import EngineDriver, name, user
from polylect.vocab.answers import CommandCard
from polylect.vocab.commands import Hello, Prompt
from polylect.vocab.content import Failure, Image, Text, Thinking, Usage
from polylect.vocab.events import (
    Alive,
    BlockEnded,
    BudgetExceeded,
    CompactionEnded,
    CompactionStarted,
    CostChanged,
    Event,
    Extra,
    Failed,
    Notice,
    Ready,
    Reply,
    ReplyEnded,
    RetryEnded,
    RetryStarted,
    ServerChanged,
    SettingChanged,
    Settled,
    StepEnded,
    StepStarted,
    StructuredAnswer,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UserMessage,
)


def turn_of(turn: str, *events: Event, ended: TurnEnded | None = None) -> list[Event]:
    return [
        TurnStarted(turn=turn),
        UserMessage("go", turn=turn),
        *events,
        ended or TurnEnded("end", SMALL, 1, turn=turn),
    ]


def plain(driver: EngineDriver, turn: str, words: str = "Hello") -> list[dict[str, Any]]:
    driver.send(*turn_of(turn, *step(text(words, turn=turn), turn=turn)))
    return driver.frames


# Beginnings.


def test_nothing_is_written_at_spawn_and_the_engine_is_greeted_all_the_same() -> None:
    driver = EngineDriver()
    assert driver.codec.start() == [Hello()]
    driver.send(Ready(session="s", model="m"), SettingChanged("tools", ["Bash"]), Settled())
    assert driver.names == []


def test_every_turn_begins_with_init_and_ends_with_a_result() -> None:
    driver = EngineDriver()
    for _ in range(2):
        turn = driver.prompt()
        driver.send(*turn_of(turn, *step(text("Hel", "lo", turn=turn), turn=turn)))
        assert driver.names == ["system/init", "assistant text", "result/success"]


def test_init_says_all_that_is_known() -> None:
    driver = EngineDriver(mode="acceptEdits", key_source="ANTHROPIC_API_KEY")
    driver.send(
        SettingChanged("tools", ("Bash", "Agent")),
        SettingChanged("agents", ["scout"]),
        SettingChanged("skills", ["pdf"]),
        SettingChanged("commands", [CommandCard("cost"), {"name": "help"}]),
        SettingChanged("model", "m2"),
        SettingChanged("effort", "low"),
        ServerChanged("team", "ready", ("one",)),
        ServerChanged("other", "failed", reason="gone"),
        ServerChanged("third", "ready"),
        ServerChanged("third", "removed"),
    )
    [init, *_] = plain(driver, driver.prompt(uuid="u-1"))[1:]
    assert init.pop("engine")["name"] == "polylect"
    assert init.pop("uuid")
    assert init == {
        "type": "system",
        "subtype": "init",
        "session_id": "s",
        "cwd": "/w",
        "tools": ["Bash", "Task"],
        "mcp_servers": [{"name": "team", "status": "connected"}, {"name": "other", "status": "failed"}],
        "model": "m2",
        "permissionMode": "acceptEdits",
        "slash_commands": ["cost", "help"],
        "apiKeySource": "ANTHROPIC_API_KEY",
        "claude_code_version": "2.1.325",
        "output_style": "default",
        "agents": ["scout"],
        "skills": ["pdf"],
        "plugins": [],
        "capabilities": ["interrupt_receipt_v1", "interrupt_cancel_queued_v1", "msg_lifecycle_v1"],
        "effort": "low",
        "fast_mode_state": "off",
        "analytics_disabled": True,
        "user_message_uuids": ["u-1"],
    }


def test_the_older_version_has_no_capabilities_and_no_lifecycle() -> None:
    driver = EngineDriver(version="2.1.197")
    init, assistant, result = plain(driver, driver.prompt(uuid="u-1"))
    assert "capabilities" not in init
    assert "timestamp" not in assistant
    assert "result_index" not in result


# Blocks.


def test_each_block_is_an_event_of_its_own_and_all_share_the_id_of_the_message() -> None:
    driver = EngineDriver()
    turn = driver.prompt()
    driver.send(
        *turn_of(
            turn,
            *step(
                [ThinkingDelta("hm", turn=turn), BlockEnded(Thinking("hm", "sig"), turn=turn)],
                BlockEnded(Thinking("", redacted="xx"), turn=turn),
                text("Do", " it.", turn=turn),
                called("c1", "Bash", {"command": "ls"}, turn=turn),
                turn=turn,
                then=(ToolStarted("c1", "Bash", turn=turn), ToolFinished("c1", "Bash", "a", turn=turn)),
            ),
        )
    )
    messages = [frame["message"] for frame in driver.frames if frame["type"] == "assistant"]
    assert [message["content"] for message in messages] == [
        [{"type": "thinking", "thinking": "hm", "signature": "sig"}],
        [{"type": "redacted_thinking", "data": "xx"}],
        [{"type": "text", "text": "Do it."}],
        [{"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}}],
    ]
    assert len({message["id"] for message in messages}) == 1
    assert {message["stop_reason"] for message in messages} == {None}


def test_results_of_calls_come_in_the_order_in_which_calls_end() -> None:
    driver = EngineDriver()
    turn = driver.prompt()
    calls = [*called("c1", "Bash", {}, turn=turn), *called("c2", "Read", {}, turn=turn)]
    finished = (
        ToolFinished("c2", "Read", "picture", images=(Image("image/png", "iVBO"),), turn=turn),
        ToolFinished("c1", "Bash", "no", "error", metadata={"exit": 1}, turn=turn),
    )
    driver.send(*turn_of(turn, *step(calls, turn=turn, then=finished)))
    two, one = [frame for frame in driver.frames if frame["type"] == "user"]
    source = {"type": "base64", "media_type": "image/png", "data": "iVBO"}
    assert two["message"]["content"][0]["content"] == [
        {"type": "text", "text": "picture"},
        {"type": "image", "source": source},
    ]
    assert one["message"]["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": "no", "is_error": True}
    ]
    assert one["tool_use_result"] == {"exit": 1}


def test_partial_messages_come_in_the_measured_order() -> None:
    """Section 1.5: the whole block comes before the end of its pieces."""
    driver = EngineDriver(partial=True)
    turn = driver.prompt()
    driver.send(
        *turn_of(
            turn,
            *step(
                [ThinkingDelta("h", turn=turn), ThinkingDelta("m", turn=turn)],
                BlockEnded(Thinking("hm", "sig"), turn=turn),
                text("Hi", turn=turn),
                ToolCalled("c1", "Bash", {"command": "ls"}, turn=turn),
                turn=turn,
                then=(ToolFinished("c1", "Bash", "a", turn=turn),),
            ),
        )
    )
    block = ["content_block_start", "content_block_delta"]
    frames = driver.frames
    assert [name(frame) for frame in frames] == [
        "system/init", "status requesting", "message_start",
        *block, "content_block_delta", "content_block_delta", "assistant thinking", "content_block_stop",
        *block, "assistant text", "content_block_stop",
        *block, "assistant tool_use", "content_block_stop",
        "message_delta", "message_stop", "user tool_result", "result/success",
    ]  # fmt: skip
    events = [frame["event"] for frame in frames if frame["type"] == "stream_event"]
    assert [event["index"] for event in events if "index" in event] == [0] * 5 + [1] * 3 + [2] * 3
    assert events[-2]["delta"]["stop_reason"] == "tool_use"
    assert events[-2]["usage"]["input_tokens"] == SMALL.input


# Results.


def test_a_result_tells_this_turns_usage_and_the_sessions_cost() -> None:
    driver = EngineDriver()
    rows: list[dict[str, Any]] = []
    for number in (1, 2):
        turn = driver.prompt()
        driver.send(TurnStarted(turn=turn), UserMessage("go", turn=turn), StepStarted(turn=turn))
        driver.clock.now += 40
        driver.send(*text("Hi", turn=turn), ReplyEnded("end", SMALL, "m", turn=turn), StepEnded(turn=turn))
        driver.clock.now += 10
        rows.append({"model": "m", "provider": "p", "cost_usd": 0.25, "usage": Usage(10, 5, 3, 2, 0.25)})
        driver.send(CostChanged(Usage(10 * number, 5 * number, cost=0.25 * number), tuple(rows), turn=turn))
        driver.send(TurnEnded("end", Usage(10, 5, 3, 2), 1, turn=turn))
    result = driver.frames[-1]
    assert result["usage"]["input_tokens"] == 10
    assert result["usage"]["cache_read_input_tokens"] == 3
    assert result["usage"]["cache_creation_input_tokens"] == 2
    assert result["total_cost_usd"] == 0.5
    assert result["modelUsage"]["m"] == {
        "inputTokens": 20, "outputTokens": 10, "cacheReadInputTokens": 6, "cacheCreationInputTokens": 4,
        "webSearchRequests": 0, "costUSD": 0.5, "contextWindow": 0, "maxOutputTokens": 0, "provider": "p",
    }  # fmt: skip
    assert result["model_usage_since_last_result"]["m"]["inputTokens"] == 10
    assert (result["duration_ms"], result["duration_api_ms"], result["result_index"]) == (50, 80, 1)
    assert (result["num_turns"], result["result"], result["stop_reason"]) == (1, "Hi", "end_turn")


def test_a_price_that_nobody_knows_takes_nothing_away_from_what_is_known() -> None:
    driver = EngineDriver()
    known, unknown = {"model": "m", "cost_usd": 0.25}, {"model": "n", "cost_usd": None}
    driver.send(CostChanged(Usage(1), (known, unknown)))
    turn = driver.prompt()
    driver.send(TurnStarted(turn=turn), UserMessage("go", turn=turn))
    driver.send(CostChanged(Usage(2), (known, unknown, known, unknown), turn=turn), TurnEnded("end", turn=turn))
    assert driver.frames[-1]["total_cost_usd"] == 0.25


FAILURE = Failure("overloaded", "too busy", "provider", True)
ENDS: list[tuple[TurnEnded, dict[str, Any]]] = [
    (TurnEnded("end"), {"subtype": "success", "is_error": False, "terminal_reason": "completed"}),
    (TurnEnded("length"), {"subtype": "success", "is_error": True, "stop_reason": "max_tokens"}),
    (TurnEnded("refused"), {"subtype": "success", "is_error": True, "stop_reason": "refusal"}),
    (TurnEnded("limit", steps=2), {"subtype": "error_max_turns", "terminal_reason": "max_turns"}),
    (TurnEnded("cancelled"), {"subtype": "error_during_execution", "terminal_reason": "aborted_streaming"}),
    (
        TurnEnded("error", failure=FAILURE),
        {"subtype": "success", "is_error": True, "api_error_status": 529, "terminal_reason": "api_error"},
    ),
    (
        TurnEnded("error", failure=Failure("internal", "broken", "engine")),
        {"subtype": "error_during_execution", "errors": ["broken"]},
    ),
    (
        TurnEnded("error", failure=Failure("structured_output", "no match", "provider")),
        {"subtype": "error_max_structured_output_retries", "errors": ["no match"]},
    ),
]


@pytest.mark.parametrize(
    ("ended", "expected"), ENDS, ids=[f"{end.reason} {expected['subtype']}" for end, expected in ENDS]
)
def test_how_a_turn_ended_is_told_and_decides_the_exit_code(ended: TurnEnded, expected: dict[str, Any]) -> None:
    driver = EngineDriver()
    turn = driver.prompt()
    end = TurnEnded(ended.reason, SMALL, 2, ended.failure, turn=turn)
    driver.send(*turn_of(turn, *step(text("Hi", turn=turn), turn=turn), ended=end))
    frames = driver.frames
    result = frames[-1]
    assert {key: result[key] for key in expected} == expected
    assert ("api_error_status" in expected) == any("error" in frame for frame in frames[:-1])
    assert result["is_error"] == (ended.reason != "end")
    assert ("errors" in result) != ("result" in result)
    assert driver.codec.exit_code == int(ended.reason != "end")
    plain(driver, driver.prompt())
    assert driver.codec.exit_code == 0


def test_a_failure_of_the_models_service_is_also_said_as_a_message() -> None:
    driver = EngineDriver()
    turn = driver.prompt()
    step = (StepStarted(turn=turn), ReplyEnded("error", turn=turn), StepEnded(turn=turn))
    driver.send(*turn_of(turn, *step, ended=TurnEnded("error", failure=FAILURE, turn=turn)))
    _, assistant, result = driver.frames
    assert (assistant["error"], assistant["message"]["model"]) == ("overloaded", "<synthetic>")
    assert result["result"] == assistant["message"]["content"][0]["text"] == "API Error: too busy"


def test_a_spent_budget_is_no_limit_of_turns() -> None:
    driver = EngineDriver()
    for event in (BudgetExceeded("max_cost_usd", "2", "1"), Notice("Stopped")):
        turn = driver.prompt()
        driver.send(*turn_of(turn, event, ended=TurnEnded("limit", turn=turn)))
        assert driver.frames[-1]["subtype"] == "error_max_budget_usd"


def test_structured_output_is_a_value_and_its_text() -> None:
    driver = EngineDriver()
    turn = driver.prompt()
    value = StructuredAnswer({"a": 1}, turn=turn)
    driver.send(*turn_of(turn, *step(text("Done", turn=turn), turn=turn), value))
    result = driver.frames[-1]
    assert (result["structured_output"], result["result"]) == ({"a": 1}, '{"a":1}')


def test_what_was_denied_is_listed_and_told_where_nobody_was_asked() -> None:
    driver = EngineDriver()
    turn = driver.prompt()
    denied = ToolFinished("c1", "Bash", "Tool denied: no", "denied", reason="no", turn=turn)
    driver.send(*turn_of(turn, *step(called("c1", "Bash", {"command": "ls"}, turn=turn), turn=turn, then=(denied,))))
    frames = driver.frames
    assert [frame.get("subtype") for frame in frames[2:4]] == ["permission_denied", None]
    assert (frames[2]["tool_use_id"], frames[2]["decision_reason"]) == ("c1", "no")
    assert frames[-1]["permission_denials"] == [
        {"tool_name": "Bash", "tool_use_id": "c1", "tool_input": {"command": "ls"}}
    ]


@pytest.mark.parametrize(("output", "written"), [("text", b"Hello\n"), ("json", None)])
def test_only_the_result_is_printed_where_nobody_wants_the_rest(output: Any, written: bytes | None) -> None:
    driver = EngineDriver(output=output, prompt="hi")
    hello, prompt = driver.codec.start()
    assert isinstance(prompt, Prompt)
    assert (prompt.text, hello) == ("hi", Hello())
    driver.send(Reply(prompt.ref), *turn_of(prompt.turn, *step(text("Hello", turn=prompt.turn), turn=prompt.turn)))
    data = driver.codec.data_to_send()
    assert data == written if written else (data.count(b"\n"), data[:16]) == (1, b'{"type":"result"')


# Without a model.


def test_a_slash_commands_answer_is_a_message_that_nobody_made() -> None:
    driver = EngineDriver()
    turn = driver.prompt("/cost")
    driver.send(TurnStarted(turn=turn), Notice("$0.10", turn=turn), TurnEnded("end", turn=turn))
    _, assistant, result = driver.frames
    assert assistant["message"]["model"] == "<synthetic>"
    assert assistant["message"]["content"] == [{"type": "text", "text": "$0.10"}]
    assert (result["result"], result["num_turns"], result["duration_api_ms"]) == ("$0.10", 0, 0)
    assert "terminal_reason" not in result


def test_a_notice_before_a_model_is_asked_is_only_a_notice() -> None:
    driver = EngineDriver()
    turn = driver.prompt()
    driver.send(TurnStarted(turn=turn), Notice("careful", turn=turn), UserMessage("go", turn=turn))
    driver.send(*step(text("Hi", turn=turn), turn=turn), TurnEnded("end", turn=turn))
    assert driver.names == ["system/init", "system/informational", "assistant text", "result/success"]


def test_words_that_only_add_to_the_context_get_a_result_without_a_message() -> None:
    driver = EngineDriver()
    [prompt] = driver.receive(user("note this", shouldQuery=False))
    assert isinstance(prompt, Prompt)
    assert not prompt.query
    driver.send(Reply(prompt.ref), *turn_of(prompt.turn, ended=TurnEnded("end", turn=prompt.turn)))
    _, result = driver.frames
    assert (result["subtype"], result["num_turns"]) == ("success", 0)


def test_compaction_by_hand_comes_in_the_measured_order() -> None:
    """Section 1.6."""
    driver = EngineDriver()
    turn = driver.prompt("/compact")
    driver.send(TurnStarted(turn=turn), CompactionStarted("manual", turn=turn))
    driver.send(CompactionEnded(True, "They met.", 90, 9, turn=turn), Notice("Compacted", turn=turn))
    driver.send(TurnEnded("end", turn=turn))
    frames = driver.frames
    assert [name(frame) for frame in frames] == [
        "status compacting", "status compact_result", "system/init", "system/compact_boundary",
        "user text", "user text", "result/success",
    ]  # fmt: skip
    assert frames[3]["compact_metadata"] == {"trigger": "manual", "pre_tokens": 90, "post_tokens": 9}
    assert frames[4]["isSynthetic"]
    assert frames[5]["message"]["content"][0]["text"] == "<local-command-stdout>Compacted</local-command-stdout>"


def test_compaction_that_fails_says_why() -> None:
    driver = EngineDriver()
    driver.send(CompactionStarted("overflow"), CompactionEnded(False, error="no room"))
    assert [frame.get("compact_error") for frame in driver.frames] == [None, "no room"]


def test_what_happens_around_a_turn_has_its_frames() -> None:
    driver = EngineDriver()
    driver.send(RetryStarted(1, 3, 500, "overloaded"), RetryEnded(True), Failed(FAILURE), Alive())
    driver.send(ToolStarted("c1", "Bash"))
    driver.clock.now += 1500
    driver.send(Alive("c1", "Bash"), Extra("rate_limit_event", {"status": "allowed"}), Extra("dance", {}))
    retry, failed, alive, progress, limit = driver.frames
    assert (retry["attempt"], retry["max_retries"], retry["retry_delay_ms"]) == (1, 3, 500)
    assert (failed["subtype"], failed["content"], failed["level"]) == ("informational", "too busy", "warning")
    assert alive == {"type": "keep_alive"}
    assert (progress["tool_use_id"], progress["elapsed_time_seconds"]) == ("c1", 1.5)
    assert limit["rate_limit_info"] == {"status": "allowed"}


def test_another_session_is_told_in_the_old_one() -> None:
    driver = EngineDriver()
    plain(driver, driver.prompt())
    driver.send(SettingChanged("session", "s2"))
    [reset] = driver.frames
    assert (reset["type"], reset["session_id"], reset["new_conversation_id"]) == ("conversation_reset", "s", "s2")
    assert plain(driver, driver.prompt())[0]["session_id"] == "s2"


# Prompts.


def test_a_prompt_with_a_uuid_is_followed_through_its_life() -> None:
    driver = EngineDriver()
    first, second = driver.prompt(uuid="u-1"), driver.prompt(uuid="u-2")
    assert (first, second) == ("u-1", "u-2")
    driver.send(*turn_of(first, *step(text("Hi", turn=first), turn=first)))
    frames = driver.frames
    assert [name(frame) for frame in frames] == [
        "lifecycle queued", "lifecycle started", "system/init", "assistant text", "result/success",
        "lifecycle completed",
    ]  # fmt: skip
    assert [frame.get("command_uuid") for frame in frames if "command_uuid" in frame] == ["u-2", "u-1", "u-1"]
    assert frames[4]["user_message_uuid"] == "u-1"


def test_a_repeated_uuid_is_acknowledged_and_not_run() -> None:
    driver = EngineDriver(replay=True)
    driver.prompt("hi", uuid="u-1")
    assert driver.receive(user("hi", uuid="u-1")) == []
    replayed, lifecycle = driver.frames
    assert (replayed["isReplay"], replayed["message"]["content"], replayed["uuid"]) == (True, "hi", "u-1")
    assert (lifecycle["command_uuid"], lifecycle["state"]) == ("u-1", "completed")


def test_a_prompt_is_said_again_as_it_was_sent_before_the_first_answer() -> None:
    driver = EngineDriver(replay=True)
    words = [{"type": "text", "text": "hi"}]
    turn = driver.prompt(words)
    frames = plain(driver, turn)
    assert [name(frame) for frame in frames] == ["system/init", "user text", "assistant text", "result/success"]
    assert (frames[1]["message"]["content"], frames[1]["isReplay"]) == (words, True)


def test_priority_now_interrupts_and_the_turn_before_it_is_aborted() -> None:
    driver = EngineDriver()
    first = driver.prompt()
    [urgent] = driver.receive(user("now!", priority="now"))
    assert isinstance(urgent, Prompt)
    assert urgent.busy == "interrupt"
    driver.send(Reply(urgent.ref), TurnStarted(turn=first), UserMessage("go", turn=first), StepStarted(turn=first))
    driver.send(*text("I w", turn=first), ReplyEnded("cancelled", turn=first), StepEnded(turn=first))
    driver.send(TurnEnded("cancelled", turn=first))
    frames = driver.frames
    assert frames[-1]["terminal_reason"] == "aborted_streaming"
    assert frames[-1]["queued_turn_count"] == 1


def test_a_prompt_that_never_began_ends_in_a_result() -> None:
    """L1."""
    driver = EngineDriver()
    named, unnamed = driver.prompt(uuid="u-1"), driver.prompt()
    driver.send(TurnEnded("cancelled", turn=named), TurnEnded("cancelled", turn=unnamed))
    assert driver.names == ["result/error_during_execution", "lifecycle cancelled", "result/error_during_execution"]


def test_a_prompt_that_is_not_accepted_ends_all_the_same() -> None:
    driver = EngineDriver()
    [prompt] = driver.receive(user("hi", uuid="u-1"))
    driver.send(Reply(prompt.ref, failure=Failure("queue_full", "too many", "host")))
    result, _ = driver.frames
    assert (result["errors"], result["user_message_uuid"]) == (["too many"], "u-1")
    assert driver.codec.exit_code == 1


def test_what_a_prompt_is_made_of() -> None:
    driver = EngineDriver()
    blocks = [
        {"type": "text", "text": "look"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}},
        {"type": "document", "title": "n", "source": {"type": "text", "media_type": "text/plain", "data": "x"}},
        {"type": "text", "text": "here"},
    ]
    [prompt] = driver.receive(user(blocks, client_composed=True))
    assert isinstance(prompt, Prompt)
    assert (prompt.text, prompt.verbatim, len(prompt.attachments)) == ("look\nhere", True, 2)
    assert prompt.attachments[0] == Image("image/png", "iVBO")


def test_whether_anything_runs_is_told_where_asked_for() -> None:
    """`idle` comes after the result, once no further turn is owed."""
    driver = EngineDriver(session_state="hidden")
    turn = driver.prompt()
    driver.send(*turn_of(turn, *step(text("Hi", turn=turn), turn=turn)), Settled())
    states = [frame for frame in driver.frames if frame.get("subtype") in ("session_state_changed", "success")]
    assert [frame.get("state") for frame in states] == ["running", None, "idle"]
    assert states[0]["sdk_host_only"]


def test_a_block_that_never_ended_is_said_in_the_end() -> None:
    driver = EngineDriver()
    turn = driver.prompt()
    driver.send(TurnStarted(turn=turn), TextDelta("Hel", turn=turn), TextDelta("lo", turn=turn))
    driver.send(TurnEnded("end", turn=turn))
    assert driver.frames[1]["message"]["content"] == [{"type": "text", "text": "Hello"}]


def test_a_conversation_without_prompts_of_ours_is_told_under_its_own_names() -> None:
    driver = EngineDriver()
    driver.send(*PLAIN)
    assert driver.frames[-2]["user_message_uuid"] == "t1"


def test_a_cut_reply_is_marked_as_such() -> None:
    driver = EngineDriver()
    turn = driver.prompt()
    driver.send(TurnStarted(turn=turn), StepStarted(turn=turn), TextDelta("Hel", turn=turn))
    driver.send(BlockEnded(Text("Hel"), turn=turn), ReplyEnded("cancelled", turn=turn))
    assert driver.frames[-1]["aborted"]
