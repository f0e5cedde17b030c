"""Hooks in the words of Claude Code: what a hook is told, and what its answer means. Whoever runs one shares this."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from polylect.vocab.hooks import Opinion, Scene
from polylect.vocab.ports import ToolReturn

_MODES = {"auto_edit": "acceptEdits", "force": "bypassPermissions", "dont_ask": "dontAsk"}
_DECISIONS: dict[str, Literal["allow", "deny", "ask"]] = {
    "allow": "allow",
    "approve": "allow",
    "deny": "deny",
    "block": "deny",
    "ask": "ask",
}
_STRENGTH = ("", "allow", "ask", "deny")


# What a hook is told.


def common(event: str, scene: Scene, transcript: str | None = None) -> dict[str, Any]:
    """What every hook is told; of the rest, what there is."""
    told = {"session_id": scene.session, "cwd": scene.workspace, "hook_event_name": event}
    if transcript is not None:
        told["transcript_path"] = transcript
    rest = {
        "permission_mode": _MODES.get(scene.mode, scene.mode),
        "prompt_id": scene.turn,
        "agent_id": scene.agent,
    }
    return told | {key: value for key, value in rest.items() if value}


def call(id: str, name: str, args: dict[str, Any]) -> dict[str, Any]:
    return {"tool_name": name, "tool_input": args, "tool_use_id": id}


def result(returned: ToolReturn) -> dict[str, Any]:
    return {"tool_response": {"output": returned.output, "is_error": not returned.ok}}


def session_start(*, resumed: bool) -> dict[str, Any]:
    return {"source": "resume" if resumed else "startup"}


def stop(said: str, *, again: bool) -> dict[str, Any]:
    return {"stop_hook_active": again, "last_assistant_message": said}


def compaction(reason: str) -> dict[str, Any]:
    return {"trigger": "manual" if reason == "manual" else "auto", "custom_instructions": None}


# What its answer means.


def opinion(event: str, found: Any) -> Opinion:
    """Of nothing, or of an object: one that will come later (`async`) says nothing now. Raises ValueError for anything
    else: whoever wrote it may have meant a no."""
    found = _object("the answer", found)
    special = _object("hookSpecificOutput", found.get("hookSpecificOutput"))
    if not isinstance(going := found.get("continue"), bool | None):
        raise ValueError(f"continue is neither true nor false: {going!r:.80}")
    decision = _decision(found.get("decision"))
    decision = _decision(special.get("permissionDecision")) or decision
    stops = going is False
    reason = special.get("permissionDecisionReason") or found.get("reason") or found.get("stopReason")
    args, output = special.get("updatedInput"), special.get("updatedToolOutput")
    return Opinion(
        "deny" if stops and event not in ("Stop", "SubagentStop") else decision,
        str(reason or ""),
        None if args is None else _object("updatedInput", args),
        output if isinstance(output, str) or output is None else msgspec.json.encode(output).decode(),
        str(special.get("additionalContext") or ""),
        stops,
    )


def _object(name: str, found: Any) -> dict[str, Any]:
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ValueError(f"{name} is no object: {found!r:.80}")
    return found


def _decision(found: Any) -> Literal["", "allow", "ask", "deny"]:
    if found is None:
        return ""
    if not isinstance(found, str) or found not in _DECISIONS:
        raise ValueError(f"{found!r:.80} is no decision; decisions are {', '.join(_DECISIONS)}")
    return _DECISIONS[found]


def message(found: Mapping[str, Any]) -> str:
    """What it has to say to the person."""
    told = found.get("systemMessage")
    return told if isinstance(told, str) else ""


def both(one: Opinion, two: Opinion) -> Opinion:
    """The stricter decision counts, and the later change."""
    stricter = max(two, one, key=lambda opinion: _STRENGTH.index(opinion.decision))
    return Opinion(
        stricter.decision,
        stricter.reason,
        one.args if two.args is None else two.args,
        one.output if two.output is None else two.output,
        "\n".join(filter(None, (one.context, two.context))),
        one.interrupt or two.interrupt,
    )


def too_late(opinion: Opinion) -> Opinion:
    """A no to what has been done already: the model is told why."""
    if opinion.decision != "deny":
        return opinion
    return msgspec.structs.replace(opinion, context="\n".join(filter(None, (opinion.reason, opinion.context))))
