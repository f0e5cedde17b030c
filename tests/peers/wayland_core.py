"""A scripted peer that behaves as wayland-core 0.13.4 was seen to behave.

Its quirks: a session whose turn was stopped, killed or refused by the model's service is interrupted, and refuses every
later message; after a refused key it asks no model any more; modes and servers are refused unless its environment
allows them, mostly by an `info` only; a read outside the workspace is asked for with an `escalation`, and succeeds only
if the folder is granted; a model without a price costs 0 with `priced` false; each call and its result are repeated by
an `info`. `peek PATH` in a script is a read outside the workspace.
"""

import os
import sys
import uuid
from itertools import count
from pathlib import Path
from typing import Any

from peers.peer import Commands, Frame, Memory, Stopped, flag, info, run_command, say, script

_MODES = ("default", "auto_edit", "force")
_INTERRUPTED = (
    "Session persistence authority unavailable: session has an interrupted turn at journal cursor Some(7); "
    "resume, reconcile, or cancel it before starting a new message"
)
_NO_PRICE = "No published price for anthropic/mystery: cost is not counted"
_NO_REPLAY = "Crash replay is off for this session"
_ASSISTANT = "active assistant identity is required for a runtime MCP declaration"
_NO_GRANT = "path grant refused: the engine was started without --allow-host-path-grants"
_CONTRACT = {"name": "wayland-desktop-core", "major": 1, "minor": 16, "generator": "wcore-desktop-contract-gen/16"}
_POLICY = {"critical": True, "contract_version": "1.0", "revision": 0, "reason": "launch", "effective_at_unix_ms": 1,
           "policy": {"posture": "smart", "approvals": "prompt", "sandbox": "required"}}  # fmt: skip


