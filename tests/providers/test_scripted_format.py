"""A bad script is refused with the file, the entry and what to do; a good one may be written in several ways."""

from pathlib import Path

import pytest

from polylect.providers.scripted.parse import build_script, check_script, parse_script
from polylect.providers.scripted.provider import BUILT_IN

BAD = {
    "": "it has no reply; add a [[reply]] or a [[turn]]",
    "[[reply]]\ntext = ": "not TOML: Invalid value (at end of document)",
    "bath = 3\n[[reply]]\ntext = 'a'": "top level: there is no key 'bath' here, did you mean 'batch'?",
    "batch = 0\n[[reply]]\ntext = 'a'": "top level: Expected `int` >= 1 - at `batch`",
    "reply = 3": "reply has to be a list: write [[reply]] before each entry",
    "[reply]\ntext = 'a'": "reply has to be a list: write [[reply]] before each entry",
    "[[reply]]\ntext = 'a'\n[[reply]]\ntext = 3": "reply 2, part 1: Expected `str | array`, got `int` - at `text`",
    "[[reply]]\ntext = 'a'\nrepaet = 3": "reply 1, part 1: there is no key 'repaet' here, did you mean 'repeat'?",
    "[[reply]]\ntxt = 'a'": "reply 1, part 1: it is {'txt': 'a'}; a part is a table with one of text, thinking, call,",
    "[[reply]]\ntext = 'a'\ncall = 'b'": "reply 1, part 1: it has text and call; a part is a table with one of text,",
    "[[reply]]\nsay = ['a', {wait = -1}]": "reply 1, part 2: Expected `float` >= 0.0 - at `wait`",
    "[[reply]]\nsay = ['a', {hang = false}]": "reply 1, part 2: hang has to be true",
    "[[reply]]\nsay = 'a'": "reply 1: say has to be a list of parts",
    "[[reply]]\nsay = ['a']\ntext = 'b'": "reply 1: text stands beside say; move it into say",
    "[[reply]]\nerror = 'oops'": "reply 1, part 1: Invalid enum value 'oops' - at `error`",
    "[[reply]]\ntext = 'a'\nwhen.promt = 'b'": (
        "reply 1: there is no key 'promt' here, did you mean 'prompt'? - at `when`"
    ),
    "[[reply]]\ntext = 'a'\nwhen.prompt.regex = '('": "reply 1: the regex '(' is wrong: missing ), unterminated sub",
    "[[reply]]\ntext = 'a'\nwhen.result.outcome = 'bad'": "reply 1: Invalid enum value 'bad' - at `when.result.",
    "[[reply]]\ntext = 'a'\nusage.inptu = 3": "reply 1: there is no key 'inptu' here, did you mean 'input'? - at `us",
    "[[turn]]\nreply = []": "turn 1: it has no reply",
    "[[turn]]\ntext = 'a'\nreply = ['b']": "turn 1: text stands beside reply; move it into a reply",
    "turn = ['a', {text = 'b', when.step = 1}]": "turn 2, reply 1: turns are played in order, without `when`; use [[re",
    "turn = [['a', ['b', 3]]]": "turn 1, reply 2, part 2: it is 3; a part is a table with one of",
}


@pytest.mark.parametrize("text", BAD)
def test_a_bad_script_is_refused_with_file_entry_and_what_to_do(text: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    assert (check_script(str(path)) or "").startswith(f"{path}: {BAD[text]}")


def test_a_script_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"# \xe9\n")
    assert "No such file or directory; name a TOML file" in (check_script(str(tmp_path / "none")) or "")
    assert "Is a directory" in (check_script(str(tmp_path)) or "")
    assert "it is not UTF-8 text" in (check_script(str(tmp_path / "latin")) or "")


def test_the_built_in_script_is_good() -> None:
    assert check_script(BUILT_IN) is None


def test_short_forms_mean_the_same_as_long_ones() -> None:
    long = parse_script("""
    [[turn]]
    [[turn.reply]]
    say = [{ text = "a" }, { call = "Read" }]
    [[turn.reply]]
    say = [{ text = "b" }]
    [[reply]]
    say = [{ text = "c" }]
    """)
    assert parse_script('turn = [[["a", {call = "Read"}], "b"]]\nreply = ["c"]') == long
    assert build_script({"turn": [(("a", {"call": "Read"}), {"text": "b"})], "reply": [["c"]]}) == long
