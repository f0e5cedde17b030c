"""One call of a model cannot make the engine deaf by what its rules and patterns have to compare."""

import json
import time
from pathlib import Path

import pytest

from engine_process import Place, message
from machine import PATIENCE
from polylect.app.startup.project_settings import LONGEST_RULE, MOST_RULES
from polylect.permissions.gate import ProposedCall, verdict
from polylect.permissions.rulebook import rules_in

RULES = """
[tools]
ask = ["Bash(git push:*)"]
deny = ["Read(**/a/**/b/**/*.pem)"]
"""
GIT = "git " + "-a " * 36
CALLS: dict[str, tuple[str, dict[str, str]]] = {
    "command": ("Bash", {"command": GIT}),
    "inner command": ("Bash", {"command": "sudo " + GIT * 20}),
    "path": ("Read", {"file_path": "a/b/" * 500 + "x"}),
    "long path": ("Read", {"file_path": "a/b/" * 2000 + "x"}),
    "glob of questions": ("Glob", {"pattern": "**?" * 12 + "!"}),
    "glob of stars": ("Glob", {"pattern": "*a*a*a*a*a*b[c]"}),
}


@pytest.mark.parametrize(("tool", "args"), CALLS.values(), ids=CALLS)
def test_the_engine_listens_whatever_a_call_makes_it_compare(tmp_path: Path, tool: str, args: dict[str, str]) -> None:
    arguments = ", ".join(f"{key} = {json.dumps(value)}" for key, value in args.items())
    say = f'say = [{{ call = "{tool}", args = {{ {arguments} }} }}]'
    with Place(tmp_path) as place:
        (place.workspace / ("a" * 200)).touch()
        (place.workspace / "src" / ("abc" * 20)).mkdir(parents=True)
        (place.workspace / "src" / ("abc" * 20) / "module.py").touch()
        place.configure(RULES)
        engine = place.started(script=f'[[reply]]\nwhen.step = 1\n{say}\n[[reply]]\ntext = "done"\n')
        engine.send(message("go"), {"type": "ping"})
        engine.until("pong")
        if tool == "Bash":
            requested = engine.until("tool_request")[-1]
            engine.send({"type": "tool_deny", "call_id": requested["call_id"]})
        engine.until("stream_end")
        engine.send({"type": "ping"})
        engine.until("pong")
        assert engine.finish()[1] == 0


@pytest.mark.parametrize("pattern", ["**" + "?" * 180, "**" + "a" * 180, "**/" + "*a/" * 58, "**/a" * 45])
@pytest.mark.parametrize("path", ["/w/" + "a" * 4000, "/w/" + "a/" * 2000, "/w/" + "aaaaaaa/" * 500])
def test_all_the_rules_that_a_project_may_have_are_compared_soon(pattern: str, path: str) -> None:
    texts = [f"Read({pattern}{number}b)" for number in range(MOST_RULES)]
    assert max(map(len, texts)) <= LONGEST_RULE
    rules = rules_in({"deny": texts}, "/w", "/h")
    begin = time.monotonic()
    assert verdict(ProposedCall("Read", "info", {}, (), (path,)), "force", (), rules).decision == "allow"
    assert time.monotonic() - begin < PATIENCE
