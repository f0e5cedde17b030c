"""A scripted peer that behaves as aionrs 0.2.10 was seen to behave.

Its quirks: commands that it cannot use are dropped without an answer; `stop` ends the engine without a frame, and the
process waits for the end of its input; `scope` of an approval is ignored; `init_history` never reaches the model;
`usage` is the total of the session, and its input includes what came from the cache; each call and its result are
repeated by an `info`; a server that fails is `mcp_ready` without tools; a session that was stopped inside a call cannot
be gone on with, because the model's service refuses its history.
"""

import os
import sys
import uuid
from itertools import count
from pathlib import Path

from peers.model import ModelClient, ServiceError
from peers.peer import Commands, Frame, Memory, Stopped, emit, flag, info, leave, run_command, script

_FLAGS = (
    *("--json-stream", "--resume", "--session-id", "--model", "--provider", "--base-url", "--api-key"),
    *("--max-turns", "--system-prompt"),
)
_MODES = ("default", "auto_edit", "yolo")
_USAGE = {"input_tokens": 11, "output_tokens": 7, "cache_read_tokens": 4}
"""Of one model request; the input includes the 4."""
_NOTHING = {"input_tokens": 0, "output_tokens": 0}


class Aionrs:
    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._commands = Commands()
        self._mode = "default"
        self._images = "unknown"
        self._model = ModelClient(flag("--base-url"), self._commands, self._during)
        self._calls = count(1)
        self._msg_id = ""
        self._window = True
        """Whether servers may still be added."""

    def capabilities(self) -> Frame:
        return {
            "tool_approval": True,
            "image_input": self._images,
            "thinking": True,
            "effort": False,
            "effort_levels": [],
            "modes": list(_MODES),
            "current_mode": self._mode,
            "mcp": False,
        }

    def serve(self) -> None:
        emit(type="ready", version="0.2.10", session_id=self._memory.id, capabilities=self.capabilities())
        while (frame := self._commands.next())["type"]:
            try:
                self._apply(frame)
            except Stopped:
                while self._commands.next()["type"]:
                    pass  # the engine is gone, but its process waits in a read
                return

    def _apply(self, frame: Frame) -> None:
        match frame:
            case {"type": "message", "content": str(content)}:
                self._window = False
                self._run(frame["msg_id"], content)
            case {"type": "add_mcp_server", "name": name}:
                self._add_server(str(name), frame)
            case _:
                self._window = False
                self._aside(frame)

    def _aside(self, frame: Frame) -> None:
        """What is answered also during a run."""
        match frame:
            case {"type": "stop"}:
                raise Stopped
            case {"type": "ping"}:
                emit(type="pong")
            case {"type": "set_mode", "mode": mode} if mode in _MODES:
                self._mode = mode
                info(f"mode updated: {mode}")
                emit(type="config_changed", capabilities=self.capabilities())
            case {"type": "set_config", "effort": str()}:
                info("config updated: effort: not supported by current provider")
                emit(type="config_changed", capabilities=self.capabilities())
            case {"type": "set_config", "image_input": "supported" | "unsupported" | "unknown" as word}:
                self._images = word
                info(f"config updated: image input: Unknown → {word.title()}")
                emit(type="config_changed", capabilities=self.capabilities())
            case {"type": "set_config", "model": str(model)}:
                info(f"config updated: model: before → {model}")
                emit(type="config_changed", capabilities=self.capabilities())

    def _add_server(self, name: str, frame: Frame) -> None:
        if not self._window:
            self._error(f"AddMcpServer '{name}': rejected — only allowed before first Message")
        else:
            emit(type="mcp_ready", name=name, tools=["echo"] if frame.get("command") == "good" else [])

    @staticmethod
    def _error(message: str) -> None:
        emit(type="error", error={"code": "engine_error", "message": message, "retryable": False})

    # A run.

    def _run(self, msg_id: str, content: str) -> None:
        self._msg_id = msg_id
        self._memory.save(prompts=[*self._memory.state["prompts"], content])
        emit(type="stream_start", msg_id=msg_id)
        ends_well = self._converse(content) if flag("--base-url") else self._play(script(content))
        emit(type="stream_end", msg_id=msg_id, usage=self._memory.state["used"] if ends_well else _NOTHING)

    def _converse(self, content: str) -> bool:
        """Does what the model says. Returns whether the run ends well."""
        messages = [*self._memory.state["messages"], {"role": "user", "content": content}]
        self._memory.save(messages=messages)
        try:
            for reply in self._model.replies(messages, self._text, self._exec):
                self._memory.spend(reply.usage)
        except ServiceError as error:
            self._error(f"Provider error: API error {error}")
            return False
        self._memory.save(messages=messages)
        return True

    def _play(self, parts: list[tuple[str, str]]) -> bool:
        for word, rest in parts:
            if self._memory.state["open_calls"]:
                self._error("Provider error: API error 400: tool_use ids were found without tool_result blocks")
                return False
            match word:
                case "fail":
                    self._error(rest)
                    return False
                case "wait":
                    self._text("…")
                    while True:
                        self._during(self._commands.next())
                case "run":
                    self._exec({"cmd": rest}, self._call_id())
                case "read":
                    self._call("Read", "info", {"file_path": rest}, f"Read {rest}", self._call_id())
                case "recall":
                    self._text(" | ".join(self._memory.state["prompts"]))
                case _:
                    self._text(rest)
        self._memory.spend(_USAGE)
        return True

    def _text(self, text: str) -> None:
        emit(type="text_delta", text=text, msg_id=self._msg_id)

    def _during(self, frame: Frame) -> None:
        """A command during a run: messages, contexts and servers are dropped; the end of the input changes nothing."""
        if frame["type"] not in ("message", "init_history", "add_mcp_server"):
            self._aside(frame)

    def _call_id(self) -> str:
        return f"call_{os.getpid()}_{next(self._calls)}"

    def _exec(self, args: Frame, call_id: str) -> str:
        return self._call("ExecCommand", "exec", args, f"Execute: {args['cmd']}", call_id)

    def _call(self, name: str, category: str, args: Frame, description: str, call_id: str) -> str:
        """Makes a call. Returns what the model is told of it."""
        ids = {"msg_id": self._msg_id, "call_id": call_id}
        info(f"Tool call: {name}")
        self._memory.save(open_calls=1)
        if category != "info" and self._mode != "yolo":
            tool = {"name": name, "category": category, "args": args, "description": description}
            emit(type="tool_request", **ids, tool=tool)
            answer = self._answer(call_id)
            if answer["type"] == "tool_deny":
                emit(type="tool_cancelled", **ids, reason=answer.get("reason", ""))
                return self._result(name, "error", f"Tool denied: {answer.get('reason', '')}")
        emit(type="tool_running", **ids, tool_name=name)
        status, output = self._work(args)
        emit(type="tool_result", **ids, tool_name=name, status=status, output=output, output_type="text")
        return self._result(name, status, output)

    def _result(self, name: str, status: str, output: str) -> str:
        self._memory.save(open_calls=0)
        info(f"[{name} {status}] {output}")
        return output

    def _answer(self, call_id: str) -> Frame:
        while True:
            frame = self._commands.next()
            plain = isinstance(frame.get("scope", "once"), str)
            if frame["type"] in ("tool_approve", "tool_deny") and frame["call_id"] == call_id and plain:
                return frame
            self._during(frame)

    def _work(self, args: Frame) -> tuple[str, str]:
        if "file_path" in args:
            return "success", Path(args["file_path"]).read_text()
        process = run_command(args["cmd"])
        try:
            while process.poll() is None:
                if frame := self._commands.next_within(0.02):
                    self._during(frame)
        except Stopped:
            process.kill()  # the shell, and not what it has started
            raise
        output = process.communicate()[0]
        status = "error" if process.returncode else "success"
        return status, f"Exit code: {process.returncode}\nSTDOUT:\n{output}\nSTDERR:"


def main() -> None:
    for word in sys.argv[1:]:
        if word.startswith("--") and word not in _FLAGS:
            leave(f"error: unexpected argument '{word}' found", 2)
    resume, named = flag("--resume"), flag("--session-id")
    memory = Memory(resume or named or str(uuid.uuid4()))
    if resume and not memory.path.exists():
        leave(f"Error: Session '{resume}' not found", 1)
    if named and memory.path.exists():
        leave(f"Error: Session ID '{named}' already exists", 1)
    memory.save()
    Aionrs(memory).serve()


if __name__ == "__main__":
    main()
