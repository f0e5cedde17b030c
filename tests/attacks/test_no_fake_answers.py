"""A script answers only where somebody asked for it; else whoever's key is set, the same on every wire."""

import json
from pathlib import Path

import pytest

from e2e.service import VENDORS, Service
from engine_process import Outcome, Place
from polylect.vocab.content import Text

STREAM = ("--output-format", "stream-json", "--input-format", "stream-json", "--verbose")
HELLO = {"type": "message", "msg_id": "m1", "content": "hi"}
USER = {"type": "user", "message": {"role": "user", "content": "hi"}, "parent_tool_use_id": None, "session_id": ""}
WIRES = {
    "json-stream": (("--json-stream",), HELLO),
    "aionrs": (("--json-stream", "--protocol", "0.1.0"), HELLO),
    "omp": (("--mode", "rpc"), {"type": "prompt", "id": "1", "message": "hi"}),
    "claude": (STREAM, USER),
    "claude -p": (("--print", "hi", "--output-format", "json"), None),
    "run": (("run", "hi"), None),
}
NOBODY = {"POLYLECT_PROVIDER": ""}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def emit(place: Place, wire: str, *flags: str, **env: str) -> Outcome:
    words, line = WIRES[wire]
    supplied = json.dumps(line).encode() + b"\n" if line else b""
    return place.run(*words, *flags, given=supplied, env={**NOBODY, **env})


@pytest.mark.parametrize("wire", WIRES)
def test_without_a_key_nobody_answers_and_one_line_says_what_to_set(place: Place, wire: str) -> None:
    done = emit(place, wire)
    assert done.code == (1 if wire.startswith("claude") else 78)
    assert done.errors.count("\n") == 1
    assert "ANTHROPIC_API_KEY or OPENAI_API_KEY" in done.errors
    assert "--provider scripted" in done.errors
    assert b"How can I help" not in done.out
    match wire:
        case "aionrs":
            assert done.frames[0]["error"]["code"] == "config_error"
        case "claude" | "claude -p":
            assert done.frames[0]["is_error"] is True
        case _:
            assert done.out == b""


@pytest.mark.parametrize("wire", WIRES)
def test_with_a_key_its_service_is_asked_for_a_model_that_has_a_price(place: Place, wire: str) -> None:
    vendor = VENDORS["anthropic"]
    with Service() as service:
        service.give(vendor.says(Text("from the service")))
        done = emit(place, wire, **vendor.env, ANTHROPIC_BASE_URL=service.url)
        requested = [json.loads(request.body)["model"] for request in service.requests]
    assert (done.code, requested) == (0, ["claude-sonnet-5"]), done.errors
    assert b"service" in done.out


def test_run_takes_the_key_that_it_tells_people_to_give(place: Place) -> None:
    vendor = VENDORS["anthropic"]
    with Service() as service:
        service.give(vendor.says(Text("from the service")))
        flags = ("--provider", "anthropic", "--api-key", "sk-ant-given", "--base-url", service.url)
        done = emit(place, "run", *flags)
        assert (done.code, service.requests[0].headers["x-api-key"]) == (0, "sk-ant-given"), done.errors


def test_the_script_answers_whoever_asks_for_it(place: Place) -> None:
    file = place.folder / "own.toml"
    file.write_text('[[reply]]\ntext = "played"\n')
    for flags, env in (
        (("--script", str(file)), {}),
        ((), {"POLYLECT_SCRIPT": str(file)}),
        ((), {"POLYLECT_SCRIPT": str(file), "POLYLECT_PROVIDER": "scripted"}),
    ):
        done = emit(place, "json-stream", *flags, **env, ANTHROPIC_API_KEY="k")
        assert b"played" in done.out


@pytest.mark.parametrize(
    ("env", "told"),
    [
        ({"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:9"}, "openai: no model is named: set --model"),
        ({"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "k"}, "bedrock: no model is named: set --model"),
        ({"OPENAI_API_KEY": "k", "POLYLECT_MODEL": "claude-opus-5"}, "no provider is configured for the model"),
    ],
)
@pytest.mark.parametrize("wire", ["json-stream", "run"])
def test_a_model_that_has_to_be_named_is_missed_at_the_start(
    place: Place, wire: str, env: dict[str, str], told: str
) -> None:
    done = emit(place, wire, **env)
    assert (done.code, done.out) == (78, b"")
    assert told in done.errors


def test_doctor_and_models_tell_who_would_answer(place: Place) -> None:
    env = {**NOBODY, "OPENAI_API_KEY": "sk-x"}
    actual = place.run("doctor", env=env).out.decode()
    assert "provider=openai" in actual
    assert "openai/gpt-5.2 would answer" in actual
    assert "openai/gpt-5.2 answers where no provider is named" in place.run("models", env=env).out.decode()
    without = place.run("doctor", env=NOBODY)
    assert without.code == 1
    assert "no model is configured" in without.out.decode()
    assert "no provider: set default.provider" in without.out.decode()
    assert "no provider: set default.provider" in without.out.decode()
    assert "No provider is configured: set a key, or give --provider." in place.run("models", env=NOBODY).out.decode()


@pytest.mark.parametrize(("model", "vendor"), [("", "anthropic"), ("gpt-4.1", "openai")])
@pytest.mark.parametrize("words", [("run", "hi"), ("--json-stream",), ("--mode", "rpc")])
def test_a_key_without_a_provider_is_told_what_is_missing(
    place: Place, words: tuple[str, ...], model: str, vendor: str
) -> None:
    named = ("--model", model) if model else ()
    done = place.run(*words, "--api-key", "K", *named, env=NOBODY)
    assert done.code == 78
    assert f"--api-key does not say whose key it is: add --provider, for one --provider {vendor}" in done.errors
