"""Finds the proxy that the environment names for an address.

It reads HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY as curl does, in both cases of letters. `client.py` calls it
for each request.
"""

from collections.abc import Mapping

from polylect.http.errors import HttpError
from polylect.wire.http1 import Url, parse_url

_LOOPBACK = ("localhost", "127.", "::1")


def proxy_for(url: Url, env: Mapping[str, str]) -> Url | None:
    """From HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY, small letters first. This machine is never proxied.

    Raises HttpError for a proxy that cannot be used.
    """
    text = _variable(f"{url.scheme}_proxy", env) or _variable("all_proxy", env)
    rules = _variable("no_proxy", env).lower().split(",")
    if not text or url.host.startswith(_LOOPBACK) or any(_matches(rule.strip(), url) for rule in rules):
        return None
    try:
        proxy = parse_url(text if "://" in text else f"http://{text}")
    except ValueError:
        proxy = None
    if proxy is None or proxy.scheme != "http":  # the address may hold a password: it is not repeated
        raise HttpError("proxy", f"{url.scheme.upper()}_PROXY must be an http:// address: change or unset it")
    return proxy


def _variable(name: str, env: Mapping[str, str]) -> str:
    return env.get(name) or env.get(name.upper()) or ""


def _matches(rule: str, url: Url) -> bool:
    host = url.host.lower()
    if "/" in rule:
        return _in_network(host, rule)
    name, _, port = rule.partition(":") if rule.count(":") == 1 else (rule, "", "")
    if port and port != str(url.port):
        return False
    name = name.removeprefix("*").removeprefix(".")
    return rule == "*" or (bool(name) and (host == name or host.endswith("." + name)))


def _in_network(host: str, rule: str) -> bool:
    import ipaddress  # 3 ms, and few have such a rule

    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(rule, strict=False)
    except ValueError:
        return False
