"""The tools that every engine has: whatever modules are in `tools/builtin/`.

Each of them has a function `open_tool(setup)`, which returns a `Tool`, or None where there is nothing for it to do.
Hosts and models see the tools in the order of `_ORDER`; one that is not named there comes after those, by the name of
its module.
"""

from collections.abc import Mapping

from polylect import plug
from polylect.tools.process.background_jobs import Background
from polylect.tools.sandbox.sandbox import Sandbox
from polylect.tools.setup import CommandLimits, ToolSetup
from polylect.vocab.ports import Tool

_ORDER = (
    *("read", "write", "edit", "multi_edit", "notebook_edit", "bash", "bash_output", "kill_bash", "glob", "grep"),
    *("web_fetch", "web_search", "todo_write", "ask_user_question", "tool_search", "skill"),
)


def standard_tools(
    workspace: str = "",
    env: Mapping[str, str] | None = None,
    *,
    private_addresses: bool = False,
    sandbox: Sandbox | None = None,
    search_url: str = "",
    command_limits: CommandLimits | None = None,
    trusted: bool = False,
) -> dict[str, Tool]:
    """The tools of one session. Without a workspace, there are no skills. Tools may be added to what is returned.

    `search_url` is the address of the user's search server, `command_limits` are those of Bash. `trusted` says that the
    project's skills may take the place of the user's own.
    """
    tools: dict[str, Tool] = {}
    setup = ToolSetup(
        tools=tools,
        background=Background(),
        workspace=workspace,
        env=env or {},
        sandbox=sandbox,
        private_addresses=private_addresses,
        search_url=search_url,
        command_limits=command_limits or CommandLimits(),
        trusted=trusted,
    )
    for name in plug.names("tools.builtin", _ORDER):
        tool: Tool | None = plug.load("tools.builtin", name).open_tool(setup)
        if tool:
            tools[tool.name] = tool
    return tools
