"""The host's end: what it makes of the frames of a turn."""

import random
from typing import Any

import pytest

from dialects.claude.host_talk import (
    INIT,
    RESULT,
    SPENT,
    Frame,
    Host,
    assistant,
    brief,
    control,
    only,
    stream,
    success,
    system,
    text,
    thinking,
    tool_result,
    use,
)
from dialects.pair import env
from polylect.dialects.claude.host.codec import HostSide
from polylect.vocab import events as e
from polylect.vocab.commands import AddContext, Answer, Cancel, Prompt
from polylect.vocab.content import Failure, Image, Thinking, Usage
from polylect.wire import jsonl

NAMES = {"capabilities": ["msg_lifecycle_v1"]}
"""What an engine says that tells for which prompts a turn is."""


def turn(*frames: Frame, **result: Any) -> list[e.Event]:
    """What is heard of one turn."""
    host = Host()
    host.send(Prompt("t", "do it"))
    return host.receive(INIT, *frames, {**RESULT, **result})


def streamed(*blocks: Frame, id: str = "m") -> list[Frame]:
    """A reply in pieces, and each block as a whole before its end is told, as the engine does it."""
    frames = [stream(type="message_start", message={"id": id, "model": "m", "usage": {"input_tokens": 4}})]
    for index, block in enumerate(blocks):
        kind = block["type"]
        key, delta = {"text": ("text", "text_delta"), "thinking": ("thinking", "thinking_delta")}.get(kind, ("", ""))
        start = {**block, key: ""} if key else {**block, "input": {}}
        pieces = [block[key][:2], block[key][2:]] if key else [jsonl.dump(block["input"]).decode().rstrip()]
        result = [{"type": delta or "input_json_delta", key or "partial_json": piece} for piece in pieces]
        frames += [stream(type="content_block_start", index=index, content_block=start)]
        frames += [stream(type="content_block_delta", index=index, delta=one) for one in result]
        frames += [assistant(block, id=id), stream(type="content_block_stop", index=index)]
    usage = {"output_tokens": 7}
    frames += [stream(type="message_delta", delta={"stop_reason": "end_turn"}, usage=usage)]
    return [*frames, stream(type="message_stop")]


# The beginning.


def test_the_greeting_says_what_the_host_offers() -> None:
    hooks = {"PreToolUse": [{"matcher": "Bash", "ids": ["h1"], "timeout": 5}]}
    offers = {"hooks": hooks, "servers": ["calc"]}
    [frame] = Host(greeted=False, offers=offers, initialize={"systemPrompt": ["Be brief."]}).greeting
    assert frame["request"] == {
        "subtype": "initialize",
        "hooks": {"PreToolUse": [{"matcher": "Bash", "hookCallbackIds": ["h1"], "timeout": 5}]},
        "sdkMcpServers": ["calc"],
        "forwardSubagentText": True,
        "systemPrompt": ["Be brief."],
    }


def test_the_answer_to_the_greeting_makes_the_engine_ready_and_lets_prompts_go() -> None:
    host = Host(greeted=False)
    host.send(Prompt("t", "hi"))
    assert host.said() == []
    ready, *_ = host.receive(
        success(host.greeting[0]["request_id"], claude_code_version="2.1.325", current_permission_mode="acceptEdits")
    )
    assert isinstance(ready, e.Ready)
    assert (ready.version, ready.mode) == ("2.1.325", "auto_edit")
    [prompt] = host.said()
    assert (prompt["type"], prompt["uuid"], prompt["message"]["content"]) == ("user", "t", "hi")


def test_an_engine_that_refuses_the_greeting_can_be_spoken_to_all_the_same() -> None:
    host = Host(greeted=False)
    host.send(Prompt("t", "hi"))
    refused = {"subtype": "error", "request_id": host.greeting[0]["request_id"], "error": "what?"}
    received = host.receive({"type": "control_response", "response": refused})
    assert only(received, e.Failed) == [e.Failed(Failure("refused", "what?", "engine"))]
    assert [frame["type"] for frame in host.said()] == ["user"]


def test_the_first_init_makes_an_engine_ready_that_was_not_greeted() -> None:
    side = HostSide(env())
    ready, *_ = side.receive(jsonl.dump({**INIT, "permissionMode": "plan"}))
    assert isinstance(ready, e.Ready)
    assert (ready.session, ready.model, ready.mode, ready.version) == ("s", "m", "plan", "2.1.197")


