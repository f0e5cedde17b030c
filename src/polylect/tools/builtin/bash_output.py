"""BashOutput: shows the state of a background command and what it has printed since the last time.

Every look moves a mark forward, so no output is shown twice. A filter is a regular expression of the model, which may
take forever: it runs in the worker, with a time limit.
"""

import os
from typing import Annotated, Any

from msgspec import Meta, Struct

from polylect.tools.arguments import display_argument
from polylect.tools.process.background_jobs import BackgroundTool, UnreadOutput
from polylect.tools.process.output_spool import Stream, format_streams
from polylect.tools.setup import ToolSetup
from polylect.tools.text.truncate import Capture
from polylect.tools.worker.timeout_error import WorkerTimeout
from polylect.vocab.errors import ToolError
from polylect.vocab.ports import Tool, ToolContext, ToolReturn

TEXT = """\
Shows whether a background command still runs and what it has printed since you last asked.
With filter, only the new lines that match a regular expression are shown. Without bash_id, all commands are listed."""

MOST = 50_000
MOST_WAIT = 600_000
FILTER_TIMEOUT = 5.0


class Arguments(Struct, frozen=True):
    bash_id: Annotated[str, Meta(description="The id that Bash gave.")] = ""
    filter: Annotated[str, Meta(description="Show only new lines that match this.")] = ""
    wait: Annotated[int, Meta(ge=0, description="If nothing is new, wait so many milliseconds for something.")] = 0


class BashOutput(BackgroundTool[Arguments]):
    name = "BashOutput"
    text = TEXT
    arguments = Arguments

    def describe(self, args: dict[str, Any]) -> str:
        return f"Output of {display_argument(args, 'bash_id') or 'all background commands'}"

    async def work(self, args: Arguments, context: ToolContext) -> ToolReturn:
        if not args.bash_id:
            states = [job.state() for job in self._background.jobs]
            return ToolReturn("\n".join(states) or "No command was started in the background.")
        job = self._background.find(args.bash_id)
        await job.wait_for_output(min(args.wait, MOST_WAIT) / 1000)
        state = job.state()  # read before the output: a command that has ended by now has printed everything
        out: Stream = await _matching(job.out, args.filter, context) if args.filter else job.out
        err: Stream = await _matching(job.err, args.filter, context) if args.filter else job.err
        text = format_streams(out, err, MOST)
        return ToolReturn(f"{state}\n{text}", metadata={"bash_id": job.id, "running": not job.end})


async def _matching(unread: UnreadOutput, pattern: str, context: ToolContext) -> Capture:
    """The new lines that match. The worker searches, so that a slow pattern does not block the engine."""
    start, stop = unread.mark_read()
    if start == stop:
        return Capture(MOST)
    file = os.open(unread.spool.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        request = {"pattern": pattern, "start": start, "stop": stop, "most": MOST}
        value, data = await context.worker.request("filter_lines", request, file=file, timeout=FILTER_TIMEOUT)
    except ToolError as error:
        why = "took too long" if isinstance(error, WorkerTimeout) else error
        raise ToolError(f"filter failed: {why}. The output is in {unread.spool.path}") from None
    finally:
        os.close(file)
    return Capture.of_ends(MOST, data[: value["head"]], data[value["head"] :], value["total"])


def open_tool(setup: ToolSetup) -> Tool:
    return BashOutput(setup.background)
