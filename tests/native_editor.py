"""A host with an editor, on the native wire: it has texts that are not saved, and terminals that it makes up."""

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from engine_process import Engine, Frame, Place

Reply = dict[str, Any] | None
"""`result`, or `error` and `code`; None is silence."""
MISSING: Reply = {"error": "no such file", "code": "missing"}


def calls(*steps: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """A script: each step calls these tools, and the last one says what the last result was."""
    rules = []
    for number, step in enumerate(steps, 1):
        said = ", ".join(
            f"{{ call = {json.dumps(name)}, id = 'c{number}-{at}', args = {_table(args)} }}"
            for at, (name, args) in enumerate(step, 1)
        )
        rules.append(f"[[reply]]\nwhen.step = {number}\nsay = [{said}]\n")
    return "\n".join([*rules, '[[reply]]\ntext = "done"\n'])


def _table(args: dict[str, Any]) -> str:
    return "{ " + ", ".join(f"{key} = {_value(value)}" for key, value in args.items()) + " }"


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_table(each) for each in value) + "]"
    return json.dumps(value)


class Editor:
    """An engine whose host is an editor. `buffers` are its texts by path; `asked` is all that the engine asked for."""

    def __init__(self, place: Place, script: str, *flags: str, toml: str = "") -> None:
        if toml:
            place.configure(toml)
        argv = [sys.executable, "-m", "polylect", "--native", "--approval-mode", "force", *flags, *place.script(script)]
        self.engine = Engine(argv, place.workspace, place.env)
        place.keep(self.engine)
        self.workspace = place.workspace.resolve()
        self.buffers: dict[str, str] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.frames: list[Frame] = []
        self.answers: dict[str, Callable[[dict[str, Any]], Reply]] = {
            "read_text_file": self._read,
            "write_text_file": self._write,
        }

    def open(self, name: str, text: str) -> None:
        """Have this text in a buffer that is not saved."""
        self.buffers[str(self.workspace / name)] = text

    def buffer(self, name: str) -> str | None:
        return self.buffers.get(str(self.workspace / name))

    def offer(self, **offers: Any) -> None:
        self.engine.send({"type": "hello", "host": "editor", "offers": offers, "ref": "hello"})
        reply = self._until(lambda frame: frame["type"] == "reply" and frame["ref"] == "hello")
        assert "failure" not in reply, reply

    def turn(self, text: str = "go", turn: str = "t1") -> list[Frame]:
        """Give a prompt, serve the engine until the turn has ended, and return what its calls came to."""
        self.engine.send({"type": "prompt", "turn": turn, "text": text})
        before = len(self.frames)
        self._until(lambda frame: frame["type"] == "turn_ended" and frame.get("turn") == turn)
        return [frame for frame in self.frames[before:] if frame["type"] == "tool_finished"]

    def outputs(self) -> list[str]:
        return [frame["output"] for frame in self.turn()]

    def ask(self, **command: Any) -> Frame:
        """A command and its reply, serving the engine meanwhile."""
        self.engine.send({**command, "ref": "asked"})
        return self._until(lambda frame: frame["type"] == "reply" and frame["ref"] == "asked")

    def until_asked(self, method: str) -> Frame:
        return self._until(lambda frame: frame["type"] == "host_call" and frame["method"] == method)

    def until(self, kind: str) -> Frame:
        return self._until(lambda frame: frame["type"] == kind)

    def reply(self, call: Frame, **reply: Any) -> None:
        self.engine.send({"type": "host_reply", "call": call["call"], **reply})

    def methods(self) -> list[str]:
        return [method for method, _ in self.asked]

    def _until(self, expected: Callable[[Frame], bool]) -> Frame:
        while True:
            frame = self.engine.frame()
            self.frames.append(frame)
            if frame["type"] == "host_call":
                self.asked.append((frame["method"], frame["params"]))
                answer = self.answers.get(frame["method"], lambda params: {"error": "no such method"})(frame["params"])
                if answer is not None:
                    self.reply(frame, **answer)
            if expected(frame):
                return frame

    def _read(self, params: dict[str, Any]) -> Reply:
        text = self.buffers.get(params["path"])
        return MISSING if text is None else {"result": {"content": text}}

    def _write(self, params: dict[str, Any]) -> Reply:
        self.buffers[params["path"]] = params["content"]
        return {"result": {}}