def test_settings_are_told_when_they_are_new() -> None:
    host = Host()
    first = {**INIT, "tools": ["Bash", "mcp__calc__add"], "mcp_servers": [{"name": "calc", "status": "connected"}]}
    host.send(Prompt("t", "a"), Prompt("u", "b"))
    result = only(host.receive(first, RESULT), e.SettingChanged, e.ServerChanged)
    assert e.SettingChanged("session", "s") in result
    assert e.SettingChanged("model", "m") in result
    assert e.ServerChanged("calc", "ready", ("add",)) in result
    again = only(host.receive({**first, "model": "m2", "mcp_servers": []}, RESULT), e.SettingChanged, e.ServerChanged)
    assert again == [e.SettingChanged("model", "m2"), e.ServerChanged("calc", "removed")]


# Blocks.


@pytest.mark.parametrize("id", ["", "msg_1"])
def test_snapshots_give_each_block_once(id: str) -> None:
    one, two, three = thinking("hm"), text("I will."), use("c1")
    frames = [assistant(one, id=id), assistant(one, two, id=id), assistant(one, two, three, id=id), tool_result("c1")]
    assert brief(turn(*frames)) == ["thinks hm", "says I will.", "calls c1", "ok c1", "turn end"]


def test_single_blocks_that_share_a_message_are_all_kept() -> None:
    frames = [assistant(block, id="m") for block in (thinking("hm"), text("I will."), use("c1"), use("c2"))]
    received = turn(*frames, tool_result("c2"), tool_result("c1"))
    assert brief(received) == ["thinks hm", "says I will.", "calls c1", "calls c2", "ok c2", "ok c1", "turn end"]


def test_a_line_with_a_uuid_that_was_seen_is_dropped() -> None:
    again = assistant(text("twice"), id="m", uuid="u1")
    assert brief(turn(again, again)) == ["says twice", "turn end"]


def test_partial_messages_on_top_double_nothing() -> None:
    received = turn(*streamed(thinking("let me see"), text("Because."), use("c1", command="ls")), tool_result("c1"))
    assert brief(received) == ["thinks let me see", "says Because.", "calls c1", "ok c1", "turn end"]
    assert "".join(event.text for event in only(received, e.TextDelta)) == "Because."
    assert "".join(event.text for event in only(received, e.ThinkingDelta)) == "let me see"
    assert only(received, e.ArgsDelta) == [e.ArgsDelta("c1", "Bash", '{"command":"ls"}', turn="t")]
    assert only(received, e.BlockEnded)[0].block == Thinking("let me see", "signed")
    assert only(received, e.ReplyEnded)[0].usage == Usage(4, 7)


def test_whole_blocks_that_come_after_all_partial_messages_double_nothing_either() -> None:
    blocks = (thinking("let me see"), text("Because."))
    frames = streamed(*blocks)
    late = [frame for frame in frames if frame["type"] == "stream_event"]
    assert brief(turn(*late, assistant(*blocks, id="m"))) == ["thinks let me see", "says Because.", "turn end"]


def test_a_reply_that_was_interrupted_is_told_as_far_as_it_came() -> None:
    host = Host()
    host.send(Prompt("t", "go"))
    start = streamed(text("half a sentence"))[:4]
    host.receive(INIT, *start)
    host.send(Cancel(ref="x"))
    marker = {"type": "user", "message": {"role": "user", "content": [text("[Request interrupted by user]")]}}
    closers = [stream(type="content_block_stop", index=0), stream(type="message_delta", delta={"stop_reason": None})]
    ended = {**RESULT, "subtype": "error_during_execution", "is_error": True, "terminal_reason": "aborted_streaming"}
    received = host.receive(
        success("x"), assistant(text("half a sentence"), id="m", aborted=True), marker, *closers, ended
    )
    assert brief(received) == ["says half a sentence", "turn cancelled"]
    assert only(received, e.ReplyEnded)[0].stop == "cancelled"
    assert not only(received, e.UserMessage)


@pytest.mark.parametrize(
    "block",
    [{"type": "tool_use", "name": "Bash"}, {"type": "tool_use", "id": "c"}, text(""), thinking("")],
    ids=["no id", "no name", "no text", "no thought"],
)
def test_a_block_with_nothing_in_it_is_none(block: Frame) -> None:
    assert brief(turn(assistant(block))) == ["turn end"]


def test_a_block_that_nobody_knows_is_passed_on_as_such() -> None:
    assert only(turn(assistant({"type": "weather", "sky": "blue"})), e.UnknownEvent)[0].kind == "assistant/weather"


def test_input_that_is_null_is_empty() -> None:
    assert only(turn(assistant({**use("c1"), "input": None})), e.ToolCalled)[0].args == {}


