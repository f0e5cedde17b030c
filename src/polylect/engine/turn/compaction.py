"""Compaction: replaces the beginning of a long conversation by a summary, so that it fits the model's window.

The log keeps every message; only what is sent to the model gets shorter. Compaction runs when the window is nearly
full, when a provider reports an overflow, or by command (`commands/compact.py`). The end of the conversation stays as
it is, and the cut never separates a call from its result.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Literal

from polylect.engine.turn.budget import estimated_usage
from polylect.vocab import hook_format
from polylect.vocab.content import (
    UNPARSED,
    Block,
    Document,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from polylect.vocab.errors import PolylectError, ProviderError, SessionError
from polylect.vocab.events import CompactionEnded, CompactionStarted, ContextUsed, Event
from polylect.vocab.ports import ModelRequest, ReplyBegun, ReplyDone, Retrying, TextChunk

if TYPE_CHECKING:  # it makes the compactor
    from polylect.engine.agent import Agent

Emit = Callable[[Event], None]
CANCELLED = "Compaction cancelled"
MOST_FAILURES = 3
"""After so many in a row it is no longer tried by itself."""
LEAST_REPLACED = 100
"""Tokens. A summary of less than this would save nothing, so the model is not asked for one by hand."""
_MARKS = (ReplyBegun, ReplyDone, Retrying)
"""How far a reply has come, and with it its price."""
_LARGEST_WINDOW = 2_000_000
"""The window in tokens where the model's own is not known: more than any model in use has."""
_LONGEST_TOKEN = 4
"""Reported usage is not believed if it means that a token has more than so many times the usual four characters."""
_KEPT_SHARE = 0.3
"""How much of the window the untouched end may take."""
_IMAGE_TOKENS = 1600
_LONGEST_OUTPUT = 2000
"""Characters of a tool's output that the summary is made from."""
_INSTRUCTIONS = """\
You are given the beginning of a conversation between a person and a coding agent. It has to be replaced by a summary, \
and the agent will go on from your summary alone. Keep, in this order: what the person wants, in their own words where \
they matter; decisions and why they were made; files that were read or changed and what was found or done there; \
commands and their results; what failed; what is still to be done. Leave out what no longer matters. Plain notes, \
no preamble.\
"""


class Declined(PolylectError):
    """A hook refused the compaction."""


