"""What a person sees of a turn: Markdown as it streams, calls, diffs in colour, what it cost."""

from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markdown import Markdown
from rich.padding import Padding
from rich.rule import Rule as Line
from rich.spinner import Spinner
from rich.syntax import Syntax
from rich.text import Text

from polylect.vocab.escape import escape_controls
from polylect.vocab.events import (
    AgentEnded,
    AgentStarted,
    BlockEnded,
    CompactionEnded,
    Event,
    Failed,
    Notice,
    PlanChanged,
    RetryStarted,
    StepStarted,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnEnded,
)

_MOST_LINES = 16
_MOST_WANTED = 40
_TAIL = 12
"""Of text that still streams, only so many lines are drawn again and again."""
_MARKS = {"pending": "○", "in_progress": "◐", "completed": "●"}
_SIGNS = {"ok": ("✓", "green"), "error": ("✗", "red")}


class View:
    """Takes events in order. Between `begin` and `end` the last lines of the screen are alive."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._text = ""
        self._thinking = False
        self._doing = "starting"
        self._described: dict[str, str] = {}
        self._output: dict[str, str] = {}

    def begin(self) -> None:
        self._doing = "asking the model"
        self._live = Live(self._moving(), console=self._console, refresh_per_second=8, transient=True)
        self._live.start()

    def end(self) -> None:
        self._settle()
        if self._live:
            self._live.stop()
            self._live = None

    def show(self, thing: RenderableType) -> None:
        """Above what is alive."""
        self._console.print(thing)

    def hear(self, event: Event) -> None:
        match event:
            case StepStarted():
                self._doing = "asking the model"
            case TextDelta(text):
                self._text += escape_controls(text)
            case ThinkingDelta():
                self._doing = "thinking"
            case BlockEnded():
                self._settle()
            case ToolCalled(call, name, args, _, description):
                self._settle()
                self._described[call] = escape_controls(description or _in_short(name, args))
            case ToolStarted(call, name):
                self._doing = self._described.setdefault(call, escape_controls(name))
            case ToolOutput(call, text, replaced):
                text = escape_controls(text)
                self._output[call] = text if replaced else self._output.get(call, "") + text
            case ToolFinished():
                self._finish(event)
            case _:
                self._remark(event)
        if self._live:
            self._live.update(self._moving())

    def _remark(self, event: Event) -> None:
        match event:
            case AgentStarted(name=name):
                self.show(plain(f"  agent {name} is at work", "dim"))
            case AgentEnded(ok):
                self.show(plain(f"  agent {event.agent} has {'ended' if ok else 'failed'}", "dim"))
            case PlanChanged(items):
                self.show(Group(*(plain(f"  {_MARKS.get(item.status, '·')} {item.text}", "cyan") for item in items)))
            case RetryStarted(attempt, most, delay, error):
                self.show(plain(f"  {error}: trying again in {delay / 1000:.0f} s ({attempt} of {most})", "yellow"))
            case CompactionEnded(ok):
                self.show(Text("  the conversation was shortened" if ok else "  it could not be shortened", "dim"))
            case Notice(text, level):
                self.show(plain(f"  {text}", "yellow" if level == "warning" else "dim"))
            case Failed(failure):
                self.show(plain(f"  {failure.message}", "red"))
            case TurnEnded():
                self._settle()
                self.show(_ending(event))

    def _finish(self, event: ToolFinished) -> None:
        self._doing = "going on"
        self._output.pop(event.call, None)
        sign, style = _SIGNS.get(event.outcome, ("−", "yellow"))
        told = self._described.pop(event.call, escape_controls(event.name))
        why = f"  {event.outcome}: {event.reason}" if event.outcome in ("denied", "cancelled", "skipped") else ""
        self.show(Text.assemble((f"{sign} ", style), (told, "bold"), (escape_controls(why), "dim")))
        if event.outcome in ("ok", "error") and event.output:
            self.show(Padding(shown(event.output, event.form, event.outcome == "error"), (0, 0, 0, 2)))

    def _settle(self) -> None:
        """Text that is whole moves up out of what is alive, and stays."""
        if self._text.strip():
            self.show(Markdown(self._text))
        self._text = ""

    def _moving(self) -> RenderableType:
        outputs = [Text("\n".join(text.splitlines()[-3:]), "dim") for text in self._output.values()]
        text = [Markdown("\n".join(self._text.splitlines()[-_TAIL:]))] if self._text.strip() else []
        return Group(*text, *outputs, Spinner("dots", Text(f" {self._doing}", "dim")))


def shown(output: str, form: str, failed: bool = False) -> RenderableType:
    """A tool's output: a diff in colour, anything else by its first lines."""
    lines = escape_controls(output).split("\n")
    text = "\n".join(lines[:_MOST_LINES])
    more = Text(f"… {len(lines) - _MOST_LINES} more lines", "dim") if len(lines) > _MOST_LINES else Text("")
    body: RenderableType = Syntax(text, "diff", background_color="default") if form == "diff" else Text(text)
    if form != "diff":
        body = Text(text, "red" if failed else "dim")
    return Group(body, more) if more.plain else body


def wanted(name: str, args: dict[str, Any]) -> RenderableType:
    """What a call would do, before it is allowed to: all that is not shown is said to be missing."""
    if isinstance(old := args.get("old_string"), str) and isinstance(new := args.get("new_string"), str):
        return _diff([*(f"-{line}" for line in old.split("\n")), *(f"+{line}" for line in new.split("\n"))])
    if isinstance(command := args.get("command"), str):
        return Syntax(escape_controls(command), "bash", background_color="default", word_wrap=True)
    if isinstance(content := args.get("content"), str):
        return _diff([f"+{line}" for line in content.split("\n")])
    return plain(_in_short(name, args), "dim")


def _diff(lines: list[str]) -> RenderableType:
    shown = escape_controls("\n".join(lines[:_MOST_WANTED]))
    body = Syntax(shown, "diff", background_color="default", word_wrap=True)
    more = len(lines) - _MOST_WANTED
    return Group(body, Text(f"… {more} more lines", "yellow")) if more > 0 else body


def plain(text: str, style: str = "") -> Text:
    """Of somebody else's words."""
    return Text(escape_controls(text), style)


def _in_short(name: str, args: dict[str, Any]) -> str:
    told = ", ".join(f"{key}: {' '.join(str(value).split())[:60]}" for key, value in args.items())
    return f"{name} {told}"[:160]


def _ending(ended: TurnEnded) -> RenderableType:
    usage = ended.usage
    cost = "" if usage.cost is None else f", ${usage.cost:.4f}"
    how = "" if ended.reason == "end" else f"{ended.reason}  "
    why = f"{ended.failure.message}  " if ended.failure else ""
    style = "dim" if ended.reason == "end" else "yellow"
    return Line(
        plain(f"{how}{why}{usage.input} tokens in, {usage.output} out{cost}", style), style="dim", align="right"
    )
