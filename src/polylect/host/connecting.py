"""`connect`: makes an agent for an engine that is named, started by a command line, or in this process.

All arguments are checked here, before anything is started, so that a mistake raises at the call of `connect` and not
when the engine starts.
"""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from polylect import plug
from polylect.dialects.base import Dialect
from polylect.host import engine_registry
from polylect.host.agent import Agent
from polylect.host.asks import Policy, allow_all
from polylect.host.errors import EngineDied, InvalidType, InvalidValue, UnknownName
from polylect.host.host_hooks import Hooks
from polylect.host.host_tools import SERVER, HostTool
from polylect.host.limits import Limits, checked, warn_caller
from polylect.host.link import Channel, Link, ProcessLink, Tap
from polylect.host.process import Spawn, spawn
from polylect.host.supervision.engine_supervisor import MakeLink
from polylect.host.supervision.session_names import SessionNames
from polylect.host.supervision.start_errors import StartErrors
from polylect.system.repository import project
from polylect.system.search_paths import absolute_only, program_on
from polylect.vocab.content import Server

if TYPE_CHECKING:
    from polylect.host.client_services.services import ClientServices

Value = TypeVar("Value")
_spawn = spawn


def connect(
    engine: str | Sequence[str | os.PathLike[str]] | Callable[[], Link],
    *,
    dialect: str = "",
    version: str = "",
    cwd: str | os.PathLike[str] = ".",
    env: Mapping[str, str] | None = None,
    approve: Policy | None = None,
    tools: Sequence[HostTool | Callable[..., Any]] = (),
    hooks: Hooks | None = None,
    files: bool = False,
    terminal: bool = False,
    servers: Sequence[Server] = (),
    settings: Mapping[str, Any] | None = None,
    limits: Limits | None = Limits(),  # noqa: B008  (frozen)
    allow_unpriced: bool = False,
    ready_within: float = 30.0,
    restarts: int = 0,
    args: Sequence[str | os.PathLike[str]] = (),
    token: str = "",
    tap: Tap = lambda way, data: None,
    spawn: Spawn = spawn,
    **wishes: Any,
) -> Agent:
    """Returns an agent for an engine. `async with` starts the engine, and ends it on leaving.

    Args:
        engine: A name (`polylect`, `claude`, `omp`, `pi`, `gemini` ...; `polylect engines` lists them), a command line
            as a list of words, which needs a `dialect`, the path of a program that has such a name, the address of an
            agent of ACP that listens (`ws://...`, `wss://...`), or a function that makes a link to an engine in this
            process.
        dialect: The wire that the engine speaks: `native`, `jsonstream`, `omp`, `claude` or `acp`. An engine that is
            known by its name has one.
        version: The version of that wire; without one, the version that the engine is known for.
        cwd: The folder in which the engine works.
        env: The environment of the engine, instead of this process's own.
        approve: Answers every `Ask`: a function, async or not, that returns True, False or the reason for a no. Without
            one, whoever reads the turn answers; what nobody reads is denied. pi never asks, and omp only if `mode` is
            `default` or `auto_edit`: a `RuntimeWarning` says that it is not called then.
        tools: Functions of this program that the model may call.
        hooks: Functions of this program that the engine calls at certain moments, by moment: `{"PreToolUse": check}`.
            One that returns a text says no; `Hook` has more. For polylect and claude.
        files: Whether the SDK reads and writes text files for the engine, inside of `cwd` and `add_dir`.
        terminal: Whether the SDK runs commands for the engine, in the same folders and outside of the engine's sandbox.
        servers: MCP servers that are added as soon as the engine is ready. Nobody waits for them, and one that fails
            raises nothing: `Agent.events` has a `ServerChanged`. `Agent.add_server` waits and raises.
        settings: Changes that are sent once the engine is ready, as `Agent.configure` sends them.
        limits: Time, money and tokens for each turn, unless the turn has limits of its own. A `LimitWarning` says once
            which of them the engine's wire lets be noticed only at the end of a turn. None is no limits.
        allow_unpriced: Accept limits in dollars also where the price of the model is not known, with a `LimitWarning`.
            They do not hold then. Without it the start fails.
        ready_within: Seconds that the engine may take until it is ready. It may say nothing after a cancel for as long,
            and nothing about a prompt for four times as long; then it is ended.
        restarts: How often an engine that died is started again, in the same session.
        args: More flags for the engine, passed on unchanged.
        token: What an agent at an address wants to be shown.
        tap: Is called with "in" or "out" and the bytes, for all that goes to the engine or comes from it.
        spawn: Starts the process, `spawn(argv, cwd, env)`, for an engine in a container or on another machine.
        **wishes: What the engine is told by flags when it starts: `model`, `provider`, `mode`, `resume`, `session`,
            `system_prompt`, `max_turns`, `base_url`, `add_dir`, `script`, `config`, `deny`. A command line has its own
            flags instead; with the dialect `acp` it takes `model`, `mode`, `resume`, `add_dir` and `login`.

    Raises:
        UnknownEngine: There is no engine of this name.
        UnknownName: There is no such dialect.
        InvalidValue: The engine has no flag for a wish, the dialect has no such version, a command line comes without
            a dialect, a command line or a function comes with wishes, or a number is below zero.
        InvalidType: An argument has the wrong type.
    """
    limits = Limits() if limits is None else checked(limits)
    tools = _list("tools", tools, "a list of functions")
    servers = _list("servers", servers, "a list of Server(...)", Server)
    args = _list("args", args, "a list of words", str | os.PathLike)
    _check_environment(env)
    _check_number("ready_within", ready_within, float)
    _check_number("restarts", restarts, int)
    _check_spelling(wishes)
    about = {
        "approve": approve,
        "tools": tools,
        "hooks": hooks,
        "servers": servers,
        "settings": settings,
        "limits": limits,
    }
    how: dict[str, Any] = {
        **about,
        "ready_within": ready_within,
        "restarts": restarts,
        "allow_unpriced": allow_unpriced,
    }
    known = engine_registry.ENGINES.get(os.path.basename(engine)) if isinstance(engine, str) else None
    empty = known is not None and known.missing_as_empty
    how["services"] = _services(files, terminal, cwd, wishes, env, missing_as_empty=empty)
    if callable(engine):
        if wishes:
            raise InvalidValue(f"a function makes this engine: tell it {', '.join(wishes)} there")
        make = engine
        return Agent(lambda session, memory: make(), **how)
    if not engine or not isinstance(engine, Sequence):
        raise InvalidType(f"an engine is a name, a command line or a function that makes a link, not {engine!r}")
    around: dict[str, Any] = {"cwd": os.fspath(cwd), "tap": tap, "spawn": spawn}
    environment = os.environ if env is None else env
    flags = [os.fspath(word) for word in args]
    wishes = engine_registry.absolute_paths(wishes)
    if isinstance(engine, str) and engine.startswith(("ws://", "wss://")):
        if env is not None or flags or spawn is not _spawn:
            raise InvalidValue("the agent at an address runs already: env, args and spawn have no meaning")
        return _address(engine, token, wishes, dialect, version, around=around, how=how)
    if token:
        raise InvalidValue("token goes with an address: connect('ws://127.0.0.1:4000', token=...)")
    if not isinstance(engine, str):
        words = [os.fspath(word) for word in engine]
        return _command_line(words, flags, wishes, dialect, version, environment=environment, around=around, how=how)
    one = engine_registry.engine_spec(engine)
    _warn_if_unasked(one, approve, str(wishes.get("mode") or ""), flags)
    if wishes.get("mode") and "mode" not in (*one.flags, *one.over_wire):  # then it is told once it listens
        engine_registry.mode_of(one, mode := str(wishes.pop("mode")))
        how["settings"] = {"mode": mode, **(settings or {})}
    engine_registry.check_mode(one, str(wishes.get("mode") or ""))
    reported = engine_registry.reported_as_it_goes(dialect or one.dialect, [*one.start, *flags])
    if limits.cost and "max_cost" in one.flags:  # not every wire tells what a turn costs while it runs
        wishes.setdefault("max_cost", limits.cost)
    if limits.tokens and "max_tokens" in one.flags:
        wishes.setdefault("max_tokens", limits.tokens)
    if allow_unpriced and wishes.get("max_cost") and "allow_unpriced" in one.flags:
        wishes["allow_unpriced"] = True
    around |= _session_options(_dialect(dialect or one.dialect, version), how, environment)
    names = SessionNames(one, environment)
    wishes = names.translate(wishes)
    link = _to_known(one, wishes, flags, dialect=dialect, version=version, environment=environment, around=around)
    how |= {"resumed": bool(wishes.get("resume")), "session": _named_session(wishes), "names": names}
    enforced = {kind for kind, wish in (("cost", "max_cost"), ("tokens", "max_tokens")) if wishes.get(wish)}
    return Agent(link, **how, reported=reported, name=one.name, enforced=enforced)


