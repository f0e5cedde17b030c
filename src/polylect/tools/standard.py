"""The tools that every engine has."""

from collections.abc import Mapping

from polylect.tools.builtin.ask_user_question import AskUserQuestion
from polylect.tools.builtin.bash import Bash
from polylect.tools.builtin.bash_output import BashOutput
from polylect.tools.builtin.edit import Edit
from polylect.tools.builtin.glob import Glob
from polylect.tools.builtin.grep import Grep
from polylect.tools.builtin.kill_bash import KillBash
from polylect.tools.builtin.multi_edit import MultiEdit
from polylect.tools.builtin.read import Read
from polylect.tools.builtin.skill import Skill
from polylect.tools.builtin.todo_write import TodoWrite
from polylect.tools.builtin.tool_search import ToolSearch
from polylect.tools.builtin.web_fetch import WebFetch
from polylect.tools.builtin.write import Write
from polylect.tools.files.skills import skill_folders
from polylect.tools.process.background_jobs import Background
from polylect.tools.sandbox.sandbox import Sandbox
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
