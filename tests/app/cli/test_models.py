"""`polylect models` and `polylect doctor --online`: what can be used, and what keeps the rest from it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from engine_process import Place
from polylect.app.cli.online_check import verdicts
from polylect.providers.models import Catalogue
from polylect.vocab.content import Usage
from polylect.vocab.ports import ReplyDone
from providers.loopback import CUT, Loopback, Step, reply, run
from providers.wires import WIRES

OWN = """
[providers.openai]
base_url = "http://localhost:11434"
[models."qwen3:8b"]
window = 40960
thinking = true
[prices."qwen3:8b"]
input = 0
output = 0
[models."claude-sonnet-4-5"]
window = 1000000
"""


def listed(place: Place, **env: str) -> dict[tuple[str, str], dict[str, Any]]:
    done = place.run("models", "--json", env=env)
    assert (done.code, done.errors) == (0, "")
    return {(row["provider"], row["model"]): row for row in json.loads(done.out)}


def test_a_key_makes_models_usable_and_the_others_say_why_not(tmp_path: Path) -> None:
    rows = listed(Place(tmp_path), OPENAI_API_KEY="sk-x")
    assert rows["scripted", ""]["usable"]
    assert rows["openai", "gpt-4o"] == {
        "provider": "openai",
        "model": "gpt-4o",
        "usable": True,
        "reason": "",
        "window": 128_000,
        "max_output": 16_384,
        "thinking": False,
        "effort_levels": [],
        "images": True,
        "price": [2.5, 10, 1.25, None],
    }
    for provider, result in (("anthropic", "ANTHROPIC_API_KEY"), ("bedrock", "AWS_"), ("vertex", "GOOGLE_")):
        row = rows[provider, "claude-sonnet-4-5"]
        assert not row["usable"]
        assert result in row["reason"]
    assert "polylect[local]" in rows["local", ""]["reason"]


def test_a_users_own_rows_are_listed_and_a_server_of_ones_own_has_no_others(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.configure(OWN)
    rows = listed(place)
    assert [model for provider, model in rows if provider == "openai"] == ["qwen3:8b"]
    own = rows["openai", "qwen3:8b"]
    assert (own["usable"], own["window"], own["thinking"], own["price"]) == (True, 40960, True, [0, 0, 0, 0])
    changed = rows["anthropic", "claude-sonnet-4-5"]
    assert (changed["window"], changed["max_output"], changed["price"][0]) == (1_000_000, 64_000, 3)


def test_people_get_a_table(tmp_path: Path) -> None:
    done = Place(tmp_path).run("models", env={"ANTHROPIC_API_KEY": "sk-ant-x"})
    lines = done.out.decode().splitlines()
    assert lines[0].split() == ["PROVIDER", "MODEL", "WINDOW", "OUTPUT", "CAN", "$", "PER", "MILLION", "TOKENS"]
    (row,) = (line.split() for line in lines if "claude-haiku-4-5" in line)
    assert row[:5] == ["anthropic", "claude-haiku-4-5", "200k", "64k", "thinking,"]
    assert any(line.strip().startswith("openai") and "OPENAI_API_KEY" in line for line in lines)


def test_mistakes_are_told_in_one_line(tmp_path: Path) -> None:
    place = Place(tmp_path)
    assert place.run("models", "--jsn").code == 2
    place.configure("[models.x]\nwindw = 1")
    done = place.run("models")
    assert (done.code, done.out, done.errors.count("\n")) == (1, b"", 1)
    assert "window" in done.errors


# What configuration says of models.


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        ('[models."gpt-4.1"]\nwindow = "big"', "window takes a whole number"),
        ('[models."gpt-4.1"]\nwindow = -1', "below zero"),
        ('[models."gpt-4.1"]\napi = "rest"', "chat, responses"),
        ('[models."gpt-4.1"]\neffort_levels = [1]', "list of texts"),
        ('[prices."gpt-4.1"]\nin = 1', "there is no setting prices.gpt-4.1.in"),
        ('[prices."gpt-4.1"]\ninput = "free"', "input takes a number"),
        ('[provider_chain]\nenabled = "yes"', "provider_chain.enabled takes true or false"),
    ],
)
def test_wrong_rows_are_told_before_ready(tmp_path: Path, toml: str, told: str) -> None:
    place = Place(tmp_path)
    place.configure(toml)
    done = place.run("--json-stream")
    assert (done.code, done.out, done.errors.count("\n")) == (1, b"", 1)
    assert told in done.errors


def test_t6_a_users_price_counts_and_a_part_of_one_is_no_price() -> None:
    def cost(**price: float) -> float | None:
        done = ReplyDone("end", Usage(1_000_000, 2_000_000))
        return Catalogue(None, {"mine": price}).with_cost("mine", done).usage.cost

    assert cost(input=1, output=2) == 5
    assert cost(input=1) is None


def test_a_row_changes_what_it_says_and_a_longer_name_is_another_model() -> None:
    catalogue = Catalogue({"gpt-4o": {"window": 7}, "gpt-4o-audio": {"images": False}})
    assert (catalogue.row("gpt-4o").window, catalogue.row("gpt-4o").max_output) == (7, 16_384)
    assert catalogue.row("gpt-4o-mini").window == 128_000
    assert (catalogue.row("gpt-4o").price is not None, catalogue.row("gpt-4o-audio").price) == (True, None)


# Online.


@pytest.mark.parametrize(
    ("answer", "model", "state", "told"),
    [
        (WIRES["chat"].answer(), "m", "ok", "m answers"),
        (reply(b'{"error":{"message":"bad key"}}', status=401, kind="application/json"), "", "bad", "OPENAI_API_KEY"),
        (
            reply(b'{"error":{"message":"no model polylect-doctor"}}', status=404, kind="application/json"),
            "",
            "ok",
            "takes the key",
        ),
        (reply(b'{"error":"Not Found"}', status=404, kind="application/json"), "", "bad", "--base-url"),
        (reply(b"<html>", kind="text/html"), "", "bad", "--base-url"),
        ([CUT], "", "bad", "closed the connection"),
    ],
)
def test_a_key_is_tried_with_one_request(answer: list[Step], model: str, state: str, told: str) -> None:
    async def main() -> None:
        async with Loopback([answer]) as server:
            values: dict[str, object] = {"provider": "openai", "base_url": server.url, "api_key": "k", "model": model}
            actual = await verdicts({"openai": values}, {})
            assert actual["openai"][0] == state
            assert told in actual["openai"][1]
            assert len(server.requests) == 1

    run(main)


def test_doctor_says_so_when_a_key_looks_wrong_or_is_refused(tmp_path: Path) -> None:
    place = Place(tmp_path)
    done = place.run("doctor", "--json", env={"ANTHROPIC_API_KEY": "sk-of-somebody-else"})
    (remark,) = (row for row in json.loads(done.out) if row["subject"] == "anthropic" and row["state"] == "note")
    assert "sk-ant-" in remark["detail"]

    async def nobody() -> int:
        async with Loopback([[CUT]]) as server:
            return server.port

    place.configure(f'[providers.openai]\nbase_url = "http://127.0.0.1:{asyncio.run(nobody())}"')
    done = place.run("doctor", "--online", "--json")
    assert done.code == 1
    assert [row["state"] for row in json.loads(done.out) if row["subject"] == "openai"] == ["ok", "bad"]
