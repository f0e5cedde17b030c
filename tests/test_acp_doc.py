"""docs/acp.md: its snippets are valid, its requirements are held by tests, and the manifest fits the registry."""

import json
import re
from pathlib import Path

import jsonschema
import pytest

from polylect import __version__

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "acp.md").read_text("utf-8")
NUMBERS = [int(number) for number in re.findall(r"^\| (\d+) \| [AC]", PAGE, re.MULTILINE)]
TESTS = [*ROOT.glob("tests/**/acp/**/test_*.py"), *ROOT.glob("tests/**/test_acp*.py")]
CITED = re.compile(r"requirements? ((?:\d+(?:, | and |, and )?)+)", re.IGNORECASE)
A_TEXT = {"type": "string", "minLength": 1}
TEXTS = {"type": "array", "items": {"type": "string"}}
MANIFEST = {
    "type": "object",
    "required": ["id", "name", "version", "description", "distribution"],
    "properties": {
        "id": {"type": "string", "pattern": "^[a-z][a-z0-9-]*$"},
        "name": A_TEXT,
        "version": {"type": "string", "pattern": r"^[0-9]+\.[0-9]+\.[0-9]+"},
        "description": A_TEXT,
        "authors": TEXTS,
        "license": A_TEXT,
        "icon": A_TEXT,
        "distribution": {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": False,
            "properties": {
                "uvx": {
                    "type": "object",
                    "required": ["package"],
                    "additionalProperties": False,
                    "properties": {"package": A_TEXT, "args": TEXTS, "env": {"type": "object"}},
                }
            },
        },
    },
}
"""What the registry of agents wants of an entry, as far as ours uses it."""


def test_the_requirements_are_numbered_without_a_gap() -> None:
    assert list(range(1, 64)) == NUMBERS


@pytest.mark.parametrize("number", NUMBERS)
def test_a_requirement_has_a_test_that_cites_it(number: int) -> None:
    texts = [path.read_text("utf-8") for path in TESTS]
    cited = {int(one) for text in texts for match in CITED.findall(text) for one in re.findall(r"\d+", match)}
    assert number in cited


@pytest.mark.parametrize("language", ["json"])
def test_the_settings_of_editors_are_valid(language: str) -> None:
    snippets = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    servers = [json.loads(snippet)["agent_servers"]["polylect"] for snippet in snippets]
    assert [(server["command"], server["args"]) for server in servers] == [("polylect", ["--acp"])] * 2


@pytest.mark.parametrize(("language", "opening", "closing"), [("lua", "({[", ")}]"), ("elisp", "(", ")")])
def test_the_brackets_of_other_snippets_match(language: str, opening: str, closing: str) -> None:
    [snippet] = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    open_ones: list[str] = []
    for letter in re.sub(r'"[^"]*"', "", snippet):
        if letter in opening:
            open_ones.append(closing[opening.index(letter)])
        elif letter in closing:
            assert open_ones.pop() == letter
    assert open_ones == []


def test_the_lines_of_the_conversation_are_json() -> None:
    lines = re.findall(r"^[→←] (.*)$", PAGE, re.MULTILINE)
    assert len(lines) > 8
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in lines)


def test_the_manifest_fits_the_registry() -> None:
    manifest = json.loads((ROOT / "registry" / "polylect" / "agent.json").read_text("utf-8"))
    jsonschema.validate(manifest, MANIFEST)
    assert manifest["version"] == __version__
    assert manifest["distribution"]["uvx"]["package"] == f"polylect=={__version__}"
    icon = (ROOT / "registry" / "polylect" / manifest["icon"]).read_text("utf-8")
    assert 'width="16" height="16"' in icon
    assert "currentColor" in icon
