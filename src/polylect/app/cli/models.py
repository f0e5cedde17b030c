"""`polylect models`: lists the models that can be used now, with abilities and prices, and why others cannot.

`models` and `unusable_reason` are also used by `doctor` and, for hosts that ask, by `serving/available_models.py`. The
rows come from our catalogue and the user's settings; no service is asked.
"""

import os
from collections.abc import Iterator, Mapping

from msgspec import Struct

from polylect.app.cli.terminal import print_error, print_json, print_line, print_table, print_usage_error
from polylect.app.startup import config
from polylect.providers.check import check, default_model, describe, providers
from polylect.providers.models import Catalogue, Price, Row

USAGE = "usage: polylect models [--json]   which models can be used now, and what keeps the others from it"
_CLAUDE = "claude"
_CREDENTIALS = ("api_key", "base_url", "region", "project", "profile", "model")
_HEAD = ("PROVIDER", "MODEL", "WINDOW", "OUTPUT", "CAN", "$ PER MILLION TOKENS")


class ModelRow(Struct, frozen=True):
    """A model of a provider. `reason` says why it cannot be used; it is empty if it can."""

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
        return print_usage_error(words, ("--json",), USAGE, "polylect models")
    env = dict(os.environ)
    try:
        settings = config.gather({}, env, os.path.realpath(os.getcwd()), [])
    except config.ConfigError as error:
        print_error(error)
        return 1
    rows = [model for provider in providers() for model in models(settings, provider, env)]
    if words:
        print_json(rows)
    else:
        _show(rows)
        print()
        print_line(_default(settings, env))
    return 0


def _default(settings: config.Values, env: Mapping[str, str]) -> str:
    """Which model is used where no flag names one."""
    provider = str(settings["provider"])
    values = config.choose(settings, provider)
    model = str(values.get("model") or default_model(provider, str(values.get("base_url") or ""), env) or "any")
    if not provider:
        return "No provider is configured: set a key, or give --provider."
    return f"With these settings {provider}/{model} answers where no provider is named."


def unusable_reason(settings: config.Values, provider: str, env: Mapping[str, str]) -> str:
    """Why this provider cannot be used with these settings, in one line; empty if it can."""
    values = config.choose(settings, provider)
    return check(provider, **{name: str(values[name]) for name in _CREDENTIALS if values.get(name)}, env=env) or ""


def models(settings: config.Values, provider: str, env: Mapping[str, str]) -> Iterator[ModelRow]:
    reason = unusable_reason(settings, provider, env)
    own, prices = settings.get("models"), settings.get("prices")
    catalogue = Catalogue(own if isinstance(own, dict) else None, prices if isinstance(prices, dict) else None)
    values = config.choose(settings, provider)
    configured = str(values.get("model") or "")
    description = describe(provider)
    names = [name for name in catalogue.rows if description.lists(name) and name != _CLAUDE]
    if description.is_elsewhere(str(values.get("base_url") or ""), env):
        names = [name for name in names if isinstance(own, dict) and name in own]  # another server has other models
    elif not names:
        names = [description.default_model or description.usual_model()]
    listed = dict.fromkeys(filter(None, [configured, *names]))
    for name in listed or {"": None}:
        yield _row(provider, name, catalogue.row(name) if name else Row(), reason)


def _row(provider: str, name: str, row: Row, reason: str) -> ModelRow:
    abilities = (row.window, row.max_output, row.thinking, row.effort_levels, row.images, row.price)
    return ModelRow(provider, name, not reason, reason, *abilities)


def _show(models: list[ModelRow]) -> None:
    print_table([_HEAD, *(_cells(model) for model in models if model.usable)])
    reasons = {model.provider: model.reason for model in models if not model.usable}
    if reasons:
        print("\nNot usable now:")
    for provider, reason in reasons.items():
        print_line(f"  {provider:<10} {reason}")


def _cells(model: ModelRow) -> tuple[str, ...]:
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
