"""Prompts and turns: content, order, ends, cancellation, steering. Requirements are those of docs/acp.md."""

from typing import Any

import pytest

from dialects.acp.engine.agent import ALL, Agent, Object, prompt, started
from polylect.vocab import commands as c
from polylect.vocab import events as e
from polylect.vocab.content import Document, Failure, File, Image, Link, PlanItem, Reason, Text, Usage

AUTH = Failure("auth", "401: the key is wrong", "provider")
BROKEN = Failure("server", "500: it broke\nand how", "provider", retryable=True)


def send(agent: Agent, session: str, turn: str = "t1", *, id: Any = None) -> c.Prompt:
    """A prompt that the engine accepts."""
    [command] = agent.ask("session/prompt", prompt(session, turn=turn), id=id or turn)
    assert isinstance(command, c.Prompt)
    agent.send(e.Reply(command.ref, session=session))
    return command


# What a prompt has.


def test_a_prompt_is_a_turn_with_an_id_of_our_own() -> None:
    agent, session = started()
    [command] = agent.ask("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]})
    assert isinstance(command, c.Prompt)
    assert command == c.Prompt(command.turn, "hi", session=session, ref=command.ref)
    assert command.turn.startswith("id-")


def test_our_own_host_names_the_turn_and_more() -> None:
    agent, session = started()
    params = prompt(session)
    own = {"busy": "refuse", "verbatim": True, "schema": {"type": "object"}, "max_cost": 0.5, "max_tokens": 9, "x": 1}
    params["_meta"]["polylect"] |= own
    [command] = agent.ask("session/prompt", params)
    assert command == c.Prompt(
        "t1",
        "hi",
        busy="refuse",
        verbatim=True,
        schema={"type": "object"},
        max_cost=0.5,
        max_tokens=9,
        session=session,
        ref=command.ref,
    )


def test_what_does_not_fit_under_meta_is_ignored() -> None:
    agent, session = started()
    params = prompt(session)
    params["_meta"]["polylect"] |= {
        "busy": "nonsense",
        "verbatim": 1,
        "schema": [],
        "max_cost": "9",
        "max_tokens": True,
    }
    [command] = agent.ask("session/prompt", params)
    assert command == c.Prompt("t1", "hi", session=session, ref=command.ref)


def test_links_and_resources_are_attached_and_mentioned() -> None:
    """docs/acp.md, requirement 24."""
    agent, session = started()
    link = {"type": "resource_link", "uri": "file:///w/ci.log", "name": "ci.log", "mimeType": "text/plain"}
    blocks = [
        {"type": "text", "text": "why is "},
        link,
        {"type": "text", "text": " red?"},
        {"type": "text", "text": "And this:"},
        {"type": "resource", "resource": {"uri": "file:///w/a%20b.py", "text": "x = 1"}},
        {"type": "resource", "resource": {"uri": "zed://x", "blob": "R0lG", "mimeType": "image/gif"}},
        {"type": "resource", "resource": {"uri": "zed://y", "blob": "AA==", "mimeType": "application/pdf"}},
        {"type": "image", "data": "R0lG", "mimeType": "image/gif", "annotations": {"priority": 1}},
        {**link, "_meta": {"polylect": {"file": "/w/c.txt"}}},
    ]
    [command] = agent.ask("session/prompt", {"sessionId": session, "prompt": blocks})
    assert isinstance(command, c.Prompt)
    assert command.text == "why is @ci.log red?\nAnd this:"
    assert command.attachments == (
        Link("file:///w/ci.log", "ci.log", "text/plain"),
        Document("/w/a b.py", "text/plain", "x = 1"),
        Image("image/gif", "R0lG"),
        Document("zed://y", "application/pdf", data="AA=="),
        Image("image/gif", "R0lG"),
        File("/w/c.txt"),
    )


@pytest.mark.parametrize(
    "block",
    [
        {"type": "audio", "data": "AA==", "mimeType": "audio/wav"},
        {"type": "video"},
        {"type": "text"},
        {"type": "text", "text": 7},
        {"text": "x"},
        {"type": "resource", "resource": {"uri": "x"}},
        "text",
    ],
)
def test_a_block_that_is_not_offered_is_refused_at_once(block: Any) -> None:
    """docs/acp.md, requirement 24."""
    agent, session = started()
    assert agent.ask("session/prompt", {"sessionId": session, "prompt": [block]}) == []
    assert [answer["error"]["code"] for answer in agent.read()] == [-32602]


def test_a_prompt_that_the_engine_refuses_is_answered() -> None:
    agent, session = started()
    [command] = agent.ask("session/prompt", prompt(session))
    agent.send(e.Reply(command.ref, failure=Failure("bad_attachment", "a.png is too large", "host")))
    [answer] = agent.read()
    assert answer["error"] == {
        "code": -32602,
        "message": "a.png is too large",
        "data": {
            "details": "a.png is too large",
            "polylect": {"code": "bad_attachment", "owner": "host", "retryable": False},
        },
    }
    agent.send(e.TurnEnded("error", turn="t9", session=session))
    assert [update["sessionUpdate"] for update in agent.updates()] == ["session_info_update"]


# What a turn reports.


def test_everything_of_a_turn_comes_before_its_answer() -> None:
    """docs/acp.md, requirements 25, 27 and 41."""
    agent, session = started(ALL)
    where: Any = {"turn": "t1", "session": session}
    send(agent, session)
    agent.send(
        e.TurnStarted(**where),
        e.UserMessage("hi", **where),
        e.StepStarted(**where),
        e.ThinkingDelta("h", **where),
        e.ThinkingDelta("m", **where),
        e.TextDelta("He", **where),
        e.TextDelta("llo", **where),
        e.BlockEnded(Text("Hello"), **where),
        e.PlanChanged((PlanItem("first", "in_progress", "high"), PlanItem("then")), **where),
        e.ReplyEnded("end", **where),
        e.StepEnded(**where),
        e.StepStarted(**where),
        e.TextDelta("again", **where),
        e.StepEnded(**where),
        e.ContextUsed(5, 9, session=session),
        e.CostChanged(Usage(cost=0.5), session=session),
        e.TurnEnded("end", Usage(10, 5, 3, 2, 0.5), 2, **where),
        e.Settled(session=session),
    )
    *updates, answer = agent.read()
    result = [message["params"]["update"] for message in updates]
    assert [(update["sessionUpdate"], update.get("content", {}).get("text")) for update in result] == [
        ("agent_thought_chunk", "h"),
        ("agent_thought_chunk", "m"),
        ("agent_message_chunk", "He"),
        ("agent_message_chunk", "llo"),
        ("plan", None),
        ("agent_message_chunk", "again"),
        ("usage_update", None),
        ("usage_update", None),
    ]
    ids = [update["messageId"] for update in result if "messageId" in update]
    assert ids == [ids[0]] * 4 + [ids[4]]
    assert ids[0] != ids[4]
    assert result[4]["entries"] == [
        {"content": "first", "status": "in_progress", "priority": "high"},
        {"content": "then", "status": "pending", "priority": "medium"},
    ]
    assert result[7] == {
        "sessionUpdate": "usage_update",
        "used": 5,
        "size": 9,
        "cost": {"amount": 0.5, "currency": "USD"},
    }
    assert answer == {
        "jsonrpc": "2.0",
        "id": "t1",
        "result": {
            "stopReason": "end_turn",
            "usage": {
                "totalTokens": 20,
                "inputTokens": 10,
                "outputTokens": 5,
                "cachedReadTokens": 3,
                "cachedWriteTokens": 2,
            },
            "_meta": {"polylect": {"cost": 0.5, "steps": 2}},
        },
    }


def test_a_window_of_unknown_size_is_not_told() -> None:
    agent, session = started()
    agent.send(e.ContextUsed(5, session=session), e.CostChanged(Usage(cost=1.0), session=session))
    assert agent.read() == []


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end", "end_turn"),
        ("length", "max_tokens"),
        ("limit", "max_turn_requests"),
        ("refused", "refusal"),
        ("cancelled", "cancelled"),
    ],
)
def test_every_end_has_its_stop_reason(reason: Reason, expected: str) -> None:
    """docs/acp.md, requirement 26."""
    agent, session = started()
    send(agent, session)
    agent.send(e.TurnStarted(turn="t1", session=session), e.TurnEnded(reason, turn="t1", session=session))
    assert [answer["result"] for answer in agent.read()] == [{"stopReason": expected}]


