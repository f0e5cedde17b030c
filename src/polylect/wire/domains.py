"""Tells whether an address lies in one of several domains. WebSearch filters what was found with it."""

import re
from collections.abc import Sequence

_HOST = re.compile(r"https?://(?:[^/?#@]*@)?([^/?#:@]+)", re.IGNORECASE)


def in_domains(url: str, domains: Sequence[str]) -> bool:
    """Whether the host of `url` is one of `domains` or below one. Upper and lower case are equal."""
    match = _HOST.match(url)
    host = match[1].lower().rstrip(".") if match else ""
    named = [domain.lower().removeprefix("*.").strip("./") for domain in domains]
    return any(host == domain or host.endswith("." + domain) for domain in named if domain)
