"""What the host says: written and noted here, or only noted because it was said by other means."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from polylect.dialects.base import Env
from polylect.dialects.host_base import Refusal, accepted
from polylect.dialects.omp.frames import commands as requests
from polylect.dialects.omp.frames import read as reading
from polylect.dialects.omp.host import answers as host_answers
from polylect.dialects.omp.host import encode as host_words
from polylect.dialects.omp.host.answers import Read
from polylect.dialects.omp.host.decode import EventReader
from polylect.dialects.omp.host.dialogs import How
from polylect.dialects.omp.host.replies import Asked, Replies
from polylect.dialects.prompt_queue import PromptQueue
from polylect.vocab import commands as c
from polylect.vocab import events as e
from polylect.wire import jsonl

_QUIETLY = {"cost": host_answers.ledger, "context": host_answers.context}
"""Questions whose answer is a part of another's."""


class Speaker:
    def __init__(self, env: Env, version: str) -> None:
        self._env = env
        self._version = version
        self._out: list[bytes] = []
        self._reader = EventReader(env)
        self._runs = self._reader.runs
        self._replies = Replies(self._reader, version)
        self._queue = PromptQueue()
        self._asked = 0
        self._context: list[str] = []
        """What is to be said before the next prompt."""

    def _speak(self, command: c.Command) -> list[e.Event]:
        """What follows on our own side. Raises Refusal."""
        say = _WORDS.get(type(command))
        if say is None:
            raise Refusal(f"omp has no word for {type(command).__name__}")
        return say(self, command)

    # Frames.

    def _request(self, frame: requests.Request, asked: Asked, read: Read | None = None) -> None:
        id = asked.ref if asked.ref and asked.ref not in self._replies else self._own_id()
        self._say(replace(frame, id=id), id, asked, read)

    def _own_id(self) -> str:
        """Not from `Env`: what turns are called must not depend on how often we ask for something ourselves."""
        self._asked += 1
        return f"own-{self._asked}"

    def _say(self, frame: requests.Request, id: str, asked: Asked, read: Read | None = None) -> None:
        self._out.append(jsonl.dump(frame))
        self._note(frame, id, asked, read)

    def _note(self, frame: requests.Request, id: str, asked: Asked, read: Read | None = None) -> None:
        self._replies.expect(id, frame, asked, read)
        match frame:
            case requests.Prompt() | requests.AbortAndPrompt():
                if isinstance(frame, requests.AbortAndPrompt):
                    self._runs.stopped = bool(self._runs.turn)
                self._runs.sent.append(id)
                self._queue.began(id)
            case requests.Steer(text):
                self._reader.lane.steers.append((text, "steer"))
            case requests.FollowUp(text):
                self._reader.lane.steers.append((text, "follow_up"))
            case requests.Abort():
                self._runs.stop()
            case requests.Compact():
                self._reader.compacted = False

    def _note_heard(self, heard: reading.Heard) -> list[e.Event]:
        match heard.frame:
            case requests.ExtensionUIResponse() as frame:
                return self._note_answer(frame)
            case requests.Request() as frame:
                id = heard.id if isinstance(heard.id, str) else self._env.new_id()
                self._note(frame, id, Asked(ref=id))
        return []

    def _note_answer(self, frame: requests.ExtensionUIResponse) -> list[e.Event]:
        reason = frame.reason if isinstance(frame.reason, str) else ""
        ask = self._reader.dialogs.open.get(frame.id)
        how: How = "answered"
        if frame.cancelled is True:
            how = "cancelled"
        elif frame.confirmed is False:
            how = "denied"
        elif ask and ask.kind == "permission":
            no = [option.label for option in ask.options if option.kind == "reject_once"]
            how = "denied" if frame.value in no else "allowed"
        return self._reader.dialogs.close(frame.id, how, reason)

    def _ask_state(self) -> None:
        self._reader.curious = False
        self._request(requests.GetState(), Asked())

    def _release(self, prompts: list[c.Prompt]) -> None:
        for prompt in prompts:
            self._hand_over(prompt, Asked())

    def _hand_over(self, prompt: c.Prompt, asked: Asked) -> None:
        images = host_words.pictures(prompt.attachments)
        text = "\n\n".join([*self._context, prompt.text])
        self._context.clear()
        # A leading space keeps a slash from being a command.
        said = f" {text}" if prompt.verbatim and text.startswith("/") else text
        shape = requests.AbortAndPrompt if prompt.busy == "interrupt" and self._runs.turn else requests.Prompt
        self._say(shape(said, images, id=prompt.turn), prompt.turn, asked)

    # Commands.

    def _ask(self, command: c.Command, frames: list[requests.Request], read: Read | None = None) -> list[e.Event]:
        """Answered once all of them are."""
        if not frames:
            return accepted(command)
        asked = Asked(ref=command.ref, session=command.session, left=len(frames))
        for frame in frames:
            self._request(frame, asked, read)
        return []

    def _hello(self, command: c.Hello) -> list[e.Event]:
        return self._ask(command, host_words.hello(command, self._version))

    def _authenticate(self, command: c.Authenticate) -> list[e.Event]:
        return self._ask(command, host_words.authenticate(command, self._version))

    def _open_session(self, command: c.OpenSession) -> list[e.Event]:
        return self._ask(command, [host_words.open_session(command, self._version)])

    def _prompt(self, command: c.Prompt) -> list[e.Event]:
        if not command.query:
            raise Refusal("omp has no word for a prompt that only adds to the context")
        prompt = self._queue.admit(command, self._env.new_id)
        if prompt.turn in self._replies:
            raise Refusal(f"the id {prompt.turn!r} waits for a response already", "duplicate_turn")
        host_words.pictures(prompt.attachments)  # refused now, not when its time has come
        if prompt.busy == "interrupt" and self._runs.turn:
            return self._interrupt(prompt)
        if prompt in self._queue.add(prompt):
            self._hand_over(prompt, Asked(ref=command.ref, session=command.session))
            return []
        return accepted(command)

    def _interrupt(self, prompt: c.Prompt) -> list[e.Event]:
        """pi cannot stop and go on in one word."""
        if self._version == "pi":
            self._queue.add(prompt)
            self._request(requests.Abort(), Asked())
            return accepted(prompt)
        self._hand_over(prompt, Asked(ref=prompt.ref, session=prompt.session))
        return []

    def _steer(self, command: c.Steer) -> list[e.Event]:
        if command.idle == "refuse" and not self._queue.running:
            raise Refusal("no turn is running that could be steered; send a prompt", "idle")
        images = host_words.pictures(command.attachments)
        shape = requests.Steer if command.when == "soon" else requests.FollowUp
        return self._ask(command, [shape(command.text, images)])

    def _cancel(self, command: c.Cancel) -> list[e.Event]:
        match command.what:
            case "turn" | "prompt":
                return self._cancel_turn(command)
            case "retry":
                return self._ask(command, [requests.AbortRetry()])
            case "shell":
                return self._ask(command, [requests.AbortBash()])
            case "steers" if self._version != "18":
                return self._ask(command, [requests.ClearQueue()])
            case _:
                raise Refusal(f"omp has no word for cancelling a {command.what}")

    def _cancel_turn(self, command: c.Cancel) -> list[e.Event]:
        """`abort` is answered once the turn has ended. What waits here was never said."""
        whole = command.what == "turn"
        dropped = self._queue.drop(command.target) if command.target or (command.queued == "drop" or not whole) else []
        ended: list[e.Event] = [e.TurnEnded("cancelled", turn=prompt.turn) for prompt in dropped]
        if whole and self._queue.running and command.target in ("", *self._queue.running):
            return [*ended, *self._ask(command, [requests.Abort()])]
        return [*accepted(command), *ended]

    def _answer(self, command: c.Answer) -> list[e.Event]:
        ask = self._reader.dialogs.open.get(command.ask)
        if ask is None:
            raise Refusal(f"no ask {command.ask!r} waits for an answer", "unknown_ask")
        if command.args not in (None, ask.args):
            raise Refusal("omp has no word for allowing a call with other arguments")
        frame = host_words.answer(command, ask)
        self._out.append(jsonl.dump(frame))
        closed = self._note_answer(frame)
        if command.interrupt and command.verdict != "allow" and self._queue.running:
            self._request(requests.Abort(), Asked())
        return [*accepted(command), *closed]

    def _host_reply(self, command: c.HostReply) -> list[e.Event]:
        call = self._reader.host_calls.get(command.call)
        if call is None:
            raise Refusal(f"nothing is asked of the host as {command.call!r}", "unknown_call")
        if not command.partial:
            del self._reader.host_calls[command.call]
        self._out.append(jsonl.dump(host_words.host_reply(command, call)))
        return accepted(command)

    def _configure(self, command: c.Configure) -> list[e.Event]:
        return self._ask(command, host_words.configure(command, self._version, self._reader.provider))

    def _add_context(self, command: c.AddContext) -> list[e.Event]:
        self._context.append(command.text)
        return accepted(command)

    def _compact(self, command: c.Compact) -> list[e.Event]:
        if command.busy == "refuse" and self._queue.running:
            raise Refusal("a turn is running: stop it first, or wait for its end", "busy")
        return self._ask(command, [requests.Compact(command.instructions or msgspec.UNSET)])

    def _run_shell(self, command: c.RunShell) -> list[e.Event]:
        return self._ask(command, [requests.Bash(command.command)])

    def _query(self, command: c.Query) -> list[e.Event]:
        return self._ask(command, host_words.query(command, self._version), _QUIETLY.get(command.what))


_WORDS: dict[type[c.Command], Callable[[Speaker, Any], list[e.Event]]] = {
    c.Hello: Speaker._hello,
    c.Authenticate: Speaker._authenticate,
    c.OpenSession: Speaker._open_session,
    c.Prompt: Speaker._prompt,
    c.Steer: Speaker._steer,
    c.Cancel: Speaker._cancel,
    c.Answer: Speaker._answer,
    c.HostReply: Speaker._host_reply,
    c.Configure: Speaker._configure,
    c.AddContext: Speaker._add_context,
    c.Compact: Speaker._compact,
    c.RunShell: Speaker._run_shell,
    c.Query: Speaker._query,
}
