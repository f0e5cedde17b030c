"""What tests of the engine share: a recorded conversation, small tools, and a log that can run out of disk.

Whatever a test is about, `Talk` also checks what holds for every conversation: its events keep the grammar, each
accepted prompt ends once (L1), every call has one result, in memory, in the log and in what the model is sent, and the
log read back is the memory (T4).
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from doubles_worker import DirectWorker
from grammar_check import Grammar
from machine import PATIENCE
from polylect.engine.agent import Agent, EngineCallbacks
from polylect.engine.engine import Engine
from polylect.engine.hooks import NoHooks
from polylect.engine.settings import Settings
from polylect.engine.turn.steering import STEER
from polylect.sessions.session import Session
from polylect.vocab.commands import Command
from polylect.vocab.content import Category, Message, Origin, ToolCall, ToolResult
from polylect.vocab.entries import Body, Entry, MessageAdded
from polylect.vocab.errors import SessionError, ToolError
from polylect.vocab.events import CostChanged, Event, QueueChanged, Reply, TurnEnded
from polylect.vocab.hooks import Hooks
from polylect.vocab.ports import (
    Exit,
    Library,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    Models,
    Provider,
    Store,
    Tool,
    ToolContext,
    ToolReturn,
    ToolSpec,
)
from polylect.wire import jsonl

Host = Callable[[Event], Command | None]
Part = ModelEvent | Exception | None
"""Of a reply of `Played`: something said, a fault, or silence for ever."""
E = TypeVar("E", bound=Event)
_decode = msgspec.json.Decoder(Entry).decode
_UNTOLD = ("turn", "agent", "session", "usage", "request", "model", "description", "title")


# Tools.


class Act:
    """A tool that is a name, a category, and what it does. It touches the path it is given."""

    name = ""
    category: Category = "info"
    origin: Origin = "builtin"

    def __init__(self, name: str = "", category: Category | None = None) -> None:
        self.name = name or type(self).__name__
        self.category = category or self.category
        self.spec = ToolSpec(self.name, "", {"type": "object"})
        self.ran: list[dict[str, Any]] = []
        self.started = asyncio.Event()

    def describe(self, args: dict[str, Any]) -> str:
        return f"{self.name} {args}"

    def touches(self, args: dict[str, Any], workspace: str) -> tuple[str, ...]:
        return (str((Path(workspace) / args["path"]).resolve()),) if "path" in args else ()

    async def run(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        self.ran.append(args)
        self.started.set()
        return await self.work(args, context)

    async def work(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        raise NotImplementedError


class Echo(Act):
    """Says its text back."""

    async def work(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        return ToolReturn(args.get("text", ""))


class Show(Act):
    """Shows its text piece by piece, then says it as a whole."""

    async def work(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        for piece in args["pieces"]:
            context.progress(piece)
        return ToolReturn("".join(args["pieces"]))


class Fail(Act):
    """Cannot do it, and says so as a result or, with `loud`, as a ToolError."""

    async def work(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        if args.get("loud"):
            raise ToolError("cannot")
        return ToolReturn("cannot", ok=False)


class Crash(Act):
    """Has a bug."""

    async def work(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        raise RuntimeError("boom")


class Hang(Act):
    """Never comes back unless it is cancelled."""

    async def work(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        await asyncio.get_running_loop().create_future()
        return ToolReturn("")


class Stubborn(Act):
    """Does not listen to a cancel; comes back when it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.released = asyncio.Event()

    async def work(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                pass
        context.progress("late")
        return ToolReturn("late")


class Edit(Act):
    """Stands for a change of a file; changes nothing."""

    category: Category = "edit"

    async def work(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        return ToolReturn(f"wrote {args.get('text', '')}")


class Run(Act):
    """Stands for a shell; runs nothing."""

    category: Category = "exec"

    async def work(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        return ToolReturn(f"ran {args.get('command', '')}")


FREE = ("Echo", "Show", "Fail", "Crash", "Hang", "Stubborn")
"""Tools that a `Talk` never asks for."""


class NoProcesses:
    """For tools that start none."""

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        timeout: float,
        on_output: Callable[[Literal["out", "err"], bytes], None],
        on_start: Callable[[int], None] = lambda pid: None,
        stdin: bytes = b"",
    ) -> Exit:
        raise NotImplementedError

    async def close(self) -> None:
        pass


# Models. Most tests use the scripted one; this one can also do what no provider should.


class Played:
    """Gives its replies in order, each part of one as a batch of its own. None hangs, an exception is raised."""

    name = "played"

    def __init__(self, *replies: Sequence[Part], infos: Iterable[ModelInfo] = ()) -> None:
        self.requests: list[ModelRequest] = []
        self.given = 0
        """How many batches have been taken so far."""
        self._replies = iter(replies)
        self._infos = {info.name: info for info in infos}

    def info(self, model: str) -> ModelInfo:
        return self._infos.get(model, ModelInfo(model))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        self.requests.append(request)
        for part in next(self._replies):
            if isinstance(part, Exception):
                raise part
            if part is None:
                await asyncio.get_running_loop().create_future()
            else:
                self.given += 1
                yield [part]

    async def close(self) -> None:
        pass


class Witness:
    """Passes everything on to a model, and keeps what is wrong with the history it is sent."""

    def __init__(self, provider: Provider, faults: list[str]) -> None:
        self.name = provider.name
        self.info = provider.info
        self.close = provider.close
        self._provider = provider
        self._faults = faults

    def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        try:
            check_history(request.messages)
        except AssertionError as error:
            self._faults.append(f"sent to the model: {error}")
        return self._provider.stream(request)


# The log.


class Log:
    """A session in memory. `full` says of each write, by its number, whether the disk is full just then."""

    def __init__(self, entries: Sequence[Entry] = (), *, full: Callable[[int], bool] = lambda write: False) -> None:
        self.session = "s1"
        self.entries = self.written = list(entries)
        self.writes = 0
        self.synced = 0
        self.size = 0
        self._full = full

    def append(self, *bodies: Body) -> None:
        self.writes += 1
        if self._full(self.writes):
            raise SessionError("cannot write the session log: No space left on device")
        for body in bodies:
            last = self.written[-1].id if self.written else ""
            self.written.append(Entry(str(len(self.written) + 1), last, 0, body))

    def sync(self) -> None:
        self.synced = len(self.written)

    def spill(self, text: str) -> str:
        raise NotImplementedError

    file = ""

    def fill(self, message: Message) -> Message:
        return message

    def close(self) -> None:
        pass

    @property
    def bodies(self) -> list[Body]:
        return [entry.body for entry in self.written]

    def read_back(self) -> "Log":
        """The same log in the next process, by way of its bytes."""
        return Log([_decode(jsonl.dump(entry)) for entry in self.written])

    def check(self, messages: Sequence[Message]) -> None:
        """What the next process reads is what this one knew."""
        check_history(messages)
        assert Session(self.read_back()).messages == list(messages)


class SpottyLog(Log):
    """For disks that fail at random: what could not be written cannot be read back, but what can be read is valid."""

    def check(self, messages: Sequence[Message]) -> None:
        check_history(Session(self.read_back()).messages)


# The conversation.


async def roomy() -> None:
    """A host that reads everything at once."""


def silent(event: Event) -> None:
    """A host that answers nothing."""


class Talk:
    """A host and an engine in one room. Every event is kept and checked; `host` may answer it with a command."""

    def __init__(
        self,
        folder: Path,
        provider: Provider,
        /,
        *tools: Tool,
        host: Host = silent,
        store: Store | None = None,
        wait_writable: Callable[[], Awaitable[None]] = roomy,
        new_id: Callable[[], str] | None = None,
        hooks: Callable[[dict[str, Tool]], Hooks] | None = None,
        library: Library | None = None,
        models: Models | None = None,
        **settings: Any,
    ) -> None:
        self.events: list[Event] = []
        self.faults: list[str] = []
        self.store = store or Log()
        self.session = Session(self.store)
        self._grammar = Grammar()
        self._host = host
        self._received = asyncio.Event()
        known = {"workspace": str(folder), "model": "m", "allow_list": FREE}

        def agent(callbacks: EngineCallbacks) -> Agent:
            known_tools = {tool.name: tool for tool in tools}
            return Agent(
                settings=Settings(**{**known, **settings}),
                provider=Witness(provider, self.faults),
                tools=known_tools,
                hooks=hooks(known_tools) if hooks else NoHooks(),
                session=self.session,
                processes=NoProcesses(),
                worker=DirectWorker(),
                env={},
                callbacks=callbacks,
                wait_writable=wait_writable,
                new_id=new_id or map(str, count(1)).__next__,
                library=library,
                models=models,
            )

        self.engine = Engine(agent, self._hear)

    def send(self, *commands: Command) -> None:
        for command in commands:
            self.engine.handle(command)

    async def until(self, kind: type[E], number: int = 1) -> E:
        """The first, second ... event of this kind, as soon as it has been said."""
        while len(actual := self.of(kind)) < number:
            self._received.clear()
            await self._received.wait()
        return actual[number - 1]

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def story(self) -> list[str]:
        """The whole conversation, a line for each event. What waits and what it cost are for tests of just that."""
        return [line(event) for event in self.events if not isinstance(event, QueueChanged | CostChanged)]

    async def answer(self, command: Command) -> Any:
        """What a command with a ref of its own is answered: the data, or why not."""
        seen = len(self.of(Reply))
        self.send(command)
        while not (actual := [reply for reply in self.of(Reply)[seen:] if reply.ref == command.ref]):
            self._received.clear()
            await self._received.wait()
        return actual[0].failure or actual[0].data

    @property
    def messages(self) -> list[Message]:
        return self.session.messages

    def _hear(self, event: Event) -> None:
        self.events.append(event)
        if rule := self._grammar.accept(event):
            self.faults.append(f"{line(event)}: {rule.value}")
        self._received.set()
        if command := self._host(event):
            asyncio.get_running_loop().call_soon(self.send, command)

    async def end(self) -> None:
        """Nothing is left to do: let go of everything, and check what holds for every conversation."""
        await self.engine.close()
        assert self.faults == [], "\n".join(self.story)
        self._grammar.finish()
        if isinstance(self.store, Log):
            accepted = Counter(
                body.turn for body in self.store.bodies if isinstance(body, MessageAdded) and is_prompt(body)
            )
            assert Counter(event.turn for event in self.of(TurnEnded)) == accepted
            self.store.check(self.messages)
        else:
            check_history(self.messages)


def run(
    conversation: Callable[[Talk], Awaitable[None]],
    folder: Path,
    provider: Provider,
    /,
    *tools: Tool,
    made: Callable[..., Talk] = Talk,
    **options: Any,
) -> Talk:
    """Go through a whole conversation: what the test does in it, then whatever is still under way."""

    async def whole() -> Talk:
        async with asyncio.timeout(PATIENCE):
            talk = made(folder, provider, *tools, **options)
            await conversation(talk)
            await talk.engine.settled()
            await talk.end()
        return talk

    return asyncio.run(whole())


def converse(folder: Path, provider: Provider, commands: Iterable[Command], /, *tools: Tool, **options: Any) -> Talk:
    """A conversation in which the host sends these commands at once, and then only answers."""

    async def conversation(talk: Talk) -> None:
        talk.send(*commands)

    return run(conversation, folder, provider, *tools, **options)


def line(event: Event) -> str:
    """An event for people: its name, and what it says beyond the usual."""
    config = type(event).__struct_config__
    parts = [str(config.tag)]
    if type(event).__name__.startswith("Turn"):
        parts.append(event.turn)
    for field in msgspec.structs.fields(event):
        value = getattr(event, field.name)
        if field.name not in _UNTOLD and (field.required or value not in (field.default, {}, ())):
            parts.append(_plain(value))
    return " ".join(parts)


def _plain(value: Any) -> str:
    text = getattr(value, "text", getattr(value, "message", value))
    return text if isinstance(text, str) else repr(text)


# What holds for every conversation.


def is_prompt(said: MessageAdded) -> bool:
    return said.message.role == "user" and said.turn != "" and not said.turn.startswith(STEER)


def check_history(messages: Sequence[Message]) -> None:
    """Each call has exactly one result, in the next message and in order; no id comes twice (T4)."""
    seen: set[str] = set()
    calls: list[str] = []
    for message in messages:
        results = [block.call for block in message.content if isinstance(block, ToolResult)]
        assert message.content
        assert results == calls, f"calls {calls} have the results {results}"
        calls = [block.call for block in message.content if isinstance(block, ToolCall)]
        assert not seen.intersection(calls)
        seen.update(calls)
    assert not calls, f"no results for {calls}"
