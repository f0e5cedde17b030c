"""One of everything that can be said, sent through a dialect: what does not arrive is what it leaves unsaid.

`python tests/dialects/everything.py` (with src and tests on the path) writes the finding beside each dialect; a test
holds it to that. Nobody writes such a table by hand: it would lie.
"""

import json
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import Struct

from conversations import READY, SMALL, called, step, text
from dialects.pair import ENDS, Pair
from polylect.dialects.base import Dialect
from polylect.vocab import commands as c
from polylect.vocab import content
from polylect.vocab import events as e

T: dict[str, Any] = {"turn": "t1"}
IMAGE = content.Image("image/gif", "R0lG")
RULE = content.Rule("prefix", "git status")
SERVER = content.Server("team", "http", "node", ("x",), {"A": "1"}, "http://127.0.0.1/", {"B": "2"}, {"deferred": True})
FLAGS = (
    "streaming_tools", "sub_agent_traces", "cost_attribution", "hitl_suspend", "non_destructive_compact",
    "structured_traces", "browser_suite", "computer_use", "plugins", "online_evolution",
)  # fmt: skip
ABILITIES = content.Abilities(
    thinking=True,
    effort_levels=("low",),
    modes=("auto_edit",),
    mcp=True,
    images=True,
    extras=dict.fromkeys(FLAGS, True),
)
ROW = {"turn": 1, "model": "m", "provider": "p", "cost_usd": 0.5}
FAILURE = content.Failure("rate_limit", "slow down", "provider", retryable=True)
RULES = content.StreamRule("r", "x+", "No x.", "x.py")
CALL = content.CallRecord("c", "Bash", {"command": "ls"}, "no", "error", 0, 5_000_000)
USAGE = content.Usage(1, 2, 3, 4, 0.5)

