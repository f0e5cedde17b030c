"""A conversation survives engines that are killed at any moment: S1, T1, T4 with real processes and kill -9."""

from e2e.crashes import survives
from engine_process import Place


def test_S1_after_thirty_kills_nothing_acknowledged_is_lost_and_nothing_is_left_over(place: Place) -> None:
    """`make interop` does the same with three hundred."""
    assert survives(place, seed=1, kills=30).lives == 30