class WaylandCore:
    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._commands = Commands()
        self._mode = "default"
        self._calls = count(1)
        self._msg_id = ""
        self._window = True
        self._has_key = True
        self._context: list[str] = []
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
            "mcp": True,
            "sub_agent_traces": True,
            "cost_attribution": True,
        }

    def serve(self) -> None:
        about: Frame = {"session_id": self._memory.id, "session_persistence": "journaled_without_replay"}
        about |= {"capabilities": self.capabilities(), "contract": _CONTRACT, "execution_policy": _POLICY}
        say(type="ready", version="0.13.4", **about)
        say(type="execution_policy", **_POLICY)
        say(type="workspace_policy", policy={"profile": "strict", "backend": "bubblewrap"})
        say(type="capability_activation", capability="learned_policy", stage="declared")
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
                say(type="pong")
            case {"type": "set_mode", "mode": mode} if mode != "default" and not os.environ.get(
                "WAYLAND_ALLOW_WIRE_FORCE"
            ):
                info(f"set_mode: '{mode}' refused: start with --force to allow it")
            case {"type": "set_mode", "mode": mode}:
                self._mode = mode
                info(f"mode updated: {mode}")
                say(type="config_changed", capabilities=self.capabilities())
            case {"type": "set_config", "model": str(model)}:
                info(f"config updated: model: before → {model}")
                say(type="config_changed", capabilities=self.capabilities())
            case {"type": "set_config", "effort": str()}:
                info("config updated: effort: not supported by current provider")
                say(type="config_changed", capabilities=self.capabilities())
            case {"type": "grant_path", "root": root} if self._may_grant(frame):
                self._granted.append(str(root))
                say(type="workspace_policy", policy={"readable_roots": self._granted})
                info(f"folder granted for this session: {root} (read-only)")
            case {"type": "grant_path"}:
                info(_NO_GRANT)
            case {"type": "continue_with_budget", "request_id": id}:
                refusal = {"outcome": "refused", "refusal_reason": "host_not_authorized"}
                say(type="budget_grant_result", request_id=id, additional_tokens=0, additional_cost_usd=0.0, **refusal)

    @staticmethod
    def _may_grant(frame: Frame) -> bool:
        return "--allow-host-path-grants" in sys.argv and frame.get("access", "read") == "read"

    def _add_server(self, name: str) -> None:
        if not self._window:
            self._error(f"AddMcpServer '{name}': rejected — only allowed before first Message")
        elif not os.environ.get("WAYLAND_ASSISTANT"):
            self._error(f"AddMcpServer '{name}': {_ASSISTANT}")
            say(type="mcp_failed", name=name, reason=_ASSISTANT)
        else:
            say(type="mcp_ready", name=name, tools=["echo"])

    @staticmethod
    def _error(message: str, code: str = "engine_error") -> None:
        say(type="error", error={"code": code, "message": message, "retryable": False})

    # A turn.

    def _turn(self, msg_id: str, content: str) -> None:
        self._msg_id = msg_id
        if self._memory.state["interrupted"] or not self._has_key:
            self._error("No API key for anthropic" if not self._has_key else _INTERRUPTED)
            say(type="stream_end", msg_id=msg_id, finish_reason="error")
            return
        self._memory.save(prompts=[*self._memory.state["prompts"], content], interrupted=True)
        info(_NO_REPLAY)
        say(type="stream_start", msg_id=msg_id)
        try:
            ends_well = self._play(script(content))
        except Stopped:
            say(type="stream_end", msg_id=msg_id, finish_reason="stop", usage={"input_tokens": 0, "output_tokens": 0})
            return
        self._end(ends_well)

    def _end(self, ends_well: bool) -> None:
        requests = self._memory.state["requests"] + 1
        if ends_well:
            self._memory.save(interrupted=False, requests=requests)
        row = {"turn": 1, "model": "mystery", "provider": "anthropic", "cost_usd": 0.0, "priced": False}
        say(type="session_cost", session_id=self._memory.id, total_cost_usd=0.0, per_turn=[row])
        usage = {"input_tokens": 11 * requests, "output_tokens": 7 * requests}
        end: Frame = {"msg_id": self._msg_id, "finish_reason": "stop" if ends_well else "error", "usage": usage}
        say(type="stream_end", **end, usage_delta={"input_tokens": 11, "output_tokens": 7}, agent_run_id="r")

    def _play(self, parts: list[tuple[str, str]]) -> bool:
        for word, rest in parts:
            say(type="provider_attempt")
            info(_NO_PRICE)
            match word:
                case "fail" if rest == "401":
                    self._has_key = False
                    self._error("Provider error: 401 Unauthorized", "auth_required")
                    return False
                case "fail":
                    self._error(rest)
                    return False
                case "wait":
                    say(type="text_delta", text="…", msg_id=self._msg_id)
                    while True:
                        self._during(self._commands.next())
                case "run":
                    self._call("Bash", "exec", {"command": rest}, f"Execute: {rest}")
                case "read":
                    self._call("Read", "info", {"file_path": rest}, f"Read {rest}")
                case "peek":
                    self._call("Read", "info", {"file_path": rest}, f"Read {rest}", boundary=True)
                case "recall":
                    text = " | ".join([*self._context, *self._memory.state["prompts"]])
                    say(type="text_delta", text=text, msg_id=self._msg_id)
                case _:
                    say(type="text_delta", text=rest, msg_id=self._msg_id)
        return True

    def _during(self, frame: Frame) -> None:
        if frame["type"] not in ("message", "init_history", "add_mcp_server"):
            self._aside(frame)

    def _call(self, name: str, category: str, args: Frame, description: str, *, boundary: bool = False) -> None:
        ids = {"msg_id": self._msg_id, "call_id": f"call_{os.getpid()}_{next(self._calls)}"}
        tool: Frame = {"name": name, "category": category, "args": args, "description": description}
        info(f"Tool call: {name}")
        outside = boundary and not self._is_granted(args["file_path"])
        if outside or (category != "info" and self._mode != "force" and name not in self._allowed):
            target = args.get("file_path", "")
            escalation = {"kind": "path_boundary", "target": target, "access": "read"}
            escalation["suggested_root"] = str(Path(target).parent)
            say(type="tool_request", **ids, tool=tool | ({"escalation": escalation} if outside else {}))
            say(type="approval_required", call_id=ids["call_id"], resume_token="", reason=category, context=description)
            answer = self._answer(ids["call_id"])
            if answer["type"] == "tool_deny":
                say(type="tool_cancelled", **ids, reason=answer.get("reason", ""))
                return info(f"[{name} error] Tool denied")
            self._grant(name, answer.get("scope", "once"))
        else:
            say(type="call_announced", **ids, tool=tool)
        say(type="tool_running", **ids, tool_name=name)
        refused = boundary and not self._is_granted(args["file_path"])
        status, output = ("error", "path is outside sandbox root") if refused else self._work(args)
        say(type="tool_result", **ids, tool_name=name, status=status, output=output, output_type="text")
        return info(f"[{name} {status}] {output}")

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
    resume, named = flag("--resume"), flag("--session-id")
    memory = Memory(resume or named or str(uuid.uuid4()))
    if bool(resume) != memory.path.exists():
        error = {"code": "init_failed", "message": f"no such session, or one too many: {memory.id}", "retryable": False}
        say(type="error", error=error)
        raise SystemExit(1)
    memory.save()
    WaylandCore(memory).serve()


if __name__ == "__main__":
    main()