def test_thinking_may_be_hidden_or_stand_under_another_name() -> None:
    hidden, old = {"type": "redacted_thinking", "data": "x1"}, {"type": "thinking", "text": "old"}
    assert brief(turn(assistant(hidden), assistant(old))) == ["thinks x1", "thinks old", "turn end"]


def test_the_engines_own_words_about_a_failure_are_no_reply_of_the_model() -> None:
    failed = assistant(text("API Error: 529"), id="x", error="overloaded")
    received = turn(failed, is_error=True, result="API Error: 529", api_error_status=529, terminal_reason="api_error")
    assert not only(received, e.BlockEnded)
    assert only(received, e.ReplyEnded)[0].error == "API Error: 529"
    assert only(received, e.TurnEnded)[0].failure == Failure("overloaded", "API Error: 529", "provider", retryable=True)


# Results of calls.


@pytest.mark.parametrize(
    ("content", "output"),
    [("done", "done"), ([text("a"), {"type": "image"}, text("b")], "a\nb"), (None, ""), ({"a": 1}, "")],
)
def test_what_a_tool_says_is_text(content: Any, output: str) -> None:
    received = turn(assistant(use("c1")), tool_result("c1", content))
    assert only(received, e.ToolFinished)[0].output == output


def test_pictures_and_details_of_a_result_are_kept() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "R0lG"}}
    received = turn(assistant(use("c1")), tool_result("c1", [picture], tool_use_result={"size": 4}))
    [finished] = only(received, e.ToolFinished)
    assert (finished.images, finished.form, finished.metadata) == ((Image("image/gif", "R0lG"),), "image", {"size": 4})


def test_who_was_denied_is_told_from_who_failed() -> None:
    denied = system("permission_denied", tool_name="Bash", tool_use_id="c1", message="not here")
    rejected = {"tool_result_meta": [{"id": "c2", "permission_decision": {"decision": "reject"}}]}
    received = turn(
        assistant(use("c1"), use("c2"), use("c3")),
        denied,
        tool_result("c1", "no", error=True),
        tool_result("c2", "no", error=True, **rejected),
        tool_result("c3", "broke", error=True),
    )
    result = [(event.call, event.outcome, event.reason) for event in only(received, e.ToolFinished)]
    assert result == [("c1", "denied", "not here"), ("c2", "denied", ""), ("c3", "error", "")]


def test_a_call_that_was_under_way_when_the_turn_was_stopped_is_cancelled() -> None:
    host = Host()
    host.send(Prompt("t", "sleep"))
    host.receive(INIT, assistant(use("c1")))
    host.send(Cancel())
    assert brief(host.receive(tool_result("c1", "rejected", error=True))) == ["cancelled c1"]


# The end of a turn.


@pytest.mark.parametrize(
    ("told", "reason", "message"),
    [
        ({}, "end", None),
        ({"stop_reason": "max_tokens", "is_error": True}, "length", None),
        ({"stop_reason": "refusal", "is_error": True}, "refused", None),
        ({"subtype": "error_max_turns", "errors": ["Reached 2"]}, "limit", "Reached 2"),
        ({"subtype": "error_max_budget_usd", "errors": ["spent"]}, "limit", "spent"),
        ({"subtype": "error_during_execution", "errors": ["a", "b"]}, "error", "a; b"),
        ({"subtype": "error_during_execution", "terminal_reason": "aborted_tools"}, "cancelled", None),
        ({"subtype": "error_max_structured_output_retries"}, "error", "the engine did not say why"),
        ({"is_error": True, "result": '"quoted \\u00e9"'}, "error", "quoted é"),
        ({"is_error": True, "result": '"half'}, "error", '"half'),
        ({"is_error": True, "result": 7}, "error", "7"),
        ({"is_error": True, "result": None}, "error", "the engine did not say why"),
    ],
)
def test_how_a_turn_ends(told: Frame, reason: str, message: str | None) -> None:
    [ended] = only(turn(**told), e.TurnEnded)
    assert (ended.reason, ended.failure and ended.failure.message) == (reason, message)


def test_an_old_result_is_one_too() -> None:
    assert brief(turn(assistant(text("hi")), type="system", subtype="result")) == ["says hi", "turn end"]


def test_usage_and_costs() -> None:
    one = {"inputTokens": 1000, "outputTokens": 200, "cacheReadInputTokens": 4000, "costUSD": 0.01}
    two = {"inputTokens": 500, "outputTokens": 0, "cacheCreationInputTokens": 200, "costUSD": 0.008}
    received = turn(usage=SPENT, modelUsage={"big": one, "small": two}, total_cost_usd=0.018)
    [cost], [ended] = only(received, e.CostChanged), only(received, e.TurnEnded)
    assert cost.total == Usage(1500, 200, 4000, 200, 0.018)
    assert [(row["model"], row["cost_usd"]) for row in cost.rows] == [("big", 0.01), ("small", 0.008)]
    assert ended.usage == cost.total, "the agents' part is only in the totals"