class Compactor:
    """Measures how full the window of an agent is, and compacts its session."""

    def __init__(self, agent: "Agent") -> None:
        self._agent = agent
        self._session = agent.session
        self._work: asyncio.Task[str] | None = None
        self._failures = 0
        self._known = 0
        self._known_at = 0
        """The last reply told how many tokens the context had, when there were so many messages."""
        self._reported_overhead: int | None = None
        """What instructions and tools take, once a service has told how much there is."""
        self._compacted_at = 0
        """How many messages there were at the last compaction."""
        self._sum = self._sum_from = self._sum_to = 0
        """Tokens of the messages from here to there, by their length: nothing is measured twice."""

    def record_usage(self, usage: Usage, emit: Emit) -> None:
        """Note the usage that a provider reported; it is more exact than an estimate."""
        if usage.tokens:
            self._known, self._known_at = usage.tokens, len(self._session.messages)
            self._reported_overhead = max(0, usage.tokens - self._conversation_tokens())
        if window := self._window():
            emit(ContextUsed(self.used(), window))

    def estimated_usage(self, reply: Message) -> Usage:
        """What to count for a reply of the conversation without reported usage. Call it before the reply is added."""
        return self._estimated(sum(self._agent.prompt_tokens()) + self._conversation_tokens(), estimate(reply))

    def _estimated(self, tokens_in: int, tokens_out: int) -> Usage:
        settings = self._agent.settings
        info = self._agent.provider.info(settings.model)
        return estimated_usage(info, tokens_in, tokens_out, settings.budget, settings.turn_budget)

    @property
    def _overhead(self) -> int:
        return sum(self._agent.prompt_tokens()) if self._reported_overhead is None else self._reported_overhead

    def used(self) -> int:
        """Tokens in the context: as last reported, plus an estimate of what was added since."""
        session, estimated = self._session, self._overhead + self._conversation_tokens()
        if self._known and self._known_at > session.visible_from:
            reported = self._known + sum(map(estimate, session.messages[self._known_at :]))
            return max(reported, estimated // _LONGEST_TOKEN)
        return estimated

    def _conversation_tokens(self) -> int:
        """Estimated tokens of the conversation as the model sees it."""
        session = self._session
        if self._sum_from != session.visible_from:
            self._sum, self._sum_from, self._sum_to = 0, session.visible_from, session.visible_from
        self._sum += sum(map(estimate, session.messages[self._sum_to :]))
        self._sum_to = len(session.messages)
        return self._sum + sum(map(estimate, session.opening))

    async def make_room(self, emit: Emit) -> bool:
        """Compact if the window is nearly full, unless that has failed too often. Returns whether it was tried."""
        enabled = self._agent.settings.auto_compaction and self._failures < MOST_FAILURES
        full = enabled and self._is_full()
        if full:
            await self.compact("threshold", emit)
        return full

    def _is_full(self) -> bool:
        """Whether a reply might not fit any more. The reserve for it is at most half of the window."""
        settings, window = self._agent.settings, self._window() or _LARGEST_WINDOW
        reserve = max(min(settings.max_tokens, window // 2), int(window * (1 - settings.compact_at)))
        return self.used() > window - reserve

    async def compact(
        self,
        reason: Literal["threshold", "overflow", "manual"],
        emit: Emit,
        instructions: str = "",
        *,
        keep: bool = True,
    ) -> bool:
        """Replace the beginning by a summary; without `keep`, everything but the last message.

        Returns False if that was not possible; then nothing has changed.
        """
        session, before, first_kept = self._session, self.used(), self._cut(keep=keep)
        if first_kept <= session.visible_from:
            return False
        emit(CompactionStarted(reason))
        messages = session.messages[session.visible_from : first_kept]
        self._work = asyncio.create_task(self._summary(reason, messages, instructions))
        try:
            summary = await self._work
            session.compact(summary, first_kept, before)
        except PolylectError as error:
            self._failures += not isinstance(error, Declined)
            emit(CompactionEnded(ok=False, before=before, error=str(error)))
            return False
        except BaseException as error:
            cancelled = isinstance(error, asyncio.CancelledError)
            emit(CompactionEnded(ok=False, before=before, error=CANCELLED if cancelled else str(error)))
            if not cancelled or _is_stopped():
                raise
            self._failures = MOST_FAILURES  # whoever stopped it does not want to stop it again at the next step
            return False
        finally:
            self._work = None
        self._known = self._known_at = 0
        self._compacted_at = len(session.messages)
        self._failures = self._failures + 1 if self._is_full() else 0  # it does not help: that is a failure too
        emit(CompactionEnded(summary=summary, before=before, after=self.used(), first_kept=str(first_kept)))
        trigger = str(hook_format.compaction_input(reason)["trigger"])
        fields = {"trigger": trigger, "compact_summary": summary}
        await self._agent.hooks.observe(self._agent.hook_context(), "PostCompact", fields, trigger)
        return True

    @property
    def running(self) -> bool:
        return self._work is not None

    def cancel(self) -> None:
        """Cancel a running compaction. A turn that needed it goes on without."""
        if self._work is not None:
            self._work.cancel()

    def clear(self) -> None:
        """Hide everything so far from the model; the log keeps it."""
        self._session.compact("", len(self._session.messages), self.used())
        self._failures = self._known = self._known_at = 0

    def possible(self) -> bool:
        """Whether a summary can be shorter than what it replaces, and something was said since the last one."""
        session, first_kept = self._session, self._cut()
        replaced = sum(map(estimate, session.messages[session.visible_from : first_kept]))
        return replaced >= LEAST_REPLACED and len(session.messages) > self._compacted_at

    async def by_hand(self, emit: Emit, instructions: str) -> None:
        await self.compact("manual", emit, instructions)

    def _cut(self, *, keep: bool = True) -> int:
        talk = self.used() - self._overhead
        most = int(self._window() * _KEPT_SHARE) or talk
        return cut(self._session.messages, self._session.visible_from, min(most, talk // 2) if keep else 0)

    async def _summary(self, reason: str, messages: Sequence[Message], instructions: str) -> str:
        result = await self._agent.hooks.before_compaction(self._agent.hook_context(), reason)
        if result.decision == "deny":
            raise Declined(f"The conversation was not shortened: {result.reason}")
        return await self._summarise(messages, "\n".join(filter(None, (instructions, result.context))))

    async def _summarise(self, messages: Sequence[Message], instructions: str) -> str:
        """Ask the model for a summary, of less and less text while the provider reports an overflow."""
        earlier = f"Summary of what came before:\n{self._session.summary}\n\n" if self._session.visible_from else ""
        transcript = earlier + "\n\n".join(map(_as_text, messages))
        limit = min(len(transcript), 2 * (self._window() or 200_000))  # characters: half the window at four a token
        while True:
            try:
                return await self._notes(_clip(transcript, limit), instructions)
            except ProviderError as error:
                limit //= 2
                if error.kind != "overflow" or limit < _LONGEST_OUTPUT:
                    raise

    async def _notes(self, transcript: str, instructions: str) -> str:
        settings = self._agent.settings
        wish = f"\n\nThe person asks: {instructions}" if instructions else ""
        request = ModelRequest(
            model=settings.model,
            system=_INSTRUCTIONS + wish,
            messages=[Message("user", (Text(transcript),))],
            session=self._session.id,
            retries=settings.auto_retry,
        )
        parts: list[str] = []
        last: ReplyBegun | ReplyDone | Retrying | None = None
        try:
            async with aclosing(self._agent.provider.stream(request)) as stream:
                async for batch in stream:
                    parts += [event.text for event in batch if isinstance(event, TextChunk)]
                    for event in batch:
                        if isinstance(event, Retrying) and isinstance(last, ReplyBegun):
                            self._pay(last)  # the attempt that failed
                        last = event if isinstance(event, _MARKS) else last
        finally:
            if isinstance(last, ReplyBegun | ReplyDone):
                self._pay(last, (len(request.system) + len(transcript)) // 4, -(-sum(map(len, parts)) // 4))
        summary = "".join(parts).strip()
        if not summary or not isinstance(last, ReplyDone) or last.stop == "refused":
            raise ProviderError("protocol", "the model gave no summary")
        return summary

    def _pay(self, done: ReplyBegun | ReplyDone, tokens_in: int = 0, tokens_out: int = 0) -> None:
        """Charge a summary, which is no part of the conversation.

        `tokens_in` and `tokens_out` are estimates. They count if there is text and the server reported no usage.
        """
        reported = done.usage.tokens or not tokens_out
        usage = done.usage if reported else self._estimated(tokens_in, tokens_out)
        reply = Message("assistant", (), usage=usage, model=done.model, provider=self._agent.provider.name)
        with suppress(SessionError):  # a full disk is told of when the summary finds no room either
            self._agent.charge(reply, done.request)
            self._session.add_messages("", reply, request=done.request)

    def _window(self) -> int:
        return self._agent.provider.info(self._agent.settings.model).window


def _is_stopped() -> bool:
    """Not only what the task at hand waited for was cancelled, but the task itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def cut(messages: Sequence[Message], first: int, most: int) -> int:
    """Where the untouched end begins: as early as `most` tokens allow, never between a call and its result."""
    index, size = len(messages), 0
    while index > first and size + estimate(messages[index - 1]) <= most:
        index -= 1
        size += estimate(messages[index])
    while index < len(messages) and messages[index].role == "tool":
        index += 1
    if index == len(messages) and messages and messages[-1].role == "user":
        return index - 1  # what the person has just said is never put in other words
    return index


def estimate(message: Message) -> int:
    return 4 + sum(map(_block_tokens, message.content))


def _block_tokens(block: Block) -> int:
    if isinstance(block, Image):
        return _IMAGE_TOKENS
    pictures = len(block.images) * _IMAGE_TOKENS if isinstance(block, ToolResult) else 0
    return pictures + len(_block_text(block)) // 4 + 1


def _block_text(block: Block) -> str:
    match block:
        case Text(text) | Thinking(text):
            return text
        case Document(name, _, text):
            return f"{name}\n{text}"
        case ToolCall(_, name, args, extra):
            return f"{name} {args or extra.get(UNPARSED, args)}"
        case ToolResult(_, name, output):
            return f"{name}: {output}"
        case _:
            return ""


def _as_text(message: Message) -> str:
    who = {"user": "Person", "assistant": "Agent", "tool": "Result"}[message.role]
    blocks = [
        _clip(_block_text(block), _LONGEST_OUTPUT) for block in message.content if not isinstance(block, Thinking)
    ]
    return f"{who}: " + "\n".join(blocks)


def _clip(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}\n[... {len(text) - most} characters left out ...]\n{text[-most // 2 :]}"
