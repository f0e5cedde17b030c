"""Writes commands of the host as lines, and answers by itself those that need no engine.

`CommandWriter` has one handler for each type of command (`_HANDLERS`). A command that this wire cannot express raises
`Refusal`, which the codec turns into a reply (L2). Commands that become control requests get their reply when the
engine has answered all of them (`requests`). The codec is the only caller.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from polylect.dialects.claude.frames import control
from polylect.dialects.claude.frames import turn as shapes
from polylect.dialects.claude.host import encode
from polylect.dialects.claude.host.asks import PendingAsks
from polylect.dialects.claude.host.decode import EventReader
from polylect.dialects.claude.host.requests import PendingRequests
from polylect.dialects.host_base import Refusal, accepted, inexpressible, refuse_to_agent
from polylect.dialects.lenient import Object, inner, text, words
from polylect.dialects.prompt_queue import PromptQueue
from polylect.vocab import commands as c
from polylect.vocab import events as e
from polylect.vocab.answers import Ledger, State
from polylect.wire import jsonl

_ACKNOWLEDGED = {"jsonrpc": "2.0", "result": {}}


class CommandWriter:
    def __init__(
        self,
        send: Callable[[bytes], None],
        new_id: Callable[[], str],
        reader: EventReader,
        queue: PromptQueue,
        *,
        offers: Object,
        fields: Object,
    ) -> None:
        self._send = send
        self._new_id = new_id
        self._reader = reader
        self._queue = queue
        self._offers = offers
        self._fields = fields
        self.requests = PendingRequests(new_id, self._write)
        self.asks = PendingAsks()
        self.host_calls: dict[str, str] = {}
        """Host calls that the engine waits for: by request id, the subtype."""
        self._servers: dict[str, Object] = {}
        """The servers that this host has added: `mcp_set_servers` always lists all."""
        self.steers: set[str] = set()
        """Turns that carry a steer."""
        self.silent: set[str] = set()
        """Turns that only add context. The host did not ask for them, so their events are left out."""

    def write(self, command: c.Command) -> list[e.Event]:
        """Write a command. Returns the events that follow from it at this end. Raises Refusal."""
        handler = _HANDLERS.get(type(command))
        if handler is None:
            raise inexpressible("stream-json", command)
        return handler(self, command)

    def begin(self) -> None:
        self.requests.send("", self.initialized, encode.initialize(self._offers, self._fields))
        if self._reader.cost.resumed:  # claude 2.1 goes on counting where the session was left
            self.requests.send("", self._had_cost, {"subtype": "get_usage"}, quiet=True)

    def _had_cost(self, subtype: str, response: Object) -> list[e.Event]:
        return self._reader.cost.resume(inner(response, "session"))

    def initialized(self, subtype: str, response: Object) -> list[e.Event]:
        events = self._reader.settings.read_initialize(response)
        self.release(self._queue.ready())
        return events

    def respond(self, id: str, payload: Any = None, *, error: str = "", code: str = "") -> None:
        response: Object = {"subtype": "error", "request_id": id, "error": error} | (
            {"error_code": code} if code else {}
        )
        if not error:
            response = {"subtype": "success", "request_id": id, "response": payload}
        self._write({"type": "control_response", "response": response})

    def _write(self, frame: Object) -> None:
        """Write a frame as it is: frames of a host are never shortened. Raises Refusal if it is too long."""
        line = jsonl.dump(frame)
        if len(line) > jsonl.MAX_LINE:
            raise Refusal(f"a stream-json line holds at most {jsonl.MAX_LINE} bytes", "too_long")
        self._send(line)

    def release(self, prompts: list[c.Prompt]) -> None:
        for prompt in prompts:
            silent = prompt.turn in self.silent
            ours = self._reader.settings.ours
            self._write(encode.context(prompt) if silent else encode.prompt(prompt, ours=ours))
            self._reader.sent[prompt.turn] = None

    def _prompt(self, command: c.Prompt) -> list[e.Event]:
        prompt = self._queue.admit(command, self._new_id)
        encode.prompt(prompt, ours=self._reader.settings.ours)  # refused now, not when its time has come
        if prompt.busy == "interrupt" and self._queue.running:
            self._reader.stopped.update(self._queue.running)
            self._queue.began(prompt.turn, prompt)
            self.release([prompt])
        else:
            self.release(self._queue.add(prompt))
        return accepted(command)

    def _steer(self, command: c.Steer) -> list[e.Event]:
        """The wire cannot add to a running turn: the steer becomes the next turn."""
        refuse_to_agent(command)
        turn = f"steer-{self._new_id()}"
        self.steers.add(turn)
        return self._prompt(c.Prompt(turn, command.text, command.attachments, ref=command.ref))

    def _compact(self, command: c.Compact) -> list[e.Event]:
        words = f"/compact {command.instructions}".rstrip()
        turn = f"compact-{self._new_id()}"
        return self._prompt(c.Prompt(turn, words, busy=command.busy, ref=command.ref, session=command.session))

    def _cancel(self, command: c.Cancel) -> list[e.Event]:
        match command.what:
            case "turn":
                return self._interrupt(command)
            case "prompt":
                if dropped := self._queue.drop(command.target):
                    ended: list[e.Event] = [e.TurnEnded("cancelled", turn=prompt.turn) for prompt in dropped]
                    return [*accepted(command), *ended]
                return self._request(command, control.CancelAsyncMessage(message_uuid=command.target))
            case "agent":
                return self._request(command, control.StopTask(task_id=self._reader.agents.task_of(command.target)))
            case what:
                raise Refusal(f"stream-json has no word for cancelling a {what}")

    def _interrupt(self, command: c.Cancel) -> list[e.Event]:
        running, target, drop = self._queue.running, command.target, command.queued == "drop"
        dropped = self._queue.drop(target) if target or drop else []
        ended: list[e.Event] = [e.TurnEnded("cancelled", turn=prompt.turn) for prompt in dropped]
        if not running or (target and target not in running):
            return [*accepted(command), *ended]
        self._reader.stopped.update(running)
        return [*self._request(command, control.Interrupt(cancel_queued=drop)), *ended]

    def _answer(self, command: c.Answer) -> list[e.Event]:
        if not self.asks.knows(command.ask):
            raise Refusal(f"no ask {command.ask!r} waits for an answer", "unknown_ask")
        outcome = self.asks.answer(command)
        if outcome.payload is not None:
            self.respond(outcome.request, outcome.payload)
        if command.verdict != "allow":
            self._reader.calls.denied[outcome.call] = command.reason
            self._reader.stopped.update(self._queue.running if command.interrupt else ())
        return [*accepted(command), *outcome.closed]

    def _host_reply(self, command: c.HostReply) -> list[e.Event]:
        if command.call not in self.host_calls:
            raise Refusal(f"no call {command.call!r} waits for the host", "unknown_call")
        if command.partial:
            raise Refusal("stream-json has no word for how far the host has come")
        subtype, result = self.host_calls.pop(command.call), command.result
        if subtype == "mcp_message":
            result = {"mcp_response": _ACKNOWLEDGED if result is None else result}
        self.respond(command.call, {} if result is None else result, error=command.error)
        return accepted(command)

    def _request(self, command: c.Command, *requests: control.Request) -> list[e.Event]:
        frames = [msgspec.to_builtins(request) for request in requests]
        self.requests.send(command.ref, self._response_events, *frames, session=command.session)
        return []

    def _response_events(self, subtype: str, response: Object) -> list[e.Event]:
        """The events that follow from the answer to a request."""
        match subtype:
            case "interrupt":
                return self._reader.dropped(words(response, "cancelled"))
            case "set_model":
                return self._reader.settings.changed("model", text(response, "model"))
            case "set_permission_mode":
                return self._reader.settings.mode(text(response, "mode"))
        return []

    def _hello(self, command: c.Hello) -> list[e.Event]:
        self._offers = self._offers | command.offers
        request = encode.initialize(self._offers, self._fields)
        self.requests.send(command.ref, self.initialized, request, session=command.session)
        return []

    def _configure(self, command: c.Configure) -> list[e.Event]:
        settings = dict(command.settings)
        environment = settings.pop("environment", None)
        requests = encode.configure(replace(command, settings=settings))
        if environment is not None:
            frame = shapes.Environment(variables={str(name): str(value) for name, value in environment.items()})
            self._write(msgspec.to_builtins(frame))
        return self._request(command, *requests) if requests else accepted(command)

    def _add_context(self, command: c.AddContext) -> list[e.Event]:
        """Context as a system prompt or as a silent turn.

        The vendor's program reads `appendSystemPrompt` only in the first `initialize`, polylect in each.
        """
        if self._reader.settings.ours:
            request = {"subtype": "initialize", "appendSystemPrompt": command.text}
            self.requests.send(command.ref, self.initialized, request, session=command.session)
            return []
        turn = f"context-{self._new_id()}"
        self.silent.add(turn)
        self.release(self._queue.add(c.Prompt(turn, command.text, query=False)))
        return accepted(command)

    def _add_server(self, command: c.AddServer) -> list[e.Event]:
        self._servers[command.server.name] = encode.server_config(command.server)
        return self._request(command, control.McpSetServers(servers=self._servers))

    def _change_server(self, command: c.ChangeServer) -> list[e.Event]:
        if command.action != "remove":
            return self._request(command, encode.change_server(command))
        if self._servers.pop(command.name, None) is None:
            raise Refusal(f"this host has added no server {command.name!r}", "unknown_server")
        return self._request(command, control.McpSetServers(servers=self._servers))

    def _query(self, command: c.Query) -> list[e.Event]:
        """Answered here if the events so far hold the answer; else sent to the engine."""
        reader = self._reader
        values = reader.settings.values
        match command.what:
            case "cost":
                return accepted(command, Ledger(reader.cost.of_session, reader.cost.rows))
            case "agents":
                return accepted(command, tuple(reader.agents.running.values()))
            case "tools" | "commands":
                return accepted(command, values.get(command.what, ()))
            case "state":
                named = {key: values.get(key, "") for key in ("session", "model", "mode")}
                return accepted(command, State(**named, busy=bool(reader.turn or self._queue.running)))
        return self._request(command, encode.query(command))


_HANDLERS: dict[type[c.Command], Callable[[CommandWriter, Any], list[e.Event]]] = {
    c.Hello: CommandWriter._hello,
    c.Prompt: CommandWriter._prompt,
    c.Steer: CommandWriter._steer,
    c.Compact: CommandWriter._compact,
    c.Cancel: CommandWriter._cancel,
    c.Answer: CommandWriter._answer,
    c.HostReply: CommandWriter._host_reply,
    c.HostSays: lambda writer, command: writer._request(command, encode.host_says(command)),
    c.Configure: CommandWriter._configure,
    c.AddContext: CommandWriter._add_context,
    c.AddServer: CommandWriter._add_server,
    c.ChangeServer: CommandWriter._change_server,
    c.Rewind: lambda writer, command: writer._request(command, encode.rewind(command)),
    c.Query: CommandWriter._query,
    c.Quit: lambda writer, command: writer._request(command, encode.end_session(command)),
}