def test_a_turn_that_ends_early_is_explained_to_clients_without_notices() -> None:
    """docs/acp.md, requirement 26."""
    agent, session = started()
    where: Any = {"turn": "t1", "session": session}
    send(agent, session)
    agent.send(e.TurnStarted(**where), e.TextDelta("I was", **where))
    agent.send(e.Notice("stopped after 9 requests, the limit of --max-turns", **where), e.TurnEnded("limit", **where))
    text, why, answer = agent.read()
    assert why["params"]["update"]["content"]["text"] == "stopped after 9 requests, the limit of --max-turns"
    assert why["params"]["update"]["messageId"] != text["params"]["update"]["messageId"]
    assert answer["result"]["stopReason"] == "max_turn_requests"
    agent.send(e.TurnStarted(turn="t2", session=session), e.TurnEnded("refused", turn="t2", session=session))
    assert [update["sessionUpdate"] for update in agent.updates()] == ["session_info_update"] * 2


@pytest.mark.parametrize(("failure", "code"), [(AUTH, -32000), (BROKEN, -32603), (None, -32603)])
def test_a_turn_that_failed_is_an_error(failure: Failure | None, code: int) -> None:
    """docs/acp.md, requirement 26."""
    agent, session = started()
    send(agent, session)
    agent.send(e.TurnStarted(turn="t1", session=session))
    agent.send(e.TurnEnded("error", Usage(1, 2), 1, failure, turn="t1", session=session))
    [answer] = agent.read()
    assert answer["error"]["code"] == code
    assert "\n" not in answer["error"]["message"]
    assert answer["error"]["data"]["polylect"]["usage"] == {"input": 1, "output": 2}
    if failure:
        assert answer["error"]["data"]["details"] == failure.message


