"""docs/vocabulary.md names every word, only words that exist, and says the same in both directions."""

import re
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from msgspec import Struct

from polylect.vocab import commands, content, events

PAGE = (Path(__file__).parents[1] / "docs" / "vocabulary.md").read_text("utf-8")
WIRES = ("aionrs", "wayland", "omp", "claude", "acp")
MEMBERS = {word.__name__ for union in (commands.Command, events.Event) for word in get_args(union)}
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


@pytest.mark.parametrize("word", sorted(MEMBERS))
def test_a_row_has_one_filled_cell_for_each_wire(word: str) -> None:
    assert len(TABLE[word]) == len(WIRES)
    assert all(TABLE[word])


@pytest.mark.parametrize("word", sorted(MEMBERS))
def test_what_a_wire_leaves_unsaid_goes_one_of_the_four_ways(word: str) -> None:
    unsaid = [cell for cell in TABLE[word] if cell.startswith("unsaid")]
    assert [cell for cell in unsaid if not UNSAID.fullmatch(cell)] == []


@pytest.mark.parametrize("wire", WIRES)
def test_every_frame_of_a_wire_has_a_word_or_stays_in_the_codec(wire: str) -> None:
    assert [row for row in INDEX[wire] if len(row) != 3 or not row[0]] == []
    assert [row for row in INDEX[wire] if row[1] != "codec" and not spans(row[1])] == []


@pytest.mark.parametrize("use", USES)
def test_every_word_and_field_in_the_index_exists(use: str) -> None:
    match = USE.fullmatch(use)
    assert match
    assert match[1] in WORDS
    hints = get_type_hints(WORDS[match[1]])
    for part in match[2].split(", ") if match[2] else []:
        field = FIELD.fullmatch(part)
        assert field
        assert field[1] in hints
        hint = hints[field[1]]
        if field[2] and structs(hint):
            assert any(field[2] in struct.__struct_fields__ for struct in structs(hint))
        elif field[3] and field[3].startswith('"') and get_origin(hint) is Literal:
            assert set(re.findall(r'"(\w+)"', field[3])) <= set(get_args(hint))


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