EVENTS: list[e.Event] = [
    e.Ready(version="v", model="m", mode="auto_edit", abilities=ABILITIES, session="s"),
    e.SettingChanged("mode", "force"),
    e.SettingChanged("model", "m2"),
    e.SettingChanged("thinking", 500),
    e.SettingChanged("title", "A talk"),
    e.ServerChanged("team", "ready", ("one", "two")),
    e.ServerChanged("other", "failed", reason="gone"),
    e.ServerChanged("third", "removed"),
    e.QueueChanged(("p",), ("q",), ("r",)),
    e.ShellOutput("r1", "out"),
    e.Ask("d0", "confirm", title="Trust?"),
    e.AskClosed("d0", "answered"),
    e.TurnStarted(**T),
    e.UserMessage("do it", "prompt", (content.File("/a.png"),), **T),
    e.RetryStarted(1, 3, 500, "overloaded", **T),
    e.RetryEnded(True, 1, **T),
    e.StepStarted(**T),
    e.ThinkingDelta("hm", **T),
    e.BlockEnded(content.Thinking("hm", "signed"), **T),
    *text("I will.", **T),
    e.ArgsDelta("c1", "Bash", '{"command":"ls"}', **T),
    e.BlockEnded(content.ToolCall("c1", "Bash", {"command": "ls"}), **T),
    e.ToolCalled("c1", "Bash", {"command": "ls"}, "exec", "Execute: ls", **T),
    e.ToolCalled("c2", "Read", {"file_path": "a"}, "info", "Read a", **T),
    e.ToolCalled("c3", "Edit", {"file_path": "b"}, "edit", "Edit b", **T),
    e.ToolCalled("c4", "AskUserQuestion", {}, "info", "Ask", **T),
    e.ToolCalled("c5", "Write", {}, "edit", "Write", **T),
    e.ReplyEnded("calls", USAGE, "m", "req-1", **T),
    e.Ask("a1", call="c1", name="Bash", args={"command": "ls"}, category="exec", title="Run ls", reason="risky", **T),
    e.AskClosed("a1", "allowed", "fine", **T),
    e.ToolStarted("c1", "Bash", 4711, **T),
    e.Alive("c1", "Bash", **T),
    e.ToolOutput("c1", "one line\n", **T),
    e.ToolOutput("c1", "another\n", True, **T),
    e.ToolFinished("c1", "Bash", "all", metadata={"exit": 0}, **T),
    e.ToolStarted("c2", "Read", **T),
    e.ToolFinished("c2", "Read", "", form="image", images=(IMAGE,), **T),
    e.Ask("a3", call="c3", name="Edit", args={"file_path": "b"}, category="edit", **T),
    e.AskClosed("a3", "denied", "no", **T),
    e.ToolFinished("c3", "Edit", "denied: no", "denied", reason="no", **T),
    e.ToolStarted("c4", "AskUserQuestion", **T),
    e.Ask(
        "a4", "choice", "c4", "AskUserQuestion", title="Which?", multiple=True, default="1", timeout_ms=9,
        options=(content.Option("1", "red", "warm", "k"), content.Option("2", "blue")), **T,
    ),
    e.AskClosed("a4", "answered", **T),
    e.ToolFinished("c4", "AskUserQuestion", "red", "error", **T),
    e.ToolFinished("c5", "Write", "", "skipped", reason="steered", **T),
    e.StepEnded(**T),
    e.StepStarted(**T),
    *called("c6", "Task", {}, **T),
    e.ReplyEnded("calls", SMALL, **T),
    e.ToolStarted("c6", "Task", **T),
    e.AgentStarted(call="c6", name="scout", task="look", agent="k", **T),
    *step(text("Looking.", agent="k", **T), agent="k", **T),
    e.AgentProgress("half", SMALL, 1, agent="k", **T),
    e.AgentEnded(False, "nothing", agent="k", **T),
    e.ToolFinished("c6", "Task", "nothing", form="diff", **T),
    e.StepEnded(**T),
    e.CompactionStarted("overflow", **T),
    e.CompactionEnded(False, "short", 9, 3, "k", "no room", **T),
    e.ContextUsed(5, 9, **T),
    e.CostChanged(USAGE, (ROW,), **T),
    e.BudgetExceeded("max_tokens_out", "9", "8", **T),
    e.PlanChanged((content.PlanItem("first"),), **T),
    e.Display("notify", {"text": "x"}, **T),
    e.HostCall("h1", "fs/read", {"path": "a"}, **T),
    e.HostCallEnded("h1", **T),
    e.Notice("careful", "warning", session="s", **T),
    e.Failed(FAILURE, **T),
    e.ToolCrashed("c", "Bash", "!", **T),
    e.CircuitChanged("p", "half_open", "q", "down", **T),
    e.RulesMatched((RULES,), **T),
    e.StructuredAnswer({"a": 1}, **T),
    e.StepTraced(3, "p", "m", "length", USAGE, (CALL,), 1_000_000, 9_000_000, "down", **T),
    e.ExtensionRejected("x.py", "tools", "duplicate", "taken", **T),
    e.ExtensionFailed("x.py", "prompt", "boom", **T),
    e.ExtensionEvent("x", "built", {"a": 1}, **T),
    e.Extra("browser_policy_denied", {"url": "u", "reason": "r"}, **T),
    e.UnknownEvent("weather", b"{}", **T),
    e.MalformedEvent(b"x", "what?", **T),
    e.TurnEnded("limit", USAGE, 2, FAILURE, **T),
    e.TurnStarted(cause="engine", turn="t2"),
    e.TurnEnded("refused", turn="t2"),
    e.TurnEnded("cancelled", turn="t3"),
    e.Settled(session="s"),
    e.Reply("nobody", {"a": 1}, FAILURE),
]  # fmt: skip
"""Grammatical, and every field of every event has a value of its own somewhere."""

_DRIVES = (e.TurnStarted, e.TurnEnded, e.Ask, e.AskClosed, e.UserMessage)
"""By these `Pair.play` knows what the host did, so a conversation cannot be played without them."""
_WRITTEN_FROM_BLOCKS = {"omp": ("StepStarted", "ThinkingDelta", "TextDelta"), "claude": ("ArgsDelta",)}
"""Events whose frames the engine's end writes also where it gets only the whole block: they are not derived."""
ON_REQUEST = {"claude": {"partial": True}}
"""What an engine says only if it was asked for when it started, as our own hosts do: that is not unsaid."""

