"""The names of built-in tools, the other names that they are known by, and which names other tools cannot have.

What a tool may do follows from where it comes from (`Tool.origin`), but people and hosts read names. So the name of a
built-in tool stays free for it, also where it is not offered now and in any case of its letters, and only the engine
makes names that begin with `mcp__`: from the name under which a server is configured.

Models know tools by the names of the program that they were trained with, and people write rules with these names. Each
such name stands for one built-in tool: `engine/turn/calls.py` gives a call the tool's own name before anything else
sees it, and rules, settings and hook matchers mean the tool, whichever of its names they use.
"""

from collections.abc import Mapping, Sequence
from typing import Any

EXIT_PLAN = "ExitPlanMode"
"""Presents a plan; the gate treats it on its own: it always asks, and leaving plan mode is its purpose."""

STRUCTURED_OUTPUT = "StructuredOutput"
"""Gives the answer of a turn in the form that was asked for."""

BUILTIN = frozenset(
    (
        *("Read", "Write", "Edit", "MultiEdit", "NotebookEdit", "Glob", "Grep", "Bash", "BashOutput", "KillBash"),
        *("WebFetch", "WebSearch", "TodoWrite", "AskUserQuestion", "ToolSearch", "Skill"),
        *("Spawn", "Agent", "Script", "ExitPlanMode", "StructuredOutput"),
    )
)
OTHER_NAMES = {
    "Task": "Agent",
    "KillShell": "KillBash",
    "TaskStop": "KillBash",
    "TaskOutput": "BashOutput",
    "NotebookRead": "Read",
    "ExecCommand": "Bash",
    "ViewImage": "Read",
    "find": "Glob",
}
"""Names of Claude Code (older and newer ones), aionrs, omp and pi, and what we call these tools."""
_COMMANDS = {"ExecCommand": "cmd"}
"""What other engines call the argument of a tool that is the shell command; all others call it `command`."""
_OWN_NAMES = {name.casefold(): own for name, own in ({name: name for name in BUILTIN} | OTHER_NAMES).items()}
_AGENTS = ("Agent", "Spawn")
"""Two forms of one tool; an engine has one of them."""
_MOST_NAMED = 10
_LONGEST_NAME = 40
"""Ignored parameters that a result names, and characters of each."""


def is_reserved(name: str) -> bool:
    """Whether only a built-in tool, or the engine for a server's tool, may have this `name`."""
    folded = _folded(name)
    return folded in _OWN_NAMES or folded.startswith("mcp__")


def own_name(name: str) -> str:
    """The name of the built-in tool that `name` stands for; `name` itself if it stands for none."""
    return _OWN_NAMES.get(_folded(name), name)


def _folded(name: str) -> str:
    """The name as a key of `_OWN_NAMES`. A model may send megabytes: what is longer than every key needs no more."""
    return name[:64].casefold()


def same_tool(one: str, other: str) -> bool:
    """Whether the names `one` and `other` stand for the same built-in tool, or are equal."""
    own, other_own = own_name(one), own_name(other)
    return own == other_own or (own in _AGENTS and other_own in _AGENTS)


def names_of(name: str) -> list[str]:
    """Every name of the tool called `name`, that one first: what a hook's matcher may use."""
    known = (*_AGENTS, *OTHER_NAMES)
    return [name, *(other for other in known if other != name and same_tool(other, name))]


def command_of(name: str, args: Mapping[str, Any]) -> str | None:
    """The shell command that the tool called `name` of any engine would run with `args`; None if it runs none."""
    command = args.get(_COMMANDS.get(name, "command"))
    return command if isinstance(command, str) else None


def remark(tool: str, ignored: Sequence[str]) -> str:
    """What the result of a call of `tool` ends with if parameters of it were `ignored`."""
    names = ", ".join(name[:_LONGEST_NAME] for name in ignored[:_MOST_NAMED])
    more = f" and {len(ignored) - _MOST_NAMED} more" if len(ignored) > _MOST_NAMED else ""
    return f"\n\n({tool} has no parameter {names}{more}: ignored.)"
