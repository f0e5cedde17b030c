"""Names that tools of servers, extensions and hosts cannot have.

What a tool may do follows from where it comes from (`Tool.origin`), but people and hosts read names. So the name of a
built-in tool stays free for it, also where it is not offered now and in any case of its letters, and only the engine
makes names that begin with `mcp__`: from the name under which a server is configured.
"""

EXIT_PLAN = "ExitPlanMode"
"""Presents a plan; the gate treats it on its own: it always asks, and leaving plan mode is its purpose."""

BUILTIN = frozenset(
    (
        *("Read", "Write", "Edit", "MultiEdit", "Glob", "Grep", "Bash", "BashOutput", "KillBash", "WebFetch"),
        *("TodoWrite", "AskUserQuestion", "ToolSearch", "Skill", "Spawn", "Agent", "Script", "ExitPlanMode"),
        "StructuredOutput",
    )
)
_ON_WIRES = ("task", "find")
"""What hosts of other engines call Agent and Glob."""
_RESERVED = frozenset((*map(str.casefold, BUILTIN), *_ON_WIRES))


def is_reserved(name: str) -> bool:
    """Whether only a built-in tool, or the engine for a server's tool, may have this `name`."""
    folded = name.casefold()
    return folded in _RESERVED or folded.startswith("mcp__")
