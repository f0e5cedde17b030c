"""Where a user's own files for agents are: instructions, skills, agents, commands and settings.

`$CLAUDE_CONFIG_DIR` names another folder in the place of `~/.claude`, as it does for claude. It has to be absolute: a
relative path would lead into the workspace, whose files are not the user's.
"""

import os

TYPE_CHECKING = False  # typing itself would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Mapping

_CLAUDE = ".claude/"


def user_path(home: str, path: str, env: "Mapping[str, str]" = os.environ) -> str:
    """The path of a file or folder in the home, such as `.claude/skills`. `env` may have CLAUDE_CONFIG_DIR."""
    folder = env.get("CLAUDE_CONFIG_DIR", "")
    if path.startswith(_CLAUDE) and os.path.isabs(folder):
        return os.path.join(folder, path.removeprefix(_CLAUDE))
    return os.path.join(home, path)
