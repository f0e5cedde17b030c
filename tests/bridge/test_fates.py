"""The fates follow from the dialects, and the page has them."""

import pytest
from scripts import bridge_tables

from polylect.app.cli.bridge.explain import front_wire
from polylect.bridge.fates import Wire, fates


def test_the_page_has_the_tables_that_the_dialects_make() -> None:
    """If this fails: `python scripts/bridge_tables.py`, and look at what changed."""
    text = bridge_tables.PAGE.read_text("utf-8")
    assert bridge_tables.page(text) == text


def test_between_two_ends_of_the_native_wire_nothing_is_lost() -> None:
    rows = fates(Wire("native", "1"), Wire("native", "1"))
    assert {row.fate for row in rows if row.name not in ("Ready", "Quit")} == {"carried"}
    assert len(rows) > 60


@pytest.mark.parametrize("front", bridge_tables.FRONTS)
@pytest.mark.parametrize("engine", bridge_tables.ENGINES)
def test_no_answer_no_question_and_no_end_is_lost(front: str, engine: str) -> None:
    rows = fates(front_wire(front), bridge_tables.ENGINES[engine])
    lost = {row.name for row in rows if row.fate == "lost"}
    assert not lost & {"Ask", "AskClosed", "TurnEnded", "ToolFinished"}
    assert {"Prompt", "Answer", "Cancel"}.isdisjoint(lost)
