"""A cap in dollars holds or is refused, on every wire, also after a resume, and is told once."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e import vendors
from e2e.service import Service
from engine_process import Frame, Place, message
from machine import PATIENCE
from polylect.host import BudgetExceeded, Limits, Result, connect
from polylect.host.errors import EngineDied, Refused
from polylect.vocab.content import Block, Text, ToolCall
from providers.loopback import Step, reply

pytestmark = pytest.mark.long

STREAM = ("--output-format", "stream-json", "--input-format", "stream-json", "--verbose")
PRICED = """
[price]
input = 600.0
output = 0.0
"""
ONCE = '[[reply]]\ntext = "done"\nusage = { input = 1000, output = 1 }\n'
LOOP = """
[[reply]]
say = [{ call = "TodoWrite", args = { todos = [] } }]
usage = { input = 1000, output = 1 }
"""
"""Each reply costs $0.60."""
KEY = {"ANTHROPIC_API_KEY": "sk-ant-x", "POLYLECT_PROVIDER": ""}
UNPRICED = ("--model", "claude-unknown-9")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path) as actual:
        yield actual


def user(text: str) -> bytes:
    line = {"type": "user", "message": {"role": "user", "content": text}, "parent_tool_use_id": None, "session_id": ""}
    return json.dumps(line).encode() + b"\n"


# Refused.


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--json-stream", "--max-budget-usd", "1"), 78),
        (("--json-stream", "--protocol", "0.1.0", "--max-budget-usd", "1"), 78),
        (("--mode", "rpc", "--max-budget-usd", "1"), 78),
        ((*STREAM, "--max-budget-usd", "1"), 1),
        (("run", "hi", "--budget", "1"), 78),
        (("run", "hi", "--engine", "polylect-claude", "--budget", "1"), 78),
    ],
)
def test_a_cap_on_a_model_without_a_price_is_refused_at_the_start(
    place: Place, words: tuple[str, ...], code: int
) -> None:
    done = place.run(*words, *UNPRICED, env=KEY)
    assert done.code == code
    assert "the price of 'claude-unknown-9' is not known" in done.errors
    assert '[prices."claude-unknown-9"]' in done.errors


@pytest.mark.parametrize("table", ["budget", "budget.turn"])
def test_so_is_one_in_a_file_and_a_price_lets_it_start(place: Place, table: str) -> None:
    cap = f"[{table}]\nmax_cost_usd = 1.0\n"
    place.configure(cap)
    assert place.run("--json-stream", *UNPRICED, env=KEY).code == 78
    place.configure(cap + '[prices."claude-unknown-9"]\ninput = 1\n')
    assert place.run("--json-stream", *UNPRICED, env=KEY).code == 78, "what it writes costs something too"
    place.configure(cap + '[prices."claude-unknown-9"]\ninput = 1\noutput = 2\n')
    assert place.run("--json-stream", *UNPRICED, env=KEY).code == 0


def test_a_fallback_without_a_price_is_refused_too(place: Place) -> None:
    chain = '[provider_chain]\nenabled = true\nfallbacks = ["anthropic:claude-unknown-9"]\n'
    place.configure(f"{chain}[budget]\nmax_cost_usd = 1.0\n")
    done = place.run("--json-stream", env=KEY)
    assert (done.code, "claude-unknown-9" in done.errors) == (78, True)


def test_another_model_without_a_price_is_refused_while_there_is_a_cap(place: Place) -> None:
    engine = place.started("--provider", "anthropic", "--max-budget-usd", "1", env=KEY)
    engine.send({"type": "set_config", "model": "claude-unknown-9"})
    assert "is not known, so the cap in dollars" in engine.until("error")[-1]["error"]["message"]
    engine.send({"type": "set_config", "model": "claude-opus-5"})
    assert engine.until("config_changed")[-1]["type"] == "config_changed"


def test_a_named_agent_with_a_model_without_a_price_is_not_started(place: Place) -> None:
    folder = Path(place.env["HOME"]) / ".claude" / "agents"
    folder.mkdir(parents=True)
    (folder / "critic.md").write_text("---\nname: critic\ndescription: x\nmodel: claude-unknown-9\n---\nBe strict.")
    task = {"name": "judge", "prompt": "judge", "agent": "critic"}
    with Service() as service:
        service.give(*(answered(block) for block in (ToolCall("c", "Spawn", {"tasks": [task]}), Text("ok"))))
        engine = place.started(*SERVED, service.url, "--max-budget-usd", "10", "--yolo", env=KEY)
        engine.send(message("go"))
        frames = engine.until("stream_end")
    assert len(service.requests) == 2
    assert any("'critic' was not started: the price of 'claude-unknown-9'" in json.dumps(frame) for frame in frames)


# Servers that hide what they cost.


SERVED = ("--provider", "anthropic", "--model", "claude-opus-5", "--no-session", "--base-url")
TODO = ToolCall("c", "TodoWrite", {"todos": []})
TOKENS = 100_000


def answered(block: Block, *usage: dict[str, int]) -> list[Step]:
    """A reply of a server that gives every message the same id. `usage` is what it reports at its start and end."""
    payloads = vendors.anthropic([block], 100, TOKENS)
    if usage:
        payloads[0]["message"]["usage"], payloads[-2]["usage"] = usage
    payloads[0]["message"]["id"] = "msg_1"
    return reply(*vendors.sse(payloads))


def test_a_server_that_repeats_its_message_id_is_paid_for_each_request(place: Place) -> None:
    with Service() as service:
        service.give(answered(TODO))
        engine = place.started(*SERVED, service.url, "--max-budget-usd", "1", "--max-turns", "30", env=KEY)
        engine.send(message("go"))
        frames = engine.until("stream_end")
    assert len([frame for frame in frames if frame["type"] == "budget_exceeded"]) == 1
    assert 1 < len(service.requests) < 10


@pytest.mark.parametrize("usage", [({}, {}), ({"input_tokens": 0, "output_tokens": 0}, {"output_tokens": 0})])
@pytest.mark.parametrize("cap", ["max_cost_usd = 0.1", "max_tokens_in = 20000", "max_tokens_out = 2000"])
def test_a_server_that_reports_no_usage_is_paid_by_an_estimate(
    place: Place, usage: tuple[dict[str, int], ...], cap: str
) -> None:
    place.configure(f"[budget.turn]\n{cap}\n")
    todo = {"content": "x" * 2000, "status": "pending", "activeForm": "x"}
    with Service() as service:
        service.give(answered(ToolCall("c", "TodoWrite", {"todos": [todo]}), *usage))
        engine = place.started(*SERVED, service.url, "--max-turns", "30", env=KEY)
        engine.send(message("go"))
        frames = engine.until("stream_end")
    assert len([frame for frame in frames if frame["type"] == "budget_exceeded"]) == 1
    assert len([frame for frame in frames if "are estimated" in json.dumps(frame)]) == 1
    assert 1 < len(service.requests) < 30


# The SDK.


def ask(place: Place, script: str, engine: str = "polylect", **how: Any) -> tuple[Result, list[BudgetExceeded]]:
    """One prompt to a fresh process: its result, and the caps that were told."""
    path = place.folder / "script.toml"
    path.write_text(script)
    prompt = how.pop("prompt", None)

    async def talk() -> tuple[Result, list[BudgetExceeded]]:
        async with (
            asyncio.timeout(PATIENCE),
            connect(engine, cwd=place.workspace, env=place.env, script=str(path), **how) as agent,
        ):
            turn = agent.prompt("go", limits=prompt)
            result = [event async for event in turn if isinstance(event, BudgetExceeded)]
            return turn.result, result

    return asyncio.run(talk())


ENGINES = ["polylect", "polylect-jsonstream", "polylect-omp", "polylect-claude"]
SESSION = "0b5b6ab2-31c1-4f0c-9f1c-7d2f4c1f8a01"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_cap_holds_in_the_first_turn_after_a_resume(place: Place, engine: str) -> None:
    limits = Limits(cost=0.5)
    for how in ({"session": SESSION}, {"resume": SESSION}, {"resume": SESSION}):
        result, reported = ask(place, PRICED + ONCE, engine, limits=limits, **how)
        assert (result.reason, result.cost) == ("limit", pytest.approx(0.6))
        assert len(reported) == 1
        assert result.failure
        assert "0.5" in result.failure.message


@pytest.mark.parametrize("engine", ENGINES)
def test_an_agents_cap_ends_a_loop_at_the_step_that_passes_it_and_is_told_once(place: Place, engine: str) -> None:
    result, reported = ask(place, PRICED + LOOP, engine, limits=Limits(cost=0.5))
    assert (result.reason, len(reported)) == ("limit", 1)
    assert result.cost == pytest.approx(0.6)


@pytest.mark.parametrize("engine", ["polylect", "polylect-omp"])
def test_so_does_a_prompts_cap_where_the_wire_tells_costs_as_it_goes(place: Place, engine: str) -> None:
    slow = PRICED + "[[reply]]\nwhen.step = 2\nsay = [{ hang = true }]\n" + LOOP
    result, reported = ask(place, slow, engine, prompt=Limits(cost=0.5))
    assert (result.reason, result.cost, len(reported)) == ("limit", pytest.approx(0.6), 1)


def test_a_prompts_cap_holds_after_a_resume_too(place: Place) -> None:
    ask(place, PRICED + ONCE, session="one")
    result, reported = ask(place, PRICED + ONCE, resume="one", prompt=Limits(cost=0.5))
    assert (result.reason, result.cost, len(reported)) == ("limit", pytest.approx(0.6), 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_limit_of_requests_says_that_it_was_that_one(place: Place, engine: str) -> None:
    result, reported = ask(place, PRICED + LOOP, engine, max_turns=2)
    assert (result.reason, reported) == ("limit", [])
    assert result.failure
    assert "2" in result.failure.message
    done = place.run("run", "go", "--engine", engine, "--script", str(place.folder / "script.toml"), "--max-turns", "2")
    assert (done.code, "model requests or of its budget" in done.errors) == (4, False)
    assert "2" in done.errors


def test_the_sdk_is_told_why_a_cap_cannot_hold(place: Place) -> None:
    async def talk() -> None:
        how: dict[str, Any] = {"cwd": place.workspace, "env": {**place.env, **KEY}}
        with pytest.raises(EngineDied, match="is not known, so a cap in dollars"):
            async with connect("polylect", model="claude-unknown-9", limits=Limits(cost=1), **how):
                pass
        async with connect("polylect-claude", provider="anthropic", limits=Limits(cost=1), **how) as agent:
            with pytest.raises(Refused, match="could not hold"):
                await agent.configure(model="claude-unknown-9")

    asyncio.run(asyncio.wait_for(talk(), PATIENCE))


# Claude's own words.


def results(place: Place, script: str, *flags: str) -> tuple[int, list[Frame]]:
    done = place.run(*STREAM, *place.script(script), *flags, given=user("go"))
    return done.code, [frame for frame in done.frames if frame["type"] == "result"]


@pytest.mark.parametrize("script", [ONCE, LOOP])
def test_claude_ends_with_its_own_word_also_when_one_request_goes_over(place: Place, script: str) -> None:
    code, [result] = results(place, PRICED + script, "--max-budget-usd", "0.5")
    assert (code, result["subtype"], result["is_error"]) == (1, "error_max_budget_usd", True)
    assert result["total_cost_usd"] == pytest.approx(0.6)
    code, [result] = results(place, PRICED + ONCE, "--max-budget-usd", "0.7")
    assert (code, result["subtype"]) == (0, "success")


@pytest.mark.parametrize(("model", "most"), [("claude-3-5-haiku", 8192), ("claude-unknown-9", 32_000)])
def test_claude_is_told_the_longest_reply_of_the_model(place: Place, model: str, most: int) -> None:
    _, [result] = results(place, PRICED + ONCE, "--model", model)
    assert result["modelUsage"][model]["maxOutputTokens"] == most


@pytest.mark.filterwarnings("ignore::polylect.host.limits.LimitWarning")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_prompts_cap_on_a_model_without_a_price_is_refused_before_the_model_is_asked(
    place: Place, engine: str
) -> None:
    async def talk() -> Result:
        env = {**place.env, **KEY}
        how: dict[str, Any] = {"provider": "anthropic", "model": "claude-unknown-9", "base_url": "http://127.0.0.1:9"}
        async with connect(engine, cwd=place.workspace, env=env, **how) as agent:
            return await agent.prompt("go", limits=Limits(cost=0.5))

    result = asyncio.run(asyncio.wait_for(talk(), PATIENCE))
    assert (result.reason, result.steps) == ("limit", 0)
    assert result.failure
    assert "the price of the model is not known" in result.failure.message
