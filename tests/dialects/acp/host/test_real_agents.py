"""What real agents do beside the protocol, or against it, each played from lines as that agent writes them.

The versions are those that were observed: claude-agent-acp 0.99, codex-acp 2.6, gemini-cli 0.61, opencode 1.18,
qwen-code 0.24, kimi-code 2.1 and goose 1.52.
"""

import json
from typing import Any

import pytest

from dialects.acp.host.talk import EVERYTHING, Talk, agent, opened, permission, shown, update, words
from polylect.vocab import events as e
from polylect.vocab.answers import CommandCard
from polylect.vocab.commands import Answer, Cancel, Configure, HostReply, Prompt, Steer
from polylect.vocab.content import Failure, Option, Text, Usage

T = {"turn": "t1"}


def ended(talk: Talk) -> e.TurnEnded:
    (event,) = talk.of(e.TurnEnded)
    assert isinstance(event, e.TurnEnded)
    return event


def calls(talk: Talk) -> list[tuple[str, str, Any, str]]:
    """Every call with its tool and arguments, and how it ended."""
    outcomes = {event.call: event.outcome for event in talk.of(e.ToolFinished)}
    return [
        (event.call, event.name, event.args, outcomes.get(event.call, ""))
        for event in talk.events
        if isinstance(event, e.ToolCalled)
    ]


# claude


def test_claude_announces_a_call_before_its_arguments_and_never_says_that_it_runs() -> None:
    talk = opened(agent("claude-agent-acp"))
    talk.prompt()
    meta = {"claudeCode": {"toolName": "Bash"}}
    talk.update(
        "tool_call", toolCallId="toolu_1", title="Terminal", kind="execute", status="pending", rawInput={}, _meta=meta
    )
    assert talk.of(e.ToolCalled) == []
    talk.update("tool_call_update", toolCallId="toolu_1", title="`ls`", rawInput={"command": "ls"}, _meta=meta)
    assert talk.of(e.ToolCalled) == [e.ToolCalled("toolu_1", "Bash", {"command": "ls"}, "exec", "`ls`", **T)]
    talk.update("tool_call_update", toolCallId="toolu_1", status="completed", rawOutput="a\nb", content=shown("a\nb"))
    assert talk.events[-2:] == [
        e.ToolStarted("toolu_1", "Bash", **T),
        e.ToolFinished("toolu_1", "Bash", "a\nb", metadata={"raw_output": "a\nb"}, **T),
    ]


def test_claude_shows_what_a_command_is_for_until_there_is_a_result() -> None:
    talk = opened()
    talk.prompt()
    talk.update("tool_call", toolCallId="c", title="ls", rawInput={"command": "ls"}, content=shown("lists files"))
    talk.update("tool_call_update", toolCallId="c", status="completed", rawOutput="(no output)")
    (finished,) = talk.of(e.ToolFinished)
    assert isinstance(finished, e.ToolFinished)
    assert finished.output == "(no output)"


def test_claude_speaks_with_one_message_id_for_thought_and_text_and_another_in_the_next_step() -> None:
    talk = opened()
    talk.prompt()
    talk.update("agent_thought_chunk", content=words("hm"), messageId="msg_1")
    talk.update("agent_message_chunk", content=words("One."), messageId="msg_1")
    talk.update("agent_message_chunk", content=words("Two."), messageId="msg_2")
    talk.update("agent_message_chunk", content=words(" More."), messageId="msg_2")
    talk.answer("session/prompt", {"stopReason": "end_turn"})
    assert ended(talk).steps == 2
    assert [event.block for event in talk.of(e.BlockEnded)][1:] == [Text("One."), Text("Two. More.")]


def test_claude_asks_a_question_as_a_form_with_a_field_for_own_words() -> None:
    talk = opened()
    talk.prompt()
    rows = [{"const": "r", "title": "Red", "description": "warm"}, {"const": "b", "title": "Blue"}]
    schema = {
        "type": "object",
        "properties": {
            "question_0": {"type": "string", "title": "Which?", "oneOf": rows},
            "question_0_custom": {"type": "string", "title": "Other"},
        },
    }
    params = {"sessionId": "s-1", "toolCallId": "q1", "mode": "form", "message": "Which?", "requestedSchema": schema}
    create = {"method": "elicitation/create", "params": params}
    talk.update("tool_call", toolCallId="q1", title="Question", rawInput={"questions": []})
    for id, value, content in (
        (0, "Blue", {"question_0": "b"}),
        (1, "b", {"question_0": "b"}),
        (2, "Green", {"question_0_custom": "Green"}),
    ):
        talk.receive({"id": id, **create})
        (*_, ask) = talk.of(e.Ask)
        options = (Option("r", "Red", "warm"), Option("b", "Blue"))
        assert ask == e.Ask(str(id), "choice", "q1", "Question", title="Which?", options=options, **T)
        talk.do(Answer(str(id), "allow", value=value))
        assert talk.sent[-1]["result"] == {"action": "accept", "content": content}


def test_claude_says_twice_that_a_compaction_is_completed() -> None:
    talk = opened()
    talk.prompt("/compact")
    talk.update("compaction_update", compactionId="k", status="in_progress")
    talk.update("compaction_update", compactionId="k", status="completed", summary=[words("They said hi.")])
    talk.update("compaction_update", compactionId="k", status="completed")
    talk.answer("session/prompt", {"stopReason": "end_turn"})
    assert talk.of(e.CompactionStarted, e.CompactionEnded) == [
        e.CompactionStarted(**T),
        e.CompactionEnded(True, "They said hi.", **T),
    ]


