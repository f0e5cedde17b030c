"""What tests/e2e does with few engines, with as many as are promised: 300 kills, 100 at once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from e2e.crashes import survives
from engine_process import Place, say_once
from polylect.sessions import catalogue, log

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("seed", range(2, 12))
def test_S1_after_thirty_kills_of_each_of_ten_conversations_nothing_acknowledged_is_lost(
    tmp_path: Path, seed: int
) -> None:
    with Place(tmp_path) as place:
        assert survives(place, seed=seed, kills=30).lives == 30


def test_S5_of_a_hundred_engines_started_at_once_none_disturbs_another_and_no_session_is_lost(tmp_path: Path) -> None:
    with Place(tmp_path) as place:
        argv = place.argv(script='[[reply]]\ntext = "{prompt}"')

        def one(number: int) -> tuple[int, list[str], bytes]:
            return say_once(place, argv, f"I am {number}")

        with ThreadPoolExecutor(100) as pool:
            outcomes = list(pool.map(one, range(100)))
        assert outcomes == [(0, [f"I am {number}"], b"") for number in range(100)]
        listed = catalogue.listing(str(place.sessions), str(place.workspace))
        assert sorted(session.words for session in listed) == sorted(f"I am {number}" for number in range(100))
        logs = [log.read_path(str(place.sessions / session.session / "log.jsonl")) for session in listed]
        assert all(not actual.faults and not actual.torn and len(actual.entries) == 5 for actual in logs)
