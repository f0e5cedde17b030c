"""Runs an engine inside another Python program, without a child process or pipes; docs/embedding.md shows how.

`open_engine` returns the `Agent` of the host SDK. `run_engine` is the same engine without the SDK: commands go in by
`engine.handle`, events come out by a function of the caller's; `Wire` adds a codec, for a host that speaks a dialect.
The engine is checked and put together as an engine process is (`serving/own_engine.py`), but no settings file and no
credential of the environment is read unless the caller says so. Programs import these names from `polylect.embed`.
"""

import asyncio
import logging
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

from polylect.app.serving.in_process import EventSink, InProcessLink, always_writable
from polylect.app.serving.own_engine import cannot_start, open_resolved, resolve
from polylect.app.startup import config as settings_files
from polylect.app.startup.config import ConfigError, Values
from polylect.dialects.base import EngineSide, Env
from polylect.engine.engine import Engine
from polylect.host.agent import Agent
from polylect.host.asks import Policy
from polylect.host.connecting import connect
from polylect.host.errors import EngineDied, InvalidType
from polylect.host.host_tools import HostTool
from polylect.host.limits import Limits, checked
from polylect.sessions.folder import sessions_root
from polylect.system.child_environment import command_environment
from polylect.system.clock_and_ids import new_id, now_ms
from polylect.vocab.commands import Command
from polylect.vocab.content import Mode, Server
from polylect.vocab.events import Event
from polylect.vocab.ports import Provider

ENV = Env(now=now_ms, new_id=new_id)
"""The clock and the ids for a codec, which does no I/O."""
Path = str | os.PathLike[str]
Paths = Path | Sequence[Path]
_KINDS: dict[str, Any] = {
    **dict.fromkeys(("mode", "system_prompt", "session", "resume"), str),
    "max_turns": int,
    **settings_files.PROVIDER_SETTINGS,
}
"""Parameters that are settings of one text, number or switch, and their types."""
_LISTS = ("allow", "deny")
_PATHS = ("add_dir", "extensions")
_OTHERS = ("workspace", "sessions", "budget", "settings", "config", "env")
_VALUE_NAMES = {"mode": "approval_mode", "session": "session_id", "add_dir": "folders"}
"""What a parameter is called among the values of a start, where that is not its own name."""
_PARAMETERS = {"session-id": "session", "extension": "extensions", "approval-mode": "mode", "max-budget-usd": "budget"}
"""What a flag that an error names is called here, where that is not its own name."""
_NO_KEY = (
    r"(\w+) is not set: set it, run polylect login, or give --api-key",
    r"no key: give api_key, or settings=True for \1",
)
_REWORDED = (
    ("set VERTEX_PROJECT_ID", "give project"),
    ("Set POLYLECT_HOME to a folder you can write", "Name a folder you can write in sessions"),
    ("--max-budget-usd, --budget of run", "limits"),
    (r"--provider (\w+)", r'provider="\1"'),
)
_VARIABLE = re.compile(r"\b[A-Z]+_[A-Z_]+ is not set|set [A-Z]+_[A-Z_]+|the environment has no")
_log = logging.getLogger(__name__)


