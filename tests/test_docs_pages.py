"""The programs of docs/first-host.md and docs/host-sdk.md run as they stand there, and the rules of the site hold."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from engine_process import PATIENCE, Place

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from scripts import docs_hooks  # noqa: E402

PAGE = (ROOT / "docs" / "first-host.md").read_text("utf-8")
SDK_PAGE = (ROOT / "docs" / "host-sdk.md").read_text("utf-8")
SDK_PROGRAMS = re.findall(r"## ([^\n]+)\n(?:(?!\n## ).)*?```python\n(.*?)```", f"## Start\n{SDK_PAGE}", re.DOTALL)
SDK_SCRIPT = """
[[reply]]
when.prompt = "What did you change"
say = [{ text = '{"files": ["notes.md"], "risk": 1}' }]

[[reply]]
when = { prompt = "Count", step = 1 }
say = [{ call = "mcp__host__stock", args = { article = "screws" } }]

[[reply]]
say = [{ text = "Done. {calls}" }]
"""
SDK_FRAME = """
import asyncio

import msgspec

from polylect.host import connect

warehouse = {"screws": 7}


async def main():
%s


asyncio.run(main())
"""
EXAMPLES = re.findall(r"<!-- example: (\w+) -->\n```python\n(.*?)```\n(.*?)(?=\n## |<!--)", PAGE, re.DOTALL)


def run(program: str, place: Place, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=place.workspace,
        env={**place.env, "PYTHONPATH": os.pathsep.join(sys.path), **env},
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(("name", "program", "text_after"), EXAMPLES, ids=[name for name, _, _ in EXAMPLES])
def test_a_program_of_the_first_host_prints_what_the_page_says(
    name: str, program: str, text_after: str, tmp_path: Path
) -> None:
    place = Place(tmp_path)
    script = re.search(r"<!-- file: model.toml -->\n```toml\n(.*?)```", PAGE, re.DOTALL)
    assert script
    (place.workspace / "model.toml").write_text(script[1])
    printed = run(program, place)
    if expected := re.search(r"```\n(.*?)```", text_after, re.DOTALL):
        assert printed == expected[1]
    else:
        assert printed.startswith("False limit ")


def test_all_programs_of_the_page_are_tried() -> None:
    assert len(EXAMPLES) == PAGE.count("```python") > 3


@pytest.mark.parametrize(("section", "program"), SDK_PROGRAMS, ids=[section for section, _ in SDK_PROGRAMS])
def test_a_program_or_fragment_of_the_sdk_page_runs(section: str, program: str, tmp_path: Path) -> None:
    """A fragment becomes the body of a function, with an agent if it makes none. The tool is called by a prompt."""
    place = Place(tmp_path)
    (place.workspace / "notes.md").write_text("notes\n")
    (tmp_path / "model.toml").write_text(SDK_SCRIPT)
    if section == "Tools of your own":
        program = program.replace("    ...\n", "    print((await agent.ask('Count')).text)\n")
    if "async def main" not in program and "host.sync" not in program:
        if "connect(" not in program:
            program = 'async with connect("polylect") as agent:\n' + textwrap.indent(program, "    ")
        program = SDK_FRAME % textwrap.indent(program, "    ")
    printed = run(program, place, POLYLECT_SCRIPT=str(tmp_path / "model.toml"))
    assert (section != "Tools of your own") or "stock" in printed


def test_all_programs_of_the_sdk_page_are_tried() -> None:
    assert len(SDK_PROGRAMS) == SDK_PAGE.count("```python") == 6


@pytest.mark.parametrize(
    ("source", "page", "link", "expected"),
    [
        ("docs/mcp.md", "mcp.md", "../CONTRIBUTING.md", "CONTRIBUTING.md"),
        ("docs/mcp.md", "mcp.md", "../README.md#first", "index.md#first"),
        ("docs/mcp.md", "mcp.md", "safety.md#rules", "safety.md#rules"),
        ("docs/mcp.md", "mcp.md", "../examples", "examples/index.md"),
        ("docs/mcp.md", "mcp.md", "../examples/batch.py", "examples/batch.md"),
        ("README.md", "index.md", "docs/mcp.md", "mcp.md"),
        ("README.md", "index.md", "schemas", "schemas/index.md"),
        ("examples/_", "examples/index.md", "batch.py", "batch.md"),
        ("docs/mcp.md", "mcp.md", "https://example.org/a", "https://example.org/a"),
        ("docs/mcp.md", "mcp.md", "#tools", "#tools"),
    ],
)
def test_a_link_that_works_in_the_repository_works_on_the_site(
    source: str, page: str, link: str, expected: str
) -> None:
    assert docs_hooks.rewritten(f"See [it]({link}).", source, page) == f"See [it]({expected})."


def test_code_has_no_links() -> None:
    code = "```python\nx[0](docs/y.md)\n```\n"
    assert docs_hooks.rewritten(code, "README.md", "index.md") == code


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<link rel="stylesheet" href="https://fonts.example/css">', ["https://fonts.example/css"]),
        ("<script src=//cdn.example/x.js></script>", ["//cdn.example/x.js"]),
        ("@font-face{src:url(https://fonts.example/a.woff2)}", ["https://fonts.example/a.woff2"]),
        ('<a href="https://example.org">there</a><img src="house.svg">', []),
        ('<link rel="canonical" href="https://example.org/"><script src="assets/x.js"></script>', []),
    ],
)
def test_what_a_browser_would_ask_other_hosts_for_is_seen(text: str, expected: list[str]) -> None:
    assert docs_hooks.loads_from_elsewhere(text) == expected


def test_a_list_that_the_site_would_show_as_text_is_seen() -> None:
    assert list(docs_hooks.lists_without_a_blank_line("<p>Two things:\n- one\n- two</p>")) == ["- one", "- two"]
