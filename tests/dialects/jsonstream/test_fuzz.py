"""Frames with the right names and any content: understood, refused, never a crash."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dialects.pair import env
from grammar_check import Grammar
from polylect.dialects.jsonstream.dialect import DIALECT
from polylect.dialects.jsonstream.frames import base as shapes
from polylect.dialects.jsonstream.frames import table as frames
from polylect.dialects.jsonstream.host import undocumented_events
from polylect.vocab.commands import MalformedCommand
from thoroughness import up_to

WORDS = sorted(
    {
        *frames.EVENTS["0.2.0"],
        *frames.COMMANDS["0.1.0"],
        *frames.COMMANDS["0.2.0"],
        *undocumented_events.HANDLERS,
        "foo",
    }
)
FIELDS = sorted(
    {
        field
        for shape in (*frames.EVENTS["0.2.0"].values(), *frames.COMMANDS["0.2.0"].values(), shapes.OldMessage)
        for field in shape.__struct_fields__
    }
)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(["", "m", "c", "yolo"])
)
KEYS = st.sampled_from(
    ["name", "category", "args", "description", "options", "label", "question", "modes", "code", "message"]
)
VALUES = st.recursive(SCALARS | st.text(), lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=6)
FRAMES = st.builds(
    lambda word, fields: {"type": word, **fields},
    st.sampled_from(WORDS),
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=6),
)
TALK = st.lists(FRAMES, max_size=5).map(lambda frames: "".join(json.dumps(frame) + "\n" for frame in frames).encode())
VERSIONS = pytest.mark.parametrize("version", DIALECT.versions)
thorough = settings(max_examples=up_to(60), deadline=None, suppress_health_check=list(HealthCheck))


@VERSIONS
@given(talk=TALK)
@thorough
def test_an_engine_survives_any_content(version: str, talk: bytes) -> None:
    engine = DIALECT.engine_side(env(), version=version)
    result = engine.receive(talk) + engine.receive_eof()
    refused = [command for command in result if isinstance(command, MalformedCommand)]
    assert len(engine.data_to_send().splitlines()) >= len(refused)
    engine.note_sent(talk)


@VERSIONS
@given(talk=TALK)
@thorough
def test_a_host_hears_grammar_whatever_the_content(version: str, talk: bytes) -> None:
    host = DIALECT.host_side(env(), version=version)
    grammar = Grammar()
    for event in host.receive(talk) + host.note_sent(talk) + host.receive_eof():
        grammar.check(event)
