"""Tools that are loaded when somebody looks at them: what a host asks first can be answered 6 ms sooner."""

from collections.abc import Callable, Iterator, MutableMapping
from functools import cached_property

from polylect.vocab.ports import Tool


class Toolbox(MutableMapping[str, Tool]):
    """What `load` gives, once it is wanted, and what is added. Adding alone loads nothing."""

    def __init__(self, load: Callable[[], dict[str, Tool]]) -> None:
        self._load = load
        self._added: dict[str, Tool] = {}

    @cached_property
    def _tools(self) -> dict[str, Tool]:
        tools = self._load()
        tools.update(self._added)
        self._added = tools
        return tools

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def __setitem__(self, name: str, tool: Tool) -> None:
        self._added[name] = tool

    def __delitem__(self, name: str) -> None:
        del self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)
