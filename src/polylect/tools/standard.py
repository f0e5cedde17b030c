"""The tools that every engine has."""

from polylect.tools.bash import Bash
from polylect.tools.edit import Edit
from polylect.tools.glob import Glob
from polylect.tools.grep import Grep
from polylect.tools.read import Read
from polylect.tools.write import Write
from polylect.vocab.ports import Tool


def standard_tools() -> dict[str, Tool]:
    tools: tuple[Tool, ...] = (Read(), Write(), Edit(), Bash(), Glob(), Grep())
    return {tool.name: tool for tool in tools}
