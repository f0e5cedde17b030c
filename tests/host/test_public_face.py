"""What a program sees of the SDK: names, representations, errors, and a warning for what was forgotten."""

import ast
import asyncio
import gc
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeGuard

import pytest

from polylect import host
from polylect.app.serving.in_process import EventSink, InProcessLink
from polylect.embed import open_engine
from polylect.engine.engine import Engine
from polylect.host import Agent, Ask, EngineDied, Event, HostError, Result, TextDelta, TurnEnded, Usage, connect, errors
from polylect.host.attachments import as_attachments
from polylect.host.results import update
from polylect.host.sync import SyncAgent
from polylect.host.sync import connect as sync_connect
from polylect.providers.scripted import Scripted
from polylect.vocab import errors as vocab_errors
from polylect.vocab.errors import (
    NoHostAnswer,
    NoSuchFile,
    PolylectError,
    ProviderError,
    SessionError,
    StartError,
    StorageError,
    ToolError,
)

PATIENCE = 20.0
SCRIPT = '[[reply]]\ntext = "Hello"\n'


def here(folder: Path) -> Agent:
    return open_engine(Scripted.from_text(SCRIPT), workspace=folder)


def sync_here(folder: Path) -> SyncAgent:
    return SyncAgent(open_engine(Scripted.from_text(SCRIPT), workspace=folder))


def test_a_result_shows_text_reason_and_cost() -> None:
    result = Result("t1")
    update(result, TextDelta("word " * 40))
    update(result, TurnEnded("end", Usage(10, 5, cost=0.25)))
    assert repr(result) == f"Result(text={'word ' * 16 + '…'!r}, reason='end', cost=0.25)"


def test_a_turn_says_how_to_get_the_text(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE), here(tmp_path) as agent:
            turn: Any = agent.prompt("Hi")
            with pytest.raises(AttributeError, match="a turn has no 'text': await it, its result has that"):
                print(turn.text)
            with pytest.raises(AttributeError, match=r"a turn has no 'answers'$"):
                print(turn.answers)
            assert (await turn).text == "Hello"

    asyncio.run(main())
    with sync_here(tmp_path) as agent:
        turn: Any = agent.prompt("Hi")
        with pytest.raises(AttributeError, match=r"a turn has no 'text': wait\(\) for it, its result has that"):
            print(turn.text)
        assert turn.wait().text == "Hello"


def test_a_question_is_shown_and_written_as_the_event_that_it_is(tmp_path: Path) -> None:
    call = '[[turn]]\nreply = [{ call = "Write", args = { file_path = "a", content = "b" } }, "Done."]\n'
    seen: list[Ask] = []

    async def main() -> None:
        async with asyncio.timeout(PATIENCE), open_engine(Scripted.from_text(call), workspace=tmp_path) as agent:
            async for event in agent.prompt("Write"):
                assert Event.from_json(event.to_json()).to_dict() == event.to_dict()
                if isinstance(event, Ask):
                    seen.append(event)
                    await event.deny()

    asyncio.run(main())
    assert [event.title for event in seen] == ["Write to a"]
    assert "via" not in repr(seen) + str(seen[0].to_dict())


def test_a_turn_that_is_forgotten_warns_with_its_prompt(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE), here(tmp_path) as agent:
            with pytest.warns(RuntimeWarning, match=r"the prompt 'Tidy the imp(orts, ){8}.*…' was never sent: await"):
                agent.prompt("Tidy the imp" + "orts, " * 40)

    asyncio.run(main())


def test_a_forgotten_turn_warns_without_asyncio_too(tmp_path: Path) -> None:
    with sync_here(tmp_path) as agent, pytest.warns(RuntimeWarning, match="the prompt 'Hi' was never sent"):
        agent.prompt("Hi")


def test_turns_that_are_used_or_given_up_do_not_warn(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE), here(tmp_path) as agent:
            await agent.prompt("awaited")
            async for _ in agent.prompt("read"):
                break
            await anext(agent.prompt("read by one"))
            await agent.prompt("cancelled before it began").cancel()
            await asyncio.gather(agent.prompt("one"), agent.prompt("other"))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(main())
        gc.collect()
    assert [str(one.message) for one in caught] == []


