"""Draws a turn of `polylect chat`: Markdown as it streams, calls and their output, diffs in colour, the cost.

`Chat` gives every event to `View.update`. Lines that still change (streaming text, the spinner) are redrawn by rich;
finished ones are printed once and stay. Every text of the model, of a tool or of the engine goes through
`escape_controls` first, so that it cannot control the terminal.
"""

from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markdown import Markdown
from rich.padding import Padding
from rich.rule import Rule as Line
from rich.spinner import Spinner
from rich.syntax import Syntax
from rich.text import Text

from polylect.vocab import events as e
from polylect.vocab.escape import escape_controls
from polylect.vocab.tool_names import command_of

_MAX_OUTPUT_LINES = 16
_MAX_PREVIEW_LINES = 40
_STREAMED_LINES = 12
"""How many lines of text that still streams are redrawn with every update."""
_PLAN_MARKS = {"pending": "○", "in_progress": "◐", "completed": "●"}
_OUTCOME_MARKS = {"ok": ("✓", "green"), "error": ("✗", "red")}


class View:
    """Shows the events of a turn in order. Between `start` and `stop` the last lines of the screen are redrawn."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._text = ""
        self._activity = "starting"
        self._descriptions: dict[str, str] = {}
        self._output: dict[str, str] = {}

    def start(self) -> None:
        self._activity = "asking the model"
        self._live = Live(self._live_view(), console=self._console, refresh_per_second=8, transient=True)
        self._live.start()

    def stop(self) -> None:
        self._flush_text()
        if self._live:
            self._live.stop()
            self._live = None

    def show(self, thing: RenderableType) -> None:
        """Prints something for good, above the lines that are redrawn."""
        self._console.print(thing)

    def update(self, event: e.Event) -> None:
        match event:
            case e.StepStarted():
                self._activity = "asking the model"
            case e.TextDelta(text):
                self._text += escape_controls(text)
            case e.ThinkingDelta():
                self._activity = "thinking"
            case e.BlockEnded():
                self._flush_text()
            case e.ToolCalled(call, name, args, _, description):
                self._flush_text()
                self._descriptions[call] = escape_controls(description or _describe_call(name, args))
            case e.ToolStarted(call, name):
                self._activity = self._descriptions.setdefault(call, escape_controls(name))
            case e.ToolOutput(call, text, replaced):
                text = escape_controls(text)
                self._output[call] = text if replaced else self._output.get(call, "") + text
            case e.ToolFinished():
                self._finish(event)
            case _:
                self._show_notice(event)
        if self._live:
            self._live.update(self._live_view())

    def _show_notice(self, event: e.Event) -> None:
        match event:
            case e.AgentStarted(name=name):
                self.show(escaped(f"  agent {name} is at work", "dim"))
            case e.AgentEnded(ok):
                self.show(escaped(f"  agent {event.agent} has {'ended' if ok else 'failed'}", "dim"))
            case e.PlanChanged(items):
                self.show(
                    Group(*(escaped(f"  {_PLAN_MARKS.get(item.status, '·')} {item.text}", "cyan") for item in items))
                )
            case e.RetryStarted(attempt, most, delay, error):
                self.show(escaped(f"  {error}: trying again in {delay / 1000:.0f} s ({attempt} of {most})", "yellow"))
            case e.CompactionEnded(ok):
                self.show(Text("  the conversation was shortened" if ok else "  it could not be shortened", "dim"))
            case e.Notice(text, level):
                self.show(escaped(f"  {text}", "yellow" if level == "warning" else "dim"))
            case e.Failed(failure):
                self.show(escaped(f"  {failure.message}", "red"))
            case e.TurnEnded():
                self._flush_text()
                self.show(_turn_summary(event))

    def _finish(self, event: e.ToolFinished) -> None:
        self._activity = "going on"
        self._output.pop(event.call, None)
        mark, style = _OUTCOME_MARKS.get(event.outcome, ("−", "yellow"))
        description = self._descriptions.pop(event.call, escape_controls(event.name))
        why = f"  {event.outcome}: {event.reason}" if event.outcome in ("denied", "cancelled", "skipped") else ""
        self.show(Text.assemble((f"{mark} ", style), (description, "bold"), (escape_controls(why), "dim")))
        if event.outcome in ("ok", "error") and event.output:
            self.show(Padding(output_view(event.output, event.form, event.outcome == "error"), (0, 0, 0, 2)))

    def _flush_text(self) -> None:
        """Prints the text so far for good, as Markdown, and begins a new one."""
        if self._text.strip():
            self.show(Markdown(self._text))
        self._text = ""

    def _live_view(self) -> RenderableType:
        outputs = [Text("\n".join(text.splitlines()[-3:]), "dim") for text in self._output.values()]
        text = [Markdown("\n".join(self._text.splitlines()[-_STREAMED_LINES:]))] if self._text.strip() else []
        return Group(*text, *outputs, Spinner("dots", Text(f" {self._activity}", "dim")))


def output_view(output: str, form: str, failed: bool = False) -> RenderableType:
    """The output of a tool, as its first lines; a diff in colour."""
    lines = escape_controls(output).split("\n")
    text = "\n".join(lines[:_MAX_OUTPUT_LINES])
    more = Text(f"… {len(lines) - _MAX_OUTPUT_LINES} more lines", "dim") if len(lines) > _MAX_OUTPUT_LINES else Text("")
    body: RenderableType = Text(text, "red" if failed else "dim")
    if form == "diff":
        body = Syntax(text, "diff", background_color="default")
    return Group(body, more) if more.plain else body


def call_preview(name: str, args: dict[str, Any]) -> RenderableType:
    """What a call would do, for the person who has to allow it. Says how many lines are left out."""
    if isinstance(old := args.get("old_string"), str) and isinstance(new := args.get("new_string"), str):
        return _diff([*(f"-{line}" for line in old.split("\n")), *(f"+{line}" for line in new.split("\n"))])
    if (command := command_of(name, args)) is not None:
        return Syntax(escape_controls(command), "bash", background_color="default", word_wrap=True)
    if isinstance(content := args.get("content"), str):
        return _diff([f"+{line}" for line in content.split("\n")])
    return escaped(_describe_call(name, args), "dim")


def _diff(lines: list[str]) -> RenderableType:
    text = escape_controls("\n".join(lines[:_MAX_PREVIEW_LINES]))
    body = Syntax(text, "diff", background_color="default", word_wrap=True)
    more = len(lines) - _MAX_PREVIEW_LINES
    return Group(body, Text(f"… {more} more lines", "yellow")) if more > 0 else body


def escaped(text: str, style: str = "") -> Text:
    """Untrusted text for the console: control characters are escaped and markup is not interpreted."""
    return Text(escape_controls(text), style)


def _describe_call(name: str, args: dict[str, Any]) -> str:
    arguments = ", ".join(f"{key}: {' '.join(str(value).split())[:60]}" for key, value in args.items())
    return f"{name} {arguments}"[:160]


def _turn_summary(ended: e.TurnEnded) -> RenderableType:
    usage = ended.usage
    cost = "" if usage.cost is None else f", ${usage.cost:.4f}"
    how = "" if ended.reason == "end" else f"{ended.reason}  "
    why = f"{ended.failure.message}  " if ended.failure else ""
    style = "dim" if ended.reason == "end" else "yellow"
    return Line(
        escaped(f"{how}{why}{usage.input} tokens in, {usage.output} out{cost}", style), style="dim", align="right"
    )