def _warn_if_unasked(one: engine_registry.EngineSpec, approve: Policy | None, mode: str, flags: Sequence[str]) -> None:
    """Warns of a policy that is never called because the engine does not ask. `allow_all` loses nothing by that."""
    if approve in (None, allow_all) or one.asks_in is None or mode in one.asks_in:
        return
    if one.asks_in and (mode or "--approval-mode" in flags):
        return  # that mode is what the caller wants
    how = f"asks only if mode= is {' or '.join(one.asks_in)}" if one.asks_in else "never asks"
    warn_caller(f"{one.name} {how}, so approve= is not called and calls run unasked", RuntimeWarning)


def _command_line(
    words: Sequence[str],
    flags: Sequence[str],
    wishes: Mapping[str, Any],
    dialect: str,
    version: str,
    *,
    environment: Mapping[str, str],
    around: dict[str, Any],
    how: dict[str, Any],
) -> Agent:
    """The agent for an engine that is started by these words."""
    if not dialect:
        raise InvalidValue(f"name the wire of this command line: dialect={' or '.join(map(repr, plug.dialects()))}")
    wire = _dialect(dialect, version)
    over_wire = engine_registry.ACP_WISHES if wire.opens_sessions else {}
    if wire.opens_sessions and wishes.get("session"):
        raise InvalidValue(
            "the agent of a command line names its sessions itself: leave session= out, read agent.session, "
            "and go on with it by resume="
        )
    if unknown := [wish for wish in wishes if wish not in over_wire]:
        raise InvalidValue(f"a command line has its own flags: put {', '.join(unknown)} into it")
    around |= {"env": absolute_only(environment), **({"version": version} if version else {})}
    around |= _session_options(wire, how, environment)
    around["start_errors"] = StartErrors(engine_registry.EXIT_CODES if dialect == "native" else {})
    argv = [_program(words[0]), *words[1:], *flags]

    def link(session: str | None, memory: Mapping[str, Any]) -> Link:
        going_on = wishes if session == "" else {**wishes, "resume": session}
        return ProcessLink(argv, wire, **around, **engine_registry.wire_options(over_wire, going_on), **memory)

    return Agent(
        link,
        **how,
        resumed=bool(wishes.get("resume")),
        can_resume=wire.opens_sessions,
        reported=engine_registry.reported_as_it_goes(dialect, argv),
        name=os.path.basename(words[0]),
    )


