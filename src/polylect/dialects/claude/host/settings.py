"""What the engine has reported about itself, from the answer to `initialize` and from every `system/init`.

The wire repeats all of it with each turn; only what has changed becomes an event. `Ready` is emitted once, by
whichever of the two comes first. `decode` and `CommandWriter` call it.
"""

from typing import Any

import msgspec

from polylect.dialects.claude.versions import OUR_MODES, WIRE_MODES
from polylect.dialects.lenient import Object, inner, objects, text, words
from polylect.vocab.answers import CommandCard
from polylect.vocab.content import Abilities
from polylect.vocab.events import Event, Ready, ServerChanged, SettingChanged

_UP, _DOWN = ("connected",), ("failed", "needs-auth")


class Settings:
    def __init__(self) -> None:
        self._ready = False
        self.values: dict[str, Any] = {}
        self._servers: dict[str, ServerChanged] = {}
        self.ours = False
        """The engine is polylect, which understands more than the vendor's program."""

    def read_initialize(self, response: Object) -> list[Event]:
        """The answer to `initialize`."""
        self.ours = text(inner(response, "engine"), "name") == "polylect"
        events = self._begin(response, text(response, "current_permission_mode"))
        agents = tuple(text(agent, "name") for agent in objects(response, "agents"))
        return [*events, *self.commands(objects(response, "commands")), *self.changed("agents", agents)]

    def init(self, frame: Object) -> list[Event]:
        events = self._begin(frame, text(frame, "permissionMode"))
        named = {"session": text(frame, "session_id"), "model": text(frame, "model"), "cwd": text(frame, "cwd")}
        lists = {key: tuple(words(frame, key)) for key in ("tools", "agents", "skills")}
        others = {"effort": text(frame, "effort"), "version": text(frame, "claude_code_version")}
        for key, value in {**named, **lists, **others}.items():
            events += self.changed(key, value)
        names = words(frame, "slash_commands")
        if names != [card.name for card in self.values.get("commands", ())]:
            events += self.commands([{"name": name} for name in names])
        return [*events, *self.mode(text(frame, "permissionMode")), *self._server_states(frame)]

    def mode(self, word: str) -> list[Event]:
        return self.changed("mode", OUR_MODES.get(word, word))

    def commands(self, rows: list[Object]) -> list[Event]:
        cards = [
            CommandCard(name, text(row, "description"), text(row, "argumentHint"), row.get("builtin") is True)
            for row in rows
            if (name := text(row, "name"))
        ]
        return self.changed("commands", tuple(cards))

    def changed(self, key: str, value: Any) -> list[Event]:
        if not value or self.values.get(key) == value:
            return []
        self.values[key] = value
        return [SettingChanged(key, value)]

    def _begin(self, frame: Object, mode: str) -> list[Event]:
        """`Ready`, the first time."""
        if self._ready:
            return []
        self._ready = True
        fields: dict[str, Any] = {
            "session": text(frame, "session_id"),
            "model": text(frame, "model"),
            "mode": OUR_MODES.get(mode, mode),
        }
        version = text(frame, "claude_code_version")
        self.values |= {key: value for key, value in {**fields, "version": version}.items() if value}
        models = objects(frame, "models")
        efforts = words(models[0], "supportedEffortLevels") if models else []
        abilities = Abilities(
            thinking=True,
            effort_levels=tuple(efforts),
            modes=tuple(WIRE_MODES),
            mcp=True,
            images=True,
            extras={"capabilities": words(frame, "capabilities"), **_extras(inner(frame, "engine"))},
        )
        ready = Ready(version=version, abilities=abilities, **fields)
        return [ready if ready.mode else msgspec.structs.replace(ready, mode="default")]

    def _server_states(self, frame: Object) -> list[Event]:
        rows = {text(row, "name"): text(row, "status") for row in objects(frame, "mcp_servers")}
        servers: dict[str, ServerChanged] = {}
        for name, status in rows.items():
            if status in _UP:
                prefix = f"mcp__{name}__"
                tools = [tool.removeprefix(prefix) for tool in words(frame, "tools") if tool.startswith(prefix)]
                servers[name] = ServerChanged(name, "ready", tuple(tools))
            elif status in _DOWN:
                servers[name] = ServerChanged(name, "failed", reason=status)
        gone = [ServerChanged(name, "removed") for name in self._servers if name not in rows]
        new = [event for name, event in servers.items() if self._servers.get(name) != event]
        self._servers = servers
        return [*gone, *new]


def _extras(engine: Object) -> dict[str, Any]:
    """What polylect says of itself; the vendor's program says nothing."""
    if text(engine, "name") != "polylect":
        return {}
    priced = engine.get("priced")
    return {"engine": "polylect"} | ({"cost_attribution": priced} if isinstance(priced, bool) else {})