def test_totals_are_told_after_the_last_step_also_if_nothing_was_added() -> None:
    host = Host()
    for number in (1, 2):
        host.send(Prompt(f"t{number}", "go"))
        received = host.receive(INIT, assistant(text("hi"), id=f"m{number}"), {**RESULT, "total_cost_usd": 0.1})
        assert [type(event) for event in received[-4:]] == [e.StepEnded, e.CostChanged, e.TurnEnded, e.Settled]


def test_the_totals_of_a_resumed_session_are_not_the_first_turns() -> None:
    host = Host(resumed=True)
    spent = []
    for number, total in ((8, 0.5), (9, 0.75)):
        host.send(Prompt(f"t{number}", "go"))
        models = {
            "m": {"inputTokens": 500 * number, "outputTokens": 120 * number, "cacheReadInputTokens": 3000 * number}
        }
        received = host.receive(INIT, {**RESULT, "usage": SPENT, "modelUsage": models, "total_cost_usd": total})
        spent += [event.usage for event in only(received, e.TurnEnded)]
    assert spent == [Usage(500, 120, 3000, 0), Usage(500, 120, 3000, 0, 0.25)], "what the first one cost is not known"
    host = Host(resumed=True)
    host.send(Prompt("t", "go"))
    received = host.receive(INIT, {**RESULT, "usage": SPENT, "total_cost_usd": 0.25})
    assert [event.usage.cost for event in only(received, e.TurnEnded)] == [0.25], "they began anew"


def test_a_resumed_session_says_what_it_had_cost() -> None:
    host = Host(resumed=True)
    _, requested = host.greeting
    row = {"inputTokens": 500, "outputTokens": 120, "cacheReadInputTokens": 3000, "costUSD": 0.5}
    had = host.receive(success(requested["request_id"], session={"total_cost_usd": 0.5, "model_usage": {"m": row}}))
    assert [event.total for event in only(had, e.CostChanged)] == [Usage(500, 120, 3000, 0, 0.5)]
    host.send(Prompt("t", "go"))
    twice = {name: 2 * number for name, number in row.items()}
    capped = {**RESULT, "subtype": "error_max_budget_usd", "is_error": True, "usage": {}, "total_cost_usd": 1.0}
    received = host.receive(INIT, {**capped, "modelUsage": {"m": twice}})
    assert [event.usage for event in only(received, e.TurnEnded)] == [Usage(500, 120, 3000, 0, 0.5)]


def test_an_engine_that_does_not_know_what_a_session_had_cost_is_not_complained_about() -> None:
    host = Host(resumed=True)
    _, requested = host.greeting
    why = {"subtype": "error", "request_id": requested["request_id"], "error": "Unsupported control request subtype"}
    assert host.receive({"type": "control_response", "response": why}) == []


def test_a_turn_without_totals_has_its_own_usage() -> None:
    assert only(turn(usage=SPENT), e.TurnEnded)[0].usage == Usage(500, 120, 3000, 0)


def test_totals_are_the_sessions_and_begin_anew_when_they_shrink() -> None:
    host = Host()
    spent = []
    for number, total in enumerate((0.1, 0.3, 0.05)):
        host.send(Prompt(f"t{number}", "go"))
        received = host.receive(INIT, {**RESULT, "total_cost_usd": total, "modelUsage": {"m": {"inputTokens": 9}}})
        spent += [round(event.usage.cost, 6) for event in only(received, e.TurnEnded)]
    assert spent == [0.1, 0.2, 0.05]


@pytest.mark.parametrize(
    ("frames", "result", "values"),
    [
        ([assistant(use("c1", "StructuredOutput", a=1))], {}, [{"a": 1}]),
        ([assistant({"type": "tool_use", "name": "StructuredOutput", "input": None})], {}, [None]),
        ([assistant({"type": "tool_use", "name": "StructuredOutput"})], {}, []),
        ([assistant(use("c1", "StructuredOutput", a=1))], {"structured_output": {"a": 2}}, [{"a": 2}]),
        ([], {"structured_output": None}, [None]),
        ([], {}, []),
    ],
)
def test_structured_output_is_told_once(frames: list[Frame], result: Frame, values: list[Any]) -> None:
    reported = [event.value for event in only(turn(*frames, **result), e.StructuredAnswer)]
    assert reported == values