def _address(
    url: str,
    token: str,
    wishes: Mapping[str, Any],
    dialect: str,
    version: str,
    *,
    around: dict[str, Any],
    how: dict[str, Any],
) -> Agent:
    """The agent that listens at an address. Servers are started where it runs, and folders are those of its machine."""
    wire = _dialect(dialect or "acp", version)
    if not wire.opens_sessions:
        raise InvalidValue(f"an agent at an address speaks acp, not {wire.name}")
    over_wire = engine_registry.ACP_WISHES
    if unknown := [wish for wish in wishes if wish not in over_wire]:
        raise InvalidValue(f"the agent at {url} cannot be told {', '.join(unknown)}: it takes {', '.join(over_wire)}")
    around |= {"version": version} if version else {}
    around |= _session_options(wire, how, {})

    async def open_channel() -> Channel:
        try:
            from polylect.host.supervision.websocket_channel import WebSocketChannel  # the extra `serve`
        except ModuleNotFoundError as error:
            raise EngineDied(f"{url} needs {error.name}; run: pip install 'polylect[serve]'") from None
        return await WebSocketChannel(url, token).open()

    def link(session: str | None, memory: Mapping[str, Any]) -> Link:
        going_on = wishes if session == "" else {**wishes, "resume": session}
        options = engine_registry.wire_options(over_wire, going_on)
        return ProcessLink([url], wire, **around, connect=open_channel, **options, **memory)

    resumed = bool(wishes.get("resume"))
    return Agent(link, **how, resumed=resumed, can_resume=True, reported=frozenset(), name=url)


