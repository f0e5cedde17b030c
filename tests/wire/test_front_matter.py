"""Front matter: the few shapes of YAML that people write there."""

import pytest

from polylect.wire.front_matter import listed, split_front


@pytest.mark.parametrize(
    ("text", "fields", "body"),
    [
        ("no front", {}, "no front"),
        ("", {}, ""),
        ("---\na: 1\n", {"a": "1"}, ""),
        ("---\na: 1\nb:\n  - x\n  - y\n---\nbody\n---\nmore", {"a": "1", "b": "x, y"}, "body\n---\nmore"),
        ("---\nb:\n- 'x'\n- y\nc: >\n  folded\n  text\n---\n", {"b": "x, y", "c": "folded text"}, ""),
        ("\ufeff---\r\na: x: y\r\n---\r\nbody\r\n", {"a": "x: y"}, "body"),
        ("---\n: 1\n# remark\nallowed-tools: Read, Bash(git *)\n---\n", {"allowed-tools": "Read, Bash(git *)"}, ""),
    ],
)
def test_front_matter_is_read_without_yaml(text: str, fields: dict[str, str], body: str) -> None:
    assert split_front(text) == (fields, body)


@pytest.mark.parametrize("value", ["Read, Bash", "Read,Bash,", "[Read, Bash]", "['Read', \"Bash\"]"])
def test_a_list_of_names_is_read_however_it_is_written(value: str) -> None:
    assert listed(value) == ("Read", "Bash")
