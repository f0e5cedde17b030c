"""Every public function and method of polylect.host documents each of its parameters."""

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec import Struct

from polylect import host


def documented() -> Iterator[tuple[str, Any, list[str]]]:
    """Name, object and parameters of what polylect.host offers, without the words of the vocabulary."""
    for name in host.__all__:
        thing = getattr(host, name)
        if not getattr(thing, "__module__", "").startswith("polylect.host."):
            continue
        if inspect.isfunction(thing):
            yield name, thing, parameters(thing)
        elif inspect.isclass(thing) and not issubclass(thing, Exception):
            if name in ("Limits", "HostTool") and issubclass(thing, Struct):
                yield name, thing, list(thing.__struct_fields__)
            for method, function in vars(thing).items():
                if inspect.isfunction(function) and not method.startswith("_"):
                    yield f"{name}.{method}", function, parameters(function)


def parameters(function: Callable[..., Any]) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


@pytest.mark.parametrize(
    ("name", "thing", "names"), list(documented()), ids=lambda value: value if type(value) is str else ""
)
def test_it_says_what_it_does_and_what_each_parameter_is(name: str, thing: Any, names: list[str]) -> None:
    text = inspect.getdoc(thing) or ""
    assert not names or text
    assert [each for each in names if not re.search(rf"^    \*{{0,2}}{each}: |`{each}`", text, re.MULTILINE)] == []


def test_the_check_sees_functions_and_methods() -> None:
    assert {"connect", "tool", "category", "list_sessions", "Agent.prompt", "Turn.steer", "Ask.allow"} <= {
        name for name, _, _ in documented()
    }
