"""Functions of the host's own, as tools."""

import asyncio
import dataclasses
import json
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
import pytest

from engine_process import PATIENCE
from polylect.embed import open_engine
from polylect.host import HostTool, TurnFailed, allow_all, connect, tool
from polylect.providers.scripted import Scripted
from polylect.vocab import json_schema


class Article(msgspec.Struct):
    name: str
    pieces: int = 1


@dataclasses.dataclass
class Shelf:
    row: int


def put(article: Article, shelf: Shelf, more: list[Article] | None = None, *, note: str = "") -> list[Any]:
    """Put an article on a shelf."""
    return [article.name, article.pieces, shelf.row, len(more or ()), note]


def test_a_tool_is_told_by_a_schema_that_holds_together() -> None:
    made = tool(put)
    assert (made.name, made.description) == ("put", "Put an article on a shelf.")
    assert made.parameters["required"] == ["article", "shelf"]
    assert set(made.parameters["$defs"]) == {"Article", "Shelf"}
    assert json_schema.fault_in(dict(made.parameters)) == ""
    assert json_schema.validation_errors(
        json_schema.validator(dict(made.parameters)), {"article": {}, "shelf": {"row": 1}}, monotonic
    )


def test_its_arguments_have_the_types_that_it_names() -> None:
    args = {"article": {"name": "bolts"}, "shelf": {"row": 3}, "more": [{"name": "nuts"}]}
    assert json.loads(asyncio.run(tool(put).call(args))) == ["bolts", 1, 3, 1, ""]
    with pytest.raises(msgspec.ValidationError, match="Expected `int`"):
        asyncio.run(tool(put).call({"article": {"name": "bolts"}, "shelf": {"row": "three"}}))


def anything(*args: Any, **more: Any) -> None: ...


def strange(where: Path, what: HostTool) -> None: ...


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (anything, r"cannot have \*args: Any, \*\*more: Any"),
        (strange, "strange need types that JSON has"),
        (lambda article: article, "has a name"),
        (5, "has a name"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_when_it_is_offered(function: Any, why: str) -> None:
    with pytest.raises(TypeError, match=why):
        tool(function)


def test_two_tools_do_not_share_a_name() -> None:
    with pytest.raises(ValueError, match="names of their own"):
        connect("polylect-claude", tools=[put, put])


async def gives_up() -> None:
    """Wait for nothing."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


def fails() -> None:
    """Fail."""
    raise LookupError("no such shelf")


@pytest.mark.parametrize(("function", "told"), [(gives_up, "was cancelled"), (fails, "LookupError: no such shelf")])
def test_a_tool_that_fails_tells_the_model_and_the_turn_goes_on(tmp_path: Path, function: Any, told: str) -> None:
    script = f'[[reply]]\nwhen.step = 1\nsay = [{{ call = "{function.__name__}", id = "c1", args = {{}} }}]\n'
    model = Scripted.from_text(script + '[[reply]]\ntext = "{result}"\n')

    async def talk() -> str:
        engine = open_engine(model, workspace=tmp_path, tools=[function], approve=allow_all)
        async with asyncio.timeout(PATIENCE), engine as agent:
            return (await agent.ask("go")).text

    assert told in asyncio.run(talk())


def test_a_tool_that_nobody_waits_for_any_more_is_stopped(tmp_path: Path) -> None:
    script = '[[reply]]\nwhen.step = 1\nsay = [{ call = "wait", id = "c1", args = {} }]\n'

    async def talk() -> None:
        began, stopped = asyncio.Event(), asyncio.Event()

        async def wait() -> None:
            """Wait for ever."""
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

        engine = open_engine(Scripted.from_text(script), workspace=tmp_path, tools=[wait], approve=allow_all)
        async with asyncio.timeout(PATIENCE), engine as agent:
            reading = asyncio.ensure_future(agent.ask("go"))
            await began.wait()
            await agent.cancel()
            await stopped.wait()
            with pytest.raises(TurnFailed, match="was cancelled"):
                await reading

    asyncio.run(talk())
