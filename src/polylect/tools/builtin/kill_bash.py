"""KillBash: ends a background command and everything that it started, and shows what it printed last."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from polylect.tools.arguments import display_argument
from polylect.tools.builtin.bash_output import MOST
from polylect.tools.process.background_jobs import BackgroundTool
from polylect.tools.process.output_spool import format_streams
from polylect.tools.setup import ToolSetup
from polylect.vocab.ports import Tool, ToolContext, ToolReturn

TEXT = "Ends a command that runs in the background, and whatever it started. Shows what it had printed last."


class Arguments(Struct, frozen=True):
    bash_id: Annotated[str, Meta(description="The id that Bash gave.")]


class KillBash(BackgroundTool[Arguments]):
    name = "KillBash"
    text = TEXT
    arguments = Arguments

    def describe(self, args: dict[str, Any]) -> str:
        return f"End {display_argument(args, 'bash_id')}"

    async def work(self, args: Arguments, context: ToolContext) -> ToolReturn:
        job = self._background.find(args.bash_id)
        if not job.end:
            await job.kill()
        return ToolReturn(f"{job.state()}\n{format_streams(job.out, job.err, MOST)}")


def open_tool(setup: ToolSetup) -> Tool:
    return KillBash(setup.background)
