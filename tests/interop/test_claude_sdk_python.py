"""The vendor's Python SDK drives polylect: turns, settings, sessions and agents."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from interop.claude_model import WAIT, Step, agent, text, thinking, use
from interop.claude_sdk import (
    MAKE,
    TOUCH,
    Script,
    Stage,
    blocks,
    emit,
    marks,
    of,
    result,
    results,
    run,
    sdk,
    system_prompt,
    texts,
)

pytestmark = marks


# Turns.


def test_a_text_is_asked_and_answered(tmp_path: Path) -> None:
    async def talk(stage: Stage) -> None:
        received = [message async for message in sdk.query(prompt="HELLO", options=stage.options())]
        assert [type(message).__name__ for message in received] == [
            "SystemMessage",
            "AssistantMessage",
            "AssistantMessage",
            "ResultMessage",
        ]
        assert blocks(received) == [sdk.ThinkingBlock("hm", "signed"), sdk.TextBlock("Hi there.")]
        [init] = of(received, sdk.SystemMessage)
        assert (init.subtype, init.data["claude_code_version"]) == ("init", "2.1.325")
        assert init.data["cwd"] == str(stage.work)
        end = result(received)
        assert (end.subtype, end.result, end.is_error, end.num_turns) == ("success", "Hi there.", False, 1)
        assert (end.stop_reason, end.terminal_reason) == ("end_turn", "completed")
        assert end.usage
        assert (end.usage["input_tokens"], end.usage["output_tokens"]) == (10, 7)
        assert end.session_id == init.data["session_id"] == str(uuid.UUID(end.session_id))

    run(tmp_path, {"HELLO": [[thinking("hm"), text("Hi there.")]]}, talk)


def test_a_client_goes_on_in_the_same_conversation(tmp_path: Path) -> None:
    async def talk(stage: Stage) -> None:
        async with stage.client() as client:
            info = await client.get_server_info()
            assert info
            assert info["claude_code_version"] == "2.1.325"
            assert {command["name"] for command in info["commands"]} >= {"compact", "clear"}
            first, second = await emit(client, "ONE"), await emit(client, "TWO")
        assert [result(received).result for received in (first, second)] == ["One.", "Two."]
        assert result(first).session_id == result(second).session_id
        assert "One." in json.dumps(stage.model.asked[-1]["messages"])

    run(tmp_path, {"ONE": [[text("One.")]], "TWO": [[text("Two.")]]}, talk)


def test_a_block_comes_in_pieces_and_then_whole(tmp_path: Path) -> None:
    async def talk(stage: Stage) -> None:
        received = await stage.query("MAKE", include_partial_messages=True, permission_mode="bypassPermissions")
        events = [message.event for message in of(received, sdk.StreamEvent)]
        assert [event["type"] for event in events if event["type"].startswith("message")] == [
            *("message_start", "message_delta", "message_stop"),
            *("message_start", "message_delta", "message_stop"),
        ]
        deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
        assert "".join(delta.get("text", "") for delta in deltas) == "I make it.That was it."
        assert json.loads("".join(delta.get("partial_json", "") for delta in deltas)) == TOUCH["input"]
        assert texts(received) == ["I make it.", "That was it."]

    run(tmp_path, MAKE, talk)


def test_a_reply_is_interrupted_and_the_next_prompt_answered(tmp_path: Path) -> None:
    async def talk(stage: Stage) -> None:
        async with stage.client(include_partial_messages=True) as client:
            await client.query("LONG")
            received: list[sdk.Message] = []
            async for message in client.receive_response():
                received.append(message)
                if isinstance(message, sdk.AssistantMessage):
                    await client.interrupt()
            assert texts(received) == ["First.", "[Request interrupted by user]"]
            end = result(received)
            assert (end.subtype, end.terminal_reason) == ("error_during_execution", "aborted_streaming")
            assert result(await emit(client, "SHORT")).result == "Here."

    run(tmp_path, {"LONG": [[text("First."), WAIT, text("Second.")]], "SHORT": [[text("Here.")]]}, talk)


def test_the_last_turn_that_is_allowed_is_the_last(tmp_path: Path) -> None:
    async def talk(stage: Stage) -> None:
        received: list[sdk.Message] = []
        with pytest.raises(sdk.ProcessError, match="turns"):
            await stage.receive("MAKE", received, max_turns=1, allowed_tools=["Bash"])
        end = result(received)
        assert (end.subtype, end.is_error, end.terminal_reason) == ("error_max_turns", True, "max_turns")
        assert len(stage.model.asked) == 1

    run(tmp_path, MAKE, talk)


def test_a_budget_ends_a_turn(tmp_path: Path) -> None:
    async def talk(stage: Stage) -> None:
        stage.configure('[prices."claude-sonnet-5"]\ninput = 1000\noutput = 1000\n')
        received: list[sdk.Message] = []
        with pytest.raises(sdk.ProcessError, match="budget"):
            await stage.receive("MAKE", received, max_budget_usd=0.001, allowed_tools=["Bash"], model="sonnet")
        end = result(received)
        assert (end.subtype, end.total_cost_usd) == ("error_max_budget_usd", pytest.approx(0.017))
        assert end.model_usage
        assert end.model_usage["claude-sonnet-5"]["costUSD"] == pytest.approx(0.017)

    run(tmp_path, MAKE, talk)


# Settings and questions.


def test_a_model_is_set_while_the_conversation_goes_on(tmp_path: Path) -> None:
    async def talk(stage: Stage) -> None:
        async with stage.client(model="claude-sonnet-5") as client:
            await emit(client, "HELLO")
            await client.set_model("claude-opus-5-5")
            await emit(client, "HELLO")
            await client.set_model(None)
            received = await emit(client, "HELLO")
        assert [requested["model"] for requested in stage.model.asked] == [
            "claude-sonnet-5",
            "claude-opus-5-5",
            "claude-sonnet-5",
        ]
        assert [one.data["model"] for one in of(received, sdk.SystemMessage)] == ["claude-sonnet-5"]

    run(tmp_path, {"HELLO": [[text("Hi.")]]}, talk)


def test_the_model_is_told_what_the_host_says_of_it(tmp_path: Path) -> None:
    async def talk(stage: Stage) -> None:
        await stage.query("HELLO", system_prompt="You are a parrot.")
        assert "You are a parrot." in system_prompt(stage.model)
        preset: Any = {"type": "preset", "preset": "claude_code", "append": "You are a gull."}
        await stage.query("HELLO", system_prompt=preset)
        assert "You are a gull." in system_prompt(stage.model)
        assert "parrot" not in system_prompt(stage.model)

    run(tmp_path, {"HELLO": [[text("Hi.")]]}, talk)


def test_the_context_in_use_is_told(tmp_path: Path) -> None:
    async def talk(stage: Stage) -> None:
        async with stage.client() as client:
            await emit(client, "HELLO")
            usage = await client.get_context_usage()
        assert 0 < usage["totalTokens"] < usage["maxTokens"]
        assert 0 <= usage["percentage"] < 100
        assert usage["model"]
        assert usage["categories"]
        assert all(row["name"] and row["tokens"] >= 0 for row in usage["categories"])

    run(tmp_path, {"HELLO": [[text("Hi.")]]}, talk)


def test_an_answer_has_the_form_that_was_asked_for(tmp_path: Path) -> None:
    async def talk(stage: Stage) -> None:
        schema = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
        form = {"type": "json_schema", "schema": schema}
        received = await stage.query("SUM", output_format=form)
        end = result(received)
        assert (end.subtype, end.structured_output) == ("success", {"sum": 5})
        assert end.result
        assert json.loads(end.result) == {"sum": 5}

    run(tmp_path, {"SUM": [[use("c1", "StructuredOutput", sum=5)], [text("That was it.")]]}, talk)


def test_a_result_of_more_than_a_mebibyte_does_not_end_the_host(tmp_path: Path) -> None:
    async def talk(stage: Stage) -> None:
        (stage.work / "big.txt").write_text("".join(f"{number:0999}\n" for number in range(3000)))
        received = await stage.query("BIG", permission_mode="bypassPermissions")
        assert [failed for _, _, failed in results(received)] == [False, False]
        assert result(received).result == "Read."

    both = [use("c1", "Bash", command="cat big.txt", description="all"), use("c2", "Read", file_path="big.txt")]
    run(tmp_path, {"BIG": [both, [text("Read.")]]}, talk)


# Sessions.


def test_a_session_is_resumed_forked_and_continued(tmp_path: Path) -> None:
    async def talk(stage: Stage) -> None:
        def remembered() -> list[str]:
            said = json.dumps(stage.model.asked[-1]["messages"])
            return [word for word in ("ONE", "TWO", "THREE", "FOUR") if word in said]

        named = str(uuid.uuid4())
        assert result(await stage.query("ONE", session_id=named)).session_id == named
        assert result(await stage.query("TWO", resume=named)).session_id == named
        assert remembered() == ["ONE", "TWO"]
        forked = result(await stage.query("THREE", resume=named, fork_session=True)).session_id
        assert forked != named
        assert remembered() == ["ONE", "TWO", "THREE"]
        assert result(await stage.query("FOUR", continue_conversation=True)).session_id == forked
        assert remembered() == ["ONE", "TWO", "THREE", "FOUR"]

    run(tmp_path, {word: [[text("Yes.")]] for word in ("ONE", "TWO", "THREE", "FOUR")}, talk)


def test_a_session_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    async def talk(stage: Stage) -> None:
        with pytest.raises(sdk.ProcessError):
            await stage.query("ONE", resume=str(uuid.uuid4()))
        assert len(stage.errors) == 1

    run(tmp_path, {}, talk, silent=False)


def test_files_are_set_back_to_what_they_were_at_a_prompt(tmp_path: Path) -> None:
    async def talk(stage: Stage) -> None:
        result = {"replay-user-messages": None}
        how: Any = {"enable_file_checkpointing": True, "extra_args": result, "permission_mode": "acceptEdits"}
        async with stage.client(**how) as client:
            received = await emit(client, "WRITE")
            [prompt] = [one for one in of(received, sdk.UserMessage) if one.content == "WRITE"]
            assert (stage.work / "a.txt").read_text() == "a"
            assert prompt.uuid
            await client.rewind_files(prompt.uuid)
            assert not (stage.work / "a.txt").exists()

    run(tmp_path, {"WRITE": [[use("c1", "Write", file_path="a.txt", content="a")], [text("Done.")]]}, talk)


# Agents.


def delegation(*names: str) -> Script:
    """A reply that starts agents of these names, each of which makes a file."""

    def child(name: str) -> list[Step]:
        call = use(f"{name}-call", "Bash", command=f"touch {name}", description=name)
        return [[thinking(f"{name} thinks"), text(f"{name} begins."), call], [text(f"{name} is done.")]]

    calls = [agent(f"k-{name}", name) for name in names]
    return {"DELEGATE": [calls, [text("All are done.")]], **{name: child(name) for name in names}}


@pytest.mark.parametrize("forwarded", [False, True])
def test_two_agents_work_at_once(tmp_path: Path, forwarded: bool) -> None:
    async def talk(stage: Stage) -> None:
        received = await stage.query("DELEGATE", forward_subagent_text=forwarded, permission_mode="bypassPermissions")
        assert {path.name for path in stage.work.iterdir()} == {"FIRST", "SECOND"}
        for name in ("FIRST", "SECOND"):
            lane = blocks(received, f"k-{name}")
            assert [block.name for block in lane if isinstance(block, sdk.ToolUseBlock)] == ["Bash"]
            words = [f"{name} begins.", f"{name} is done."] if forwarded else []
            assert texts(received, f"k-{name}") == [name, *words]
        started, ended = of(received, sdk.TaskStartedMessage), of(received, sdk.TaskNotificationMessage)
        assert {task.tool_use_id for task in started} == {"k-FIRST", "k-SECOND"}
        assert {task.task_id: task.status for task in ended} == {task.task_id: "completed" for task in started}
        assert texts(received) == ["All are done."]
        assert sorted(call for call, _, failed in results(received) if not failed) == ["k-FIRST", "k-SECOND"]

    run(tmp_path, delegation("FIRST", "SECOND"), talk)


def test_an_agent_of_the_hosts_own_is_used(tmp_path: Path) -> None:
    async def talk(stage: Stage) -> None:
        parrot = sdk.AgentDefinition(description="Repeats.", prompt="You are a parrot.", tools=["Read"])
        received = await stage.query("DELEGATE", agents={"parrot": parrot}, forward_subagent_text=True)
        assert texts(received, "k1") == ["REPEAT", "Repeat!"]
        [child] = [
            requested for requested in stage.model.asked if "You are a parrot." in json.dumps(requested["system"])
        ]
        assert [tool["name"] for tool in child["tools"]] == ["Read"]
        [init, *_] = of(received, sdk.SystemMessage)
        assert "parrot" in init.data["agents"]

    call = use("k1", "Agent", description="repeat", prompt="REPEAT", subagent_type="parrot")
    run(tmp_path, {"DELEGATE": [[call], [text("Done.")]], "REPEAT": [[text("Repeat!")]]}, talk)


def test_an_agent_is_stopped(tmp_path: Path) -> None:
    async def talk(stage: Stage) -> None:
        async with stage.client() as client:
            await client.query("DELEGATE")
            received: list[sdk.Message] = []
            async for message in client.receive_response():
                received.append(message)
                if isinstance(message, sdk.TaskStartedMessage):
                    await client.stop_task(message.task_id)
        [ended] = of(received, sdk.TaskNotificationMessage)
        assert ended.status == "stopped"
        assert result(received).result == "It was stopped."

    call = agent("k1", "WATCH")
    run(tmp_path, {"DELEGATE": [[call], [text("It was stopped.")]], "WATCH": [[WAIT, text("Seen.")]]}, talk)
