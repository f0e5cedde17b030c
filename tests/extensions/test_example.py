"""The extension of the guide, as it is printed there, in a real process."""

from pathlib import Path

from engine_process import Place, message
from polylect.app.startup import config
from polylect.extensions import api
from polylect.extensions.shell_hooks import MOMENTS

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "extensions" / "careful.py"
GUIDE = (ROOT / "docs" / "extensions.md").read_text()
SCRIPT = """
[[reply]]
when.prompt = "delete"
when.step = 1
say = [{ call = "Bash", id = "c1", args = { command = "rm notes.txt" } }]

[[reply]]
when.prompt = "keys"
when.step = 1
say = [{ call = "Read", id = "c2", args = { file_path = "keys.txt" } }]

[[reply]]
when.prompt = "keys"
text = "{result}"

[[reply]]
when.prompt = "calculate"
text = "use eval(x) here"

[[reply]]
text = "all right"
"""


def text_of(frames: list[dict[str, object]]) -> str:
    return "".join(str(frame["text"]) for frame in frames if frame["type"] == "text_delta")


def test_the_guide_shows_the_example_as_it_is() -> None:
    assert f"```python\n{EXAMPLE.read_text()}```" in GUIDE


def test_the_guide_names_everything_there_is() -> None:
    names = [name for name in vars(api.Polylect) if not name.startswith("_")]
    assert [name for name in names if f"`{name}(" not in GUIDE and f"`await {name}(" not in GUIDE] == []
    assert [event for event in MOMENTS if f"`{event}`" not in GUIDE] == []
    assert set(MOMENTS) == set(config.HOOKS)


def test_the_example_asks_hides_lists_and_reminds(tmp_path: Path) -> None:
    with Place(tmp_path) as place:
        own = place.settings.parent / "extensions"
        own.mkdir(parents=True)
        (own / "careful.py").write_text(EXAMPLE.read_text())
        (place.workspace / "notes.txt").write_text("keep me")
        (place.workspace / "keys.txt").write_text("key = sk-abcdefghijklmnopqrst")
        (place.workspace / "work.py").write_text("x = 1  # TODO: finish\n")
        engine = place.started(script=SCRIPT)

        engine.send(message("/todo", "m1"))
        listed = engine.until("stream_end")
        assert [frame["message"] for frame in listed if frame["type"] == "info"] == ["work.py:1: x = 1  # TODO: finish"]

        engine.send(message("delete it", "m2"))
        request = engine.until("tool_request")[-1]
        assert request["tool"]["args"]["question"] == "Delete files?\nrm notes.txt"
        assert request["msg_id"] == "m2"
        engine.send({"type": "tool_approve", "call_id": request["call_id"], "answer": "No"})
        denied = engine.until("stream_end")
        assert "does not want anything deleted" in str(denied)
        assert (place.workspace / "notes.txt").exists()

        engine.send(message("keys", "m3"))
        assert "[a secret]" in text_of(engine.until("stream_end"))

        engine.send(message("calculate", "m4"))
        assert text_of(engine.until("stream_end")).endswith("all right")
        assert engine.finish()[1] == 0


def test_code_of_a_project_runs_only_where_it_is_trusted(tmp_path: Path) -> None:
    with Place(tmp_path) as place:
        folder = place.workspace / ".polylect" / "extensions"
        folder.mkdir(parents=True)
        (folder / "evil.py").write_text("open('ran', 'w')\ndef extend(polylect): pass")
        (place.workspace / "evil-1.dist-info").mkdir()
        (place.workspace / "evil-1.dist-info" / "entry_points.txt").write_text("[polylect.extensions]\nx = evil:extend")
        engine = place.started()
        engine.send(message("hello"))
        engine.until("stream_end")
        assert engine.finish()[1] == 0
        assert not (place.workspace / "ran").exists()
        assert "ignored without --trust-workspace" in engine.errors
        trusting = place.started("--trust-workspace")
        trusting.send(message("hello"))
        trusting.until("stream_end")
        assert (place.workspace / "ran").exists()


def test_an_installed_package_and_a_named_file_are_loaded(tmp_path: Path) -> None:
    with Place(tmp_path) as place:
        packages = tmp_path / "site-packages"
        (packages / "greeter-1.dist-info").mkdir(parents=True)
        (packages / "greeter-1.dist-info" / "METADATA").write_text("Name: greeter\nVersion: 1\n")
        (packages / "greeter-1.dist-info" / "entry_points.txt").write_text(
            "[polylect.extensions]\nx = greeter:extend\n"
        )
        (packages / "greeter.py").write_text(
            "def extend(polylect): polylect.command('greet', lambda words: 'Hi ' + words)"
        )
        named = tmp_path / "named.py"
        named.write_text("def extend(polylect): polylect.command('named', lambda words: 'from a file')")
        env = {"PYTHONPATH": f"{place.env['PYTHONPATH']}:{packages}"}
        engine = place.started("--extension", str(named), env=env)
        engine.send(message("/greet you", "m1"), message("/named", "m2"))
        frames = engine.until("stream_end") + engine.until("stream_end")
        assert [frame["message"] for frame in frames if frame["type"] == "info"] == ["Hi you", "from a file"]


def test_a_broken_extension_is_a_frame_and_the_engine_goes_on(tmp_path: Path) -> None:
    with Place(tmp_path) as place:
        broken = place.settings.parent / "extensions" / "broken.py"
        broken.parent.mkdir(parents=True)
        broken.write_text("print('to nobody')\nraise RuntimeError('broken')")
        engine = place.started()
        failed = engine.until("plugin_registration_failed")[-1]
        assert (failed["plugin_name"], failed["message"]) == (str(broken), "RuntimeError: broken")
        engine.send(message("hello"))
        engine.until("stream_end")
        assert engine.finish()[1] == 0


def test_commands_of_the_settings_are_run_in_the_sandbox_with_the_call_on_their_input(tmp_path: Path) -> None:
    with Place(tmp_path) as place:
        place.configure(
            '[[hooks.PreToolUse]]\nmatcher = "Bash"\n'
            """command = 'grep -q "rm " && { echo "no deleting" >&2; exit 2; }; exit 0'\n"""
        )
        engine = place.started("--force", script=SCRIPT)
        engine.send(message("delete it"))
        result = engine.until("tool_cancelled")[-1]
        assert result["reason"] == "no deleting"
        engine.until("stream_end")
        assert engine.finish()[1] == 0
