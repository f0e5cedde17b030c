"""Personas: agents that a user, a project or a host describes.

    ---
    name: reviewer
    description: Looks for mistakes in a change.
    tools: Read, Grep, Glob
    model: some-model
    ---
    You review changes. ...

Files are searched in `.polylect/agents` and `.claude/agents` of the user's home and of the workspace. A persona of a
workspace that is not trusted cannot choose a model and does not replace one of the user's.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from polylect.engine.commands.prompt_files import Fault, markdown_in, no_fault, strongest
from polylect.vocab.tool_names import same_tool
from polylect.wire.front_matter import listed, split_front

_FOLDERS = (".claude/agents", ".polylect/agents")
_LARGEST = 64 * 1024
FAMILIES = ("haiku", "sonnet", "opus")
"""What files made for Claude's own program call a model by."""
GENERAL = "general-purpose"
"""The agent that nobody had to describe."""


class Persona(Struct, frozen=True):
    """A description of an agent. `tools` restricts its tools; empty means all tools of its parent."""

    name: str
    description: str = ""
    prompt: str = ""
    tools: tuple[str, ...] = ()
    model: str = ""

    def allows(self, *names: str) -> bool:
        """Whether it may use a tool with one of these names. A tool of an MCP server has two."""
        return not self.tools or any(same_tool(name, tool) for name in names for tool in self.tools)


def find_personas(places: Sequence[str], *, trusted: bool = False, fault: Fault = no_fault) -> dict[str, Persona]:
    """The personas in these places by name, the project's place last."""
    read = ((parse(file.text), file.own) for file in markdown_in(places, _FOLDERS, _LARGEST, fault))
    personas = (
        (persona.name, persona if own or trusted else replace(persona, model=""), own)
        for persona, own in read
        if persona
    )
    return strongest(personas, trusted=trusted)


def parse(text: str) -> Persona | None:
    """A persona from the text of a file; None if it has no name."""
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
    """Personas that a host describes.

        {"reviewer": {"description": ..., "prompt": ..., "tools": [...], "model": ...}}

    Raises ValueError with what is wrong.
    """
    personas: dict[str, Persona] = {}
    for name, description in host.items():
        if not isinstance(description, dict):
            raise ValueError(f"the agent {name!r} has to be an object with a description and a prompt")
        texts = {key: description.get(key) or "" for key in ("description", "prompt", "model")}
        tools = [] if description.get("tools") in (None, "*") else description["tools"]
        if wrong := [key for key, text in texts.items() if not isinstance(text, str)]:
            raise ValueError(f"the agent {name!r}: its {wrong[0]} has to be a string")
        if not isinstance(tools, list) or not all(isinstance(tool, str) for tool in tools):
            raise ValueError(f"the agent {name!r}: its tools have to be a list of names")
        model = "" if texts["model"] == "inherit" else texts["model"]
        personas[name] = Persona(name, texts["description"], texts["prompt"], tuple(tools), model)
    return personas