# Prompts and turns are not one to one.


def test_prompts_wait_for_each_other_because_the_vendors_program_would_merge_them() -> None:
    host = Host()
    host.send(Prompt("t1", "one"), Prompt("t2", "two"))
    assert [frame["uuid"] for frame in host.said()] == ["t1"]
    host.receive({**INIT, "user_message_uuids": ["t1"]}, RESULT)
    assert [frame["uuid"] for frame in host.said()] == ["t2"]


def test_prompts_that_were_merged_end_once_each() -> None:
    host = Host(hold=False)
    host.send(Prompt("t1", "one"), Prompt("t2", "two"), Prompt("t3", "three"))
    both = {"user_message_uuids": ["t2", "t3"]}
    host.receive({**INIT, "user_message_uuids": ["t1"]}, {**RESULT, "user_message_uuids": ["t1"]})
    host.receive({**INIT, **both}, assistant(text("Both.")), {**RESULT, **both})
    assert [(event.turn, event.reason) for event in only(host.received, e.TurnEnded)] == [
        ("t1", "end"),
        ("t2", "end"),
        ("t3", "end"),
    ]
    assert [event.text for event in only(host.received, e.UserMessage)] == ["one", "two", "three"]


def test_a_turn_that_nobody_asked_for_is_the_engines_and_the_prompt_waits() -> None:
    host = Host()
    host.receive({**INIT, **NAMES}, assistant(text("The agent is done.")))
    host.send(Prompt("t1", "and now?"))
    assert host.said() == []
    host.receive({**RESULT, "origin": {"kind": "task-notification"}})
    assert [frame["uuid"] for frame in host.said()] == ["t1"]
    started = only(host.receive({**INIT, **NAMES, "user_message_uuids": ["t1"]}), e.TurnStarted)
    assert [(event.turn, event.cause) for event in started] == [("t1", "prompt")]
    assert [event.cause for event in only(host.received, e.TurnStarted)] == ["engine", "prompt"]


def test_init_is_said_again_within_a_turn_and_begins_no_other() -> None:
    assert len(only(turn(INIT, assistant(text("hi"))), e.TurnStarted)) == 1


def test_a_prompt_that_was_dropped_while_it_waited_is_cancelled() -> None:
    host = Host(hold=False)
    host.send(Prompt("t1", "one"), Prompt("t2", "two"))
    host.receive({**INIT, "user_message_uuids": ["t1"]})
    queued = {"type": "command_lifecycle", "command_uuid": "t2", "state": "queued"}
    assert host.receive(queued) == [e.QueueChanged(("t2",))]
    assert host.receive({**queued, "state": "cancelled"}) == [e.QueueChanged(), e.TurnEnded("cancelled", turn="t2")]


def test_a_session_that_cannot_be_resumed_ends_the_prompt() -> None:
    host = Host()
    host.send(Prompt("t1", "one"))
    received = host.receive({**RESULT, "subtype": "error_during_execution", "is_error": True, "errors": ["no such"]})
    assert only(received, e.TurnEnded) == [
        e.TurnEnded("error", steps=1, failure=Failure("during_execution", "no such", "engine"), turn="t1")
    ]


def test_a_failure_without_any_prompt_ends_nothing() -> None:
    received = Host().receive({**RESULT, "subtype": "error_during_execution", "errors": ["no such"]})
    assert received == [e.Failed(Failure("during_execution", "no such", "engine"))]


def test_context_is_no_turn_of_its_own() -> None:
    host = Host()
    host.send(AddContext("Be brief.", ref="r"), Prompt("t1", "hi"))
    [context] = host.said()
    assert (context["message"]["content"], context["shouldQuery"], context["isSynthetic"]) == ("Be brief.", False, True)
    host.receive({"type": "command_lifecycle", "command_uuid": context["uuid"], "state": "queued"})
    host.receive(INIT, {**RESULT, "num_turns": 0})
    assert [frame["uuid"] for frame in host.said()] == ["t1"], "the prompt comes after it, and is not merged with it"
    host.receive(INIT, assistant(text("Hi.")), RESULT)
    assert brief(host.received) == ["says Hi.", "turn end"]
    assert [event.turn for event in only(host.received, e.TurnStarted)] == ["t1"]
    assert only(host.received, e.QueueChanged) == [e.QueueChanged()]


