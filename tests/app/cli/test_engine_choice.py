"""Engines by name, and by a command line."""

import sys
from pathlib import Path
from typing import Any

import pytest

from engine_process import Place
from polylect.app.cli.engine_choice import in_flags, resolve_engine


@pytest.mark.parametrize(
    ("engine", "dialect", "expected"),
    [
        ("claude", "", ("claude", {"model": "m"})),
        ("my-engine --serve", "omp", (["my-engine", "--serve"], {"dialect": "omp"})),
        ("my-engine", "claude", (["my-engine"], {"dialect": "claude"})),
        ("aio 'a b'", "jsonstream:0.1.0", (["aio", "a b"], {"dialect": "jsonstream", "version": "0.1.0"})),
        ("polylect --json-stream", "", (["polylect", "--json-stream"], {"dialect": "jsonstream"})),
        ("x --mode rpc", "", (["x", "--mode", "rpc"], {"dialect": "omp"})),
        ("x acp", "", (["x", "acp"], {"dialect": "acp"})),
        ("x --output-format stream-json", "", (["x", "--output-format", "stream-json"], {"dialect": "claude"})),
    ],
)
def test_an_engine_is_a_name_or_a_command_line_with_its_wire(engine: str, dialect: str, expected: Any) -> None:
    assert resolve_engine(engine, dialect, {"model": "m"} if engine == "claude" else {}) == expected


@pytest.mark.parametrize(
    ("engine", "dialect", "engine_options", "why"),
    [
        ("cluade", "", {}, "there is no engine 'cluade'; known are polylect, .* a command line with its wire"),
        ("", "", {}, "there is no engine ''"),
        (
            "my-engine --serve",
            "",
            {},
            "nothing in 'my-engine --serve' tells which wire it speaks: add --dialect, one of",
        ),
        ("my-engine", "lsp", {}, "--dialect lsp: choose one of native, jsonstream, omp, claude, acp"),
        ("my-engine", "omp:99", {}, "--dialect omp:99: the versions of omp are"),
        ("claude", "omp", {}, "--dialect goes with a command line; claude speaks claude"),
        ("x 'y", "omp", {}, "is no command line: No closing quotation"),
        ("x y", "omp", {"base_url": "u"}, "--base-url cannot be handed on to 'x': write its own flags"),
    ],
)
def test_what_makes_no_sense_is_told_with_what_would(
    engine: str, dialect: str, engine_options: dict[str, Any], why: str
) -> None:
    with pytest.raises((ValueError, LookupError), match=why):
        resolve_engine(engine, dialect, engine_options)


def test_polylect_run_drives_a_command_line(tmp_path: Path) -> None:
    place = Place(tmp_path)
    words = [
        f"'{sys.executable}'",
        "-m polylect --mode rpc --protocol 18",
        *place.script('[[reply]]\ntext = "{prompt}!"'),
    ]
    done = place.run("run", "hello", "--engine", " ".join(words), "--dialect", "omp:18")
    assert (done.code, done.out, done.errors) == (0, b"hello!\n", "")
    refused = place.run("run", "hello", "--engine", "no-such-program --x")
    assert (refused.code, refused.out) == (2, b"")
    assert "add --dialect" in refused.errors
    gone = place.run("run", "hello", "--engine", "no-such-program --x", "--dialect", "omp")
    assert (gone.code, gone.out) == (78, b"")
    assert "no-such-program" in gone.errors


def test_errors_of_connect_name_flags_in_the_terminal() -> None:
    text = "Use resume='a b', or give provider=; provider='scripted' needs no key, or allow_unpriced=True. x.model='y'"
    assert in_flags(text) == (
        "Use --resume a b, or give --provider; --provider scripted needs no key, or --allow-unpriced. x.model='y'"
    )
