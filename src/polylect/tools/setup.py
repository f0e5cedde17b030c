"""What a tool is opened with. `tools/standard.py` calls `open_tool(setup)` of every module in `tools/builtin/`."""

from collections.abc import Mapping

from msgspec import Struct

from polylect.tools.process.background_jobs import Background
from polylect.tools.sandbox.sandbox import Sandbox
from polylect.vocab.ports import Tool


class CommandLimits(Struct, frozen=True):
    """How long commands may run, in milliseconds, and how many bytes of their output the model is shown."""

    timeout: int = 120_000
    """If the model names no other."""
    most_timeout: int = 600_000
    output: int = 50_000


class ToolSetup(Struct, frozen=True, kw_only=True):
    """The circumstances of one session."""

    tools: Mapping[str, Tool]
    """All tools of the session by name; complete once the session begins."""
    background: Background
    """The commands that run in the background, shared by the tools that start, show and end them."""
    workspace: str = ""
    env: Mapping[str, str] = {}
    sandbox: Sandbox | None = None
    command_limits: CommandLimits = CommandLimits()
    private_addresses: bool = False
    """Pages may be fetched from addresses of this machine and its network."""
    search_url: str = ""
    """The address of the user's search server, with `{query}` in it."""
    trusted: bool = False
    """The project's skills may replace the user's own."""
