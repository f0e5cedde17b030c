"""AWS Signature Version 4, for a POST with a body.

`providers/bedrock/provider.py` signs each request with it. Pure: keys, time and body come in, headers come out, so that
the examples of AWS can be tested byte by byte.
"""

from collections.abc import Mapping
from hashlib import sha256
from hmac import digest

from msgspec import Struct

from polylect.wire.http1 import parse_url, quoted


class Keys(Struct, frozen=True):
    access: str
    secret: str
    token: str = ""

    def __repr__(self) -> str:
        return f"Keys({self.access!r})"


def signed(
    keys: Keys,
    *,
    region: str,
    service: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    now: str,
) -> dict[str, str]:
    """The headers to send, signature included. `now` is like 20260131T235959Z."""
    place = parse_url(url)
    body_hash = sha256(body).hexdigest()
    sent = {**headers, "x-amz-date": now, "x-amz-content-sha256": body_hash}
    if keys.token:
        sent["x-amz-security-token"] = keys.token
    names = {**{name.lower(): value for name, value in sent.items()}, "host": place.authority}
    listed = ";".join(sorted(names))
    canonical = "".join(f"{name}:{' '.join(names[name].split())}\n" for name in sorted(names))
    path, _, query = place.path.partition("?")
    request = "\n".join(("POST", _twice_quoted(path), query, canonical, listed, body_hash))
    scope = f"{now[:8]}/{region}/{service}/aws4_request"
    text = "\n".join(("AWS4-HMAC-SHA256", now, scope, sha256(request.encode()).hexdigest()))
    key = f"AWS4{keys.secret}".encode()
    for part in (now[:8], region, service, "aws4_request"):
        key = digest(key, part.encode(), "sha256")
    signature = digest(key, text.encode(), "sha256").hex()
    credential = f"Credential={keys.access}/{scope}"
    return {**sent, "authorization": f"AWS4-HMAC-SHA256 {credential}, SignedHeaders={listed}, Signature={signature}"}


def _twice_quoted(path: str) -> str:
    """Every service but Amazon S3 signs the path as if what was sent were still to be encoded."""
    return "/".join(quoted(part) for part in path.split("/"))
