"""Any bytes in any pieces: the engine answers or ignores, never dies (I2)."""

import json
import os
from collections.abc import Iterator
from itertools import count, pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine_process import Engine, Place
from thoroughness import up_to

_numbers = count()

WORDS = ["message", "stop", "tool_approve", "tool_deny", "init_history", "set_mode", "set_config", "add_mcp_server"]
KEYS = [
    "type",
    "msg_id",
    "input",
    "content",
    "files",
    "call_id",
    "scope",
    "reason",
    "text",
    "mode",
    "name",
    "transport",
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from([*WORDS, "yolo", "always"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(), inner, max_size=4),
    max_leaves=8,
)


def _command(fields: dict[str, object], kind: object) -> bytes:
    return json.dumps({**fields, "type": kind}).encode("utf-8", "replace")


OBJECTS = st.builds(_command, st.dictionaries(st.sampled_from(KEYS), VALUES), st.sampled_from(WORDS) | VALUES)
LINES = st.binary(max_size=200) | OBJECTS | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace"))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """One for all examples: it must outlive them."""
    with Place(tmp_path_factory.mktemp("fuzz")) as place:
        yield place.started("--protocol", "0.1.0", script='[[reply]]\ntext = "Hm."')


@given(lines=st.lists(LINES, max_size=6), cuts=st.lists(st.integers(min_value=0, max_value=2000), max_size=6))
@settings(max_examples=up_to(150), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_whatever_is_sent_the_next_ping_is_answered(engine: Engine, lines: list[bytes], cuts: list[int]) -> None:
    data = b"\n".join(lines)
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    for start, end in pairwise(places):
        os.write(engine.input, data[start:end])
    last = f"last-{next(_numbers)}"
    engine.send(b"\n", {"type": "stop"}, {"type": "message", "msg_id": last, "input": "Still there?"})
    while engine.frame() != {"type": "stream_start", "msg_id": last}:
        pass
    assert engine.errors == ""
