"""A seed, statement by statement: each has its tests, or a reason why there is none."""

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]


class Untested(str):
    """Why a statement has no test."""

    __slots__ = ()


Statements = dict[str, tuple[str, ...] | Untested]
"""What a seed says, in our words, and the tests that hold us to it: their names in the file of the seed, or
`folder/file.py::name` elsewhere."""


def lost(statements: Statements, own: Path) -> list[str]:
    """Tests that are named and do not exist, and statements that name none."""
    faults = []
    for said, tests in statements.items():
        if isinstance(tests, Untested):
            faults += [] if len(tests) > 20 else [f"{said}: say more about why"]
            continue
        faults += [] if tests else [f"{said}: no test"]
        for name in tests:
            file, _, function = name.rpartition("::")
            path = TESTS / file if file else own
            if function not in set(functions(path)):
                faults.append(f"{said}: there is no {name}")
    return faults


def functions(path: Path) -> Iterator[str]:
    if path.exists():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                yield node.name
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                yield node.targets[0].id
