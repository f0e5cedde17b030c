"""Commands that came after the protocol was written down, at both ends."""

import json
from typing import Any

import pytest

from dialects.pair import Pair, env
from polylect.dialects.jsonstream.dialect import DIALECT
from polylect.dialects.jsonstream.engine.codec import EngineSide
from polylect.dialects.jsonstream.host.codec import HostSide
from polylect.vocab.commands import (
    Cancel,
    ChangeServer,
    Command,
    Grant,
    HostReply,
    MalformedCommand,
    Prompt,
    Steer,
    UnknownCommand,
)
from polylect.vocab.content import Failure, Rule
from polylect.vocab.events import Event, Ready, Reply, ServerChanged, TurnEnded
from polylect.wire import jsonl

PATH = Rule("path", "/p", write=False)


def receive(side: EngineSide, frame: dict[str, Any]) -> list[Command]:
    return side.receive(json.dumps(frame).encode() + b"\n")


def written(side: EngineSide) -> list[dict[str, Any]]:
    return [jsonl.parse(line) for line in side.data_to_send().splitlines()]


# The engine's end.


@pytest.mark.parametrize(
    ("frame", "command"),
    [
        (
            {"type": "continue_with_budget", "request_id": "r.1", "additional_tokens": 5, "additional_cost_usd": 0.5},
            Grant(tokens=5, cost=0.5, ref="r.1"),
        ),
        ({"type": "continue_with_budget", "request_id": "r", "additional_cost_usd": 1}, Grant(cost=1.0, ref="r")),
        ({"type": "grant_path", "grant_id": "g", "root": "/p"}, Grant(rule=PATH, id="g", ref="id-1")),
        (
            {"type": "grant_path", "grant_id": "g", "root": "/p", "access": "write", "expires_at_ms": 9},
            Grant(rule=Rule("path", "/p"), id="g", until_ms=9, ref="id-1"),
        ),
        ({"type": "revoke_path", "grant_id": "g"}, Grant(revoke=True, id="g", ref="id-1")),
        (
            {"type": "remove_mcp_server", "lifecycle_version": 1, "request_id": "r", "name": "team"},
            ChangeServer("team", "remove", ref="r"),
        ),
    ],
)
def test_each_is_read_in_0_2_0_and_unknown_before(frame: dict[str, Any], command: Command) -> None:
    assert receive(EngineSide(env()), frame) == [command]
    assert [type(command) for command in receive(EngineSide(env(), version="0.1.0"), frame)] == [UnknownCommand]


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "continue_with_budget", "request_id": "r"},
        {"type": "continue_with_budget", "request_id": "r", "additional_tokens": 0, "additional_cost_usd": 0.0},
        {"type": "continue_with_budget", "request_id": "r", "additional_tokens": -1},
        {"type": "continue_with_budget", "request_id": "r", "additional_cost_usd": "much"},
        {"type": "continue_with_budget", "request_id": "-r", "additional_tokens": 1},
        {"type": "continue_with_budget", "request_id": "r" * 129, "additional_tokens": 1},
        {"type": "continue_with_budget", "additional_tokens": 1},
        {"type": "continue_with_budget", "request_id": "r", "additional_tokens": 1, "more": True},
        {"type": "grant_path", "root": "/p"},
        {"type": "grant_path", "grant_id": "g", "root": ""},
        {"type": "grant_path", "grant_id": "g", "root": "/p", "access": "execute"},
        {"type": "grant_path", "grant_id": "g", "root": "/p", "more": True},
        {"type": "revoke_path"},
        {"type": "remove_mcp_server", "request_id": "r", "name": "team"},
    ],
)
def test_i2_a_bad_one_is_answered_once_and_does_nothing(frame: dict[str, Any]) -> None:
    side = EngineSide(env())
    assert [type(command) for command in receive(side, frame)] == [MalformedCommand]
    assert [answer["type"] for answer in written(side)] == ["error"]


def test_a_larger_budget_is_granted_or_refused_by_the_id_of_the_request() -> None:
    side = EngineSide(env())
    frame = {"type": "continue_with_budget", "request_id": "r1", "additional_tokens": 5}
    receive(side, frame)
    side.send(Reply("r1"))
    receive(side, {**frame, "request_id": "r2"})
    side.send(Reply("r2", failure=Failure("bad_grant", "no", "host")))
    grant = {"type": "budget_grant_result", "additional_tokens": 5, "additional_cost_usd": 0.0}
    assert written(side) == [
        {**grant, "request_id": "r1", "outcome": "granted"},
        {**grant, "request_id": "r2", "outcome": "refused", "refusal_reason": "invalid_grant"},
    ]


def test_a_server_that_is_removed_takes_its_tools_along() -> None:
    side = EngineSide(env())
    side.send(ServerChanged("team", "ready", ("one", "two")))
    side.data_to_send()
    removal = {"type": "remove_mcp_server", "lifecycle_version": 1, "name": "team"}
    receive(side, {**removal, "request_id": "r1"})
    side.send(ServerChanged("team", "removed"))
    side.send(Reply("r1"))
    receive(side, {**removal, "request_id": "r2"})
    side.send(Reply("r2", failure=Failure("mcp", "there is no such server", "host")))
    removals = [(frame["request_id"], frame["outcome"], frame["removed_tools"]) for frame in written(side)]
    assert removals == [("r1", "removed", ["one", "two"]), ("r2", "already_absent", [])]