def test_claude_writes_the_failure_of_its_service_as_text_and_answers_with_an_error() -> None:
    talk = opened()
    talk.prompt()
    talk.update("agent_message_chunk", content=words("API Error: 500 overloaded"))
    talk.answer(
        "session/prompt", code=-32603, message="Internal error", data={"errorKind": "server_error", "details": "500"}
    )
    failure = ended(talk).failure
    assert failure == Failure("server", "500", "provider", retryable=True)


def test_claude_announces_a_sub_agent_as_a_session_without_a_call() -> None:
    talk = opened()
    talk.prompt()
    talk.update("subagent_update", sessionId="kid", title="Scout", description="look", state={"state": "running"})
    talk.update("session_message", "kid", messageId="toolu_9", senderSessionId="s-1", content=[words("look there")])
    talk.update("session_message", messageId="toolu_9", recipientSessionId="kid", content=[words("look there")])
    talk.update("config_option_update", "kid", configOptions=[])
    talk.update("agent_message_chunk", "kid", content=words("Looking."))
    talk.update("tool_call", "kid", toolCallId="k1", title="Read a", kind="read", rawInput={"path": "a"}, name="Read")
    talk.receive(permission(4, {"toolCallId": "k1"}, session="kid"))
    talk.do(Answer("4", "allow"))
    talk.update("tool_call_update", "kid", toolCallId="k1", status="completed")
    talk.update("subagent_update", sessionId="kid", state={"state": "idle", "stopReason": "end_turn"})
    talk.answer("session/prompt", {"stopReason": "end_turn"})
    kid = {"agent": "kid", **T}
    assert [event for event in talk.events if event.agent] == [
        e.AgentStarted(name="Scout", task="look", **kid),
        e.UserMessage("look there", "engine", **kid),
        e.StepStarted(**kid),
        e.TextDelta("Looking.", **kid),
        e.BlockEnded(Text("Looking."), **kid),
        e.ToolCalled("k1", "Read", {"path": "a"}, "info", "Read a", **kid),
        talk.of(e.Ask)[0],
        e.AskClosed("4", "allowed", **kid),
        e.ToolStarted("k1", "Read", **kid),
        e.ToolFinished("k1", "Read", "", **kid),
        e.ReplyEnded("calls", **kid),
        e.StepEnded(**kid),
        e.AgentEnded(**kid),
    ]


# codex


def test_codex_says_in_progress_while_it_waits_for_approval_and_ends_a_denied_turn_as_cancelled() -> None:
    talk = opened(agent("codex-acp"))
    talk.prompt()
    call = {
        "toolCallId": "call_1",
        "title": "rm a",
        "kind": "execute",
        "status": "in_progress",
        "rawInput": {"command": "rm a"},
    }
    talk.update("tool_call", **call)
    options = [
        {"optionId": "allow_once", "name": "Yes", "kind": "allow_once"},
        {"optionId": "accept_execpolicy_amendment", "name": "Always", "kind": "allow_always"},
        {"optionId": "cancel", "name": "No", "kind": "reject_once"},
    ]
    talk.receive(permission(0, call, options))
    talk.do(Answer("0", "deny", reason="keep it"))
    talk.answer("session/prompt", {"stopReason": "cancelled", "usage": None})
    assert calls(talk) == [("call_1", "execute", {"command": "rm a"}, "denied")]
    assert ended(talk).reason == "cancelled"


def test_a_call_that_is_asked_for_starts_after_the_answer_whatever_its_agent_says() -> None:
    """codex, opencode and kimi say `in_progress` before they ask."""
    talk = opened(agent("codex-acp"))
    talk.prompt()
    call = {"toolCallId": "c", "title": "ls", "status": "in_progress", "rawInput": {"command": "ls"}}
    talk.update("tool_call", **call)
    assert talk.host.due() == 250
    talk.wait(50)
    talk.receive(permission(0, call))
    talk.wait(500)
    talk.do(Answer("0", "allow"))
    marks = [type(event) for event in talk.of(e.ToolCalled, e.Ask, e.AskClosed, e.ToolStarted)]
    assert marks == [e.ToolCalled, e.Ask, e.AskClosed, e.ToolStarted]


def test_a_call_that_nobody_asks_for_has_started_a_moment_later() -> None:
    talk = opened()
    talk.prompt()
    talk.update("subagent_update", sessionId="kid", state={"state": "running"})
    for session in ("s-1", "kid"):
        talk.update("tool_call", session, toolCallId="c", title="ls", status="in_progress", rawInput={"command": "ls"})
    assert talk.of(e.ToolStarted) == []
    assert talk.wait(249) == []
    assert talk.wait(1) == [e.ToolStarted("c", "ls", **T), e.ToolStarted("c", "ls", agent="kid", **T)]
    assert talk.host.due() is None


def test_codex_prints_to_a_terminal_of_its_own() -> None:
    talk = opened()
    talk.prompt()
    content = [{"type": "terminal", "terminalId": "unknown"}]
    talk.update(
        "tool_call", toolCallId="c", title="ls", status="in_progress", rawInput={"command": ["ls"]}, content=content
    )
    for meta in ({"terminal_output_delta": {"data": "a\n"}}, {"terminal_output": {"data": "b\n"}}):
        talk.update("tool_call_update", toolCallId="c", _meta=meta)
    output = {"formatted_output": "a\nb\n", "exit_code": 3}
    end = {"terminal_exit": {"terminal_id": "unknown", "exit_code": 3, "signal": None}}
    talk.update("tool_call_update", toolCallId="c", status="failed", rawOutput=output, _meta=end)
    assert [event.text for event in talk.of(e.ToolOutput)] == ["a\n", "b\n"]
    (finished,) = talk.of(e.ToolFinished)
    assert isinstance(finished, e.ToolFinished)
    assert (finished.output, finished.outcome) == ("a\nb\n", "error")
    assert finished.metadata == {"raw_output": output, "exit_code": 3}


