"""`polylect models`: which models can be used now, what they can do and cost, and what keeps the others from it."""

import os
import sys
from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct

from polylect.app.cli.terminal import print_error, print_json, print_line
from polylect.app.startup import config
from polylect.providers import gguf
from polylect.providers.check import PROVIDERS, check, default_model
from polylect.providers.models import Catalogue, Price, Row
from polylect.vocab.escape import escape_line

USAGE = "usage: polylect models [--json]   which models can be used now, and what keeps the others from it"
_FAMILY = "claude"
_SERVE_FAMILY = ("anthropic", "bedrock", "vertex")
_CREDENTIALS = ("api_key", "base_url", "region", "project", "profile", "model")
_HEAD = ("PROVIDER", "MODEL", "WINDOW", "OUTPUT", "CAN", "$ PER MILLION TOKENS")


class Listed(Struct, frozen=True):
    """A model of a provider. `reason` says why it cannot be used."""

    provider: str
    model: str
    usable: bool
    reason: str = ""
    window: int = 0
    max_output: int = 0
    thinking: bool = False
    effort_levels: tuple[str, ...] = ()
    images: bool | None = None
    price: Price | None = None


def main(words: list[str]) -> int:
    if words not in ([], ["--json"]):
        print(USAGE, file=sys.stderr)
        return 2
    env = dict(os.environ)
    try:
        found = config.gather({}, env, os.path.realpath(os.getcwd()), [])
    except config.ConfigError as error:
        print_error(error)
        return 1
    listed = [model for provider in PROVIDERS for model in models(found, provider, env)]
    if words:
        print_json(msgspec.json.format(msgspec.json.encode(listed), indent=2).decode())
    else:
        _show(listed)
        print()
        print_line(_default(found, env))
    return 0


def _default(found: config.Values, env: Mapping[str, str]) -> str:
    """Who answers an engine that is told nothing."""
    provider = str(found["provider"])
    values = config.choose(found, provider)
    model = str(values.get("model") or default_model(provider, str(values.get("base_url") or ""), env) or "any")
    who = f"{provider}/{model} answers" if provider else "nobody answers"
    return f"With these settings {who} where no provider is named."


def obstacle(found: config.Values, provider: str, env: Mapping[str, str]) -> str:
    """Why this provider cannot be used as things are set, in one line; empty if it can."""
    values = config.choose(found, provider)
    return check(provider, **{name: str(values[name]) for name in _CREDENTIALS if values.get(name)}, env=env) or ""


def models(found: config.Values, provider: str, env: Mapping[str, str]) -> Iterator[Listed]:
    reason = obstacle(found, provider, env)
    own, prices = found.get("models"), found.get("prices")
    catalogue = Catalogue(own if isinstance(own, dict) else None, prices if isinstance(prices, dict) else None)
    values = config.choose(found, provider)
    configured = str(values.get("model") or "")
    known = [name for name in catalogue.rows if _serves(provider, name) and name != _FAMILY]
    if values.get("base_url") or (provider == "openai" and env.get("OPENAI_BASE_URL")):
        known = [name for name in known if isinstance(own, dict) and name in own]  # somebody else's server
    if provider in ("scripted", "local"):
        known = []
        configured = configured or (os.path.basename(gguf.find("")) if provider == "local" else "")
    names = dict.fromkeys([*filter(None, [configured]), *known])
    for name in names or {"": None}:
        yield _listed(provider, name, catalogue.row(name) if name else Row(), reason)


def _serves(provider: str, name: str) -> bool:
    return (provider in _SERVE_FAMILY) if name.startswith(_FAMILY) else provider == "openai"


def _listed(provider: str, name: str, row: Row, reason: str) -> Listed:
    told = (row.window, row.max_output, row.thinking, row.effort_levels, row.images, row.price)
    return Listed(provider, name, not reason, reason, *told)


# For people.


def _show(listed: list[Listed]) -> None:
    rows = [_HEAD, *(tuple(map(escape_line, _cells(model))) for model in listed if model.usable)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    reasons = {model.provider: model.reason for model in listed if not model.usable}
    if reasons:
        print("\nNot usable now:")
    for provider, reason in reasons.items():
        print_line(f"  {provider:<10} {reason}")


def _cells(model: Listed) -> tuple[str, ...]:
    abilities = [
        *(["thinking"] if model.thinking else []),
        *(["effort " + "/".join(model.effort_levels)] if model.effort_levels else []),
        *(["images"] if model.images else []),
    ]
    return (
        model.provider,
        model.model or "any",
        _count(model.window),
        _count(model.max_output),
        ", ".join(abilities) or "-",
        _price(model.price),
    )


def _count(tokens: int) -> str:
    return f"{tokens // 1000}k" if tokens else "-"


def _price(price: Price | None) -> str:
    buckets = zip(("in", "out", "cache read", "cache write"), price or (), strict=False)
    return ", ".join(f"{dollars:g} {bucket}" for bucket, dollars in buckets if dollars is not None) or "-"
