"""What is imported when: a host waits for `ready`, and every module before it costs everybody's start."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from machine import PATIENCE

BEFORE_READY = {
    "polylect",
    "polylect.plug",
    "polylect.app",
    "polylect.app.startup",
    "polylect.app.startup.args",
    "polylect.app.startup.config",
    "polylect.app.main",
    "polylect.app.startup.start",
    "polylect.dialects",
    "polylect.dialects.jsonstream",
    "polylect.dialects.jsonstream.ready",
    "polylect.dialects.little_json",
    "polylect.dialects.jsonstream.versions",
    "polylect.sessions",
    "polylect.sessions.folder",
    "polylect.providers",
    "polylect.providers.check",
    "polylect.providers.known_models",
    "_json",
    "fcntl",
    "gc",
}
"""Together 4 ms. Before adding one, look at what it imports itself, and run `make bench-quick`."""
_CLAUDE = ("--output-format", "stream-json", "--input-format", "stream-json", "--verbose")
_INITIALIZE = b'{"type":"control_request","request_id":"r1","request":{"subtype":"initialize","hooks":null}}\n'
FACES: dict[str, tuple[tuple[str, ...], set[str], bytes, str]] = {
    "native": (
        ("--native",),
        {f"polylect.dialects.native{name}" for name in ("", ".start", ".head", ".versions")},
        b'{"type":"ping","ref":"1"}\n',
        '"ref":"1"}',
    ),
    "jsonstream": (("--json-stream",), set(), b'{"type":"ping"}\n', '{"type":"pong"}'),
    "omp": (
        ("--mode", "rpc"),
        {f"polylect.{name}" for name in ("system", "system.clock_and_ids")}
        | {f"polylect.dialects.omp{name}" for name in ("", ".start", ".ready")},
        b'{"type":"get_state"}\n',
        '"command":"get_state"',
    ),
    "claude": (
        _CLAUDE,
        {f"polylect.{name}" for name in ("dialects.omp", "system", "system.user_folders", "vocab", "vocab.modes")}
        | {f"polylect.dialects.claude{name}" for name in ("", ".start", ".start_environment", ".versions")},
        _INITIALIZE,
        '"type":"control_response"',
    ),
    "acp": (
        ("--acp",),
        {f"polylect.dialects.{name}" for name in ("omp", "claude", "acp", "acp.start", "acp.versions")},
        b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}\n',
        '"protocolVersion"',
    ),
}
"""By wire: its flags, what it needs beyond the handful, a first request, and what is in the answer."""
FIRST = {
    "native": b'{"seq":1,"type":"ready"',
    "jsonstream": b'{"type":"ready"',
    "omp": b'{"type":"ready"}\n',
    "claude": b"",
    "acp": b"",
}
"""What is heard before anything else is imported. On Claude's wire and on ACP an engine speaks only when spoken to."""

NOT_FOR_A_FIRST_ANSWER = {
    "_ssl": "TLS, which a script needs not at all and a model only with its first prompt",
    "ast": "inspect, which asyncio imports and hardly uses",
    "dis": "the same",
    "tokenize": "linecache, which is for tracebacks",
    "binascii": "base64, which is for pictures",
    "httptools.parser": "HTTP, which a script does not speak",
    "argparse": "which our own flags do without",
    "dataclasses": "which our Structs do without",
    "pathlib": "which os.path stands in for",
    "polylect.tools.standard": "tools, which are loaded while the host thinks",
    "polylect.engine.turn.loop": "turns, the same",
    "polylect.engine.turn.structured": "answers in a form",
    "polylect.vocab.argument_schema": "what a model is told of tools",
    "polylect.sessions.catalogue": "lists of sessions",
    "polylect.app.serving.otel": "spans, for those who have a collector",
    "polylect.app.serving.mcp_servers": "MCP servers, where one is named",
    "polylect.app.cli.terminal": "errors for people",
    "polylect.host.errors": "errors of the SDK",
}
BUT = {
    "claude": {"polylect.tools.standard", "binascii", "polylect.vocab.argument_schema", "polylect.app.cli.terminal"},
    "acp": {"binascii"},
}
"""Its answer names the skills, which come with the tools."""