def open_engine(
    provider: str | Provider = "",
    *,
    model: str = "",
    api_key: str = "",
    base_url: str = "",
    workspace: Path = ".",
    mode: Mode | None = None,
    system_prompt: str = "",
    max_turns: int = 0,
    add_dir: Paths = (),
    allow: str | Sequence[str] = (),
    deny: str | Sequence[str] = (),
    sessions: Path | bool | None = None,
    session: str = "",
    resume: str = "",
    budget: float | Mapping[str, Any] | None = None,
    extensions: Paths = (),
    settings: bool = False,
    config: Path | Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    approve: Policy | None = None,
    tools: Sequence[HostTool | Callable[..., Any]] = (),
    servers: Sequence[Server] = (),
    limits: Limits | None = Limits(),  # noqa: B008  (frozen)
    allow_unpriced: bool = False,
    **provider_settings: Any,
) -> Agent:
    """Returns an agent whose engine runs in this process. `async with` opens the engine, and ends it on leaving.

    Args:
        provider: The name of a model service (`anthropic`, `openai`, `bedrock`, `vertex`, `local`, `scripted`), or an
            object that is one (`polylect.vocab.ports.Provider`).
        model: The model; without one, the default of the provider.
        api_key: The key of the service.
        base_url: The address of another server that speaks the same API.
        workspace: The folder in which the engine works.
        mode: How much may run without a question: `default`, `auto_edit`, `force`, `plan` or `dont_ask`.
        system_prompt: What the model is told beside the engine's own prompt.
        max_turns: Requests to the model in one turn; 0 for the usual number.
        add_dir: Folders beside the workspace that tools may use without a question.
        allow: Rules of calls that need no question, such as `Bash(git log:*)`.
        deny: Rules of calls that never run.
        sessions: The folder in which sessions are kept; True for the usual one, which `polylect sessions` lists; False
            to keep none. Without it none is kept, or with `settings` what those say.
        session: The id of a new session.
        resume: The id of a session to go on with, or `latest`.
        budget: Dollars for the session, or caps by name as the settings have them in `[budget]`.
        extensions: Python files that extend the engine. Each has to load.
        settings: Whether the settings files of the user and the project, and this process's environment, are read.
        config: The path of one more settings file, or a table as such a file holds it: `{"sandbox": {"mode": "off"}}`.
        env: The variables that the engine may use and commands may inherit, instead of this process's own.
        approve: Answers every `Ask`, as in `connect`.
        tools: Functions of this program that the model may call.
        servers: MCP servers that are added as soon as the engine is open, as in `connect`.
        limits: Time, money and tokens for each turn, unless the turn has limits of its own. None is no limits.
        allow_unpriced: Accept limits and a budget in dollars also where the price of the model is not known, with a
            warning. They do not hold then.
        **provider_settings: More settings of the provider, as `[providers.NAME]` has them: `region`, `project`,
            `profile`, `api`, `ca_file`, `max_retries`, `script` ...

    Raises:
        EngineDied: The engine cannot start; the text says what to change: there is no such provider, its key is
            missing, the workspace is not there ... What concerns the session is raised on entering.
        InvalidType: There is no such parameter, or an argument has the wrong type.
    """
    options = locals()
    host = {name: options.pop(name) for name in ("approve", "tools", "servers", "limits", "allow_unpriced")}
    options |= options.pop("provider_settings")
    caps: Values = {"turn_budget:max_cost_usd": limits.cost} if limits and checked(limits).cost else {}
    if allow_unpriced:
        caps["budget:allow_unpriced"] = True
    open_checked = _check(options.pop("provider"), options, cost_updates="step", **caps)
    return connect(lambda: InProcessLink(open_checked), **host)


@asynccontextmanager
async def run_engine(
    on_event: EventSink,
    provider: str | Provider = "",
    *,
    wait_writable: Callable[[], Awaitable[None]] = always_writable,
    **options: Any,
) -> AsyncIterator[Engine]:
    """Opens an engine without the host SDK. On leaving, what runs is stopped and every process is gone.

    Commands go in by `engine.handle`, which never waits; `await engine.settled()` returns when nothing runs or waits.

    Args:
        on_event: Is called with every event, at once and in order. It must not wait, raise, or call `engine.handle`.
        provider: As in `open_engine`.
        wait_writable: Is awaited between batches of the model's words: a receiver that is full makes the model wait.
        **options: As in `open_engine`, from `model` to `env`, and the settings of the provider.

    Raises:
        EngineDied: The engine cannot start; the text says what to change.
        InvalidType: There is no such option.
    """
    async with _check(provider, options)(on_event, wait_writable) as engine:
        await asyncio.sleep(0)  # what the settings say about the conversation is applied
        yield engine


def _check(
    provider: str | Provider, options: Mapping[str, Any], **flags: object
) -> Callable[..., AbstractAsyncContextManager[Engine]]:
    """Checks all that can be checked now; returns the function that opens the engine. Raises EngineDied or InvalidType.

    `flags` are settings that have no parameter, by their names among the values of a start.
    """
    options = {name: value for name, value in options.items() if value not in (None, "", (), 0) or value is False}
    _check_options(options)
    from_files = bool(options.get("settings"))
    env = _environment(options.get("env"), from_files=from_files)
    try:
        flags |= {**_flags(options), "isolated": not from_files}
        if provider:  # an object has its key and its model already: the checks of the scripted one ask for neither
            flags["provider"] = provider if isinstance(provider, str) else "scripted"
        values, notes = resolve(flags, env)
    except EngineDied as error:
        raise _in_python_words(error, from_files=from_files) from None
    for note in notes:
        _log.warning("%s", note)
    return partial(_open, values, env, None if isinstance(provider, str) else provider)


@asynccontextmanager
async def _open(
    values: Values,
    env: dict[str, str],
    provider: Provider | None,
    on_event: EventSink,
    wait_writable: Callable[[], Awaitable[None]] = always_writable,
) -> AsyncIterator[Engine]:
    context = open_resolved(
        dict(values), env, on_event, wait_writable=wait_writable, provider=provider, share_servers=True
    )
    try:
        engine = await context.__aenter__()
    except EngineDied as error:
        raise _in_python_words(error) from None
    try:
        yield engine
    finally:
        await context.__aexit__(None, None, None)


