"""Which provider is used, whether it can work, and what its model can do: decided before `ready`.

The start calls this, so nothing here imports anything heavy or asks a network. `choose_provider` never chooses the
scripted provider: a made-up answer is given only to those who ask for one by name.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # typing itself would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Credentials = Callable[[Mapping[str, str], str, str], str | None]
    Rule = tuple[tuple[str, ...], tuple[str, ...], Credentials]
    Offer = tuple[bool, tuple[str, ...], bool]
    """Whether it thinks, its levels of effort, and whether its price is known."""

PROVIDERS = ("scripted", "anthropic", "openai", "bedrock", "vertex", "local")
DEFAULT_MODELS = {"anthropic": "claude-sonnet-5", "openai": "gpt-5.2"}
"""The model where nobody names one; each is in `models.json` with a price. What clouds serve depends on the account."""
_CREDENTIALS = {
    "anthropic": (("ANTHROPIC_API_KEY",), ("ANTHROPIC_AUTH_TOKEN",)),
    "openai": (("OPENAI_API_KEY",),),
    "bedrock": (("AWS_BEARER_TOKEN_BEDROCK",), ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")),
    "vertex": (("VERTEX_PROJECT_ID", "VERTEX_ACCESS_TOKEN"), ("VERTEX_PROJECT_ID", "GOOGLE_APPLICATION_CREDENTIALS")),
}
"""Providers in the order in which they are tried where nobody names one, and variables that together are enough."""
_LABEL = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")
_REGIONS = {"bedrock": ("AWS_REGION", "AWS_DEFAULT_REGION"), "vertex": ("VERTEX_REGION", "CLOUD_ML_REGION")}
_OR_SCRIPTED = "or try without one: --provider scripted"


def choose_provider(env: Mapping[str, str], *, model: str = "", tables: object = None) -> str:
    """The first provider that has credentials and may serve this model; empty if there is none.

    `tables` are the `[providers.NAME]` tables of the configuration: an `api_key` there counts as well.
    """
    for provider, ways in _CREDENTIALS.items():
        has_key = bool(_table(_table(tables).get(provider)).get("api_key"))
        if not has_key:
            has_key = any(all(env.get(name) for name in variables) for variables in ways)
        if has_key and _may_serve(provider, model):
            return provider
    return ""


def no_provider(model: str) -> str:
    """What to tell a person where `choose_provider` has chosen nobody."""
    whom = "no model is configured" if not model else f"no provider is configured for the model {model!r}"
    keys = [ways[0][0] for provider, ways in _CREDENTIALS.items() if _may_serve(provider, model)][:2]
    return f"{whom}: set {' or '.join(keys)}, or give --provider; --provider scripted plays a script and needs no key"


def default_model(provider: str, base_url: str, env: Mapping[str, str]) -> str:
    """The model of this provider where nobody names one; empty where one has to be named.

    Only OpenAI itself is known to serve OpenAI's models: other servers have others. Gateways to Anthropic have its own.
    """
    elsewhere = provider == "openai" and (base_url or env.get("OPENAI_BASE_URL"))
    return "" if elsewhere else DEFAULT_MODELS.get(provider, "")


def _may_serve(provider: str, model: str) -> bool:
    """Whether it may have a model of this name. A name that says nothing about its vendor may be anybody's."""
    if "anthropic." in model:
        return provider == "bedrock"
    if model.startswith("claude"):
        return provider != "openai"
    return provider == "openai" or known(model) is None


def check(
    provider: str,
    *,
    api_key: str = "",
    base_url: str = "",
    region: str = "",
    project: str = "",
    profile: str = "",
    model: str = "",
    env: Mapping[str, str] = {},
) -> str | None:
    """None, or one line that says what is wrong and what to do. Providers unknown here are not judged."""
    if provider == "local":
        return _local(model)
    rule = _RULES.get(provider)
    if rule is None:
        return None
    places = {"region": region or _first(env, _REGIONS.get(provider, ())), "project": project}
    if fault := next((fault for name, value in places.items() if (fault := label_fault(provider, name, value))), ""):
        return fault
    key_names, base_names, credentials = rule
    base = base_url or _first(env, base_names)
    if base and not _is_address(base):
        return f"--base-url {base!r} is not an address: it looks like http://localhost:8080 or https://example.com/v1"
    key = api_key or _first(env, key_names)
    if key and (not key.isascii() or not key.isprintable() or " " in key):
        return f"the API key holds characters that no key has (spaces, line breaks?): set {key_names[0]} again"
    # A server of one's own may want no key; the services themselves and the clouds always do.
    return None if key or (base and base_names) else credentials(env, project, profile)


