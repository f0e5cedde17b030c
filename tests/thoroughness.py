"""What is tried in part by `make test` and as a whole by `make test-all`.

Properties have a quarter of their examples in `make test`, and a table of cases that cross (each engine with each name)
has some of them. The profile of hypothesis decides: `tests/conftest.py` has the profiles, and
`pytest --hypothesis-profile full` tries everything.
"""

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings

Case = TypeVar("Case")
_ALL = 100
"""Examples of a property that sets no number of its own, where everything is tried."""


def up_to(most: int) -> int:
    """The number of examples of a property that has so many where everything is tried."""
    return most * min(settings.default.max_examples, _ALL) // _ALL


def one_in(number: int, cases: Sequence[Case]) -> list[Case]:
    """Every case where everything is tried, else the first of each so many."""
    return list(cases[:: number if settings.default.max_examples < _ALL else 1])
