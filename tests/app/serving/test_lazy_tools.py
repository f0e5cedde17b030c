"""Tools are loaded when they are looked at, and not before."""

from typing import cast

from polylect.app.serving.lazy_tools import LazyTools
from polylect.vocab.ports import Tool

READ, SPAWN, LATE = (cast(Tool, object()) for _ in range(3))


def box(loads: list[str]) -> LazyTools:
    def load() -> dict[str, Tool]:
        loads.append("loaded")
        return {"Read": READ, "Write": READ}

    return LazyTools(load)


def test_adding_loads_nothing_and_what_is_added_comes_last() -> None:
    loads: list[str] = []
    tools = box(loads)
    tools["Spawn"] = SPAWN
    assert not loads
    assert list(tools) == ["Read", "Write", "Spawn"]
    assert loads == ["loaded"]


def test_it_is_one_mapping_before_and_after() -> None:
    tools = box([])
    tools["Write"] = LATE
    assert tools["Write"] is LATE
    tools["Late"] = LATE
    del tools["Read"]
    assert dict(tools) == {"Write": LATE, "Late": LATE}
    assert "Read" not in tools
    assert len(tools) == 2
    assert tools.get("None") is None


def test_loading_happens_once() -> None:
    loads: list[str] = []
    tools = box(loads)
    assert tools.get("Read") is READ
    assert [name for name, _ in tools.items()] == ["Read", "Write"]
    assert loads == ["loaded"]
