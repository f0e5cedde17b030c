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


TOOLS = """
[[reply]]
when = { step = 1 }
say = [{ call = "Write", args = { file_path = "a.txt", content = "one\\ntwo\\n" } }]
[[reply]]
when = { step = 2 }
say = [{ call = "Read", args = { file_path = "a.txt", offset = 2 } }]
[[reply]]
when = { step = 3 }
say = [{ call = "Edit", args = { file_path = "a.txt", old_string = "two", new_string = "2" } }]
[[reply]]
when = { step = 4 }
say = [{ call = "Bash", args = { command = "echo out; echo err >&2" } }]
[[reply]]
when = { step = 5 }
say = [{ call = "Grep", args = { pattern = ".", head_limit = 1, offset = 1 } }]
[[reply]]
when = { step = 6 }
say = [{ call = "Grep", args = { pattern = "o", output_mode = "files_with_matches", unknown = 1 } }]
[[reply]]
when = { step = 7 }
say = [{ call = "Grep", args = { pattern = "n|e", output_mode = "count" } }]
[[reply]]
when = { step = 8 }
say = [{ call = "Glob", args = { pattern = "*.md" } }]
[[reply]]
when = { step = 9 }
say = [{ call = "Bash", args = { command = "exit 3" } }]
[[reply]]
say = ["done"]
"""
PATCH = {"oldStart": 1, "oldLines": 2, "newStart": 1, "newLines": 2, "lines": [" one", "-two", "+2"]}
RESULTS: list[Any] = [
    {"type": "create", "filePath": "a.txt", "content": "one\ntwo\n", "structuredPatch": [], "originalFile": None},
    {"type": "text", "filePath": "a.txt", "content": "two", "numLines": 1, "startLine": 2, "totalLines": 2},
    {"filePath": "a.txt", "oldString": "two", "newString": "2", "replaceAll": False, "originalFile": None,
     "structuredPatch": [PATCH], "userModified": False},
    {"stdout": "out", "stderr": "err", "interrupted": False, "isImage": False},
    {"mode": "content", "numFiles": 0, "filenames": [], "content": "a.txt:2:2", "numLines": 1, "appliedOffset": 1},
    {"mode": "files_with_matches", "numFiles": 1, "filenames": ["a.txt"]},
    {"mode": "count", "numFiles": 1, "filenames": [], "content": "a.txt:1", "numMatches": 1},
    {"filenames": [], "numFiles": 0, "truncated": False},
    "Error: Exit code: 3\nSTDOUT:\n\nSTDERR:\n",
]  # fmt: skip


def test_results_of_tools_have_the_fields_that_hosts_render(place: Place) -> None:
    frames = Host(place, "--permission-mode", "bypassPermissions", script=TOOLS).prompt()
    results = [frame["tool_use_result"] for frame in frames if "tool_use_result" in frame]
    for result in (result for result in results if isinstance(result, dict)):
        result |= result.pop("file", {})
        result.pop("durationMs", None)
        result.pop("file_path", None)
    assert results == RESULTS


def test_a_file_is_read_for_the_host_as_the_model_could_read_it(place: Place) -> None:
    (place.workspace / "a.txt").write_text("hello")
    (place.workspace / "secret.txt").write_text("no")
    (place.workspace / "link").symlink_to("/etc/passwd")
    host = Host(place, "--disallowedTools", "Read(secret.txt)")
    path = str(place.workspace / "a.txt")
    assert host.request("read_file", path="a.txt") == {"contents": "hello", "absPath": path, "lossy": False}
    cut = host.request("read_file", path=path, max_bytes=2, encoding="base64")
    assert cut == {"contents": "aGU=", "absPath": path, "truncated": True, "encoding": "base64"}
    for name in ("secret.txt", "link", "/etc/passwd"):
        assert host.request("read_file", path=name) == ("session", f"read denied: {name}")
    assert "No such file" in host.request("read_file", path="nosuch")[1]


EDIT = """
[[reply]]
when = { step = 1 }
say = [{ call = "Edit", args = { file_path = "a.txt", old_string = "one", new_string = "two" } }]
[[reply]]
say = ["done"]
"""


