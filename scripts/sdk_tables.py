"""Write the tables of docs/host-sdk.md that follow from the code: `python scripts/sdk_tables.py`.

A table stands between `<!-- table: NAME -->` and `<!-- end of table -->`. Its texts are docstrings of the SDK; which
engine can do what is asked of the codecs, as `Agent.can` does. tests/test_sdk_tables.py fails where the page is old.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "host-sdk.md"
sys.path.insert(0, str(ROOT / "src"))

from polylect import plug  # noqa: E402
from polylect.app.startup.start import LACKS  # noqa: E402
from polylect.host.agent import Agent  # noqa: E402
from polylect.host.connecting import connect  # noqa: E402
from polylect.host.engine_registry import ENGINES, EngineSpec, taken  # noqa: E402
from polylect.host.link import ProcessLink  # noqa: E402
from polylect.host.turn import Turn  # noqa: E402
from polylect.vocab import answers  # noqa: E402
from polylect.vocab.modes import MODES  # noqa: E402

WISHES = {
    "model": "the model",
    "provider": "who serves it",
    "base_url": "the address of another server that speaks the same API",
    "api_key": "the key of the model's service, instead of the one in the environment",
    "script": 'a [script](scripted.md) for `provider="scripted"`',
    "mode": "how much may run without being asked for; see below",
    "session": "a name for the new session; see [Sessions](#sessions)",
    "resume": "the name or id of the session to go on with, or `latest`",
    "login": "the id of a login that the agent offers; it is asked for before the session is opened",
    "session_dir": "the folder in which the engine keeps its sessions",
    "system_prompt": "instructions for the model",
    "max_turns": "how many model requests a turn may make",
    "max_cost": "dollars that a turn may cost; `limits` sets it too",
    "max_tokens": "tokens that a turn may use, in and out together; `limits` sets it too",
    "add_dir": "another folder that tools may touch, or a list of them",
    "allow": "a [rule](safety.md#rules) of what needs no question, or a list of them",
    "deny": "a rule of what never runs, or a list of them",
    "config": "a [settings](settings.md) file",
    "trust_workspace": "`True` trusts the project: its settings may also widen rights",
    "extension": "an [extension](extensions.md) to load, or a list of them",
}
"""Options of `connect` that become flags. The order is that of the table."""
_NOT_WISHES = ("partial", "allow_unpriced")
"""Flags that `connect` sets by itself."""
_WORDS = {name: name for name in ("steer", "follow_up", "compact", "shell", "new_session", "resume", "fork")} | {
    name: name for name in ("add_context", "add_server", "configure")
}
_NEEDED = {
    "hooks": "hooks",
    "tools": "tools",
    "files": "client_services",
    "terminal": "client_services",
}
"""What an engine has to be able to do for a parameter of `connect`."""
_SUBJECTS = (
    "files",
    "images",
    "tools",
    "client_services",
    "thinking",
    "name",
    "remove_server",
    "rewind",
    "authenticate",
)


def page(text: str) -> str:
    """The text of the page, with each table as it should be."""
    for name, table in TABLES.items():
        before, begin, rest = text.partition(f"<!-- table: {name} -->\n")
        _, end, after = rest.partition("<!-- end of table -->")
        if not end:
            raise LookupError(f"{PAGE.name} has no place for the table {name}")
        rows = "".join(f"{row}\n" for row in table())
        text = f"{before}{begin}\n{rows}\n{end}{after}"
    return text


def connect_table() -> Iterator[str]:
    """Every parameter of `connect`."""
    yield from ("| parameter | default | meaning | engines |", "|---|---|---|---|")
    texts = arguments(connect)
    for parameter in inspect.signature(connect).parameters.values():
        if parameter.kind is not parameter.VAR_KEYWORD:
            word = _NEEDED.get(parameter.name, "prompt")
            engines = _names(has_servers if parameter.name == "servers" else partial(can, word))
            yield _row(f"`{parameter.name}`", _default(parameter), texts[parameter.name], engines)
    for wish, text in WISHES.items():
        yield _row(f"`{wish}`", "", text, _names(partial(has_option, wish)))


def agent_table() -> Iterator[str]:
    """Every public name of an agent, with the engines that have it."""
    yield from ("| `agent.` | what it is or does | engines |", "|---|---|---|")
    for name in public(Agent):
        member = inspect.getattr_static(Agent, name)
        yield _row(f"`{_call(name, member)}`", _summary(member), _engines_with(name))


def turn_table() -> Iterator[str]:
    """Every public name of a turn."""
    yield from ("| `turn.` | what it is or does |", "|---|---|")
    for name in public(Turn):
        member = inspect.getattr_static(Turn, name)
        yield _row(f"`{_call(name, member)}`", _summary(member))


def words_table() -> Iterator[str]:
    """What else `Agent.can` is asked for."""
    yield from ("| `agent.can(...)` | engines |", "|---|---|")
    words = [*_SUBJECTS, *(f"mode:{mode}" for mode in MODES), *(f"query:{query}" for query in queries())]
    for word in words:
        yield _row(f"`{word}`", _names(partial(can, word)))


TABLES: dict[str, Callable[[], Iterator[str]]] = {
    "connect": connect_table,
    "agent": agent_table,
    "turn": turn_table,
    "can": words_table,
}


def public(kind: type) -> list[str]:
    """The names that `dir` shows and that are meant for programs, as they stand in the source."""
    return [name for name in vars(kind) if not name.startswith("_")]


def queries() -> list[str]:
    return sorted(set(re.findall(r'Query\("(\w+)"', answers.__doc__ or "")))


def has_option(wish: str, engine: EngineSpec) -> bool:
    return wish in taken(engine)


def has_servers(engine: EngineSpec) -> bool:
    """Whether it can be told of MCP servers: when its session is opened, or later."""
    return engine.dialect == "acp" or can("add_server", engine)


def can(word: str, engine: EngineSpec) -> bool:
    """What `Agent.can` says of this engine."""
    options: dict[str, Any] = dict(engine.options)
    if engine.version:
        options["version"] = engine.version
    if engine.known:
        options |= {"known": engine.known, "mode_ids": engine.modes}
    if engine.dialect == "native" and word in LACKS:
        return False  # it says so in its `ready`
    return ProcessLink(["engine"], plug.load("dialects", engine.dialect).DIALECT, **options).can(word)


def _engines_with(name: str) -> str:
    match name:
        case "query" | "state":
            return _names(partial(can, "query:state"))
        case _ if name in _WORDS:
            return _names(partial(can, _WORDS[name]))
    return "all"


def _names(has: Callable[[EngineSpec], bool]) -> str:
    having = [name for name, engine in ENGINES.items() if has(engine)]
    lacking = [name for name in ENGINES if name not in having]
    if not having or not lacking:
        return "none" if lacking else "all"
    return ", ".join(having) if len(having) <= len(lacking) + 2 else f"all but {', '.join(lacking)}"


def arguments(function: Callable[..., Any]) -> dict[str, str]:
    """The texts of the section `Args` of a docstring."""
    section = (inspect.getdoc(function) or "").partition("Args:\n")[2].partition("\n\nRaises:")[0]
    found = re.findall(r"^    \*{0,2}(\w+): (.*(?:\n {8}.*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


def _summary(member: Any) -> str:
    text = inspect.getdoc(member.fget if isinstance(member, property) else member) or ""
    return " ".join(text.partition("\n\n")[0].split())


def _call(name: str, member: Any) -> str:
    if isinstance(member, property):
        return name
    signature = inspect.signature(member)
    bare = [each.replace(annotation=each.empty, default=each.empty) for each in signature.parameters.values()]
    words = str(inspect.Signature([each for each in bare if each.name != "self"]))
    return f"await {name}{words}" if inspect.iscoroutinefunction(member) else f"{name}{words}"


def _default(parameter: inspect.Parameter) -> str:
    if parameter.default is parameter.empty:
        return "needed"
    if parameter.default is None or isinstance(parameter.default, str | int | float | tuple):
        return f"`{parameter.default!r}`"
    return "`Limits()`" if parameter.name == "limits" else ""


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def main() -> int:
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
