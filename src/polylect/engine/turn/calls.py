"""The tool calls of one step: judged in order, asked about at the same time, run together, answered in the model's
order.

Each call gets exactly one result, also if it is denied, cancelled or crashes (T4). However many calls one reply
requests, the engine goes on serving its host: only the first `MOST_CALLS` are judged and run, `MOST_RUNNING` of them at
a time, and the others get an error result. A reply with more calls than `apis/arguments.py` allows ends the turn.
`loop.py` makes one `Calls` for each step; `engine/tools/script.py` makes nested ones.
"""

import asyncio
import copy
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import force_setattr, replace

from polylect.apis import arguments
from polylect.apis.faults import too_many_calls
from polylect.engine.agent import Agent
from polylect.engine.client_files import CheckpointFiles, client_files
from polylect.engine.client_terminals import client_terminals
from polylect.engine.context.output_cleanup import clean_output
from polylect.engine.turn.budget import Meter
from polylect.permissions.gate import ProposedCall, Verdict, verdict
from polylect.permissions.protected_paths import decides_what_runs
from polylect.permissions.rules import is_below
from polylect.sessions.suspension import EarlyAnswer
from polylect.vocab import events as e
from polylect.vocab import hook_format
from polylect.vocab.argument_schema import schema_error
from polylect.vocab.commands import Answer
from polylect.vocab.content import UNPARSED, Message, Outcome, PlanItem, Rule, ToolCall, ToolResult
from polylect.vocab.errors import ToolError
from polylect.vocab.hooks import HookResult
from polylect.vocab.ports import Processes, TextFiles, Tool, ToolReturn
from polylect.wire.cut_text import cut_middle

STOPPED = "Stopped"
SKIPPED = "A message from the user came first"
MOST_OUTPUT = 200_000
"""Characters of a result that the model is shown."""
_MOST_REPLACED = 256 * 1024
"""Bytes of a file whose old content is shown when it is replaced."""
MOST_CALLS = 128
"""Calls of one reply that are run."""
UNUSABLE = (
    "The arguments are cut off, too large or not a JSON object, so nothing was done. Call it again. "
    f"The calls of one reply may have {arguments.MOST_TEXT} characters and {arguments.MOST_VALUES} values in all."
)
MOST_RUNNING = 16
"""Calls of one reply that run at the same time; the others wait in order."""
MOST_COMPOSITE = 8
"""The same for calls that make calls themselves: agents and scripts."""
SLICE = 64
"""Calls that are announced or ended in one go, before others get a turn on the event loop."""
NESTED_ASK_TIMEOUT = 300.0
"""Seconds that a question of a nested call waits for an answer, if `approval_timeout` is not set: some hosts cannot
answer it."""
_log = logging.getLogger(__name__)