def test_l2_a_path_that_was_never_granted_cannot_be_revoked() -> None:
    side = EngineSide(env())
    [command] = receive(side, {"type": "revoke_path", "grant_id": "g"})
    side.send(Reply(command.ref, failure=Failure("unknown_grant", "no such permission", "host")))
    assert [frame["type"] for frame in written(side)] == ["error"]


# The host's end.


def host(*commands: Command, version: str = "0.2.0") -> tuple[HostSide, list[Event], list[dict[str, Any]]]:
    side = HostSide(env(), version=version)
    events = side.receive(b'{"type":"ready","version":"0.2.0","capabilities":{}}\n')[1:]
    for command in commands:
        events += side.send(command)
    return side, events, [jsonl.parse(line) for line in side.data_to_send().splitlines()]


@pytest.mark.parametrize(
    "command",
    [
        Grant(rule=PATH, id="g", until_ms=9),
        Grant(rule=Rule("path", "/p"), id="g"),
        Grant(revoke=True, id="g"),
        Grant(tokens=5, cost=0.5),
        ChangeServer("team", "remove"),
    ],
)
def test_what_the_host_says_is_what_the_engine_reads(command: Command) -> None:
    pair = Pair(DIALECT, "0.2.0")
    pair.send(Ready(session="s"))
    [received] = pair.ask(command)
    assert {name: getattr(received, name) for name in received.__struct_fields__ if name != "ref"} == {
        name: getattr(command, name) for name in command.__struct_fields__ if name != "ref"
    }


@pytest.mark.parametrize(
    ("command", "version"),
    [
        (Grant(tokens=5, ref="x"), "0.1.0"),
        (Grant(rule=Rule("category", "exec"), ref="x"), "0.2.0"),
        (Grant(rule=PATH, revoke=True, ref="x"), "0.2.0"),
        (Grant(rule=Rule("path", "/p", effect="deny"), ref="x"), "0.2.0"),
        (Grant(ref="x"), "0.2.0"),
        (ChangeServer("team", "reconnect", ref="x"), "0.2.0"),
        (HostReply("h", partial=True, ref="x"), "0.2.0"),
    ],
)
def test_what_the_wire_cannot_say_is_refused(command: Command, version: str) -> None:
    _, events, written = host(command, version=version)
    assert [(event.ref, event.failure is not None) for event in events if isinstance(event, Reply)] == [("x", True)]
    assert written == []


def test_the_reply_is_the_engines_own_and_comes_once() -> None:
    side, events, [frame] = host(Grant(tokens=5, ref="mine"))
    assert events == []
    result = {"type": "budget_grant_result", "request_id": frame["request_id"], "outcome": "granted"}
    line = json.dumps(result).encode() + b"\n"
    assert [event.ref for event in side.receive(line) if isinstance(event, Reply)] == ["mine"]
    assert side.receive_eof() == []


@pytest.mark.parametrize("code", ["protocol_error", "engine_error"])
def test_an_engine_that_does_not_know_the_command_has_refused_it(code: str) -> None:
    side, _, _ = host(Grant(tokens=5, ref="mine"))
    fault = {"code": code, "message": 'invalid protocol command of type "continue_with_budget": x', "retryable": False}
    [reply] = side.receive(json.dumps({"type": "error", "error": fault}).encode() + b"\n")
    assert isinstance(reply, Reply)
    assert (reply.ref, reply.failure is not None) == ("mine", True)


def test_an_engine_that_went_away_leaves_no_request_unanswered() -> None:
    side, _, _ = host(Grant(tokens=5, ref="mine"), ChangeServer("team", "remove", ref="too"))
    assert [event.ref for event in side.receive_eof() if isinstance(event, Reply)] == ["mine", "too"]


def test_what_an_engine_asked_the_host_to_send_is_answered() -> None:
    _, events, written = host(HostReply("h1", "msg-7", ref="x"), HostReply("h2", error="offline"))
    assert events == [Reply("x")]
    assert written == [
        {"type": "host_send_message_result", "call_id": "h1", "ok": True, "message_id": "msg-7"},
        {"type": "host_send_message_result", "call_id": "h2", "ok": False, "error": "offline"},
    ]


def test_steers_that_still_wait_can_be_dropped_and_prompts_stay() -> None:
    side, events, _ = host(Prompt("m1", "go"), Steer("also"), Prompt("m2", "then"), Cancel("steers", ref="x"))
    assert [event.reason for event in events if isinstance(event, TurnEnded)] == ["cancelled"]
    assert Reply("x") in events
    lines = b'{"type":"stream_start","msg_id":"m1"}\n{"type":"stream_end","msg_id":"m1"}\n'
    side.receive(lines)
    assert jsonl.parse(side.data_to_send().strip())["msg_id"] == "m2"
    assert [event.turn for event in side.receive(b'{"type":"stream_start","msg_id":"m2"}\n')][:1] == ["m2"]
