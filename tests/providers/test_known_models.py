"""What is told of a model before `ready` is what the catalogue says of it afterwards.

`python tests/providers/test_known_models.py` (with src on the path) writes the table.
"""

from pathlib import Path

import msgspec
import pytest

import polylect
from polylect.providers.check import is_version, model_offer, offer
from polylect.providers.models import Catalogue

FILE = Path(polylect.__file__).parent / "providers" / "known_models.py"
MODELS = [
    *Catalogue().rows,
    *(f"{name}-20250929" for name in Catalogue().rows),
    "gpt-4o-2024-08-06",
    "gpt-4o-audio-preview",
    "claude-opus-4-5-20251101",
    "claude-opus-4-9-20270101",
    "claude-3-7-sonnet-latest",
    "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "claude-sonnet-4-5@20250929",
    "anthropic/claude-haiku-4-5",
    "claude-x",
    "qwen3-coder",
    "",
]


def source() -> str:
    lines = [
        '"""What `models.json` says, as far as `ready` tells it. Written by `tests/providers/test_known_models.py`."""',
        "",
    ]
    lines += ["KNOWN: dict[str, tuple[bool, tuple[str, ...], bool]] = {"]
    for name, row in Catalogue().rows.items():
        result = ", ".join(msgspec.json.encode(level).decode() for level in row.effort_levels)
        levels = f"({result},)" if len(row.effort_levels) == 1 else f"({result})"
        lines.append(f'    "{name}": ({row.thinking}, {levels}, {row.price is not None}),')
    end = ['"""Beginnings of names: whether it thinks, its levels of effort, and whether its price is known."""']
    return "\n".join([*lines, "}", *end, ""])


def test_the_table_that_is_read_before_ready_is_what_the_catalogue_says() -> None:
    """If this fails: run this file with src on the path, and look at what changed."""
    assert FILE.read_text(encoding="utf-8") == source()


@pytest.mark.parametrize("model", MODELS)
def test_a_model_can_do_the_same_before_ready_and_after(model: str) -> None:
    info = Catalogue().info(model)
    assert (model_offer(model) or (False, (), False)) == (info.thinking, info.effort_levels, info.priced)


@pytest.mark.parametrize("model", ["qwen3-coder", ""])
def test_of_a_model_that_nobody_knows_nothing_is_told(model: str) -> None:
    assert model_offer(model) is None


@pytest.mark.parametrize("model", ["gpt-4o-audio-preview", "claude-opus-4-9-20270101", "gpt-4o-123"])
def test_t6_another_model_is_no_version_of_a_shorter_name(model: str) -> None:
    assert not any(is_version(model, name) for name in Catalogue().rows)


def test_rows_and_prices_of_ones_own_count_before_ready_too() -> None:
    own = {"mine": {"thinking": True, "effort_levels": ["low"]}}
    assert offer("openai", "mine", own=own) == (True, ("low",), False)
    assert offer("openai", "mine", own=own, prices={"mine": {"input": 1.0, "output": 2.0}}) == (True, ("low",), True)
    assert offer("openai", "gpt-4o", own=own) == (False, (), True)
    assert offer("openai", "theirs", own=own) is None


def test_a_script_says_what_its_model_can_do(tmp_path: Path) -> None:
    path = tmp_path / "script.toml"
    path.write_text('[model]\nthinking = false\neffort_levels = ["low"]\n[[reply]]\ntext = "x"\n')
    assert offer("scripted", "m", script=str(path)) == (False, ("low",), False)
    path.write_text('[price]\ninput = 1\noutput = 1\n[[reply]]\ntext = "x"\n')
    assert offer("scripted", "m", script=str(path)) == (True, (), True)
    assert offer("scripted", "m") == (True, (), True)  # the built-in one is free


if __name__ == "__main__":
    FILE.write_text(source(), encoding="utf-8")
