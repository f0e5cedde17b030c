"""What a host of claude asks the real process for, and what the process reads at its start."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine_process import Engine, Frame, Place

STREAMS = ("--output-format", "stream-json", "--input-format", "stream-json", "--verbose")
PROMPT = "00000000-0000-4000-8000-000000000001"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path) as place:
        yield place


class Host:
    """A host of claude: it prompts, and asks with control requests."""

    def __init__(self, place: Place, *flags: str, script: str = "", **env: str) -> None:
        played = place.script(script) if script else []
        argv = [sys.executable, "-m", "polylect", *STREAMS, *played, *flags]
        self.engine = Engine(argv, place.workspace, {**place.env, **env})
        place.keep(self.engine)

    def prompt(self, text: str = "go") -> list[Frame]:
        """The frames of the turn."""
        self.engine.send({"type": "user", "uuid": PROMPT, "message": {"role": "user", "content": text}})
        return self.engine.until("result")

    def request(self, subtype: str, **fields: Any) -> Any:
        """The payload of the answer, or the error as `(code, message)`."""
        request = {"subtype": subtype, **fields}
        self.engine.send({"type": "control_request", "request_id": "r", "request": request})
        response = self.engine.until("control_response")[-1]["response"]
        if response["subtype"] == "error":
            return response["error_code"], response["error"]
        return response.get("response")


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_variable_says_where_the_users_skills_agents_and_commands_are(place: Place) -> None:
    for folder, name in ((place.folder / ".claude", "home"), (place.folder / "own", "own")):
        write(folder / "skills" / name / "SKILL.md", f"---\nname: {name}-skill\ndescription: d\n---\nx")
        write(folder / "agents" / "a.md", f"---\nname: {name}-agent\ndescription: d\n---\nx")
        write(folder / "commands" / f"{name}-command.md", "x")
    host = Host(place, CLAUDE_CONFIG_DIR=str(place.folder / "own"))
    response = host.request("initialize", hooks=None)
    names = json.dumps([response["agents"], response["commands"], host.request("reload_skills")])
    assert [name for name in ("own-skill", "own-agent", "own-command") if name not in names] == []
    assert "home-" not in names


def test_an_extension_is_loaded(place: Place) -> None:
    source = "def extend(polylect):\n    polylect.command('hi', description='d')(lambda words: 'Hello.')\n"
    path = write(place.folder / "hi.py", source)
    assert Host(place, "--extension", str(path)).prompt("/hi")[-1]["result"] == "Hello."
