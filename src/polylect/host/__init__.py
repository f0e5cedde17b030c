"""Driving engines: one API for polylect, claude, omp, pi, aionrs and wayland-core.

async with connect("polylect", cwd=".", provider="scripted") as agent:
    async for event in agent.prompt("Tidy the imports"):
        match event:
            case TextDelta(text=text): print(text, end="")
            case Ask() as ask: await ask.allow()
    result = await agent.ask("Sum it up")
"""

from importlib import import_module
from typing import Any

_PLACES = {
    "host.agent": ("Agent",),
    "host.asks": ("Ask", "Policy", "allow_all", "category", "deny_all"),
    "host.connecting": ("connect",),
    "host.errors": (
        *("EngineDied", "HostError", "InvalidType", "InvalidValue", "NoSuchSession", "NotConfigured", "Refused"),
        *("SchemaNotMet", "ServerFailed", "SessionExists", "SessionInUse"),
        *("TimedOut", "TurnFailed", "UnknownEngine", "UnknownName", "UnknownPrice", "UnreadableFile"),
        *("Unsupported", "WrongState"),
    ),
    "host.host_hooks": ("Hook",),
    "host.host_tools": ("HostTool", "tool"),
    "host.sessions": ("list_sessions",),
    "host.limits": ("LimitWarning", "Limits"),
    "host.results": ("Denial", "Result"),
    "host.turn": ("Turn",),
    "vocab.answers": ("SessionCard",),
    "vocab.content": ("Failure", "File", "Image", "Rule", "Server", "Usage"),
    "vocab.events": (
        *("AgentEnded", "AgentProgress", "AgentStarted", "Alive", "ArgsDelta", "AskClosed", "BlockEnded"),
        *("BudgetExceeded", "CircuitChanged", "CompactionEnded", "CompactionStarted", "ContextUsed", "CostChanged"),
        *("Display", "Event", "ExtensionEvent", "ExtensionFailed", "ExtensionRejected", "Extra", "Failed", "HostCall"),
        *("HostCallEnded", "MalformedEvent", "Notice", "PlanChanged", "QueueChanged", "Ready", "Reply", "ReplyEnded"),
        *("RetryEnded", "RetryStarted", "RulesMatched", "ServerChanged", "SettingChanged", "Settled", "ShellOutput"),
        *("StepEnded", "StepStarted", "StepTraced", "StructuredAnswer", "TextDelta", "ThinkingDelta", "ToolCalled"),
        "ToolCrashed",
        *("ToolFinished", "ToolOutput", "ToolStarted", "TurnEnded", "TurnStarted", "UnknownEvent", "UserMessage"),
    ),
}
_WHERE = {name: place for place, names in _PLACES.items() for name in names}
__all__ = list(_WHERE)


def __getattr__(name: str) -> Any:
    """Nothing is loaded before it is used: a program that only may need us starts as fast as without."""
    if name not in _WHERE:
        raise AttributeError(f"polylect.host has no {name!r}")
    return getattr(import_module(f"polylect.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_WHERE)