COMMANDS: list[c.Command] = [
    c.Hello(host="h", version="1", offers={"files": True}),
    c.Authenticate(method="key"),
    c.OpenSession(how="fork", target="s", at="e", parent="p", cwd="/", folders=("/a",), servers=(SERVER,)),
    c.CloseSession(target="s", delete=True),
    c.Configure({"mode": "force"}),
    c.Configure({"model": "m2"}),
    c.Configure({"name": "A talk"}),
    c.AddContext("Be brief."),
    c.AddServer(SERVER),
    c.ChangeServer("team", "remove"),
    c.Grant(rule=RULE, tokens=1, cost=1.0, revoke=True, id="g", until_ms=9),
    c.Compact("briefly"),
    c.RunShell("ls", private=True),
    c.ChangeSteer("faster", "last", "promote"),
    c.Rewind("m1", True),
    c.Query("state", {"full": True}),
    c.HostReply("h1", {"a": 1}, "no", True),
    c.HostSays("tools_changed", {"a": 1}),
    c.Prompt("t1", "hi", (content.File("/a.png"),), verbatim=True),
    c.Prompt("t1b", "hi", (IMAGE,)),
    c.Prompt("t1c", "hi", schema={"type": "object"}),
    c.Prompt("t1d", "hi", max_cost=0.5, max_tokens=9),
    c.Steer("faster", (content.File("/a.png"),), "last"),
    c.Steer("now"),
    c.Answer("a1", "allow", always=RULE),
    c.Answer("a2", "deny", reason="no", interrupt=True),
    c.Answer("a3", "allow", args={"command": "ls -l"}),
    c.Answer("a4", "allow", value="2"),
    c.Answer("a5", "cancelled"),
    c.Cancel(),
    c.Cancel("shell", "sh1", "keep"),
    c.Quit("done"),
    c.UnknownCommand("weather", b"{}"),
    c.MalformedCommand(b"x", "what?"),
]


def unsaid(dialect: Dialect, version: str) -> tuple[str, ...]:
    """`Event` or `Command` if none ever arrives, `Event.field` if this field of it does not."""
    pair = Pair(dialect, version, **ON_REQUEST.get(dialect.name, {}))
    pair.play(EVENTS)
    lost = [*_lost(EVENTS, pair.received), *_lost(COMMANDS, _understood(dialect, version))]
    return tuple(dict.fromkeys(lost))


def _understood(dialect: Dialect, version: str) -> list[c.Command]:
    pair = Pair(dialect, version)
    pair.send(READY)
    requested: dict[str, str] = {}
    result: list[c.Command] = []
    for command in COMMANDS:
        if isinstance(command, c.Answer):
            command = c.Answer(requested[command.ask], *_fields(command, 1))
        result += pair.ask(command)
        if isinstance(command, c.Compact):
            _end_turns(pair, result)
        if isinstance(command, c.Steer):
            requested = _ask(pair)
    return result


def _end_turns(pair: Pair, told: list[c.Command]) -> None:
    """Where there is no word for something it may have become a prompt, and hosts keep the next one back for it."""
    for turn in [one.turn for one in told if isinstance(one, c.Prompt)]:
        pair.send(e.TurnStarted(turn=turn))
        pair.send(e.TurnEnded("end", turn=turn))


def _ask(pair: Pair) -> dict[str, str]:
    """Put five questions; each is known to the host by some id of its own."""
    options = (content.Option("1", "red"), content.Option("2", "blue"))
    asks = [e.Ask(f"a{n}", "permission", f"k{n}", "Bash", {"command": "ls"}) for n in (1, 2, 3, 5)]
    asks.append(e.Ask("a4", "choice", "k4", options=options))
    known = {}
    for ask in asks:
        pair.send(e.Ask(*_fields(ask, 0), turn="t1"))
        known[ask.ask] = next(received.ask for received in reversed(pair.received) if isinstance(received, e.Ask))
    return known


def _fields(item: Any, start: int) -> tuple[Any, ...]:
    """The positional fields: those that every item has are named."""
    return tuple(getattr(item, name) for name in type(item).__match_args__[start:])


def _lost(sent: Sequence[Any], got: Sequence[Any]) -> Iterator[str]:
    """What is lost of every item of a kind is named once; what is lost of some, with the value that was lost."""
    arrived = {leaf for item in got for leaf in _leaves(item)}
    kinds = {_kind(item) for item in got}
    stored = {path for item in sent for path, value in _leaves(item) if (path, value) in arrived}
    for item in sent:
        if _kind(item) not in kinds:
            yield _kind(item)
            continue
        for path, value in _leaves(item):
            if (path, value) not in arrived:
                yield f"{path}={value}" if path in stored else path