def test_an_agent_that_an_exception_closed_does_not_warn(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE), here(tmp_path) as agent:
            turn = agent.prompt("never sent")
            raise LookupError(turn.id)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(LookupError):
            asyncio.run(main())
        with pytest.raises(LookupError), sync_here(tmp_path) as agent:
            turn = agent.prompt("never sent")
            raise LookupError(turn.id)
        del turn
        gc.collect()
    assert [str(one.message) for one in caught] == []


ERRORS = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, HostError)]
INTERNAL = {
    "AttributeError",  # of the module, for names that it does not have
    "StopAsyncIteration",
    "FileNotFoundError",  # of `spawn`: the link makes EngineDied of it
    "ValueError",  # of an answer that does not fit: it is asked for again
    "ServiceFault",  # of a service: the conversation makes a HostReply of it
}


def raised(source: str) -> set[str]:
    """The names of the exceptions that a module makes and raises."""
    calls = [node.exc.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Raise) and _is_call(node)]
    return {call.id for call in calls if isinstance(call, ast.Name) and call.id[0].isupper()}


def _is_call(node: ast.Raise) -> TypeGuard[Any]:
    return isinstance(node.exc, ast.Call)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_every_error_is_exported(error: type[HostError]) -> None:
    assert getattr(host, error.__name__) is error
    assert issubclass(error, HostError)


def test_the_sdk_raises_nothing_but_host_errors() -> None:
    names = {error.__name__ for error in ERRORS} | INTERNAL
    modules = Path(host.__path__[0]).rglob("*.py")
    assert {path.name: raised(path.read_text()) - names for path in modules if raised(path.read_text()) - names} == {}


@pytest.mark.parametrize(
    "error",
    [
        StartError("no", code=78),
        SessionError("no"),
        StorageError("no"),
        ToolError("no"),
        NoSuchFile("no"),
        NoHostAnswer("no"),
        ProviderError("auth", "no"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_of_an_engine_in_this_process_are_host_errors(error: PolylectError) -> None:
    @asynccontextmanager
    async def failing(sink: EventSink) -> AsyncIterator[Engine]:
        raise error
        yield

    async def main() -> None:
        async with asyncio.timeout(PATIENCE), connect(lambda: InProcessLink(failing)):
            pass

    with pytest.raises(EngineDied, match="no") as caught:
        asyncio.run(main())
    assert caught.value.code == getattr(error, "code", None)
    assert caught.value.__cause__ is error


def test_the_errors_of_the_vocabulary_are_all_tried() -> None:
    made = {name for name, each in vars(vocab_errors).items() if isinstance(each, type)}
    tools = {"ToolError", "NoSuchFile", "NoHostAnswer"}
    assert made == {"PolylectError", "ProviderError", "StartError", "SessionError", "StorageError"} | tools


@pytest.mark.parametrize(
    ("mistake", "error", "builtin"),
    [
        (lambda: connect("nobody"), host.UnknownEngine, LookupError),
        (lambda: connect(["x"], dialect="nothing"), host.UnknownName, LookupError),
        (lambda: connect(["x"]), host.InvalidValue, ValueError),
        (lambda: connect("polylect", wings=2), host.InvalidValue, ValueError),
        (lambda: connect("polylect", limits=5), host.InvalidType, TypeError),
        (lambda: connect("polylect", approve=5), host.InvalidType, TypeError),
        (lambda: host.Limits(cost=-1), host.InvalidValue, ValueError),
        (lambda: host.tool(5), host.InvalidType, TypeError),
        (lambda: sync_connect("polylect").ask("x"), host.WrongState, RuntimeError),
    ],
)
def test_mistakes_of_the_caller_are_host_errors_too(mistake: Any, error: type[Exception], builtin: type) -> None:
    with pytest.raises(error) as caught:
        mistake()
    assert isinstance(caught.value, HostError)
    assert isinstance(caught.value, builtin)


def test_an_agent_without_asyncio_can_be_entered_once(tmp_path: Path) -> None:
    agent = sync_here(tmp_path)
    with agent, pytest.raises(host.WrongState, match="once"):
        agent.__enter__()
    with pytest.raises(host.WrongState, match="once"):
        agent.__enter__()


def test_an_image_that_cannot_be_read_is_a_host_error(tmp_path: Path) -> None:
    with pytest.raises(host.UnreadableFile, match="No such file") as caught:
        as_attachments([tmp_path / "none.png"], lambda word: word == "images")
    assert isinstance(caught.value, OSError)
    assert caught.value.filename == str(tmp_path / "none.png")
