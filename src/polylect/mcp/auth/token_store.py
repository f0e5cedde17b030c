"""Stores what logins at MCP servers have granted: tokens, and how to renew them.

The file `mcp-tokens.json` is beside the user's settings, whose folder the sandbox hides from commands. Only the user
can read it (mode 600). With `[mcp] token_store = "keyring"` the keyring of the system is used in its place, through the
package `keyring`. Logins are found by the address of the server, never by its name: a workspace may give its own
server any name.

`oauth.py` stores logins, `access_token.py` reads and renews them. Stores block: use them in a thread.
"""

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from typing import Literal, Protocol

import msgspec
from msgspec import Struct

from polylect.vocab.errors import PolylectError

StoreKind = Literal["file", "keyring"]
_MOST_BYTES = 4 * 1024 * 1024
_LOCK_TIMEOUT = 20.0
"""Seconds to wait for another process that is renewing a token: longer than a renewal may take."""
_LOCK_PAUSE = 0.05
_SERVICE = "polylect-mcp"


class StoreError(PolylectError):
    """Logins cannot be read or written. The text says what to do."""


class Login(Struct, frozen=True, omit_defaults=True):
    """What one login has granted. `expires_at` is in seconds since the epoch; 0 where the server did not say."""

    access_token: str
    refresh_token: str = ""
    expires_at: float = 0.0
    scope: str = ""
    resource: str = ""
    issuer: str = ""
    token_endpoint: str = ""
    revocation_endpoint: str = ""
    client_id: str = ""
    client_secret: str = ""
    auth_method: str = "none"

    def __repr__(self) -> str:
        return f"Login({self.issuer!r})"


class TokenStore(Protocol):
    """Where logins are. All methods raise StoreError."""

    def load(self, url: str) -> Login | None: ...
    def save(self, url: str, login: Login) -> None: ...
    def remove(self, url: str) -> bool:
        """False if there was none."""
        ...


class _Logins(Struct):
    logins: dict[str, Login] = {}


def open_store(env: Mapping[str, str], kind: StoreKind = "file") -> TokenStore:
    """The user's store. Raises StoreError if there is no keyring."""
    return FileStore(tokens_file(env)) if kind == "file" else KeyringStore()


def tokens_file(env: Mapping[str, str]) -> str:
    """The path of the file: in the folder of `config.toml`."""
    folder = env.get("XDG_CONFIG_HOME") or ""
    if not os.path.isabs(folder):  # a relative path would depend on the workspace
        folder = os.path.join(env.get("HOME") or os.path.expanduser("~"), ".config")
    return os.path.join(folder, "polylect", "mcp-tokens.json")


class FileStore:
    """Logins in a file, which is always replaced as a whole."""

    def __init__(self, path: str) -> None:
        self.path = path

    def load(self, url: str) -> Login | None:
        return self._read().logins.get(url)

    def save(self, url: str, login: Login) -> None:
        stored = self._read()
        stored.logins[url] = login
        self._write(stored)

    def remove(self, url: str) -> bool:
        stored = self._read()
        if stored.logins.pop(url, None) is None:
            return False
        self._write(stored)
        return True

    def _read(self) -> _Logins:
        try:
            with open(self.path, "rb", opener=_open_at_once) as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise StoreError(f"{self.path} is not a regular file: remove it")
                return msgspec.json.decode(file.read(_MOST_BYTES), type=_Logins)
        except FileNotFoundError:
            return _Logins()
        except OSError as error:
            raise StoreError(f"{self.path} cannot be read: {error.strerror}") from None
        except (msgspec.MsgspecError, RecursionError):
            raise StoreError(f"{self.path} is damaged: remove it and log in again") from None

    def _write(self, stored: _Logins) -> None:
        new = f"{self.path}.{os.getpid()}"
        try:
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            with open(new, "wb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o600)) as file:
                os.fchmod(file.fileno(), 0o600)  # a file that was left behind may have another mode
                file.write(msgspec.json.format(msgspec.json.encode(stored)))
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, self.path)
        except OSError as error:
            raise StoreError(f"{self.path} cannot be written: {error.strerror}") from None


class KeyringStore:
    """Logins in the keyring of the system, one entry for each server."""

    def __init__(self) -> None:
        try:
            self._keyring = import_module("keyring")
        except ImportError:
            text = 'the setting token_store = "keyring" needs the package keyring: pip install keyring'
            raise StoreError(text) from None

    def load(self, url: str) -> Login | None:
        with _keyring_faults():
            text = self._keyring.get_password(_SERVICE, url)
        try:
            return msgspec.json.decode(text, type=Login) if text else None
        except (msgspec.MsgspecError, RecursionError):
            return None

    def save(self, url: str, login: Login) -> None:
        with _keyring_faults():
            self._keyring.set_password(_SERVICE, url, msgspec.json.encode(login).decode())

    def remove(self, url: str) -> bool:
        with _keyring_faults():
            if self._keyring.get_password(_SERVICE, url) is None:
                return False
            self._keyring.delete_password(_SERVICE, url)
            return True


@asynccontextmanager
async def locked(env: Mapping[str, str]) -> AsyncIterator[None]:
    """Keep other processes from changing logins. It does not block.

    The file is read, changed and written. And many servers accept a token for renewal only once, so two engines must
    not renew the same login at the same time.
    Raises StoreError if the lock is not free in time.
    """
    import fcntl

    path = f"{tokens_file(env)}.lock"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}") from None
    try:
        for _ in range(round(_LOCK_TIMEOUT / _LOCK_PAUSE)):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(_LOCK_PAUSE)
        else:
            raise StoreError("another process is changing the stored logins")
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _keyring_faults() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001  (its backends raise whatever the system's services do)
        raise StoreError(f"the keyring cannot be used: {type(error).__name__}") from None


def _open_at_once(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY)
