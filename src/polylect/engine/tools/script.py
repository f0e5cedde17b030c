"""The tool `Script`: several tool calls in one, with steps that wait for an approval.

A script has no rights of its own. Each step is judged, asked about, passed to hooks and counted like a call of the
model. While a step waits for an approval, the state of the script is stored in the session, so that
`commands/resume_approval.py` can go on after a restart without running finished steps again.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, to_builtins
from msgspec.structs import replace

from polylect.engine.agent import Agent
from polylect.engine.turn.calls import Context
from polylect.sessions.session import Session
from polylect.sessions.suspension import SUSPENDED, EarlyAnswer, Suspension, digest, question_in
from polylect.system.clock_and_ids import now_ms
from polylect.vocab.argument_schema import schema_of
from polylect.vocab.content import Category, Image, Origin, ToolCall, ToolResult
from polylect.vocab.errors import SessionError, ToolError
from polylect.vocab.events import Ask, AskClosed, Event, ToolFinished, ToolStarted
from polylect.vocab.ports import ToolContext, ToolReturn, ToolSpec

MOST_STEPS = 50
_NOT_INSIDE = ("Script", "Spawn", "Agent")
"""A script that begins scripts or agents would have no end that a person could see."""
_TEXT = """\
Runs several tools one after another, without a word from you in between. Use it for a known sequence whose steps do \
not depend on what you read in their output. It stops at the first step that fails or is denied. A step with \
approval_required waits until the person agrees. You get a line for each step: [id] Tool: output.\
"""


class Step(Struct, frozen=True, forbid_unknown_fields=True):
    """One step as the model writes it."""

    id: Annotated[str, Meta(description="What this step is called in the output.")]
    tool: Annotated[str, Meta(description="The name of one of your tools.")]
    input: Annotated[dict[str, Any], Meta(description="Its arguments.")]
    approval_required: Annotated[
        bool, Meta(description="Wait until the person agrees, even where the tool could run at once.")
    ] = False


class Steps(Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of the tool."""

    steps: Annotated[tuple[Step, ...], Meta(extra_json_schema={"minItems": 1, "maxItems": MOST_STEPS})]
    max_output_lines: Annotated[int, Meta(description="How much of it you want to see; 200 if not given.")] = 200


