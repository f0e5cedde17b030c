"""The tools that every engine has."""

from collections.abc import Mapping

from polylect.tools.ask_user_question import AskUserQuestion
from polylect.tools.background import Background
from polylect.tools.bash import Bash
from polylect.tools.bash_output import BashOutput
from polylect.tools.edit import Edit
from polylect.tools.glob import Glob
from polylect.tools.grep import Grep
from polylect.tools.kill_bash import KillBash
from polylect.tools.multi_edit import MultiEdit
from polylect.tools.read import Read
from polylect.tools.sandbox import Sandbox
from polylect.tools.skill import Skill
from polylect.tools.skills import skill_folders
from polylect.tools.todo_write import TodoWrite
from polylect.tools.tool_search import ToolSearch
from polylect.tools.web_fetch import WebFetch
from polylect.tools.write import Write
from polylect.vocab.ports import Tool


def standard_tools(
    workspace: str = "",
    env: Mapping[str, str] | None = None,
    *,
    private_addresses: bool = False,
    sandbox: Sandbox | None = None,
    trusted: bool = False,
) -> dict[str, Tool]:
    """The tools of one session. Without a workspace, there are no skills. Tools may be added to what is returned.

    `trusted` says that the project's skills may take the place of the user's own.
    """
    jobs = Background()
    tools: dict[str, Tool] = {}
    own: list[Tool] = [
        Read(),
        Write(),
        Edit(),
        MultiEdit(),
        Bash(jobs, sandbox),
        BashOutput(jobs),
        KillBash(jobs),
        Glob(),
        Grep(),
        WebFetch(private=private_addresses),
        TodoWrite(),
        AskUserQuestion(),
        ToolSearch(tools),
    ]
    if workspace and (folders := skill_folders(workspace, env or {})):
        own.append(Skill(folders, trusted=trusted))
    tools.update((tool.name, tool) for tool in own)
    return tools