def test_a_replay_of_our_own_prompt_is_no_news() -> None:
    said = {"type": "user", "message": {"role": "user", "content": "do it"}, "isReplay": True, "uuid": "t"}
    assert [event.text for event in only(turn(said), e.UserMessage)] == ["do it"]
    other = [event.origin for event in only(turn({**said, "uuid": "x"}), e.UserMessage)]
    assert other == ["prompt", "replay"]


def test_an_engine_that_vanishes_leaves_no_turn_open() -> None:
    host = Host()
    host.send(Prompt("t1", "one"), Prompt("t2", "two"))
    host.receive(INIT, assistant(use("c1")))
    host.end()
    ends = [(event.turn, event.reason) for event in only(host.received, e.TurnEnded)]
    assert ends == [("t1", "error"), ("t2", "error")]


# Agents.


def test_agents_have_lanes_that_are_called_like_their_calls() -> None:
    started = system(
        "task_started", task_id="k1", tool_use_id="a1", task_type="local_agent", subagent_type="scout", prompt="look"
    )
    prompt = {"type": "user", "message": {"role": "user", "content": [text("look")]}, "parent_tool_use_id": "a1"}
    received = turn(
        assistant(use("a1", "Agent"), id="m"),
        started,
        prompt,
        system("task_progress", task_id="k1", tool_use_id="a1", description="Running", usage={"tool_uses": 1}),
        assistant(text("Looking."), id="n", parent="a1"),
        assistant(use("c1"), id="n", parent="a1"),
        tool_result("c1", parent="a1"),
        system("task_updated", task_id="k1", patch={"status": "completed"}),
        system("task_notification", task_id="k1", tool_use_id="a1", status="completed", summary="found"),
        tool_result("a1", "found"),
        assistant(text("Done."), id="o"),
    )
    assert brief(received) == [
        "calls a1",
        "a1: says Looking.",
        "a1: calls c1",
        "a1: ok c1",
        "ok a1",
        "says Done.",
        "turn end",
    ]
    [begun], [ended] = only(received, e.AgentStarted), only(received, e.AgentEnded)
    assert (begun.agent, begun.call, begun.name, begun.task) == ("a1", "a1", "scout", "look")
    assert (ended.agent, ended.ok, ended.summary) == ("a1", True, "found")
    assert only(received, e.AgentProgress)[0].calls == 1
    assert only(received, e.UserMessage)[-1] == e.UserMessage("look", "engine", turn="t", agent="a1")


def test_an_agent_within_an_agent_belongs_to_that_one() -> None:
    received = turn(assistant(use("a1", "Agent")), assistant(use("a2", "Agent"), parent="a1"), assistant(parent="a2"))
    assert [(event.agent, event.parent) for event in only(received, e.AgentStarted)] == [("a1", ""), ("a2", "a1")]


@pytest.mark.parametrize(
    ("asked", "said"), [({"run_in_background": True}, {}), ({}, {"is_backgrounded": True})], ids=["older", "newer"]
)
def test_an_agent_in_the_background_outlives_the_turn_and_wakes_the_engine(asked: Frame, said: Frame) -> None:
    host = Host()
    host.send(Prompt("t", "watch"))
    task = {"task_id": "k1", "tool_use_id": "a1"}
    started = system("task_started", task_type="local_agent", **said, **task)
    host.receive(
        {**INIT, **NAMES, "user_message_uuids": ["t"]}, assistant(use("a1", "Agent", **asked), id="m"), started
    )
    host.receive(tool_result("a1", "launched"), assistant(text("Started."), id="n"), RESULT)
    host.receive(assistant(text("still here"), id="o", parent="a1"))
    host.receive(system("task_notification", status="completed", summary="seen", **task))
    host.receive({**INIT, **NAMES}, assistant(text("It is done."), id="p"), RESULT)
    assert brief(host.received) == [
        "calls a1",
        "ok a1",
        "says Started.",
        "turn end",
        "a1: says still here",
        "says It is done.",
        "turn end",
    ]
    assert [event.cause for event in only(host.received, e.TurnStarted)] == ["prompt", "engine"]


def test_frames_of_an_earlier_run_of_a_task_are_late() -> None:
    host = Host()
    host.send(Prompt("t1", "go"))
    task = {"task_id": "k", "tool_use_id": "c"}
    started = {"task_type": "local_agent", "is_backgrounded": True, **task}
    ended = {"status": "completed", "summary": "done", **task}
    call = assistant(use("c", "Agent", run_in_background=True))
    host.receive(INIT, call, system("task_started", run_id="1", **started), RESULT)
    host.receive(system("task_notification", run_id="1", **ended), system("task_started", run_id="2", **started))
    assert host.receive(system("task_notification", run_id="1", **ended)) == []
    late = system("task_progress", run_id="1", description="old", usage={}, **task)
    assert host.receive(late) == []
    assert next(type(event) for event in host.receive(system("task_notification", run_id="2", **ended))) is e.AgentEnded


