"""A folder of the user's where sandboxed commands may not write: the temporary folders of tests are open to them."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def folder_outside() -> Iterator[Path]:
    """An empty folder that is removed afterwards. Skips the test where the user can write to temporary places only."""
    temporary = ("/tmp/", "/var/tmp/", os.path.realpath(tempfile.gettempdir()))
    usual = ("/srv", "/opt", "/var/lib", os.path.realpath(Path.home()))
    places = [place for place in usual if os.access(place, os.W_OK) and not place.startswith(temporary)]
    if not places:
        pytest.skip("there is no place beside the temporary ones")
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="outside-", dir=places[0])))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
