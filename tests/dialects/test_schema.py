from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import msgspec
import pytest

from dialects.pair import DIALECTS
from polylect.dialects.base import Dialect

SCHEMAS = Path(__file__).parents[2] / "schemas"
schema = SimpleNamespace(**run_path(str(SCHEMAS / "generate.py")))
ENDS = [(dialect, version) for dialect in DIALECTS for version in dialect.shapes]
NAMES = [f"{dialect.name} {version}" for dialect, version in ENDS]


@pytest.mark.parametrize(("dialect", "version"), ENDS, ids=NAMES)
def test_the_schema_in_the_tree_is_what_the_shapes_say(dialect: Dialect, version: str) -> None:
    """If this fails: `python schemas/generate.py`, and look at what changed."""
    kept = (SCHEMAS / schema.file_name(dialect, version)).read_text(encoding="utf-8")
    assert kept == schema.text(dialect, version)


@pytest.mark.parametrize(("dialect", "version"), ENDS, ids=NAMES)
def test_every_frame_is_in_the_schema_of_its_direction(dialect: Dialect, version: str) -> None:
    found = schema.schema(dialect, version)
    for direction, shapes in dialect.shapes[version].items():
        listed = [ref["$ref"].rpartition("/")[2] for ref in found["$defs"][direction]["anyOf"]]
        assert [found["$defs"][name]["properties"]["type"]["enum"] for name in listed] == [
            [name.partition("/")[0]] for name in shapes
        ]
    assert msgspec.json.encode(msgspec.json.decode(text := msgspec.json.encode(found))) == text
