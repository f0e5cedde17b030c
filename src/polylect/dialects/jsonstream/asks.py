"""Translates asks to `tool_request` frames and answers from `tool_approve`, and the reverse for the host's end.

A permission is requested for its own call. Any other question is a call of `AskUserQuestion`, whose answer is the text
in `tool_approve.answer`: the label of an option, or what the person wrote. A permission that comes up while a call runs
is an `approval_required` with a token, where the host supports it. Anything but a clear yes is a no.
"""

from typing import Any

from msgspec import Struct, ValidationError, convert

from polylect.dialects.choices import chosen
from polylect.dialects.jsonstream.frames import base as shapes
from polylect.dialects.jsonstream.frames import optional
from polylect.vocab.commands import Answer
from polylect.vocab.content import Category, Option, Rule
from polylect.vocab.events import Ask, ToolCalled
from polylect.wire import jsonl

QUESTION = "AskUserQuestion"
MOST_CONTEXT = jsonl.MAX_LINE // 5
"""Characters, of which none takes more than four bytes of a line."""
YES, NO = Option("yes", "Yes"), Option("no", "No")
_CATEGORIES: dict[str, Category] = {"info": "info", "edit": "edit", "exec": "exec", "mcp": "mcp"}


def called_of(call_id: str, tool: shapes.Tool, turn: str) -> ToolCalled:
    """The call that a frame names by its id and its `tool`."""
    return ToolCalled(call_id, tool.name, tool.args, _category(tool), tool.description, turn=turn)


def _category(tool: shapes.Tool) -> Category:
    """A category nobody knows is treated like the most dangerous one."""
    return _CATEGORIES.get(tool.category, "exec")


def tool_of(ask: Ask, called: ToolCalled | None) -> shapes.Tool:
    if ask.kind == "permission":
        description = ask.title or (called.description if called else "")
        return shapes.Tool(ask.name, ask.category, ask.args, description)
    options = (YES, NO) if ask.kind == "confirm" else ask.options
    # Deployed hosts show only `question`, so what the person decides by has to be in it.
    decisive = bool(ask.reason) and ask.kind in ("confirm", "url")
    args = {
        "kind": ask.kind,
        "multiSelect": ask.multiple,
        "options": [{"description": option.description, "label": option.label} for option in options],
        "question": f"{ask.title}\n{ask.reason}" if decisive else ask.title,
    }
    if ask.reason:
        args["message"] = ask.reason
    if header := ask.args.get("header"):
        args["header"] = header
    return shapes.Tool(QUESTION, "info", args, f"ask_user: {_short(ask.title)}")


def _short(title: str) -> str:
    line = " ".join(title.split())
    return line if len(line) <= 80 else f"{line[:80]}…"


def approval_required(ask: Ask) -> optional.ApprovalRequired:
    """The token is the ask's own id: random, used once, and nothing the model has seen (A6)."""
    return optional.ApprovalRequired(call_id=ask.call, resume_token=ask.ask, reason=ask.reason, context=_context(ask))


def _context(ask: Ask) -> str:
    """All that would be done: nobody can agree to what they have not seen, and a description is only a beginning."""
    args = jsonl.dump(ask.args).decode().rstrip() if ask.name or ask.args else ""
    whole = f"{ask.name} {args}".strip()
    if len(whole) > MOST_CONTEXT:
        whole = f"{whole[:MOST_CONTEXT]}… [cut: {len(whole) - MOST_CONTEXT} more characters are not shown]"
    return "\n".join(filter(None, (ask.title, whole)))


def suspended_of(frame: optional.ApprovalRequired) -> Ask:
    return Ask(frame.resume_token, call=frame.call_id, title=frame.context, reason=frame.reason)


def ask_of(frame: shapes.ToolRequest) -> Ask:
    """The ask behind a request. The wire has one id for both, so the ask is called like its call."""
    tool, args = frame.tool, frame.tool.args
    question = args.get("question")
    if tool.name != QUESTION or not isinstance(question, str):
        return Ask(
            frame.call_id,
            call=frame.call_id,
            name=tool.name,
            args=args,
            category=_category(tool),
            title=tool.description,
            turn=frame.msg_id,
        )
    options = _options(args.get("options"))
    confirm = args.get("kind") == "confirm"
    message = args.get("message")
    reason = message if isinstance(message, str) else ""
    return Ask(
        frame.call_id,
        "confirm" if confirm else "choice" if options else "text",
        call=frame.call_id,
        name=tool.name,
        category="info",
        title=question.removesuffix(f"\n{reason}") if reason else question,
        reason=reason,
        options=() if confirm else options,
        multiple=args.get("multiSelect") is True,
        turn=frame.msg_id,
    )


