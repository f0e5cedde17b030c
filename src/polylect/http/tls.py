"""Makes the TLS context: which certificates are trusted.

The only module that imports `ssl`, which takes 17 ms, so that servers on plain http never pay for it. SSL_CERT_FILE and
its like are honoured.
"""

import os
import ssl
from asyncio import sslproto
from collections.abc import Mapping
from functools import lru_cache


def client_context(env: Mapping[str, str], ca_file: str = "") -> ssl.SSLContext:
    """Trusts SSL_CERT_FILE and SSL_CERT_DIR if set, else the system; `ca_file` is trusted beside them.

    All engines of a process that trust the same share one context: reading all certificates takes 80 ms and 800 KiB.
    A file that was changed is read again. Raises OSError if a file that was named cannot be read.
    """
    places = (env.get("SSL_CERT_FILE") or "", env.get("SSL_CERT_DIR") or "", ca_file)
    return _context(*places, *(os.stat(place).st_mtime_ns if place else 0 for place in places))


@lru_cache(maxsize=8)
def _context(named_file: str, named_folder: str, ca_file: str, *changed: int) -> ssl.SSLContext:
    """`changed` has the times at which these were changed."""
    getattr(sslproto, "SSLProtocol", None)  # the module may have been put off until somebody uses it
    "host".encode("idna")  # how names are looked up and compared; the first time takes 3 ms
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["http/1.1"])
    if named_file or named_folder:
        context.load_verify_locations(named_file or None, named_folder or None)
    elif folder := _hashed_folder():
        # Certificates are looked up by hash when one is needed: 0.1 ms instead of 19 for reading all of them.
        context.load_verify_locations(capath=folder)
    else:
        context.load_default_certs()
    if ca_file:
        context.load_verify_locations(ca_file)
    return context


def _hashed_folder() -> str:
    folder = ssl.get_default_verify_paths().capath
    if not folder:
        return ""
    with os.scandir(folder) as entries:
        hashed = any(len(entry.name) == 10 and entry.name.endswith(".0") for entry in entries)
    return folder if hashed else ""
