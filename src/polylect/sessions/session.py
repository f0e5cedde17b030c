"""The conversation of one session: in memory, and in the store.

Every change is written to the store first, so memory and log never differ (T1). The engine reads history, cost and
settings from here; `replay.py` rebuilds them when a session is opened.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from polylect.sessions import suspension
from polylect.sessions.log import gc_paused
from polylect.sessions.replay import (
    AT_WORK,
    Replay,
    current,
    message_text,
    missing_results,
    shell_message,
    unanswered_calls,
)
from polylect.sessions.suspension import SUSPENDED, Suspension
from polylect.vocab.answers import Item, ShellResult, Stats
from polylect.vocab.commands import Prompt
from polylect.vocab.content import Message, Text, ToolCall, ToolResult, Usage
from polylect.vocab.entries import Compacted, Configured, ContextAdded, MessageAdded, ShellRan, TurnClosed, TurnOpened
from polylect.vocab.ports import Store

SUMMARY = "The conversation so far was longer than fits. This is what matters of its beginning:\n\n"


class Session:
    """One conversation. `store` is where it is written; its entries are replayed at the start."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.id = store.session
        self.messages: list[Message] = []
        self.contexts: list[str] = []
        self.settings: dict[str, Any] = {}
        self.usage = Usage()
        self.ledger: list[dict[str, Any]] = []
        """One row for each model call."""
        self.summary = ""
        self.visible_from = 0
        """The model sees `summary` instead of the messages before this one."""
        self.opening: tuple[Message, ...] = ()
        """That, as a message."""
        self.calls: set[str] = set()
        """The ids of all calls so far: none of them may come again."""
        self.lost_agents: tuple[str, ...] = ()
        """Agents that worked in the background when an earlier engine ended, and never reported."""
        self.suspended: dict[str, Suspension] = {}
        """Calls that waited for a person when an earlier engine ended. Their answer may still come."""
        self._requests: set[str] = set()
        """The ids of the model requests in the log."""
        self._waiting: dict[str, Message] = {}
        self._filled = False
        with gc_paused():
            self._read(Replay(store.entries))

    # Writing.

    def accept(self, turn: str, message: Message, prompt: Prompt | None = None) -> None:
        """Store a prompt before it is acknowledged (T1). It becomes part of the conversation when its turn starts.

        What `prompt` asks of the turn is stored too, for a turn that goes on in a later process.
        """
        self.expire_suspended()
        options = (prompt.schema, prompt.max_cost, prompt.max_tokens) if prompt else ()
        self.store.append(MessageAdded(message, turn, "", *options))
        self._waiting[turn] = message

    def begin(self, turn: str) -> Message:
        """The turn of a prompt starts: its message joins the conversation."""
        self.complete_results()  # the disk was full when results came
        self.store.append(TurnOpened(turn))
        message = self._waiting.pop(turn)
        self.messages.append(message)
        return message

    def amend(self, turn: str, text: str, contexts: Sequence[str] = ()) -> None:
        """Replace the text of a waiting prompt, and add contexts to it. Attachments stay."""
        message = self._waiting[turn]
        rest = message.content[1:] if isinstance(message.content[0], Text) else message.content
        self.accept(turn, Message("user", (Text(text), *rest, *map(Text, contexts))))

    def withdraw(self, turn: str) -> Message:
        """Remove a waiting prompt, for another session, and return its message."""
        message = self._waiting[turn]
        self.cancel(turn)
        return message

    def cancel(self, turn: str) -> None:
        """Cancel a waiting prompt: it never becomes part of the conversation."""
        self.end(turn, "cancelled", Usage())

    def add_messages(self, turn: str, *messages: Message, request: str = "") -> None:
        """Add messages to the conversation.

        With `request`, they are the reply to one new model request, and its cost is counted. `request` is the vendor's
        id, which may be that of an earlier request.
        """
        request = self._unique_request(request)
        stored = [message for message in messages if message.content or (message.usage and message.usage.tokens)]
        if stored:
            self.store.append(*(MessageAdded(message, turn, request) for message in stored))
        for message in stored:
            self._add_to_memory(message, request)

    def end(self, turn: str, reason: str, usage: Usage) -> None:
        """Store the end of a turn."""
        self._waiting.pop(turn, None)  # stopped before it could begin
        self.store.append(TurnClosed(turn, reason, usage))

    def add_context(self, text: str) -> None:
        self.store.append(ContextAdded(text))
        self.contexts.append(text)

    def add_shell_result(self, result: ShellResult) -> None:
        """Add the result of a command that the person ran."""
        self.expire_suspended()
        self.store.append(ShellRan(result))
        self.messages.append(shell_message(result))

    def compact(self, summary: str, first_kept: int, before: int) -> None:
        self.store.append(Compacted(summary, first_kept, before))
        self._apply_compaction(summary, first_kept)

    def configure(self, settings: dict[str, Any]) -> None:
        self.store.append(Configured(settings))
        self.settings |= settings

    def set_background_agent(self, agent_id: str, name: str) -> None:
        """Note that an agent runs in the background; an empty name removes it."""
        known = {**self.settings.get(AT_WORK, {}), agent_id: name}
        self.configure({AT_WORK: {agent_id: name for agent_id, name in known.items() if name}})

    def pop_lost_agents(self) -> tuple[str, ...]:
        """The names of background agents that an earlier process lost; empty at the next call."""
        names, self.lost_agents = self.lost_agents, ()
        if names:
            self.configure({AT_WORK: self.settings.get(AT_WORK, {})})
        return names

    def pop_suspended(self, call: str) -> dict[str, Suspension]:
        """Use the suspended call that was answered. Returns all suspended calls; the answer is stored as used."""
        suspended = self.settings[SUSPENDED]
        self.configure({SUSPENDED: {id: suspended[id] for id in suspended if id != call}})
        waiting, self.suspended = self.suspended, {}
        return waiting

    def expire_suspended(self) -> None:
        """Answers to suspended calls no longer count, because the conversation goes on."""
        if self.suspended:
            self.complete_results()
            self.suspended = {}
            self.configure({SUSPENDED: {}})

    def complete_results(self) -> None:
        """Add the results that are missing, if any, so that every call has one (T4)."""
        if results := missing_results(self.messages):
            self.add_messages("", self._with_stored_output(results))

    # Reading.

    @property
    def name(self) -> str:
        """What the person calls it."""
        return str(self.settings.get("name") or "")

    def context(self) -> list[Message]:
        """The conversation as the model sees it."""
        self._fill()
        return [*self.opening, *self.messages[self.visible_from :]]

    def items(self) -> tuple[Item, ...]:
        """The same with places and times: read from the log, which has them."""
        with gc_paused():
            items = Replay(self.store.entries).items()
            return tuple(replace(item, message=self.store.fill(item.message)) for item in items)

    def last_text(self) -> str | None:
        """What the model said last, if its last reply was in words."""
        replies = (message for message in reversed(self.messages) if message.role == "assistant")
        text = message_text(last).strip() if (last := next(replies, None)) else ""
        return text or None

    @property
    def dollars(self) -> float:
        """What is known of its price: of some calls it may not be."""
        return sum(row["cost_usd"] or 0.0 for row in self.ledger)

    @property
    def known_usage(self) -> Usage:
        """All of its tokens, with what is known of their price."""
        return replace(self.usage, cost=self.dollars)

    def stats(self) -> Stats:
        blocks = [block for message in self.messages for block in message.content]
        commands = sum(isinstance(entry.body, ShellRan) for entry in current(self.store.entries))
        return Stats(
            session=self.id,
            users=sum(message.role == "user" for message in self.messages) - commands,
            assistants=sum(message.role == "assistant" for message in self.messages),
            calls=sum(isinstance(block, ToolCall) for block in blocks),
            results=sum(isinstance(block, ToolResult) for block in blocks),
            usage=replace(self.usage, cost=self.dollars) if self.dollars else self.usage,
            file=self.store.file,
        )

    def _unique_request(self, request: str) -> str:
        """The vendor's id with a number if the log has it already. A replay counts each id once.

        Some servers start their ids anew, and one that always sends the same id must not make its replies free.
        """
        id, number = request, len(self._requests)
        while id and id in self._requests:
            number += 1
            id = f"{request}-{number}"
        return id

    def _add_to_memory(self, message: Message, request: str) -> None:
        """Add a message to memory. A reply without content is not part of the conversation, but its cost counts."""
        if message.content:
            self.messages.append(message)
        self._count(message, request)

    def _count(self, message: Message, request: str) -> None:
        if message.usage and not (request and request in self._requests):
            self._requests.add(request)
            self.usage += message.usage
            row = {"turn": len(self.ledger), "model": message.model, "provider": message.provider}
            self.ledger.append({**row, "cost_usd": message.usage.cost, "usage": message.usage})

    def _apply_compaction(self, summary: str, first_kept: int) -> None:
        self.summary, self.visible_from = summary, first_kept
        self.opening = (Message("user", (Text(SUMMARY + summary),)),) if first_kept and summary else ()

    def _fill(self) -> None:
        """Pictures of a conversation that was read back are loaded once the model is to see them."""
        if not self._filled:
            self.messages[self.visible_from :] = map(self.store.fill, self.messages[self.visible_from :])
        self._filled = True

    def _with_stored_output(self, results: Message) -> Message:
        """The results, with the stored text for calls that waited for a person when the engine ended."""
        known = suspension.model_texts(self.settings.get(SUSPENDED, {}))
        blocks = [block for block in results.content if isinstance(block, ToolResult)]
        return replace(results, content=tuple(replace(one, output=known.get(one.call, one.output)) for one in blocks))

    def _read(self, replay: Replay) -> None:
        self.messages, self.contexts, self.settings = replay.messages, replay.contexts, replay.settings
        self.calls = replay.calls
        self.lost_agents = tuple(self.settings.pop(AT_WORK, {}).values())
        for reply in replay.replies:
            self._count(*reply)
        if replay.compactions:
            _, last = replay.compactions[-1]
            self._apply_compaction(last.summary, last.first_kept)
        waiting = suspension.suspensions_in(self.settings.get(SUSPENDED, {}))
        unanswered = [call.call for call in unanswered_calls(self.messages)]
        self.suspended = {call: waiting[call] for call in unanswered if call in waiting}
        if replay.waiting or not self.suspended:
            self.suspended = {}
            self.complete_results()
        for turn, message in replay.waiting.items():  # accepted, then the engine died: it was said, so it stays said
            self.store.append(TurnOpened(turn))
            self.messages.append(message)
