"""Continues a turn that waited for an approval when the engine ended.

A script (`engine/tools/script.py`) stores what it waits for. When a later process receives the answer to that question,
the turn goes on: the waiting call uses the answer, and every other open call of that step is reported as cut off. An
answer counts once; that it was used is on disk before anything runs.
"""

from contextlib import suppress

from msgspec.structs import replace

from polylect.engine.agent import Agent
from polylect.engine.commands.context import CommandContext
from polylect.engine.tools.script import Script
from polylect.engine.turn.budget import Meter, tightened
from polylect.engine.turn.calls import Calls
from polylect.engine.turn.loop import TurnLoop
from polylect.engine.turn.structured import open_form
from polylect.sessions.replay import CUT_OFF, unanswered_calls
from polylect.sessions.suspension import EarlyAnswer, Suspension, digest
from polylect.system.clock_and_ids import now_ms
from polylect.system.threads import run_in_thread
from polylect.vocab.commands import Answer
from polylect.vocab.content import Failure, Message, Reason, ToolCall, Usage
from polylect.vocab.entries import MessageAdded, TurnOpened
from polylect.vocab.errors import SessionError
from polylect.vocab.events import ReplyEnded, StepStarted
from polylect.vocab.hooks import HookResult
from polylect.vocab.ports import ToolReturn

_UNKNOWN = Failure("unknown_ask", "nothing is waiting for this answer: unknown, or answered before", "host")


def resume(context: CommandContext, answer: Answer) -> Failure | None:
    """Continue the suspended turn that this answer belongs to, or say why not."""
    agent, session = context.agent, context.agent.session
    if not session.suspended:
        return _UNKNOWN
    token = digest(answer.ask)
    call = next((call for call, waiting in session.suspended.items() if waiting.token == token), "")
    if not call:
        return _UNKNOWN
    if context.turns.busy:
        return Failure("busy", "something else is under way: answer again when it has ended", "host", retryable=True)
    if now_ms() >= session.suspended[call].until:
        with suppress(SessionError):
            session.expire_suspended()
        return _UNKNOWN
    waiting = session.pop_suspended(call)
    agent.asks.tokens.add(answer.ask)
    # A turn that is stopped before its first step has closed nothing.
    context.turns.after_current(session.complete_results)
    context.turns.resume(ResumedTurn(agent, waiting, call, answer))
    return None


class ResumedTurn(TurnLoop):
    """The rest of a suspended turn. What it used before the restart counts towards its limits."""

    def __init__(self, agent: Agent, waiting: dict[str, Suspension], call: str, answer: Answer) -> None:
        super().__init__(agent, waiting[call].turn)
        self._suspended = waiting
        self._early_answers = {call: EarlyAnswer(answer, waiting[call])}
        self._restore_options()

    def _restore_options(self) -> None:
        """Holds the turn to the schema and the caps of its prompt."""
        for entry in self._agent.session.store.entries:
            match entry.body:
                case MessageAdded(Message("user"), turn, schema=schema, max_cost=cost, max_tokens=tokens) if (
                    turn == self.id and (schema or cost or tokens)
                ):
                    self._meter.budget = tightened(self._meter.budget, cost=cost, tokens=tokens)
                    self._form = open_form(self._agent, schema)

    def _begin(self) -> None:
        """Restore the steps and the usage; the prompt is already part of the conversation."""
        for entry in reversed(self._agent.session.store.entries):
            match entry.body:
                case TurnOpened(turn) if turn == self.id:
                    return
                case MessageAdded(Message("assistant", usage=usage), turn) if turn == self.id:
                    self._steps += 1
                    self._meter.spend(usage or Usage())
                    self._agent.spent += usage or Usage()

    async def _converse(self) -> Reason:
        await self._finish_step()
        self._report_lost_agents()
        return await super()._converse()

    async def _finish_step(self) -> None:
        """Finish the calls of the interrupted step: suspended ones go on, all others were cut off."""
        session = self._agent.session
        try:  # a power cut must not take back that the answer was used
            await run_in_thread(session.store.sync)
        except OSError as error:
            raise SessionError(f"the answer cannot be kept: {error}") from error
        calls = _RemainingCalls(self._agent, self.id, self._meter, self._suspended, self._early_answers)
        self._emit(StepStarted())
        try:
            for call in unanswered_calls(session.messages):
                calls.announce(call)
            self._emit(ReplyEnded("calls"))
            await calls.run()
        finally:
            await self._close(calls, stored=True)


class _RemainingCalls(Calls):
    """The calls of an interrupted step."""

    def __init__(
        self,
        agent: Agent,
        turn: str,
        meter: Meter,
        suspended: dict[str, Suspension],
        early_answers: dict[str, EarlyAnswer],
    ) -> None:
        super().__init__(agent, turn, meter)
        self._suspended = suspended
        self._early_answers = early_answers

    async def _run_one(self, call: ToolCall, approval_reason: str = "") -> None:
        waiting = self._suspended.get(call.call)
        if waiting is None:
            return self._finish(call, ToolReturn(CUT_OFF, ok=False), "cancelled", "Cut off")
        call = replace(call, args=waiting.args)
        if not isinstance(self._agent.tool(call.name), Script):
            return self._refuse(call, f"{waiting.model_text}\nThere is no {call.name} any more.")
        script = Script(waiting, self._early_answers.get(call.call))
        proposed, judged = await self._judge(script, call.args)
        if judged.decision == "deny":  # what is asked for was answered when it began
            return self._finish(
                call, ToolReturn(f"{waiting.model_text}\nTool denied: {judged.why}", ok=False), "denied", judged.why
            )
        return await self._carry_out(call, script, proposed, HookResult())
