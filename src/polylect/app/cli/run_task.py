"""A task for an engine, from its prompt to the exit code: what `polylect run` does once it is under way."""

import asyncio
import io
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from typing import Any, TextIO

import msgspec

from polylect.app.cli.answer_policy import BY_RULE, NOBODY, by_rules
from polylect.app.cli.progress import Progress, in_short
from polylect.app.cli.run_flags import Wanted
from polylect.app.serving.in_process import Inside
from polylect.app.serving.own_engine import own_engine
from polylect.host.agent import Agent
from polylect.host.asking import Ask, Verdict
from polylect.host.connecting import connect
from polylect.host.engine_registry import command, find, from_here, known
from polylect.host.errors import EngineDied, HostError, SchemaNotMet, TimedOut, TurnFailed
from polylect.host.turn import Denial, Limits, Result
from polylect.vocab.content import Usage
from polylect.vocab.escape import escape_controls, escape_json
from polylect.vocab.events import BudgetExceeded, Event, ReplyEnded, ServerChanged, ToolCalled, ToolFinished

DONE, FAILED, USAGE, UNASKED, LIMIT, UNFIT, LATER, CONFIGURATION = 0, 1, 2, 3, 4, 5, 75, 78
_LAST_WORDS = 2.0
"""Seconds in which what a stopped engine still says is waited for."""


def run(wanted: Wanted, prompt: str, schema: dict[str, Any] | None, wishes: dict[str, Any]) -> int:
    wanted.file = [os.path.abspath(path) for path in wanted.file]
    task = _Run(wanted, prompt, schema, wishes, _take_stdout())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, task.signalled)  # add_signal_handler of the loop would load inspect: 6 ms
    return asyncio.run(task.run())


