"""Hooks: functions of the host that an engine calls at certain moments, and that may say no.

`connect(hooks=...)` passes them here. They are offered to the engine in `Hello`, and `HostHooks` runs them when a
`HostCall` with the method `hook` comes. Input and output have the format of Claude Code's hooks, which is what engines
with hooks understand. A hook that raises counts as one that failed, and the engine goes on, unless it guards.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from polylect.host.errors import InvalidType, InvalidValue
from polylect.vocab.events import HostCall

Run = Callable[[dict[str, Any]], Any]


class Hook(Struct, frozen=True):
    """One hook.

    Attributes:
        run: The function, async or not. It gets the input as a dict: `hook_event_name`, `tool_name`, `tool_input` ...
            It returns None to let it pass, a text for a no with this reason, or a dict in the format of Claude Code's
            hooks (`{"hookSpecificOutput": {...}}`).
        matcher: A regular expression for the name of the tool, or for the subject of the moment; empty for all.
        timeout: Seconds that the engine waits; 0 for the engine's own limit.
        guards: Whether a failure of the function is a no too, where the moment allows one.
    """

    run: Run
    matcher: str = ""
    timeout: float = 0.0
    guards: bool = False


Hooks = Mapping[str, "Hook | Run | Sequence[Hook | Run]"]
"""By moment: PreToolUse, PostToolUse, UserPromptSubmit, Stop ..., as docs/host-sdk.md lists them."""


class HostHooks:
    """The hooks of one host.

    Args:
        hooks: Functions or `Hook`s by moment.

    Raises:
        InvalidType: One of them is no function.
        InvalidValue: A moment has no name.
    """

    def __init__(self, hooks: Hooks) -> None:
        self._hooks: dict[str, tuple[str, Hook]] = {}
        for moment, entries in hooks.items():
            if not moment:
                raise InvalidValue(f"a hook belongs to a moment such as PreToolUse, not to {moment!r}")
            for each in entries if isinstance(entries, Sequence) else (entries,):
                hook = each if isinstance(each, Hook) else Hook(each)
                if not callable(hook.run):
                    raise InvalidType(f"a hook is a function that takes the input, or a Hook, not {each!r}")
                self._hooks[f"{moment}-{len(self._hooks)}"] = (moment, hook)

    def offers(self) -> dict[str, Any]:
        """Returns the `offers` of `Hello`."""
        table: dict[str, list[dict[str, Any]]] = {}
        for id, (moment, hook) in self._hooks.items():
            row = {"matcher": hook.matcher or None, "ids": [id], "on_failure": "block" if hook.guards else "continue"}
            table.setdefault(moment, []).append(row | ({"timeout": hook.timeout} if hook.timeout else {}))
        return {"hooks": table} if table else {}

    async def run(self, call: HostCall) -> tuple[Any, str]:
        """Runs the hook that a `call` of the engine names. Returns its output and the text of an error."""
        params = call.params if isinstance(call.params, dict) else {}
        if (known := self._hooks.get(str(params.get("callback")))) is None:
            return None, f"this host has no hook {params.get('callback')!r}"
        moment, hook = known
        try:
            output = hook.run(params.get("input") or {})
            output = await output if inspect.isawaitable(output) else output
        except Exception as error:  # noqa: BLE001  (the engine is told, and decides)
            return None, f"{type(error).__name__}: {error}"
        return _as_output(moment, output)


def _as_output(moment: str, output: Any) -> tuple[Any, str]:
    match output:
        case None:
            return {}, ""
        case str() if moment == "PreToolUse":
            verdict = {"hookEventName": moment, "permissionDecision": "deny", "permissionDecisionReason": output}
            return {"hookSpecificOutput": verdict}, ""
        case str():
            return {"decision": "block", "reason": output}, ""
        case dict():
            return output, ""
    return None, f"a hook returns None, a text or a dict, not {output!r}"
