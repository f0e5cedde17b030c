"""The one exception of the HTTP client. Callers translate it: they know which setting holds the address."""

from typing import Literal

from polylect.vocab.errors import PolylectError

HttpFault = Literal[
    "address",
    "proxy",
    "proxy_refused",
    "certificate",
    "connect",
    "connect_timeout",
    "lost",
    "silent",
    "not_http",
    "encoding",
]
"""What went wrong:

    address           the address or a header cannot be sent
    proxy             the environment names a proxy that cannot be used
    proxy_refused     the proxy does not connect us
    certificate       the server's certificate is not trusted
    connect           nobody listens there, or the network does not reach it
    connect_timeout   the same, after a wait
    lost              the connection broke before the answer was complete
    silent            nothing came for longer than the limit
    not_http          what came is not HTTP
    encoding          the body is compressed in a way that was not asked for
"""


class HttpError(PolylectError):
    """A request got no answer, or not all of it.

    Args:
        kind: What went wrong.
        message: The same for people. Only the kind `address` repeats the address, which may hold a key.
    """

    def __init__(self, kind: HttpFault, message: str) -> None:
        super().__init__(message)
        self.kind: HttpFault = kind
