"""What the engine is handed: a model, tools, a store. The program puts them together."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from polylect.vocab.answers import CommandCard, ModelCard, SessionCard
from polylect.vocab.commands import Answer
from polylect.vocab.content import Block, Category, Form, Image, Message, Origin, PlanItem, Server, Stop, Usage
from polylect.vocab.entries import Body, Entry
from polylect.vocab.events import Ask

# Models.

ProviderFault = Literal[
    "auth", "rate_limit", "overloaded", "server", "network", "timeout", "overflow", "bad_request", "refused", "protocol"
]
"""What kind of fault a `ProviderError` reports."""


class ToolSpec(Struct, frozen=True):
    """A tool as the model is told of it. `schema` is the JSON Schema of its arguments."""

    name: str
    description: str
    schema: dict[str, Any]


class ModelInfo(Struct, frozen=True, omit_defaults=True):
    """What is known of a model. Zero or None means: not known."""

    name: str
    window: int = 0
    max_output: int = 0
    thinking: bool = False
    effort_levels: tuple[str, ...] = ()
    images: bool | None = None
    priced: bool = False
    """Whether what it costs is known."""
    prices: tuple[float, float] = (0.0, 0.0)
    """If `priced`: dollars for a million tokens read, and for a million written."""


class ModelRequest(Struct, frozen=True):
    """Everything a reply depends on. `thinking` is a budget in tokens, 0 for off. `retries` allows further attempts."""

    model: str
    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    max_tokens: int = 0
    thinking: int = 0
    effort: str = ""
    session: str = ""
    retries: bool = True


class TextChunk(Struct, frozen=True, gc=False):
    text: str


class ThinkingChunk(Struct, frozen=True, gc=False):
    text: str


class ArgsChunk(Struct, frozen=True, gc=False):
    call: str
    name: str
    text: str


class BlockDone(Struct, frozen=True):
    """A whole Text, Thinking or ToolCall. Its chunks, if there were any, came before it and add up to it."""

    block: Block


class ReplyBegun(Struct, frozen=True):
    """What the service has counted before its first word, where it tells: all that is known if the reply breaks off."""

    usage: Usage = Usage()
    request: str = ""
    model: str = ""


class ReplyDone(Struct, frozen=True):
    """The last event of every complete reply."""

    stop: Stop
    usage: Usage = Usage()
    request: str = ""
    model: str = ""


class Retrying(Struct, frozen=True):
    """The request failed and is made again after a pause. Only before the first chunk."""

    attempt: int
    most: int
    delay_ms: int
    error: str


class Circuit(Struct, frozen=True):
    """A service that keeps failing is no longer asked (`open`), tried again (`half_open`) or well again (`closed`)."""

    primary: str
    state: Literal["closed", "open", "half_open"]
    fallback: str = ""
    error: str = ""


ModelEvent = ReplyBegun | TextChunk | ThinkingChunk | ArgsChunk | BlockDone | ReplyDone | Retrying | Circuit


class Provider(Protocol):
    """A model service."""

    name: str

    def info(self, model: str) -> ModelInfo: ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        """Ask for a reply. Each batch is what arrived together, so that a fast stream costs little.

        Ends with a ReplyDone, or raises ProviderError. Closing it early, or cancelling, drops the connection.
        """
        ...

    async def close(self) -> None: ...


class Models(Protocol):
    """Every model that can be used now, whoever serves it."""

    def cards(self) -> Sequence[ModelCard]: ...

    def open(self, provider: str) -> Provider:
        """Raises LookupError with what is missing if this one cannot be used."""
        ...


# Tools.


class ToolReturn(Struct, frozen=True):
    """What a tool gives back. Faults that the model can act on are `ok=False`, not exceptions."""

    output: str
    ok: bool = True
    form: Form = "text"
    metadata: dict[str, Any] | None = None
    images: tuple[Image, ...] = ()


class Exit(Struct, frozen=True):
    """How a process ended."""

    code: int
    """The exit status; minus the signal's number if a signal ended it."""
    timed_out: bool = False


class Processes(Protocol):
    """Starts processes and answers for their ends: whatever they start dies with the call, the engine or its crash."""

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        timeout: float,
        on_output: Callable[[Literal["out", "err"], bytes], None],
        on_start: Callable[[int], None] = ...,
        stdin: bytes = b"",
    ) -> Exit:
        """Run to the end, with `stdin` on standard input, which nobody else can change. Cancelling it ends the whole
        tree: INT, TERM, KILL."""
        ...

    async def close(self) -> None: ...


class Child(Protocol):
    """A process that is talked to over its standard streams."""

    pid: int

    async def read(self) -> bytes:
        """What it has written; empty once it will write no more."""
        ...

    async def write(self, data: bytes) -> None: ...

    async def close(self) -> None:
        """End it and whatever it started."""
        ...


class Children(Protocol):
    """Keeps processes that stay: servers of other protocols. They are in the same custody as those that run and end."""

    async def open(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        on_error_output: Callable[[bytes], None],
    ) -> Child: ...


class FileState(Struct, frozen=True):
    """A file as it was at some time."""

    data: bytes
    mode: int