def test_a_turn_that_nobody_prompted_is_told_under_meta() -> None:
    agent, session = started()
    agent.send(e.TurnStarted("engine", turn="t9", session=session))
    agent.send(e.TurnEnded("error", Usage(1), 1, BROKEN, turn="t9", session=session))
    began, ended = agent.updates()
    assert began == {
        "sessionUpdate": "session_info_update",
        "_meta": {"polylect": {"turn": {"id": "t9", "state": "started", "cause": "engine"}}},
    }
    assert ended["_meta"]["polylect"]["turn"] == {
        "id": "t9",
        "state": "ended",
        "reason": "error",
        "usage": {"input": 1},
        "steps": 1,
        "failure": {"code": "server", "message": BROKEN.message, "owner": "provider", "retryable": True},
    }


def test_prompts_wait_in_line_and_each_is_answered_at_its_end() -> None:
    """docs/acp.md, requirement 39."""
    agent, session = started()
    assert [send(agent, session, turn).busy for turn in ("t1", "t2")] == ["queue", "queue"]
    assert agent.read() == []
    for turn in ("t1", "t2"):
        agent.send(e.TurnStarted(turn=turn, session=session), e.TurnEnded("end", turn=turn, session=session))
        assert [answer["id"] for answer in agent.read()] == [turn]


def test_a_running_turn_gives_signs_of_life() -> None:
    agent, session = started()
    send(agent, session)
    agent.send(
        e.TurnStarted(turn="t1", session=session),
        e.Alive(turn="t1", session=session),
        e.ToolCalled("c1", "Bash", {}, turn="t1", session=session),
        e.Alive("c1", "Bash", turn="t1", session=session),
    )
    assert [update["sessionUpdate"] for update in agent.updates()] == [
        "session_info_update",
        "tool_call",
        "tool_call_update",
    ]


# Cancellation.


def test_a_cancel_ends_calls_and_questions_and_the_answer_is_cancelled() -> None:
    """docs/acp.md, requirements 28, 35 and 36."""
    agent, session = started(ALL)
    where: Any = {"turn": "t1", "session": session}
    send(agent, session)
    agent.send(e.TurnStarted(**where), e.ToolCalled("c1", "Bash", {"command": "make"}, **where))
    agent.send(e.Ask("a1", call="c1", name="Bash", args={"command": "make"}, **where))
    agent.send(e.HostCall("h1", "wait_for_terminal_exit", {"terminal": "x"}, **where))
    agent.read()
    assert agent.notify("session/cancel", {"sessionId": session}) == [c.Cancel(session=session)]
    agent.send(e.TurnEnded("cancelled", **where))
    first, second, failed, answer = agent.read()
    assert [(one["method"], one["params"]) for one in (first, second)] == [
        ("$/cancel_request", {"requestId": 0}),
        ("$/cancel_request", {"requestId": 1}),
    ]
    assert (failed["params"]["update"]["toolCallId"], failed["params"]["update"]["status"]) == ("c1", "failed")
    assert answer["result"]["stopReason"] == "cancelled"
    assert agent.answer(0, {"outcome": {"outcome": "selected", "optionId": "allow_once"}}) == []  # too late


def test_a_cancelled_turn_never_ends_in_an_error() -> None:
    """docs/acp.md, requirement 35."""
    agent, session = started()
    send(agent, session)
    agent.send(e.TurnStarted(turn="t1", session=session))
    agent.notify("session/cancel", {"sessionId": session})
    agent.send(e.TurnEnded("error", failure=BROKEN, turn="t1", session=session))
    assert [answer["result"]["stopReason"] for answer in agent.read()] == ["cancelled"]


def test_a_cancel_without_a_turn_changes_nothing() -> None:
    """docs/acp.md, requirement 35."""
    agent, session = started()
    assert agent.notify("session/cancel", {"sessionId": session}) == [c.Cancel(session=session)]
    send(agent, session)
    agent.send(e.TurnStarted(turn="t1", session=session), e.TurnEnded("error", failure=BROKEN, turn="t1"))
    assert [answer["error"]["code"] for answer in agent.read()] == [-32603]


