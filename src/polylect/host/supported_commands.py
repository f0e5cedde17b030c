"""Finds out which commands a wire can express, by trying each of them on a fresh codec.

A table of what each wire supports would have to be kept true by hand; the codec knows it already. `Agent.can` asks here
before anything is sent, and `check` rejects a command whose fields have wrong types.
"""

from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from polylect.dialects.base import HostSide
from polylect.host.errors import InvalidType, UnknownName
from polylect.vocab import commands
from polylect.vocab.commands import Command
from polylect.vocab.content import File, Image, Rule, Server
from polylect.vocab.events import Reply

AnyCommand = TypeVar("AnyCommand", bound=Command)

_SAMPLES: dict[str, Command] = {
    "prompt": commands.Prompt("probe", "x"),
    "files": commands.Prompt("probe", "x", (File("x"),)),
    "images": commands.Prompt("probe", "x", (Image("image/png", "eA=="),)),
    "caps": commands.Prompt("probe", "x", max_tokens=1),
    "schema": commands.Prompt("probe", "x", schema={"type": "object"}),
    "cancel": commands.Cancel(),
    "answer": commands.Answer("probe", "allow"),
    "steer": commands.Steer("x"),
    "follow_up": commands.Steer("x", when="last"),
    "configure": commands.Configure({"model": "x"}),
    "mode": commands.Configure({"mode": "default"}),
    "model": commands.Configure({"model": "x"}),
    "thinking": commands.Configure({"thinking": "high"}),
    "name": commands.Configure({"name": "x"}),
    "add_context": commands.AddContext("x"),
    "add_server": commands.AddServer(Server("x", command="x")),
    "remove_server": commands.ChangeServer("x", "remove"),
    "grant": commands.Grant(Rule("category", "edit")),
    "compact": commands.Compact(),
    "run_shell": commands.RunShell("x"),
    "rewind": commands.Rewind("x"),
    "new_session": commands.OpenSession("new"),
    "resume": commands.OpenSession("resume", "x"),
    "fork": commands.OpenSession("fork"),
    "authenticate": commands.Authenticate("x"),
    "close_session": commands.CloseSession(),
    "host_tools": commands.Hello("x", offers={"tools": [{"name": "x", "description": "x", "parameters": {}}]}),
    "hooks": commands.Hello("x", offers={"hooks": {"PreToolUse": [{"matcher": None, "ids": ["x"]}]}}),
    "client_services": commands.Hello("x", offers={"files": {"read": True, "write": True}, "terminal": True}),
    "tools": commands.Hello(
        "x", offers={"tools": [{"name": "x", "description": "x", "parameters": {}}], "servers": ["x"]}
    ),
}
_MAKE: dict[str, Callable[[str], Command]] = {
    "query": commands.Query,
    "mode": lambda mode: commands.Configure({"mode": mode}),
}
_ALSO = {"shell": "run_shell", "state": "query:state", "ask": "prompt", "send": "prompt"}
"""Names of methods of an agent, and the word that each stands for."""
UNSUPPORTED = ("unsupported", "unsaid")
"""The codes with which a codec refuses a command that its wire cannot express."""


def supports(make: Callable[[], HostSide], word: str) -> bool:
    """Returns whether a wire can express a command.

    Args:
        make: Makes a fresh codec of the wire.
        word: A key of `_SAMPLES`, `query:` and a question (`query:state`), or `mode:` and a mode (`mode:plan`).

    Raises:
        UnknownName: There is no such word.
    """
    sample = sample_of(word)
    codec = make()
    if word == "client_services" and not codec.carries_client_services:
        return False
    codec.start()
    codec.data_to_send()
    failures = [event.failure for event in codec.send(replace(sample, ref="probe")) if isinstance(event, Reply)]
    # Other failures only say that it is not the time for this command.
    unsupported = any(failure and failure.code in UNSUPPORTED for failure in failures)
    said = bool(codec.data_to_send()) or (word == "tools" and codec.reaches_host_servers)
    return not unsupported and (word not in ("tools", "hooks") or said)


def sample_of(word: str) -> Command:
    """Returns a command that stands for `word`. Raises UnknownName if there is no such word."""
    word = _ALSO.get(word, word)
    kind, _, rest = word.partition(":")
    sample = _MAKE[kind](rest) if rest and kind in _MAKE else _SAMPLES.get(word)
    if sample is None:
        raise UnknownName(f"there is no word {word!r}; ask for {', '.join(_SAMPLES)}, query:state or mode:plan")
    return sample


def check(command: AnyCommand) -> AnyCommand:
    """Returns `command`. Raises InvalidType if it is none, or has fields of the wrong type."""
    if not isinstance(command, Command):
        raise InvalidType(f"a command is one of polylect.vocab.commands, not {command!r}")
    try:
        msgspec.convert(msgspec.to_builtins(command), type(command))
    except (msgspec.ValidationError, TypeError) as error:
        raise InvalidType(f"{type(command).__name__}: {error}") from None
    return command
