"""`polylect login` and `polylect logout`: store the key of a model's service for this user, and remove it.

Keys are kept in `credentials.toml` beside the user's settings, which only the user can read (mode 600) and the sandbox
hides from commands. A key in the environment, in a flag or in the settings is stronger. Editors that speak ACP run
`polylect --acp login` in a terminal when a session cannot be opened for want of a key.
"""

import json
import os
import sys
from collections.abc import Callable
from getpass import getpass

from polylect.app.cli.terminal import print_error, print_line
from polylect.app.startup import config
from polylect.app.startup.nearest_word import hint
from polylect.providers.check import check, describe, providers

Command = Callable[[str, str, dict[str, str]], int]
"""Gets a provider (empty for none), the path of the file and the environment; returns the exit code."""
USAGE = """\
usage: polylect login [PROVIDER]    asks for the key of a model's service and stores it for you alone
       polylect logout [PROVIDER]   removes what was stored, of one service or of all
  In a script: polylect login PROVIDER < FILE_WITH_THE_KEY"""


def main(words: list[str]) -> int:
    """`--remove`, before any other word, is how `app/main.py` passes `polylect logout` on."""
    remove = words[:1] == ["--remove"]
    command: Command = _logout if remove else _login
    words = words[1:] if remove else words
    env = dict(os.environ)
    if len(words) > 1 or any(word.startswith("-") for word in words):
        print(USAGE, file=sys.stderr)
        return 2
    try:
        return command(words[0] if words else "", config.credentials_file(env), env)
    except EOFError:
        print_error("there was nothing to read: give the provider, and the key on stdin")
    except config.ConfigError as error:
        print_error(error)
    except OSError as error:
        print_error(f"{error.filename}: {error.strerror}")
    return 1


def _login(provider: str, path: str, env: dict[str, str]) -> int:
    services = [name for name in providers() if _takes_one_key(name)]
    provider = provider or _choose(services)
    if provider not in services:
        names = f"services are {', '.join(services)}"
        print_error(f"there is no service {provider!r} that takes a key; {hint(provider, services, names)}")
        return 2
    key = _read_key(provider)
    if not key:
        print_error("nothing was entered, and nothing is changed")
        return 1
    if fault := check(provider, api_key=key, env=env):
        print_error(fault)
        return 1
    _write(path, {**config.stored_keys(path), provider: key})
    print_line(f"The key for {provider} is stored in {path}. `polylect doctor --online` tries it.")
    variables = [name for name in describe(provider).key_variables if env.get(name)]
    if variables:
        print_line(f"{variables[0]} is set and is used in its place.")
    return 0


def _logout(provider: str, path: str, env: dict[str, str]) -> int:
    stored = config.stored_keys(path)
    if not stored or (provider and provider not in stored):
        print_line(f"No key is stored{f' for {provider}' if provider else ''}.")
        return 0
    names = [provider] if provider else list(stored)
    if left := {name: key for name, key in stored.items() if name not in names}:
        _write(path, left)
    else:
        os.unlink(path)
    print_line(f"Removed: {', '.join(names)}.")
    return 0


def _takes_one_key(provider: str) -> bool:
    """Whether a key is all that a service needs; some want a project or a region as well."""
    description = describe(provider)
    return bool(description.key_variables) and (description.key_variables[0],) in description.credentials


def _choose(services: list[str]) -> str:
    """Asks for a service by its number or its name."""
    for number, name in enumerate(services, 1):
        print_line(f"  {number}. {name}")
    answer = input("Whose key do you have? Number or name: ").strip()
    return services[int(answer) - 1] if answer.isdigit() and 0 < int(answer) <= len(services) else answer


def _read_key(provider: str) -> str:
    """A key as it is typed, without showing it; from a script, the first line of stdin."""
    if sys.stdin.isatty():
        return getpass(f"Key for {provider} (it is not shown): ").strip()
    return sys.stdin.readline().strip()


def _write(path: str, keys: dict[str, str]) -> None:
    """Replaces the file as a whole, so that nobody ever reads half of it."""
    # A text of printable ASCII, as a key is, is written in JSON as in TOML.
    text = "".join(f"[providers.{name}]\napi_key = {json.dumps(key)}\n" for name, key in sorted(keys.items()))
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    new = f"{path}.{os.getpid()}"
    with open(new, "x", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write("# Written by `polylect login`.\n" + text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
