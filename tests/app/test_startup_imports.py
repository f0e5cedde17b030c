"""What is imported when: a host waits for `ready`, and every module before it costs everybody's start."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BEFORE_READY = {
    "polylect",
    "polylect.app",
    "polylect.app.args",
    "polylect.app.config",
    "polylect.app.main",
    "polylect.app.start",
    "polylect.dialects",
    "polylect.dialects.jsonstream",
    "polylect.dialects.jsonstream.ready",
    "polylect.dialects.jsonstream.versions",
    "polylect.engine",
    "polylect.engine.folder",
    "polylect.providers",
    "polylect.providers.check",
    "polylect.providers.known",
    "__future__",
    "_json",
    "fcntl",
    "gc",
}
"""Together 4 ms. Before adding one, look at what it imports itself, and run `make bench-quick`."""

NOT_FOR_A_PING = {
    "_ssl": "TLS, which a script needs not at all and a model only with its first prompt",
    "ast": "inspect, which asyncio imports and hardly uses",
    "dis": "the same",
    "tokenize": "linecache, which is for tracebacks",
    "httptools": "HTTP, which a script does not speak",
    "argparse": "which our own flags do without",
    "dataclasses": "which our Structs do without",
    "pathlib": "which os.path stands in for",
    "polylect.dialects.jsonstream.host_side": "the other end of the wire",
}

_SPY = """
import json, os, sys
before = set(sys.modules)

class Spy:
    def find_spec(self, name, path=None, target=None):
        if name == "polylect.app.lazy":  # the first import after `ready`
            os.write(2, json.dumps(sorted(set(sys.modules) - before)).encode())
            os._exit(0)

sys.meta_path.insert(0, Spy())
sys.argv = ["polylect", *sys.argv[1:]]
from polylect.app.main import main
main()
"""
_SOURCES = Path(__file__).parents[2] / "src"


def environment(home: Path) -> dict[str, str]:
    return {"PATH": os.defpath, "HOME": str(home), "PYTHONPATH": str(_SOURCES), "ANTHROPIC_API_KEY": "x"}


@pytest.mark.parametrize("provider", ["scripted", "anthropic"])
def test_nothing_but_a_handful_is_imported_before_ready(tmp_path: Path, provider: str) -> None:
    argv = [sys.executable, "-c", _SPY, "--json-stream", "--provider", provider]
    done = subprocess.run(argv, capture_output=True, env=environment(tmp_path), cwd=tmp_path, timeout=30, check=True)
    assert done.stdout.startswith(b'{"type":"ready"'), "`ready` has to be out before anything else is imported"
    new = set(json.loads(done.stderr)) - BEFORE_READY
    assert not new, f"imported before `ready` and not on the list: {sorted(new)}"


def test_a_ping_is_answered_without_what_only_a_turn_needs(tmp_path: Path) -> None:
    argv = [sys.executable, "-X", "importtime", "-m", "polylect", "--json-stream", "--provider", "scripted"]
    ping = b'{"type":"ping"}\n'
    env = environment(tmp_path)
    done = subprocess.run(argv, input=ping, capture_output=True, env=env, cwd=tmp_path, timeout=30, check=True)
    assert done.stdout.endswith(b'{"type":"pong"}\n')
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}
    assert "polylect.engine.loop" in imported
    assert not {name: why for name, why in NOT_FOR_A_PING.items() if name in imported}