def test_codex_reports_a_server_that_did_not_start_as_a_failed_call_outside_a_turn() -> None:
    talk = opened()
    events = talk.update(
        "tool_call", toolCallId="x", title="mcp__dead__startup", status="failed", content=shown("no such program")
    )
    assert events == [e.ServerChanged("dead", "failed", reason="no such program")]


def test_codex_reports_retries_of_its_request() -> None:
    talk = opened()
    talk.prompt()
    for count in (1, 2):
        error = {"message": f"Reconnecting... {count}/5", "willRetry": True}
        talk.update("session_info_update", _meta={"codex": {"error": error}})
    talk.update("agent_message_chunk", content=words("Hi"))
    talk.answer("session/prompt", {"stopReason": "end_turn"})
    assert talk.of(e.RetryStarted, e.RetryEnded) == [
        e.RetryStarted(1, 5, 0, "Reconnecting... 1/5", **T),
        e.RetryStarted(2, 5, 0, "Reconnecting... 2/5", **T),
        e.RetryEnded(True, 2, **T),
    ]


def test_codex_says_when_a_turn_that_it_began_by_itself_is_over() -> None:
    talk = opened()
    talk.update("agent_message_chunk", content=words("Woken."))
    events = talk.update("session_info_update", _meta={"codex": {"threadStatus": {"type": "idle"}}})
    assert [type(event) for event in events][-2:] == [e.TurnEnded, e.Settled]


def test_codex_counts_cached_tokens_among_the_others_and_claude_does_not() -> None:
    for total, spent in ((130, Usage(20, 30, 80)), (210, Usage(100, 30, 80))):
        talk = opened()
        talk.prompt()
        usage = {"totalTokens": total, "inputTokens": 100, "outputTokens": 30, "cachedReadTokens": 80}
        talk.answer("session/prompt", {"stopReason": "end_turn", "usage": usage})
        assert ended(talk).usage == spent


def test_message_ids_and_call_ids_may_come_again_in_another_turn() -> None:
    talk = opened()
    for turn in ("t1", "t2"):
        talk.prompt("go", turn)
        talk.update("agent_message_chunk", content=words("So."), messageId="item_1")
        talk.update("tool_call", toolCallId="call_1", title="ls", rawInput={"command": "ls"}, status="completed")
        talk.answer("session/prompt", {"stopReason": "end_turn"})
    assert [event.turn for event in talk.of(e.ToolFinished)] == ["t1", "t2"]


# gemini


def test_gemini_first_mentions_a_call_in_its_question_and_says_nothing_after_a_no() -> None:
    """Requirement 29 of docs/acp.md."""
    talk = opened(agent("gemini-cli", capabilities={"loadSession": True}))
    talk.prompt()
    options = [
        {"optionId": "proceed_always", "name": "Allow always", "kind": "allow_always"},
        {"optionId": "proceed_once", "name": "Allow", "kind": "allow_once"},
        {"optionId": "cancel", "name": "Reject", "kind": "reject_once"},
    ]
    call = {"toolCallId": "run_shell_command__1", "title": "ls", "kind": "execute", "status": "pending", "content": []}
    talk.receive(permission(0, call, options))
    talk.do(Answer("0", "allow"))
    assert talk.sent[-1]["result"]["outcome"]["optionId"] == "proceed_once"
    talk.update("tool_call_update", toolCallId="run_shell_command__1", status="completed", content=shown("a"))
    talk.receive(permission(1, {**call, "toolCallId": "run_shell_command__2"}, options))
    talk.do(Answer("1", "deny", reason="no"))
    talk.update("agent_message_chunk", content=words("Then not."))
    talk.answer("session/prompt", {"stopReason": "end_turn"})
    assert calls(talk) == [
        ("run_shell_command__1", "run_shell_command", {}, "ok"),
        ("run_shell_command__2", "run_shell_command", {}, "denied"),
    ]


def test_gemini_writes_its_mode_as_text_after_a_change() -> None:
    modes = {
        "currentModeId": "default",
        "availableModes": [{"id": id, "name": id} for id in ("default", "autoEdit", "yolo")],
    }
    talk = opened(session={"modes": modes}, mode_ids={"auto_edit": "autoEdit"})
    talk.do(Configure({"mode": "auto_edit"}, ref="c"))
    assert talk.request("session/set_mode")["params"] == {"sessionId": "s-1", "modeId": "autoEdit"}
    assert talk.update("agent_message_chunk", content=words("[MODE_UPDATE] autoEdit")) == [
        e.SettingChanged("mode", "auto_edit")
    ]
    assert talk.answer("session/set_mode", {}) == [e.Reply("c")]


def test_gemini_puts_numbers_of_http_into_errors_and_tokens_into_meta() -> None:
    talk = opened()
    talk.prompt()
    quota = {"token_count": {"input_tokens": 7, "output_tokens": 2}, "model_usage": []}
    talk.answer("session/prompt", {"stopReason": "end_turn", "_meta": {"quota": quota}})
    talk.prompt("again", "t2")
    talk.answer("session/prompt", code=429, message='{"error": {"status": "RESOURCE_EXHAUSTED"}}')
    first, second = talk.of(e.TurnEnded)
    assert isinstance(first, e.TurnEnded)
    assert isinstance(second, e.TurnEnded)
    assert first.usage == Usage(7, 2)
    assert second.failure
    assert (second.failure.code, second.failure.owner, second.failure.retryable) == ("rate_limit", "provider", True)