class Script:
    """The tool. Its steps are calls of the agent that calls it.

    `waiting` is the stored state of a script to go on with, and `early_answer` the answer to its question.
    """

    name = "Script"
    category: Category = "exec"
    origin: Origin = "builtin"
    composite = True

    def __init__(self, waiting: Suspension | None = None, early_answer: EarlyAnswer | None = None) -> None:
        self.spec = ToolSpec(self.name, _TEXT, schema_of(Steps))
        self._waiting = waiting
        self._early_answer = early_answer

    def describe(self, args: dict[str, Any]) -> str:
        steps = args.get("steps")
        tools = [str(step.get("tool")) for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []
        return f"Script: {', '.join(tools) or 'nothing'}"[:120]

    def touches(self, args: dict[str, Any], workspace: str) -> tuple[str, ...]:
        return ()

    async def run(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        assert isinstance(context, Context), "a script runs only inside the engine"
        try:
            request = msgspec.convert(args, Steps)
        except msgspec.ValidationError as error:
            return ToolReturn(f"These are not steps: {error}.", ok=False)
        if self._waiting is None and (problem := _problem(request.steps, context.agent)):
            return ToolReturn(f"{problem} Nothing was done.", ok=False)
        done = self._waiting.done if self._waiting else ()
        return await _Run(args, request, context, done, self._early_answer).run()


class _Run:
    """One run of a script."""

    def __init__(
        self,
        args: dict[str, Any],
        request: Steps,
        context: Context,
        done: Sequence[ToolResult],
        early_answer: EarlyAnswer | None,
    ) -> None:
        self._args = args
        self._request = request
        self._context = context
        self._results: list[tuple[Step, ToolResult]] = list(zip(request.steps, done, strict=False))
        self._early_answer = early_answer
        self._running = False
        """Whether the step at hand has begun."""

    async def run(self) -> ToolReturn:
        try:
            await self._go()
        except asyncio.CancelledError:
            left = ", ".join(step.id for step in self._request.steps[len(self._results) :])
            self._context.cut_short("\n".join([*self._lines(), f"Cut off or not run: {left}."]))
            raise
        return self._result()

    async def _go(self) -> None:
        calls = self._context.steps(self._observe)
        calls.early_answer = self._early_answer
        for step in self._request.steps[len(self._results) :]:
            gate = f"Script step {step.id!r} is approval-gated" if step.approval_required else ""
            # What is allowed by now may be denied here.
            reason = calls.early_answer.suspension.reason if calls.early_answer else gate
            call = ToolCall(f"{self._context.call}:{step.id}", step.tool, step.input)
            result = await calls.run_now(call, approval_reason=reason)
            calls.early_answer = None
            self._results.append((step, result))
            if result.outcome != "ok":
                break

    def _result(self) -> ToolReturn:
        last, result = self._results[-1]
        lines = self._lines()
        if result.outcome != "ok":
            how = "was denied" if result.outcome == "denied" else "failed"
            lines.append(f"Stopped: step {last.id!r} {how}. {self._left_over(len(self._results))}")
        images: tuple[Image, ...] = sum((result.images for _, result in self._results), ())
        rows = [{"id": step.id, "tool": step.tool, "outcome": result.outcome} for step, result in self._results]
        return ToolReturn(self._shown(lines), result.outcome == "ok", metadata={"steps": rows}, images=images)

    def _lines(self) -> list[str]:
        return [line for step, result in self._results for line in _line(step, result.output).split("\n")]

    def _shown(self, lines: list[str]) -> str:
        """The lines, without the middle if there are more than the model wants; then all of them are in a file."""
        most = max(2, self._request.max_output_lines)
        if len(lines) <= most:
            return "\n".join(lines)
        path = self._context.spill("\n".join(lines))
        head, tail = lines[: most // 2], lines[-(most - most // 2) :]
        return "\n".join([*head, f"[... {len(lines) - most} lines left out; all of them are in {path} ...]", *tail])

    # A script that waits may wait long: what it has done is kept, so that a restart does not do it again.

    def _observe(self, event: Event) -> None:
        match event:
            case ToolStarted() | ToolFinished():
                self._running = isinstance(event, ToolStarted)
            case Ask() if not self._running:
                with suppress(SessionError):  # then an answer that comes after a restart finds nothing
                    self._store_suspension(self._suspension(event))
            case AskClosed(how="allowed") if not self._running:
                try:
                    self._store_suspension(None)
                except SessionError as error:  # what could run a second time does not run at all
                    raise ToolError(f"The step was not run, because its answer cannot be kept: {error}") from error
            case AskClosed() if not self._running:
                with suppress(SessionError):
                    self._store_suspension(None)

    def _store_suspension(self, suspension: Suspension | None) -> None:
        session: Session = self._context.agent.session
        others = {call: one for call, one in session.settings.get(SUSPENDED, {}).items() if call != self._context.call}
        session.configure(
            {SUSPENDED: {**others, self._context.call: to_builtins(suspension)} if suspension else others}
        )

    def _suspension(self, ask: Ask) -> Suspension:
        return Suspension(
            model_text=self._so_far(),
            turn=self._context.turn,
            token=digest(ask.ask),
            question=question_in(ask),
            reason=ask.reason,
            until=now_ms() + ask.timeout_ms,
            args=self._args,
            done=tuple(_without_images(result) for _, result in self._results),
        )

    def _so_far(self) -> str:
        """What the model is told if the engine ends while this step waits and no answer comes."""
        done = len(self._results)
        status = "waited for a person's answer when the engine ended, and was not run."
        waiting = _line(self._request.steps[done], status)
        return "\n".join([*self._lines(), waiting, self._left_over(done + 1)])

    def _left_over(self, done: int) -> str:
        left = [step.id for step in self._request.steps[done:]]
        return f"Not run: {', '.join(left)}." if left else "It was the last one."


def _line(step: Step, output: str) -> str:
    return f"[{step.id}] {step.tool}: {output}"


def _without_images(result: ToolResult) -> ToolResult:
    if not result.images:
        return result
    return replace(result, output=f"{result.output}\n[Pictures were lost when the engine ended.]", images=())


def _problem(steps: Sequence[Step], agent: Agent) -> str:
    if not 0 < len(steps) <= MOST_STEPS:
        return f"Give 1 to {MOST_STEPS} steps, not {len(steps)}."
    ids = [step.id for step in steps]
    for step in steps:
        if not step.id or ids.count(step.id) > 1:
            return f"Every step needs an id of its own, and {step.id!r} is none."
        if agent.tool_name(step.tool) in _NOT_INSIDE:
            return f"{step.tool} cannot be a step of a script."
        if agent.tool_name(step.tool) not in agent.tools:
            return f"Step {step.id!r}: unknown tool {step.tool!r}."
    return ""
