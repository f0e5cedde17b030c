"""The part of a host side that is the same on every wire: completing events, refusing commands, logging bad lines.

All events pass through `_complete`, so that what a host sees is always a whole turn, whatever the engine left out. A
command that the wire cannot carry raises `Refusal`, which becomes its reply, so that no command is dropped in silence.
`HostSide` in the module `host.codec` of every dialect is a subclass.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from polylect.dialects.base import Env, Successor
from polylect.dialects.host_base import Refusal
from polylect.dialects.line_codec import LineCodec
from polylect.dialects.prompt_queue import PromptQueue
from polylect.dialects.rate_limit import RateLimit
from polylect.vocab import events as e
from polylect.vocab.commands import Command, Prompt
from polylect.vocab.content import Failure
from polylect.vocab.grammar.complete import Completer


class HostCodec(LineCodec[e.Event]):
    """A host side without its wire. `outcomes` counts lines by the keys `known`, `unknown` and `malformed`.

    hold   send one prompt at a time; False for engines that give each prompt a turn of its own
    """

    carries_client_services = False
    """Whether the engine can ask for files and terminals of the host."""
    carries_prompt_options = False
    """Whether the wire can say which schema the answer to a prompt has to fit, and what the turn may cost."""

    def __init__(self, env: Env, max_line: int, *, hold: bool = True) -> None:
        super().__init__(env, max_line)
        self.outcomes: Counter[str] = Counter()
        self._out: list[bytes] = []
        self._queue = PromptQueue(hold=hold)
        self._completer = Completer(env.new_id)
        self._settled = True
        self._rate_limit = RateLimit(env.now)
        self._log: list[str] = []
        self.successor: Successor = ""
        self.start_failure: Failure | None = None

    @property
    def known(self) -> Mapping[str, Any]:
        return {}

    @property
    def reaches_host_servers(self) -> bool:
        return False

    def memory(self, *, new_session: bool) -> Mapping[str, Any]:
        return {}

    def due(self) -> int | None:
        return None

    def wake(self) -> list[e.Event]:
        return []

    def receive_eof(self) -> list[e.Event]:
        received = super().receive_eof()
        return [*received, *self._complete(self._engine_gone()), *self._completer.close()]

    def send(self, command: Command) -> list[e.Event]:
        try:
            if isinstance(command, Prompt) and not self.carries_prompt_options:
                _check_options(command)
            return self._complete(self._handle(command))
        except Refusal as refusal:
            failure = Failure(refusal.code, str(refusal), "host")
            return [e.Reply(command.ref, failure=failure, session=command.session)]

    def data_to_send(self) -> bytes:
        data = b"".join(self._out)
        self._out.clear()
        return data

    def to_log(self) -> list[str]:
        """The log lines since the last call: malformed lines, at most a few a minute. Unknown events are not logged."""
        lines, self._log = self._log, []
        return lines

    # What a wire adds.

    def _handle(self, command: Command) -> list[e.Event]:
        """Write a command. Returns what follows from it. Raises Refusal."""
        raise NotImplementedError

    def _engine_gone(self) -> Iterable[e.Event]:
        """The ends of what the engine, now gone, has left open."""
        raise NotImplementedError

    # For the wires.

    def _malformed(self, line: bytes, why: str) -> list[e.Event]:
        """Count and perhaps log a line that is no event. Returns the event that stands for it."""
        self.outcomes["malformed"] += 1
        if (suppressed := self._rate_limit.acquire()) is not None:
            more = f" ({suppressed} like it were passed over)" if suppressed else ""
            self._log.append(f"not an event: {why}: {line[:200]!r}{more}")
        return [e.MalformedEvent(line, why)]

    def _begin_turn(self, event: e.TurnStarted, *, steer: bool) -> list[e.Event]:
        """The start of a turn and the message of its prompt, if this host sent it. `steer`: the prompt is a steer."""
        prompt = self._queue.prompt(event.turn)
        self._queue.began(event.turn)
        self._settled = False
        started = replace(event, cause="engine") if steer else event
        if prompt is None:
            return [started]
        message = e.UserMessage(prompt.text, "steer" if steer else "prompt", prompt.attachments)
        return [started, replace(message, turn=event.turn, session=event.session)]

    def _settle_if_idle(self) -> list[e.Event]:
        """`Settled`, once, when nothing runs and nothing waits: most engines do not report it."""
        if self._settled or self._queue.running or not self._completer.idle:
            return []
        self._settled = True
        return [e.Settled()]

    def _complete(self, events: Iterable[e.Event]) -> list[e.Event]:
        """The events with those added that the engine left out.

        A `CostChanged` that comes just before the end of a turn is moved behind the end of the turn's last step, which
        is where our own engine emits it.
        """
        completed: list[e.Event] = []
        costs: list[e.Event] = []
        for event in events:
            if isinstance(event, e.CostChanged):
                costs.append(event)
                continue
            added = self._completer.add(event)
            if costs:
                place = len(added) - 1 if isinstance(event, e.TurnEnded) and added else 0
                added[place:place] = costs
                costs.clear()
            completed += added
        return completed + costs


def _check_options(prompt: Prompt) -> None:
    """Raise Refusal for what most wires cannot say with a prompt."""
    if prompt.schema:
        raise Refusal("this wire has no word for the schema of an answer: write it into the prompt")
    if prompt.max_cost or prompt.max_tokens:
        raise Refusal("this wire has no word for the cap of a turn: watch its usage, and cancel it")