def test_a_command_that_takes_long_is_only_a_sign_of_life() -> None:
    task = {"task_id": "b1", "tool_use_id": "c1"}
    received = turn(assistant(use("c1")), system("task_started", task_type="local_bash", **task), tool_result("c1"))
    assert [event.call for event in only(received, e.Alive)] == ["c1"]
    assert not only(received, e.AgentStarted)


# Around a turn.


def test_a_compaction_has_its_summary() -> None:
    host = Host()
    host.receive(system("status", status="compacting"), system("status", status=None, compact_result="success"))
    boundary = system("compact_boundary", compact_metadata={"pre_tokens": 90, "post_tokens": 9})
    summary = {"type": "user", "message": {"role": "user", "content": "They said hi."}, "isSynthetic": True}
    assert host.receive(boundary) == []
    assert host.receive(summary) == [e.CompactionEnded(summary="They said hi.", before=90, after=9)]


def test_a_compaction_whose_summary_never_comes_has_ended_all_the_same() -> None:
    host = Host()
    host.receive(system("status", status="compacting"), system("compact_boundary"))
    assert host.receive({"type": "keep_alive"}) == [e.CompactionEnded()]


def test_a_compaction_that_failed_says_why() -> None:
    host = Host()
    host.receive(system("status", status="compacting"))
    failed = system("status", status=None, compact_result="failed", compact_error="no room")
    assert host.receive(failed) == [e.CompactionEnded(ok=False, error="no room")]


def test_a_retry_is_the_turns_unless_agents_are_at_work() -> None:
    retry = system("api_retry", attempt=1, max_retries=3, retry_delay_ms=500, error="overloaded")
    assert only(turn(retry, assistant(text("hi"))), e.RetryStarted)[0].delay_ms == 500
    with_agent = turn(assistant(use("a1", "Agent")), assistant(text("x"), parent="a1"), retry)
    assert not only(with_agent, e.RetryStarted)
    assert [event.kind for event in only(with_agent, e.Extra)] == ["api_retry"]


def test_a_new_mode_is_told_once() -> None:
    host = Host()
    changed = system("status", status=None, permissionMode="bypassPermissions")
    assert host.receive(changed, changed) == [e.SettingChanged("mode", "force")]


def test_that_nothing_runs_and_nothing_waits_is_said_once() -> None:
    host = Host()
    host.send(Prompt("t1", "go"))
    host.send(Prompt("t2", "go on"))
    assert not only(host.receive(INIT, RESULT), e.Settled), "another waits"
    idle = system("session_state_changed", state="idle")
    assert only(host.receive(INIT, RESULT, idle), e.TurnEnded, e.Settled)[1:] == [e.Settled()]
    assert host.receive(idle) == []


def test_while_an_agent_works_in_the_background_nothing_is_settled() -> None:
    host = Host()
    host.send(Prompt("t1", "go"))
    started = system("task_started", task_id="k", tool_use_id="c", task_type="local_agent", is_backgrounded=True)
    call = assistant(use("c", "Agent", run_in_background=True))
    assert not only(host.receive(INIT, call, started, RESULT), e.Settled)
    ended = system("task_notification", task_id="k", tool_use_id="c", status="completed", summary="done")
    assert [type(event) for event in host.receive(ended)][-2:] == [e.AgentEnded, e.Settled]


def test_notices_signs_of_life_and_what_only_this_engine_says() -> None:
    received = Host().receive(
        system("informational", content="careful", level="warning"),
        system("hook_started", hook_id="h", hook_name="PreToolUse:Bash"),
        {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed"}},
        {"type": "prompt_suggestion", "suggestion": "tests?"},
        system("session_writes_lost", message="disk full"),
        {"type": "conversation_reset", "new_conversation_id": "s2"},
    )
    assert received == [
        e.Notice("careful", "warning"),
        e.Extra("hook_started", {"hook_id": "h", "hook_name": "PreToolUse:Bash"}),
        e.Extra("rate_limit_event", {"status": "allowed"}),
        e.Display("prompt_suggestion", {"suggestion": "tests?"}),
        e.Failed(Failure("session_writes_lost", "disk full", "engine")),
        e.SettingChanged("session", "s2"),
    ]


# The rules for a decoder: tests/seeds/test_seed_003.py.


@pytest.mark.parametrize("line", ["{not json", "[1]", "7", '"x"', "{}", '{"type":7}', '{"type":"system"}'])
def test_a_line_that_is_no_frame_is_malformed_and_the_session_goes_on(line: str) -> None:
    host = Host()
    [event] = host.receive(line)
    assert isinstance(event, e.MalformedEvent)
    assert len(host.side.to_log()) == 1
    host.send(Prompt("t", "hi"))
    assert brief(host.receive(INIT, assistant(text("Hi.")), RESULT)) == ["says Hi.", "turn end"]


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "assistant"},
        {"type": "assistant", "message": {"content": 7}},
        {"type": "user", "message": "hi"},
        {"type": "stream_event", "event": []},
        {"type": "control_request", "request_id": "r"},
        {"type": "control_response", "response": {}},
    ],
)
def test_a_known_type_without_what_makes_it_one_is_malformed(frame: Frame) -> None:
    assert len(only(Host().receive(frame), e.MalformedEvent)) == 1


