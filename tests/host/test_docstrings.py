"""All that is public in polylect.host, polylect.vocab and polylect.embed documents each of its parameters."""

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from polylect import host, vocab
from polylect.app import embed


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


Function = ast.FunctionDef | ast.AsyncFunctionDef


def undocumented(source: str) -> list[str]:
    """The public names of a module that have no docstring, or parameters and fields that it does not explain."""
    return [name for name, text, names in _parts(ast.parse(source), "") if not text or _unexplained(text, names)]


def _parts(tree: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[str, str, list[str]]]:
    for node in tree.body:
        match node:
            case ast.ClassDef(name) if not name.startswith("_"):
                yield name, ast.get_docstring(node) or "", _fields(node)
                yield from _parts(node, f"{name}.")
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) if not name.startswith("_"):
                yield prefix + name, ast.get_docstring(node) or "", _arguments(node)


def _fields(node: ast.ClassDef) -> list[str]:
    """What the class is made with, without what has a docstring of its own below it."""
    fields = [part for part in node.body if isinstance(part, ast.AnnAssign)]
    after = zip(node.body, node.body[1:], strict=False)
    explained = {ast.unparse(one.target) for one, two in after if isinstance(one, ast.AnnAssign) and _is_text(two)}
    made = [part for part in node.body if isinstance(part, Function) and part.name == "__init__"]
    names = [*(ast.unparse(part.target) for part in fields), *(name for part in made for name in _arguments(part))]
    return [name for name in names if not name.startswith("_") and name not in explained]


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _arguments(node: Function) -> list[str]:
    rest = [argument for argument in (node.args.vararg, node.args.kwarg) if argument]
    names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, *rest)]
    return [name for name in names if name not in ("self", "cls")]


def _unexplained(text: str, names: list[str]) -> list[str]:
    return [name for name in names if not re.search(rf"^    \*{{0,2}}{name}: |`{name}`", text, re.MULTILINE)]


@pytest.mark.parametrize(
    "path", [*sorted(Path(vocab.__path__[0]).glob("*.py")), Path(embed.__file__)], ids=lambda path: path.stem
)
def test_the_vocabulary_and_the_embedding_explain_every_parameter_and_field(path: Path) -> None:
    assert undocumented(path.read_text()) == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(a): ...", ["f"]),
        ("def f(a):\n    '''Returns `a`.'''", []),
        ("def f(a, *, b):\n    '''F.\n\n    Args:\n        a: A.\n    '''", ["f"]),
        ("def _f(a): ...\nclass _C:\n    a: int", []),
        ("class C:\n    '''C.'''\n    a: int", ["C"]),
        ("class C:\n    '''C.'''\n    a: int\n    '''A.'''", []),
        ("class C:\n    '''C.'''\n    def __init__(self, a): ...", ["C"]),
        ("class C:\n    '''C.'''\n    async def g(self, a): ...", ["C.g"]),
    ],
)
def test_the_check_itself_sees_functions_methods_fields(source: str, expected: list[str]) -> None:
    assert undocumented(source) == expected
