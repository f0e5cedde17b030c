"""What the engine has reported about itself: model, mode, tools, agents, commands, servers.

`EventWriter` keeps it up to date from events. It is written with every `system/init` and in the answer to
`initialize`; control requests read it (`set_model` without a model goes back to the first one).
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from polylect import __version__
from polylect.dialects.claude.engine.line_writer import LineWriter
from polylect.dialects.claude.frames import turn as shapes
from polylect.dialects.claude.versions import CAPABILITIES, WIRE_MODES
from polylect.vocab.answers import CommandCard, ModelCard
from polylect.vocab.events import Ready, ServerChanged

_STATUS = {"ready": "connected", "failed": "failed"}


class EngineInfo:
    def __init__(self, *, cwd: str, model: str, mode: str, key_source: str) -> None:
        self.cwd = cwd
        self.model = self.first_model = model
        self.mode = mode
        self.effort = ""
        self.key_source = key_source
        self.tools: list[str] = []
        self.agents: list[str] = []
        self._described: dict[str, str] = {}
        """Descriptions of agents, by name."""
        self.skills: list[str] = []
        self.commands: list[CommandCard] = []
        self.servers: dict[str, str] = {}
        """By name: connected, failed, pending."""
        self.window = 0

    @property
    def wire_mode(self) -> str:
        return WIRE_MODES.get(self.mode, self.mode)

    def ready(self, event: Ready) -> None:
        self.model = event.model or self.model
        self.first_model = self.first_model or self.model
        self.mode = event.mode

    def update(self, key: str, value: Any) -> None:
        """A setting has changed. Settings that no frame of this wire shows are ignored."""
        match key, value:
            case "model", str():
                self.model = value
                self.first_model = self.first_model or value
            case "mode" | "cwd" | "effort", str():
                setattr(self, key, value)
            case "tools" | "agents" | "skills", list() | tuple():
                setattr(self, key, [_name(one) for one in value])
            case "commands", list() | tuple():
                self.commands = [card for one in value if (card := _card(one))]

    def describe(self, agents: Any) -> None:
        self._described = {card.name: card.description for card in agents or () if isinstance(card, CommandCard)}

    def server(self, event: ServerChanged) -> None:
        if event.status == "removed":
            self.servers.pop(event.name, None)
        else:
            self.servers[event.name] = _STATUS[event.status]

    def init(self, out: LineWriter, uuids: list[str]) -> shapes.Init:
        return shapes.Init(
            subtype="init",
            cwd=self.cwd,
            session_id=out.session,
            uuid=out.new_id(),
            tools=["Task" if name == "Agent" else name for name in self.tools],  # its older name, only here
            mcp_servers=[shapes.ServerState(name, status) for name, status in self.servers.items()],
            model=self.model,
            permissionMode=self.wire_mode,
            slash_commands=[card.name for card in self.commands],
            apiKeySource=self.key_source,
            claude_code_version=out.version,
            output_style="default",
            agents=self.agents,
            skills=self.skills,
            plugins=[],
            capabilities=list(CAPABILITIES) if out.newer else msgspec.UNSET,
            effort=self.effort,
            fast_mode_state="off",
            analytics_disabled=True,
            user_message_uuids=uuids or msgspec.UNSET,
            engine=shapes.Engine("polylect", __version__),
        )

    def initialize_response(self, out: LineWriter, models: Any, *, pid: int, busy: bool) -> dict[str, Any]:
        """The answer to `initialize`."""
        fields = {
            "commands": commands_of(self.commands),
            "agents": [{"name": name, "description": self._described.get(name, "")} for name in self.agents],
            "output_style": "default",
            "available_output_styles": ["default"],
            "models": models_of(models),
            "account": {"apiKeySource": self.key_source},
            "claude_code_version": out.version,
            "current_permission_mode": self.wire_mode,
            "hook_on_failure_supported": True,
            "fast_mode_state": "off",
            "session_state": "running" if busy else "idle",
            "engine": shapes.Engine("polylect", __version__, self._is_priced(models)),
        }
        return fields | ({"capabilities": list(CAPABILITIES)} if out.newer else {}) | ({"pid": pid} if pid else {})

    def _is_priced(self, models: Any) -> bool | msgspec.UnsetType:
        """Whether the price of the model in use is known; unset if the model is not among those that are listed."""
        cards = [card for card in models or () if isinstance(card, ModelCard) and card.name == self.model]
        return bool(cards[0].prices) and None not in cards[0].prices[:2] if cards else msgspec.UNSET


def commands_of(cards: Sequence[CommandCard]) -> list[dict[str, Any]]:
    return [
        {"name": card.name, "description": card.description, "argumentHint": card.hint, "builtin": card.builtin}
        for card in cards
    ]


def models_of(cards: Any) -> list[dict[str, Any]]:
    return [
        {
            "value": card.name,
            "displayName": card.name,
            "description": f"{card.name} of {card.provider}",
            "resolvedModel": card.name,
            "supportsEffort": bool(card.effort_levels),
            "supportedEffortLevels": list(card.effort_levels),
        }
        for card in cards or ()
        if isinstance(card, ModelCard)
    ]


def _name(value: Any) -> str:
    return str(value.get("name") if isinstance(value, dict) else getattr(value, "name", value))


def _card(value: Any) -> CommandCard | None:
    if isinstance(value, CommandCard):
        return value
    try:
        return msgspec.convert({"name": value} if isinstance(value, str) else value, CommandCard)
    except msgspec.ValidationError:
        return None
