"""A tool, a provider and a dialect are added by adding their files: nothing else has to name them.

Each case copies the package into a folder of its own, adds files there and uses them through a real engine process.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine_process import Frame, Place
from machine import PATIENCE
from polylect import plug
from polylect.providers.check import describe, providers

SOURCES = Path(__file__).parents[1] / "src" / "polylect"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package, with what was compiled of it."""
    return Path(shutil.copytree(SOURCES, tmp_path / "lib" / "polylect"))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "place")


def frames(place: Place, package: Path, *flags: str, prompt: str = "Go", **env: str) -> list[Frame]:
    """What an engine of this package says to one prompt, on json-stream and without a question."""
    line = f'{{"type":"message","msg_id":"m1","content":"{prompt}"}}\n'
    words = ("--json-stream", "--no-session", "--approval-mode", "force", *flags)
    env = {"PYTHONPATH": str(package.parent), "POLYLECT_PROVIDER": "", **env}
    done = place.run(*words, given=line.encode(), env=env)
    assert (done.code, done.errors) == (0, "")
    return done.frames


def text_of(events: list[Frame]) -> str:
    return "".join(event["text"] for event in events if event["type"] == "text_delta")


TOOL = '''
"""Reverse: a text, from its end to its beginning."""

from typing import Any

from msgspec import Struct

from polylect.tools.arguments import TypedTool
from polylect.tools.setup import ToolSetup
from polylect.vocab.content import Category
from polylect.vocab.ports import Tool, ToolContext, ToolReturn


class Arguments(Struct, frozen=True):
    text: str


class Reverse(TypedTool[Arguments]):
    name = "Reverse"
    category: Category = "info"
    text = "Reverses a text."
    arguments = Arguments

    def describe(self, args: dict[str, Any]) -> str:
        return "Reverse a text"

    async def work(self, args: Arguments, context: ToolContext) -> ToolReturn:
        return ToolReturn(args.text[::-1])


def open_tool(setup: ToolSetup) -> Tool:
    return Reverse()
'''
SCRIPT = """
[[reply]]
when.step = 1
say = [{ call = "Reverse", id = "t1", args = { text = "drawer" } }]

[[reply]]
text = "{tool}: {result}"
"""


def test_a_tool_is_one_module(place: Place, package: Path) -> None:
    (package / "tools" / "builtin" / "reverse.py").write_text(TOOL)
    events = frames(place, package, *place.script(SCRIPT))
    [result] = [event for event in events if event["type"] == "tool_result"]
    assert (result["tool_name"], result["status"], result["output"]) == ("Reverse", "success", "reward")
    assert text_of(events) == "Reverse: reward"


PROVIDER = '''
"""Parrot: a service that repeats what it is asked."""

from polylect.providers.check import ProviderDescription


class Description(ProviderDescription):
    name = "parrot"
    key_variables = ("PARROT_API_KEY",)
    credentials = (("PARROT_API_KEY",),)
    default_model = "grey"


PROVIDER = Description()


def open_provider(settings):
    from polylect.vocab.content import Text  # not before `ready`
    from polylect.vocab.ports import BlockDone, ModelInfo, ReplyDone, TextChunk

    class Parrot:
        name = "parrot"

        def info(self, model):
            return ModelInfo(model, 1000, 100)

        async def stream(self, request):
            key = settings.api_key or settings.find("PARROT_API_KEY")
            text = f"{request.model} with {key}: {request.messages[-1].content[-1].text}"
            yield [TextChunk(text), BlockDone(Text(text)), ReplyDone("end")]

        async def close(self):
            pass

    return Parrot()
'''


def test_a_provider_is_one_module(place: Place, package: Path) -> None:
    (package / "providers" / "parrot.py").write_text(PROVIDER)
    env = {"PYTHONPATH": str(package.parent), "POLYLECT_PROVIDER": ""}
    assert text_of(frames(place, package, prompt="Hello", PARROT_API_KEY="nut")) == "grey with nut: Hello"
    named = frames(place, package, "--provider", "parrot", "--model", "red", "--api-key", "seed")
    assert text_of(named) == "red with seed: Go"
    refused = place.run("--json-stream", "--provider", "parrot", env=env)
    assert (refused.code, "PARROT_API_KEY is not set" in refused.errors) == (1, True)
    unknown = place.run("--json-stream", "--provider", "check", env=env)
    assert "providers are scripted, anthropic, openai, bedrock, vertex, local, parrot\n" in unknown.errors
    assert b"parrot    grey" in place.run("models", env={**env, "PARROT_API_KEY": "nut"}).out


def test_whatever_is_found_among_the_providers_is_one() -> None:
    for name in providers():
        assert describe(name).name == name
        assert callable(plug.load("providers", name).open_provider)


