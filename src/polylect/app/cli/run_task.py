"""Runs the task of `polylect run`: from the prompt to the result on stdout and the exit code.

`run.py` calls `run` with checked options. Our own engine runs in this process; any other one is started by `connect`.
All asks are answered by the rules of the command line. Whatever happens, the engine is ended before `run` returns, and
the exit code says which of the documented outcomes it was.
"""

import asyncio
import io
import json
import os
import signal
import sys
import warnings
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from typing import Any, TextIO

import msgspec

from polylect.app.cli.answer_policy import BY_PLAN_MODE, BY_RULE, NOBODY_TO_ASK, answer_by_rules
from polylect.app.cli.engine_choice import in_flags
from polylect.app.cli.progress import Progress, describe_call
from polylect.app.cli.run_flags import RunOptions
from polylect.app.serving.in_process import InProcessLink
from polylect.app.serving.own_engine import own_engine
from polylect.host.agent import Agent
from polylect.host.asks import Ask, Verdict
from polylect.host.connecting import connect
from polylect.host.engine_registry import absolute_paths, command, engine_spec, find
from polylect.host.errors import EngineDied, HostError, SchemaNotMet, TimedOut, TurnFailed
from polylect.host.limits import Limits, LimitWarning, describe
from polylect.host.results import Denial, Result, update
from polylect.host.supervision.session_names import SessionNames
from polylect.vocab.content import Usage
from polylect.vocab.escape import escape_controls, escape_json
from polylect.vocab.events import (
    BudgetExceeded,
    Display,
    Event,
    Notice,
    ReplyEnded,
    ServerChanged,
    StepStarted,
    ToolCalled,
    ToolFinished,
    TurnEnded,
)

DONE, FAILED, USAGE, NOT_APPROVED, LIMIT, SCHEMA_NOT_MET, TRY_LATER, CONFIGURATION = 0, 1, 2, 3, 4, 5, 75, 78
_LAST_EVENTS_TIMEOUT = 2.0
"""Seconds to wait for the last events of an engine that is being stopped."""


def run(options: RunOptions, schema: dict[str, Any] | None) -> int:
    """Runs the task and returns the exit code. `schema` is the JSON Schema that the answer has to fit, if any."""
    options.file = [os.path.abspath(path) for path in options.file]
    task = _Run(options, schema, _redirect_stdout())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, task.on_signal)  # add_signal_handler of the loop would load inspect: 6 ms
    return asyncio.run(task.run())


