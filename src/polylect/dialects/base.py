"""The interface that every dialect implements: two codecs, one for each end of a connection, and a description of it.

A codec is one end of one connection. The caller reads bytes from the peer and passes them to `receive`, passes what
this end has to say to `send`, and after every call writes what `data_to_send` returns:

    for command in codec.receive(data): ...    # engine side: bytes in, commands out
    codec.send(event)                          # engine side: events in ...
    transport.write(codec.data_to_send())      # ... bytes out

Codecs are pure: the same calls with the same `Env` give the same results. They never raise for what the peer sent.
What `send` returns follows on our own side from the item; the caller queues it and never handles it in place.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, TypeVar

from msgspec import Struct

from polylect import plug
from polylect.vocab.commands import Command
from polylect.vocab.content import Failure
from polylect.vocab.events import Event

In = TypeVar("In")
Out_contra = TypeVar("Out_contra", contravariant=True)


class Env(Struct, frozen=True):
    """What a codec needs from outside: `now` gives milliseconds since 1970, `new_id` an id that was never used."""

    now: Callable[[], int]
    new_id: Callable[[], str]


class Codec(Protocol[In, Out_contra]):
    """One end of one connection. `In` is what the peer sends (commands or events), `Out_contra` what this end sends."""

    def start(self) -> list[In]:
        """Begin the connection, before any bytes. Returns what the peer has said merely by connecting."""

    def receive(self, data: bytes) -> list[In]:
        """Take bytes from the peer, cut anywhere. Returns what the lines that are complete now mean."""

    def receive_eof(self) -> list[In]:
        """The peer has closed its end. Returns the last items, and the ends of all turns that cannot end any more."""

    def send(self, item: Out_contra) -> list[In]:
        """Encode one item. Returns what follows from it on our own side, for example the refusal of a command."""

    def data_to_send(self) -> bytes:
        """The bytes that have to go to the peer now, each only once. To be called after every call above."""

    def note_sent(self, data: bytes) -> list[In]:
        """Note whole lines that our own end has sent by other means: a `ready` before the codec existed, a tape."""


class EngineSide(Codec[Command, Event], Protocol):
    """The engine's end: receives commands, sends events."""

    @property
    def exit_code(self) -> int:
        """The exit code of an engine whose host has closed its end; some wires tell by it how the last turn ended."""

    def due(self) -> int | None:
        """Milliseconds until `data_to_send` has to be called again; None if nothing is held back."""


Successor = Literal["", "resume", "new"]
"""How the conversation goes on in another engine: resumed there, or told to a new session. Empty: it does not."""


class HostSide(Codec[Event, Command], Protocol):
    """The host's end: receives events, sends commands."""

    @property
    def reaches_host_servers(self) -> bool:
        """Whether the engine asks MCP servers inside of the host, which it is told of when its session is opened."""

    @property
    def carries_client_services(self) -> bool:
        """Whether the engine can ask for files and terminals of the host."""

    @property
    def successor(self) -> Successor:
        """Not empty once this engine is of no more use, because it ends by a `stop` or has given its session up. The
        caller then ends it and goes on in another one; prompts that were not answered go there."""

    def memory(self, *, new_session: bool) -> Mapping[str, Any]:
        """Options for the host side that speaks with the next engine of the same conversation."""

    def to_log(self) -> list[str]:
        """Lines for a log since the last call, for example about malformed events."""

    @property
    def start_failure(self) -> Failure | None:
        """Why the engine cannot be used, on wires that say so before it is ready. The caller then ends it."""

    @property
    def known(self) -> Mapping[str, Any]:
        """Options for a codec that is asked what this engine can do; only on wires whose engines tell that."""

    def due(self) -> int | None:
        """Milliseconds until `wake` has to be called; None if nothing waits for time to pass."""

    def wake(self) -> list[Event]:
        """Time has passed. Returns what follows from that."""


class DialectPackage(Protocol):
    """What `dialects/<name>/__init__.py` has. It is read before `ready`, so it imports things only for DIALECT."""

    PROGRAMS: tuple[str, ...]
    """Names of programs that speak this wire: polylect does when it is started under one of them."""
    SWITCHES: tuple[str, ...]
    """Flags that only this wire has: polylect speaks it when it is given one of them."""
    DIALECT: "Dialect"


class DialectStart(Protocol):
    """What `dialects/<name>/start.py` has: how polylect starts as an engine of this wire.

    It turns a command line into the settings of the engine and says what the host hears first. It does I/O, so it
    belongs to the row of `app`; nothing else in the dialect imports it. `options` are settings by name, as the flags in
    `app/startup/args.py` have them.
    """

    EXIT_CODES: tuple[int, ...]
    """The exit codes of a failed start that hosts of this wire know; any other becomes 1."""
    SEVERAL_SESSIONS: bool
    """Whether the wire carries several sessions at once: then each command and event may name its `session`."""
    FIRST_SESSION: bool
    """Whether a connection begins with a conversation. If not, the host opens each one by a command."""

    def options(self, words: list[str], program: str, env: dict[str, str]) -> dict[str, object]:
        """The settings that the words of the command line ask for. Raises UsageError."""

    def version(self, program: str) -> str:
        """The answer to `--version`, for a program that was started under this name."""

    def prepare(self, options: dict[str, object]) -> None:
        """Called before the start, when neither help nor version was asked for. Raises UsageError."""

    def ready(self, values: dict[str, object], session: str) -> bytes:
        """What the host hears merely for having started us, before anything is imported."""
        ...

    def codec_options(self, values: dict[str, object], env: dict[str, str], session: str) -> dict[str, object]:
        """The options for `Dialect.engine_side`, beside `max_line`."""

    def new_id(self) -> str:
        """An id that was never used, for `Env.new_id`."""

    def new_session_id(self) -> str:
        """The id of a new session, as this wire has them."""

    def refusal(self, message: str, options: dict[str, object], session: str, *, ready: bool) -> bytes:
        """What the host is told where an engine cannot start, or, if it was `ready`, where it breaks down."""


def load_later(dialect: str, end: Literal["engine", "host"]) -> Callable[..., Any]:
    """Makes one end of a dialect, `(env, **options)`; its module `codec` is imported by the first call."""

    def make(env: Env, **options: Any) -> Any:
        codec = plug.load(f"dialects.{dialect}.{end}", "codec")
        return (codec.EngineSide if end == "engine" else codec.HostSide)(env, **options)

    return make


class Dialect(Struct, frozen=True):
    """A host wire: its name, its versions (the default first) and how to make either end of it.

    `engine_side` and `host_side` are called with `(env, **options)`. Every dialect has the options `version` and
    `max_line`, the longest line in bytes that is read.
    """

    name: str
    versions: tuple[str, ...]
    engine_side: Callable[..., EngineSide]
    host_side: Callable[..., HostSide]
    max_frame: int
    """The longest line in bytes that either end writes."""
    shapes: Mapping[str, dict[str, Any]]
    """For each version, its frames by direction and name. `schemas/` is generated from these."""
    opens_sessions: bool = False
    """Whether the host side opens the session, and has the options `cwd`, `folders`, `how`, `session`, `servers`,
    `mode`, `model` and `mode_ids` for that. Elsewhere the engine is told by flags, and by commands."""
    weak: tuple[str, ...] = ()
    """Commands that the wire carries in a weaker form, for example a steer that becomes a turn of its own."""