_SPY = """
import json, os, sys
before = set(sys.modules)

class Spy:
    def find_spec(self, name, path=None, target=None):
        if name == "polylect.app.startup.lazy":  # the first import after `ready`
            os.write(2, json.dumps(sorted(set(sys.modules) - before)).encode())
            os._exit(0)

sys.meta_path.insert(0, Spy())
sys.argv = ["polylect", *sys.argv[1:]]
from polylect.app.main import main
main()
"""
_LISTENER = """
import json, os, sys
write = os.write

def listen(descriptor, data):
    written = write(descriptor, data)
    if os.environ["ANSWER"].encode() in bytes(data):
        write(2, json.dumps(sorted(sys.modules)).encode())
        os._exit(0)
    return written

os.write = listen
sys.argv = ["polylect", *sys.argv[1:]]
from polylect.app.main import main
main()
"""
_SOURCES = Path(__file__).parents[2] / "src"


def environment(home: Path) -> dict[str, str]:
    return {"PATH": os.defpath, "HOME": str(home), "PYTHONPATH": str(_SOURCES), "ANTHROPIC_API_KEY": "x"}


@pytest.mark.parametrize("provider", ["scripted", "anthropic"])
@pytest.mark.parametrize("face", FACES)
def test_nothing_but_a_handful_is_imported_before_ready(tmp_path: Path, face: str, provider: str) -> None:
    flags, own, _, _ = FACES[face]
    argv = [sys.executable, "-c", _SPY, *flags, "--provider", provider]
    done = subprocess.run(
        argv, capture_output=True, env=environment(tmp_path), cwd=tmp_path, timeout=PATIENCE, check=True
    )
    assert done.stdout.startswith(FIRST[face]), "`ready` has to be out before anything else is imported"
    new = set(json.loads(done.stderr)) - BEFORE_READY - own - {f"polylect.providers.{provider}"}
    assert not new, f"imported before `ready` and not on the list: {sorted(new)}"


def test_a_server_in_the_settings_costs_two_modules_before_ready(tmp_path: Path) -> None:
    folder = tmp_path / ".config" / "polylect"
    folder.mkdir(parents=True)

    def imported(settings: str) -> set[str]:
        (folder / "config.toml").write_text(settings)
        argv = [sys.executable, "-c", _SPY, "--json-stream", "--provider", "scripted"]
        done = subprocess.run(
            argv, capture_output=True, env=environment(tmp_path), cwd=tmp_path, timeout=PATIENCE, check=True
        )
        return set(json.loads(done.stderr))

    server = imported("[mcp.servers.one]\ncommand = 'true'\nargs = ['--port']\n")
    assert server - imported("[mcp]\nwait = 1\n") == {"polylect.mcp", "polylect.mcp.server_config"}


@pytest.mark.parametrize("face", FACES)
def test_a_first_request_is_answered_without_what_only_a_turn_needs(tmp_path: Path, face: str) -> None:
    flags, _, request, answer = FACES[face]
    argv = [sys.executable, "-c", _LISTENER, *flags, "--provider", "scripted"]
    env = environment(tmp_path) | {"ANSWER": answer}
    reader, writer = os.pipe()  # it finds the request there: what it loads while it waits for one is not asked here
    os.write(writer, request)
    os.close(writer)
    with open(reader, "rb") as supplied:
        done = subprocess.run(
            argv, stdin=supplied, capture_output=True, env=env, cwd=tmp_path, timeout=PATIENCE, check=True
        )
    assert answer.encode() in done.stdout
    imported = set(json.loads(done.stderr))
    assert "polylect.engine.engine" in imported
    imported -= BUT.get(face, set())
    assert not {name: why for name, why in NOT_FOR_A_FIRST_ANSWER.items() if name in imported}
    assert not [name for name in imported if name.startswith("polylect.dialects.") and is_of_others(name, face)]


def is_of_others(name: str, face: str) -> bool:
    """Modules of other wires and of the other end of this one; the first line and the versions are known to all."""
    _, _, wire, *rest = name.split(".")
    if wire in FACES and wire != face:
        return rest not in ([], ["ready"], ["versions"])
    return bool(rest) and rest[0].startswith("host_")
