"""The vendor's Python SDK drives polylect: permission, hooks and a server inside the host."""

import json
from pathlib import Path
from typing import Any

from interop.claude_model import text, use
from interop.claude_sdk import (
    MAKE,
    TOUCH,
    Stage,
    blocks,
    emit,
    marks,
    of,
    result,
    results,
    run,
    sdk,
    texts,
)

pytestmark = marks


def asked(verdict: Any, seen: list[Any]) -> Any:
    async def can_use_tool(name: str, args: dict[str, Any], context: sdk.ToolPermissionContext) -> Any:
        seen.append((name, args, context.tool_use_id))
        return verdict

    return can_use_tool


def test_a_call_is_allowed(tmp_path: Path) -> None:
    async def talk(stage: Stage) -> None:
        seen: list[Any] = []
        received = await stage.query("MAKE", can_use_tool=asked(sdk.PermissionResultAllow(), seen))
        assert seen == [("Bash", TOUCH["input"], "c1")]
        assert (stage.work / "made").exists()
        [(call, _, failed)] = results(received)
        assert (call, failed) == ("c1", False)
        assert texts(received) == ["I make it.", "That was it."]

    run(tmp_path, MAKE, talk)


def test_a_call_is_denied_and_the_model_is_told_why(tmp_path: Path) -> None:
    async def talk(stage: Stage) -> None:
        received = await stage.query("MAKE", can_use_tool=asked(sdk.PermissionResultDeny(message="not today"), []))
        assert results(received) == [("c1", "not today", True)]
        assert not (stage.work / "made").exists()
        end = result(received)
        assert (end.subtype, end.result) == ("success", "That was it.")
        assert end.permission_denials == [{"tool_name": "Bash", "tool_use_id": "c1", "tool_input": TOUCH["input"]}]
        assert "not today" in json.dumps(stage.model.asked[-1]["messages"])

    run(tmp_path, MAKE, talk)


def test_a_call_is_allowed_with_another_input(tmp_path: Path) -> None:
    async def talk(stage: Stage) -> None:
        other = sdk.PermissionResultAllow(updated_input={"command": "touch other"})
        received = await stage.query("MAKE", can_use_tool=asked(other, []))
        assert [path.name for path in stage.work.iterdir()] == ["other"]
        [call] = [block for block in blocks(received) if isinstance(block, sdk.ToolUseBlock)]
        assert call.input == TOUCH["input"], "what was said before is not changed"

    run(tmp_path, MAKE, talk)


def test_a_denial_can_end_the_turn(tmp_path: Path) -> None:
    async def talk(stage: Stage) -> None:
        deny = sdk.PermissionResultDeny(message="no", interrupt=True)
        async with stage.client(can_use_tool=asked(deny, [])) as client:
            received = await emit(client, "MAKE")
            end = result(received)
            assert (end.subtype, end.terminal_reason) == ("error_during_execution", "aborted_tools")
            assert texts(received)[-1] == "[Request interrupted by user for tool use]"
            assert [failed for _, _, failed in results(received)] == [True]
            assert len(stage.model.asked) == 1

    run(tmp_path, MAKE, talk)


def test_a_rule_that_came_with_an_answer_holds_from_then_on(tmp_path: Path) -> None:
    async def talk(stage: Stage) -> None:
        seen: list[Any] = []
        rule = sdk.types.PermissionRuleValue("Bash", "touch:*")
        update = sdk.PermissionUpdate("addRules", rules=[rule], behavior="allow", destination="session")
        allow = sdk.PermissionResultAllow(updated_permissions=[update])
        async with stage.client(can_use_tool=asked(allow, seen)) as client:
            await emit(client, "MAKE")
            await emit(client, "AGAIN")
        assert [call for _, _, call in seen] == ["c1"]
        assert (stage.work / "again").exists()

    again = use("c2", "Bash", command="touch again", description="again")
    run(tmp_path, {**MAKE, "AGAIN": [[again], [text("Done.")]]}, talk)