def test_our_own_host_can_keep_the_prompts_that_wait() -> None:
    agent, session = started()
    for turn in ("t1", "t2"):
        send(agent, session, turn)
    agent.send(e.TurnStarted(turn="t1", session=session))
    params = {"sessionId": session, "_meta": {"polylect": {"queued": "keep"}}}
    assert agent.notify("session/cancel", params) == [c.Cancel(queued="keep", session=session)]
    agent.send(e.TurnEnded("cancelled", turn="t1", session=session))
    agent.send(e.TurnEnded("error", failure=BROKEN, turn="t2", session=session))
    cancelled, failed = agent.read()
    assert cancelled["result"]["stopReason"] == "cancelled"
    assert failed["error"]["code"] == -32603


def test_a_prompt_that_is_withdrawn_is_cancelled_and_answered_once() -> None:
    """docs/acp.md, requirement 38."""
    agent, session = started()
    send(agent, session)
    send(agent, session, "t2")
    agent.send(e.TurnStarted(turn="t1", session=session))
    assert agent.notify("$/cancel_request", {"requestId": "t2"}) == [c.Cancel("prompt", "t2", session=session)]
    agent.send(e.TurnEnded("cancelled", turn="t2", session=session))
    assert agent.notify("$/cancel_request", {"requestId": "t1"}) == [c.Cancel(queued="keep", session=session)]
    agent.send(e.TurnEnded("cancelled", turn="t1", session=session))
    answers = agent.read()
    assert [(answer["id"], answer["result"]["stopReason"]) for answer in answers] == [
        ("t2", "cancelled"),
        ("t1", "cancelled"),
    ]
    assert agent.notify("$/cancel_request", {"requestId": "t1"}) == []
    assert agent.read() == []


def test_a_prompt_that_is_withdrawn_before_its_turn_is_known_to_have_begun() -> None:
    """docs/acp.md, requirement 38."""
    agent, session = started()
    send(agent, session)
    send(agent, session, "t2")
    waiting, running = c.Cancel("prompt", "t1", session=session), c.Cancel(queued="keep", session=session)
    assert agent.notify("$/cancel_request", {"requestId": "t1"}) == [waiting, running]
    assert agent.notify("$/cancel_request", {"requestId": "t2"}) == [c.Cancel("prompt", "t2", session=session)]


# Steering.


def steer(agent: Agent, session: str, meta: Object | None = None) -> c.Steer:
    params = {"sessionId": session, "prompt": [{"type": "text", "text": "faster"}], "_meta": meta}
    [command] = agent.ask("_session/steering", params)
    assert isinstance(command, c.Steer)
    return command


IDLE = Failure("idle", "no turn is running that could be steered; send a prompt", "host")


def test_a_message_for_the_running_turn() -> None:
    """docs/acp.md, requirement 48."""
    agent, session = started()
    send(agent, session)
    command = steer(agent, session)
    assert command == c.Steer("faster", when="soon", idle="refuse", session=session, ref=command.ref)
    agent.send(e.Reply(command.ref))
    assert [answer["result"] for answer in agent.read()] == [{"outcome": "injected"}]


def test_a_message_without_a_turn_starts_one_or_not() -> None:
    """docs/acp.md, requirement 48."""
    agent, session = started()
    command = steer(agent, session, {"steering": {"idleBehavior": "promptRequired"}})
    assert agent.send(e.Reply(command.ref, failure=IDLE)) == []
    command = steer(agent, session)
    [begun] = agent.send(e.Reply(command.ref, failure=IDLE))
    assert isinstance(begun, c.Prompt)
    assert begun == c.Prompt(begun.turn, "faster", session=session)
    assert [answer["result"] for answer in agent.read()] == [
        {"outcome": "promptRequired", "reason": "noRunningTurn"},
        {"outcome": "startedNewTurn"},
    ]


def test_a_message_that_cannot_be_taken_is_refused() -> None:
    agent, session = started()
    command = steer(agent, session)
    agent.send(e.Reply(command.ref, failure=Failure("bad_attachment", "no such file", "host")))
    assert [answer["error"]["code"] for answer in agent.read()] == [-32602]


def test_only_our_own_host_is_told_of_messages_that_joined_a_turn() -> None:
    for name, expected in (("polylect", ["user_message_chunk"]), ("zed", [])):
        agent = Agent()
        agent.ask("initialize", {"protocolVersion": 1, "clientInfo": {"name": name, "version": "1"}})
        session = agent.open()
        agent.read()
        agent.send(e.UserMessage("hi", session=session), e.UserMessage("faster", "steer", session=session))
        assert [update["sessionUpdate"] for update in agent.updates()] == expected
