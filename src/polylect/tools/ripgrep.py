"""Runs ripgrep, or what takes its place, over a folder of the workspace."""

from collections.abc import Callable, Sequence
from typing import Literal

from polylect.tools.limits import Capture
from polylect.tools.paths import PROC, is_inside
from polylect.tools.programs import find_program, own_program
from polylect.vocab.errors import ToolError
from polylect.vocab.ports import ToolContext

TIMEOUT = 30.0
_ALWAYS = ("--no-config", "--no-messages", "--hidden", "--no-require-git", "--color=never", "--glob=!.git")


async def search(options: Sequence[str], root: str, context: ToolContext, on_data: Callable[[bytes], None]) -> str:
    """Hand over what it prints as it comes. Gives its complaint, if it could not work at all."""
    program = find_program("rg", context.env)
    argv = [program] if program else own_program("search")
    cwd = context.workspace
    if is_inside(PROC, (root,)):  # what `admit` does not let in by name does not come in from above
        cwd, options = "/", (*options, f"--glob=!{PROC}")
    complaint = Capture(4000)

    def take(stream: Literal["out", "err"], data: bytes) -> None:
        if stream == "out":
            on_data(data)
        else:
            complaint.add(data)

    end = await context.processes.run(
        (*argv, *_ALWAYS, *options, "--", root), cwd=cwd, env=context.env, timeout=TIMEOUT, on_output=take
    )
    if end.timed_out:
        raise ToolError(f"The search took longer than {TIMEOUT:.0f} s. Search a smaller folder or a simpler pattern.")
    return complaint.text().strip() if end.code not in (0, 1) else ""
