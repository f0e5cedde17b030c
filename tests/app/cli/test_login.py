"""`polylect login` and `logout`: a key is stored for the user alone, and is the weakest place that a key can be in."""

import os
import pty
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from engine_process import PATIENCE, Place

KEY = "sk-ant-0123456789"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def credentials(place: Place) -> Path:
    return Path(place.env["XDG_CONFIG_HOME"], "polylect", "credentials.toml")


def provider_in_use(place: Place) -> str:
    """What `doctor` says about the settings that an engine would start with, if nobody names a provider."""
    lines = place.run("doctor", env={"POLYLECT_PROVIDER": ""}).out.decode().splitlines()
    return next(line for line in lines if " start " in line)


@pytest.mark.parametrize(
    "words", [["login", "anthropic"], ["--acp", "login", "anthropic"], ["acp", "login", "anthropic"]]
)
def test_a_key_is_stored_where_only_the_user_can_read_it(place: Place, words: list[str]) -> None:
    outcome = place.run(*words, given=f"{KEY}\n".encode())
    assert (outcome.code, KEY in outcome.out.decode() + outcome.errors) == (0, False)
    assert stat.S_IMODE(credentials(place).stat().st_mode) == 0o600
    assert "anthropic" in provider_in_use(place)


def test_a_key_that_is_typed_is_not_shown(place: Place) -> None:
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "polylect", "login"]
    with subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, env=place.env, start_new_session=True
    ) as login:
        os.close(terminal)
        screen = read_until(controller, b"name: ")
        os.write(controller, b"2\n")
        screen += read_until(controller, b"not shown): ")
        os.write(controller, b"sk-typed-0123456789\n")
        screen += read_until(controller, b"tries it.")
        assert login.wait(PATIENCE) == 0
    os.close(controller)
    assert b"sk-typed" not in screen
    assert 'openai]\napi_key = "sk-typed-0123456789"' in credentials(place).read_text()


def test_a_key_in_the_environment_is_stronger(place: Place) -> None:
    place.run("login", "openai", given=b"sk-stored-0123456789\n")
    assert "openai" in provider_in_use(place)
    outcome = place.run("login", "openai", given=b"sk-new-0123456789\n", env={"OPENAI_API_KEY": "sk-other"})
    assert "OPENAI_API_KEY is set and is used in its place." in outcome.out.decode()


def test_one_service_or_all_are_forgotten(place: Place) -> None:
    for service in ("anthropic", "openai"):
        place.run("login", service, given=b"sk-0123456789\n")
    assert place.run("logout", "openai").out == b"Removed: openai.\n"
    assert "openai" not in credentials(place).read_text()
    assert place.run("logout").out == b"Removed: anthropic.\n"
    assert not credentials(place).exists()
    assert place.run("logout").out == b"No key is stored.\n"


@pytest.mark.parametrize(
    ("words", "given", "message"),
    [
        (["login", "antropic"], b"", "did you mean anthropic?"),
        (["login", "anthropic"], b"", "nothing was entered, and nothing is changed"),
        (["login", "anthropic"], b"my key\n", "the API key holds characters that no key has"),
        (["login"], b"", "give the provider, and the key on stdin"),
        (["login", "anthropic", "openai"], b"", "usage: polylect login"),
    ],
)
def test_a_mistake_changes_nothing_and_says_what_to_do(
    place: Place, words: list[str], given: bytes, message: str
) -> None:
    outcome = place.run(*words, given=given)
    assert (outcome.code > 0, message in outcome.errors, credentials(place).exists()) == (True, True, False)


def test_a_file_that_cannot_be_read_is_named(place: Place) -> None:
    credentials(place).parent.mkdir(parents=True)
    credentials(place).write_text("[providers")
    outcome = place.run("login", "anthropic", given=f"{KEY}\n".encode())
    assert (outcome.code, str(credentials(place)) in outcome.errors) == (1, True)
    assert credentials(place).read_text() == "[providers"


def read_until(descriptor: int, text: bytes) -> bytes:
    """What a terminal shows up to this text."""
    screen = b""
    while text not in screen:
        screen += os.read(descriptor, 4096)
    return screen
