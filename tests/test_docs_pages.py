"""The programs of docs/tutorial.md and docs/host-sdk.md run as they stand there, and the rules of the site hold."""

import ast
import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from engine_process import PATIENCE, Place

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from scripts import docs_hooks  # noqa: E402

TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
PROGRAMS = {"python": [sys.executable], "polylect": [sys.executable, "-m", "polylect"]}
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
import os

import msgspec

from polylect.host import Limits, NoSuchSession, connect

warehouse = {"screws": 7}


async def main():
%s


asyncio.run(main())
"""


def tutorial_blocks(text: str) -> list[tuple[str, str, str, str]]:
    """Each block as a word for what to do with it (none for a command), a file, and last what stands in it."""
    blocks = r"(?:<!-- (file|change): (\S+) -->\n```\w+|```(console))\n(.*?)```"
    return re.findall(blocks, text, re.DOTALL | re.MULTILINE)


TUTORIAL_BLOCKS = tutorial_blocks(TUTORIAL)


def run(argv: list[str], place: Place, *, typed: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv,
        cwd=place.workspace,
        env={**place.env, "PYTHONPATH": os.pathsep.join(sys.path), **env},
        input=typed,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )


def test_the_first_steps_of_the_tutorial_print_what_the_page_says(tmp_path: Path) -> None:
    """Up to the sixth; `make interop` goes on to the end, which takes ten seconds (`interop/test_tutorial.py`)."""
    follow_tutorial(tmp_path, tutorial_blocks(TUTORIAL.partition("\n## 6. ")[0]))


def follow_tutorial(folder: Path, blocks: list[tuple[str, str, str, str]]) -> None:
    """Does what a reader does, in one folder: saves the files, makes the changes, types the commands and answers."""
    place = Place(folder)
    shown, seen = list[str](), list[str]()
    for kind, name, _, text in blocks:
        path = place.workspace / name
        if kind == "change":
            path.write_text(changed(path.read_text(), text))
        elif kind == "file":
            path.write_text(text)
        else:
            shown += re.split(r"^(?=\$ )", text, flags=re.MULTILINE)[1:]
            seen += [typed_and_printed(command, place) for command in shown[len(seen) :]]
    assert seen == shown != []


def typed_and_printed(command: str, place: Place) -> str:
    """What a terminal shows of a command whose questions are answered as the page does."""
    line, _, expected = command.partition("\n")
    answers = re.findall(r"\[y/N\] (.*\n)", expected)
    program, *args = shlex.split(line.removeprefix("$ "))
    printed = run([*PROGRAMS[program], *args], place, typed="".join(answers), POLYLECT_PROVIDER="").stdout
    printed = re.sub(r"ok(\]\n\nlimit: )", r"cancelled\1", printed)  # a call may be faster than the stop
    for answer in answers:
        printed = re.sub(r"\[y/N\] (?!\w\n)", rf"[y/N] {answer}", printed, count=1)
    return f"{line}\n{printed}"


def changed(program: str, change: str) -> str:
    """The program with what the change defines, in place of what it had of the same name."""
    return "\n\n".join((statements(change) | statements(program) | statements(change)).values()) + "\n"


def statements(program: str) -> dict[str, str]:
    """The source of each import, assignment and definition of a program by its name; of all else by its source."""
    lines = program.splitlines()
    sources = {}
    for node in ast.parse(program).body:
        source = ast.unparse(node)
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                sources[name] = "\n".join(lines[first - 1 : node.end_lineno])
            case ast.ImportFrom() | ast.Assign():
                sources[re.split(" import | = ", source)[0]] = source
            case _:
                sources[source] = source
    return sources


def test_the_commands_of_the_page_about_mcp_print_what_it_says(tmp_path: Path) -> None:
    place = Place(tmp_path)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, words in (("python3", ""), ("polylect", " -m polylect")):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{words} "$@"\n')
        (programs / name).chmod(0o755)
    env = {"PATH": f"{programs}:{os.environ['PATH']}", "XDG_CONFIG_HOME": "", "WIKI_TOKEN": "t"}
    blocks = tutorial_blocks((ROOT / "docs" / "mcp.md").read_text("utf-8"))
    shown, seen = list[str](), list[str]()
    for kind, name, _, text in blocks:
        if kind == "file":
            (place.workspace / name).write_text(text)
        else:
            shown += re.split(r"^(?=\$ )", text, flags=re.MULTILINE)[1:]
    for command in shown:
        line = command.partition("\n")[0]
        printed = run(["sh", "-c", line.removeprefix("$ ")], place, **env).stdout
        seen.append(f"{line}\n" + re.sub(r"after \d+\.\d\d s", "after 0.05 s", printed))
    assert seen == shown != []


def test_all_of_the_tutorial_is_tried() -> None:
    assert len(re.findall(r"^## \d+\. ", TUTORIAL, re.MULTILINE)) == 12
    assert len(TUTORIAL_BLOCKS) == TUTORIAL.count("```") // 2


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
    done = run([sys.executable, "-c", program], place, POLYLECT_SCRIPT=str(tmp_path / "model.toml"))
    assert done.returncode == 0, done.stdout
    assert (section != "Tools of your own") or "stock" in done.stdout


def test_all_programs_of_the_sdk_page_are_tried() -> None:
    assert len(SDK_PROGRAMS) == SDK_PAGE.count("```python") == 9


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