def test_gemini_goes_on_with_a_replay_after_its_answer() -> None:
    """Requirement 45 of docs/acp.md."""
    talk = Talk(how="load", session="s-1")
    talk.answer("initialize", agent("gemini-cli", capabilities={"loadSession": True}))
    assert talk.request("session/load")["params"] == {"sessionId": "s-1", "cwd": "/w", "mcpServers": []}
    talk.update("user_message_chunk", content=words("<session_context>"))
    assert [type(event) for event in talk.answer("session/load", {})] == [e.TurnStarted, e.UserMessage]
    talk.wait(50)
    talk.update("user_message_chunk", content=words("hi"))
    talk.wait(50)
    talk.update("tool_call", toolCallId="read__1", title="Read a", kind="read", status="completed", content=[])
    talk.update("agent_message_chunk", content=words("Hello."))
    assert talk.of(e.Ready) == []
    assert talk.host.due() == 80
    events = talk.wait(80)
    assert [type(event) for event in events][-1] is e.Ready
    past = talk.of(e.UserMessage, e.TextDelta, e.ToolFinished)
    assert [getattr(event, "origin", "") for event in past] == ["replay", "replay", "", ""]
    talk.prompt("more")
    talk.update("agent_message_chunk", content=words("Live."))
    assert talk.events[-1] == e.TextDelta("Live.", **T)


def test_a_replay_that_never_is_quiet_ends_after_five_seconds() -> None:
    """Requirement 45 of docs/acp.md."""
    talk = Talk(how="load", session="s-1")
    talk.answer("initialize", agent())
    talk.answer("session/load", {})
    for _ in range(99):
        talk.update("agent_message_chunk", content=words("and "))
        assert talk.wait(50) == []
    talk.update("agent_message_chunk", content=words("so on"))
    assert [type(event) for event in talk.wait(50)][-1] is e.Ready


# opencode


def test_opencode_has_one_message_id_for_text_and_another_for_thought() -> None:
    talk = opened(agent("OpenCode"))
    talk.prompt()
    talk.update("agent_thought_chunk", content=words("hm"), messageId="prt_1")
    talk.update("agent_message_chunk", content=words("First."), messageId="prt_2")
    talk.update("tool_call", toolCallId="c1", title="bash", kind="execute", status="pending", rawInput={"cwd": "/w"})
    talk.update("tool_call_update", toolCallId="c1", title="ls", status="in_progress", rawInput={"command": "ls"})
    talk.update("tool_call_update", toolCallId="c1", status="completed", rawOutput={"output": "a"}, content=shown("a"))
    talk.update("agent_thought_chunk", content=words("so"), messageId="prt_3")
    talk.update("agent_message_chunk", content=words("Second."), messageId="prt_4")
    talk.answer("session/prompt", {"stopReason": "end_turn"})
    assert ended(talk).steps == 2
    assert calls(talk) == [("c1", "bash", {"command": "ls"}, "ok")]


def test_opencode_replays_a_fork_before_it_answers() -> None:
    talk = Talk(how="fork", session="s-1")
    talk.answer("initialize", agent("OpenCode"))
    talk.update("user_message_chunk", "s-2", content=words("hi"), messageId="m1")
    talk.update("agent_message_chunk", "s-2", content=words("Hello."), messageId="m2")
    assert talk.events == []
    talk.answer("session/fork", {"sessionId": "s-2"})
    talk.wait(80)
    assert [event.origin for event in talk.of(e.UserMessage)] == ["replay"]
    (ready,) = talk.of(e.Ready)
    assert ready.session == "s-2"


def test_opencode_names_the_failure_of_its_service_in_data() -> None:
    talk = opened()
    talk.prompt()
    talk.answer("session/prompt", code=-32603, message="401 Unauthorized", data={"errorName": "APIError"})
    failure = ended(talk).failure
    assert failure
    assert (failure.code, failure.owner) == ("auth", "provider")


def test_opencode_has_its_modes_as_a_config_option() -> None:
    rows = [{"value": "build", "name": "Build"}, {"value": "plan", "name": "Plan"}]
    option = {
        "id": "mode",
        "name": "Mode",
        "category": "mode",
        "type": "select",
        "currentValue": "build",
        "options": rows,
    }
    talk = opened(session={"configOptions": [option]}, mode_ids={"default": "build", "plan": "plan"})
    (ready,) = talk.of(e.Ready)
    assert isinstance(ready, e.Ready)
    assert (ready.mode, ready.abilities.modes) == ("default", ("default", "plan"))
    talk.do(Configure({"mode": "plan"}, ref="c"))
    assert talk.request("session/set_config_option")["params"] == {
        "sessionId": "s-1",
        "configId": "mode",
        "value": "plan",
    }
    changed = [{**option, "currentValue": "plan"}]
    assert talk.update("config_option_update", configOptions=changed) == [e.SettingChanged("mode", "plan")]
    assert talk.answer("session/set_config_option", {"configOptions": changed}) == [e.Reply("c")]


# qwen


