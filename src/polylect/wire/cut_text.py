"""Shortens a text that is too long for the model: its beginning and its end stay.

Results of tools, of MCP servers and of whole calls are cut by it, so the model sees one form of it everywhere.
"""


def cut_middle(text: str, most: int, where: str = "") -> str:
    """At most about `most` characters: the head, a line that says how many are missing, the tail."""
    if len(text) <= most:
        return text
    half = most // 2
    place = f"; all of it is in {where}" if where else ""
    return f"{text[:half]}\n\n... [truncated {len(text) - 2 * half} chars{place}] ...\n\n{text[-half:]}"
