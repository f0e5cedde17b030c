"""Every example runs, as it says it does."""

import asyncio
import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine_process import PATIENCE, Place
from polylect.host import allow_all, connect

EXAMPLES = Path(__file__).parents[2] / "examples"
WRITES = """
[[reply]]
when.step = 1
say = [{ call = "Write", id = "c1", args = { file_path = "made.txt", content = "x" } }]

[[reply]]
text = "done: {prompt}"
"""
FORBIDDEN = """
[[reply]]
when.step = 1
say = [{ call = "Bash", id = "c1", args = { command = "git push" } }]

[[reply]]
text = "not done"
"""
LOOKS_UP = """
[[reply]]
when.step = 1
say = [{ call = "stock", id = "c1", args = { article = "bolts" } }]

[[reply]]
text = "There are enough of them."
"""
ANSWERS = """
[[reply]]
text = '{"verdict": "good", "why": "it says so"}'
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def run(place: Place, script: str, name: str, *words: str, text: str = "") -> str:
    file = place.workspace.parent / "script.toml"
    file.write_text(script)
    env = {**place.env, "POLYLECT_PROVIDER": "scripted", "POLYLECT_SCRIPT": str(file)}
    ran = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *words],
        cwd=place.workspace, env=env, input=text, capture_output=True, text=True, timeout=2 * PATIENCE, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize(("answer", "made"), [("y\n", True), ("n\n", False)])
def test_the_first_host_shows_a_turn_and_asks(place: Place, answer: str, made: bool) -> None:
    said = run(place, WRITES, "first_host.py", "go", text=answer)
    assert "done: go" in said
    assert (place.workspace / "made.txt").exists() is made


def test_a_policy_denies_and_the_result_says_so(place: Place) -> None:
    said = run(place, FORBIDDEN, "approval_policy.py", "go")
    assert said == "not done\ndenied: Bash: nothing is deleted or pushed without a person\ncost: unknown\n"


def test_two_engines_are_compared_on_copies_of_a_folder(place: Place) -> None:
    (place.workspace / "here.txt").write_text("here")
    words = (str(place.workspace), "go", "polylect", "polylect-omp", "polylect-claude", "cloude")
    *lines, typo = run(place, WRITES, "compare_engines.py", *words).splitlines()
    assert [line.split()[0] for line in lines] == ["polylect", "polylect-omp", "polylect-claude"]
    assert all("done: go" in line for line in lines)
    assert typo.split()[:2] == ["cloude", "failed:"]
    assert not (place.workspace / "made.txt").exists()


def test_a_batch_answers_every_row_in_its_shape(place: Place) -> None:
    file = place.workspace / "reviews.csv"
    file.write_text("text\nfine\nnot fine\n")
    rows = list(csv.DictReader(io.StringIO(run(place, ANSWERS, "batch.py", str(file), "good or bad?"))))
    assert sorted(row["text"] for row in rows) == ["fine", "not fine"]
    assert {row["verdict"] for row in rows} == {"good"}


def test_an_engine_inside_the_program_uses_a_function_of_the_program(place: Place) -> None:
    lines = run(place, LOOKS_UP, "in_process.py", "enough?").splitlines()
    assert lines[:2] == ["[stock: 4200]", "There are enough of them."]
    [stored] = (place.folder / ".local" / "state" / "stock-clerk").iterdir()
    assert lines[2:] == [f"[session {stored.name}]"]


def test_a_browser_reads_a_turn_as_it_happens(place: Place) -> None:
    """The real application under a real server; nothing is left running when the browser has gone."""
    code = """
import asyncio, json, sys
sys.path.insert(0, sys.argv[1])
import httpx2, uvicorn
from web_stream import app

async def main():
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    async with httpx2.AsyncClient(timeout=60) as client:
        async with client.stream("POST", f"http://127.0.0.1:{port}/turns", json={"task": "go"}) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    print(line[6:])
    server.should_exit = True
    await serving

asyncio.run(main())
"""
    file = place.workspace.parent / "script.toml"
    file.write_text(WRITES)
    env = {**place.env, "POLYLECT_PROVIDER": "scripted", "POLYLECT_SCRIPT": str(file)}
    argv = [sys.executable, "-c", code, str(EXAMPLES)]
    ran = subprocess.run(
        argv, cwd=place.workspace, env=env, capture_output=True, text=True, timeout=2 * PATIENCE, check=False
    )
    assert ran.returncode == 0, ran.stderr
    events = [json.loads(line) for line in ran.stdout.splitlines()]
    assert events[-1]["type"] == "turn_ended"
    assert (place.workspace / "made.txt").exists()


def test_no_example_is_left_out() -> None:
    result = Path(__file__).read_text()
    assert all(name.removesuffix(".py") in result for name in os.listdir(EXAMPLES) if name.endswith(".py"))


def test_a_script_is_played_to_engines_that_ask_a_service(place: Place) -> None:
    """With our own engine in the place of claude or pi."""
    script = place.folder / "script.toml"
    script.write_text(
        '[[reply]]\nwhen = { prompt = "go", step = 1 }\n'
        'say = ["I write.", { call = "Write", args = { file_path = "made.txt", content = "x" } }]\n'
        '[[reply]]\nwhen.result = { tool = "Write", outcome = "ok" }\ntext = "done"\n'
        "usage = { input = 1_000, output = 50 }\n"
    )
    server = [sys.executable, str(EXAMPLES / "model_server.py"), str(script), "0"]

    async def talk(url: str) -> tuple[str, int, str]:
        service = {"provider": "anthropic", "model": "claude-sonnet-4-5", "base_url": url, "api_key": "none"}
        async with connect("polylect", cwd=place.workspace, env=place.env, approve=allow_all, **service) as agent:
            result, failed = await agent.ask("go"), await agent.prompt("nothing fits this")
        return result.text, result.usage.output, failed.failure.message if failed.failure else ""

    with subprocess.Popen(server, env=place.env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            text, tokens, failure = asyncio.run(asyncio.wait_for(talk(process.stdout.readline().strip()), PATIENCE))
        finally:
            process.kill()
    assert (text, tokens > 50) == ("done", True)
    assert "has no reply for 'nothing fits this'" in failure
    assert (place.workspace / "made.txt").read_text() == "x"
