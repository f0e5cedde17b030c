"""Which provider is used, whether it can work, and what its model can do: decided before `ready`.

The start calls this, so nothing here imports anything heavy or asks a network. Providers are the modules and packages
of `providers/` but for those in `_SUPPORT`; each describes itself in a value `PROVIDER`. `choose_provider` never
chooses the scripted provider: a made-up answer is given only to those who ask for one by name.
"""

import os

from polylect import plug

TYPE_CHECKING = False  # typing itself would cost 5 ms, and even __future__ 0.1
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Offer = tuple[bool, tuple[str, ...], bool]
    """Whether it thinks, its levels of effort, and whether its price is known."""

_FIRST = ("scripted", "anthropic", "openai", "bedrock", "vertex", "local")
"""The order in which providers are listed, and tried where nobody names one; others come after these."""
_SUPPORT = frozenset(
    {"auth", "check", "circuit", "error_kinds", "exchange", "known_models", "models", "retry", "settings"}
)
"""What else is in `providers/`."""
_LABEL = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")
OR_SCRIPTED = "or try without one: --provider scripted"


class ProviderDescription:
    """What is known of a provider without opening it. A provider's module has one in `PROVIDER`."""

    name = ""
    key_variables: tuple[str, ...] = ()
    """Variables for the key, the best one first. Without any, the provider needs neither key nor address."""
    address_variables: tuple[str, ...] = ()
    """Variables for the address of a server. Where there is one, a key is not demanded."""
    region_variables: tuple[str, ...] = ()
    credentials: tuple[tuple[str, ...], ...] = ()
    """Variables that together are enough to choose this provider where nobody names one, in several ways."""
    default_model = ""
    """The model where nobody names one. Ours are in `models.json`, with a price."""
    needs_model = True
    """Without a model there is nothing that it could ask."""
    api = ""
    """The vendor's wire, as hosts are told of it; empty if it is OpenAI's."""

    def may_serve(self, model: str) -> bool:
        """Whether it may have a model of this name, or of any if it is empty."""
        return not model or model == self.default_model or model_offer(model) is None

    def lists(self, model: str) -> bool:
        """Whether `polylect models` lists this row of `models.json` for it."""
        return False

    def is_elsewhere(self, base_url: str, env: "Mapping[str, str]") -> bool:
        """Whether another server than the vendor's own is set, whose models are not known."""
        return bool(base_url)

    def default_model_at(self, base_url: str, env: "Mapping[str, str]") -> str:
        """The default model at this address; empty where one has to be named. Gateways have their vendor's models."""
        return self.default_model

    def usual_model(self) -> str:
        """A model that is installed here and used where nobody names one."""
        return ""

    def missing_credentials(self, env: "Mapping[str, str]", project: str, profile: str) -> str | None:
        """None, or what to set where there is neither a key nor an address."""
        return f"{self.key_variables[0]} is not set: set it, run polylect login, or give --api-key, {OR_SCRIPTED}"

    def missing_project(self, env: "Mapping[str, str]", project: str) -> str | None:
        """None, or what to set beside a key, where a key alone does not say where to ask."""
        return None

    def unusable_model(self, model: str) -> str | None:
        """None, or why this model cannot be used. Asked of providers without a key."""
        return None

    def offer(self, model: str, *, script: str, own: object, prices: object) -> "Offer | None":
        """What is known of a model; None if nothing is."""
        if not (own or prices):
            return model_offer(model)
        from polylect.providers.models import Catalogue, Row  # 40 ms, and only for rows of one's own

        models = Catalogue(_table(own), _table(prices))
        info = models.info(model)
        return None if models.row(model) == Row() else (info.thinking, info.effort_levels, info.priced)


class ClaudeDescription(ProviderDescription):
    """A provider that serves the models of Anthropic."""

    api = "anthropic_messages"

    def lists(self, model: str) -> bool:
        return model.startswith("claude")

    def may_serve(self, model: str) -> bool:
        return "anthropic." not in model and (model.startswith("claude") or model_offer(model) is None)


def providers() -> tuple[str, ...]:
    """The names of all providers."""
    return tuple(name for name in plug.names("providers", _FIRST) if name not in _SUPPORT)


def describe(provider: str) -> ProviderDescription:
    """Raises LookupError if there is no such provider."""
    if provider in _SUPPORT:
        raise LookupError(f"{provider!r} is no provider")
    description: ProviderDescription | None = getattr(plug.load("providers", provider), "PROVIDER", None)
    if description is None:
        raise LookupError(f"polylect.providers.{provider} has no PROVIDER")
    return description


