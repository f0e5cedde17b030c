"""What was said becomes messages."""

import pytest

from conversations import (
    BACKGROUND_AGENT,
    CALLS_DURING_THE_REPLY,
    CANCELLED_WHILE_A_TOOL_RUNS,
    CONVERSATIONS,
    ERROR,
    PLAIN,
    QUEUED_SECOND_TURN,
    RETRY,
    SMALL,
    STATE_QUERY,
    STEER,
    SUB_AGENT,
    THINKING,
    TWO_CALLS_ONE_DENIED,
)
from polylect.vocab import events as e
from polylect.vocab.answers import State, Stats
from polylect.vocab.content import (
    File,
    Image,
    Message,
    Stop,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from polylect.vocab.transcript import Transcript

T1 = {"turn": "t1"}


def told(events: list[e.Event]) -> Transcript:
    transcript = Transcript()
    for event in events:
        transcript.add(event)
    return transcript


def user(text: str) -> Message:
    return Message("user", (Text(text),))


def assistant(*content: Text | Thinking | ToolCall, stop: Stop = "end", usage: Usage = SMALL) -> Message:
    return Message("assistant", content, stop, usage, "m")


def tool(*results: ToolResult) -> Message:
    return Message("tool", results)


MESSAGES: list[tuple[str, list[e.Event], list[Message]]] = [
    ("plain text", PLAIN, [user("hi"), assistant(Text("Hello"))]),
    ("thinking", THINKING, [user("why?"), assistant(Thinking("let me see", "sig"), Text("Because."))]),
    (
        "results in the order of the calls",
        TWO_CALLS_ONE_DENIED,
        [
            user("do both"),
            assistant(
                Text("I will do both."),
                ToolCall("c1", "Read", {"path": "a"}),
                ToolCall("c2", "Bash", {"command": "rm a"}),
                stop="calls",
            ),
            tool(ToolResult("c1", "Read", "line 1\n"), ToolResult("c2", "Bash", "Tool denied: no", "denied")),
            assistant(Text("Only one was done.")),
        ],
    ),
    (
        "cancelled calls have results",
        CANCELLED_WHILE_A_TOOL_RUNS,
        [
            user("sleep"),
            assistant(
                ToolCall("c1", "Bash", {"command": "sleep 9"}), ToolCall("c2", "Bash", {"command": "ls"}), stop="calls"
            ),
            tool(ToolResult("c1", "Bash", "stopped", "cancelled"), ToolResult("c2", "Bash", "stopped", "cancelled")),
        ],
    ),
    (
        "two turns",
        QUEUED_SECOND_TURN,
        [user("one"), assistant(Text("first")), user("two"), assistant(Text("second"))],
    ),
    (
        "the main lane beside an agent",
        SUB_AGENT,
        [
            user("delegate"),
            assistant(ToolCall("c1", "Task", {"task": "look"}), stop="calls"),
            tool(ToolResult("c1", "Task", "Two files.")),
            assistant(Text("There are two files.")),
        ],
    ),
    ("a retry", RETRY, [user("again"), assistant(Text("at last"))]),
    ("a reply that broke off", ERROR, [user("fail"), assistant(Text("I was say"), stop="error")]),
    (
        "a steer comes after the results",
        STEER,
        [
            user("go"),
            assistant(ToolCall("c1", "Read", {"path": "a"}), stop="calls"),
            tool(ToolResult("c1", "Read", "x")),
            user("faster"),
            assistant(Text("Done.")),
            user("and now?"),
            assistant(Text("Nothing.")),
        ],
    ),
    (
        "a reply that went on while a call ran is one message",
        CALLS_DURING_THE_REPLY,
        [
            user("eager"),
            assistant(
                ToolCall("c1", "Read", {"path": "a"}),
                Text("Meanwhile"),
                ToolCall("c2", "Read", {"path": "b"}),
                stop="calls",
                usage=SMALL + SMALL,
            ),
            tool(ToolResult("c1", "Read", "a"), ToolResult("c2", "Read", "no such file", "error")),
            assistant(Text("Done.")),
        ],
    ),
]


@pytest.mark.parametrize(("name", "events", "messages"), MESSAGES, ids=[row[0] for row in MESSAGES])
def test_events_become_messages(name: str, events: list[e.Event], messages: list[Message]) -> None:
    assert told(events).messages == messages


def test_an_agent_has_a_conversation_of_its_own() -> None:
    transcript = told(SUB_AGENT)
    assert transcript.agents == ["", "k"]
    assert transcript.messages_of("k") == [
        user("look"),
        assistant(Text("Looking."), ToolCall("k1", "Bash", {"command": "ls"}), stop="calls"),
        tool(ToolResult("k1", "Bash", "a\nb")),
        assistant(Text("Two files.")),
    ]
    assert transcript.messages_of("nobody") == []


def test_a_background_agent_speaks_on_after_the_turn() -> None:
    assert told(BACKGROUND_AGENT).messages_of("b") == [assistant(Text("still here"))]


def test_a_reply_is_a_message_once_it_has_ended() -> None:
    ended = next(index for index, event in enumerate(PLAIN) if isinstance(event, e.ReplyEnded))
    assert told(PLAIN[:ended]).messages == [user("hi")]
    assert told(PLAIN[: ended + 1]).messages == [user("hi"), assistant(Text("Hello"))]


def test_a_reply_that_said_nothing_is_no_message() -> None:
    empty = [e.BlockEnded(Text(""), **T1), e.ReplyEnded("end", **T1), e.StepEnded(**T1)]
    assert told([e.TurnStarted(**T1), e.StepStarted(**T1), *empty]).messages == []


def test_pictures_and_what_vendors_want_back_are_kept() -> None:
    picture = Image("image/png", "AA==")
    signed = ToolCall("c1", "Read", {}, {"signature": "s"})
    events: list[e.Event] = [
        e.TurnStarted(**T1),
        e.UserMessage("look", attachments=(File("b.txt"), picture), **T1),
        e.StepStarted(**T1),
        e.BlockEnded(signed, **T1),
        e.ToolCalled("c1", "Read", {}, **T1),
        e.ReplyEnded("calls", SMALL, "m", **T1),
        e.ToolStarted("c1", "Read", **T1),
        e.ToolFinished("c1", "Read", "seen", images=(picture,), **T1),
        e.StepEnded(**T1),
    ]
    assert told(events).messages == [
        Message("user", (Text("look"), picture)),
        assistant(signed, stop="calls"),
        tool(ToolResult("c1", "Read", "seen", images=(picture,))),
    ]


def test_the_state_follows_the_events() -> None:
    middle = next(index for index, event in enumerate(STATE_QUERY) if isinstance(event, e.Reply))
    compacting = next(index for index, event in enumerate(STATE_QUERY) if isinstance(event, e.CompactionStarted))
    assert told(STATE_QUERY[:middle]).state == State("s", "m", "force", busy=True, messages=1)
    assert told(STATE_QUERY[: compacting + 1]).state == State("s", "m", "force", compacting=True, messages=2)
    assert told(STATE_QUERY).state == State("s", "m", "force", messages=2)


def test_settings_and_the_queue_are_part_of_the_state() -> None:
    changes: list[e.Event] = [
        e.SettingChanged("session", "s2"),
        e.SettingChanged("thinking", 4096),
        e.SettingChanged("name", None),
        e.SettingChanged("effort", "high"),
        e.QueueChanged(("a",), ("b",), ("c", "d")),
    ]
    assert told(changes).state == State("s2", thinking="4096", queued=4, settings={"effort": "high"})


def test_the_stats_count_the_main_conversation_and_everyones_tokens() -> None:
    usage = SMALL + SMALL + SMALL + SMALL
    assert told(SUB_AGENT).stats == Stats("s", users=1, assistants=2, calls=1, results=1, usage=usage)


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_usage_is_the_sum_of_all_replies(name: str) -> None:
    events = CONVERSATIONS[name]
    replies = [event.usage for event in events if isinstance(event, e.ReplyEnded)]
    assert told(events).usage == sum(replies, Usage())


def test_a_turns_own_sum_counts_where_replies_told_none_and_where_they_told_less() -> None:
    turn: list[e.Event] = [e.TurnStarted(**T1), e.StepStarted(**T1), e.ReplyEnded("end", Usage(1, 1), **T1)]
    assert told(turn).usage == Usage(1, 1)
    assert told([*turn, e.StepEnded(**T1), e.TurnEnded("end", Usage(5, 5), **T1)]).usage == Usage(5, 5)
    assert told([*turn, e.StepEnded(**T1), e.TurnEnded("end", **T1)]).usage == Usage(1, 1)


def test_a_queued_turn_that_ends_leaves_the_running_one_busy() -> None:
    assert told([e.TurnStarted(**T1), e.TurnEnded("cancelled", turn="t2")]).state == State(busy=True)
