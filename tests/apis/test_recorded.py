"""Our parsers say what the vendors' own clients said of the same bytes; `make interop` asks those clients again."""

import pytest

from recorded.final import STREAMS, WIRES, recorded, stream


@pytest.mark.parametrize(("wire", "name"), STREAMS)
def test_a_stream_is_understood_as_its_vendor_does(wire: str, name: str) -> None:
    expected = WIRES[wire].theirs(recorded(wire, name))
    for size in (0, 1, 7, 100):
        assert WIRES[wire].ours(stream(wire, name), size) == expected
