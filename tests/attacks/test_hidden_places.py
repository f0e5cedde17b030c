"""The home is the workspace: what the sandbox hides from commands is also asked for by every other tool.

Without a sandbox nothing is hidden from commands, so nothing is asked for either; then only rules stand against it.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attacks.test_deafness import DONE, asks_for, call
from attacks.test_link_races import KINDS
from engine_process import Frame, Place, message

SECRET = "-----BEGIN KEY-----"
SANDBOXES = [kind for kind in KINDS if kind != "off"]
CALLS: dict[str, dict[str, Any]] = {
    "Read": {"file_path": ".ssh/id_rsa"},
    "Write": {"file_path": ".ssh/authorized_keys", "content": "mine"},
    "Edit": {"file_path": ".ssh/id_rsa", "old_string": "KEY", "new_string": "x"},
    "Grep": {"pattern": "KEY", "path": ".ssh"},
    "Glob": {"pattern": "*", "path": ".ssh"},
}
pytestmark = pytest.mark.skipif(not SANDBOXES, reason="this machine has neither bubblewrap nor Landlock")


@pytest.fixture(params=SANDBOXES)
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path) as place:
        place.configure(f"[sandbox]\nmode = {request.param!r}\n")
        (place.workspace / ".ssh").mkdir()
        (place.workspace / ".ssh" / "id_rsa").write_text(SECRET)
        (place.workspace / "link").symlink_to(".ssh")
        (place.workspace / "notes.txt").write_text("a KEY\n")
        yield place


def said(home: Place, *calls: str, until: str) -> list[Frame]:
    """In the mode that edits without a question."""
    flags = ("--approval-mode", "auto_edit")
    engine = home.started(*flags, script=asks_for(*calls) + DONE, env={"HOME": str(home.workspace)})
    engine.send(message("go"))
    return engine.until(until)


@pytest.mark.parametrize("name", CALLS)
def test_a_hidden_place_is_asked_for(home: Place, name: str) -> None:
    assert not [frame for frame in said(home, call(name, **CALLS[name]), until="tool_request") if "output" in frame]


def test_so_is_a_link_to_it(home: Place) -> None:
    said(home, call("Read", file_path="link/id_rsa"), until="tool_request")


def test_what_lies_beside_it_is_not_asked_for_and_a_search_of_all_does_not_find_it(home: Place) -> None:
    calls = (call("Read", file_path="notes.txt"), call("Grep", pattern="KEY", output_mode="content"))
    frames = said(home, *calls, until="stream_end")
    assert [frame["status"] for frame in frames if frame["type"] == "tool_result"] == ["success", "success"]
    assert SECRET not in json.dumps(frames)