class Calls:
    """The calls of one step of one agent."""

    def __init__(self, agent: Agent, turn: str, meter: Meter) -> None:
        self._agent = agent
        self.turn = turn
        self._meter = meter
        self._emit = agent.emitter(turn)
        self._ask_timeout = agent.settings.approval_timeout
        """How long a question waits for its answer."""
        self._running = agent.running
        self._called: list[ToolCall] = []
        self._results: dict[str, ToolResult] = {}
        self._done: dict[str, str] = {}
        """What calls that were cut short had done."""
        self.early_answer: EarlyAnswer | None = None
        """An answer to what will be asked first."""
        self._editing = asyncio.Lock()
        self._slots = asyncio.Semaphore(MOST_RUNNING)
        self._composite_slots = asyncio.Semaphore(MOST_COMPOSITE)
        self._turn_task: asyncio.Task[Any] | None = None

    def announce(self, call: ToolCall) -> ToolCall:
        """Add a call that the model requests. Raises ProviderError if there are too many.

        Returns the call with our names of the tool and its parameters: hosts, hooks, rules and the history see only
        these.
        """
        if len(self._called) == arguments.MOST_CALLS:
            raise too_many_calls()
        call = self._in_own_names(call)
        tool = self._agent.tools.get(call.name)
        category = tool.category if tool else "exec"
        description = _described(tool, call.args) if tool else ""
        self._called.append(call)
        self._emit(e.ToolCalled(call.call, call.name, call.args, category, description))
        return call

    def _in_own_names(self, call: ToolCall) -> ToolCall:
        name = self._agent.tool_name(call.name)
        tool = self._agent.tools.get(name)
        return replace(call, name=name, args=_own_arguments(tool, call.args)) if tool else call

    async def run(self) -> None:
        """Run them all. When cancelled, stop them all, and wait for that no longer than the settings say.

        When one has finished and the user has a message that should not wait, the others are skipped. Calls beyond
        `MOST_CALLS` are refused.
        """
        self._turn_task = asyncio.current_task()
        await self._refuse_beyond()
        tasks = [asyncio.create_task(self._run_one(call)) for call in self._called[:MOST_CALLS]]
        left = set(tasks)
        try:
            while left and not (len(left) < len(tasks) and self._interrupted()):
                _, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            if left:
                await self._stop(left)
        except asyncio.CancelledError:
            await self._stop(left)
            raise
        for call in self._called:
            self._end_unfinished(call, f"Skipped: {SKIPPED.lower()}.", "skipped", SKIPPED)
        for task in tasks:
            if task.done() and not task.cancelled():
                task.result()  # a fault of our own is not swallowed

    async def _refuse_beyond(self) -> None:
        why = f"This reply asked for {len(self._called)} calls; at most {MOST_CALLS} are run. Ask for the rest again."
        for start in range(MOST_CALLS, len(self._called), SLICE):
            for call in self._called[start : start + SLICE]:
                self._refuse(call, why)
            await self._agent.wait_writable()
            await asyncio.sleep(0)

    def _interrupted(self) -> bool:
        return self._agent.settings.interrupt_mode == "immediate" and bool(self._agent.steer_queue.texts("soon"))

    async def _stop(self, tasks: set[asyncio.Task[None]]) -> None:
        for task in tasks:
            if not task.cancelling():  # a second time would cut short how it stops
                task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=self._agent.settings.cancel_timeout)

    async def close(self) -> tuple[ToolResult, ...]:
        """Every result in the model's order; a call that has none was cut short.

        A cancel does not interrupt this: it is raised at the caller's next wait.
        """
        cancelled = False
        left = [call for call in self._called if call.call not in self._results]
        for start in range(0, len(left), SLICE):
            for call in left[start : start + SLICE]:
                self._end_unfinished(call, "The call was stopped before it finished.", "cancelled", STOPPED)
            if start + SLICE < len(left):
                try:
                    await asyncio.sleep(0)
                except asyncio.CancelledError:
                    cancelled = True
        if cancelled and (task := asyncio.current_task()):
            task.cancel()
        return tuple(self._results[call.call] for call in self._called)

    def finished_calls(self) -> list[dict[str, Any]]:
        """All calls with their results, as hooks are told of them after the last one."""
        return [
            hook_format.call_input(call.call, call.name, call.args)
            | {"tool_response": {"output": result.output, "is_error": result.outcome != "ok"}}
            for call in self._called
            if (result := self._results.get(call.call))
        ]

    def cut_short(self, call: str, done: str) -> None:
        """A call that is being cancelled reports what it has done, so that the model does not repeat it."""
        self._done[call] = done

    def _end_unfinished(self, call: ToolCall, message: str, outcome: Outcome, reason: str) -> None:
        done = self._done.get(call.call, "")
        output = self._fit(f"{message} Until then:\n\n{done}") if done else message
        self._finish(call, ToolReturn(output, ok=False), outcome, reason)

    # Calls that a call makes.

    def nested(self, call: str, observe: Callable[[e.Event], None]) -> "Calls":
        """Calls that the call `call` makes itself. They are judged, asked about and run like any other.

        `observe` receives their events; the host sees only questions and output, as part of the outer call.
        """

        def emit(event: e.Event) -> None:
            if not isinstance(event, e.AskClosed):
                observe(event)
            match event:
                case e.AskClosed():  # whatever becomes of it, the ask is closed
                    self._emit(event)
                    observe(event)
                case e.ToolCalled() | e.ToolStarted() | e.ToolFinished():
                    pass
                case e.ToolOutput() if call in self._results:
                    pass  # left behind by a stop
                case e.Ask() | e.ToolOutput():
                    force_setattr(event, "call", call)
                    self._emit(event)
                case _:
                    self._emit(event)

        inner = Calls(self._agent, self.turn, self._meter)
        inner._emit = emit
        inner._ask_timeout = self._ask_timeout or NESTED_ASK_TIMEOUT
        inner._editing, inner._turn_task = self._editing, self._turn_task
        inner._running = {}
        return inner

    async def run_now(self, call: ToolCall, *, approval_reason: str = "") -> ToolResult:
        """Run one call now. With an `approval_reason` a person has to approve it, whatever the rules allow."""
        if (task := asyncio.current_task()) and task.cancelling():
            raise asyncio.CancelledError  # the step before did not listen
        await self._run_one(self._in_own_names(call), approval_reason)
        return self._results[call.call]

    # One call.

    async def _run_one(self, call: ToolCall, approval_reason: str = "") -> None:
        tool = self._agent.tool(call.name)
        if tool is None:
            known = ", ".join(sorted(spec.name for spec in self._agent.specs()))
            return self._refuse(call, f"Unknown tool: {call.name[:200]}. The tools are: {known}.")
        if UNPARSED in call.extra:
            return self._refuse(call, UNUSABLE)
        if fault := _argument_error(tool, call.args):
            return self._refuse(call, fault)
        hook_result = await self._agent.hooks.before_tool(self._agent.hook_context(self.turn), call)
        if hook_result.decision == "deny":
            self._deny(call, hook_result.reason or "Denied")
            return self._interrupt() if hook_result.interrupt else None
        if hook_result.args is not None:
            call = replace(call, args=_own_arguments(tool, hook_result.args))
            if fault := _argument_error(tool, call.args):
                return self._refuse(call, f"{fault} (as a hook has changed it)")
        proposed = await self._allowed(call, tool, hook_result, approval_reason)
        if proposed is None:
            return None
        return await self._carry_out(replace(call, args=proposed.args), tool, proposed, hook_result)

    async def _carry_out(self, call: ToolCall, tool: Tool, proposed: ProposedCall, hook_result: HookResult) -> None:
        async with self._composite_slots if _is_composite(tool) else self._slots:
            returned = await self._execute(call, tool, proposed)
            if tool.category in ("exec", "mcp"):  # what is in files has to stay as it is
                returned = replace(returned, output=clean_output(returned.output, self._agent.settings.output_cleanup))
            return await self._after_call(call, returned, hook_result)

    async def _allowed(
        self, call: ToolCall, tool: Tool, hook_result: HookResult, approval_reason: str
    ) -> ProposedCall | None:
        """The call as it may run, or None if it was denied; then the model has its result."""
        args = copy.deepcopy(call.args)  # what is judged here is what runs, whoever else holds the original
        proposed, judged = await self._judge(tool, args)
        if judged.decision != "deny" and hook_result.decision:
            judged = Verdict(hook_result.decision, hook_result.reason or judged.why)
        if judged.decision == "allow" and approval_reason:
            judged = Verdict("deny" if self._agent.mode == "dont_ask" else "ask", approval_reason)
        if judged.decision == "ask":
            answer = await self._ask(call, tool, proposed, judged.why)
            if answer.verdict != "allow":
                self._deny(call, answer.reason or "Denied")
                if answer.interrupt:
                    self._interrupt()
                return None
            if answer.args is not None:
                args = _own_arguments(tool, answer.args)
                if fault := _argument_error(tool, args):
                    self._refuse(call, f"{fault} (as whoever approved it has changed it)")
                    return None
                proposed, judged = await self._judge(tool, args)
        if judged.decision == "deny":
            fields = {**hook_format.call_input(call.call, call.name, args), "reason": judged.why}
            await self._agent.hooks.observe(self._agent.hook_context(self.turn), "PermissionDenied", fields, call.name)
            self._deny(call, judged.why)
            return None
        return proposed

    async def _after_call(self, call: ToolCall, returned: ToolReturn, before: HookResult) -> None:
        """Pass the result to hooks, which may change it, before the model gets it."""
        after = await self._agent.hooks.after_tool(self._agent.hook_context(self.turn), call, returned)
        output = returned.output if after.output is None else after.output
        output_with_context = "\n\n".join(filter(None, (self._fit(output), before.context, after.context)))
        self._finish(call, replace(returned, output=output_with_context), "ok" if returned.ok else "error")
        if after.interrupt:
            self._interrupt()

    def _fit(self, output: str) -> str:
        """Shorten a result that is too long; all of it goes to a file. Tools of others may have no limit."""
        if len(output) <= MOST_OUTPUT:
            return output
        where = ""
        with suppress(OSError):
            where = self.spill(self._agent.asks.scrub(output))
        return cut_middle(output, MOST_OUTPUT, where)

    def spill(self, text: str) -> str:
        """Write a long output to a file that the model may read, and return its path."""
        path = self._agent.session.store.spill(text)
        self._agent.rules.add(Rule("path", os.path.dirname(path), write=False))
        return path

    async def _judge(self, tool: Tool, args: dict[str, Any]) -> tuple[ProposedCall, Verdict]:
        settings, worker = self._agent.settings, self._agent.worker
        touched = self._touched(tool, args)
        if touched:
            worker.prepare()
        if touched and self._agent.mode == "force":
            await worker.detect_sandbox()  # the other modes ask either way, and questions keep the order of the calls
        roots = self._agent.roots(tool.category)
        hidden = tuple(path for path in touched if worker.hides(path, roots))
        outside = tuple(p for p in touched if p not in hidden and not any(is_below(p, root) for root in roots))
        guarded = tuple(p for p in touched if decides_what_runs(p, settings.workspace, roots, self._agent.home))
        unwritable = tuple(path for path in outside if not worker.lets_change(path, roots))
        named = _full_name(tool, args)
        proposed = ProposedCall(
            tool.name, tool.category, args, outside, touched, named, guarded, tool.origin, hidden, unwritable
        )
        return proposed, verdict(proposed, self._agent.mode, settings.allow_list, self._agent.rules)

    def _deny(self, call: ToolCall, reason: str) -> None:
        self._finish(call, ToolReturn(f"Tool denied: {reason}", ok=False), "denied", reason)

    def _interrupt(self) -> None:
        """End the whole turn, also if this is a sub-agent's call."""
        if self._agent.parent and not self._agent.detached:
            self._agent.callbacks.stop_turn()
        elif self._turn_task:
            self._turn_task.cancel()

    def _refuse(self, call: ToolCall, why: str) -> None:
        """Answer a call that makes no sense with an error, without asking anybody."""
        self._finish(call, ToolReturn(why, ok=False), "error")

    async def _ask(self, call: ToolCall, tool: Tool, proposed: ProposedCall, why: str) -> Answer:
        agent = self._agent
        ask = e.Ask(
            f"ask-{agent.new_id()}",
            call=call.call,
            name=call.name,
            args=call.args,
            category=tool.category,
            title=self._title(tool, proposed),
            reason=why,
            timeout_ms=int(self._ask_timeout * 1000),
            before=await self._text_before(tool, proposed),
        )
        if self.early_answer and self.early_answer.answers(ask):
            answer = self.early_answer.answer
        else:
            answer = await self._ask_hooks(ask, call) or await self._ask_host(ask)
        if answer.always is not None and answer.always.effect == answer.verdict:
            agent.rules.add(_in_full(answer.always, tool, call.args))
        return answer

    async def _text_before(self, tool: Tool, proposed: ProposedCall) -> str | None:
        """What is in the file that Write is about to replace; None if nobody wants to know, or it is no short text."""
        apart = proposed.outside or proposed.hidden or not proposed.touched
        if tool.name != "Write" or apart or not self._agent.settings.show_replaced:
            return None
        with suppress(ToolError, OSError, UnicodeDecodeError):
            state = await CheckpointFiles(self._agent).file_state(proposed.touched[0])
            return state.data.decode() if state and len(state.data) <= _MOST_REPLACED else None
        return None

    def _title(self, tool: Tool, proposed: ProposedCall) -> str:
        """What a person is asked. Some wires have no reason beside it, so it names what a link leads to."""
        title, workspace = _described(tool, proposed.args), self._agent.settings.workspace
        critical = (*proposed.hidden, *proposed.outside, *proposed.guarded)
        return title + "".join(
            f" ({path})" for path in critical[:1] if path not in title and os.path.relpath(path, workspace) not in title
        )

    async def _ask_hooks(self, ask: e.Ask, call: ToolCall) -> Answer | None:
        """The answer of hooks that stand for the person; None if they have none."""
        result = await self._agent.hooks.permission(self._agent.hook_context(self.turn), call)
        if result.decision not in ("allow", "deny"):
            return None
        return Answer(ask.ask, result.decision, args=result.args, reason=result.reason, interrupt=result.interrupt)

    async def _ask_host(self, ask: e.Ask) -> Answer:
        agent = self._agent
        notification = asyncio.create_task(agent.hooks.notify(agent.hook_context(self.turn), "asked", ask.title))
        try:
            return await agent.asks.ask(ask, self._emit, self._ask_timeout)
        finally:
            notification.cancel()

    async def _execute(self, call: ToolCall, tool: Tool, proposed: ProposedCall) -> ToolReturn:
        """Run the tool. It uses the paths that were judged; they are not resolved again."""
        roots = [*self._agent.roots(tool.category), *proposed.outside, *proposed.hidden]
        args, context = copy.deepcopy(call.args), Context(self._agent, self, call.call, roots, proposed.touched)
        before = await self._text_before(tool, proposed)
        self._running[call.call] = call.name
        self._emit(e.ToolStarted(call.call, call.name, before=before))
        if tool.category == "exec" and (notice := self._agent.take_command_notice()):
            self._emit(e.Notice(notice))
        began = asyncio.get_running_loop().time()
        try:
            if tool.category == "edit":
                async with self._editing:  # two edits of one file in one step must not race
                    if self._agent.settings.checkpoints:
                        await self._agent.checkpoints.save(self.turn, proposed.touched)
                    return await tool.run(args, context)
            return await tool.run(args, context)
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) and task.cancelling():
                raise
            return self._crashed(call, "it was cancelled from inside")
        except ToolError as error:
            return ToolReturn(str(error), ok=False)
        except Exception as error:  # noqa: BLE001  (a tool's crash is a result, not the end of the turn)
            _log.exception("the tool %s crashed", call.name)
            return self._crashed(call, f"{type(error).__name__}: {error}")
        finally:
            for meter in (self._agent.meter, self._meter):
                if not _is_composite(tool):  # else its steps, or its agents' calls, count
                    meter.tool_seconds += asyncio.get_running_loop().time() - began
                    meter.processes += tool.category == "exec"

    def _crashed(self, call: ToolCall, how: str) -> ToolReturn:
        self._emit(e.ToolCrashed(call.call, call.name, how))
        return ToolReturn(f"The tool crashed: {how}", ok=False)

    def _finish(self, call: ToolCall, returned: ToolReturn, outcome: Outcome, reason: str = "") -> None:
        """The first one counts: a call left behind by a cancel may still come in late."""
        if call.call in self._results:
            return
        self._running.pop(call.call, None)
        output = self._agent.asks.scrub(returned.output)
        self._results[call.call] = ToolResult(call.call, call.name, output, outcome, returned.images)
        finished = e.ToolFinished(
            call.call,
            call.name,
            output,
            outcome,
            returned.form,
            reason,
            returned.metadata,
            returned.images,
        )
        self._emit(finished)

    async def ask_host(self, call: str, question: e.Ask) -> Answer:
        """A question that a running call has for the person. A call left behind by a stop has none to ask."""
        if call in self._results:
            return Answer("", "cancelled", reason=STOPPED)
        whole = replace(question, ask=f"ask-{self._agent.new_id()}", call=call)
        return await self._agent.asks.ask(whole, self._emit, self._ask_timeout)

    def progress(self, call: str, text: str) -> None:
        if call not in self._results:
            self._emit(e.ToolOutput(call, self._agent.asks.scrub(text)))

    def plan(self, call: str, items: Sequence[PlanItem]) -> None:
        if call not in self._results:
            self._agent.todos = items
            self._emit(e.PlanChanged(tuple(items)))

    def _touched(self, tool: Tool, args: dict[str, Any]) -> tuple[str, ...]:
        try:
            return tuple(tool.touches(args, self._agent.settings.workspace))
        except Exception:  # noqa: BLE001  (it cannot be known; the tool will fail when it runs)
            _log.exception("the tool %s cannot say what it touches", tool.name)
            return ()


