"""One turn of one agent: from a prompt to its end.

    TurnStarted
      StepStarted                          the model is asked
        TextDelta ... BlockEnded           its reply is streamed
        ToolCalled ...                     it requests calls
      ReplyEnded
        Ask / ToolStarted / ToolFinished   the calls are approved and run
      StepEnded                            another step follows while there were calls
    TurnEnded                              always, exactly once (L1)

`Turn.run` never raises. It returns the `TurnEnded`: `turns.py` emits both ends of a turn of the main agent, and
`subagents/spawn.py` reports those of a sub-agent. When `run` returns, every step, call and question is closed.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from time import monotonic
from typing import Literal

from msgspec.structs import replace

from polylect.engine.agent import Agent
from polylect.engine.commands.background import session_failure
from polylect.engine.context.images import without_pictures
from polylect.engine.settings import MOST_REMINDERS
from polylect.engine.turn import thinking
from polylect.engine.turn.budget import Meter, tightened
from polylect.engine.turn.calls import Calls
from polylect.engine.turn.reply import StreamedReply
from polylect.engine.turn.steering import When
from polylect.engine.turn.structured import NoAnswer, open_form
from polylect.sessions.replay import message_text
from polylect.vocab import events as e
from polylect.vocab.commands import Prompt
from polylect.vocab.content import Failure, Message, Reason, Stop, StreamRule, Text, Usage
from polylect.vocab.errors import PolylectError, ProviderError, SessionError
from polylect.vocab.hooks import ReplyWatcher
from polylect.vocab.ports import ModelEvent, ModelRequest, Retrying, TextChunk

_REASONS: dict[Stop, Reason] = {"end": "end", "calls": "end", "length": "length", "refused": "refused"}
MOST_REPLY = 1024 * 1024
"""Characters of text and thinking in one reply: far more than any model writes."""
LONG_REPLY = MOST_REPLY // 4
MOST_SESSION = 256 * 1024 * 1024
"""Bytes of a session's log up to which the model is asked: all of it is in memory."""
SLICE = 0.01
"""Seconds for which model events are processed in one go, before others get a turn on the event loop."""
ESTIMATED = "The model server reported no usage. Tokens and cost are estimated from the size of the text, for the cap."
FAILURE_BOUND = 2.0
"""Seconds that hooks have when a turn has failed; nothing that they return counts."""
_HOOK_ERRORS = {
    "auth": "authentication_failed",
    "rate_limit": "rate_limit",
    "overloaded": "overloaded",
    "server": "server_error",
    "bad_request": "invalid_request",
    "overflow": "invalid_request",
}
"""Kinds of failures that hooks of Claude Code know by a word."""
_log = logging.getLogger(__name__)


class RuleBroken(Exception):
    """The reply broke stream rules of the user and was stopped there."""

    def __init__(self, rules: Sequence[StreamRule]) -> None:
        super().__init__(f"stopped by the rule {rules[0].name}")
        self.rules = rules


class RetryCancelled(PolylectError):
    """The pause before another attempt was cancelled. The text is the error of the last attempt."""


