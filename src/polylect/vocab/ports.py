"""The protocols that the engine uses: model services, tools, processes, sessions, MCP servers.

The engine (`engine/`) depends on these protocols only. `providers/`, `tools/`, `sessions/` and `mcp/` fulfil them, and
`app/serving/assembly.py` puts them together. Tests use doubles of the same shape. Nothing here does
anything; what a method may raise is part of its contract.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct

from polylect.vocab.answers import CommandCard, ModelCard, SessionCard
from polylect.vocab.commands import Answer
from polylect.vocab.content import Block, Category, Form, Image, Message, Origin, PlanItem, Server, Stop, Usage
from polylect.vocab.entries import Body, Entry
from polylect.vocab.events import Ask, CircuitChanged

# Models.

ProviderFault = Literal[
    "auth", "rate_limit", "overloaded", "server", "network", "timeout", "overflow", "bad_request", "refused", "protocol"
]
"""What kind of fault a `ProviderError` reports."""


class ToolSpec(Struct, frozen=True):
    """A tool, as the model is told of it.

    `name`: the name of the tool; `description`: what it does and how to use it; `schema`: the JSON Schema of its
    arguments.
    """

    name: str
    description: str
    schema: dict[str, Any]


def tokens_of(specs: Sequence[ToolSpec]) -> int:
    """Estimates the tokens that `specs`, the tools, take in every request: a quarter of their characters."""
    return len(msgspec.json.encode(specs)) // 4


class ModelInfo(Struct, frozen=True, omit_defaults=True):
    """What is known of a model. Zero or None means: not known.

    Attributes:
        name: The name of the model.
        window: Tokens that fit into a request and its reply.
        max_output: Tokens that a reply may have.
        thinking: Whether it can think.
        effort_levels: The words for how hard it may think.
        images: Whether it sees images.
        priced: Whether its price is known.
        prices: If `priced`: dollars for a million tokens of input, and of output.
        web_search: Whether its service can search the web for it.
    """

    name: str
    window: int = 0
    max_output: int = 0
    thinking: bool = False
    effort_levels: tuple[str, ...] = ()
    images: bool | None = None
    priced: bool = False
    prices: tuple[float, float] = (0.0, 0.0)
    web_search: bool = False


class WebDomains(Struct, frozen=True):
    """Where a service searches. `allowed`: only there, if there are any; `blocked`: never there."""

    allowed: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()


class ModelRequest(Struct, frozen=True):
    """Everything that a reply depends on.

    Attributes:
        model: The model to ask.
        system: The system prompt.
        messages: The conversation.
        tools: The tools that it may call.
        max_tokens: Tokens that the reply may have; 0 for the model's own limit.
        thinking: Tokens that it may think; 0 for none.
        effort: How hard it may think, in a word of the vendor's; empty for its default.
        session: The id of the session, for caches of the vendor.
        retries: Whether the provider may repeat a request that failed.
        web_search: Where the service may search the web for this reply; None if it may not. Services that cannot
            search ignore it.
    """

    model: str
    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    max_tokens: int = 0
    thinking: int = 0
    effort: str = ""
    session: str = ""
    retries: bool = True
    web_search: WebDomains | None = None


class TextChunk(Struct, frozen=True, gc=False):
    """A piece of text. `text`: the piece."""

    text: str


class ThinkingChunk(Struct, frozen=True, gc=False):
    """A piece of reasoning. `text`: the piece."""

    text: str


class ArgsChunk(Struct, frozen=True, gc=False):
    """`text` is the next piece of the JSON arguments of `call`, of the tool `name`."""

    call: str
    name: str
    text: str


class BlockDone(Struct, frozen=True):
    """A complete `block`: Text, Thinking or ToolCall. Its chunks, if any, came before it and add up to it."""

    block: Block


class ReplyBegun(Struct, frozen=True):
    """What the service has counted before its first chunk, where it says so. It counts if the reply breaks off.

    `usage`: the tokens so far; `request`: the vendor's id of the request; `model`: the model that answers.
    """

    usage: Usage = Usage()
    request: str = ""
    model: str = ""


class ReplyDone(Struct, frozen=True):
    """The last event of every complete reply.

    `stop`: why the model stopped; `usage`: what the reply took; `request`: the vendor's id of the request; `model`:
    the model that answered.
    """

    stop: Stop
    usage: Usage = Usage()
    request: str = ""
    model: str = ""


class WebResults(Struct, frozen=True):
    """The service has searched the web. `results`: title and address of each page; `error`: why it could not."""

    results: tuple[tuple[str, str], ...] = ()
    error: str = ""


class Retrying(Struct, frozen=True):
    """The request failed and is made again after a pause. Only before the first chunk.

    `attempt`: the number of the attempt; `most`: how many attempts there may be; `delay_ms`: milliseconds until it
    is made; `error`: why the request failed.
    """

    attempt: int
    most: int
    delay_ms: int
    error: str


ModelEvent = (
    ReplyBegun | TextChunk | ThinkingChunk | ArgsChunk | BlockDone | WebResults | ReplyDone | Retrying | CircuitChanged
)


class Provider(Protocol):
    """A model service. `name`: its name."""

    name: str

    def info(self, model: str) -> ModelInfo:
        """Returns what is known of `model`."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        """Asks for a reply and yields its events.

        Each batch is what arrived together, so that a fast stream costs little.

        The last event is a `ReplyDone`. Closing the generator early, or cancelling, drops the connection.

        Args:
            request: The request.

        Raises:
            ProviderError: The service failed.
        """

    async def close(self) -> None:
        """Closes all connections."""


class Models(Protocol):
    """Every model that can be used now, whoever serves it."""

    def cards(self) -> Sequence[ModelCard]:
        """Returns the models that can be used now."""

    def open(self, provider: str) -> Provider:
        """Returns the provider of this name. `provider`: the name. Raises LookupError."""


# Tools.


class ToolReturn(Struct, frozen=True):
    """What a tool returns. A fault that the model can act on is `ok=False` and no exception.

    `output`: the text for the model; `ok`: whether it did what it should; `form`: how to show the output;
    `metadata`: data for hosts, such as the exit code; `images`: images for the model.
    """

    output: str
    ok: bool = True
    form: Form = "text"
    metadata: dict[str, Any] | None = None
    images: tuple[Image, ...] = ()


class Exit(Struct, frozen=True):
    """How a process ended.

    Attributes:
        code: The exit status; minus the number of the signal that ended it.
        timed_out: Whether it was ended because it took too long.
    """

    code: int
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
        """Runs a command to its end. Cancelling it ends the whole process tree: INT, TERM, KILL.

        `argv`: the command line; `cwd`: the folder to run it in; `env`: its whole environment; `timeout`:
        seconds that it may take; `on_output`: is called with each piece of its output; `on_start`: is called
        with its process id; `stdin`: its standard input, which nobody else can change.
        """

    async def close(self) -> None:
        """Ends everything that still runs."""


class Child(Protocol):
    """A process that is talked to over its standard streams. `pid`: its process id."""

    pid: int

    async def read(self) -> bytes:
        """What it has written; empty once it will write no more."""

    async def write(self, data: bytes) -> None:
        """Writes `data` to its standard input."""

    async def close(self) -> None:
        """End it and whatever it started."""


class Children(Protocol):
    """Keeps processes that stay: servers of other protocols. They are in the same custody as those that run and end."""

    async def open(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        on_error_output: Callable[[bytes], None],
    ) -> Child:
        """Starts a process that stays.

        `argv`: the command line; `cwd`: the folder to run it in; `env`: its whole environment;
        `on_error_output`: is called with each piece of its stderr.
        """


class FileState(Struct, frozen=True):
    """A file as it was at some time. `data`: the content; `mode`: the permission bits."""

    data: bytes
    mode: int


class Worker(Protocol):
    """Does the work of file, search and page tools in a process that is confined as commands are, and can be killed."""

    def prepare(self) -> None:
        """A call that touches files is about to be judged: start what its request will need. Returns at once."""

    def hides(self, path: str, roots: Sequence[str]) -> bool:
        """Whether commands cannot read the real `path`, and none of the folders and files in `roots` opens it."""

    def lets_change(self, path: str, roots: Sequence[str]) -> bool:
        """Whether commands that may write in the folders and files of `roots` can change the real `path`."""

    async def detect_sandbox(self) -> None:
        """Find out how commands are confined, if that is not known yet. `hides` and `lets_change` depend on it."""

    def reaches(self, path: str) -> bool:
        """Whether the worker can open and change the real `path` itself. Else it needs a descriptor of the file."""

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
        """Does one operation in the worker process. Cancelling kills that process.

        Args:
            operation: The name of the operation.
            arguments: Its arguments.
            data: Bytes that it needs.
            file: A descriptor that it needs; -1 for none.
            timeout: Seconds that it may take.
            roots: Folders and files that a search is about.

        Raises:
            ToolError: It could not be done; the text is for the model.
            OSError: The error that the worker met.
        """

    async def file_state(self, path: str) -> FileState | None:
        """Returns the regular file at the real path `path`, following no link; None if there is none.

        Raises ToolError or OSError.
        """

    async def restore(self, path: str, state: FileState | None) -> None:
        """Restores a file to a state, following no link. Raises ToolError or OSError.

        Args:
            path: The real path.
            state: The state; None deletes the file.
        """

    async def count_changes(self, old: bytes, new: bytes) -> tuple[int, int]:
        """Returns how many lines are added and removed between the contents `old` and `new`."""

    async def close(self) -> None:
        """Ends the worker processes."""


class TextFiles(Protocol):
    """Text files of the host as its editor has them, saved or not. `writable`: whether they can be changed too."""

    writable: bool

    def has(self, path: str) -> bool:
        """Whether the host is to be asked for the file at the real `path`."""

    async def read(self, path: str) -> bytes | None:
        """Returns the UTF-8 text of the file at the real `path`; None if the host says that there is none.

        Raises NoHostAnswer, or another ToolError if the host refuses.
        """

    async def write(self, path: str, text: bytes) -> None:
        """Replaces the UTF-8 `text` of the file at the real `path`, or creates it. Raises ToolError."""


class ToolContext(Protocol):
    """What a tool may use while it runs.

    Attributes:
        call: The id of the call.
        turn: The id of the turn.
        workspace: The folder that the work is about: absolute, symlinks resolved.
        roots: Folders and files that this call may touch: the workspace, what was granted, what was approved for this
            call.
        touched: The real paths that were judged, as the tool's `touches` named them. A tool opens these and resolves no
            more.
        seen: Files that this conversation has read or written: real path to (mtime_ns, size) at that time.
        env: The environment for child processes, without secrets.
        processes: Starts commands.
        worker: Does work on files in a confined process.
        host_files: The text files of the host; None where they are not to be used.
        terminals: Runs commands in terminals of the host, outside of our sandbox; None where that is not to be done.
    """

    call: str
    turn: str
    workspace: str
    roots: Sequence[str]
    touched: Sequence[str]
    seen: dict[str, tuple[int, int]]
    env: Mapping[str, str]
    processes: Processes
    worker: Worker
    host_files: TextFiles | None
    terminals: Processes | None

    def progress(self, text: str) -> None:
        """Shows output while the call runs. The tool still has to return everything. `text`: the next piece."""

    async def ask(self, question: Ask) -> Answer:
        """Asks the person a `question`, on behalf of this call. Where nobody can be asked, the answer is no."""

    def reading_fault(self, path: str) -> str:
        """Returns why rules forbid the model to read the file at the absolute `path`; empty if none does."""

    async def search_web(self, query: str, allowed: Sequence[str], blocked: Sequence[str]) -> str:
        """Lets the model's service search the web and returns what it reports. Raises ToolError.

        `query`: what to search for; `allowed`: domains to search in, all if empty; `blocked`: domains to leave out.
        """
        ...

    async def ask_model(self, system: str, messages: Sequence[Message], max_tokens: int) -> Message:
        """Asks the model beside the conversation, and returns its reply. Raises ToolError.

        `system`: the system prompt; `messages`: all that it is told; `max_tokens`: tokens that the reply may have.
        """
        ...

    def plan(self, items: Sequence[PlanItem]) -> None:
        """Shows a plan in the place of the one before. `items`: the entries."""

    def spill(self, text: str) -> str:
        """Stores `text`, which is too long for the model, in a file that the model may read, and returns its path."""


class Tool(Protocol):
    """Something that the model can do.

    Attributes:
        name: Its name.
        category: What it may do.
        origin: Where it comes from. What it may do without asking follows from this, never from its name.
    """

    name: str
    category: Category
    origin: Origin

    @property
    def spec(self) -> ToolSpec:
        """The tool, as the model is told of it."""

    def describe(self, args: dict[str, Any]) -> str:
        """Returns one line for people that says what a call with these `args` would do."""

    def touches(self, args: dict[str, Any], workspace: str) -> tuple[str, ...]:
        """Returns the real paths that a call would read or write, symlinks resolved; empty where that cannot be known.

        `args`: the arguments of the call; `workspace`: the folder that relative paths are relative to.
        """

    async def run(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        """Does the call and returns its result. Raises ToolError for a fault that the model is told.

        `args`: the arguments of the call; `context`: what the tool may use.
        """


# Sessions.


class Store(Protocol):
    """The log of one session, which only one process writes. `session`: the id of the session."""

    session: str

    @property
    def entries(self) -> Sequence[Entry]:
        """What is in the log."""

    @property
    def size(self) -> int:
        """Bytes of the log, or what they would be."""

    def append(self, *bodies: Body) -> None:
        """Writes `bodies` to the operating system before it returns; they outlive a crash of this process."""

    def sync(self) -> None:
        """Make everything appended so far outlive a power cut."""

    def spill(self, text: str) -> str:
        """Stores a long `text` beside the log and returns its path."""

    def fill(self, message: Message) -> Message:
        """Returns `message` with its images loaded."""

    @property
    def file(self) -> str:
        """Where the log is, if it is kept."""

    def close(self) -> None:
        """Closes the log, so that another process can write it."""


class Library(Protocol):
    """Where sessions are kept. Each method raises SessionError with the reason, and then nothing has changed."""

    def create(self, parent: str = "") -> Store:
        """Creates a session and returns its store. `parent`: the session that it comes from."""

    def resume(self, target: str) -> Store:
        """Opens a stored session.

        Args:
            target: Its id, or the path of a session file; a file of another engine becomes a session of ours.
        """

    def fork(self, store: Store, at: str = "") -> Store:
        """Copies a session and returns the store of the copy.

        Args:
            store: The session to copy.
            at: The message before which the copy ends; empty for a copy of everything.
        """

    def within(self, root: str) -> "Library":
        """Returns the library of the sessions in the folder `root`."""

    def sessions(self, cwd: str = "") -> Sequence[SessionCard]:
        """Returns the stored sessions, those of the folder `cwd` if one is named."""

    def export(self, store: Store, path: str) -> str:
        """Writes the session of `store` to the file `path`, in the format that its ending names. Returns the path."""


# Servers.


class Servers(Protocol):
    """MCP servers, whose tools come and go among the engine's. Each is reported when it is up or has failed."""

    def add(self, server: Server) -> None:
        """Starts to connect to `server` and returns at once."""

    def change(self, name: str, action: Literal["remove", "reconnect", "enable", "disable"]) -> None:
        """Changes the state of a server. `name`: its name; `action`: what to do with it. Raises LookupError."""

    def status(self) -> Sequence[Any]:
        """Returns a `ServerCard` for each server."""

    def starting(self) -> Mapping[str, float]:
        """Servers that have neither come up nor failed since they were added, and for how many seconds."""

    async def wait_for_change(self, timeout: float) -> None:
        """Returns when a server has come up, failed or gone, at the latest after `timeout` seconds."""

    def commands(self) -> Sequence[CommandCard]:
        """What servers offer as prompts, by the name to call them."""

    async def wait_for_prompts(self, command: str) -> None:
        """Returns when the prompts of the server that `command` names are known, or cannot be."""

    async def expand(self, command: str, words: Sequence[str]) -> Sequence[Block]:
        """Returns what a prompt of a server stands for.

        `command`: the name of the prompt, as in `commands`; `words`: its arguments. Raises LookupError,
        PolylectError.
        """

    def receive(self, name: str, message: Any) -> bool:
        """Passes on a message that a server inside the host sent unasked.

        Returns False if that server is not connected.

        Args:
            name: The name of the server.
            message: The message.
        """

    async def close(self) -> None:
        """Disconnects from all servers."""