class Context:
    """What one call may use: the implementation of the port `ToolContext`."""

    def __init__(
        self, agent: Agent, calls: Calls, call: str, roots: Sequence[str], touched: Sequence[str] = ()
    ) -> None:
        self.call = call
        self.turn = calls.turn
        self.workspace = agent.settings.workspace
        self.roots = roots
        self.touched = touched
        self.seen = agent.seen
        self.env = agent.env
        self.processes = agent.processes
        self.worker = agent.worker
        self.host_files: TextFiles | None = client_files(agent, calls.turn)
        self.terminals: Processes | None = client_terminals(agent, calls.turn)
        self.agent = agent
        self._calls = calls

    def steps(self, observe: Callable[[e.Event], None]) -> Calls:
        """Calls that this call makes itself; `observe` receives their events."""
        return self._calls.nested(self.call, observe)

    def cut_short(self, done: str) -> None:
        self._calls.cut_short(self.call, done)

    def progress(self, text: str) -> None:
        self._calls.progress(self.call, text)

    async def ask(self, question: e.Ask) -> Answer:
        return await self._calls.ask_host(self.call, question)

    def reading_fault(self, path: str) -> str:
        return self.agent.reading_fault(path)

    async def search_web(self, query: str, allowed: Sequence[str], blocked: Sequence[str]) -> str:
        from polylect.engine.web_search import search_web  # only for who searches

        return await search_web(self.agent, query, allowed, blocked)

    async def ask_model(self, system: str, messages: Sequence[Message], max_tokens: int) -> Message:
        from polylect.engine.side_request import ask_model  # only for who asks

        return await ask_model(self.agent, system, messages, max_tokens)

    def plan(self, items: Sequence[PlanItem]) -> None:
        self._calls.plan(self.call, items)

    def spill(self, text: str) -> str:
        return self._calls.spill(text)


