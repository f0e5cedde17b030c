"""Named agents that a project or a user describes: Markdown files with a few lines of front matter.

    ---
    name: reviewer
    description: Looks for mistakes in a change.
    tools: Read, Grep, Glob
    model: some-model
    ---
    You review changes. ...

They are looked for in `.polylect/agents` and `.claude/agents` of the workspace and of the user's home.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from polylect.engine.prompt_files import markdown_in
from polylect.wire.front_matter import listed, split_front

_FOLDERS = (".claude/agents", ".polylect/agents")
_LARGEST = 64 * 1024
FAMILIES = ("haiku", "sonnet", "opus")
"""What files made for Claude's own program call a model by."""
GENERAL = "general-purpose"
"""The agent that nobody had to describe."""


class Persona(Struct, frozen=True):
    """`tools` narrows what it may use; empty means all of its parent's."""

    name: str
    description: str = ""
    prompt: str = ""
    tools: tuple[str, ...] = ()
    model: str = ""

    def allows(self, tool: str) -> bool:
        return not self.tools or tool in self.tools


def find_personas(places: Sequence[str]) -> dict[str, Persona]:
    """All that are described in these places; later ones win."""
    read = (parse(text) for _, text in markdown_in(places, _FOLDERS, _LARGEST))
    return {persona.name: persona for persona in read if persona}


def parse(text: str) -> Persona | None:
    """None if it does not say who it is."""
    fields, body = split_front(text)
    if not fields.get("name") or "\n---" not in text:
        return None
    tools = listed(fields.get("tools", ""))
    model = fields.get("model", "")
    return Persona(
        fields["name"],
        fields.get("description", ""),
        body,
        () if tools == ("*",) else tools,
        "" if model == "inherit" else model,
    )


def described_by(host: Mapping[str, Any]) -> dict[str, Persona]:
    """Those that a host describes: `{"reviewer": {"description": ..., "prompt": ..., "tools": [...], "model": ...}}`.

    Raises ValueError with what is wrong.
    """
    found: dict[str, Persona] = {}
    for name, told in host.items():
        if not isinstance(told, dict):
            raise ValueError(f"the agent {name!r} has to be an object with a description and a prompt")
        texts = {key: told.get(key) or "" for key in ("description", "prompt", "model")}
        tools = [] if told.get("tools") in (None, "*") else told["tools"]
        if wrong := [key for key, text in texts.items() if not isinstance(text, str)]:
            raise ValueError(f"the agent {name!r}: its {wrong[0]} has to be a string")
        if not isinstance(tools, list) or not all(isinstance(tool, str) for tool in tools):
            raise ValueError(f"the agent {name!r}: its tools have to be a list of names")
        model = "" if texts["model"] == "inherit" else texts["model"]
        found[name] = Persona(name, texts["description"], texts["prompt"], tuple(tools), model)
    return found
