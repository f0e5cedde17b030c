"""A client of the Messages API, for scripted peers that are to ask the model which every other engine asks.

A peer that is started with `--base-url` answers prompts by it, instead of playing the script in the prompt.
"""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from peers.peer import Commands, Frame

_EVENT = "model event"
"""The type under which events of the model are queued among the commands of the host."""


class ServiceError(Exception):
    """The service refused a request. The text has its status and its answer."""


class Reply(NamedTuple):
    content: list[Frame]
    usage: dict[str, int]

    @property
    def calls(self) -> list[Frame]:
        return [block for block in self.content if block["type"] == "tool_use"]


class ModelClient:
    """Asks the model at `url`. Commands that come while it writes go to `during`, which may raise."""

    def __init__(self, url: str, commands: Commands, during: Callable[[Frame], None]) -> None:
        self._url = url
        self._commands = commands
        self._during = during

    def replies(
        self, messages: list[Frame], on_text: Callable[[str], None], run: Callable[[Frame, str], str]
    ) -> Iterator[Reply]:
        """Replies until one has no calls. What `run` makes of each call is added to `messages`. Raises ServiceError."""
        while True:
            reply = self.reply(messages, on_text)
            messages.append({"role": "assistant", "content": reply.content})
            yield reply
            if not reply.calls:
                return
            outputs = [(call["id"], run(call["input"], call["id"])) for call in reply.calls]
            results = [{"type": "tool_result", "tool_use_id": id, "content": output} for id, output in outputs]
            messages.append({"role": "user", "content": results})

    def reply(self, messages: list[Frame], on_text: Callable[[str], None]) -> Reply:
        """The reply to these messages; its text is also handed to `on_text` as it comes. Raises ServiceError."""
        reply, arguments = Reply([], {}), ""
        for event in self._events(messages):
            match event:
                case {"type": "refused", "text": text}:
                    raise ServiceError(text)
                case {"message": {"usage": usage}} | {"type": "message_delta", "usage": usage}:
                    reply.usage.update(usage)
                case {"content_block": block}:
                    reply.content.append(block)
                    arguments = ""
                case {"delta": {"text": text}}:
                    reply.content[-1]["text"] += text
                    on_text(text)
                case {"delta": {"partial_json": part}}:
                    arguments += part
                    reply.content[-1]["input"] = {}
                case {"type": "content_block_stop"} if arguments:
                    reply.content[-1]["input"] = json.loads(arguments)
        return reply

    def _events(self, messages: list[Frame]) -> Iterator[Frame]:
        threading.Thread(target=self._ask, args=(json.dumps(messages),), daemon=True).start()
        while True:
            frame = self._commands.next()
            if frame["type"] != _EVENT:
                self._during(frame)
            elif (event := frame["event"])["type"] == "message_stop":
                return
            else:
                yield event

    def _ask(self, messages: str) -> None:
        body = {"model": "claude-sonnet-4-5", "max_tokens": 1000, "stream": True, "messages": json.loads(messages)}
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(f"{self._url}/v1/messages", json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request) as answer:
                for line in answer:
                    if line.startswith(b"data: "):
                        self._put(json.loads(line[6:]))
        except urllib.error.HTTPError as error:
            self._put({"type": "refused", "text": f"{error.code}: {error.read().decode()}"})

    def _put(self, event: dict[str, Any]) -> None:
        self._commands.put({"type": _EVENT, "event": event})
