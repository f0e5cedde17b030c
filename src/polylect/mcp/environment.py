"""What a server finds in its environment: little more than what it was given."""

from collections.abc import Mapping

_PLAIN = (
    *("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"),
)
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")


def environment(ours: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, str]:
    """What makes programs run at all, a proxy if it holds no password, and what the configuration says."""
    plain = {key: ours[key] for key in _PLAIN if key in ours}
    proxies = {key: ours[key] for key in _PROXIES if key in ours and "@" not in ours[key]}
    return {**plain, **proxies, **theirs}
