"""`polylect mcp login` with a real authorization server and a browser that is a command."""

import shlex
import sys
from pathlib import Path

import pytest

from engine_process import Place
from mcp_servers.oauth_double import oauth_double

pytest.importorskip("mcp")

BROWSER = f"{shlex.quote(sys.executable)} -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1])' %s"


def test_a_login_in_a_browser_makes_the_server_usable(tmp_path: Path) -> None:
    place = Place(tmp_path)
    env = {"BROWSER": BROWSER}
    with oauth_double() as double:
        place.configure(f'[mcp.servers.far]\nurl = "{double.mcp}"\n')
        before = place.run("mcp", "test", "far")
        assert "run `polylect mcp login far`" in before.out.decode()
        done = place.run("mcp", "login", "far", env=env)
        assert (done.code, done.errors) == (0, "")
        assert done.out.decode().splitlines()[-1] == "You are logged in at far. Try it: polylect mcp test far"
        assert "access-" not in done.out.decode()
        (token,) = double.valid
        assert token in (place.settings.parent / "mcp-tokens.json").read_text()
        after = place.run("mcp", "test", "far")
        assert (after.code, after.out.decode().splitlines()[-1].strip()) == (0, "hello")


def test_a_login_that_is_refused_says_why(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with oauth_double(refuse_login=True) as double:
        place.configure(f'[mcp.servers.far]\nurl = "{double.mcp}"\n')
        done = place.run("mcp", "login", "far", env={"BROWSER": BROWSER})
        assert (done.code, done.errors) == (1, "polylect mcp: the login was refused: access_denied: no\n")
