"""The JSON that hooks read and write, in the format of Claude Code.

A hook gets one JSON object as its input and may print one as its output. Shell hooks (`extensions/shell_hooks.py`) and
callbacks in the host (`engine/host_hooks.py`) share this format, so it is built and parsed here once.

>>> parse_output("PreToolUse", {"decision": "block", "reason": "not on main"}).decision
'deny'
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from polylect.vocab.hooks import HookContext, HookResult
from polylect.vocab.modes import CLAUDE_MODES
from polylect.vocab.ports import ToolReturn

_DECISIONS: dict[str, Literal["allow", "deny", "ask"]] = {
    "allow": "allow",
    "approve": "allow",
    "deny": "deny",
    "block": "deny",
    "defer": "deny",
    "ask": "ask",
}
_STRENGTH = ("", "allow", "ask", "deny")
_FIELDS = (
    *("continue", "stopReason", "decision", "reason", "systemMessage", "suppressOutput", "hookSpecificOutput"),
    *("async", "asyncTimeout"),
)
"""Fields of an output that are obeyed. `suppressOutput` is about a screen that is not ours."""
_SPECIAL_FIELDS = (
    *("hookEventName", "permissionDecision", "permissionDecisionReason", "updatedInput", "additionalContext"),
    *("updatedToolOutput", "updatedMCPToolOutput", "decision", "suppressOriginalPrompt"),
)
"""The same of `hookSpecificOutput`. The message about a blocked prompt never has the prompt in it."""


# Input.


def common_input(event: str, context: HookContext, transcript: str | None = None) -> dict[str, Any]:
    """Returns the fields that the input of every hook has.

    Args:
        event: The name of the event, such as `PreToolUse`.
        context: The turn or session in which the hook is called. Empty values are left out.
        transcript: The path of the session's log; None leaves the field out.
    """
    fields = {"session_id": context.session, "cwd": context.workspace, "hook_event_name": event}
    if transcript is not None:
        fields["transcript_path"] = transcript
    optional = {
        "permission_mode": CLAUDE_MODES.get(context.mode, context.mode),
        "prompt_id": context.turn,
        "agent_id": context.agent,
    }
    return fields | {key: value for key, value in optional.items() if value}


def call_input(id: str, name: str, args: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields for a call.

    Args:
        id: The id of the call.
        name: The name of the tool.
        args: The arguments of the call.
    """
    return {"tool_name": name, "tool_input": args, "tool_use_id": id}


def result_input(returned: ToolReturn) -> dict[str, Any]:
    """Returns the fields for the result of a call, which is `returned`."""
    return {"tool_response": {"output": returned.output, "is_error": not returned.ok}}


def session_start_input(*, resumed: bool) -> dict[str, Any]:
    """Returns the fields for the start of a session; `resumed` says whether it has messages already."""
    return {"source": "resume" if resumed else "startup"}


def stop_input(reply: str, *, again: bool) -> dict[str, Any]:
    """Returns the fields for the end of a turn.

    Args:
        reply: The last text of the model.
        again: Whether a hook has sent this turn back before.
    """
    return {"stop_hook_active": again, "last_assistant_message": reply}


def compaction_input(reason: str) -> dict[str, Any]:
    """Returns the fields for a compaction; `reason` is that of `CompactionStarted`."""
    return {"trigger": "manual" if reason == "manual" else "auto", "custom_instructions": None}


# Output.


def parse_output(event: str, output: Any, tool: str = "") -> HookResult:
    """Returns what the output of a hook means.

    A call that should be deferred is denied: there is no way here to end the turn and run the call later.

    Args:
        event: The name of the event, such as `PreToolUse`.
        output: The parsed JSON; None for a hook that printed nothing, or that answers later (`async`).
        tool: The name of the tool, for an event about a call.

    Raises:
        ValueError: The output is no object, or a field of it has the wrong type. It is not ignored, because it may
            have been meant as a denial.
    """
    output = _object("the answer", output)
    special = _object("hookSpecificOutput", output.get("hookSpecificOutput"))
    if not isinstance(going := output.get("continue"), bool | None):
        raise ValueError(f"continue is neither true nor false: {going!r:.80}")
    decision = _decision(output.get("decision"))
    decision = _decision(special.get("permissionDecision")) or decision
    stops = going is False
    reason = special.get("permissionDecisionReason") or output.get("reason") or output.get("stopReason")
    if special.get("permissionDecision") == "defer":
        reason = f"a hook wants to defer this call, which is not possible here{f': {reason}' if reason else ''}"
    args, new_output = special.get("updatedInput"), special.get("updatedToolOutput")
    if new_output is None and tool.startswith("mcp__"):
        new_output = special.get("updatedMCPToolOutput")
    if event == "PermissionRequest":
        answer = _object("decision", special.get("decision"))
        decision = _decision(answer.get("behavior")) or decision
        reason, args = answer.get("message") or reason, answer.get("updatedInput")
        stops = stops or answer.get("interrupt") is True
    is_text = isinstance(new_output, str) or new_output is None
    return HookResult(
        "deny" if stops and event not in ("Stop", "SubagentStop") else decision,
        str(reason or ""),
        None if args is None else _object("updatedInput", args),
        new_output if is_text else msgspec.json.encode(new_output).decode(),
        str(special.get("additionalContext") or ""),
        stops,
    )


def _object(name: str, value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{name} is no object: {value!r:.80}")
    return value


def _decision(word: Any) -> Literal["", "allow", "ask", "deny"]:
    if word is None:
        return ""
    if not isinstance(word, str) or word not in _DECISIONS:
        raise ValueError(f"{word!r:.80} is no decision; decisions are {', '.join(_DECISIONS)}")
    return _DECISIONS[word]


def system_message(output: Mapping[str, Any]) -> str:
    """Returns the message for the person in the `output` of a hook; empty if there is none."""
    text = output.get("systemMessage")
    return text if isinstance(text, str) else ""


def ignored_fields(output: Mapping[str, Any]) -> list[str]:
    """Returns the names of the fields in the `output` of a hook that have no effect here."""
    special = _object("hookSpecificOutput", output.get("hookSpecificOutput"))
    names = [
        *(name for name in output if name not in _FIELDS),
        *(name for name in special if name not in _SPECIAL_FIELDS),
    ]
    decision = special.get("decision")
    if isinstance(decision, dict) and decision.get("updatedPermissions"):
        names.append("updatedPermissions")
    return names


def merge(one: HookResult, two: HookResult) -> HookResult:
    """Combines the results of two hooks: the stricter decision counts, the later change, and both contexts.

    Args:
        one: The result of the hook that was called first.
        two: The result of the later one.
    """
    stricter = max(two, one, key=lambda result: _STRENGTH.index(result.decision))
    return HookResult(
        stricter.decision,
        stricter.reason,
        one.args if two.args is None else two.args,
        one.output if two.output is None else two.output,
        "\n".join(filter(None, (one.context, two.context))),
        one.interrupt or two.interrupt,
    )


def deny_as_context(result: HookResult) -> HookResult:
    """Turns the reason of a denial into context, because the call has run already.

    Args:
        result: What a hook returned after the call.
    """
    if result.decision != "deny":
        return result
    return msgspec.structs.replace(result, context="\n".join(filter(None, (result.reason, result.context))))
