import pytest

from dialects.everything import file_of, missing, source
from dialects.pair import DIALECTS
from polylect.dialects.base import Dialect


def test_one_of_everything_is_really_everything() -> None:
    assert missing() == set()


@pytest.mark.parametrize("dialect", DIALECTS, ids=[dialect.name for dialect in DIALECTS])
def test_what_a_dialect_leaves_unsaid_is_what_was_found_out(dialect: Dialect) -> None:
    """If this fails: `python tests/dialects/everything.py` with src and tests on the path, and look at what changed."""
    assert file_of(dialect).read_text(encoding="utf-8") == source(dialect)