class _Run:
    def __init__(
        self,
        wanted: Wanted,
        prompt: str,
        schema: dict[str, Any] | None,
        wishes: dict[str, Any],
        out: TextIO | None,
    ) -> None:
        self._out = out
        self._wanted = wanted
        self._text = prompt
        self._schema = schema
        self._wishes = wishes
        self._rules = by_rules(wanted.allow, wanted.deny, wanted.cwd)
        self._progress = Progress()
        self._unheard: BaseException | None = None
        self._over = ""
        self._calls: dict[str, str] = {}
        self._listening: asyncio.Task[None] | None = None
        self._result = Result()
        """As far as it has been heard."""
        self._spent = Usage()
        self._signal = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def signalled(self, number: int, frame: object) -> None:
        if self._loop is None:
            raise SystemExit(128 + number)
        self._loop.call_soon_threadsafe(self._stop, number)

    async def run(self) -> int:
        task = self._task = asyncio.ensure_future(self._converse())
        beating = asyncio.ensure_future(self._progress.beat())
        self._loop = asyncio.get_running_loop()
        try:
            return await task
        except asyncio.CancelledError:
            if self._unheard:
                raise self._unheard from None
            return self._fail(f"stopped by {signal.Signals(self._signal).name}", 128 + self._signal, self._so_far())
        finally:
            beating.cancel()
            with suppress(asyncio.CancelledError):
                await beating
            self._progress.clear()

    def _stop(self, number: int) -> None:
        """Once: a second signal would only keep the engine from being ended."""
        if not self._signal:
            self._signal = number
            self._task.cancel()

    async def _converse(self) -> int:
        wanted = self._wanted
        limits = Limits(wanted.timeout, wanted.idle, wanted.budget)
        try:
            async with self._connected(approve=self._judge, limits=limits) as agent:
                listening = self._listening = asyncio.ensure_future(self._listen(agent.events()))
                listening.add_done_callback(partial(self._listened, asyncio.current_task()))
                code = await self._talk(agent)
        except EngineDied as error:
            return self._fail(str(error), CONFIGURATION)
        except asyncio.CancelledError:
            if self._listening and not self._unheard:
                await asyncio.wait([self._listening], timeout=_LAST_WORDS)  # how the turn ended, and what it cost
            raise
        await listening
        return code

    def _so_far(self) -> Result:
        """What is known of a turn that was not waited for."""
        if self._result.reason != "cancelled":
            self._result.reason, self._result.usage = "cancelled", self._spent
        return self._result

    def _connected(self, **how: Any) -> Agent:
        """Our own engine needs no process of its own for one task: one start of Python instead of two."""
        wanted, wishes = self._wanted, self._wishes
        if wanted.argv != "polylect":
            return connect(wanted.argv, cwd=wanted.cwd, **how, **wishes)
        engine = known(wanted.argv)
        told = from_here({**wishes, **({"max_cost": wanted.budget} if wanted.budget else {})})
        words = [*command(engine, told)[len(find(engine)) :], "--workspace", os.path.abspath(wanted.cwd)]
        os.chdir(wanted.cwd)  # where an engine of its own would be
        return connect(lambda: Inside(partial(own_engine, words)), **how)

    def _listened(self, talking: "asyncio.Task[Any] | None", listening: "asyncio.Task[None]") -> None:
        """What cannot be written is not waited for."""
        if talking and not listening.cancelled() and (error := listening.exception()):
            self._unheard = error
            talking.cancel()

    def _judge(self, ask: Ask) -> Verdict:
        """As the rules say; with `--yes`, what they do not forbid is allowed."""
        verdict = self._rules(ask)
        return True if self._wanted.yes and not _forbids(verdict) else verdict

    def _unasked(self, denial: Denial) -> bool:
        """Somebody could have allowed it. Not every wire tells what a rule of the engine's own has kept it from."""
        by_us = _forbids(self._rules(Ask("", call=denial.call, name=denial.name, args=denial.args)))
        return not by_us and not denial.reason.startswith(BY_RULE)

    async def _talk(self, agent: Agent) -> int:
        try:
            result = await agent.ask(self._text, schema=self._schema, files=self._wanted.file)
        except SchemaNotMet as error:
            return self._fail(str(error), UNFIT, error.result)
        except TurnFailed as error:
            return self._fail(str(error), self._code(error.result), error.result)
        except TimedOut as error:
            return self._fail(str(error), LIMIT, error.result)
        except EngineDied as error:
            return self._fail(str(error), FAILED)
        except HostError as error:
            return self._fail(str(error), USAGE)
        code = UNASKED if any(map(self._unasked, result.denials)) else DONE
        self._say(result, code)
        return code

    async def _listen(self, events: AsyncIterator[Event]) -> None:
        async for event in events:
            self._progress.hear(event)
            self._result.take(event)
            match event:
                case ReplyEnded(usage=usage):
                    self._spent += usage
                case BudgetExceeded(reason, observed, limit):
                    self._over = f"the {reason} of {observed} is above the limit of {limit}"
                case ToolCalled(call, name, args) | Ask(call=call, name=name, args=args):
                    self._calls[call] = in_short(name, args)
                case ToolFinished(call, name, _, "denied", reason=reason):
                    what = self._calls.get(call) or name or "a call"
                    self._remark(f"denied: {what}: {reason}" if reason else f"denied: {what}")
                case ServerChanged(name, "failed", reason=reason):
                    self._remark(
                        f"MCP server {name} has failed: {reason}" if reason else f"MCP server {name} has failed"
                    )
            if self._wanted.output == "jsonl":
                self._write(_as_json(event))

    def _code(self, result: Result) -> int:
        if result.reason == "limit" or self._over:
            return LIMIT
        failure = result.failure
        return LATER if failure is not None and failure.retryable else FAILED

    def _say(self, result: Result, code: int) -> None:
        match self._wanted.output:
            case "text":
                value = result.value
                told = escape_json(json.dumps(value, ensure_ascii=False)) if self._schema is not None else result.text
                self._write(escape_controls(told) if self._out and self._out.isatty() else told)
            case "json":
                self._write(_as_json({**_told(result), "ok": code == DONE, "exit_code": code}))

    def _fail(self, why: str, code: int, result: Result | None = None) -> int:
        self._remark(self._over or why)
        if self._wanted.output == "json":
            told = _told(result) if result else {}
            self._write(_as_json({"ok": False, **told, "error": self._over or why, "exit_code": code}))
        return code

    def _remark(self, text: str) -> None:
        self._progress.clear()
        print(f"polylect run: {escape_controls(text)}", file=sys.stderr)

    def _write(self, line: str) -> None:
        self._progress.clear()
        print(line, file=self._out, flush=True)


def _take_stdout() -> TextIO | None:
    """For ourselves: what extensions print must not get between our lines, so from here on it goes to stderr."""
    if not isinstance(sys.stdout, io.TextIOWrapper):
        return sys.stdout
    sys.stdout.flush()
    ours = os.dup(1)
    os.dup2(2, 1)
    # Better than nothing where there is no such letter.
    return open(ours, "w", encoding=sys.stdout.encoding, errors="backslashreplace")


def _forbids(verdict: Verdict) -> bool:
    return isinstance(verdict, str) and not verdict.startswith(NOBODY)


def _told(result: Result) -> dict[str, Any]:
    names = ("text", "reason", "usage", "cost", "steps", "denials", "failure", "value")
    return {name: getattr(result, name) for name in names}


def _as_json(value: "Event | dict[str, Any]") -> str:
    return escape_json(msgspec.json.encode(value, enc_hook=lambda other: None).decode())
