"""Example conversations: whole grammatical lists of events, for every test that needs one."""

from typing import Any

from polylect.vocab.answers import State
from polylect.vocab.content import Failure, Option, Text, Thinking, ToolCall, Usage
from polylect.vocab.events import (
    AgentEnded,
    AgentProgress,
    AgentStarted,
    Alive,
    ArgsDelta,
    Ask,
    AskClosed,
    BlockEnded,
    CompactionEnded,
    CompactionStarted,
    Event,
    Failed,
    Notice,
    QueueChanged,
    Ready,
    Reply,
    ReplyEnded,
    RetryEnded,
    RetryStarted,
    SettingChanged,
    Settled,
    StepEnded,
    StepStarted,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UserMessage,
)

SMALL = Usage(input=10, output=5, cost=0.25)
READY = Ready(version="1", model="m", mode="default", session="s")


def text(*pieces: str, **where: str) -> list[Event]:
    """A block of text: its deltas, then the whole."""
    return [*(TextDelta(piece, **where) for piece in pieces), BlockEnded(Text("".join(pieces)), **where)]


def called(call: str, name: str, args: dict[str, Any], **where: str) -> list[Event]:
    return [BlockEnded(ToolCall(call, name, args), **where), ToolCalled(call, name, args, **where)]


def step(*inner: Event | list[Event], then: tuple[Event, ...] = (), stop: str = "", **where: str) -> list[Event]:
    """One reply, and what was done for it after it ended."""
    said = [event for part in inner for event in (part if isinstance(part, list) else [part])]
    calls = any(isinstance(event, ToolCalled) for event in said)
    ended = ReplyEnded(stop or ("calls" if calls else "end"), SMALL, "m", **where)  # type: ignore[arg-type]
    return [StepStarted(**where), *said, ended, *then, StepEnded(**where)]


def turn(turn: str, prompt: str, *steps: list[Event], ended: TurnEnded | None = None) -> list[Event]:
    usage = sum((SMALL for part in steps for event in part if isinstance(event, ReplyEnded)), Usage())
    main = [event for part in steps for event in part if isinstance(event, StepStarted) and not event.agent]
    return [
        TurnStarted(turn=turn),
        UserMessage(prompt, turn=turn),
        *(event for part in steps for event in part),
        ended or TurnEnded("end", usage, len(main), turn=turn),
    ]


PLAIN: list[Event] = [READY, *turn("t1", "hi", step(text("Hel", "lo", turn="t1"), turn="t1")), Settled()]

THINKING: list[Event] = [
    READY,
    *turn(
        "t1",
        "why?",
        step(
            [
                ThinkingDelta("let me ", turn="t1"),
                ThinkingDelta("see", turn="t1"),
                BlockEnded(Thinking("let me see", signature="sig"), turn="t1"),
            ],
            text("Because.", turn="t1"),
            turn="t1",
        ),
    ),
]

TWO_CALLS_ONE_DENIED: list[Event] = [
    READY,
    *turn(
        "t1",
        "do both",
        step(
            text("I will do both.", turn="t1"),
            called("c1", "Read", {"path": "a"}, turn="t1"),
            [
                ArgsDelta("c2", "Bash", '{"command":', turn="t1"),
                ArgsDelta("c2", "Bash", ' "rm a"}', turn="t1"),
                *called("c2", "Bash", {"command": "rm a"}, turn="t1"),
            ],
            then=(
                Ask("a2", call="c2", name="Bash", args={"command": "rm a"}, turn="t1"),
                ToolStarted("c1", "Read", turn="t1"),
                AskClosed("a2", "denied", "no", turn="t1"),
                ToolFinished("c2", "Bash", "Tool denied: no", "denied", reason="no", turn="t1"),
                ToolOutput("c1", "line 1\n", turn="t1"),
                ToolFinished("c1", "Read", "line 1\n", turn="t1"),
            ),
            turn="t1",
        ),
        step(text("Only one was done.", turn="t1"), turn="t1"),
    ),
]