DIALECT = {
    "__init__.py": '''
"""Plain text: a line is a prompt, and what the model writes comes back as text."""

PROGRAMS = ("plain-agent",)
SWITCHES = ("--plain",)


def __getattr__(name: str) -> object:
    if name != "DIALECT":
        raise AttributeError(name)
    from polylect.dialects.plain.dialect import DIALECT

    return DIALECT
''',
    "dialect.py": """
from polylect.dialects.base import Dialect
from polylect.dialects.plain.engine.codec import EngineSide
from polylect.dialects.plain.host.codec import HostSide

DIALECT = Dialect("plain", ("1",), EngineSide, HostSide, 1000, {"1": {"events": {}, "commands": {}}})
""",
    "start.py": """
import os

from polylect.app.startup.args import common, parse

SEVERAL_SESSIONS = False
FIRST_SESSION = True
EXIT_CODES = ()
_FLAGS = {**common(), "--plain": ("switch", "plain"), "--provider": ("text", "provider")}


def options(words, program, env):
    settings, _ = parse(words, _FLAGS, {})
    return {"approval_mode": "force", "no_session": True, **settings}


def version(program):
    return "plain 1"


def prepare(options):
    pass


def ready(values, session):
    return b"* ready\\n"


def codec_options(values, env, session):
    return {"version": "1"}


def new_id():
    return os.urandom(4).hex()


new_session_id = new_id


def refusal(message, options, session, *, ready):
    return f"* {message}\\n".encode()
""",
    "engine/__init__.py": "",
    "engine/codec.py": """
from polylect.vocab.commands import Prompt
from polylect.vocab.events import TextDelta, TurnEnded


class EngineSide:
    exit_code = 0

    def __init__(self, env, *, version="1", max_line=0):
        self._env, self._rest, self._out = env, b"", b""

    def start(self):
        return []

    def receive(self, data):
        *lines, self._rest = (self._rest + data).split(b"\\n")
        return [Prompt(self._env.new_id(), line.decode()) for line in lines if line]

    def receive_eof(self):
        return self.receive(b"\\n")

    def send(self, event):
        if isinstance(event, TextDelta):
            self._out += event.text.encode()
        elif isinstance(event, TurnEnded):
            self._out += f"\\n* {event.reason}\\n".encode()
        return []

    def data_to_send(self):
        out, self._out = self._out, b""
        return out

    def note_sent(self, data):
        return []

    def due(self):
        return None
""",
    "host/__init__.py": "",
    "host/codec.py": """
from polylect.dialects.host_base import Refusal, accepted
from polylect.dialects.host_codec import HostCodec
from polylect.vocab.commands import Prompt
from polylect.vocab.events import Ready, TextDelta, TurnEnded, TurnStarted


class HostSide(HostCodec):
    def __init__(self, env, *, version="1", max_line):
        super().__init__(env, max_line)
        self._turn = ""

    def _receive_line(self, line):
        return self._complete(self._read(line.decode()))

    def _read(self, line):
        if line == "* ready":
            return [Ready()]
        if line.startswith("* "):
            return [TurnEnded(line[2:], turn=self._turn)]
        return [TextDelta(line, turn=self._turn)]

    def _engine_gone(self):
        return []

    def _handle(self, command):
        if not isinstance(command, Prompt):
            raise Refusal("a line is a prompt")
        self._out.append(command.text.encode() + b"\\n")
        self._turn = command.turn
        return [*accepted(command), TurnStarted(turn=command.turn)]

    def note_sent(self, data):
        return []
""",
}
HOST = """
import sys
from polylect.host.sync import connect

argv = [sys.executable, "-m", "polylect", "--plain", "--provider", "scripted", "--script", sys.argv[1]]
with connect(argv, dialect="plain") as agent:
    print([type(event).__name__ for event in agent.prompt("Hello")], agent.ask("Hello").text)
"""


@pytest.fixture
def plain(package: Path) -> Path:
    """The package with the dialect `plain`."""
    for name, source in DIALECT.items():
        path = package / "dialects" / "plain" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return package


def test_a_dialect_is_one_folder(place: Place, plain: Path) -> None:
    env = {"PYTHONPATH": str(plain.parent)}
    script = place.script('[[reply]]\ntext = "Hello to you."')
    done = place.run("--plain", *script, given=b"Hello\nHello\n", env=env)
    answer = b"Hello to you.\n* end\n"
    assert (done.code, done.out, done.errors) == (0, b"* ready\n" + answer + answer, "")
    assert place.run("--plain", "--version", env=env).out == b"plain 1\n"
    wrong = place.run("--plain", "--provider", "nobody", env=env)
    assert (wrong.code, wrong.out.startswith(b"* there is no provider")) == (1, True)
    assert "pi, claude, plain-agent." in place.run("link", "--help", env=env).out.decode()


def test_a_dialect_of_ones_own_drives_an_engine(place: Place, plain: Path) -> None:
    script = place.script('[[reply]]\ntext = "Hello to you."')[-1]
    env = {**place.env, "PYTHONPATH": str(plain.parent)}
    argv = [sys.executable, "-c", HOST, script]
    done = subprocess.run(
        argv, env=env, cwd=place.workspace, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    events = ["TurnStarted", "StepStarted", "TextDelta", "BlockEnded", "ReplyEnded", "StepEnded", "TurnEnded"]
    assert (done.stdout, done.stderr) == (f"{events} Hello to you.\n", "")
