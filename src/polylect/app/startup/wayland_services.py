"""The services that Wayland Desktop names with `--provider`, without an address: it leaves that to its engine.

Desktop starts its engine with `--provider groq` and the key in `GROQ_API_KEY`, and without `--base-url`. Each of these
services speaks the wire of OpenAI or Anthropic, so it is that provider at another address. `start.py` calls this where
Desktop is the host.
"""

from polylect.app.startup.config import ConfigError, Values

_SERVICES = {
    "cerebras": ("openai", "https://api.cerebras.ai/v1"),
    "cohere": ("openai", "https://api.cohere.ai/compatibility/v1"),
    "deepseek": ("openai", "https://api.deepseek.com/v1"),
    "fireworks": ("openai", "https://api.fireworks.ai/inference/v1"),
    "groq": ("openai", "https://api.groq.com/openai/v1"),
    "minimax": ("anthropic", "https://api.minimax.io/anthropic"),
    "mistral": ("openai", "https://api.mistral.ai/v1"),
    "nvidia": ("openai", "https://integrate.api.nvidia.com/v1"),
    "openrouter": ("openai", "https://openrouter.ai/api/v1"),
    "together": ("openai", "https://api.together.xyz/v1"),
    "xai": ("openai", "https://api.x.ai/v1"),
}


def with_address(options: Values, env: dict[str, str]) -> Values:
    """The options with provider, address and key of the service that they name; as they are if they name none.

    Raises ConfigError if the key is not set: without it the key of OpenAI would go to another service.
    """
    name = str(options.get("provider") or "")
    if name not in _SERVICES:
        return options
    provider, address = _SERVICES[name]
    variable = f"{name.upper()}_API_KEY"
    key = options.get("api_key") or env.get(variable)
    if not key:
        raise ConfigError(f"{variable} is not set: set it or give --api-key")
    return {**options, "provider": provider, "base_url": options.get("base_url") or address, "api_key": key}