def choose_provider(env: "Mapping[str, str]", *, model: str = "", tables: object = None) -> str:
    """The first provider that has credentials and may serve this model; empty if there is none.

    `tables` are the `[providers.NAME]` tables of the configuration: an `api_key` there counts as well.
    """
    for provider in _choices():
        has_key = bool(_table(_table(tables).get(provider.name)).get("api_key"))
        if not has_key:
            has_key = any(all(env.get(name) for name in variables) for variables in provider.credentials)
        if has_key and provider.may_serve(model):
            return provider.name
    return ""


def _choices() -> "Iterator[ProviderDescription]":
    """All but the scripted one, in the order in which they are tried; the folder is looked at only after ours."""
    for name in _FIRST[1:]:
        yield describe(name)
    yield from (describe(name) for name in providers() if name not in _FIRST)


def no_provider(model: str, *, has_key: bool) -> str:
    """What to tell a person where `choose_provider` has chosen nobody. `has_key`: there is a key, but not whose."""
    if has_key:
        vendor = next(one.name for one in _choices() if one.credentials and one.may_serve(model))
        return f"--api-key does not say whose key it is: add --provider, for one --provider {vendor}"
    whom = "no model is configured" if not model else f"no provider is configured for the model {model!r}"
    keys = [one.credentials[0][0] for one in _choices() if one.credentials and one.may_serve(model)][:2]
    ways = f"set {' or '.join(keys)}, run polylect login, or give --provider"
    return f"{whom}: {ways}; --provider scripted plays a script and needs no key"


def default_model(provider: str, base_url: str, env: "Mapping[str, str]") -> str:
    """The model of this provider where nobody names one; empty where one has to be named, or there is no provider."""
    try:
        return describe(provider).default_model_at(base_url, env)
    except LookupError:
        return ""


def check(
    provider: str,
    *,
    api_key: str = "",
    base_url: str = "",
    region: str = "",
    project: str = "",
    profile: str = "",
    model: str = "",
    env: "Mapping[str, str] | None" = None,
) -> str | None:
    """None, or one line that says what is wrong and what to do. A provider that is not there is not judged."""
    env = env or {}
    try:
        description = describe(provider)
    except LookupError:
        return None
    if not (key_names := description.key_variables):
        return description.unusable_model(model)
    places = {"region": region or first_set(env, description.region_variables), "project": project}
    if fault := next((fault for name, value in places.items() if (fault := label_fault(provider, name, value))), ""):
        return fault
    base = base_url or first_set(env, description.address_variables)
    if base and not _is_address(base):
        return f"--base-url {base!r} is not an address: it looks like http://localhost:8080 or https://example.com/v1"
    key = api_key or first_set(env, key_names)
    if key and (not key.isascii() or not key.isprintable() or " " in key):
        return f"the API key holds characters that no key has (spaces, line breaks?): set {key_names[0]} again"
    # A server of one's own may want no key; the services themselves and the clouds always do.
    served = base and description.address_variables
    if key or served:
        return description.missing_project(env, project)
    return description.missing_credentials(env, project, profile)


def offer(provider: str, model: str, *, script: str = "", own: object = None, prices: object = None) -> "Offer | None":
    """What is known of a model; None if nothing is. `own` and `prices` are the user's tables for `models.Catalogue`."""
    return describe(provider).offer(model, script=script, own=own, prices=prices)


def _table(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def model_offer(model: str) -> "Offer | None":
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


def longest(names: "Iterable[str]", model: str) -> str:
    """The longest of these that the model's name begins with."""
    return max((name for name in names if model.startswith(name)), key=len, default="")


def is_version(model: str, name: str) -> bool:
    """Whether this is a dated version of that model: `gpt-4o-2024-08-06`, and not `gpt-4o-audio` or `-4-5-20251101`."""
    rest = model.removeprefix(name)
    digits = rest.replace("-", "")
    return rest == "-latest" or (rest.startswith("-") and digits.isdigit() and len(digits) == 8)


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


def first_set(env: "Mapping[str, str]", names: tuple[str, ...]) -> str:
    """The value of the first of these variables that is set to something."""
    return next((env[name] for name in names if env.get(name)), "")


def in_home(env: "Mapping[str, str]", path: str) -> str:
    """This path in the user's home."""
    return os.path.join(env.get("HOME") or os.path.expanduser("~"), path)
