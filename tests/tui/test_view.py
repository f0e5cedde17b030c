"""What a person sees, and what they are spared."""

import io
from typing import Any

import pytest
from rich.console import Console, RenderableType

from polylect.tui.view import View, call_preview, escaped, output_view
from polylect.vocab.content import Failure, PlanItem
from polylect.vocab.escape import escape_controls
from polylect.vocab.events import Event, Failed, Notice, PlanChanged, TextDelta, ToolCalled, ToolFinished, ToolOutput

EVIL = "rm -rf x\rls \x1b[8mhidden\x1b[0m\x1b[1A\x1b[2K\x1b]0;title\x07\x9b2J\u202e"


def printed(*things: RenderableType) -> str:
    console = Console(file=io.StringIO(), width=80)
    for thing in things:
        console.print(thing)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    "args", [{"command": EVIL}, {"content": EVIL}, {"old_string": EVIL, "new_string": "x"}, {"x": EVIL}]
)
def test_what_is_asked_for_cannot_hide_itself(args: dict[str, Any]) -> None:
    text = printed(call_preview("Bash", args))
    assert not set(text) & set("\x1b\r\x07\x9b\u202e")
    assert "\\x1b[8mhidden" in "".join(text.split())


def test_the_command_of_an_ask_is_shown_as_such_also_for_aionrs() -> None:
    assert printed(call_preview("ExecCommand", {"cmd": "ls -l"})) == printed(call_preview("Bash", {"command": "ls -l"}))


def test_what_is_not_shown_of_it_is_said_to_be_missing() -> None:
    text = printed(call_preview("Write", {"content": "line\n" * 99 + "the end"}))
    assert "… 60 more lines" in text


@pytest.mark.parametrize(
    "event",
    [
        TextDelta(EVIL),
        Notice(EVIL),
        Failed(Failure("x", EVIL, "engine")),
        PlanChanged((PlanItem(EVIL),)),
        ToolFinished("c", EVIL, EVIL),
        ToolFinished("c", "Bash", EVIL, "denied", reason=EVIL),
        ToolFinished("c", "Edit", EVIL, form="diff"),
    ],
)
def test_nothing_that_is_heard_reaches_the_terminal_itself(event: Event) -> None:
    console = Console(file=io.StringIO(), width=80)
    view = View(console)
    for each in (ToolCalled("c", "Bash", {}, description=EVIL), ToolOutput("c", EVIL), event):
        view.update(each)
    view.stop()
    assert isinstance(console.file, io.StringIO)
    assert not set(console.file.getvalue()) & set("\x1b\r\x07\x9b\u202e")


def test_words_stay_as_they_are() -> None:
    text = "tab\tline\nüß漢🦊 [bold]\r\n"
    assert escape_controls(text) == text.replace("\r\n", "\n")
    assert printed(escaped("[bold]x[/bold]")) == "[bold]x[/bold]\n"
    assert printed(output_view("a\nb", "text")) == "a\nb\n"
