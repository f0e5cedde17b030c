"""What the walks through the seeds share: a place of one's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine_process import Place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path) as place:
        yield place