def test_qwen_asks_for_queued_messages_after_each_call_and_reports_tokens_in_an_empty_chunk() -> None:
    talk = opened(agent("qwen-code"))
    talk.prompt()
    talk.update(
        "tool_call",
        toolCallId="c1",
        title="read_file",
        status="pending",
        _meta={"toolName": "read_file", "phase": "preparing"},
    )
    talk.update(
        "tool_call_update", toolCallId="c1", title="a.txt", status="completed", rawInput={"path": "a.txt"}, kind="read"
    )
    talk.receive({"id": 4, "method": "craft/drainMidTurnQueue", "params": {"sessionId": "s-1"}})
    assert talk.sent[-1]["error"]["code"] == -32601
    talk.update("agent_message_chunk", content=words("Done."))
    talk.update(
        "agent_message_chunk",
        content=words(""),
        _meta={"usage": {"inputTokens": 5, "outputTokens": 3, "totalTokens": 8}},
    )
    talk.receive({"method": "qwen/notify/session/mode-update", "params": {"sessionId": "s-1"}})
    talk.answer("session/prompt", {"stopReason": "end_turn"})
    assert calls(talk) == [("c1", "read_file", {"path": "a.txt"}, "ok")]
    assert ended(talk).usage == Usage(5, 3)
    assert [event.text for event in talk.of(e.TextDelta)] == ["Done."]


def test_qwen_has_two_options_of_one_kind() -> None:
    """Requirement 34 of docs/acp.md."""
    options = [
        {"optionId": "proceed_once", "name": "Allow", "kind": "allow_once"},
        {"optionId": "proceed_once_and_switch_to_default", "name": "Allow and ask from now on", "kind": "allow_once"},
        {"optionId": "cancel", "name": "No", "kind": "reject_once"},
    ]
    talk = opened()
    talk.prompt()
    chosen = []
    for id, value in (
        (0, None),
        (1, "proceed_once_and_switch_to_default"),
        (2, "Allow and ask from now on"),
        (3, "cancel"),
    ):
        talk.receive(permission(id, {"toolCallId": f"c{id}", "title": "x"}, options))
        talk.do(Answer(str(id), "allow", value=value))
        chosen.append(talk.sent[-1]["result"]["outcome"]["optionId"])
    second = "proceed_once_and_switch_to_default"
    assert chosen == ["proceed_once", second, second, "proceed_once"]


# kimi


def test_kimi_replays_each_message_of_the_user_twice() -> None:
    talk = Talk(how="load", session="s-1")
    talk.answer("initialize", agent("kimi-code"))
    for words_ in ("hi", "hi"):
        talk.update("user_message_chunk", content=words(words_))
    talk.update("agent_message_chunk", content=words("Hello."))
    for words_ in ("more", "more"):
        talk.update("user_message_chunk", content=words(words_))
    talk.update("tool_call", toolCallId="0:c1", title="Bash", status="in_progress", rawInput={"command": "ls"})
    talk.update("tool_call_update", toolCallId="0:c1", status="completed", content=shown("a"))
    talk.answer("session/load", None)
    talk.wait(80)
    past = {"turn": "id-1"}
    assert talk.events[:3] == [
        e.TurnStarted("engine", **past),
        e.UserMessage("hi", "replay", **past),
        e.StepStarted(**past),
    ]
    assert [event.text for event in talk.of(e.UserMessage)] == ["hi", "more"]
    assert [type(event) for event in talk.events][-2:] == [e.TurnEnded, e.Ready]


def test_kimi_reports_usage_after_the_answer_and_is_busy_with_an_error() -> None:
    talk = opened(agent("kimi-code"))
    talk.prompt()
    talk.answer("session/prompt", {"stopReason": "end_turn"})
    assert talk.update("usage_update", used=100, size=1000) == [e.ContextUsed(100, 1000)]
    talk.prompt("again", "t2")
    talk.answer("session/prompt", code=-32600, message="Agent is busy", data={"code": "turn.agent_busy"})
    (_, second) = talk.of(e.TurnEnded)
    assert isinstance(second, e.TurnEnded)
    assert second.failure
    assert second.failure.code == "busy"


def test_kimi_shows_growing_arguments_as_content_and_in_its_question_only_a_sentence() -> None:
    talk = opened(agent("kimi-code"))
    talk.prompt()
    talk.update("tool_call", toolCallId="0:c1", title="Bash", kind="execute", status="pending", content=shown(""))
    for piece in ("{", '{"command"', '{"command": "ls"}'):
        talk.update("tool_call_update", toolCallId="0:c1", status="in_progress", content=shown(piece))
    question = {"toolCallId": "0:c1", "title": "Bash", "content": shown("Requesting approval to Running: ls")}
    talk.receive(permission(0, question))
    talk.do(Answer("0", "allow"))
    talk.update(
        "tool_call_update",
        toolCallId="0:c1",
        status="in_progress",
        rawInput={"command": "ls"},
        content=shown('{"command":"ls"}'),
    )
    talk.update("tool_call_update", toolCallId="0:c1", status="completed", content=shown("a\nb"), rawOutput="a\nb")
    assert calls(talk) == [("0:c1", "Bash", {"command": "ls"}, "ok")]
    assert talk.of(e.ToolOutput) == []
    (ask,) = talk.of(e.Ask)
    assert isinstance(ask, e.Ask)
    assert (ask.args, ask.reason) == ({"command": "ls"}, "Requesting approval to Running: ls")


# goose


def test_goose_is_steered_by_its_own_method_and_names_the_run() -> None:
    talk = opened(agent("goose"))
    talk.prompt()
    reply = talk.do(Steer("faster", ref="s"))[0]
    assert isinstance(reply, e.Reply)
    assert reply.failure
    assert reply.failure.code == "idle"
    talk.update("session_info_update", _meta={"goose": {"activeRunId": "run-1"}})
    talk.do(Steer("faster", ref="s"))
    assert talk.request("_goose/unstable/session/steer")["params"] == {
        "sessionId": "s-1",
        "expectedRunId": "run-1",
        "prompt": [words("faster")],
    }
    assert talk.answer("_goose/unstable/session/steer", {}) == [e.UserMessage("faster", "steer", **T), e.Reply("s")]


