"""Scripts: calls inside a call, with no more rights than any other (A5, A6, A8)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from doubles import Crash, Echo, Edit, Fail, Hang, Log, Run, Show, Stubborn, Talk, converse, run
from polylect.engine.turn.budget import Budget
from polylect.providers.scripted import Scripted
from polylect.vocab.commands import Answer, Cancel, Command, Prompt
from polylect.vocab.content import Rule
from polylect.vocab.events import (
    AgentEnded,
    Ask,
    AskClosed,
    BudgetExceeded,
    Event,
    ToolCalled,
    ToolCrashed,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnEnded,
)
from polylect.vocab.ports import ToolContext, ToolReturn

FREE = ("Script", "Echo", "Show", "Fail", "Crash", "Hang", "Stubborn")


def step(id: str, tool: str = "Echo", gated: bool = False, **args: Any) -> dict[str, Any]:
    return {"id": id, "tool": tool, "input": args, **({"approval_required": True} if gated else {})}


def script(*steps: dict[str, Any], **more: Any) -> Scripted:
    call = {"call": "Script", "id": "s", "args": {"steps": list(steps), **more}}
    return Scripted.from_values({"reply": [{"when": {"step": 1}, "say": [call]}, {"say": ["done"]}]})


def play(folder: Path, model: Scripted, *tools: Any, **more: Any) -> Talk:
    options = {"script_tool": True, "allow_list": FREE, **more}
    return converse(folder, model, [Prompt("t1", "go")], *tools, **options)


def finished_call(talk: Talk) -> ToolFinished:
    [finished] = talk.of(ToolFinished)
    return finished


def answering(verdict: Any, **more: Any) -> Any:
    def host(event: Event) -> Command | None:
        return Answer(event.ask, verdict, **more) if isinstance(event, Ask) else None

    return host


def test_steps_run_one_after_another_and_are_told_as_one_call(tmp_path: Path) -> None:
    talk = play(tmp_path, script(step("a", text="one"), step("b", "Show", pieces=["t", "wo"])), Echo(), Show())
    assert finished_call(talk).output == "[a] Echo: one\n[b] Show: two"
    assert finished_call(talk).metadata == {
        "steps": [{"id": "a", "tool": "Echo", "outcome": "ok"}, {"id": "b", "tool": "Show", "outcome": "ok"}]
    }
    assert [event.call for event in (*talk.of(ToolCalled), *talk.of(ToolStarted))] == ["s", "s"]
    assert [(shown.call, shown.text) for shown in talk.of(ToolOutput)] == [("s", "t"), ("s", "wo")]


def test_it_is_not_there_unless_it_is_switched_on(tmp_path: Path) -> None:
    talk = play(tmp_path, script(step("a")), Echo(), script_tool=False)
    assert finished_call(talk).output.startswith("Unknown tool: Script.")


@pytest.mark.parametrize(("tool", "why"), [("Fail", "cannot"), ("Crash", "The tool crashed: RuntimeError: boom")])
def test_it_stops_at_the_first_step_that_fails(tmp_path: Path, tool: str, why: str) -> None:
    last = Echo()
    talk = play(tmp_path, script(step("a", tool), step("b"), step("c")), Fail(), Crash(), last)
    assert finished_call(talk).output == f"[a] {tool}: {why}\nStopped: step 'a' failed. Not run: b, c."
    assert finished_call(talk).outcome == "error"
    assert last.ran == []
    assert [event.call for event in talk.of(ToolCrashed)] == (["s:a"] if tool == "Crash" else [])


def test_A8_a_step_is_judged_like_any_other_call_and_asked_for_in_the_name_of_its_script(tmp_path: Path) -> None:
    shell = Run()
    talk = play(tmp_path, script(step("a", "Run", command="ls")), shell, host=answering("allow"))
    [ask] = talk.of(Ask)
    assert (ask.call, ask.name, ask.args) == ("s", "Run", {"command": "ls"})
    assert ask.timeout_ms == 300_000
    assert finished_call(talk).output == "[a] Run: ran ls"


def test_A8_a_rule_that_denies_a_tool_also_denies_it_in_a_script(tmp_path: Path) -> None:
    shell = Run()
    talk = play(tmp_path, script(step("a", "Run"), step("b")), shell, Echo(), mode="force", deny=("Run",))
    assert finished_call(talk).output == (
        "[a] Run: Tool denied: the rule Run denies it\nStopped: step 'a' was denied. Not run: b."
    )
    assert shell.ran == []


def test_a_gated_step_waits_for_a_person_even_in_force(tmp_path: Path) -> None:
    talk = play(tmp_path, script(step("a"), step("b", gated=True)), Echo(), mode="force", host=answering("allow"))
    [ask] = talk.of(Ask)
    assert ask.reason == "Script step 'b' is approval-gated"
    assert finished_call(talk).outcome == "ok"


def test_a_gated_step_that_is_refused_ends_the_script(tmp_path: Path) -> None:
    tool = Echo()
    model = script(step("a", gated=True), step("b"))
    talk = play(tmp_path, model, tool, mode="force", host=answering("deny", reason="not now"))
    assert finished_call(talk).output == ("[a] Echo: Tool denied: not now\nStopped: step 'a' was denied. Not run: b.")
    assert tool.ran == []


def test_A2_a_gated_step_has_a_deadline(tmp_path: Path) -> None:
    talk = play(tmp_path, script(step("a", gated=True)), Echo(), mode="force", approval_timeout=0.01)
    assert [closed.how for closed in talk.of(AskClosed)] == ["timeout"]
    assert "approval timed out" in finished_call(talk).output


def test_a_gated_step_is_denied_where_nobody_may_be_asked(tmp_path: Path) -> None:
    talk = play(tmp_path, script(step("a", gated=True)), Echo(), mode="dont_ask")
    assert talk.of(Ask) == []
    assert "is approval-gated" in finished_call(talk).output


def test_A5_changed_arguments_of_an_answer_are_judged_again(tmp_path: Path) -> None:
    shell = Run("Bash")
    host = answering("allow", args={"command": "rm -rf ."})
    talk = play(tmp_path, script(step("a", "Bash", command="ls")), shell, host=host, deny=("Bash(rm:*)",))
    assert shell.ran == []
    assert finished_call(talk).outcome == "error"


def test_A6_the_token_of_an_ask_never_reaches_the_model(tmp_path: Path) -> None:
    tokens: list[str] = []

    def host(event: Event) -> Command | None:
        if isinstance(event, Ask):
            tokens.append(event.ask)
            return Answer(event.ask, "allow")
        return None

    class Leak(Echo):
        async def work(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
            return ToolReturn(f"it was {tokens[0]}")

    talk = play(tmp_path, script(step("a", "Leak", gated=True)), Leak(), host=host)
    assert finished_call(talk).output == "[a] Leak: it was [removed]"


def test_an_answer_for_always_holds_for_the_steps_that_follow(tmp_path: Path) -> None:
    host = answering("allow", always=Rule("tool", "Run"))
    talk = play(tmp_path, script(step("a", "Run"), step("b", "Run")), Run(), host=host)
    assert len(talk.of(Ask)) == 1


def test_plan_mode_denies_a_script(tmp_path: Path) -> None:
    assert finished_call(play(tmp_path, script(step("a")), Echo(), mode="plan")).outcome == "denied"


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({"steps": []}, "Give 1 to 50 steps, not 0. Nothing was done."),
        ({"steps": [step(str(i)) for i in range(51)]}, "Give 1 to 50 steps, not 51. Nothing was done."),
        ({"steps": [step("a"), step("a")]}, "Every step needs an id of its own, and 'a' is none. Nothing was done."),
        ({"steps": [step("a"), step("b", "Spawn")]}, "Spawn cannot be a step of a script. Nothing was done."),
        ({"steps": [step("a", "Agent")]}, "Agent cannot be a step of a script. Nothing was done."),
        ({"steps": [step("a"), step("b", "Script")]}, "Script cannot be a step of a script. Nothing was done."),
        ({"steps": [step("a"), step("b", "Dance")]}, "Step 'b': unknown tool 'Dance'. Nothing was done."),
        ({"steps": "a"}, "These are not steps: Expected `array`, got `str` - at `$.steps`."),
        ({}, "These are not steps: Object missing required field `steps`."),
    ],
)
def test_steps_that_make_no_sense_are_answered_before_anything_runs(
    tmp_path: Path, args: dict[str, Any], why: str
) -> None:
    tool = Echo()
    model = Scripted.in_order([{"call": "Script", "args": args}, "well"])
    talk = play(tmp_path, model, tool)
    assert finished_call(talk).output == why
    assert tool.ran == []


def test_long_output_is_cut_in_the_middle_and_kept_in_a_file(tmp_path: Path) -> None:
    class Spilling(Log):
        def spill(self, text: str) -> str:
            (tmp_path / "spill").write_text(text)
            return str(tmp_path / "spill")

    text = "\n".join(map(str, range(10)))
    talk = play(tmp_path, script(step("a", text=text), max_output_lines=4), Echo(), store=Spilling())
    path = tmp_path / "spill"
    assert finished_call(talk).output == f"[a] Echo: 0\n1\n[... 6 lines left out; all of them are in {path} ...]\n8\n9"
    assert path.read_text() == f"[a] Echo: {text}"


def test_steps_count_against_the_budget_and_the_script_itself_does_not(tmp_path: Path) -> None:
    talk = play(
        tmp_path, script(step("a", "Run"), step("b", "Run")), Run(), mode="force", budget=Budget(max_processes=2)
    )
    assert talk.of(BudgetExceeded) == [BudgetExceeded("max_processes", "2", "2", turn="t1")]


def test_an_edit_in_a_script_waits_for_an_edit_beside_it(tmp_path: Path) -> None:
    class Slow(Edit):
        busy = 0

        async def work(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
            self.busy += 1
            assert self.busy == 1
            await asyncio.sleep(0)
            self.busy -= 1
            return ToolReturn("")

    beside = {"call": "Slow", "id": "e"}
    inside = {"call": "Script", "id": "s", "args": {"steps": [step("a", "Slow"), step("b", "Slow")]}}
    model = Scripted.from_values({"reply": [{"when": {"step": 1}, "say": [inside, beside]}, {"say": ["done"]}]})
    talk = play(tmp_path, model, Slow(), mode="force")
    assert [finished.outcome for finished in talk.of(ToolFinished)] == ["ok", "ok"]


def test_a_stop_reaches_the_step_that_runs(tmp_path: Path) -> None:
    tool, last = Hang(), Echo()

    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "go"))
        await tool.started.wait()
        talk.send(Cancel())

    talk = run(
        conversation,
        tmp_path,
        script(step("a", text="hi"), step("b", "Hang"), step("c")),
        tool,
        last,
        script_tool=True,
        allow_list=FREE,
    )
    assert (finished_call(talk).outcome, talk.of(TurnEnded)[0].reason) == ("cancelled", "cancelled")
    assert finished_call(talk).output.endswith("Until then:\n\n[a] Echo: hi\nCut off or not run: b, c.")
    assert len(last.ran) == 1


def test_a_script_that_was_left_behind_does_nothing_more(tmp_path: Path) -> None:
    tool, last = Stubborn(), Echo()

    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "go"))
        await tool.started.wait()
        talk.send(Cancel())
        await talk.until(TurnEnded)
        tool.released.set()
        for _ in range(10):
            await asyncio.sleep(0)

    model = script(step("a", "Stubborn"), step("b"))
    talk = run(conversation, tmp_path, model, tool, last, script_tool=True, allow_list=FREE, cancel_timeout=0.01)
    assert talk.of(ToolOutput) == []
    assert last.ran == []


def test_a_sub_agents_script_has_the_sub_agents_tools_and_no_others(tmp_path: Path) -> None:
    folder = tmp_path / ".polylect" / "agents"
    folder.mkdir(parents=True)
    (folder / "reader.md").write_text("---\nname: reader\ntools: Echo, Script\n---\n")
    task = {"name": "x", "prompt": "inside", "agent": "reader"}
    inside = {"call": "Script", "id": "s", "args": {"steps": [step("a", "Run")]}}
    model = Scripted.from_values(
        {
            "reply": [
                {"when": {"prompt": "inside", "step": 1}, "say": [inside]},
                {"when": {"prompt": "inside"}, "say": ["{result}"]},
                {"when": {"step": 1}, "say": [{"call": "Spawn", "args": {"tasks": [task]}}]},
                {"say": ["done"]},
            ]
        }
    )
    talk = play(tmp_path, model, Echo(), Run(), mode="force")
    assert talk.of(AgentEnded)[0].summary == "Step 'a': unknown tool 'Run'. Nothing was done."


def test_what_a_script_had_done_is_forgotten_once_it_goes_on(tmp_path: Path) -> None:
    talk = play(tmp_path, script(step("a", gated=True)), Echo(), host=answering("allow"))
    assert talk.session.settings == {"suspended": {}}
