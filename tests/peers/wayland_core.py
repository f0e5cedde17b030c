"""A scripted peer that behaves as wayland-core 0.13.4 was seen to behave.

Its quirks: a session whose turn was stopped or killed is interrupted, and refuses every later message; so does one that
was resumed and had to wait for the model's service; after a refused key or a rate limit it drops its key, and asks no
model any more; after a lasting outage it takes its budget for exceeded; modes and servers are refused unless its
environment allows them, mostly by an `info` only; a read outside the workspace is asked for with an `escalation`, and
succeeds only if the folder is granted; an answered question has no `tool_result`; a model without a price costs 0 with
`priced` false, which an `info` says at each request; each prompt, call and result has an `info` as well; stderr begins
with remarks, and why a start failed is a frame on stdout.

Three words more in a script: `peek PATH` is a read outside the workspace, `ask TEXT` a question with two options,
`outage` a request that is repeated because the model's service did not answer.
"""

import os
import re
import sys
import uuid
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

from peers.model import ModelClient, ServiceError
from peers.peer import Commands, Frame, Memory, Stopped, emit, flag, info, leave, run_command, script

_MODES = ("default", "auto_edit", "force")
_USAGE = {"input_tokens": 11, "output_tokens": 7}
_INTERRUPTED = (
    "Session persistence authority unavailable: session has an interrupted turn at journal cursor Some(7); "
    "resume, reconcile, or cancel it before starting a new message"
)
_JOURNAL_FAULTS = (
    "Session persistence authority unavailable: locked journal state and committed head do not describe the same "
    "authority: state cursor Some(67)/fa does not match committed head Some(67)/fa",
    "Session persistence authority unavailable: session journal writer is faulted after a previous I/O failure",
)
_NO_PRICE = "No published price for anthropic/mystery; the pre-flight reservation uses the anthropic list rate."
_NO_REPLAY = "crash replay protection is OFF for this run: this host has no usable OS keyring"
_REMARK = "notice: crash replay protection is OFF for this run."
_NO_KEY = "Provider error: No API key. Set an api_key via --api-key, the config file, or an environment variable."
_NO_ATTEMPT = (
    "Provider error: Provider request was not attempted: primary circuit is open and no fallback is configured"
)
_OUTAGE = "Provider stream failed (API error 529: no); retrying (attempt 1, 899s of outage budget left)…"
_LIMITED = "Provider stream failed (Rate limited, retry after 5000ms); retrying (attempt 1/2)…"
_ASSISTANT = "active assistant identity is required for a runtime MCP declaration"
_NO_GRANT = "path grant refused: the local launcher did not opt in with --allow-host-path-grants"
_OPT_IN = "an auto-approving mode (auto_edit/force) requires a local-operator opt-in"
_SESSION_ID = re.compile(r"[0-9a-fA-F-]{6,40}")
_CONTRACT = {"name": "wayland-desktop-core", "major": 1, "minor": 16, "generator": "wcore-desktop-contract-gen/16"}
_POLICY = {"critical": True, "contract_version": "1.0", "revision": 0, "reason": "launch", "effective_at_unix_ms": 1,
           "policy": {"posture": "smart", "approvals": "prompt", "sandbox": "required"}}  # fmt: skip


