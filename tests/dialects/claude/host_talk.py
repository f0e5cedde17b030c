"""The host's end by itself, and frames as an engine would write them."""

import json
from typing import Any

from dialects.pair import env
from grammar_check import Grammar
from polylect.dialects.claude.host.codec import HostSide
from polylect.vocab import events as e
from polylect.vocab.commands import Command
from polylect.vocab.content import Thinking

Frame = dict[str, Any]

INIT: Frame = {"type": "system", "subtype": "init", "session_id": "s", "model": "m", "claude_code_version": "2.1.197"}
SPENT = {"input_tokens": 500, "output_tokens": 120, "cache_read_input_tokens": 3000, "cache_creation_input_tokens": 0}
RESULT: Frame = {"type": "result", "subtype": "success", "is_error": False, "result": "", "num_turns": 1}


def text(words: str) -> Frame:
    return {"type": "text", "text": words}


def thinking(words: str) -> Frame:
    return {"type": "thinking", "thinking": words, "signature": "signed"}


def use(id: str, name: str = "Bash", **args: Any) -> Frame:
    return {"type": "tool_use", "id": id, "name": name, "input": args}


def assistant(*content: Frame, id: str = "", parent: str | None = None, **more: Any) -> Frame:
    message = {"role": "assistant", "content": list(content)} | ({"id": id} if id else {})
    return {"type": "assistant", "message": message, "parent_tool_use_id": parent, **more}


def tool_result(
    id: str, content: Any = "done", *, parent: str | None = None, error: bool = False, **more: Any
) -> Frame:
    block = {"type": "tool_result", "tool_use_id": id, "content": content, "is_error": error}
    return {"type": "user", "message": {"role": "user", "content": [block]}, "parent_tool_use_id": parent, **more}


def stream(parent: str | None = None, **event: Any) -> Frame:
    return {"type": "stream_event", "event": event, "parent_tool_use_id": parent}


def system(subtype: str, **more: Any) -> Frame:
    return {"type": "system", "subtype": subtype, **more}


def control(id: str, subtype: str, **more: Any) -> Frame:
    return {"type": "control_request", "request_id": id, "request": {"subtype": subtype, **more}}


def success(id: str, **payload: Any) -> Frame:
    response = {"subtype": "success", "request_id": id, "response": payload}
    return {"type": "control_response", "response": response}


class Host:
    """Checks that all it hears is grammatical, and keeps it."""

    def __init__(self, *, greeted: bool = True, **options: Any) -> None:
        self.side = HostSide(env(), **options)
        self._grammar = Grammar()
        self.received: list[e.Event] = []
        self._keep(self.side.start())
        self.greeting = self.said()
        if greeted:
            self.receive(success(self.greeting[0]["request_id"], claude_code_version="2.1.325"))

    def receive(self, *frames: Frame | str) -> list[e.Event]:
        lines = [frame if isinstance(frame, str) else json.dumps(frame) for frame in frames]
        return self._keep(self.side.receive("".join(f"{line}\n" for line in lines).encode()))

    def send(self, *commands: Command) -> list[e.Event]:
        return [event for command in commands for event in self._keep(self.side.send(command))]

    def said(self) -> list[Frame]:
        return [json.loads(line) for line in self.side.data_to_send().splitlines()]

    def end(self) -> list[e.Event]:
        return self._keep(self.side.receive_eof())

    def _keep(self, events: list[e.Event]) -> list[e.Event]:
        for event in events:
            self._grammar.check(event)
        self.received += events
        return events


def brief(events: list[e.Event]) -> list[str]:
    """The blocks, calls and turns of a conversation, with their lanes, a word or two each."""
    result = []
    for event in events:
        lane = f"{event.agent}: " if event.agent else ""
        match event:
            case e.BlockEnded(Thinking(words, redacted=hidden)):
                result.append(f"{lane}thinks {words or hidden}")
            case e.BlockEnded(block):
                result.append(f"{lane}says {getattr(block, 'text', '?')}")
            case e.ToolCalled(call):
                result.append(f"{lane}calls {call}")
            case e.ToolFinished(call, outcome=outcome):
                result.append(f"{lane}{outcome} {call}")
            case e.TurnEnded(reason):
                result.append(f"turn {reason}")
    return result


def only(events: list[e.Event], *kinds: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kinds)]