CANCELLED_WHILE_A_TOOL_RUNS: list[Event] = [
    READY,
    *turn(
        "t1",
        "sleep",
        step(
            called("c1", "Bash", {"command": "sleep 9"}, turn="t1"),
            called("c2", "Bash", {"command": "ls"}, turn="t1"),
            then=(
                Ask("a1", call="c1", name="Bash", args={"command": "sleep 9"}, turn="t1"),
                Ask("a2", call="c2", name="Bash", args={"command": "ls"}, turn="t1"),
                AskClosed("a1", "allowed", turn="t1"),
                ToolStarted("c1", "Bash", turn="t1"),
                Alive("c1", "Bash", turn="t1"),
                AskClosed("a2", "cancelled", turn="t1"),
                ToolFinished("c1", "Bash", "stopped", "cancelled", turn="t1"),
                ToolFinished("c2", "Bash", "stopped", "cancelled", turn="t1"),
            ),
            turn="t1",
        ),
        ended=TurnEnded("cancelled", SMALL, 1, turn="t1"),
    ),
    Reply("stop"),
]

QUEUED_SECOND_TURN: list[Event] = [
    READY,
    TurnStarted(turn="t1"),
    UserMessage("one", turn="t1"),
    StepStarted(turn="t1"),
    TextDelta("fir", turn="t1"),
    QueueChanged(("two", "three")),
    TextDelta("st", turn="t1"),
    BlockEnded(Text("first"), turn="t1"),
    ReplyEnded("end", SMALL, "m", turn="t1"),
    StepEnded(turn="t1"),
    TurnEnded("cancelled", turn="t3"),
    TurnEnded("end", SMALL, 1, turn="t1"),
    QueueChanged(),
    *turn("t2", "two", step(text("second", turn="t2"), turn="t2")),
    Settled(),
]

SUB_AGENT: list[Event] = [
    READY,
    *turn(
        "t1",
        "delegate",
        step(
            called("c1", "Task", {"task": "look"}, turn="t1"),
            then=(
                ToolStarted("c1", "Task", turn="t1"),
                AgentStarted(call="c1", name="scout", task="look", agent="k", turn="t1"),
                UserMessage("look", "engine", agent="k", turn="t1"),
                *step(
                    text("Looking.", agent="k", turn="t1"),
                    called("k1", "Bash", {"command": "ls"}, agent="k", turn="t1"),
                    then=(
                        Ask("a1", call="k1", name="Bash", args={"command": "ls"}, agent="k", turn="t1"),
                        AskClosed("a1", "allowed", agent="k", turn="t1"),
                        ToolStarted("k1", "Bash", agent="k", turn="t1"),
                        ToolFinished("k1", "Bash", "a\nb", agent="k", turn="t1"),
                    ),
                    agent="k",
                    turn="t1",
                ),
                AgentProgress("1 call", SMALL, 1, agent="k", turn="t1"),
                *step(text("Two files.", agent="k", turn="t1"), agent="k", turn="t1"),
                AgentEnded(summary="Two files.", agent="k", turn="t1"),
                ToolFinished("c1", "Task", "Two files.", turn="t1"),
            ),
            turn="t1",
        ),
        step(text("There are two files.", turn="t1"), turn="t1"),
    ),
]

BACKGROUND_AGENT: list[Event] = [
    READY,
    *turn(
        "t1",
        "watch",
        step(
            called("c1", "Task", {"task": "watch"}, turn="t1"),
            then=(
                ToolStarted("c1", "Task", turn="t1"),
                AgentStarted(call="c1", name="watcher", background=True, agent="b", turn="t1"),
                StepStarted(agent="b", turn="t1"),
                TextDelta("still ", agent="b", turn="t1"),
                ToolFinished("c1", "Task", "started", turn="t1"),
            ),
            turn="t1",
        ),
    ),
    TextDelta("here", agent="b"),
    BlockEnded(Text("still here"), agent="b"),
    ReplyEnded("end", SMALL, "m", agent="b"),
    StepEnded(agent="b"),
    AgentEnded(agent="b"),
]