def test_a_mode_is_set_while_the_conversation_goes_on(tmp_path: Path) -> None:
    async def talk(stage: Stage) -> None:
        seen: list[Any] = []
        async with stage.client(can_use_tool=asked(sdk.PermissionResultDeny(), seen)) as client:
            await emit(client, "WRITE")
            await client.set_permission_mode("acceptEdits")
            received = await emit(client, "WRITE")
        assert len(seen) == 1
        assert [one.data["permissionMode"] for one in of(received, sdk.SystemMessage) if one.subtype == "init"] == [
            "acceptEdits"
        ]
        assert (stage.work / "a.txt").read_text() == "a"

    write = use("c1", "Write", file_path="a.txt", content="a")
    run(tmp_path, {"WRITE": [[write], [text("Done.")]]}, talk)


def test_tools_are_allowed_and_taken_away(tmp_path: Path) -> None:
    async def talk(stage: Stage) -> None:
        received = await stage.query("MAKE", allowed_tools=["Bash(touch:*)"], disallowed_tools=["WebFetch", "Write"])
        assert (stage.work / "made").exists()
        names = {tool["name"] for tool in stage.model.asked[0]["tools"]}
        assert "Bash" in names
        assert not names & {"WebFetch", "Write"}
        [init, *_] = of(received, sdk.SystemMessage)
        assert "WebFetch" not in init.data["tools"]
        await stage.query("MAKE", tools=["Read"])
        assert [tool["name"] for tool in stage.model.asked[-1]["tools"]] == ["Read"]

    run(tmp_path, MAKE, talk)


def test_where_nobody_can_be_asked_a_call_is_denied(tmp_path: Path) -> None:
    async def talk(stage: Stage) -> None:
        received = await stage.query("MAKE")
        assert [failed for _, _, failed in results(received)] == [True]
        assert not (stage.work / "made").exists()
        assert [
            one.data["tool_name"] for one in of(received, sdk.SystemMessage) if one.subtype == "permission_denied"
        ] == ["Bash"]

    run(tmp_path, MAKE, talk)


# Hooks.


def test_a_hook_denies_a_call(tmp_path: Path) -> None:
    async def talk(stage: Stage) -> None:
        seen: list[Any] = []

        async def hook(given: Any, call: str | None, context: Any) -> Any:
            seen.append((given["hook_event_name"], given["tool_name"], given["tool_input"], call))
            reported = {"permissionDecision": "deny", "permissionDecisionReason": "nothing is made here"}
            return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **reported}}

        hooks = {"PreToolUse": [sdk.HookMatcher(matcher="Bash", hooks=[hook])]}
        received = await stage.query("MAKE", hooks=hooks, permission_mode="bypassPermissions")
        assert seen == [("PreToolUse", "Bash", TOUCH["input"], "c1")]
        [(call, reported, failed)] = results(received)
        assert (call, failed) == ("c1", True)
        assert "nothing is made here" in reported
        assert not (stage.work / "made").exists()
        assert [denial["tool_use_id"] for denial in result(received).permission_denials or []] == ["c1"]

    run(tmp_path, MAKE, talk)


def test_a_hook_that_must_not_fail_and_fails_denies_the_call(tmp_path: Path) -> None:
    async def talk(stage: Stage) -> None:
        async def hook(given: Any, call: str | None, context: Any) -> Any:
            raise RuntimeError("out of order")

        hooks = {"PreToolUse": [sdk.HookMatcher(matcher="Bash", hooks=[hook], on_failure="block")]}
        received = await stage.query("MAKE", hooks=hooks, permission_mode="bypassPermissions")
        assert "out of order" in results(received)[0][1]
        assert not (stage.work / "made").exists()

    run(tmp_path, MAKE, talk)