class _Run:
    """One task: connects to the engine, answers its asks, writes its result."""

    def __init__(self, options: RunOptions, schema: dict[str, Any] | None, out: TextIO | None) -> None:
        self._out = out
        self._options = options
        self._schema = schema
        # An engine that has the allow rules asks only where they do not hold: a rule of its own wants the question.
        allow = () if "allow" in options.engine_options else options.allow
        self._rules = answer_by_rules(allow, options.deny, options.cwd)
        self._progress = Progress()
        self._output_error: BaseException | None = None
        self._limit_exceeded = ""
        self._calls: dict[str, str] = {}
        self._agent: Agent | None = None
        self._event_reader: asyncio.Task[None] | None = None
        self._result = Result()
        """The result so far, from the events that have arrived."""
        self._notices: list[str] = []
        """Notices of the turn before its first request to a model. They are the answer if no request comes."""
        self._turn_read = asyncio.Event()
        """Set when the end of the turn was read from the events."""
        self._usage = Usage()
        self._signal = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def on_signal(self, number: int, frame: object) -> None:
        if self._loop is None:
            raise SystemExit(128 + number)
        self._loop.call_soon_threadsafe(self._stop, number)

    async def run(self) -> int:
        warnings.simplefilter("always", LimitWarning)
        warnings.showwarning = lambda message, *place: self._warn(str(message))
        task = self._task = asyncio.ensure_future(self._run_task())
        drawing = asyncio.ensure_future(self._progress.run())
        self._loop = asyncio.get_running_loop()
        try:
            return await task
        except asyncio.CancelledError:
            if self._output_error:
                raise self._output_error from None
            reason = f"stopped by {signal.Signals(self._signal).name}"
            return self._fail(reason, 128 + self._signal, self._partial_result())
        finally:
            drawing.cancel()
            with suppress(asyncio.CancelledError):
                await drawing
            self._progress.clear()

    def _stop(self, number: int) -> None:
        """Handles the first signal only: a second one would interrupt the clean-up of the engine."""
        if not self._signal:
            self._signal = number
            self._task.cancel()

    async def _run_task(self) -> int:
        options = self._options
        limits = Limits(options.timeout, options.idle, options.budget)
        try:
            async with self._connect(approve=self._answer, limits=limits) as agent:
                self._agent = agent
                reader = self._event_reader = asyncio.ensure_future(self._read_events(agent.events()))
                reader.add_done_callback(partial(self._on_reader_done, asyncio.current_task()))
                code = await self._ask_engine(agent)
        except EngineDied as error:
            return self._fail(in_flags(str(error)), CONFIGURATION)
        except asyncio.CancelledError:
            if self._event_reader and not self._output_error:
                # The last events say how the turn ended and what it cost.
                await asyncio.wait([self._event_reader], timeout=_LAST_EVENTS_TIMEOUT)
            raise
        await reader
        return code

    def _partial_result(self) -> Result:
        """The result of a turn that was cancelled before its end arrived."""
        self._result.session_id = self._agent.session_id if self._agent else ""
        if self._result.reason != "cancelled":
            self._result.reason, self._result.usage = "cancelled", self._usage
        return self._result

    def _connect(self, **host_options: Any) -> Agent:
        """Our own engine runs in this process, which saves a second start of Python. Others are started."""
        options = self._options
        host_options["allow_unpriced"] = options.allow_unpriced
        if options.argv != "polylect":
            return connect(options.argv, cwd=options.cwd, **host_options, **options.engine_options)
        engine = engine_spec(options.argv)
        names = SessionNames(engine)
        wishes = {**options.engine_options, **({"max_cost": options.budget} if options.budget else {})}
        if options.allow_unpriced:
            wishes["allow_unpriced"] = True
            warnings.simplefilter("ignore", LimitWarning)  # the engine says it, on our own stderr
        flags = names.translate(absolute_paths(wishes))
        words = [*command(engine, flags)[len(find(engine)) :], "--workspace", os.path.abspath(options.cwd)]
        os.chdir(options.cwd)  # an engine process would have this working directory too
        return Agent(lambda session, memory: InProcessLink(partial(own_engine, words)), names=names, **host_options)

    def _on_reader_done(self, task: "asyncio.Task[Any] | None", reader: "asyncio.Task[None]") -> None:
        """Stops the task if the output cannot be written any more."""
        if task and not reader.cancelled() and (error := reader.exception()):
            self._output_error = error
            task.cancel()

    def _answer(self, ask: Ask) -> Verdict:
        """Answers an ask by the rules. With `--yes`, everything that no rule denies is allowed."""
        verdict = self._rules(ask)
        return True if self._options.yes and not _is_denied_by_rule(verdict) else verdict

    def _lacked_approval(self, denial: Denial) -> bool:
        """Whether a call was denied because nobody could approve it, and not by a rule or by the mode plan."""
        by_us = _is_denied_by_rule(self._rules(Ask("", call=denial.call, name=denial.name, args=denial.args)))
        return not by_us and not denial.reason.startswith((BY_RULE, BY_PLAN_MODE))

    async def _ask_engine(self, agent: Agent) -> int:
        try:
            result = await agent.ask(self._options.prompt, schema=self._schema, files=self._options.file)
        except SchemaNotMet as error:
            return self._fail(str(error), SCHEMA_NOT_MET, error.result)
        except TurnFailed as error:
            return self._fail(str(error), self._exit_code(error.result), error.result)
        except TimedOut as error:
            return self._fail(str(error), LIMIT, error.result)
        except EngineDied as error:
            return self._fail(str(error), FAILED)
        except HostError as error:
            return self._fail(str(error), USAGE)
        if not result.text:  # then notices are the answer, and they are read by another task
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_EVENTS_TIMEOUT):
                    await self._turn_read.wait()
        code = NOT_APPROVED if any(map(self._lacked_approval, result.denials)) else DONE
        self._write_result(result, code)
        return code

    async def _read_events(self, events: AsyncIterator[Event]) -> None:
        async for event in events:
            self._progress.update(event)
            update(self._result, event)
            match event:
                case Notice(text, level) | Display("notify", {"message": str(text), "notifyType": level}):
                    self._receive_notice(text, is_answer=bool(event.turn) and level == "info")
                case StepStarted():
                    self._warn_of_notices()
                case TurnEnded():
                    self._turn_read.set()
                case ReplyEnded(usage=usage):
                    self._usage += usage
                case BudgetExceeded():
                    self._limit_exceeded = describe(event)
                case ToolCalled(call, name, args) | Ask(call=call, name=name, args=args):
                    self._calls[call] = describe_call(name, args)
                case ToolFinished(call, name, _, "denied", reason=reason):
                    what = self._calls.get(call) or name or "a call"
                    self._warn(f"denied: {what}: {reason}" if reason else f"denied: {what}")
                case ServerChanged(name, "failed", reason=reason):
                    self._warn(f"MCP server {name} has failed: {reason}" if reason else f"MCP server {name} has failed")
            if self._options.output == "jsonl":
                self._write(_to_json(event))

    def _receive_notice(self, text: str, *, is_answer: bool) -> None:
        if is_answer and not self._result.steps:
            self._notices.append(text)
        else:
            self._warn(text)

    def _warn_of_notices(self) -> None:
        """Write the notices that turned out not to be the answer."""
        while self._notices:
            self._warn(self._notices.pop(0))

    def _exit_code(self, result: Result) -> int:
        if result.reason == "limit" or self._limit_exceeded:
            return LIMIT
        failure = result.failure
        return TRY_LATER if failure is not None and failure.retryable else FAILED

    def _write_result(self, result: Result, code: int) -> None:
        answer = result.text or "\n".join(self._notices)
        match self._options.output:
            case "text":
                value = result.value
                text = escape_json(json.dumps(value, ensure_ascii=False)) if self._schema is not None else answer
                self._write(escape_controls(text) if self._out and self._out.isatty() else text)
            case "json":
                fields = {**_result_fields(result), "text": answer}
                self._write(_to_json({**fields, "ok": code == DONE, "exit_code": code}))

    def _fail(self, reason: str, code: int, result: Result | None = None) -> int:
        self._warn_of_notices()
        self._warn(self._limit_exceeded or reason)
        if self._options.output == "json":
            fields = _result_fields(result) if result else {}
            self._write(_to_json({"ok": False, **fields, "error": self._limit_exceeded or reason, "exit_code": code}))
        return code

    def _warn(self, text: str) -> None:
        self._progress.clear()
        print(f"polylect run: {escape_controls(text)}", file=sys.stderr)

    def _write(self, line: str) -> None:
        self._progress.clear()
        print(line, file=self._out, flush=True)


def _redirect_stdout() -> TextIO | None:
    """Returns a stream for our own output and sends everything else that is printed, as by extensions, to stderr."""
    if not isinstance(sys.stdout, io.TextIOWrapper):
        return sys.stdout
    sys.stdout.flush()
    ours = os.dup(1)
    os.dup2(2, 1)
    # Characters that the encoding does not have are written as escapes.
    return open(ours, "w", encoding=sys.stdout.encoding, errors="backslashreplace")


def _is_denied_by_rule(verdict: Verdict) -> bool:
    return isinstance(verdict, str) and not verdict.startswith(NOBODY_TO_ASK)


def _result_fields(result: Result) -> dict[str, Any]:
    names = ("session_id", "text", "reason", "usage", "cost", "steps", "denials", "failure", "value")
    return {name: getattr(result, name) for name in names}


def _to_json(value: "Event | dict[str, Any]") -> str:
    return escape_json(msgspec.json.encode(value, enc_hook=lambda other: None).decode())