def _full_name(tool: Tool, args: dict[str, Any]) -> str:
    """The name by which rules know a call of a server's tool; empty for other tools. Some depend on the arguments."""
    by_arguments = getattr(tool, "long_name_for", None)
    return by_arguments(args) if by_arguments else getattr(tool, "long_name", "")


def _in_full(rule: Rule, tool: Tool, args: dict[str, Any]) -> Rule:
    """A rule for a server's tool with the full name: a host that answers knows only the model's name."""
    named = _full_name(tool, args)
    return replace(rule, value=named) if named and (rule.kind, rule.value) == ("tool", tool.name) else rule


def _is_composite(tool: Tool) -> bool:
    """Whether calls of this tool make calls themselves."""
    return bool(getattr(tool, "composite", False))


def _described(tool: Tool, args: dict[str, Any]) -> str:
    try:
        return tool.describe(args)
    except Exception:  # noqa: BLE001  (the model may send anything; the tool will say so when it runs)
        _log.exception("the tool %s cannot describe a call", tool.name)
        return ""


def _own_arguments(tool: Tool, args: dict[str, Any]) -> dict[str, Any]:
    """The arguments under the tool's own names, where it accepts others."""
    rename: Callable[[dict[str, Any]], dict[str, Any]] | None = getattr(tool, "own_arguments", None)
    return rename(args) if rename else args


def _argument_error(tool: Tool, args: dict[str, Any]) -> str:
    """What is wrong with the arguments for a foreign tool. Our own tools check theirs when they run."""
    return "" if tool.origin == "builtin" else schema_error(args, tool.spec.schema)
