"""The real omp, and polylect in its place, each as a process that is spoken to over the wire."""

import json
from collections.abc import Iterator

from bench.peers import program

from engine_process import Engine, Place
from interop.omp_clients import ENGINE, MODEL, Json, Package
from machine import PATIENCE
from providers.wires import SECRET


class Wire:
    """An engine, and what it says."""

    def __init__(self, engine: Engine, shell: str) -> None:
        self._engine = engine
        self.shell = shell
        """What it calls the tool that runs commands."""
        self._received: list[Json] = []

    def send(self, command: str, /, **fields: object) -> None:
        self._engine.send({"type": command, "id": command, **fields})

    def until(self, expected: str) -> Json:
        while True:
            self._received.append(frame := self._engine.frame(PATIENCE))
            if word(frame) == expected:
                return frame

    def ask(self, command: str, /, **fields: object) -> Json:
        """A command that succeeds: the data of its answer."""
        answer = self.answer(command, **fields)
        assert answer["success"], answer
        return dict(answer.get("data") or {})

    def answer(self, command: str, /, **fields: object) -> Json:
        """A command, and the whole answer. What omp 13 refuses is called `parse` there."""
        self.send(command, **fields)
        while True:
            self._received.append(frame := self._engine.frame(PATIENCE))
            if word(frame) in (f"response {command}", "response parse"):
                return frame

    def received(self) -> list[Json]:
        """All since the last time."""
        self.ask("get_state")
        received, self._received = self._received[:-1], []
        return received


def omp(package: Package, place: Place, url: str) -> Wire:
    """The real one. It repeats a failed request after 10 ms rather than 2 s."""
    (agent := place.folder / package.name).mkdir()
    cost = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0}
    about = {"reasoning": True, "input": ["text"], "cost": cost, "contextWindow": 200_000, "maxTokens": 64_000}
    mock = {
        "baseUrl": url,
        "apiKey": "none",
        "api": "anthropic-messages",
        "models": [{"id": MODEL, "name": "m", **about}],
    }
    (agent / "models.yml").write_text(json.dumps({"providers": {"mock": mock}}))
    (agent / "config.yml").write_text("retry:\n  baseDelayMs: 10\n")
    argv = [*program(package.name), "--mode", "rpc", "--model", f"mock/{MODEL}"]
    env = {"PATH": package.path, "PI_OFFLINE": "1", "PI_CODING_AGENT_DIR": str(agent)}
    return started([*argv, "--no-title"], place, env, "bash")


def polylect(place: Place, url: str) -> Wire:
    flags = ["--mode", "rpc", "--provider", "anthropic", "--model", MODEL, "--base-url", url]
    return started([*ENGINE, *flags], place, {"ANTHROPIC_API_KEY": SECRET}, "Bash")


def started(argv: list[str], place: Place, env: dict[str, str], shell: str) -> Wire:
    engine = Engine(argv, place.workspace, {**place.env, **env})
    place.keep(engine)
    wire = Wire(engine, shell)
    wire.until("ready")
    wire.received()
    return wire


# Frames.


def word(frame: Json) -> str:
    match frame["type"]:
        case "message_update":
            return str(frame["assistantMessageEvent"]["type"])
        case "message_start" | "message_end" as kind:
            return f"{kind} {frame['message']['role']}"
        case "response":
            return f"response {frame['command']}"
        case kind:
            return str(kind)


def paths(value: object, at: str = "") -> Iterator[str]:
    match value:
        case dict():
            for key, inner in value.items():
                path = f"{at}.{key}".lstrip(".")
                yield path
                if key not in ("args", "arguments", "details"):  # what a tool takes and gives is its own business
                    yield from paths(inner, path)
        case list():
            for inner in value:
                yield from paths(inner, f"{at}[]")
