"""docs/vocabulary.md names every word, only words that exist, and says the same in both directions."""

import json
import re
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from msgspec import Struct

from dialects.pair import env
from polylect import plug
from polylect.dialects.base import Dialect
from polylect.vocab import commands, content, events

PAGE = (Path(__file__).parents[1] / "docs" / "vocabulary.md").read_text("utf-8")
WIRES = ("aionrs", "wayland", "omp", "claude", "acp")
MEMBERS = {word.__name__ for base in (commands.Command, events.Event) for word in base.__subclasses__()}
WORDS: dict[str, type[Struct]] = {
    name: word
    for module in (content, commands, events)
    for name, word in vars(module).items()
    if isinstance(word, type) and issubclass(word, Struct) and not name.startswith("_")
}
UNSAID = re.compile(r"unsaid \((rebuilt|degraded|refused|dropped)\b.*\)")
USE = re.compile(r"(\w+)(?:\((.+)\))?")
FIELD = re.compile(r"(\w+)(?:\.(\w+))?(?:=(.+))?")


def section(title: str, mark: str) -> str:
    """What stands below a heading, up to the next heading of the same or a higher rank."""
    body = PAGE.split(f"\n{mark} {title}\n", 1)[1]
    return re.split(rf"\n#{{1,{len(mark)}}} ", body, maxsplit=1)[0]


def rows(text: str) -> list[list[str]]:
    """The cells of every table row, without headings and rules."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")] for line in lines]
    return [row for row in cells if row[0] not in {"word", "frame"} and not set(row[0]) <= set("-: ")]


def spans(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


TABLE = {row[0].strip("`"): row[1:] for row in rows(section("Our words, wire by wire", "##"))}
INDEX = {wire: rows(section(wire, "###")) for wire in WIRES}
USES = sorted({use for wire in WIRES for row in INDEX[wire] for use in spans(row[1])})


def structs(hint: Any) -> list[type[Struct]]:
    parts = (hint, *get_args(hint))
    return [part for part in parts if isinstance(part, type) and issubclass(part, Struct)]


def test_every_word_has_exactly_one_row_and_no_row_names_another_word() -> None:
    named = [row[0].strip("`") for row in rows(section("Our words, wire by wire", "##"))]
    assert sorted(named) == sorted(MEMBERS)


def test_a_row_has_one_filled_cell_for_each_wire() -> None:
    assert [word for word, cells in TABLE.items() if len(cells) != len(WIRES) or not all(cells)] == []


def test_what_a_wire_leaves_unsaid_goes_one_of_the_four_ways() -> None:
    unsaid = [(word, cell) for word, cells in TABLE.items() for cell in cells if cell.startswith("unsaid")]
    assert [(word, cell) for word, cell in unsaid if not UNSAID.fullmatch(cell)] == []


@pytest.mark.parametrize("wire", WIRES)
def test_every_frame_of_a_wire_has_a_word_or_stays_in_the_codec(wire: str) -> None:
    assert [row for row in INDEX[wire] if len(row) != 3 or not row[0]] == []
    assert [row for row in INDEX[wire] if row[1] != "codec" and not spans(row[1])] == []


def test_every_word_and_field_in_the_index_exists() -> None:
    assert [use for use in USES if not names_what_exists(use)] == []


def names_what_exists(use: str) -> bool:
    match = USE.fullmatch(use)
    if not match or match[1] not in WORDS:
        return False
    hints = get_type_hints(WORDS[match[1]])
    return all(field_exists(part, hints) for part in (match[2].split(", ") if match[2] else []))


def field_exists(part: str, hints: dict[str, Any]) -> bool:
    field = FIELD.fullmatch(part)
    if not field or field[1] not in hints:
        return False
    hint = hints[field[1]]
    if field[2] and structs(hint):
        return any(field[2] in struct.__struct_fields__ for struct in structs(hint))
    if field[3] and field[3].startswith('"') and get_origin(hint) is Literal:
        return set(re.findall(r'"(\w+)"', field[3])) <= set(get_args(hint))
    return True


@pytest.mark.parametrize("wire", WIRES)
def test_the_table_and_the_index_agree_on_what_a_wire_can_say(wire: str) -> None:
    column = WIRES.index(wire)
    said = {word for word, cells in TABLE.items() if not cells[column].startswith("unsaid")}
    indexed = {use.split("(")[0] for row in INDEX[wire] for use in spans(row[1])}
    assert indexed & MEMBERS == said


@pytest.mark.parametrize("wire", WIRES)
def test_every_frame_that_the_table_names_stands_in_the_index(wire: str) -> None:
    column = WIRES.index(wire)
    named = {span.split(".")[0] for cells in TABLE.values() for span in spans(cells[column]) if span[0] not in "-/"}
    assert named - {span for row in INDEX[wire] for span in spans(row[0])} == set()


# What the page calls unknown, and what the codecs do.

CODECS = {
    "aionrs": ("jsonstream", ["0.1.0"]),
    "wayland": ("jsonstream", ["0.2.0"]),
    "omp": ("omp", ["13", "18", "pi"]),
    "claude": ("claude", ["2.1.325", "2.1.197"]),
}
HOST_ONLY = {"host_send_message_result"}
"""Said by our host side to engines that ask for it; ours never does, so it does not know the answer."""


def frames(wire: str, *, of_host: bool) -> list[tuple[str, bool]]:
    """The frames that one end says, and whether there is a word for them."""
    host, engine = section(wire, "###").split("\nWhat the engine says", 1)
    named = [row for row in rows(host if of_host else engine) if not row[0].startswith(("any other", "no object"))]
    unknown = "UnknownCommand" if of_host else "UnknownEvent"
    return [
        (span, not row[1].startswith(f"`{unknown}("))
        for row in named
        for span in spans(row[0].split(" to ")[0])  # an answer is named together with what it answers
        if span != "type"
    ]


def line(frame: str) -> bytes:
    """As much of a frame as is needed to know it, on any wire."""
    kind, _, sub = frame.partition("/")
    request = {"request_id": "r1", "request": {"subtype": sub}, "response": {"request_id": "r1"}}
    return json.dumps({"type": kind, "subtype": sub, **request, "event": {"type": sub}}).encode() + b"\n"


def is_known(wire: str, frame: str, *, of_host: bool) -> bool:
    name, versions = CODECS[wire]
    dialect: Dialect = plug.load("dialects", name).DIALECT
    for version in versions:
        if of_host:
            said: list[Any] = [*dialect.engine_side(env(), version=version).receive(line(frame))]
        else:
            said = [*dialect.host_side(env(), version=version).receive(line(frame))]
        if not any(isinstance(word, commands.UnknownCommand | events.UnknownEvent) for word in said):
            return True
    return False


@pytest.mark.parametrize("wire", CODECS)
def test_our_engines_know_the_frames_that_the_page_has_words_for_and_no_others(wire: str) -> None:
    result = [(frame, known) for frame, known in frames(wire, of_host=True) if frame not in HOST_ONLY]
    assert result == [(frame, is_known(wire, frame, of_host=True)) for frame, _ in result]


@pytest.mark.parametrize("wire", CODECS)
def test_our_hosts_know_the_frames_that_the_page_has_words_for_and_no_others(wire: str) -> None:
    result = frames(wire, of_host=False)
    assert result == [(frame, is_known(wire, frame, of_host=False)) for frame, _ in result]