class WaylandCore:
    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._commands = Commands()
        self._mode = "default"
        self._price = 0.5 if flag("--model") == "priced" else 0.0
        self._cost = 0.0
        """Of this process: what the session had cost before is forgotten."""
        self._model = ModelClient(flag("--base-url"), self._commands, self._during)
        self._used = Counter(_USAGE)
        """What the turn took."""
        self._calls = count(1)
        self._msg_id = ""
        self._window = True
        self._service_faults: list[str] = []
        self._exhausted = False
        """What each later request fails with, in order; the last one for good."""
        self._journal_faults: list[str] = []
        """What each later message fails with, in order; the last one for good."""
        self._context: list[str] = []
        """Of `init_history`, which a resumed session has no more."""
        self._late: Frame = {}
        """The call that ran when its turn was stopped: its result comes later, at any time."""
        self._allowed: set[str] = set()
        """Tools that were allowed for good."""
        self._granted: list[str] = []

    def capabilities(self) -> Frame:
        return {
            "tool_approval": True,
            "thinking": True,
            "effort": False,
            "effort_levels": [],
            "modes": list(_MODES),
            "current_mode": self._mode,
            "mcp": False,
            "sub_agent_traces": True,
            "cost_attribution": True,
            "plugins": True,
            "user_model_backend": "local",
            "memory_enabled": True,
        }

    def serve(self) -> None:
        about: Frame = {"session_id": self._memory.id, "session_persistence": "journaled_without_replay"}
        about |= {"capabilities": self.capabilities(), "contract": _CONTRACT, "execution_policy": _POLICY}
        emit(type="ready", version="0.13.4", **about)
        emit(type="execution_policy", **_POLICY)
        emit(type="workspace_policy", policy={"profile": "strict", "backend": "bubblewrap"})
        emit(type="capability_activation", capability="learned_policy", stage="declared")
        while (frame := self._commands.next())["type"]:
            self._apply(frame)

    def _apply(self, frame: Frame) -> None:
        match frame:
            case {"type": "message", "content": str(content)}:
                self._window = False
                self._turn(frame["msg_id"], content)
            case {"type": "add_mcp_server", "name": name}:
                self._add_server(str(name))
            case {"type": "init_history", "text": text}:
                self._window = False
                self._context.append(str(text))
            case {"type": "stop"}:
                pass
            case _:
                self._window = False
                self._aside(frame)

    def _aside(self, frame: Frame) -> None:
        """What is answered also during a turn."""
        match frame:
            case {"type": "stop"}:
                raise Stopped
            case {"type": "ping"}:
                emit(type="pong")
            case {"type": "set_mode", "mode": mode} if mode != "default" and not os.environ.get(
                "WAYLAND_ALLOW_WIRE_FORCE"
            ):
                info(f"set_mode: '{mode}' refused — {_OPT_IN}")
            case {"type": "set_mode", "mode": mode} if mode == self._mode:
                info(f"mode unchanged: {mode}")
            case {"type": "set_mode", "mode": mode}:
                self._mode = mode
                emit(type="execution_policy", **_POLICY)
                info(f"mode updated: {mode}")
                emit(type="config_changed", capabilities=self.capabilities())
            case {"type": "set_config", "model": str(model)}:
                info(f"config updated: model: before → {model}")
                emit(type="config_changed", capabilities=self.capabilities())
            case {"type": "set_config", "effort": str()}:
                info("config updated: effort: not supported by current provider")
                emit(type="config_changed", capabilities=self.capabilities())
            case {"type": "grant_path", "root": root} if self._may_grant(frame):
                self._granted.append(str(root))
                emit(type="workspace_policy", policy={"readable_roots": self._granted})
                info(f"folder granted for this session: {root} (read-only)")
            case {"type": "grant_path"}:
                info(_NO_GRANT)
            case {"type": "continue_with_budget", "request_id": id}:
                refusal = {"outcome": "refused", "refusal_reason": "host_not_authorized"}
                emit(type="budget_grant_result", request_id=id, additional_tokens=0, additional_cost_usd=0.0, **refusal)

    @staticmethod
    def _may_grant(frame: Frame) -> bool:
        return "--allow-host-path-grants" in sys.argv and frame.get("access", "read") == "read"

    def _add_server(self, name: str) -> None:
        if not self._window:
            self._error(f"AddMcpServer '{name}': rejected — only allowed before first Message")
        elif not os.environ.get("WAYLAND_ASSISTANT"):
            self._error(f"AddMcpServer '{name}': {_ASSISTANT}")
            emit(type="mcp_failed", name=name, reason=_ASSISTANT)
        else:
            emit(type="mcp_ready", name=name, tools=["echo"])

    @staticmethod
    def _error(message: str, code: str = "engine_error") -> None:
        emit(type="error", error={"code": code, "message": message, "retryable": False})

    # A turn.

    def _turn(self, msg_id: str, content: str) -> None:
        self._msg_id = msg_id
        if self._journal_faults:
            self._error(self._journal_faults[0])
            self._journal_faults = self._journal_faults[1:] or self._journal_faults
            return self._end_early("error")
        if self._exhausted:
            self._exceed("budget_extension_required")
            return self._end_early("length")
        if self._memory.state["interrupted"]:
            self._error(_INTERRUPTED)
            if self._late:
                emit(type="tool_result", **self._late, status="error", output="cancelled", output_type="text")
            return self._end_early("error")
        self._memory.save(prompts=[*self._memory.state["prompts"], content], interrupted=True)
        info(_NO_REPLAY, msg_id)
        emit(type="stream_start", msg_id=msg_id)
        try:
            ends_well = self._converse(content) if flag("--base-url") else self._play(script(content))
        except Stopped as stopped:
            self._late = stopped.args[0] if stopped.args else {}
            return self._end_early("stop")
        self._memory.save(interrupted=False)
        return self._end() if ends_well else self._end_early("length" if self._exhausted else "error")

    def _exceed(self, reason: str) -> None:
        emit(type="budget_exceeded", reason=reason, observed="1024000 output tokens", limit="1000000 output tokens")
        self._error("Provider call not started: budget cap 'per_session_output_tokens' would be exceeded")

    def _end_early(self, finish_reason: str) -> None:
        usage = {"input_tokens": 0, "output_tokens": 0}
        emit(type="stream_end", msg_id=self._msg_id, finish_reason=finish_reason, usage=usage)

    def _end(self) -> None:
        self._memory.spend(self._used)
        self._cost += self._price
        row: Frame = {"turn": 1, "model": "mystery", "provider": "anthropic", "cost_usd": self._price}
        row["priced"] = bool(self._price)
        emit(type="session_cost", session_id=self._memory.id, total_cost_usd=self._cost, per_turn=[row])
        usage = {**self._memory.state["used"], "active_window_percent": 2}
        end: Frame = {"msg_id": self._msg_id, "finish_reason": "stop", "usage": usage}
        emit(type="stream_end", **end, usage_delta=self._used, agent_run_id="r")

    def _converse(self, content: str) -> bool:
        """Does what the model says. Returns whether the turn ends well."""
        texts, self._context = [*self._context, content], []
        messages = [*self._memory.state["messages"], *({"role": "user", "content": text} for text in texts)]
        self._used = Counter[str]()
        info(_NO_PRICE, self._msg_id)
        try:
            for reply in self._model.replies(messages, self._text, self._bash):
                self._used.update(reply.usage)
                if reply.calls:
                    info(_NO_PRICE, self._msg_id)
        except ServiceError as error:
            self._error(f"Provider error: API error {error}")
            return False
        self._memory.save(messages=messages)
        return True

    def _fails_at_the_service(self, word: str, rest: str) -> bool:
        """Whether the request of this part fails, for one because the key was dropped before."""
        if self._service_faults:
            emit(type="provider_failure", failure="missing_api_key")
            self._error(self._service_faults[0])
            self._service_faults = self._service_faults[1:] or self._service_faults
            return True
        if word != "fail":
            emit(type="provider_attempt")
            return False
        if rest == "529":
            emit(type="provider_attempt", failure="http_529")
            emit(type="provider_failure", failure="http_529")
            emit(type="provider_retry", failure="http_529")
            info(_OUTAGE, self._msg_id)
            self._exhausted = True
            self._exceed("per_session_output_tokens")
            self._text("[stopped early]")
            return True
        if rest in ("401", "429"):
            emit(type="provider_attempt", failure=f"http_{rest}")
            emit(type="provider_failure", failure=f"http_{rest}")
            self._service_faults = [_NO_KEY, _NO_ATTEMPT]
        if rest == "429":
            emit(type="provider_retry", failure="http_429")
            info(_LIMITED, self._msg_id)
            return self._fails_at_the_service("say", "")
        self._error(*(("Provider error: API error 401: no", "auth_required") if rest == "401" else (rest,)))
        return True

    def _play(self, parts: list[tuple[str, str]]) -> bool:
        for word, rest in parts:
            info(_NO_PRICE, self._msg_id)
            if self._fails_at_the_service(word, rest):
                return False
            match word:
                case "wait":
                    self._text("…")
                    while True:
                        self._during(self._commands.next())
                case "run":
                    self._bash({"command": rest})
                case "read":
                    self._call("Read", "info", {"file_path": rest}, f"Read {rest}")
                case "ask":
                    self._question(rest)
                case "peek":
                    self._call("Read", "info", {"file_path": rest}, f"Read {rest}", boundary=True)
                case "outage":
                    info(_OUTAGE, self._msg_id)
                    self._journal_faults = [*_JOURNAL_FAULTS] if flag("--resume") else []
                case "recall":
                    self._text(" | ".join([*self._context, *self._memory.state["prompts"]]))
                case _:
                    self._text(rest)
        return True

    def _text(self, text: str) -> None:
        emit(type="text_delta", text=text, msg_id=self._msg_id)

    def _during(self, frame: Frame) -> None:
        if frame["type"] not in ("message", "init_history", "add_mcp_server"):
            self._aside(frame)

    def _question(self, text: str) -> None:
        options = [{"label": label, "description": ""} for label in ("red", "blue")]
        ids, args = self._ids(), {"question": text, "options": options}
        tool: Frame = {"name": "AskUserQuestion", "category": "info", "args": args, "description": f"ask_user: {text}"}
        info("Tool call: AskUserQuestion", self._msg_id)
        answer = self._request(ids, tool)
        if answer["type"] == "tool_deny":
            emit(type="tool_cancelled", **ids, reason=answer.get("reason", ""))
            return info("[AskUserQuestion error] Tool denied", self._msg_id)
        emit(type="tool_running", **ids, tool_name="AskUserQuestion")
        return info(f"[AskUserQuestion success] {answer['answer']}", self._msg_id)

    def _ids(self, call_id: str = "") -> Frame:
        return {"msg_id": self._msg_id, "call_id": call_id or f"call_{os.getpid()}_{next(self._calls)}"}

    def _request(self, ids: Frame, tool: Frame) -> Frame:
        call_id = ids["call_id"]
        emit(type="tool_request", **ids, tool=tool)
        about = {"correlation_id": call_id, "reason": tool["category"], "context": tool["description"]}
        emit(type="approval_required", call_id=call_id, resume_token="", **about)
        return self._answer(call_id)

    def _bash(self, args: Frame, call_id: str = "") -> str:
        return self._call("Bash", "exec", args, f"Execute: {args['command']}", call_id)

    def _call(
        self, name: str, category: str, args: Frame, description: str, call_id: str = "", *, boundary: bool = False
    ) -> str:
        """Makes a call. Returns what the model is told of it."""
        ids = self._ids(call_id)
        tool: Frame = {"name": name, "category": category, "args": args, "description": description}
        info(f"Tool call: {name}", self._msg_id)
        outside = boundary and not self._is_granted(args["file_path"])
        if outside or (category != "info" and self._mode != "force" and name not in self._allowed):
            target = args.get("file_path", "")
            escalation = {"kind": "path_boundary", "target": target, "access": "read"}
            escalation["suggested_root"] = str(Path(target).parent)
            answer = self._request(ids, tool | ({"escalation": escalation} if outside else {}))
            if answer["type"] == "tool_deny":
                emit(type="tool_cancelled", **ids, reason=answer.get("reason", ""))
                info(f"[{name} error] Tool denied", self._msg_id)
                return "Tool denied"
            self._grant(name, answer.get("scope", "once"))
        else:
            emit(type="call_announced", **ids, tool=tool)
        emit(type="tool_running", **ids, tool_name=name)
        refused = boundary and not self._is_granted(args["file_path"])
        try:
            status, output = ("error", "path is outside sandbox root") if refused else self._work(args)
        except Stopped:
            raise Stopped({**ids, "tool_name": name}) from None
        emit(type="tool_result", **ids, tool_name=name, status=status, output=output, output_type="text")
        info(f"[{name} {status}] {output}", self._msg_id)
        return output

    def _grant(self, name: str, scope: Any) -> None:
        match scope:
            case "always":
                self._allowed.add(name)
            case {"always_path": {"root": root, **others}} if not others.get("write"):
                self._granted.append(str(root))
            case {"always_path": _}:
                info("folder access was NOT granted")

    def _is_granted(self, path: str) -> bool:
        return any(Path(path).is_relative_to(root) for root in self._granted)

    def _answer(self, call_id: str) -> Frame:
        while True:
            frame = self._commands.next()
            if frame["type"] in ("tool_approve", "tool_deny") and frame["call_id"] == call_id:
                return frame
            self._during(frame)

    def _work(self, args: Frame) -> tuple[str, str]:
        if "file_path" in args:
            return "success", Path(args["file_path"]).read_text()
        process = run_command(args["command"])
        try:
            while process.poll() is None:
                if frame := self._commands.next_within(0.02):
                    self._during(frame)
        except Stopped:
            process.kill()
            raise
        return "error" if process.returncode else "success", process.communicate()[0]


def main() -> None:
    print(_REMARK, file=sys.stderr)
    resume, named = flag("--resume"), flag("--session-id")
    memory = Memory(resume or named or uuid.uuid4().hex[:12])
    why = "" if _SESSION_ID.fullmatch(memory.id) else f"Invalid session ID '{memory.id}': must be 6-40 hex characters"
    if not why and bool(resume) != memory.path.exists():
        why = f"Session '{memory.id}' not found" if resume else f"Session ID '{memory.id}' already exists"
    if why:
        error = {"code": "init_failed", "message": f"Engine failed to start: {why}", "retryable": False}
        emit(type="error", error=error)
        leave(f"Error: {why}", 1)
    memory.save()
    WaylandCore(memory).serve()


if __name__ == "__main__":
    main()