def _kind(item: Any) -> str:
    return f"{type(item).__name__}{' of an agent' if getattr(item, 'agent', '') else ''}"


def _leaves(item: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every field that differs from its default, down into structs. Refs and ask ids are each end's own business."""
    path, kind = path or _kind(item), type(item)
    defaults = (*[None] * (len(kind.__struct_fields__) - len(kind.__struct_defaults__)), *kind.__struct_defaults__)
    for field, default in zip(kind.__struct_fields__, defaults, strict=True):
        value = getattr(item, field)
        if field in ("ref", "ask", "agent") or value == default or value in ((), {}):
            continue
        if isinstance(value, Struct):
            yield from _leaves(value, f"{path}.{field}")
        else:
            yield f"{path}.{field}", str(value)


def missing() -> set[str]:
    """What `EVENTS` and `COMMANDS` forgot, by name."""
    known = {kind.__name__ for kind in (*e.Event.__subclasses__(), *c.Command.__subclasses__())}
    return known - {type(item).__name__ for item in (*EVENTS, *COMMANDS)}


def made(dialect: Dialect, version: str) -> tuple[str, ...]:
    """Events that the host hears though there is no frame for them: its end derives them from other frames."""
    options = ON_REQUEST.get(dialect.name, {})
    whole = Pair(dialect, version, **options)
    whole.play(EVENTS)
    names = []
    for kind in dict.fromkeys(type(event) for event in EVENTS if type(event) not in _DRIVES):
        without = Pair(dialect, version, **options)
        without.play([event for event in EVENTS if type(event) is not kind])
        if without.to_host == whole.to_host and _arrives(kind, without.received):
            names.append(kind.__name__)
    return tuple(name for name in names if name not in _WRITTEN_FROM_BLOCKS.get(dialect.name, ()))


def _arrives(kind: type[e.Event], received: Sequence[e.Event]) -> bool:
    """Whether such an event is heard that says the main thing, its first field, as one that was said."""
    said, arrived = ([event for event in events if type(event) is kind] for events in (EVENTS, received))
    main = kind.__match_args__[0] if kind.__match_args__ else ""
    return any(not main or getattr(one, main) == getattr(other, main) for one in said for other in arrived)


def file_of(dialect: Dialect) -> Path:
    return Path(str(import_module(f"polylect.dialects.{dialect.name}").__file__)).parent / "unsaid.py"


def source(dialect: Dialect) -> str:
    lines = [
        '"""What this wire cannot say, and what its host derives. Written by tests/dialects/everything.py."""',
        "",
        "# fmt: off",
        *_table("UNSAID", {version: unsaid(dialect, version) for version in dialect.versions}),
        '"""`Event` or `Command` that never arrives, `Event.field` that does not, `Event.field=value` of some."""',
        *_table("MADE", {version: made(dialect, version) for version in dialect.versions}),
        '"""Events that have no frame, and that the host\'s end derives from others."""',
    ]
    return "\n".join([*lines, ""])


def _table(name: str, actual: dict[str, tuple[str, ...]]) -> list[str]:
    first = next(iter(actual.values()))
    ever = [one for one in first if all(one in names for names in actual.values())]
    lines = (
        [f"_{name}_IN_ANY = (", *[f"    {json.dumps(one)}," for one in ever], ")"] if ever else [f"_{name}_IN_ANY = ()"]
    )
    lines.append(f"{name}: dict[str, tuple[str, ...]] = {{")
    for version, names in actual.items():
        own = [f"        {json.dumps(one)}," for one in names if one not in ever]
        whole = [f'    "{version}": (', f"        *_{name}_IN_ANY,", *own, "    ),"]
        lines += whole if own else [f'    "{version}": _{name}_IN_ANY,']
    return [*lines, "}"]


if __name__ == "__main__":
    for dialect in {dialect.name: dialect for dialect, _ in ENDS}.values():
        file_of(dialect).write_text(source(dialect), encoding="utf-8")