class TurnLoop:
    """The turn of one prompt. Without a prompt it only continues the conversation.

    `cause` is `engine` for a turn that no person asked for.
    """

    def __init__(
        self,
        agent: Agent,
        id: str,
        prompt: Prompt | None = None,
        *,
        cause: Literal["prompt", "engine"] = "prompt",
    ) -> None:
        self.id = id
        self._agent = agent
        self._prompt = prompt
        self.cause = cause
        self._emit = agent.emitter(id)
        budget = agent.settings.turn_budget
        caps = tightened(budget, cost=prompt.max_cost, tokens=prompt.max_tokens) if prompt else budget
        self._meter = (agent.parent and agent.turn_meter) or Meter(caps, Usage())
        agent.turn_meter = self._meter
        self._steps = 0
        self._reminders = 0
        self._sent_back = 0
        self._pause: asyncio.Timeout | None = None
        """How long another attempt may take, while there is one."""
        self._given_up = False
        self._form = open_form(agent, prompt.schema if prompt else {})

    async def run(self) -> e.TurnEnded:
        """Run the turn to its end, whatever happens, and return its terminal event."""
        try:
            if (over := await self._prepare_prompt()) is not None:
                return self._ended(over)
            await self._wait_for_servers()
            self._begin()
            return self._ended(await self._converse())
        except asyncio.CancelledError:
            return self._ended("cancelled")
        except PolylectError as error:
            return await self._failed(_failure(error))
        except Exception as error:  # noqa: BLE001  (a turn ends, whatever our own code does)
            _log.exception("the turn %s failed", self.id)
            message = f"internal error: {type(error).__name__}: {error}. The session is intact; please report this"
            return self._ended("error", Failure("internal", message, "engine"))

    async def _failed(self, failure: Failure) -> e.TurnEnded:
        """Inform the hooks of a failure, and return the terminal event in bounded time."""
        fields = {"error": _HOOK_ERRORS.get(failure.code, "unknown"), "error_details": failure.message}
        context = self._agent.hook_context(self.id)
        if not self._agent.parent:
            with suppress(TimeoutError, asyncio.CancelledError):
                async with asyncio.timeout(FAILURE_BOUND):
                    await self._agent.hooks.observe(context, "StopFailure", fields, fields["error"])
        return self._ended("error", failure)

    def _ended(self, reason: Reason, failure: Failure | None = None) -> e.TurnEnded:
        spent, self._agent.spent = self._agent.spent, Usage()  # what agents still use counts for the next turn
        return e.TurnEnded(reason, spent, self._steps, failure, turn=self.id, agent=self._agent.id)

    async def _prepare_prompt(self) -> Reason | None:
        """Pass a person's prompt to hooks and slash commands. Returns a reason if that ended the turn."""
        agent, prompt = self._agent, self._prompt
        if prompt is None or self.cause == "engine":
            return None
        for context in await agent.hooks.session_contexts():
            agent.session.add_context(context)
        verdict = await agent.hooks.prompt(agent.hook_context(self.id), prompt.text, verbatim=prompt.verbatim)
        if (expand := agent.callbacks.expand_command) and not prompt.verbatim:
            verdict = await expand(verdict, self._emit)
        if verdict.refused or verdict.answer is not None:
            if message := verdict.refused or verdict.answer:
                self._emit(e.Notice(message, "warning" if verdict.refused else "info"))
            return "refused" if verdict.refused else "end"
        if verdict.contexts or verdict.text != prompt.text:
            agent.session.amend(self.id, verdict.text, verdict.contexts)
        return None

    async def _wait_for_servers(self) -> None:
        """Wait for MCP servers that are starting, unless the prompt needs no reply."""
        wait = self._agent.callbacks.wait_for_servers
        if wait and (self._prompt is None or self._prompt.query):
            await wait()

    def _begin(self) -> None:
        self._report_lost_agents()
        message = self._agent.session.begin(self.id)
        self._emit(e.UserMessage(message_text(message), self.cause, self._prompt.attachments if self._prompt else ()))

    def _report_lost_agents(self) -> None:
        """Tell host and model of background agents that ended with an earlier process."""
        if names := self._agent.session.pop_lost_agents():
            message = f"Agents that were at work in the background when the engine ended are gone: {', '.join(names)}."
            self._emit(e.Notice(message, "warning"))
            self._add(
                f"{message} They will not report, and their effects are unknown: look before you start them again."
            )

    async def _converse(self) -> Reason:
        if self._prompt is not None and not self._prompt.query:
            return "end"
        when: When = "soon"
        while True:
            if self._out_of_steps() or self._out_of_budget():
                return "limit"
            self._deliver(when)
            try:
                reply = await self._step_that_fits()
            except RuleBroken as broken:
                self._remind(broken.rules)
                when = "soon"
                continue
            if reply is None:
                return "limit"
            waits = self._agent.steer_queue.texts
            more = bool(waits("soon")) or self._has_more_to_do(reply)
            when = "last" if waits("last") and not more else "soon"
            if more or when == "last" or await self._hooks_want_more(reply):
                continue
            if self._form and self._form.answered:
                self._emit(e.StructuredAnswer(self._form.value))
            if self._agent.settings.budget_anew and not self._agent.parent and self._out_of_budget():
                return "limit"  # claude says so also after a turn's last request
            return _REASONS.get(reply.stop, "error")

    def _has_more_to_do(self, reply: StreamedReply) -> bool:
        """Whether there are results of calls to send, or a structured answer is still missing."""
        form = self._form
        if form is None:
            return bool(reply.calls)
        form.check()
        if not form.answered and reply.stop == "end":
            form.read(reply.text)
        if not form.answered and reply.stop == "end":
            self._add(form.remind())
        return not form.answered and reply.stop in ("end", "calls")

    def _remind(self, rules: Sequence[StreamRule]) -> None:
        """Tell the model which stream rules it broke, before it is asked again."""
        self._reminders += 1
        self._emit(e.RulesMatched(tuple(rules)))
        for rule in rules:
            self._add(rule.text)

    async def _hooks_want_more(self, reply: StreamedReply) -> bool:
        """Whether a hook sends the model back although it has finished; a few times at most."""
        if reply.stop != "end" or self._sent_back == MOST_REMINDERS:
            return False
        hooks, context = self._agent.hooks, self._agent.hook_context(self.id)
        reply_text = message_text(reply.message(self._agent.provider.name))
        if why := await hooks.before_stop(context, reply_text, again=self._sent_back > 0):
            self._sent_back += 1
            self._add(why)
        return bool(why)

    def _add(self, text: str) -> None:
        """Add a message for the model that no person wrote."""
        self._agent.session.add_messages("", Message("user", (Text(text),)))
        self._emit(e.UserMessage(text, "engine"))

    async def _step_that_fits(self) -> StreamedReply | None:
        """Run a step; compact the conversation first if the window is nearly full, or when it overflows.

        If that is not enough, only the last message is kept. Returns None if compaction used up the budget.
        """
        self._check_session_size()
        compactor = self._agent.compactor
        if await compactor.make_room(self._emit) and self._out_of_budget():
            return None
        for keep in (True, False):
            try:
                return await self._step()
            except ProviderError as error:
                possible = error.kind == "overflow" and self._agent.settings.auto_compaction
                if not possible or not await compactor.compact("overflow", self._emit, keep=keep):
                    raise
            if self._out_of_budget():
                return None
        return await self._step()

    def _check_session_size(self) -> None:
        """Raise SessionError if the session is too large to go on, however often it was compacted."""
        if self._agent.session.store.size > MOST_SESSION:
            message = f"the session has more than {MOST_SESSION} bytes, which is the most that one session may have"
            raise SessionError(f"{message}. Go on in another session")

    async def _step(self) -> StreamedReply:
        """One model request and its calls. What was received and done is stored, even if the step breaks off."""
        calls = Calls(self._agent, self.id, self._meter)
        reply = StreamedReply(self._emit, calls.announce, self._agent.tool_name, self._agent.session.calls)
        self._steps += 1
        self._emit(e.StepStarted())
        stored = False
        try:
            try:
                await self._receive_reply(reply)
            finally:
                self._store_reply(reply)
                stored = True
            await self._give_way(reply)
            await calls.run()
        finally:
            await self._close(calls, stored=stored)
        if batch := calls.finished_calls():
            context = self._agent.hook_context(self.id)
            if text := await self._agent.hooks.observe(context, "PostToolBatch", {"tool_calls": batch}):
                self._add(text)
        await self._give_way(reply)
        return reply

    async def _give_way(self, reply: StreamedReply) -> None:
        """After a long reply, give others a turn on the event loop: storing and repeating it takes a while."""
        if reply.size > LONG_REPLY:
            await asyncio.sleep(0)

    async def _receive_reply(self, reply: StreamedReply) -> None:
        """Receive the reply to its end or to where it breaks off."""
        watch = self._agent.hooks.watch() if self._reminders < MOST_REMINDERS else None
        try:
            async with aclosing(self._agent.provider.stream(self._request())) as stream:
                retrying: Retrying | None = None
                while batch := await self._next(stream, retrying):
                    await self._add_batch(batch, reply, watch)
                    retrying = batch[-1] if isinstance(batch[-1], Retrying) else None
            if not reply.ended:
                raise ProviderError("protocol", "the model's reply broke off in the middle", retryable=True)
        except BaseException as error:
            stopped = isinstance(error, asyncio.CancelledError | RuleBroken)
            given_up = isinstance(error, asyncio.CancelledError | RetryCancelled)
            reply.break_off("cancelled" if stopped else "error", str(error), given_up=given_up)
            raise

    async def _add_batch(self, batch: Sequence[ModelEvent], reply: StreamedReply, watch: ReplyWatcher | None) -> None:
        """Process events that arrived together. After `SLICE` seconds others get a turn on the event loop.

        Text is not timed: a batch holds little of it, and a look at the clock for each chunk costs throughput.
        """
        pause_at = monotonic() + SLICE
        for event in batch:
            reply.add(event)
            if watch and (broken := watch(event)):
                raise RuleBroken(broken)
            if type(event) is not TextChunk and monotonic() > pause_at:
                await self._agent.wait_writable()
                await asyncio.sleep(0)
                pause_at = monotonic() + SLICE
        await self._agent.wait_writable()
        if reply.size > MOST_REPLY:
            raise ProviderError("protocol", f"the model's reply is longer than {MOST_REPLY} characters")

    async def _close(self, calls: Calls, *, stored: bool) -> None:
        """Close every call, and store its result if the call was stored."""
        results = Message("tool", await calls.close())
        try:
            if stored:
                self._agent.session.add_messages("", results)
        finally:
            self._emit(e.StepEnded())

    async def _next(
        self, stream: AsyncGenerator[Sequence[ModelEvent], None], retrying: Retrying | None
    ) -> Sequence[ModelEvent]:
        """The next batch of model events. The timeout is for providers that do not cut silent streams themselves."""
        limit, pause = self._agent.settings.stream_timeout * 4, retrying.delay_ms / 1000 if retrying else 0.0
        try:
            async with asyncio.timeout(limit + pause if limit else None) as patience:
                self._pause = patience if retrying else None
                return await anext(stream)
        except StopAsyncIteration:
            return ()
        except TimeoutError:
            if retrying and self._given_up:
                raise RetryCancelled(retrying.error) from None
            raise ProviderError("timeout", f"the model was silent for {limit:g} s", retryable=True) from None
        finally:
            self._pause = None

    def cancel_retry(self) -> None:
        """If the turn waits for another attempt, end it with the error of the last one."""
        if self._pause and not self._given_up:
            self._given_up = True
            self._pause.reschedule(0)

    def _request(self) -> ModelRequest:
        settings, session = self._agent.settings, self._agent.session
        sees = settings.image_input != "unsupported"
        return ModelRequest(
            model=settings.model,
            system=self._agent.system(),
            messages=tuple(session.context() if sees else map(without_pictures, session.context())),
            tools=self._agent.specs(),
            max_tokens=settings.max_tokens,
            thinking=settings.thinking,
            effort=thinking.effort(settings, self._agent.provider.info(settings.model)),
            session=session.id,
            retries=settings.auto_retry,
        )

    def _store_reply(self, reply: StreamedReply) -> None:
        agent, message = self._agent, self._with_usage(reply)
        agent.charge(message, reply.request)
        agent.session.add_messages(self.id, message, request=reply.request)
        agent.compactor.record_usage(reply.usage, self._emit)
        if agent.settings.cost_updates == "step":
            self._emit_to_main(e.CostChanged(agent.top.session.known_usage))

    def _with_usage(self, reply: StreamedReply) -> Message:
        """The reply's message. Its usage is estimated if the server reported none and there is a cap on it."""
        agent, message = self._agent, reply.message(self._agent.provider.name)
        if reply.usage.tokens or not message.content:
            return message
        usage = agent.compactor.estimated_usage(message)
        if not usage.tokens:
            return message
        if not agent.meter.estimate_reported:
            agent.meter.estimate_reported = True
            self._emit_to_main(e.Notice(ESTIMATED, "warning"))
        return replace(message, usage=reply.total_usage + usage)

    def _deliver(self, when: When) -> None:
        """Add the steers that wait for this moment to the conversation."""
        agent, settings = self._agent, self._agent.settings
        queued = agent.steer_queue.next(when, settings.steering_mode if when == "soon" else settings.follow_up_mode)
        for id, steer in queued:
            agent.session.begin(id)
            agent.steer_queue.delivered(id)
            self._emit(e.UserMessage(steer.text, "steer" if when == "soon" else "follow_up", steer.attachments))
        if queued:
            agent.callbacks.queue_changed()

    def _out_of_steps(self) -> bool:
        most = self._agent.settings.max_turns
        if not most or self._steps < most:
            return False
        requests = "1 model request" if most == 1 else f"{most} model requests"
        self._emit(e.Notice(f"stopped after {requests}, the limit of --max-turns"))
        return True

    def _out_of_budget(self) -> bool:
        """Whether a cap of the session or the turn is exceeded. `BudgetExceeded` is emitted once for each meter."""
        for meter in (self._agent.meter, self._meter):
            if (passed := meter.exceeded()) is None:
                continue
            if not meter.reported:
                meter.reported = True
                self._emit_to_main(passed)
            self._emit(e.Notice(f"Stopped: {meter.used_up()}."))
            return True
        return False

    def _emit_to_main(self, event: e.Event) -> None:
        """Emit an event of the main agent: for what concerns the whole turn or session."""
        self._agent.top.emitter("" if self._agent.detached else self.id)(event)


def _failure(error: PolylectError) -> Failure:
    if isinstance(error, NoAnswer):
        return Failure("structured_output", str(error), "provider")
    if isinstance(error, RetryCancelled):
        return Failure("retry_cancelled", str(error), "provider", retryable=True)
    if isinstance(error, ProviderError):
        return Failure(error.kind, str(error), "provider", error.retryable)
    if isinstance(error, SessionError):
        return session_failure(error)
    return Failure(type(error).__name__, str(error), "engine")
