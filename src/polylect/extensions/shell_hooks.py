"""Commands of the user's that are run at certain moments, as Claude Code has them: JSON in, a verdict out.

Exit status 0: what is on stdout counts, if it is a JSON object. 2: no, for the reason on stderr. Any other: it failed,
which is reported and decides nothing. At PreToolUse a command is a guard, and a guard that gives no answer opens no
door: one that is late, is killed or prints half a JSON object denies the call.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from polylect.extensions.registry import Call, Hook, Moment, matcher
from polylect.vocab import hook_format
from polylect.vocab.hooks import HookContext, HookResult
from polylect.vocab.ports import Processes, ToolReturn

MOMENTS: dict[str, Moment] = {
    "PreToolUse": "before_tool",
    "PostToolUse": "after_tool",
    "UserPromptSubmit": "prompt",
    "SessionStart": "session_start",
    "SessionEnd": "session_end",
    "Stop": "stop",
    "PreCompact": "compaction",
}
DEADLINE = 60.0
_MOST_OUTPUT = 256 * 1024
_SPEAKING = ("UserPromptSubmit", "SessionStart")
"""Moments whose plain output is meant for the model."""
Wrap = Callable[[Sequence[str]], Awaitable[Sequence[str]]]


class ShellHooks:
    """Runs them in custody, and in the sandbox if `wrap` has one."""

    def __init__(self, processes: Processes, env: Mapping[str, str], wrap: Wrap, *, resumed: bool) -> None:
        self._processes = processes
        self._env = env
        self._wrap = wrap
        self._resumed = resumed

    def hooks(self, table: Mapping[str, Sequence[Mapping[str, Any]]], context: Callable[[], HookContext]) -> list[Hook]:
        return [self._hook(event, row, context) for event, rows in table.items() for row in rows]

    def _hook(self, event: str, row: Mapping[str, Any], context: Callable[[], HookContext]) -> Hook:
        command, timeout = str(row["command"]), float(row.get("timeout") or DEADLINE)

        async def act(*given: Any) -> HookResult:
            place = context()
            told = hook_format.common_input(event, place) | self._own(event, given)
            return await self._run(event, command, told, place, timeout)

        tools = matcher(str(row.get("matcher", "")))
        return Hook(MOMENTS[event], act, timeout + 5, command, event, guard=False, tools=tools)

    def _own(self, event: str, given: Sequence[Any]) -> dict[str, Any]:
        match event, *given:
            case "PreToolUse", Call(id, name, args):
                return hook_format.call_input(id, name, args)
            case "PostToolUse", Call(id, name, args), ToolReturn() as returned:
                return hook_format.call_input(id, name, args) | hook_format.result_input(returned)
            case "UserPromptSubmit", text:
                return {"prompt": text}
            case "SessionStart", *_:
                return hook_format.session_start_input(resumed=self._resumed)
            case "SessionEnd", *_:
                return {"reason": "other"}
            case "Stop", said, again:
                return hook_format.stop_input(said, again=again)
        return hook_format.compaction_input(str(given[0]))

    async def _run(
        self, event: str, command: str, told: dict[str, Any], context: HookContext, timeout: float
    ) -> HookResult:
        said: dict[str, bytearray] = {"out": bytearray(), "err": bytearray()}

        def take(stream: Literal["out", "err"], data: bytes) -> None:
            said[stream] += data[: max(0, _MOST_OUTPUT - len(said[stream]))]

        end = await self._processes.run(
            await self._wrap(("/bin/sh", "-c", command)),
            cwd=context.workspace,
            env={**self._env, "CLAUDE_PROJECT_DIR": context.workspace, "POLYLECT_PROJECT_DIR": context.workspace},
            timeout=timeout,
            on_output=take,
            stdin=msgspec.json.encode(told),
        )
        errors = said["err"].decode(errors="replace").strip()
        if event == "PreToolUse" and (end.timed_out or end.code < 0):
            how = f"did not end within {timeout:g} s" if end.timed_out else f"was ended by signal {-end.code}"
            return HookResult("deny", f"the hook {command!r} {how}, so the call is not run")
        if end.timed_out:
            raise TimeoutError(f"no end after {timeout:g} s")
        if end.code == 2:
            return HookResult("deny", errors or f"{command} says no")
        if end.code:
            raise RuntimeError(f"exit status {end.code}{': ' if errors else ''}{errors}")
        if event == "PreToolUse" and _is_broken_json(bytes(said["out"])):
            return HookResult("deny", f"the hook {command!r} printed JSON that cannot be read, so the call is not run")
        return parse_output(event, bytes(said["out"]))


def _is_broken_json(out: bytes) -> bool:
    """Whether this was to be an object, and is none."""
    if not out.lstrip().startswith(b"{"):
        return False
    try:
        msgspec.json.decode(out, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return True
    return False


def parse_output(event: str, out: bytes) -> HookResult:
    """What a command that ended well has said."""
    try:
        found = msgspec.json.decode(out, type=dict[str, Any])
    except msgspec.DecodeError:
        return HookResult(context=out.decode(errors="replace").strip() if event in _SPEAKING else "")
    return hook_format.parse_output(event, found)
