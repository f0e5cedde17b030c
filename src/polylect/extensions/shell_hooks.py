"""Hooks that are shell commands, with the format of Claude Code: a JSON object on stdin, a decision on stdout.

    exit status 0      stdout counts if it is a JSON object; at two moments, plain text is context for the model
    exit status 2      no, for the reason on stderr
    any other          the hook failed, which is reported and decides nothing

A `PreToolUse` hook guards a call. So if it cannot be started, times out, is killed or prints broken JSON, the call is
denied.
`extensions.py` calls these hooks like those of Python extensions; `vocab/hook_format.py` has the fields of the JSON.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec

from polylect.extensions.registry import Call, Hook, HookFailed, Moment, matcher
from polylect.system.search_paths import absolute_only
from polylect.vocab import hook_format
from polylect.vocab.hooks import HookContext, HookResult, ObservedEvent
from polylect.vocab.ports import Processes, ToolReturn

MOMENTS: dict[str, Moment] = {
    "PreToolUse": "before_tool",
    "PostToolUse": "after_tool",
    "UserPromptSubmit": "prompt",
    "SessionStart": "session_start",
    "SessionEnd": "session_end",
    "Stop": "stop",
    "PreCompact": "compaction",
    "PermissionRequest": "permission",
    **dict.fromkeys(get_args(ObservedEvent), "observed"),
}
DEADLINE = 60.0
MOST_RUNNING = 8
"""Commands that run at the same time: a reply of 128 calls would start as many processes for each hook."""
_MOST_OUTPUT = 256 * 1024
_CONTEXT_EVENTS = ("UserPromptSubmit", "SessionStart")
"""Events at which plain text on stdout is context for the model."""
Wrap = Callable[[Sequence[str]], Awaitable[Sequence[str]]]


class ShellHooks:
    """Runs the commands in custody. `wrap` returns the command line that puts one into the sandbox, if there is one."""

    def __init__(self, processes: Processes, env: Mapping[str, str], wrap: Wrap, *, resumed: bool) -> None:
        self._processes = processes
        self._env = env
        self._wrap = wrap
        self._resumed = resumed
        self._slots = asyncio.Semaphore(MOST_RUNNING)

    def hooks(self, table: Mapping[str, Sequence[Mapping[str, Any]]], context: Callable[[], HookContext]) -> list[Hook]:
        return [self._hook(event, row, context) for event, rows in table.items() for row in rows]

    def _hook(self, event: str, row: Mapping[str, Any], context: Callable[[], HookContext]) -> Hook:
        command, timeout = str(row["command"]), float(row.get("timeout") or DEADLINE)

        async def act(*arguments: Any) -> HookResult:
            current = context()
            fields = hook_format.common_input(event, current) | self._event_fields(event, arguments)
            return await self._run(event, command, fields, current, timeout)

        tools = matcher(str(row.get("matcher", "")))
        return Hook(MOMENTS[event], act, timeout + 5, command, event, tools=tools, slots=self._slots)

    def _event_fields(self, event: str, arguments: Sequence[Any]) -> dict[str, Any]:
        match event, *arguments:
            case "PreToolUse", Call(id, name, args):
                return hook_format.call_input(id, name, args)
            case "PostToolUse", Call(id, name, args), ToolReturn() as returned:
                return hook_format.call_input(id, name, args) | hook_format.result_input(returned)
            case "PermissionRequest", Call(_, name, args):
                return {"tool_name": name, "tool_input": args}
            case _, dict(fields):
                return fields
            case "UserPromptSubmit", text:
                return {"prompt": text}
            case "SessionStart", *_:
                return hook_format.session_start_input(resumed=self._resumed)
            case "SessionEnd", *_:
                return {"reason": "other"}
            case "Stop", said, again:
                return hook_format.stop_input(said, again=again)
        return hook_format.compaction_input(str(arguments[0]))

    async def _run(
        self, event: str, command: str, fields: dict[str, Any], context: HookContext, timeout: float
    ) -> HookResult:
        output: dict[str, bytearray] = {"out": bytearray(), "err": bytearray()}

        def on_output(stream: Literal["out", "err"], data: bytes) -> None:
            output[stream] += data[: max(0, _MOST_OUTPUT - len(output[stream]))]

        end = await self._processes.run(
            await self._wrap(("/bin/sh", "-c", command)),
            cwd=context.workspace,
            env=self._environment(context.workspace),
            timeout=timeout,
            on_output=on_output,
            stdin=msgspec.json.encode(fields),
        )
        errors = output["err"].decode(errors="replace").strip()
        if event == "PreToolUse" and (end.timed_out or _signal(end.code)):
            how = f"did not end within {timeout:g} s" if end.timed_out else f"was ended by signal {_signal(end.code)}"
            return HookResult("deny", f"the hook {command!r} {how}, so the call is not run")
        if end.timed_out:
            raise TimeoutError(f"no end after {timeout:g} s")
        if end.code == 2:
            return HookResult("deny", errors or f"{command} says no")
        if end.code:
            raise HookFailed(f"exit status {end.code}{': ' if errors else ''}{errors}")
        if event == "PreToolUse" and _is_broken_json(bytes(output["out"])):
            return HookResult("deny", f"the hook {command!r} printed JSON that cannot be read, so the call is not run")
        return parse_output(event, bytes(output["out"]), str(fields.get("tool_name", "")))

    def _environment(self, workspace: str) -> dict[str, str]:
        """A hook runs in the workspace, but no program is found there by name, and no module of Python."""
        own = {"CLAUDE_PROJECT_DIR": workspace, "POLYLECT_PROJECT_DIR": workspace, "PYTHONSAFEPATH": "1"}
        return absolute_only(self._env, outside=workspace) | own


def _signal(code: int) -> int:
    """The signal that ended a hook, or 0. Shells and bubblewrap report their child's as 128 and its number."""
    return -code if code < 0 else code - 128 if 128 < code <= 192 else 0


def _is_broken_json(out: bytes) -> bool:
    """Whether this begins like a JSON object and is none."""
    if not out.lstrip().startswith(b"{"):
        return False
    try:
        msgspec.json.decode(out, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return True
    return False


def parse_output(event: str, out: bytes, tool: str = "") -> HookResult:
    """The decision of a command that ended with status 0. `tool` is the name of the tool, if it is about a call."""
    try:
        fields = msgspec.json.decode(out, type=dict[str, Any])
    except msgspec.DecodeError:
        return HookResult(context=out.decode(errors="replace").strip() if event in _CONTEXT_EVENTS else "")
    return hook_format.parse_output(event, fields, tool)