def _options(value: Any) -> tuple[Option, ...]:
    """A person's choice travels as its label, so the label is the id."""
    rows = [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
    labels = [(str(row.get("label") or ""), str(row.get("description") or "")) for row in rows]
    return tuple(Option(label, label, description) for label, description in labels if label)


# Answers, as the engine reads them.


class UnknownAsk(ValueError):
    """Nobody waits for this answer: it comes too late, a second time, or out of nowhere (A1)."""


def resume_of(frame: shapes.ApprovalResume, ref: str) -> Answer:
    if frame.modifications is not None and not isinstance(frame.modifications, dict):
        raise ValueError("modifications: expected the whole arguments as an object, or null")
    return Answer(frame.resume_token, "allow" if frame.approved else "deny", args=frame.modifications, ref=ref)


def answer_of(frame: shapes.ToolApprove | shapes.ToolDeny, ask: Ask, ref: str) -> Answer:
    """Raises ValueError for a scope that nobody knows: anything but a clear yes is a no (A1)."""
    if isinstance(frame, shapes.ToolDeny):
        return Answer(ask.ask, "deny", reason=frame.reason, ref=ref)
    always = _rule(frame.scope, ask)
    if ask.kind == "permission":
        return Answer(ask.ask, "allow", always=always, ref=ref)
    if ask.kind == "confirm":
        no = frame.answer == NO.label
        return Answer(ask.ask, "deny" if no else "allow", value=not no, ref=ref)
    return Answer(ask.ask, "allow", value=chosen(frame.answer or ask.default, ask), ref=ref)


def _rule(scope: shapes.Scope, ask: Ask) -> Rule | None:
    match scope:
        case "once":
            return None
        case "always":
            return Rule("category", ask.category)
        case shapes.Standing(always_prefix=shapes.Prefix(prefix), always_path=None):
            return Rule("prefix", prefix)
        case shapes.Standing(always_prefix=None, always_path=shapes.Path(root, write)):
            return Rule("path", root, write)
        case _:
            raise ValueError('scope is neither "once", "always", {"always_prefix":...} nor {"always_path":...}')


# Answers, as the host writes them.


def resume_frame(answer: Answer, ask: Ask) -> shapes.ApprovalResume:
    return shapes.ApprovalResume(ask.ask, answer.verdict == "allow", answer.args)


def answer_frame(
    answer: Answer, ask: Ask, boundary: "Boundary | None" = None, *, only_words: bool = False
) -> shapes.ToolApprove | shapes.ToolDeny:
    """`only_words`: the engine cannot read a scope that is an object, and would go on waiting."""
    if answer.verdict != "allow":
        return shapes.ToolDeny(ask.ask, answer.reason or ("" if answer.verdict == "deny" else "cancelled"))
    if ask.kind == "permission":
        scope = boundary.scope(answer.always) if boundary else scope_of(answer.always, ask)
        return shapes.ToolApprove(ask.ask, "once" if only_words and isinstance(scope, shapes.Standing) else scope)
    return shapes.ToolApprove(ask.ask, "once", YES.label if ask.kind == "confirm" else _answer_text(answer.value, ask))


class Boundary(Struct, frozen=True):
    """A place outside the workspace that a call needs, as wayland-core names it since 0.13.4 in `tool.escalation`.

    An approval without a path lets the call run, and it fails: only a path that was granted is reached. So the smallest
    grant that serves is sent: of the target alone, if the call is allowed once.
    """

    target: str
    access: str = "read"
    suggested_root: str = ""

    @property
    def reason(self) -> str:
        return f"it would {self.access} {self.target}, which is outside the workspace"

    def scope(self, rule: Rule | None) -> shapes.Standing:
        match rule:
            case Rule(kind="path", value=root, effect="allow"):
                write = rule.write and self.access == "write"
            case Rule(kind="category", effect="allow"):
                root, write = self.suggested_root or self.target, False
            case _:
                root, write = self.target, False
        return shapes.Standing(always_path=shapes.Path(root, write))


def boundary_of(escalation: object) -> Boundary | None:
    """The boundary that a `tool_request` names, if it does."""
    try:
        return convert(escalation, Boundary)
    except ValidationError:
        return None


def scope_of(rule: Rule | None, ask: Ask) -> shapes.Scope:
    """Never wider than what was granted: a rule the wire has no word for counts for this call only."""
    match rule:
        case Rule(kind="category", value=value, effect="allow") if value in ("", ask.category):
            return "always"
        case Rule(kind="prefix", value=prefix, effect="allow"):
            return shapes.Standing(always_prefix=shapes.Prefix(prefix))
        case Rule(kind="path", value=root, write=write, effect="allow"):
            return shapes.Standing(always_path=shapes.Path(root, write))
        case _:
            return "once"


def _answer_text(value: Any, ask: Ask) -> str:
    labels = {option.id: option.label for option in ask.options}
    values = value if isinstance(value, list | tuple) else [value]
    return ", ".join(labels.get(str(one), str(one)) for one in values if one is not None)