def offer(provider: str, model: str, *, script: str = "", own: object = None, prices: object = None) -> Offer | None:
    """What is known of a model; None if nothing is. `own` and `prices` are the user's tables for `models.Catalogue`."""
    match provider:
        case "local":
            return False, (), False
        case "scripted" if script:
            from polylect.providers.scripted.parse import read_script  # 40 ms, and only for a script of one's own

            head = read_script(script).head
            return head.model.thinking, head.model.effort_levels, head.price is not None
        case "scripted":
            return True, (), True
        case _ if own or prices:
            from polylect.providers.models import Catalogue, Row  # 40 ms, and only for rows of one's own

            models = Catalogue(_table(own), _table(prices))
            info = models.info(model)
            return None if models.row(model) == Row() else (info.thinking, info.effort_levels, info.priced)
        case _:
            return known(model)


def _table(told: object) -> dict[str, object]:
    return told if isinstance(told, dict) else {}


def known(model: str) -> Offer | None:
    """What `models.json` says. A dated version has the price of its model."""
    from polylect.providers.known_models import KNOWN  # written by tests/providers/test_known_models.py

    name = model if model in KNOWN else longest(KNOWN, bare(model))
    if not name:
        return None
    thinking, levels, priced = KNOWN[name]
    return thinking, levels, priced and (model == name or is_version(model, name))


def bare(model: str) -> str:
    """Without what clouds and gateways write around it: `us.anthropic.claude-x-v1:0`, `anthropic/claude-x`."""
    return model.rpartition("/")[2].rpartition("anthropic.")[2].partition("@")[0].partition(":")[0]


def longest(names: Iterable[str], model: str) -> str:
    """The longest of these that the model's name begins with."""
    return max((name for name in names if model.startswith(name)), key=len, default="")


def is_version(model: str, name: str) -> bool:
    """Whether this is a dated version of that model: `gpt-4o-2024-08-06`, and not `gpt-4o-audio` or `-4-5-20251101`."""
    rest = model.removeprefix(name)
    digits = rest.replace("-", "")
    return rest == "-latest" or (rest.startswith("-") and digits.isdigit() and len(digits) == 8)


def _no_key(name: str) -> Credentials:
    return lambda env, project, profile: f"{name} is not set: set it or give --api-key, {_OR_SCRIPTED}"


def _aws(env: Mapping[str, str], project: str, profile: str) -> str | None:
    if env.get("AWS_ACCESS_KEY_ID") and env.get("AWS_SECRET_ACCESS_KEY") and not profile:
        return None
    path = env.get("AWS_SHARED_CREDENTIALS_FILE") or _home(env, ".aws/credentials")
    if os.path.exists(path) or os.path.exists(env.get("AWS_CONFIG_FILE") or _home(env, ".aws/config")):
        return None
    return (
        "no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
        f"or have a profile in {path}, {_OR_SCRIPTED}"
    )


def _google(env: Mapping[str, str], project: str, profile: str) -> str | None:
    named = env.get("GOOGLE_APPLICATION_CREDENTIALS")
    path = named or _home(env, ".config/gcloud/application_default_credentials.json")
    if not os.path.exists(path):
        found = (
            f"GOOGLE_APPLICATION_CREDENTIALS names {path}, which is not there"
            if named
            else "GOOGLE_APPLICATION_CREDENTIALS is not set"
        )
        return f"{found}: set it to a service account's JSON file, {_OR_SCRIPTED}"
    if not (project or named or _first(env, ("VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT"))):
        return "no Google project: set VERTEX_PROJECT_ID"
    return None


def _local(model: str) -> str | None:
    from polylect.providers import gguf

    return gguf.missing(model)


def label_fault(provider: str, name: str, value: str) -> str:
    """What is wrong with a part of an address; empty if nothing is. As a region, `evil.example/` would get the key."""
    if len(value) <= 63 and _LABEL.issuperset(value):
        return ""
    return f"{provider}: the {name} {value[:80]!r} may hold only a-z, 0-9 and -"


def _is_address(text: str) -> bool:
    scheme, mark, rest = text.strip().partition("://")
    place = rest.partition("/")[0].rpartition("@")[2]
    host, _, port = place.rpartition("]")[2].partition(":")
    readable = bool(mark) and bool(host or place.startswith("[")) and not any(letter <= " " for letter in rest)
    return readable and scheme.lower() in ("http", "https") and (not port or (port.isdigit() and int(port) < 65536))


def _first(env: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((env[name] for name in names if env.get(name)), "")


def _home(env: Mapping[str, str], path: str) -> str:
    return os.path.join(env.get("HOME") or os.path.expanduser("~"), path)


_RULES: dict[str, Rule] = {
    "anthropic": (
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
        ("ANTHROPIC_BASE_URL",),
        _no_key("ANTHROPIC_API_KEY"),
    ),
    "openai": (("OPENAI_API_KEY",), ("OPENAI_BASE_URL",), _no_key("OPENAI_API_KEY")),
    "bedrock": (("AWS_BEARER_TOKEN_BEDROCK",), (), _aws),
    "vertex": (("VERTEX_ACCESS_TOKEN",), (), _google),
}
