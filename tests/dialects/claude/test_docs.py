"""The frames in docs/claude.md are frames."""

import json
from pathlib import Path

import msgspec
import pytest

from polylect.dialects.claude.engine.control_requests import _SHAPES as REQUESTS
from polylect.dialects.claude.frames.table import COMMANDS, EVENTS

PAGE = (Path(__file__).parents[3] / "docs" / "claude.md").read_text(encoding="utf-8")
LINES = [line for line in PAGE.splitlines() if line.startswith(("→ ", "← "))]


@pytest.mark.parametrize("line", LINES)
def test_an_example_is_a_frame(line: str) -> None:
    frame = json.loads(line[2:])
    kind = f"system/{frame['subtype']}" if frame["type"] == "system" else frame["type"]
    msgspec.convert(frame, (COMMANDS if line.startswith("→") else EVENTS)[kind])


def test_every_request_that_is_explained_is_taken() -> None:
    rows = PAGE.split("## What can be asked")[1].split("anything else")[0]
    named = [word for word in rows.split("`")[1::2] if "_" in word or word in ("initialize", "interrupt")]
    named = [word for word in named if not word.startswith(("control_", "cancel_queued")) and word.islower()]
    assert [word for word in named if word not in REQUESTS] == []
