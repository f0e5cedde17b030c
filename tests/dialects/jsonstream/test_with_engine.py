"""Codec and engine in one room: what a host is told of the model, of costs, of commands, of an id that comes again."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from polylect.dialects.jsonstream.engine.codec import EngineSide
from polylect.dialects.jsonstream.ready import capabilities, ready_line
from polylect.embed import ENV, Wire, run_engine
from polylect.providers.scripted import Scripted
from polylect.vocab.ports import ModelInfo

Frame = dict[str, Any]
FINE = '[[reply]]\ntext = "Fine."\nusage = { input = 50, output = 5 }'
PRICED = "[price]\ninput = 1000\noutput = 2000\n\n" + FINE
FLAGS = {"streaming_tools": True}


class Models(Scripted):
    """Two models: one that thinks and is priced, one that has levels."""

    def info(self, model: str) -> ModelInfo:
        if model == "levels":
            return ModelInfo(model, effort_levels=("low", "high"))
        return ModelInfo(model, thinking=True, priced=True)


def talk(
    place: Path,
    provider: Scripted,
    *steps: list[Frame],
    version: str = "0.2.0",
    flags: dict[str, object] = FLAGS,
    **more: Any,
) -> list[list[Frame]]:
    """What is said to each step, to its end."""
    said: list[bytes] = []
    received: list[list[Frame]] = []

    def take() -> None:
        received.append([json.loads(line) for line in b"".join(said).splitlines()])
        said.clear()

    async def run() -> None:
        codec = EngineSide(ENV, version=version)
        codec.note_sent(ready_line(version, "s", capabilities(version, thinking=True, extras=flags)))
        wire = Wire(codec, said.append)
        async with run_engine(wire.emit, provider, workspace=place, **more) as engine:
            wire.connect(engine)
            for step in steps:
                wire.receive(b"".join(json.dumps(frame).encode() + b"\n" for frame in step))
                await engine.settled()
                take()

    asyncio.run(run())
    return received


def message(text: str = "go", msg_id: str = "m1") -> Frame:
    return {"type": "message", "msg_id": msg_id, "content": text}


def kinds(frames: list[Frame]) -> list[str]:
    return [frame["type"] for frame in frames]


def matching(frames: list[Frame], kind: str, of: Callable[[Frame], Any]) -> list[Any]:
    return [of(frame) for frame in frames if frame["type"] == kind]


def able(frame: Frame) -> tuple[bool, list[str], bool, str]:
    result = frame["capabilities"]
    return result["thinking"], result["effort_levels"], "cost_attribution" in result, result.get("current_model", "")


def test_after_a_model_change_the_whole_object_is_about_the_new_model(tmp_path: Path) -> None:
    model = Models.from_text(FINE)
    [first, second, third] = talk(
        tmp_path,
        model,
        [{"type": "set_config", "model": "levels"}],
        [{"type": "set_config", "model": "thinks"}],
        [{"type": "set_config", "model": "thinks too"}],
        model="thinks",
        flags={**FLAGS, "cost_attribution": True},
    )
    assert able(first[-1]) == (False, ["low", "high"], False, "levels")
    assert able(second[-1]) == (True, [], True, "thinks")
    assert matching(third, "config_changed", able) == [(True, [], True, "thinks too")]
    assert first[-1]["capabilities"]["streaming_tools"] is True


def test_t6_costs_are_told_before_the_end_where_the_price_is_known_and_else_not_at_all(tmp_path: Path) -> None:
    cost = {**FLAGS, "cost_attribution": True}
    [priced] = talk(tmp_path, Scripted.from_text(PRICED), [message()], flags=cost)
    assert kinds(priced)[-2:] == ["session_cost", "stream_end"]
    assert [priced[-2]["session_id"], priced[-2]["total_cost_usd"], len(priced[-2]["per_turn"])] == ["s", 0.06, 1]
    for model, flags in ((PRICED, FLAGS), (FINE, cost)):
        [quiet] = talk(tmp_path, Scripted.from_text(model), [message()], flags=flags)
        assert "session_cost" not in kinds(quiet)


def test_a_session_that_was_out_of_budget_goes_on_once_it_has_more(tmp_path: Path) -> None:
    more = {"type": "continue_with_budget", "request_id": "r1", "additional_tokens": 100}
    budget = {"max_tokens_in": 40, "max_tokens_out": 40}
    steps = [[message(msg_id="m1")], [message(msg_id="m2")], [more, message(msg_id="m3")]]
    received = talk(tmp_path, Scripted.from_text(FINE), *steps, budget=budget)
    assert [frames[-1]["finish_reason"] for frames in received] == ["stop", "max_turns", "stop"]
    assert matching(received[2], "budget_grant_result", lambda frame: frame["outcome"]) == ["granted"]


def test_a_granted_path_is_not_asked_about_until_it_is_revoked(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "a.txt").write_text("hello")
    script = f"""
    [[reply]]
    when.step = 1
    call = "Read"
    args.file_path = "{tmp_path}/a.txt"

    [[reply]]
    text = "Done."
    """
    grant = {"type": "grant_path", "grant_id": "g", "root": str(tmp_path)}
    steps = [[grant, message(msg_id="m1")], [{"type": "revoke_path", "grant_id": "g"}, message(msg_id="m2")]]

    async def first() -> list[str]:
        said: list[bytes] = []
        wire = Wire(EngineSide(ENV), said.append)
        model = Scripted.from_text(script)
        async with run_engine(wire.emit, model, workspace=tmp_path / "inside") as engine:
            wire.connect(engine)
            for step in steps:
                wire.receive(b"".join(json.dumps(frame).encode() + b"\n" for frame in step))
                if step is steps[1]:
                    wire.receive_eof()  # nobody is there to be asked, so it is denied
                await engine.settled()
        return kinds([json.loads(line) for line in b"".join(said).splitlines()])

    result = asyncio.run(first())
    assert result.count("tool_result") == 1
    assert result.count("tool_cancelled") == 1
    assert "error" not in result


def test_what_an_extension_tells_of_its_own_is_a_plugin_event_where_that_is_on(tmp_path: Path) -> None:
    path = tmp_path / "weather.py"
    path.write_text(
        "def extend(polylect):\n"
        "    @polylect.on_prompt\n"
        "    def tell(text):\n"
        "        polylect.event('forecast', {'rain': 3})\n"
    )
    for flags, result in ((FLAGS | {"plugins": True}, 1), (FLAGS, 0)):
        model = Scripted.from_text(FINE)
        [frames] = talk(tmp_path, model, [message()], flags=flags, extensions=[str(path)])
        events = [frame for frame in frames if frame["type"] == "plugin_event"]
        expected = {"plugin_name": "weather", "event_type": "forecast", "payload": {"rain": 3}}
        assert events == [{"type": "plugin_event", **expected}] * result


def test_a_command_of_the_engines_own_is_an_info_and_an_end_without_usage(tmp_path: Path) -> None:
    """As both originals do, but for the `stream_start`, which arms the heartbeat of hosts."""
    [own, other] = talk(tmp_path, Scripted.from_text(FINE), [message("/help")], [message("/nonsense", "m2")])
    assert kinds(own) == ["stream_start", "info", "stream_end"]
    assert {frame["msg_id"] for frame in own} == {"m1"}
    assert "/help" in own[1]["message"]
    assert (own[2]["finish_reason"], own[2]["usage"]) == ("stop", {"input_tokens": 0, "output_tokens": 0})
    assert "text_delta" in kinds(other)


def test_an_id_may_be_used_again_once_its_turn_has_ended(tmp_path: Path) -> None:
    """The originals look at no id twice, and a host that calls every message `m1` is served as well."""
    twice = [message(), message()]
    received = talk(tmp_path, Scripted.from_text(FINE), [message()], [message()], twice, version="0.1.0")
    assert kinds(received[0]) == kinds(received[1]) == ["stream_start", "text_delta", "stream_end"]
    assert kinds(received[2]).count("stream_end") == 1  # the second came while the first had not ended
    assert matching(received[2], "error", lambda frame: frame["msg_id"]) == [None]


def test_an_id_that_is_used_again_and_stopped_while_it_waits_has_a_beginning_too(tmp_path: Path) -> None:
    waiting = [message(msg_id="m2"), message(msg_id="m1"), {"type": "stop"}]
    [_, stopped] = talk(tmp_path, Scripted.from_text(FINE), [message(msg_id="m1")], waiting)
    ends = [(frame["type"], frame["msg_id"]) for frame in stopped if frame["type"].startswith("stream")]
    assert ends[-2:] == [("stream_start", "m1"), ("stream_end", "m1")]
    assert ("stream_end", "m2") in ends
