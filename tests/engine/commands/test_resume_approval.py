"""A script that waited for a person when the engine ended goes on when the answer comes (A6, S4)."""

import asyncio
from itertools import count
from pathlib import Path
from typing import Any, Literal

import pytest

from doubles import Echo, Edit, Hang, Log, Run, Talk, check_history, run
from machine import PATIENCE
from polylect.providers.scripted import Scripted
from polylect.sessions.library import FileLibrary
from polylect.sessions.replay import CUT_OFF
from polylect.sessions.session import Session
from polylect.sessions.suspension import question_in
from polylect.vocab.answers import SessionOpened, ShellResult
from polylect.vocab.commands import Answer, Cancel, Command, Compact, OpenSession, Prompt
from polylect.vocab.content import Message, ToolResult
from polylect.vocab.entries import Opened
from polylect.vocab.events import (
    Ask,
    Event,
    Reply,
    StructuredAnswer,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from polylect.vocab.ports import ToolContext, ToolReturn
from polylect.wire import jsonl

OPTIONS: dict[str, Any] = {"script_tool": True, "allow_list": ("Script", "Echo", "Hang", "Fail", "Crash", "Leak")}
WAITED = "waited for a person's answer when the engine ended, and was not run."


def step(id: str, tool: str = "Echo", gated: bool = False, **args: Any) -> dict[str, Any]:
    return {"id": id, "tool": tool, "input": args, **({"approval_required": True} if gated else {})}


def script(*steps: dict[str, Any], id: str = "s") -> dict[str, Any]:
    return {"call": "Script", "id": id, "args": {"steps": list(steps)}}


def model(*calls: dict[str, Any]) -> Scripted:
    return Scripted.from_values({"reply": [{"when": {"step": 1}, "say": list(calls)}, {"say": ["done"]}]})


GO = Prompt("t1", "go")
THREE = script(step("a", text="one"), step("b", gated=True, text="two"), step("c", text="three"))


def left_behind(
    folder: Path, *calls: dict[str, Any], asks: int = 1, prompt: Prompt = GO, **options: Any
) -> tuple[Log, list[str]]:
    """The log of an engine that died while scripts waited, and their tokens."""

    async def conversation() -> tuple[Log, list[str]]:
        log = Log()
        talk = Talk(
            folder,
            model(*calls),
            *(Echo(), Hang(), Run(), Edit(), Echo("Leak")),
            store=log,
            new_id=map("id{}".format, range(100)).__next__,
            **{**OPTIONS, **options},
        )
        talk.send(prompt)
        async with asyncio.timeout(PATIENCE):
            await talk.until(Ask, asks)
        return log.read_back(), [ask.ask for ask in talk.of(Ask)]

    return asyncio.run(conversation())


def answer(token: str, verdict: Any = "allow", **more: Any) -> Answer:
    return Answer(token, verdict, ref="r", **more)


def resume(folder: Path, log: Log, *commands: Command, tools: tuple[Any, ...] = (), **options: Any) -> Talk:
    """The next engine is told this."""

    async def conversation(talk: Talk) -> None:
        talk.send(*commands)

    return run(conversation, folder, model(), *(tools or (Echo(),)), store=log, **{**OPTIONS, **options})


def _yes(event: Event) -> Command | None:
    return Answer(event.ask, "allow") if isinstance(event, Ask) else None


def _no(event: Event) -> Command | None:
    return Answer(event.ask, "deny") if isinstance(event, Ask) else None


def failures(talk: Talk) -> list[str]:
    return [reply.failure.code if reply.failure else "" for reply in talk.of(Reply)]


def results(messages: list[Message]) -> list[ToolResult]:
    return [block for message in messages for block in message.content if isinstance(block, ToolResult)]


def test_the_turn_goes_on_to_its_end_under_its_id(tmp_path: Path) -> None:
    log, [token] = left_behind(tmp_path, THREE)
    tool = Echo()
    talk = resume(tmp_path, log, answer(token), tools=(tool,))
    assert [(event.turn, event.cause) for event in talk.of(TurnStarted)] == [("t1", "prompt")]
    assert [(ended.turn, ended.reason, ended.steps) for ended in talk.of(TurnEnded)] == [("t1", "end", 2)]
    assert [finished.output for finished in talk.of(ToolFinished)] == ["[a] Echo: one\n[b] Echo: two\n[c] Echo: three"]
    assert tool.ran == [{"text": "two"}, {"text": "three"}]
    assert "".join(delta.text for delta in talk.of(TextDelta)) == "done"
    assert talk.of(Ask) == []


def test_what_the_turn_had_used_before_is_counted(tmp_path: Path) -> None:
    log, [token] = left_behind(tmp_path, THREE)
    talk = resume(tmp_path, log, answer(token))
    assert talk.of(TurnEnded)[0].usage == talk.session.usage
    log, [token] = left_behind(tmp_path, THREE)
    talk = resume(tmp_path, log, answer(token), max_turns=1)
    assert (talk.of(TurnEnded)[0].reason, talk.of(TextDelta)) == ("limit", [])


def test_the_caps_of_its_prompt_still_hold(tmp_path: Path) -> None:
    log, [token] = left_behind(tmp_path, THREE, prompt=Prompt("t1", "go", max_tokens=1))
    talk = resume(tmp_path, log, answer(token))
    assert (talk.of(TurnEnded)[0].reason, talk.of(TextDelta)) == ("limit", [])


def test_the_answer_still_has_to_fit_the_schema_of_its_prompt(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    log, [token] = left_behind(tmp_path, THREE, prompt=Prompt("t1", "go", schema=schema))
    talk = resume(tmp_path, log, answer(token))
    assert (talk.of(TurnEnded)[0].reason, talk.of(StructuredAnswer)) == ("error", [])


def test_a_no_counts_too_also_where_rules_allow_it_by_now(tmp_path: Path) -> None:
    log, [token] = left_behind(tmp_path, script(step("a", "Run"), step("b")))
    tool = Run()
    talk = resume(tmp_path, log, answer(token, "deny", reason="no"), tools=(tool, Echo()), mode="force")
    result = "[a] Run: Tool denied: no\nStopped: step 'a' was denied. Not run: b."
    assert [finished.output for finished in talk.of(ToolFinished)] == [result]
    assert tool.ran == []


def test_A6_another_token_wakes_nothing_and_the_right_one_counts_once(tmp_path: Path) -> None:
    log, [token] = left_behind(tmp_path, THREE)
    talk = resume(tmp_path, log, answer("ask-x"), answer(token), answer(token))
    assert failures(talk) == ["unknown_ask", "", "unknown_ask"]
    talk = resume(tmp_path, log.read_back(), answer(token), made=_Idle)
    assert failures(talk) == ["unknown_ask"]


def test_A2_an_answer_after_the_deadline_is_refused_and_the_script_lapses(tmp_path: Path) -> None:
    log, [token] = left_behind(tmp_path, THREE, approval_timeout=0.0005)
    talk = resume(tmp_path, log, answer(token), answer(token), made=_Idle)
    assert failures(talk) == ["unknown_ask", "unknown_ask"]
    assert WAITED in results(talk.messages)[0].output


def test_A6_the_log_does_not_have_the_token_and_the_model_does_not_get_it(tmp_path: Path) -> None:
    log, [token] = left_behind(tmp_path, script(step("b", gated=True), step("c", "Leak")))
    assert token.encode() not in b"".join(map(jsonl.dump, log.entries))

    class Leak(Echo):
        async def work(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
            return ToolReturn(f"it was {token}")

    talk = resume(tmp_path, log, answer(token), tools=(Echo(), Leak()))
    assert results(talk.messages)[0].output.endswith("[c] Leak: it was [removed]")


def test_nothing_runs_and_nothing_is_asked_until_then(tmp_path: Path) -> None:
    log, [token] = left_behind(tmp_path, THREE)
    writes = log.writes
    asleep = resume(tmp_path, log, made=_Idle)
    assert (asleep.events, log.writes) == ([], writes)
    assert list(Session(log.read_back()).suspended) == ["s"]
    assert failures(resume(tmp_path, log.read_back(), answer(token))) == [""]


def test_S4_a_prompt_lets_it_lapse_and_the_model_is_told_how_far_it_came(tmp_path: Path) -> None:
    log, [token] = left_behind(tmp_path, THREE)
    talk = resume(tmp_path, log, Prompt("t2", "well?"), answer(token), made=_Idle)
    result = f"[a] Echo: one\n[b] Echo: {WAITED}\nNot run: c."
    assert results(talk.messages) == [ToolResult("s", "Script", result, "cancelled")]
    assert failures(talk) == ["unknown_ask"]
    assert [ended.turn for ended in talk.of(TurnEnded)] == ["t2"]
    assert Session(log.read_back()).suspended == {}


def test_S4_a_prompt_that_waited_behind_it_lets_it_lapse(tmp_path: Path) -> None:
    async def conversation() -> Log:
        log = Log()
        talk = Talk(tmp_path, model(THREE), Echo(), store=log, **OPTIONS)
        talk.send(Prompt("t1", "go"))
        await talk.until(Ask)
        talk.send(Prompt("t2", "and then"))
        return log.read_back()

    session = Session(asyncio.run(conversation()))
    check_history(session.messages[:-1])
    assert session.suspended == {}
    assert [message.role for message in session.messages] == ["user", "assistant", "tool", "user"]


@pytest.mark.parametrize("how", ["shell", "compaction", "fork"])
def test_S4_whatever_moves_the_conversation_on_lets_it_lapse(tmp_path: Path, how: str) -> None:
    long = script(step("a", text="one " * 100), step("b", gated=True, text="two"), step("c", text="three"))
    log, _ = left_behind(tmp_path, long)
    if how == "fork":
        log.append(Opened("s2", "", parent="s1"))
        session = Session(log)
    elif how == "shell":
        session = Session(log)
        session.add_shell_result(ShellResult("ls", "", 0))
    else:
        talk = resume(tmp_path, log, Compact(), made=_Idle)
        session = talk.session
    check_history(session.messages)
    assert session.suspended == {}
    assert WAITED in results(session.messages)[0].output


def test_a_crash_in_the_woken_step_leaves_its_effects_unknown_and_it_does_not_run_again(tmp_path: Path) -> None:
    log, [token] = left_behind(tmp_path, script(step("a", text="one"), step("b", "Hang", gated=True)))

    async def conversation() -> Log:
        tool = Hang()
        talk = Talk(tmp_path, model(), tool, Echo(), store=log, **OPTIONS)
        talk.send(answer(token))
        at_once = log.read_back()
        assert Session(at_once).suspended == {}
        await tool.started.wait()
        return log.read_back()

    log = asyncio.run(conversation())
    talk = resume(tmp_path, log, answer(token), made=_Idle)
    assert failures(talk) == ["unknown_ask"]
    assert results(talk.messages) == [ToolResult("s", "Script", CUT_OFF, "cancelled")]


def test_S4_a_crash_at_any_moment_leaves_a_valid_history_and_no_step_runs_twice(tmp_path: Path) -> None:
    log, [token] = left_behind(tmp_path, THREE)
    before, running = len(log.entries), []

    class Noted(Echo):
        async def work(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
            running.append(len(log.entries))
            return await super().work(args, context)

    resume(tmp_path, log, answer(token), tools=(Noted("Echo"),))
    assert running[0] > before
    for length in range(before, len(log.entries) + 1):
        session = Session(Log(log.entries[:length]).read_back())
        assert list(session.suspended) == (["s"] if length == before else [])
        session.expire_suspended()
        check_history(session.messages)


@pytest.mark.parametrize("how", ["new", "fork"])
def test_another_session_lets_it_lapse_here_and_does_not_take_it_along(
    tmp_path: Path, how: Literal["new", "fork"]
) -> None:
    log, [token] = left_behind(tmp_path, THREE)
    library = FileLibrary(str(tmp_path / "sessions"), str(tmp_path), map("e{}".format, count()).__next__)
    store = library.create()
    store.append(*(entry.body for entry in log.entries if not isinstance(entry.body, Opened)))

    async def conversation(talk: Talk) -> None:
        assert list(talk.session.suspended) == ["s"]
        assert isinstance(await talk.answer(OpenSession(how, ref="o")), SessionOpened)
        refused = await talk.answer(answer(token))
        assert (refused.code, talk.engine.agent.session.suspended) == ("unknown_ask", {})
        check_history(talk.engine.agent.session.messages)

    run(conversation, tmp_path, model(), Echo(), made=_Idle, store=store, library=library, **OPTIONS)
    left = library.resume(store.session)
    assert WAITED in results(Session(left).messages)[0].output
    left.close()


def test_a_woken_script_may_wait_and_be_left_again(tmp_path: Path) -> None:
    steps = script(step("a", text="one"), step("b", gated=True, text="two"), step("c", gated=True, text="three"))
    log, [token] = left_behind(tmp_path, steps)

    async def conversation() -> tuple[Log, str]:
        talk = Talk(tmp_path, model(), Echo(), store=log, new_id=map("new{}".format, range(9)).__next__, **OPTIONS)
        talk.send(answer(token))
        ask = await talk.until(Ask)
        return log.read_back(), ask.ask

    log, second = asyncio.run(conversation())
    tool = Echo()
    talk = resume(tmp_path, log, answer(token), answer(second), tools=(tool,))
    assert failures(talk) == ["unknown_ask", ""]
    assert tool.ran == [{"text": "three"}]
    assert results(talk.messages)[0].output == "[a] Echo: one\n[b] Echo: two\n[c] Echo: three"


def test_A5_what_is_no_longer_what_was_asked_is_asked_anew(tmp_path: Path) -> None:
    log, [token] = left_behind(tmp_path, script(step("a", "Run")))

    tool = Run()
    talk = resume(tmp_path, log, answer(token), tools=(tool,), mode="auto_edit", host=_no)
    assert (len(talk.of(Ask)), tool.ran) == (1, [])


def test_a_link_that_leads_elsewhere_by_now_is_asked_about_anew(tmp_path: Path) -> None:
    workspace, link = tmp_path / "workspace", tmp_path / "workspace" / "link"
    workspace.mkdir()
    link.symlink_to(tmp_path / "harmless")
    log, [token] = left_behind(workspace, script(step("a", "Edit", path="link")))
    link.unlink()
    link.symlink_to(tmp_path / "precious")
    tool = Edit()
    talk = resume(workspace, log, answer(token), tools=(tool,), host=_no)
    assert [str(tmp_path / "precious") in ask.reason for ask in talk.of(Ask)] == [True]
    assert tool.ran == []


@pytest.mark.parametrize(
    ("settings", "outcome"),
    [({"deny": ("Echo",)}, "error"), ({"mode": "plan"}, "denied"), ({"mode": "dont_ask"}, "error")],
)
def test_A8_rules_that_hold_now_hold_for_it(tmp_path: Path, settings: dict[str, Any], outcome: str) -> None:
    log, [token] = left_behind(tmp_path, THREE)
    tool = Echo()
    talk = resume(tmp_path, log, answer(token), tools=(tool,), **settings)
    assert ([finished.outcome for finished in talk.of(ToolFinished)], tool.ran) == ([outcome], [])


def test_without_the_tool_the_model_is_told_how_far_it_came(tmp_path: Path) -> None:
    log, [token] = left_behind(tmp_path, THREE)
    talk = resume(tmp_path, log, answer(token), script_tool=False)
    assert results(talk.messages)[0].output.endswith("Not run: c.\nThere is no Script any more.")


@pytest.mark.parametrize("odd", [10**30, float("inf"), {"b": 1, "a": [None]}])
def test_arguments_of_any_kind_can_wait(tmp_path: Path, odd: Any) -> None:
    log, [token] = left_behind(tmp_path, script(step("a", gated=True, text="one", odd=odd)))
    tool = Echo()
    talk = resume(tmp_path, log, answer(token), tools=(tool,), host=_yes)
    assert ([finished.outcome for finished in talk.of(ToolFinished)], len(tool.ran)) == (["ok"], 1)


def test_half_a_character_is_asked_about_as_the_log_has_it() -> None:
    assert question_in(Ask("a", args={"text": "\udc80"})) == question_in(Ask("a", args={"text": "\ufffd"}))


def test_changed_arguments_of_the_answer_are_what_runs(tmp_path: Path) -> None:
    log, [token] = left_behind(tmp_path, THREE)
    tool = Echo()
    resume(tmp_path, log, answer(token, args={"text": "other"}), tools=(tool,))
    assert tool.ran[0] == {"text": "other"}


def test_calls_beside_it_were_cut_off_and_a_script_beside_it_asks_anew(tmp_path: Path) -> None:
    beside, hung = script(step("x", gated=True, text="x"), id="s2"), {"call": "Hang", "id": "h"}
    log, [first, second] = left_behind(tmp_path, THREE, beside, hung, asks=2)

    tool = Hang()
    talk = resume(tmp_path, log, answer(first), answer(second), tools=(Echo(), tool), host=_yes)
    assert failures(talk) == ["", "unknown_ask"]
    assert [ask.call for ask in talk.of(Ask)] == ["s2"]
    assert tool.ran == []
    assert [(result.call, result.outcome) for result in results(talk.messages)] == [
        ("s", "ok"),
        ("s2", "ok"),
        ("h", "cancelled"),
    ]


def test_a_stop_before_its_first_step_leaves_a_valid_history(tmp_path: Path) -> None:
    log, [token] = left_behind(tmp_path, THREE)
    talk = resume(tmp_path, log, answer(token), Cancel())
    assert [(ended.turn, ended.reason) for ended in talk.of(TurnEnded)] == [("t1", "cancelled")]
    assert talk.of(ToolStarted) == []


def test_a_prompt_after_the_answer_waits_for_its_turn(tmp_path: Path) -> None:
    log, [token] = left_behind(tmp_path, THREE)
    talk = resume(tmp_path, log, answer(token), Prompt("t2", "well?"))
    assert [ended.turn for ended in talk.of(TurnEnded)] == ["t1", "t2"]
    assert results(talk.messages)[0].outcome == "ok"


def test_nothing_runs_if_the_answer_cannot_be_kept(tmp_path: Path) -> None:
    log, [token] = left_behind(tmp_path, THREE)
    tool, full = Echo(), Log(log.entries, full=lambda write: write == 1)
    talk = resume(tmp_path, full, answer(token), answer(token), tools=(tool,))
    assert failures(talk) == ["session", ""]
    assert len(tool.ran) == 2


def test_a_step_does_not_run_if_its_answer_cannot_be_kept(tmp_path: Path) -> None:
    log, tool = Log(full=lambda write: write == 5), Echo()

    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "go"))

    talk = run(conversation, tmp_path, model(script(step("a", gated=True))), tool, store=log, host=_yes, **OPTIONS)
    assert tool.ran == []
    assert results(talk.messages)[0].output.startswith("The step was not run, because its answer cannot be kept")


class _Idle(Talk):
    """One that ends while turns of an earlier engine have not, or will never."""

    async def end(self) -> None:
        await self.engine.close()
        assert self.faults == []
