"""What a command prints, as the model is told of it."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doubles import Run, converse
from polylect.engine.context.output_cleanup import LEVELS, Level, clean_output
from polylect.providers.scripted import Scripted
from polylect.vocab.commands import Configure, Prompt
from polylect.vocab.content import ToolResult
from polylect.vocab.events import Reply
from polylect.vocab.ports import ToolContext, ToolReturn


@pytest.mark.parametrize(
    ("text", "safe", "full"),
    [
        ("\x1b[1;31mred\x1b[0m \x1b]0;title\x07x", "red x", "red x"),
        ("10%\r20%\r100%\r\ndone", "100%\ndone", "100%\ndone"),
        ("a  \nb\t\n", "a\nb\n", "a\nb\n"),
        ("a\n\n\n\nb", "a\n\nb", "a\n\nb"),
        ("x\nx\nx\nx\ny\ny", "x\nx\nx\nx\ny\ny", "x\n[3 more lines like this]\ny\ny"),
        ("  keep\tthis  in", "  keep\tthis  in", "  keep\tthis  in"),
    ],
)
def test_each_level_leaves_out_what_says_nothing(text: str, safe: str, full: str) -> None:
    assert (clean_output(text, "off"), clean_output(text, "safe"), clean_output(text, "full")) == (text, safe, full)


@given(text=st.text(alphabet="ab \t\r\n\x1b[m0"), level=st.sampled_from(LEVELS))
def test_it_never_grows_by_much_and_safe_twice_is_safe_once(text: str, level: Level) -> None:
    once = clean_output(text, level)
    assert len(once) <= max(2 * len(text), 100) + 30 * text.count("\n")
    if level != "full":
        assert clean_output(once, level) == once or "\x1b" in once


class Loud(Run):
    async def work(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        return ToolReturn("\x1b[1mloud\x1b[0m\n\n\n\nend")


def test_the_level_can_be_set_and_a_wrong_one_is_refused(tmp_path: Path) -> None:
    commands = [
        Configure({"compaction": "much"}, ref="r1"),
        Configure({"mode": "force", "compaction": "safe"}, ref="r2"),
        Prompt("t", "go", ref="r3"),
    ]
    model = Scripted.in_order([{"call": "Run", "args": {"command": "x"}}, "done"])
    talk = converse(tmp_path, model, commands, Loud("Run"))
    assert [bool(reply.failure) for reply in talk.of(Reply)] == [True, False, False]
    results = [block for message in talk.messages for block in message.content if isinstance(block, ToolResult)]
    assert [result.output for result in results] == ["loud\n\nend"]
