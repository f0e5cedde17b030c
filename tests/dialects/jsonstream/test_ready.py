import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import polylect
from dialects.pair import env
from polylect import plug
from polylect.dialects.jsonstream.dialect import DIALECT
from polylect.dialects.jsonstream.ready import capabilities, ready_line
from polylect.vocab.commands import Configure
from polylect.vocab.content import Abilities
from polylect.vocab.events import Ready, SettingChanged

VERSIONS = pytest.mark.parametrize("version", DIALECT.versions)


@VERSIONS
@given(
    session=st.text(),
    thinking=st.booleans(),
    effort_levels=st.lists(st.text()).map(tuple),
    mode=st.sampled_from(["default", "auto_edit", "force", "plan", "dont_ask"]),
    mcp=st.booleans(),
)
def test_the_early_line_is_what_the_engine_side_would_have_written(
    version: str, session: str, thinking: bool, effort_levels: tuple[str, ...], mode: str, mcp: bool
) -> None:
    engine = DIALECT.engine_side(env(), version=version)
    abilities = Abilities(thinking=thinking, effort_levels=effort_levels, mcp=mcp)
    engine.send(Ready(session=session, mode=mode, abilities=abilities))
    early = ready_line(
        version, session, capabilities(version, thinking=thinking, effort_levels=effort_levels, mode=mode, mcp=mcp)
    )
    assert early == engine.data_to_send()


@pytest.mark.parametrize("session", ["my-conv-123", "größe", "日本\u2028\u2029", 'quote " and \\', "\x00\x1f\x7f"])
def test_awkward_session_ids_are_written_alike(session: str) -> None:
    engine = DIALECT.engine_side(env())
    engine.send(Ready(session=session))
    assert ready_line("0.2.0", session) == engine.data_to_send()


def test_a_ready_that_was_overheard_is_not_said_again() -> None:
    engine = DIALECT.engine_side(env())
    engine.note_sent(ready_line("0.2.0", "s", capabilities("0.2.0", thinking=True, mode="auto_edit", mcp=True)))
    engine.send(Ready(session="s"))
    assert engine.data_to_send() == b""
    engine.send(SettingChanged("mode", "force"))
    assert engine.data_to_send() == (
        b'{"type":"config_changed","capabilities":{"tool_approval":true,"thinking":true,"effort":false,'
        b'"effort_levels":[],"modes":["default","auto_edit","force"],"current_mode":"force","mcp":true}}\n'
    )


@pytest.mark.parametrize("mode", ["plan", "dont_ask"])
def test_the_current_mode_is_always_among_the_modes_and_can_be_set(mode: str) -> None:
    engine = DIALECT.engine_side(env())
    engine.send(Ready())
    engine.data_to_send()
    [command] = engine.receive(b'{"type":"set_mode","mode":"%s"}\n' % mode.encode())
    assert command == Configure({"mode": mode}, ref=command.ref)
    engine.send(SettingChanged("mode", mode))
    assert f'"modes":["default","auto_edit","force","{mode}"],"current_mode":"{mode}"'.encode() in engine.data_to_send()
    engine.send(SettingChanged("mode", "default"))
    assert b'"modes":["default","auto_edit","force"],"current_mode":"default"' in engine.data_to_send()


def test_the_early_line_costs_no_import_but_three_small_modules() -> None:
    source = str(Path(polylect.__file__).parents[1])
    code = "before = set(sys.modules); import polylect.dialects.jsonstream.ready; print(*set(sys.modules) - before)"
    out = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {source!r}); {code}"],
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
    ).stdout.split()
    own = {"polylect", "polylect.dialects", "polylect.dialects.jsonstream"}
    assert set(out) - own == {
        "_json",
        "polylect.dialects.little_json",
        "polylect.dialects.jsonstream.ready",
        "polylect.dialects.jsonstream.versions",
    }


def test_the_dialect_is_found_by_the_name_of_its_module() -> None:
    assert plug.load("dialects", "jsonstream").DIALECT is DIALECT