def test_goose_asks_with_a_kind_that_tells_nothing_and_ids_that_are_texts() -> None:
    talk = opened()
    talk.prompt()
    meta = {"goose": {"toolCall": {"toolName": "developer__shell"}}}
    talk.update("tool_call", toolCallId="c1", title="shell", status="pending", rawInput={"command": "ls"}, _meta=meta)
    talk.receive(permission("0f0e7c7c-3c38", {"toolCallId": "c1", "title": "shell", "kind": "other"}))
    (ask,) = talk.of(e.Ask)
    assert isinstance(ask, e.Ask)
    assert (ask.name, ask.category, ask.args) == ("developer__shell", "exec", {"command": "ls"})


def test_goose_withdraws_its_wait_for_a_terminal() -> None:
    """Requirement 38 of docs/acp.md."""
    talk = opened(terminal=True)
    talk.prompt()
    params = {"sessionId": "s-1", "terminalId": "x"}
    talk.receive({"id": "w", "method": "terminal/wait_for_exit", "params": params})
    assert talk.receive({"method": "$/cancel_request", "params": {"requestId": "w"}}) == [e.HostCallEnded("w")]
    assert (talk.sent[-1]["id"], talk.sent[-1]["error"]["code"]) == ("w", -32800)
    before = len(talk.sent)
    assert talk.receive({"method": "$/cancel_request", "params": {"requestId": "w"}}) == []
    assert talk.receive({"method": "$/cancel_request", "params": {"requestId": [1]}}) == []
    assert talk.sent[before:] == []


# All of them.


def test_a_second_announcement_and_an_update_of_an_unknown_call_are_one_call_each() -> None:
    """Requirement 29 of docs/acp.md."""
    talk = opened()
    talk.prompt()
    for _ in range(2):
        talk.update("tool_call", toolCallId="c1", title="Run", rawInput={"command": "ls"}, status="in_progress")
    talk.update("tool_call_update", toolCallId="c2", status="in_progress", title="Other")
    talk.answer("session/prompt", {"stopReason": "end_turn"})
    assert calls(talk) == [("c1", "Run", {"command": "ls"}, "cancelled"), ("c2", "Other", {}, "cancelled")]


def test_lists_replace_those_before_and_unknown_words_lose_nothing() -> None:
    """Requirement 30 of docs/acp.md."""
    talk = opened()
    talk.prompt()
    places = [{"path": "/w/a", "line": 3}]
    talk.update(
        "tool_call",
        toolCallId="c1",
        title="Edit",
        kind="edit",
        rawInput={"path": "a"},
        content=shown("x"),
        locations=places,
    )
    talk.update(
        "tool_call_update", toolCallId="c1", kind="dance", status="weird", content=None, locations=None, title="Edit a"
    )
    talk.update("tool_call_update", toolCallId="c1", status="completed", content=shown("y"))
    (finished,) = talk.of(e.ToolFinished)
    assert isinstance(finished, e.ToolFinished)
    assert (finished.output, finished.metadata) == ("y", {"locations": places})
    talk.update(
        "tool_call", toolCallId="c2", title="Edit", rawInput={"path": "a"}, content=shown("x"), locations=places
    )
    talk.update("tool_call_update", toolCallId="c2", status="completed", content=[], locations=[])
    (_, finished) = talk.of(e.ToolFinished)
    assert isinstance(finished, e.ToolFinished)
    assert (finished.output, finished.metadata) == ("", None)


def test_a_diff_is_shown_as_one() -> None:
    talk = opened()
    talk.prompt()
    diff = [{"type": "diff", "path": "/w/a", "oldText": "one\ntwo\n", "newText": "one\n2\n"}]
    talk.update(
        "tool_call",
        toolCallId="c1",
        title="Edit",
        kind="edit",
        status="completed",
        rawInput={"path": "a"},
        content=diff,
    )
    (finished,) = talk.of(e.ToolFinished)
    assert isinstance(finished, e.ToolFinished)
    assert (finished.form, finished.output) == ("diff", "--- /w/a\n+++ /w/a\n@@ -1,2 +1,2 @@\n one\n-two\n+2")


def test_a_plan_replaces_the_one_before() -> None:
    """Requirement 41 of docs/acp.md."""
    talk = opened()
    talk.prompt()
    entries = [
        {"content": "look", "priority": "high", "status": "completed"},
        {"content": "act", "priority": "?", "status": "?"},
    ]
    talk.update("plan", entries=entries)
    talk.update("plan", entries=entries[1:])
    plans = [[(item.text, item.status, item.priority) for item in event.items] for event in talk.of(e.PlanChanged)]
    assert plans == [[("look", "completed", "high"), ("act", "pending", "medium")], [("act", "pending", "medium")]]


@pytest.mark.parametrize("severity", ["info", "warning", "error", "catastrophe"])
def test_notices_of_any_severity(severity: str) -> None:
    """Requirement 46 of docs/acp.md."""
    talk = opened()
    (event,) = talk.update("notice", severity=severity, title="A server failed", description="It is gone.")
    assert event == e.Notice("A server failed\nIt is gone.", "warning" if severity in ("warning", "error") else "info")