@pytest.mark.parametrize("earlier", [0, 1])
def test_a_file_that_the_host_has_seen_read_may_be_edited_unless_it_has_changed(place: Place, earlier: int) -> None:
    path = write(place.workspace / "a.txt", "one")
    host = Host(place, "--permission-mode", "acceptEdits", script=EDIT)
    mtime = path.stat().st_mtime_ns // 1_000_000 - earlier
    assert host.request("seed_read_state", path="a.txt", mtime=mtime) is None
    host.prompt()
    assert path.read_text() == ("one" if earlier else "two")


BACKGROUND = """
[[reply]]
when = { step = 1 }
say = [{ call = "Bash", args = { command = "echo started; mkfifo p; read < p", run_in_background = true } }]
[[reply]]
when = { step = 2 }
say = [{ call = "BashOutput", args = { bash_id = "bash_1", wait = 20000 } }]
[[reply]]
say = ["done"]
"""


def test_a_command_in_the_background_is_shown_and_stopped(place: Place) -> None:
    host = Host(place, "--permission-mode", "bypassPermissions", script=BACKGROUND)
    results = [frame["tool_use_result"] for frame in host.prompt() if "tool_use_result" in frame]
    task = results[0]["backgroundTaskId"]
    output = {"output": "started\n", "total_bytes": 8, "truncated": False}
    assert host.request("get_task_output", task_id=task) == output
    assert host.request("stop_task", task_id=task) == {}
    assert host.request("get_task_output", task_id=task) == output, "also after its end"
    assert host.request("get_task_output", task_id="x") == ("session", "there is no command 'x' in the background")


PLAN = """
[[reply]]
when = { step = 1 }
say = [{ call = "ExitPlanMode", args = { plan = "First this." } }]
[[reply]]
say = ["I wait."]
"""


def test_the_plan_and_the_conversation_can_be_had(place: Place) -> None:
    host = Host(place, "--permission-mode", "plan", script=PLAN)
    assert host.request("get_plan") == {"exists": False}
    session = host.prompt("What now?")[-1]["session_id"]
    assert host.request("get_plan") == {"exists": True, "content": "First this."}
    exported = host.request("export_conversation")
    assert exported["default_filename"] == f"conversation-{session}.md"
    assert [words for words in ("What now?", "First this.", "I wait.") if words not in exported["text"]] == []


GIT = "git -c user.name=x -c user.email=x@y.z -c init.defaultBranch=main"
COMMANDS = (
    f"{GIT} init -q . && {GIT} init -q --bare up && {GIT} commit --allow-empty -m one",
    f"{GIT} push up main",
    f"{GIT} checkout -q -b side && {GIT} commit --allow-empty -m two && {GIT} commit --amend --allow-empty -m three",
    f"{GIT} checkout -q main && {GIT} merge --no-ff -m four side",
    f"{GIT} checkout -q -b late HEAD~1 && {GIT} commit -q --allow-empty -m five && {GIT} rebase --force-rebase main",
    "echo git commit",
)
STEP = """
[[reply]]
when = {{ step = {number} }}
say = [{{ call = "Bash", args = {{ command = "{command}" }} }}]
"""


def test_a_host_is_told_what_git_has_changed(place: Place) -> None:
    steps = [STEP.format(number=number, command=command) for number, command in enumerate(COMMANDS, 1)]
    script = "".join(steps) + '[[reply]]\nsay = ["done"]\n'
    frames = Host(place, "--permission-mode", "bypassPermissions", script=script).prompt()
    changed = [frame for frame in frames if frame.get("subtype") == "vcs_state_changed"]
    assert [(frame["kind"], frame.get("branch")) for frame in changed] == [
        ("commit", "main"),
        ("push", "main"),
        ("commit", "side"),
        ("merge", None),
        ("rebase", None),
    ]
    assert {frame["cwd"] for frame in changed} == {str(place.workspace)}
    operations = [frame["tool_use_result"].get("gitOperation") for frame in frames if "tool_use_result" in frame]
    assert operations[1] == {"push": {"branch": "main"}}
    assert operations[3:] == [
        {"branch": {"ref": "side", "action": "merged"}},
        {"branch": {"ref": "main", "action": "rebased"}},
        None,
    ]
