"""Extensions: a user's own Python in a conversation. Each is a real file."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from doubles import Echo, Hang, Log, Run, Talk, converse, run
from doubles_extensions import extended, loaded, written
from polylect.providers.scripted import Scripted
from polylect.sessions.session import Session
from polylect.sessions.store import MemoryStore
from polylect.vocab.answers import CommandCard
from polylect.vocab.commands import Answer, Cancel, Command, Compact, Hello, Prompt
from polylect.vocab.content import Document, Message, StreamRule, Text
from polylect.vocab.events import (
    Ask,
    AskClosed,
    CompactionEnded,
    Display,
    Event,
    ExtensionFailed,
    ExtensionRejected,
    Notice,
    RulesMatched,
    SettingChanged,
    TextDelta,
    ToolCrashed,
    ToolFinished,
    TurnEnded,
    UserMessage,
)

HELLO = Prompt("t1", "Hello")


def call(name: str = "Echo", **args: Any) -> dict[str, Any]:
    return {"call": name, "id": "c1", "args": args}


def said(talk: Talk) -> str:
    return "".join(event.text for event in talk.of(TextDelta))


# Tools.


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_call_can_be_denied_with_a_reason_or_made_with_other_arguments(tmp_path: Path, kind: str) -> None:
    code = f"""
    def extend(polylect):
        {kind} judge(call):
            if call.args["text"] == "bad":
                return polylect.deny("not that")
            return polylect.change({{"text": call.args["text"].upper()}})
        polylect.before_tool("Echo", judge)
    """
    model = Scripted.in_order([call(text="bad"), "then"], [{**call(text="good"), "id": "c2"}, "so"])
    echo = Echo()
    talk = extended(tmp_path, code, model, [HELLO, Prompt("t2", "Again")], echo)
    assert [(one.outcome, one.output) for one in talk.of(ToolFinished)] == [
        ("denied", "Tool denied: not that"),
        ("ok", "GOOD"),
    ]
    assert echo.ran == [{"text": "GOOD"}]


def test_a_hook_sees_only_the_tools_it_names(tmp_path: Path) -> None:
    code = """
    def extend(polylect):
        @polylect.before_tool("Edit|Run")
        def judge(call):
            return polylect.deny("no")
    """
    model = Scripted.in_order([[call(text="x"), {**call("Run"), "id": "c2"}], "done"])
    talk = extended(tmp_path, code, model, [HELLO], Echo(), Run(), mode="force")
    assert {one.call: one.outcome for one in talk.of(ToolFinished)} == {"c1": "ok", "c2": "denied"}


def test_what_an_extension_changes_is_judged_like_what_the_model_wants(tmp_path: Path) -> None:
    code = """
    def extend(polylect):
        polylect.before_tool("", lambda call: polylect.change({"path": "/etc/passwd"}))
    """
    arguments: list[dict[str, Any]] = []

    def host(event: Event) -> Command | None:
        if not isinstance(event, Ask):
            return None
        arguments.append(event.args)
        return Answer(event.ask, "deny")

    talk = extended(tmp_path, code, Scripted.in_order([call(path="x"), "done"]), [HELLO], Echo(), host=host)
    assert arguments == [{"path": "/etc/passwd"}]
    assert talk.of(ToolFinished)[0].outcome == "denied"


@pytest.mark.parametrize(
    ("opinion", "mode", "asks", "outcome"),
    [
        ("allow()", "default", 0, "ok"),
        ("ask('sure?')", "force", 1, "denied"),
        ("allow()", "plan", 0, "denied"),
    ],
)
def test_an_extension_can_spare_a_question_or_ask_for_one_but_not_lift_a_ban(
    tmp_path: Path, opinion: str, mode: str, asks: int, outcome: str
) -> None:
    code = f"""
    def extend(polylect):
        polylect.before_tool("Run", lambda call: polylect.{opinion})
    """

    def host(event: Event) -> Command | None:
        return Answer(event.ask, "deny") if isinstance(event, Ask) else None

    model = Scripted.in_order([call("Run", command="x"), "done"])
    talk = extended(tmp_path, code, model, [HELLO], Run(), host=host, mode=mode)
    assert len(talk.of(Ask)) == asks
    assert talk.of(ToolFinished)[0].outcome == outcome


def test_what_a_tool_returned_can_be_changed_and_added_to(tmp_path: Path) -> None:
    code = """
    def extend(polylect):
        polylect.after_tool("Echo", lambda call, returned: returned.output.replace("secret", "***"))
        polylect.after_tool("Echo", lambda call, returned: polylect.tell("(cleaned)"))
    """
    model = Scripted.in_order([call(text="a secret"), "{result}"])
    talk = extended(tmp_path, code, model, [HELLO], Echo())
    assert talk.of(ToolFinished)[0].output == "a ***\n\n(cleaned)"
    assert said(talk) == "a ***\n\n(cleaned)"


def test_a_guard_that_fails_lets_nothing_through_and_is_reported(tmp_path: Path) -> None:
    code = """
    def extend(polylect):
        polylect.before_tool("", lambda call: 1 / 0)
    """
    talk = extended(tmp_path, code, Scripted.in_order([call(text="x"), "on"]), [HELLO], Echo())
    path = str(tmp_path / "mine.py")
    failed = ExtensionFailed(path, "before_tool", "ZeroDivisionError: division by zero", turn="t1")
    assert talk.of(ExtensionFailed) == [failed]
    assert [event.level for event in talk.of(Notice)] == ["warning"]
    assert talk.of(ToolFinished)[0].outcome == "denied"
    assert talk.of(TurnEnded)[0].reason == "end"


@pytest.mark.parametrize(
    "fault",
    [
        "raise SystemExit(3)",
        "raise KeyboardInterrupt",
        "raise StopIteration",
        "import time; time.sleep(60)",
        "return 7",
    ],
)
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_nothing_that_a_hook_does_ends_or_holds_up_the_engine(tmp_path: Path, fault: str, kind: str) -> None:
    fault = (
        fault.replace("import time; time.sleep", "import asyncio; await asyncio.sleep") if "async" in kind else fault
    )
    code = f"""
    def extend(polylect):
        {kind} judge(call):
            {fault}
        polylect.before_tool("", judge, timeout=0.05)
    """
    talk = extended(tmp_path, code, Scripted.in_order([call(text="x"), "on"]), [HELLO], Echo())
    assert len(talk.of(ExtensionFailed)) == 1
    assert talk.of(TurnEnded)[0].reason == "end"


def test_an_extension_can_offer_a_tool(tmp_path: Path) -> None:
    code = """
    def extend(polylect):
        @polylect.tool("Add", "Adds.", {"properties": {"a": {"type": "integer"}}}, category="info")
        async def add(args):
            return args["a"] + 1 if await polylect.confirm("Add?") else "no"
    """

    def host(event: Event) -> Command | None:
        return Answer(event.ask, "allow") if isinstance(event, Ask) else None

    model = Scripted.in_order([call("Add", a=1), "{result}"], [{**call("Add"), "id": "c2"}, "oh"])
    talk = extended(tmp_path, code, model, [HELLO, Prompt("t2", "Again")], Echo(), host=host, allow=("Add",))
    assert [event.output for event in talk.of(ToolFinished)] == ["2", "The tool crashed: KeyError: 'a'"]
    assert [(event.kind, event.call) for event in talk.of(Ask)] == [("confirm", "c1"), ("confirm", "c2")]
    assert [event.call for event in talk.of(ToolCrashed)] == ["c2"]


NUMBER = """
    def extend(polylect):
        schema = {"properties": {"number": {"type": "integer"}}, "required": ["number"]}

        @polylect.tool("Square", "Squares.", schema)
        def square(args):
            return args["number"] ** 2
