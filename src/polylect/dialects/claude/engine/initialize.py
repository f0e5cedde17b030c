"""Reads the `initialize` request: what the host offers to the engine, and settings for the session.

`control_requests` makes a `Hello` of the offers (hooks, MCP servers inside the host) and a `Configure` of each
setting.
"""

from typing import Any

from polylect.dialects.claude.frames import control

_SETTINGS = {"agents": "agents", "skills": "skills", "jsonSchema": "json_schema", "title": "name"}
_IGNORED = (
    *("toolAliases", "planModeInstructions", "promptSuggestions", "agentProgressSummaries", "sdkMcpServerConfigs"),
    "plugins",
)
"""What a host may expect an effect of, and which has none here."""


def offers_of(request: control.Initialize) -> dict[str, Any]:
    offers: dict[str, Any] = {}
    if request.hooks:
        offers["hooks"] = {moment: [_hook(one) for one in matchers] for moment, matchers in request.hooks.items()}
    if request.sdkMcpServers:
        offers["servers"] = list(request.sdkMcpServers)
    return offers


def settings_of(request: control.Initialize) -> dict[str, Any]:
    settings = {ours: getattr(request, theirs) for theirs, ours in _SETTINGS.items()}
    prompt = request.systemPrompt
    settings["system_prompt"] = "\n\n".join(filter(None, prompt)) if isinstance(prompt, list) else prompt
    return {name: value for name, value in settings.items() if value}


def ignored_in(request: control.Initialize) -> list[str]:
    """The names of what was sent and has no effect here."""
    return [name for name in _IGNORED if getattr(request, name)]


def _hook(matcher: control.HookMatcher) -> dict[str, Any]:
    hook: dict[str, Any] = {"matcher": matcher.matcher, "ids": matcher.hookCallbackIds}
    if matcher.timeout:
        hook["timeout"] = matcher.timeout
    if matcher.onFailure:
        hook["on_failure"] = matcher.onFailure
    return hook