def test_what_nobody_knows_is_passed_on_and_never_logged() -> None:
    host = Host()
    received = host.receive({"type": "progress"}, system("sunrise"), {"type": "assistants"})
    assert [event.kind for event in only(received, e.UnknownEvent)] == ["progress", "system/sunrise", "assistants"]
    assert host.side.to_log() == []
    assert host.side.outcomes["unknown"] == 3


def test_blank_lines_are_nothing_and_a_last_line_needs_no_end() -> None:
    host = Host()
    assert host.receive("", "   ") == []
    assert host.side.receive(b'{"type":"prompt_suggestion","suggestion":"a"}') == []
    assert host.end() == [e.Display("prompt_suggestion", {"suggestion": "a"})]


def test_a_request_that_nobody_knows_is_answered_so_that_nobody_waits() -> None:
    host = Host()
    received = host.receive(control("r9", "sing"))
    assert [event.kind for event in only(received, e.UnknownEvent)] == ["control_request"]
    [answer] = host.said()
    assert answer["response"]["error_code"] == "unsupported_request"
    assert answer["response"]["request_id"] == "r9"


WILD = [None, True, 0, -1, 1.5, "", "m", "t", [], {}, [None, {}], {"type": "text"}, "tool_use", {"id": 7}]


def test_thousands_of_wild_frames_raise_nothing_and_stay_grammatical() -> None:
    chance = random.Random(7)
    kinds = ["assistant", "user", "result", "stream_event", "system", "control_request", "control_response",
             "control_cancel_request", "command_lifecycle", "tool_progress", "keep_alive"]  # fmt: skip
    subtypes = ["init", "status", "task_started", "task_notification", "task_progress", "task_updated", "result",
                "compact_boundary", "api_retry", "permission_denied", "session_state_changed"]  # fmt: skip
    keys = ["message", "event", "request", "response", "uuid", "parent_tool_use_id", "request_id", "state", "status",
            "user_message_uuids", "task_id", "tool_use_id", "modelUsage", "usage", "error", "is_error"]  # fmt: skip
    inside = ["id", "content", "type", "subtype", "index", "delta", "content_block", "message", "input", "request_id"]
    host = Host()
    host.send(Prompt("t", "hi"))
    for _ in range(3000):
        frame = {"type": chance.choice(kinds), "subtype": chance.choice(subtypes)}
        frame |= {chance.choice(keys): chance.choice(WILD) for _ in range(4)}
        nested = {chance.choice(inside): chance.choice([*WILD, [text("a"), use("c1"), 7]]) for _ in range(4)}
        frame |= {chance.choice(keys): nested}
        host.receive(frame)
        host.said()
    host.end()


def test_an_answer_to_an_ask_goes_out_under_its_request() -> None:
    host = Host()
    host.send(Prompt("t", "go"))
    host.said()
    host.receive(INIT, assistant(use("c1", command="ls")))
    requested = control("r1", "can_use_tool", tool_name="Bash", tool_use_id="c1", input={"command": "ls"})
    [ask] = host.receive(requested)
    assert isinstance(ask, e.Ask)
    assert (ask.ask, ask.call, ask.name, ask.kind, ask.args) == ("r1", "c1", "Bash", "permission", {"command": "ls"})
    assert host.send(Answer("r1", "deny", reason="no", ref="x")) == [
        e.Reply("x"),
        e.AskClosed("r1", "denied", "no", turn="t"),
    ]
    assert host.said()[0]["response"] == {
        "subtype": "success",
        "request_id": "r1",
        "response": {"behavior": "deny", "message": "no"},
    }
    assert brief(host.receive(tool_result("c1", "no", error=True))) == ["denied c1"]