def test_state_of_a_session_is_reported_as_settings() -> None:
    talk = opened()
    rows = [
        {"name": "init", "description": "Begin", "input": {"hint": "what"}},
        {"name": "memory show", "description": "x"},
    ]
    assert talk.update("available_commands_update", availableCommands=[*rows, 7]) == [
        e.SettingChanged("commands", (CommandCard("init", "Begin", "what"), CommandCard("memory show", "x")))
    ]
    assert talk.update("session_info_update", title="A talk", updatedAt="now") == [e.SettingChanged("title", "A talk")]
    assert talk.update("session_info_update", updatedAt="later") == []
    assert talk.update("session_info_update", title=None) == [e.SettingChanged("title", "")]
    cost = {"amount": 0.5, "currency": "USD"}
    assert talk.update("usage_update", used=5, size=9, cost=cost) == [
        e.ContextUsed(5, 9),
        e.CostChanged(Usage(cost=0.5)),
    ]
    assert talk.update("usage_update", used=5, size=9, cost=cost) == []
    assert talk.update("usage_update", used=6, size=9, cost={"amount": 9, "currency": "EUR"}) == [e.ContextUsed(6, 9)]


def test_the_cost_of_a_turn_is_what_the_session_costs_more() -> None:
    talk = opened()
    talk.update("usage_update", used=5, size=9, cost={"amount": 0.5, "currency": "USD"})
    talk.prompt()
    talk.update("usage_update", used=6, size=9, cost={"amount": 0.75, "currency": "USD"})
    talk.answer(
        "session/prompt", {"stopReason": "end_turn", "usage": {"totalTokens": 3, "inputTokens": 1, "outputTokens": 2}}
    )
    assert ended(talk).usage == Usage(1, 2, cost=0.25)


@pytest.mark.parametrize(
    ("error", "code", "owner", "retryable"),
    [
        ({"code": -32000, "message": "bad key"}, "auth", "user", False),
        ({"code": 401, "message": "no"}, "auth", "provider", False),
        ({"code": 500, "message": "no"}, "server", "provider", True),
        ({"code": 529, "message": "no"}, "overloaded", "provider", True),
        (
            {"code": -32603, "message": "Internal error", "data": {"details": "HTTP 429 slow down"}},
            "rate_limit",
            "provider",
            True,
        ),
        (
            {"code": -32603, "message": "Internal error", "data": {"errorKind": "rate_limit"}},
            "rate_limit",
            "provider",
            True,
        ),
        ({"code": -32603, "message": "API error 503"}, "overloaded", "provider", True),
        ({"code": -32002, "message": "gone", "data": {"sessionId": "s"}}, "no_such_session", "host", False),
        ({"code": -32602, "message": "Invalid params", "data": "already has active run `x`"}, "busy", "host", True),
        ({"code": -32602, "message": "Invalid params"}, "bad_params", "host", False),
        ({"code": 7, "message": ""}, "error", "engine", False),
        ({"code": -32603, "message": "No previous sessions found"}, "no_such_session", "host", False),
    ],
)
def test_errors_of_any_code_end_the_turn_with_a_kind(
    error: dict[str, Any], code: str, owner: str, retryable: bool
) -> None:
    """Requirement 46 of docs/acp.md."""
    talk = opened()
    talk.prompt()
    talk.receive({"id": talk.request("session/prompt")["id"], "error": error})
    failure = ended(talk).failure
    assert failure
    assert (failure.code, failure.owner, failure.retryable) == (code, owner, retryable)
    assert failure.message


def test_steering_always_opts_in_to_a_refusal_when_idle() -> None:
    talk = opened(agent("claude-agent-acp", _meta={"steering": {"supported": True}}))
    talk.prompt()
    talk.do(Steer("faster", ref="s"))
    assert talk.request("_session/steering")["params"] == {
        "sessionId": "s-1",
        "prompt": [words("faster")],
        "_meta": {"steering": {"idleBehavior": "promptRequired"}},
    }
    assert talk.answer("_session/steering", {"outcome": "injected"}) == [
        e.UserMessage("faster", "steer", **T),
        e.Reply("s"),
    ]
    talk.answer("session/prompt", {"stopReason": "end_turn"})
    talk.do(Steer("later", ref="u"))
    (reply,) = talk.answer("_session/steering", {"outcome": "promptRequired", "reason": "noRunningTurn"})
    assert isinstance(reply, e.Reply)
    assert reply.failure
    assert reply.failure.code == "idle"
    talk.do(Steer("keep it", idle="keep", ref="v"))
    events = talk.answer("_session/steering", {"outcome": "promptRequired"})
    assert [type(event) for event in events] == [e.Reply, e.TurnStarted, e.UserMessage]


def test_a_question_is_withdrawn_by_the_agent_and_gets_its_one_answer() -> None:
    """Requirement 38 of docs/acp.md."""
    talk = opened()
    talk.prompt()
    talk.receive(permission(9, {"toolCallId": "c1", "title": "Run"}))
    assert talk.receive({"method": "$/cancel_request", "params": {"requestId": 9}}) == [
        e.AskClosed("9", "cancelled", **T)
    ]
    assert talk.sent[-1]["result"] == {"outcome": {"outcome": "cancelled"}}
    (reply,) = talk.do(Answer("9", "allow", ref="r"))
    assert isinstance(reply, e.Reply)
    assert reply.failure
    assert reply.failure.code == "unknown_ask"
    params = {
        "sessionId": "s-1",
        "mode": "form",
        "message": "Sure?",
        "requestedSchema": {"properties": {"a": {"type": "boolean"}}},
    }
    talk.receive({"id": 10, "method": "elicitation/create", "params": params})
    talk.receive({"method": "$/cancel_request", "params": {"requestId": 10}})
    assert talk.sent[-1]["error"]["code"] == -32800