RETRY: list[Event] = [
    READY,
    *turn(
        "t1",
        "again",
        step(
            RetryStarted(1, 3, 500, "overloaded", turn="t1"),
            RetryStarted(2, 3, 1000, "overloaded", turn="t1"),
            RetryEnded(True, 2, turn="t1"),
            text("at last", turn="t1"),
            turn="t1",
        ),
    ),
]

DIALOG: list[Event] = [
    READY,
    Ask("d1", "confirm", title="Trust this folder?"),
    AskClosed("d1", "answered"),
    *turn(
        "t1",
        "ask me",
        step(
            called("c1", "AskUser", {}, turn="t1"),
            then=(
                ToolStarted("c1", "AskUser", turn="t1"),
                Ask("d2", "choice", "c1", title="Which?", options=(Option("1", "red"), Option("2", "blue")), turn="t1"),
                AskClosed("d2", "answered", turn="t1"),
                ToolFinished("c1", "AskUser", "blue", turn="t1"),
            ),
            turn="t1",
        ),
        step(text("Blue it is.", turn="t1"), turn="t1"),
    ),
]

STATE_QUERY: list[Event] = [
    READY,
    SettingChanged("mode", "force"),
    *turn(
        "t1",
        "hi",
        step(
            TextDelta("He", turn="t1"),
            Reply("q1", State("s", "m", "force", busy=True, messages=1)),
            [TextDelta("y", turn="t1"), BlockEnded(Text("Hey"), turn="t1")],
            turn="t1",
        ),
    ),
    CompactionStarted("manual"),
    CompactionEnded(summary="They said hi."),
    Reply("q2", State("s", "m", "force", messages=2)),
]

ERROR: list[Event] = [
    READY,
    Failed(Failure("bad_json", "line 3", "host")),
    *turn(
        "t1",
        "fail",
        step(text("I was say", turn="t1"), stop="error", turn="t1"),
        ended=TurnEnded("error", SMALL, 1, Failure("server", "it broke", "provider", True), turn="t1"),
    ),
    TurnEnded("error", failure=Failure("too_large", "a.png", "user"), turn="t2"),
]

STEER: list[Event] = [
    READY,
    *turn(
        "t1",
        "go",
        step(
            called("c1", "Read", {"path": "a"}, turn="t1"),
            then=(
                ToolStarted("c1", "Read", turn="t1"),
                UserMessage("faster", "steer", turn="t1"),
                ToolFinished("c1", "Read", "x", turn="t1"),
            ),
            turn="t1",
        ),
        step(text("Done.", turn="t1"), turn="t1"),
        [UserMessage("and now?", "follow_up", turn="t1")],
        step(text("Nothing.", turn="t1"), turn="t1"),
        [Notice("That was all.", turn="t1")],
    ),
]

CALLS_DURING_THE_REPLY: list[Event] = [
    READY,
    *turn(
        "t1",
        "eager",
        [
            StepStarted(turn="t1"),
            *called("c1", "Read", {"path": "a"}, turn="t1"),
            ToolStarted("c1", "Read", turn="t1"),
            ReplyEnded("calls", SMALL, "m", turn="t1"),
            *text("Meanwhile", turn="t1"),
            *called("c2", "Read", {"path": "b"}, turn="t1"),
            ToolFinished("c1", "Read", "a", turn="t1"),
            ReplyEnded("calls", SMALL, "m", turn="t1"),
            ToolFinished("c2", "Read", "no such file", "error", turn="t1"),
            StepEnded(turn="t1"),
        ],
        step(text("Done.", turn="t1"), turn="t1"),
    ),
]

CONVERSATIONS: dict[str, list[Event]] = {
    "plain text": PLAIN,
    "thinking": THINKING,
    "two calls, one denied": TWO_CALLS_ONE_DENIED,
    "cancelled while a tool runs": CANCELLED_WHILE_A_TOOL_RUNS,
    "a queued second turn": QUEUED_SECOND_TURN,
    "a sub-agent with a call of its own": SUB_AGENT,
    "an agent in the background": BACKGROUND_AGENT,
    "a retry": RETRY,
    "a dialog": DIALOG,
    "a state query": STATE_QUERY,
    "an error": ERROR,
    "a steer": STEER,
    "calls during the reply": CALLS_DURING_THE_REPLY,
}
