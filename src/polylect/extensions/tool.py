"""A tool of an extension in the form that the engine expects of every tool (`vocab.ports.Tool`).

`extensions.py` puts one into the engine's table for each tool that an extension registered. The engine asks before it
runs one, because the effects of foreign code are unknown.
"""

from typing import Any

from polylect.extensions.hook_runner import ExtensionFault, HookRunner
from polylect.extensions.registry import OfferedTool
from polylect.vocab.content import Origin
from polylect.vocab.describe_arguments import arguments
from polylect.vocab.hooks import HookContext
from polylect.vocab.ports import ToolContext, ToolReturn, ToolSpec


class ExtensionTool:
    """Calls the function of the extension. Which files it touches cannot be known."""

    origin: Origin = "extension"

    def __init__(self, offered: OfferedTool, runner: HookRunner, session: HookContext) -> None:
        self.name = offered.name
        self.category = offered.category
        self.spec = ToolSpec(offered.name, offered.description, {"properties": {}, **offered.schema, "type": "object"})
        self._offered = offered
        self._runner = runner
        self._session = session

    def describe(self, args: dict[str, Any]) -> str:
        return f"{self.name}: {arguments(args)}"

    def touches(self, args: dict[str, Any], workspace: str) -> tuple[str, ...]:
        return ()

    async def run(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        hook_context = _CallHookContext(context, self._session)
        try:
            returned = await self._runner.run(
                self._offered.act, args, context=hook_context, timeout=self._offered.timeout
            )
        except ExtensionFault as fault:  # the engine reports a crash by its exception
            raise fault.__cause__ if isinstance(fault.__cause__, Exception) else fault from None
        return returned if isinstance(returned, ToolReturn) else ToolReturn("" if returned is None else str(returned))


class _CallHookContext:
    """The context of a call: questions of the tool are asked as questions of its call."""

    def __init__(self, context: ToolContext, session: HookContext) -> None:
        self.session, self.workspace, self.mode = session.session, session.workspace, session.mode
        self.turn, self.agent = context.turn, ""
        self.emit = session.emit
        self.ask = context.ask
