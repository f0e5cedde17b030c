"""The tool `Agent`: starts one sub-agent a call.

It has the name and arguments of Claude Code's tool, for hosts and models that know that one. It is used instead of
`Spawn` if the setting `one_agent` is on, and maps its arguments to those of `Spawn`.
"""

from typing import Any

from polylect.engine.subagents.spawn import Spawn, tasks_from
from polylect.vocab.ports import ToolContext, ToolReturn, ToolSpec

_TEXT = """\
Hand a task to an agent with a conversation of its own. Several calls in one reply work at the same time. An agent \
sees nothing of this conversation, so its prompt has to say all it needs to know, and what it should report back.\
"""
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "description": {"type": "string", "description": "A few words a person recognises the task by."},
        "prompt": {"type": "string", "description": "All the agent needs to know."},
        "subagent_type": {"type": "string", "description": "One of the named agents, if one fits."},
        "run_in_background": {"type": "boolean", "description": "Do not wait for it: its report comes later."},
    },
    "required": ["description", "prompt"],
}


class OneAgent(Spawn):
    """The tool."""

    name = "Agent"

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.described(_TEXT), _SCHEMA)

    def describe(self, args: dict[str, Any]) -> str:
        return f"Agent: {args.get('description') or 'sub-agent'}"[:120]

    def own_arguments(self, args: dict[str, Any]) -> dict[str, Any]:
        return args

    async def run(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        return await super().run(tasks_from(args), context)