def _check_options(options: Mapping[str, Any]) -> None:
    """Raises InvalidType for a name that is no parameter, and for a setting of the wrong type."""
    known = (*_KINDS, *_LISTS, *_PATHS, *_OTHERS)
    for name, value in options.items():
        if name in _KINDS and not isinstance(value, _KINDS[name]):
            raise InvalidType(f"{name} takes {settings_files.KIND_NAMES[_KINDS[name]]}, not {value!r}")
        if name not in known:
            from polylect.app.startup.nearest_word import hint  # only for an error

            raise InvalidType(f"open_engine has no parameter {name!r}; {hint(name, known, 'see docs/embedding.md')}")


def _environment(env: Mapping[str, str] | None, *, from_files: bool) -> dict[str, str]:
    """The variables that the engine uses: those of the caller, all of ours, or those of ours that hold no secret."""
    if env is not None:
        return dict(env)
    return dict(os.environ) if from_files else command_environment(os.environ)


def _flags(options: Mapping[str, Any]) -> Values:
    """The parameters of `open_engine` as the flags of an engine process. Raises EngineDied."""
    flags: Values = {"workspace": os.fspath(options.get("workspace", "."))}
    for name, value in options.items():
        if name in _KINDS:
            flags[_VALUE_NAMES.get(name, name)] = value
        elif name in _LISTS:
            flags[name] = _each(value)
        elif name in _PATHS:
            flags[_VALUE_NAMES.get(name, name)] = [os.path.abspath(path) for path in _each(value)]
    match options.get("config"):
        case None:
            pass
        case Mapping() as table:
            flags["config"] = dict(table)
        case path:
            flags["config"] = os.path.abspath(path)
    return flags | _session_flags(options) | _budget_flags(options.get("budget"))


def _each(value: Any) -> list[Any]:
    return [value] if isinstance(value, str | os.PathLike) else list(value)


def _session_flags(options: Mapping[str, Any]) -> Values:
    sessions = options.get("sessions", bool(options.get("settings")))
    if not isinstance(sessions, bool):
        return {"sessions_root": os.path.abspath(sessions), "sessions": True}
    if not sessions and (name := next((name for name in ("resume", "session") if options.get(name)), "")):
        raise cannot_start(f"{name} needs sessions, and none are kept: name their folder with sessions")
    if not sessions:
        return {"no_session": True}
    usual = {} if options.get("settings") else {"sessions_root": sessions_root(dict(options.get("env", os.environ)))}
    return usual | ({"sessions": True} if "sessions" in options else {})


def _budget_flags(budget: float | Mapping[str, Any] | None) -> Values:
    """Caps of the session, and of each turn in a table `turn`, by their names among the values of a start."""
    if budget is None:
        return {}
    caps = dict(budget) if isinstance(budget, Mapping) else {"max_cost_usd": budget}
    try:
        rows = settings_files.flatten("open_engine", {"budget": caps})
        return {settings_files.check_value("open_engine", key, value): value for key, value in rows}
    except ConfigError as error:
        raise cannot_start(error) from None


def _in_python_words(error: EngineDied, *, from_files: bool = True) -> EngineDied:
    """The same error in the words of the parameters, and not of flags and variables that are not read."""
    text = str(error)
    for pattern, words in _REWORDED if from_files else (_NO_KEY, *_REWORDED):
        text = re.sub(pattern, words, text)
    text = re.sub(r"--([a-z][a-z-]+)", lambda flag: _PARAMETERS.get(flag[1], flag[1].replace("-", "_")), text)
    if not from_files and _VARIABLE.search(text):
        text += " (the environment counts only with settings=True, or as env)"
    return type(error)(text, error.code)


class Wire:
    """Connects an engine to bytes in a dialect.

    Args:
        codec: The engine side of the dialect.
        write: Is called with bytes for the host. It must not wait.
    """

    def __init__(self, codec: EngineSide, write: Callable[[bytes], None]) -> None:
        self._codec = codec
        self._write = write
        self._engine: Engine | None = None

    def connect(self, engine: Engine) -> None:
        """Passes the commands of the host to this `engine` from now on."""
        self._engine = engine
        self._handle(self._codec.start())

    def emit(self, event: Event) -> None:
        """Writes an `event` of the engine: the `on_event` of `run_engine`."""
        if follows := self._codec.send(event):
            asyncio.get_running_loop().call_soon(self._handle, follows)  # never while an event is being handled
        self._flush()

    def receive(self, data: bytes) -> None:
        """Handles `data` from the host, in pieces of any size."""
        self._handle(self._codec.receive(data))

    def receive_eof(self) -> None:
        """The host will send no more: what it has sent is finished, and what would have to be asked is denied."""
        self._handle(self._codec.receive_eof())
        if self._engine:
            self._engine.input_closed(stop=False)

    def _handle(self, commands: list[Command]) -> None:
        assert self._engine, "connect it to its engine first"
        for command in commands:
            self._engine.handle(command)
        self._flush()

    def _flush(self) -> None:
        if data := self._codec.data_to_send():
            self._write(data)