"""


def test_a_tool_is_not_run_with_arguments_that_do_not_fit_its_schema(tmp_path: Path) -> None:
    model = Scripted.in_order([[call("Square", number="seven"), {**call("Square"), "id": "c2"}], "oh"])
    talk = extended(tmp_path, NUMBER, model, [HELLO])
    assert sorted((event.outcome, event.output) for event in talk.of(ToolFinished)) == [
        ("error", "Missing required parameter: number"),
        ("error", "Wrong parameter: number: expected integer, got a string"),
    ]
    assert talk.of(Ask) == []
    assert talk.of(ToolCrashed) == []


def test_arguments_that_a_hook_or_a_person_has_changed_are_checked_again(tmp_path: Path) -> None:
    hook = """
        @polylect.before_tool("Square")
        def judge(call):
            return polylect.change({"number": "x"}) if call.args["number"] == 1 else None
    """

    def host(event: Event) -> Command | None:
        return Answer(event.ask, "allow", args={"number": None}) if isinstance(event, Ask) else None

    model = Scripted.in_order([call("Square", number=1), [{**call("Square", number=2), "id": "c2"}], "oh"])
    talk = extended(tmp_path, NUMBER + hook, model, [HELLO], host=host)
    assert [(event.outcome, event.output) for event in talk.of(ToolFinished)] == [
        ("error", "Wrong parameter: number: expected integer, got a string (as a hook has changed it)"),
        ("error", "Wrong parameter: number: expected integer, got null (as whoever approved it has changed it)"),
    ]


# Prompts and commands.


def test_a_prompt_can_be_put_in_other_words_and_context_added(tmp_path: Path) -> None:
    code = """
    def extend(polylect):
        polylect.on_prompt(lambda text: text.replace("Hello", "Good day"))
        polylect.on_prompt(lambda text: polylect.tell(f"{text} has {len(text)} letters"))
    """
    store = MemoryStore("s1")
    talk = extended(tmp_path, code, Scripted.in_order("Hi"), [HELLO], store=store)
    assert talk.messages[0] == Message("user", (Text("Good day"), Text("Good day has 8 letters")))
    assert [event.text for event in talk.of(UserMessage)] == ["Good day\nGood day has 8 letters"]
    assert said(talk) == "Hi"


def test_what_came_with_a_prompt_stays_when_its_words_change(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("a note")
    code = "def extend(polylect): polylect.on_prompt(lambda text: 'other')"
    store = MemoryStore("s1")
    document = Document("note.txt", "text/plain", "a note")
    prompt = Prompt("t1", "Hello", attachments=(document,))
    talk = extended(tmp_path, code, Scripted.in_order("Hi"), [prompt], store=store)
    assert talk.messages[0] == Message("user", (Text("other"), document))


def test_a_refused_prompt_never_becomes_part_of_the_conversation(tmp_path: Path) -> None:
    code = "def extend(polylect): polylect.on_prompt(lambda text: polylect.deny('not today'))"
    talk = extended(tmp_path, code, Scripted.in_order("Hi"), [HELLO])
    assert talk.story == ["turn_started t1", "notice not today warning", "turn_ended t1 refused", "settled"]
    assert talk.messages == []


def test_a_command_is_carried_out_and_the_model_hears_nothing_of_it(tmp_path: Path) -> None:
    code = """
    def extend(polylect):
        @polylect.command("count", description="Counts words")
        def count(words):
            return f"{len(words.split())} words"
        polylect.command("quiet", lambda words: None)
    """
    prompts: list[Command] = [
        Hello(),
        Prompt("t1", "/count one two"),
        Prompt("t2", "/quiet"),
        Prompt("t3", "/count raw", verbatim=True),
        Prompt("t4", "/unknown"),
    ]
    talk = extended(tmp_path, code, Scripted.in_order("raw", "unknown"), prompts)
    [*_, commands] = [event.value for event in talk.of(SettingChanged) if event.key == "commands"]
    own = [card for card in commands if not card.builtin]
    assert own == [CommandCard("count", "Counts words"), CommandCard("quiet")]
    assert [(event.text, event.turn) for event in talk.of(Notice)] == [("2 words", "t1")]
    assert said(talk) == "rawunknown"
    assert [message.content[0] for message in talk.messages if message.role == "user"] == [
        Text("/count raw"),
        Text("/unknown"),
    ]
    assert {event.reason for event in talk.of(TurnEnded)} == {"end"}


def test_a_command_that_fails_is_reported_and_its_turn_ends(tmp_path: Path) -> None:
    code = "def extend(polylect): polylect.command('go', lambda words: int(words))"
    talk = extended(tmp_path, code, Scripted.in_order("Hi"), [Prompt("t1", "/go x")])
    assert talk.of(ExtensionFailed)[0].moment == "command:go"
    assert talk.of(TurnEnded)[0].reason == "end"


def test_a_command_can_be_stopped(tmp_path: Path) -> None:
    code = """
    def extend(polylect):
        @polylect.command("wait")
        async def wait(words):
            await polylect.confirm("Well?")
    """

    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "/wait"))
        await talk.until(Ask)
        talk.send(Cancel())

    talk = run(conversation, tmp_path, Scripted.in_order("Hi"), hooks=loaded(written(tmp_path, code)))
    assert talk.of(TurnEnded)[0].reason == "cancelled"


# Sessions, summaries, ends.


def test_a_session_start_can_tell_the_model_something_and_its_end_is_told(tmp_path: Path) -> None:
    code = """
    import pathlib
    def extend(polylect):
        polylect.on_session_start(lambda: f"resumed: {polylect.resumed}")
        polylect.on_session_end(lambda: pathlib.Path(polylect.workspace, "end").write_text("over"))
    """
    talk = extended(tmp_path, code, Scripted.in_order("Hi"), [HELLO, Prompt("t2", "Again")])
    assert talk.session.contexts == ["resumed: False"]
    assert (tmp_path / "end").read_text() == "over"


def test_a_summary_heeds_what_an_extension_wants_kept_or_is_not_made(tmp_path: Path) -> None:
    code = """
    def extend(polylect):
        polylect.on_compaction(lambda reason: polylect.deny("later") if reason == "manual" else None)
    """

    async def conversation(talk: Talk) -> None:
        talk.send(HELLO, Prompt("t2", "Again"))
        await talk.engine.settled()
        talk.send(Compact())

    talk = run(conversation, tmp_path, Scripted.in_order("a" * 400, "b" * 400), hooks=loaded(written(tmp_path, code)))
    ended = [(event.ok, event.error) for event in talk.of(CompactionEnded)]
    assert ended == [(False, "The conversation was not shortened: later")]


def test_the_model_is_sent_on_when_it_would_stop_but_not_for_ever(tmp_path: Path) -> None:
    code = """
    def extend(polylect):
        polylect.on_stop(lambda text, again: f"{text} is not enough: {again}")
    """
    talk = extended(tmp_path, code, Scripted.in_order("a", "b", "c", "d"), [HELLO])
    assert said(talk) == "abcd"
    assert [event.text for event in talk.of(UserMessage)][1:] == [
        "a is not enough: False",
        "b is not enough: True",
        "c is not enough: True",
    ]


# Stream rules.


def test_a_rule_stops_the_reply_reminds_the_model_and_asks_again(tmp_path: Path) -> None:
    code = """
    def extend(polylect):
        polylect.rule(r"console\\.log", "Use the logger.", name="logger")
    """
    model = Scripted.in_order({"say": ["use console", ".log here", " and more"]}, "use the logger")
    talk = extended(tmp_path, code, model, [HELLO])
    rule = StreamRule("logger", r"console\.log", "Use the logger.", str(tmp_path / "mine.py"))
    assert talk.story == [
        "turn_started t1",
        "user_message Hello",
        "step_started",
        "text_delta use console",
        "text_delta .log here",
        "block_ended use console.log here",
        "reply_ended cancelled stopped by the rule logger",
        "step_ended",
        f"rules_matched {(rule,)}",
        "user_message Use the logger. engine",
        "step_started",
        "text_delta use the logger",
        "block_ended use the logger",
        "reply_ended end",
        "step_ended",
        "turn_ended t1 end 2",
        "settled",
    ]


def test_a_model_that_cannot_help_it_is_let_through_after_three_reminders(tmp_path: Path) -> None:
    code = "def extend(polylect): polylect.rule('x', 'no x')"
    talk = extended(tmp_path, code, Scripted.in_order("x1", "x2", "x3", "x4"), [HELLO])
    assert len(talk.of(RulesMatched)) == 3
    assert talk.of(TurnEnded)[0].reason == "end"


# Dialogs.


def test_questions_and_things_to_show_reach_the_host_in_the_turn_they_belong_to(tmp_path: Path) -> None:
    code = """
    def extend(polylect):
        @polylect.command("all", timeout=0.2)
        async def all(words):
            polylect.notify("working", "warning")
            polylect.status("s", "busy")
            polylect.status("s", None)
            polylect.widget("w", ["one", "two"])
            polylect.title("T")
            return [
                await polylect.confirm("Sure?", "really"),
                await polylect.select("Which?", ["a", "b"]),
                await polylect.input("Name?", "yours"),
                await polylect.editor("Edit", "draft"),
            ]
    """
    answers = iter([("allow", True), ("allow", "b"), ("deny", None), ("allow", "draft 2")])

    def host(event: Event) -> Command | None:
        if not isinstance(event, Ask):
            return None
        verdict, value = next(answers)
        return Answer(event.ask, verdict, value)  # type: ignore[arg-type]

    talk = extended(tmp_path, code, Scripted.in_order("Hi"), [Prompt("t1", "/all")], host=host)
    assert [event.text for event in talk.of(Notice)] == ["[True, 'b', None, 'draft 2']"]
    assert [(event.kind, event.title, event.reason, event.default, event.turn) for event in talk.of(Ask)] == [
        ("confirm", "Sure?", "really", "", "t1"),
        ("choice", "Which?", "", "", "t1"),
        ("text", "Name?", "yours", "", "t1"),
        ("text", "Edit", "", "draft", "t1"),
    ]
    assert [(event.method, event.params) for event in talk.of(Display)] == [
        ("notify", {"message": "working", "notifyType": "warning"}),
        ("setStatus", {"statusKey": "s", "statusText": "busy"}),
        ("setStatus", {"statusKey": "s"}),
        ("setWidget", {"widgetKey": "w", "widgetLines": ["one", "two"]}),
        ("setTitle", {"title": "T"}),
    ]


def test_the_time_a_person_takes_is_not_the_extensions(tmp_path: Path) -> None:
    code = """
    def extend(polylect):
        @polylect.before_tool("Echo", timeout=0.05)
        async def judge(call):
            return polylect.allow() if await polylect.confirm("Sure?") else polylect.deny("no")
    """

    async def conversation(talk: Talk) -> None:
        talk.send(HELLO)
        ask = await talk.until(Ask)
        await asyncio.sleep(0.1)  # the thing itself: longer than the deadline
        talk.send(Answer(ask.ask, "allow", True))

    model = Scripted.in_order([call(text="x"), "done"])
    talk = run(conversation, tmp_path, model, Echo(), hooks=loaded(written(tmp_path, code)))
    assert talk.of(ToolFinished)[0].outcome == "ok"


def test_a_question_that_outlives_its_turn_belongs_to_the_session(tmp_path: Path) -> None:
    code = """
    import asyncio
    def extend(polylect):
        @polylect.command("later")
        async def later(words):
            polylect.task = asyncio.create_task(polylect.confirm("Still there?"))
            await asyncio.sleep(0)
            return "started"
    """

    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "/later"))
        ask = await talk.until(Ask)
        assert ask.turn == ""
        await talk.until(TurnEnded)
        talk.send(Answer(ask.ask, "allow"))
        await talk.until(AskClosed)

    run(conversation, tmp_path, Scripted.in_order("Hi"), hooks=loaded(written(tmp_path, code)))


# Loading.


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def extend(polylect): raise ValueError('broken')", "ValueError: broken"),
        ("x = (", "SyntaxError"),
        ("x = 1", "ImportError: it has no function extend(polylect)"),
        ("import nothing_of_this_name", "ModuleNotFoundError"),
        ("def extend(polylect): polylect.rule('(', 'x')", "rror: missing )"),
        ("def extend(polylect): polylect.tool('a b', '', {}, print)", "ValueError: 'a b' is no name for a tool"),
        ("raise SystemExit(1)", "SystemExit"),
    ],
)
def test_an_extension_that_cannot_be_loaded_is_reported_and_the_others_are(
    tmp_path: Path, code: str, message: str
) -> None:
    good = written(tmp_path, "def extend(polylect): polylect.command('ok', lambda words: 'fine')", "good.py")
    bad = written(tmp_path, code, "bad.py")
    talk = converse(tmp_path, Scripted.in_order("Hi"), [Prompt("t1", "/ok")], hooks=loaded(bad, good))
    (failed,) = talk.of(ExtensionRejected)
    assert failed.extension == bad
    assert message in failed.message
    assert talk.of(Notice)[-1].text == "fine"


def test_an_extension_that_never_finishes_loading_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polylect.extensions.extensions.LOAD_BOUND", 0.1)
    bad = written(tmp_path, "import threading; threading.Event().wait()")
    talk = converse(tmp_path, Scripted.in_order("Hi"), [HELLO], hooks=loaded(bad))
    assert "it took longer than 0.1 s" in talk.of(ExtensionRejected)[0].message
    assert said(talk) == "Hi"


def test_names_that_are_taken_are_reported(tmp_path: Path) -> None:
    code = """
    def extend(polylect):
        polylect.command("go", lambda words: "first")
        polylect.command("go", lambda words: "second")
        polylect.tool("Echo", "", {}, print)
    """
    talk = extended(tmp_path, code, Scripted.in_order("Hi"), [Prompt("t1", "/go")], Echo())
    assert [(event.surface, event.code) for event in talk.of(ExtensionRejected)] == [
        ("commands", "duplicate"),
        ("tools", "duplicate"),
    ]
    assert talk.of(Notice)[-1].text == "first"


def test_an_engine_that_is_closed_while_extensions_load_does_not_wait(tmp_path: Path) -> None:
    path = written(tmp_path, "import threading; threading.Event().wait()")

    async def conversation(talk: Talk) -> None:
        pass

    run(conversation, tmp_path, Scripted.in_order("Hi"), Hang(), hooks=loaded(path))


def test_what_an_amended_prompt_was_is_read_back_as_it_became(tmp_path: Path) -> None:
    log = Log()
    session = Session(log)
    session.accept("t1", Message("user", (Text("a"),)))
    session.amend("t1", "b")
    session.begin("t1")
    assert Session(log.read_back()).messages == session.messages == [Message("user", (Text("b"),))]