def _session_options(wire: Dialect, how: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Options for a host side that opens the session: MCP servers and services, which cannot be added later.

    An agent may look for programs elsewhere than this process, so that those of the servers are sent by their paths.
    """
    if not wire.opens_sessions:
        return {}
    path = environment.get("PATH", os.defpath)
    servers = [
        replace(server, command=program_on(path, server.command, outside=project()) or server.command)
        if server.command and os.sep not in server.command
        else server
        for server in how.pop("servers")
    ]
    how["servers"] = []
    if how["tools"]:
        servers.append(Server(SERVER, "host"))
    services: ClientServices | None = how["services"]
    return {"servers": tuple(servers), **(services.offers() if services else {})}


def _services(
    files: object,
    terminal: object,
    cwd: str | os.PathLike[str],
    wishes: Mapping[str, Any],
    env: Mapping[str, str] | None,
    *,
    missing_as_empty: bool,
) -> "ClientServices | None":
    """What the SDK serves to the engine; None if nothing. Raises InvalidType."""
    for name, value in (("files", files), ("terminal", terminal)):
        if not isinstance(value, bool):
            raise InvalidType(f"{name} of connect is True or False, not {value!r}")
    if not (files or terminal):
        return None
    from polylect.host.client_services.services import ClientServices  # only for who wants it

    folders = engine_registry.absolute_paths(wishes).get("add_dir") or ()
    return ClientServices(
        os.path.abspath(cwd),
        [folders] if isinstance(folders, str) else folders,
        files=bool(files),
        terminal=bool(terminal),
        env=env,
        missing_as_empty=missing_as_empty,
    )


def _list(name: str, values: Iterable[Value], description: str, kind: Any = object) -> list[Value]:
    """Returns the values of an argument. Raises InvalidType if they are no list, or one is not of this kind."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidType(f"{name} is {description}, not {values!r}")
    for value in (as_list := list(values)):
        if not isinstance(value, kind):
            raise InvalidType(f"{name} is {description}; {value!r} is none")
    return as_list


def _check_environment(env: object) -> None:
    if env is None:
        return
    if not isinstance(env, Mapping):
        raise InvalidType(f"env is a dict of texts, like {{'NAME': 'value'}}, not {env!r}")
    for name, value in env.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidType(f"env is a dict of texts; {name!r}: {value!r} is none")


def _check_number(name: str, value: object, kind: type[int | float]) -> None:
    """Raises InvalidType or InvalidValue unless `value` is a number of this kind that is not below zero."""
    if isinstance(value, bool) or not isinstance(value, kind | int):
        raise InvalidType(f"{name} is a {'whole ' if kind is int else ''}number, not {value!r}")
    if not value >= 0:  # also NaN
        raise InvalidValue(f"{name} is zero or more, not {value!r}")


def _check_spelling(wishes: Collection[str]) -> None:
    """Raises InvalidValue for a wish that no engine has a flag for, if a word that there is looks like it."""
    known = {wish for each in engine_registry.ENGINES.values() for wish in (*each.flags, *each.over_wire)}
    for wish in wishes:
        if wish not in known:
            from difflib import get_close_matches  # only for mistakes: it takes some milliseconds

            if near := get_close_matches(wish, [*known, *(connect.__kwdefaults__ or ())], 2):
                raise InvalidValue(f"connect has no argument {wish!r}, did you mean {' or '.join(near)}?")


def _named_session(wishes: Mapping[str, Any]) -> str:
    """The id of the session that these wishes name; empty for a file, and for the latest, whose id is not known yet."""
    name = str(wishes.get("resume") or wishes.get("session") or "")
    return "" if name == "latest" or os.sep in name else name


def _to_known(
    one: engine_registry.EngineSpec,
    wishes: dict[str, Any],
    args: Sequence[str],
    *,
    dialect: str,
    version: str,
    environment: Mapping[str, str],
    around: dict[str, Any],
) -> MakeLink:
    """How to reach an engine we know: in the session of this name, in its first, or in a new one."""
    args = [*one.version_flags.get(version, ()), *args]
    wire = _dialect(dialect or one.dialect, version)
    options: dict[str, Any] = {**around, "name": one.name, "install": one.install, **one.options}
    if wire_version := version or one.version:
        options["version"] = wire_version
    if wire.opens_sessions:
        options["mode_ids"] = one.modes
    variables = engine_registry.variables(one, environment, str(wishes.pop("base_url", "")) if one.base_url else "")
    engine_registry.command(one, wishes, args)  # what it cannot be told is said now, not when it starts

    def link(session: str | None, memory: Mapping[str, Any]) -> Link:
        going_on = wishes if session == "" else {**wishes, "resume": session, "session": ""}
        more = {**(one.resumed if going_on.get("resume") else {}), **memory}
        more |= engine_registry.wire_options(one.over_wire, going_on)
        argv = engine_registry.command(one, going_on, args)
        errors = StartErrors(one.start_errors, engine_registry.flag_parameters(one), _values(going_on))
        return ProcessLink(argv, wire, env=variables, start_errors=errors, **options, **more)

    return link


def _values(wishes: Mapping[str, Any]) -> list[str]:
    """The texts that an engine was started with, and may repeat where it says why it does not start."""
    return [str(each) for wish in wishes.values() for each in (wish if isinstance(wish, tuple | list) else (wish,))]


def _dialect(name: str, version: str) -> Dialect:
    names = plug.dialects()
    if name not in names:
        raise UnknownName(f"there is no dialect {name!r}; there are {', '.join(names)}")
    dialect: Dialect = plug.load("dialects", name).DIALECT
    if version and version not in dialect.versions:
        raise InvalidValue(f"{name} has no version {version!r}; there are {', '.join(dialect.versions)}")
    return dialect


def _program(word: str) -> str:
    """One that is named by its path is meant from where the caller is, not from where the work is."""
    return os.path.abspath(word) if os.sep in word else word
