"""Commands that wayland-core added to 0.2.0 without documenting them: their frames, results and translation.

Their frames are closed: an unknown field makes the command malformed. Only a host that sends one of
them gets a result frame.
"""

from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Meta

from polylect.dialects.host_base import Refusal
from polylect.dialects.jsonstream.frames.base import Count, Frame, Id
from polylect.dialects.schema import by_name, one_of
from polylect.vocab.commands import ChangeServer, Command, Grant, HostReply
from polylect.vocab.content import Failure, Rule

RequestId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$")]
Tokens = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Dollars = Annotated[float, Meta(ge=0)]
_LIFECYCLE = 1


class ContinueWithBudget(Frame, frozen=True, forbid_unknown_fields=True, tag="continue_with_budget"):
    request_id: RequestId
    additional_tokens: Tokens = 0
    additional_cost_usd: Dollars = 0.0


class RemoveMcpServer(Frame, frozen=True, forbid_unknown_fields=True, tag="remove_mcp_server"):
    lifecycle_version: Count
    request_id: RequestId
    name: str


class GrantPath(Frame, frozen=True, forbid_unknown_fields=True, tag="grant_path"):
    grant_id: Id
    root: Id
    access: Annotated[str, one_of("read", "write")] = "read"
    expires_at_ms: Count | None = None


class RevokePath(Frame, frozen=True, forbid_unknown_fields=True, tag="revoke_path"):
    grant_id: Id


class HostSendMessageResult(Frame, frozen=True, tag="host_send_message_result"):
    """Said by our host side to engines that ask for it; ours never does."""

    call_id: str
    ok: bool
    message_id: str | None = None
    error: str | None = None


UNDOCUMENTED_COMMANDS = by_name(ContinueWithBudget, RemoveMcpServer, GrantPath, RevokePath)


# Their answers.


class BudgetGrantResult(Frame, frozen=True, tag="budget_grant_result"):
    request_id: str
    additional_tokens: Count
    additional_cost_usd: float
    outcome: Annotated[str, one_of("granted", "refused")]
    refusal_reason: str | None = None


class McpRemovalResult(Frame, frozen=True, tag="mcp_removal_result"):
    lifecycle_version: Count
    request_id: str
    name: str
    outcome: str
    removed_tools: list[str]


def budget_refused(frame: ContinueWithBudget, reason: str) -> BudgetGrantResult:
    return BudgetGrantResult(frame.request_id, frame.additional_tokens, frame.additional_cost_usd, "refused", reason)


def answer_to(command: Command, failure: Failure | None, tools: list[str]) -> Frame | None:
    """What a host that sent one of these waits for. `tools` are those that went with a server."""
    match command:
        case Grant(rule=None, tokens=tokens, cost=cost, revoke=False, ref=ref) if failure:
            return BudgetGrantResult(ref, tokens, cost, "refused", "invalid_grant")
        case Grant(rule=None, tokens=tokens, cost=cost, revoke=False, ref=ref):
            return BudgetGrantResult(ref, tokens, cost, "granted")
        case ChangeServer(name, "remove", ref=ref):
            return McpRemovalResult(_LIFECYCLE, ref, name, "already_absent" if failure else "removed", tools)
        case _:
            return None


# As the engine reads them. Each raises ValueError with a reason for people.


def _continue_with_budget(frame: ContinueWithBudget, ref: str) -> Command:
    if not frame.additional_tokens and not frame.additional_cost_usd:
        raise ValueError("additional_tokens or additional_cost_usd has to be above zero")
    return Grant(tokens=frame.additional_tokens, cost=frame.additional_cost_usd, ref=frame.request_id)


def _grant_path(frame: GrantPath, ref: str) -> Command:
    if frame.access not in ("read", "write"):
        raise ValueError(f"unknown access {frame.access[:80]!r}; it is read or write")
    rule = Rule("path", frame.root, frame.access == "write")
    return Grant(rule=rule, id=frame.grant_id, until_ms=frame.expires_at_ms or 0, ref=ref)


COMMANDS: dict[type[Frame], Callable[[Any, str], Command]] = {
    ContinueWithBudget: _continue_with_budget,
    RemoveMcpServer: lambda frame, ref: ChangeServer(frame.name, "remove", ref=frame.request_id),
    GrantPath: _grant_path,
    RevokePath: lambda frame, ref: Grant(revoke=True, id=frame.grant_id, ref=ref),
}


# As the host writes them. Each raises Refusal.


def grant_frame(grant: Grant, id: str) -> Frame:
    match grant:
        case Grant(rule=None, revoke=True, id=grant_id) if grant_id:
            return RevokePath(grant_id)
        case Grant(rule=Rule("path", root, write, "allow", tool=""), revoke=False, tokens=0, cost=0.0):
            return GrantPath(grant.id or id, root, "write" if write else "read", grant.until_ms or None)
        case Grant(rule=None, revoke=False, tokens=tokens, cost=cost) if tokens or cost:
            return ContinueWithBudget(id, tokens, cost)
        case _:
            raise Refusal("json-stream has words only for granting a path or a larger budget")


def removal_frame(command: ChangeServer, id: str) -> Frame:
    if command.action != "remove":
        raise Refusal(f"json-stream has no word for server changes of the kind {command.action!r}")
    return RemoveMcpServer(_LIFECYCLE, id, command.name)


def host_reply_frame(command: HostReply) -> Frame:
    if command.partial:
        raise Refusal("json-stream has no word for half an answer")
    sent = None if command.error or command.result is None else str(command.result)
    return HostSendMessageResult(command.call, not command.error, sent, command.error or None)