def test_an_agent_that_waits_for_the_answer_to_its_question_gets_it_with_a_cancel() -> None:
    """gemini and goose answer a cancelled prompt only after that."""
    talk = opened(agent("gemini-cli", capabilities=EVERYTHING))
    talk.prompt()
    talk.do(Prompt("t2", "later"))
    talk.receive(permission(0, {"toolCallId": "x__1", "title": "ls"}))
    talk.do(Cancel(queued="keep"))
    assert talk.methods()[-2:] == ["session/cancel", "result"]
    talk.answer("session/prompt", {"stopReason": "cancelled"})
    assert talk.request("session/prompt")["params"]["prompt"] == [words("later")]
    assert [event.outcome for event in talk.of(e.ToolFinished)] == ["cancelled"]


def test_a_turn_that_ignores_its_cancel_is_ended_after_the_grace_period() -> None:
    """Requirement 37 of docs/acp.md."""
    talk = opened()
    talk.prompt()
    talk.do(Prompt("t2", "later"))
    talk.do(Cancel(queued="keep"))
    assert talk.host.due() == 5000
    assert talk.wait(4000) == []
    assert [event.reason for event in talk.wait(1000) if isinstance(event, e.TurnEnded)] == ["cancelled"]
    assert talk.host.successor == "resume"
    assert talk.methods().count("session/prompt") == 1
    assert [event.turn for event in talk.host.receive_eof() if isinstance(event, e.TurnEnded)] == []


def test_everything_that_has_to_do_with_files_and_terminals_is_the_work_of_the_host() -> None:
    talk = opened(files=True, terminal=True)
    talk.prompt()

    def ask(method: str, **params: Any) -> e.HostCall:
        (event,) = talk.receive({"id": method, "method": method, "params": {"sessionId": "s-1", **params}})
        assert isinstance(event, e.HostCall)
        return event

    def answer(call: e.HostCall, result: Any = None, error: str = "", code: str = "") -> Any:
        talk.do(HostReply(call.call, result, error, code=code))
        assert talk.sent[-1]["id"] == call.call
        return talk.sent[-1].get("result", talk.sent[-1].get("error"))

    read = ask("fs/read_text_file", path="/w/a", line=2, limit=None)
    assert (read.method, read.params) == ("read_text_file", {"path": "/w/a", "line": 2, "limit": None})
    assert answer(read, {"content": "x"}) == {"content": "x"}
    missing = ask("fs/read_text_file", path="/w/b")
    error = {"code": -32002, "message": "no such file", "data": {"uri": "file:///w/b"}}
    assert answer(missing, error="no such file", code="missing") == error
    assert answer(ask("fs/read_text_file", path="b"), error="not absolute", code="bad_params")["code"] == -32602
    assert answer(ask("fs/read_text_file", path="/w/c"), error="it is a folder", code="failed")["code"] == -32603
    write = ask("fs/write_text_file", path="/w/a", content="y")
    assert write.params == {"path": "/w/a", "content": "y"}
    assert answer(write) == {}
    env = [{"name": "A", "value": "1"}]
    create = ask("terminal/create", command="ls", args=["-l"], env=env, cwd="/w", outputByteLimit=9)
    assert create.params == {"command": "ls", "args": ["-l"], "env": {"A": "1"}, "cwd": "/w", "limit": 9}
    assert answer(create, {"terminal": "t-1"}) == {"terminalId": "t-1"}
    output = ask("terminal/output", terminalId="t-1")
    assert output.params == {"terminal": "t-1"}
    running = {"output": "a", "truncated": False, "running": True}
    assert answer(output, running) == {"output": "a", "truncated": False}
    output = ask("terminal/output", terminalId="t-1")
    over = {"output": "b", "truncated": True, "running": False, "exit_code": 0, "signal": None}
    assert answer(output, over) == {"output": "b", "truncated": True, "exitStatus": {"exitCode": 0}}
    assert answer(ask("terminal/wait_for_exit", terminalId="t-1"), {"exit_code": None, "signal": "SIGTERM"}) == {
        "signal": "SIGTERM"
    }
    assert answer(ask("terminal/kill", terminalId="t-1")) == {}
    assert answer(ask("terminal/release", terminalId="t-1")) == {}


def test_a_recording_of_both_directions_is_understood() -> None:
    talk = Talk()
    own = opened()
    own.prompt()
    host = talk.host
    host.data_to_send()
    lines = [json.dumps(line).encode() + b"\n" for line in own.sent]
    host.note_sent(lines[0])
    host.receive(json.dumps({"jsonrpc": "2.0", "id": 1, "result": agent()}).encode() + b"\n")
    host.note_sent(lines[1])
    events = host.receive(json.dumps({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1"}}).encode() + b"\n")
    assert [type(event) for event in events] == [e.Ready]
    assert [type(event) for event in host.note_sent(lines[2])] == [e.TurnStarted, e.UserMessage]
    chunk = {"jsonrpc": "2.0", **update("agent_message_chunk", content=words("Hi"))}
    assert host.receive(json.dumps(chunk).encode() + b"\n")[-1] == e.TextDelta("Hi", turn="id-1")
    end = {"jsonrpc": "2.0", "id": 3, "result": {"stopReason": "end_turn"}}
    assert e.Settled() in host.receive(json.dumps(end).encode() + b"\n")
    assert host.data_to_send() == b""