class Worker(Protocol):
    """Does the work of file, search and page tools in a process that is confined as commands are, and can be killed."""

    def hides(self, path: str, roots: Sequence[str]) -> bool:
        """Whether commands cannot read this real path, and none of these folders and files opens it."""
        ...

    def lets_change(self, path: str, roots: Sequence[str]) -> bool:
        """Whether commands that may write in these folders and files can change this real path."""
        ...

    async def settle(self) -> None:
        """Find out how commands are confined, if that is not known yet. `hides` and `lets_change` depend on it."""
        ...

    def reaches(self, path: str) -> bool:
        """Whether it can open and change this real path itself. Else it needs a descriptor, and hands content back."""
        ...

    async def request(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        *,
        data: bytes = b"",
        file: int = -1,
        timeout: float = ...,
        roots: Sequence[str] = (),
    ) -> tuple[dict[str, Any], bytes]:
        """Have one of its operations done, with these bytes and this descriptor; `roots` are what a search is about.

        Raises ToolError, or the OSError that it met. Cancelling kills what does it.
        """
        ...

    async def file_state(self, path: str) -> FileState | None:
        """The regular file at a real path, no link followed; None if there is none. Raises ToolError or OSError."""
        ...

    async def restore(self, path: str, state: FileState | None) -> None:
        """Put it back to this state, or delete it, no link followed. Raises ToolError or OSError."""
        ...

    async def count_changes(self, old: bytes, new: bytes) -> tuple[int, int]:
        """Lines that come, and lines that go."""
        ...

    async def close(self) -> None: ...


class ToolContext(Protocol):
    """What a call may use."""

    call: str
    turn: str
    workspace: str
    """The folder the work is about: absolute, symlinks resolved."""
    roots: Sequence[str]
    """Folders and files this call may touch: the workspace, what was granted, what was approved for this call."""
    touched: Sequence[str]
    """The real paths that were judged, as the tool's `touches` named them. A tool opens these and resolves no more."""
    seen: dict[str, tuple[int, int]]
    """Files this conversation has read or written: real path to (mtime_ns, size) at that time."""
    env: Mapping[str, str]
    """The environment for children, without secrets."""
    processes: Processes
    worker: Worker

    def progress(self, text: str) -> None:
        """Show output as it comes. The return value still holds everything."""
        ...

    async def ask(self, question: Ask) -> Answer:
        """Put a question to the person, on behalf of this call. With nobody there, the answer is no."""
        ...

    def reading_fault(self, path: str) -> str:
        """Why rules keep the file at this path, absolute and without links, from the model; empty if none does."""
        ...

    def plan(self, items: Sequence[PlanItem]) -> None:
        """Show what is to be done and how far it has come, in the place of what was shown before."""
        ...

    def spill(self, text: str) -> str:
        """Keep output that is too long for the model in a file that it may read, and say where. More can be added."""
        ...


class Tool(Protocol):
    """Something the model can do."""

    name: str
    category: Category
    origin: Origin
    """Where it comes from. What it may do without asking follows from this, never from its name."""

    @property
    def spec(self) -> ToolSpec: ...

    def describe(self, args: dict[str, Any]) -> str:
        """One line for a person: what this call would do."""
        ...

    def touches(self, args: dict[str, Any], workspace: str) -> tuple[str, ...]:
        """The real paths this call would read or write, symlinks resolved. Empty where that cannot be known."""
        ...

    async def run(self, args: dict[str, Any], context: ToolContext) -> ToolReturn: ...


# Sessions.


class Store(Protocol):
    """One session's log, held by one process."""

    session: str

    @property
    def entries(self) -> Sequence[Entry]:
        """What is in the log."""
        ...

    def append(self, *bodies: Body) -> None:
        """Hand them to the operating system before returning: they outlive a crash of this process."""
        ...

    def sync(self) -> None:
        """Make everything appended so far outlive a power cut."""
        ...

    def spill(self, text: str) -> str:
        """Keep a long text beside the log, and say where."""
        ...

    def fill(self, message: Message) -> Message:
        """The message with its pictures in it."""
        ...

    @property
    def file(self) -> str:
        """Where the log is, if it is kept."""
        ...

    def close(self) -> None: ...


class Library(Protocol):
    """Where sessions are kept. Each method raises SessionError with the reason, and then nothing has changed."""

    def create(self, parent: str = "") -> Store: ...

    def resume(self, target: str) -> Store:
        """By id, or by the path of a session file: ours, or another engine's, which becomes a session of ours."""
        ...

    def fork(self, store: Store, at: str = "") -> Store:
        """A session that goes its own way before the message `at`; without one, after the last."""
        ...

    def sessions(self, cwd: str = "") -> Sequence[SessionCard]: ...

    def export(self, store: Store, path: str) -> str:
        """As a page to read, or as another engine's file, by the ending of the path; where it was written."""
        ...


# Servers.


class Servers(Protocol):
    """MCP servers, whose tools come and go among the engine's. Each is reported when it is up or has failed."""

    def add(self, server: Server) -> None:
        """Returns at once; connecting takes as long as it takes."""
        ...

    def change(self, name: str, action: Literal["remove", "reconnect", "enable", "disable"]) -> None:
        """Raises LookupError if there is no such server."""
        ...

    def status(self) -> Sequence[Any]: ...

    def starting(self) -> Mapping[str, float]:
        """Servers that have neither come up nor failed since they were added, and for how many seconds."""
        ...

    async def wait_for_change(self, timeout: float) -> None:
        """Returns when a server has come up, failed or gone, at the latest after `timeout` seconds."""
        ...

    def commands(self) -> Sequence[CommandCard]:
        """What servers offer as prompts, by the name to call them."""
        ...

    async def expand(self, command: str, words: Sequence[str]) -> Sequence[Block]:
        """What such a command stands for. Raises LookupError or PolylectError with the reason."""
        ...

    def receive(self, name: str, message: Any) -> bool:
        """Pass on a message that a server inside the host sent unasked. False if that server is not connected."""
        ...

    async def close(self) -> None: ...
