"""The categories of tools on wires that do not say them, by the names that tools have there.

`dialects/claude` and `dialects/omp` use this on the host's side, so that a policy judges an edit alike on every engine.
"""

from polylect.vocab.content import Category

_CATEGORIES: dict[str, Category] = {
    **dict.fromkeys(("edit", "multiedit", "write", "notebookedit", "ast_edit", "apply_patch"), "edit"),
    **dict.fromkeys(
        ("read", "glob", "grep", "ls", "find", "todowrite", "todo_write", "websearch", "web_search"), "info"
    ),
    **dict.fromkeys(("askuserquestion", "ask"), "info"),
}


def category(tool: str) -> Category:
    """The category of a tool. Unknown tools count as `exec`, the most dangerous one."""
    return "mcp" if tool.startswith("mcp__") else _CATEGORIES.get(tool.lower(), "exec")