def test_hooks_add_to_what_the_model_knows(tmp_path: Path) -> None:
    async def talk(stage: Stage) -> None:
        seen: list[str] = []

        async def hook(given: Any, call: str | None, context: Any) -> Any:
            moment = given["hook_event_name"]
            seen.append(moment)
            return {"hookSpecificOutput": {"hookEventName": moment, "additionalContext": f"said by {moment}"}}

        moments = ("UserPromptSubmit", "PostToolUse")
        hooks: Any = {moment: [sdk.HookMatcher(hooks=[hook])] for moment in moments}
        await stage.query("MAKE", hooks=hooks, permission_mode="bypassPermissions")
        assert seen == list(moments)
        first, last = (json.dumps(asked["messages"]) for asked in (stage.model.asked[0], stage.model.asked[-1]))
        assert "said by UserPromptSubmit" in first
        assert "said by PostToolUse" in last

    run(tmp_path, MAKE, talk)


# Servers inside the host.


def test_a_server_inside_the_host_is_called_by_the_model(tmp_path: Path) -> None:
    async def talk(stage: Stage) -> None:
        @sdk.tool("add", "Add two numbers.", {"a": float, "b": float})
        async def add(args: dict[str, Any]) -> dict[str, Any]:
            return {"content": [{"type": "text", "text": f"{args['a'] + args['b']:g}"}]}

        server = sdk.create_sdk_mcp_server("sums", tools=[add])
        result: Any = {"mcp_servers": {"sums": server}, "allowed_tools": ["mcp__sums__add"]}
        async with stage.client(**result) as client:
            received = await emit(client, "SUM")
            status = await client.get_mcp_status()
        [(call, content, failed)] = results(received)
        assert (call, failed) == ("c1", False)
        assert content == [{"type": "text", "text": "5"}]
        [init, *_] = of(received, sdk.SystemMessage)
        assert "mcp__sums__add" in init.data["tools"]
        assert [(one["name"], one["status"]) for one in status["mcpServers"]] == [("sums", "connected")]

    run(tmp_path, {"SUM": [[use("c1", "mcp__sums__add", a=2, b=3)], [text("Five.")]]}, talk)


def test_a_hook_answers_a_question_and_another_hears_of_all_calls(tmp_path: Path) -> None:
    async def talk(stage: Stage) -> None:
        seen: list[Any] = []

        async def hook(given: Any, call: str | None, context: Any) -> Any:
            moment = given["hook_event_name"]
            seen.append((moment, [one["tool_name"] for one in given.get("tool_calls", [])]))
            if moment == "PermissionRequest":
                return {"hookSpecificOutput": {"hookEventName": moment, "decision": {"behavior": "allow"}}}
            return {"hookSpecificOutput": {"hookEventName": moment, "additionalContext": "all of it is done"}}

        moments = ("PermissionRequest", "PostToolBatch")
        hooks: Any = {moment: [sdk.HookMatcher(hooks=[hook])] for moment in moments}
        await stage.query("MAKE", hooks=hooks)
        assert seen == [("PermissionRequest", []), ("PostToolBatch", ["Bash"])]
        assert (stage.work / "made").exists()
        assert "all of it is done" in json.dumps(stage.model.asked[-1]["messages"])

    run(tmp_path, MAKE, talk)


def test_a_project_that_nobody_trusts_can_deny_and_not_allow(tmp_path: Path) -> None:
    async def talk(stage: Stage) -> None:
        settings = stage.work / ".claude" / "settings.json"
        settings.parent.mkdir()
        for rules, mode in (({"allow": ["Bash"]}, "default"), ({"deny": ["Bash"]}, "bypassPermissions")):
            settings.write_text(json.dumps({"permissions": rules}))
            await stage.query("MAKE", setting_sources=["user", "project"], permission_mode=mode)
            assert not (stage.work / "made").exists()
        await stage.query("MAKE", setting_sources=[], permission_mode="bypassPermissions")
        assert (stage.work / "made").exists()
        assert any("ignored in a project's file: permissions.allow" in line for line in stage.errors)

    run(tmp_path, MAKE, talk, silent=False)
