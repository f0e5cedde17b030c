"""`polylect mcp` with real servers: what it shows, what it calls and what it writes."""

import json
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from engine_process import Outcome, Place
from machine import PATIENCE
from mcp_servers.oauth_double import oauth_double

pytestmark = pytest.mark.long

PLAIN = Path(__file__).parents[2] / "mcp_servers" / "plain.py"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def server(name: str, way: str, argument: str = "", more: str = "") -> str:
    return f"[mcp.servers.{name}]\ncommand = '{sys.executable}'\nargs = ['{PLAIN}', '{way}', '{argument}']\n{more}\n"


def read_json(done: Outcome) -> Any:
    return json.loads(done.out)


def test_every_server_is_listed_with_its_state_and_its_cost(place: Place) -> None:
    broken = '[mcp.servers.broken]\nurl = "ftp://x"\n[mcp.servers.gone]\ncommand = "no-such-program"\n'
    off = '[mcp.servers.off]\nurl = "https://user:key@tracker.example/mcp?key=secret"\ndisabled = true\n'
    place.configure(server("good", "Works") + server("dies", "Dies") + broken + off)
    rows = {row["name"]: row for row in read_json(place.run("mcp", "list", "--json"))}
    states = {name: (row["state"], row["transport"], row["tools"], row["runs"]) for name, row in rows.items()}
    python = Path(sys.executable).name
    assert states == {
        "good": ("ready", "stdio", 1, python),
        "dies": ("failed", "stdio", None, python),
        "broken": ("failed", "", None, "-"),
        "gone": ("failed", "stdio", None, "no-such-program"),
        "off": ("disabled", "http", None, "tracker.example"),
    }
    assert rows["good"]["sources"] == [str(place.settings)]
    [tool] = read_json(place.run("mcp", "tools", "good", "--json"))
    assert rows["good"]["tokens"] == tool["tokens"] > 0
    assert "KeyError: 'no database'" in rows["dies"]["reason"]
    table = place.run("mcp", "list")
    assert (table.code, "secret" in table.out.decode(), "~/config/polylect" in table.out.decode()) == (0, False, True)
    assert f"1 tool takes {tool['tokens']} tokens of every request" in table.out.decode()


def test_listing_without_connecting_starts_nothing(place: Place, tmp_path: Path) -> None:
    trace = tmp_path / "started"
    place.configure(f"[mcp.servers.one]\ncommand = 'sh'\nargs = ['-c', 'touch {trace}']\n")
    [row] = read_json(place.run("mcp", "list", "--no-connect", "--json"))
    assert (row["state"], trace.exists()) == ("not tried", False)
    assert b"No MCP server is configured" in Place(tmp_path / "other").run("mcp", "list").out


def test_servers_of_a_project_count_where_it_is_trusted(place: Place) -> None:
    folder = place.workspace / ".polylect"
    folder.mkdir()
    (folder / "config.toml").write_text(server("theirs", "Works"))
    place.configure(server("mine", "Works"))
    done = place.run("mcp", "list", "--no-connect", "--json")
    assert [row["name"] for row in read_json(done)] == ["mine"]
    assert "--trust-workspace" in done.errors
    rows = read_json(place.run("mcp", "list", "--no-connect", "--json", "--trust-workspace"))
    assert [(row["name"], row["sources"]) for row in rows] == [
        ("mine", [str(place.settings)]),
        ("theirs", [str(folder / "config.toml")]),
    ]


def test_connectors_of_wayland_desktop_count_where_a_host_of_it_would_start_us(place: Place, tmp_path: Path) -> None:
    home = tmp_path / "wayland"
    home.mkdir()
    (home / "config.toml").write_text(server("desk", "Works") + "[profiles.one]\nmcp_servers = ['desk']\n")
    env = {"WAYLAND_HOME": str(home)}
    assert read_json(place.run("mcp", "list", "--no-connect", "--json", env=env)) == []
    [row] = read_json(place.run("mcp", "list", "--no-connect", "--json", "--profile", "one", env=env))
    assert (row["name"], row["sources"]) == ("desk", ["Wayland Desktop"])


def test_servers_beyond_the_budget_are_marked(place: Place) -> None:
    place.configure("[mcp]\nsearch_above_tokens = 100\n" + server("many", "Many", "50"))
    assert read_json(place.run("mcp", "list", "--json"))[0]["found_by_search"] is True
    text = place.run("mcp", "list").out.decode()
    assert "found by search" in text
    assert "0 tools take 0 tokens of every request. Beyond 100 tokens servers are found by search." in text


def test_a_test_shows_what_a_server_offers(place: Place) -> None:
    place.configure(server("greets", "Greets"))
    done = place.run("mcp", "test", "greets", "--json")
    shown = read_json(done)
    assert (done.code, shown["state"], shown["server"], shown["prompts"]) == (0, "ready", "plain 1", ["greet"])
    assert [tool["name"] for tool in shown["tools"]] == ["echo"]
    assert (shown["revision"], shown["capabilities"]) == ("2025-11-25", ["tools", "prompts"])
    text = place.run("mcp", "test", "greets").out.decode()
    assert text.startswith("greets: ready after ")
    assert "  prompts     greet\n" in text


@pytest.mark.parametrize(
    ("toml", "reason", "advice"),
    [
        (server("bad", "Dies"), "KeyError: 'no database'", "Start it by hand"),
        ('[mcp.servers.bad]\ncommand = "no-such-program"\n', "There is no program", "Install the program"),
        ('[mcp.servers.bad]\nurl = "http://127.0.0.1:9/mcp"\n', "cannot be reached", "whether it runs"),
        ('[mcp.servers.bad]\nurl = "ftp://x"\n', "mcp.servers.bad.url", "Correct its settings"),
        ('[mcp.servers.bad]\ncommand = "x"\ndisabled = true\n', "", "disabled in the settings"),
    ],
)
def test_a_test_that_fails_says_why_and_what_to_do(place: Place, toml: str, reason: str, advice: str) -> None:
    place.configure(toml)
    done = place.run("mcp", "test", "bad", "--json")
    shown = read_json(done)
    assert done.code == 1
    assert (reason in shown["reason"], advice in shown["advice"]) == (True, True), shown
    text = place.run("mcp", "test", "bad").out.decode()
    assert advice in text
    assert ("wrote to stderr at last:\n    Traceback ...\n    KeyError: 'no database'\n" in text) == ("Dies" in toml)


def test_resources_are_shown_once_they_are_listed(place: Place) -> None:
    place.configure(server("lists", "Lists", "3"))
    shown = read_json(place.run("mcp", "test", "lists", "--json"))
    assert (shown["prompts"], shown["resources"]) == (["p0", "p1", "p2"], ["a:0", "a:1", "a:2"])


def test_people_are_shown_the_first_of_many(place: Place) -> None:
    place.configure(server("lists", "Lists", "60") + server("many", "Many", "60"))
    assert "p48, p49, and 10 more\n" in place.run("mcp", "test", "lists").out.decode()
    assert place.run("mcp", "test", "many").out.decode().endswith("    tool_49\n    and 10 more\n")


def test_tools_are_listed_with_their_tokens(place: Place) -> None:
    place.configure(server("many", "Many", "2") + server("gone", "Dies"))
    done = place.run("mcp", "tools")
    lines = done.out.decode().splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "mcp__many__tool_0", "mcp__many__last"]
    assert (done.code, "gone: " in done.errors) == (1, True)
    rows = read_json(place.run("mcp", "tools", "many", "--json"))
    assert [(row["name"], row["full_name"], row["model_name"]) for row in rows][1] == (
        "last",
        "mcp__many__last",
        "last",
    )
    assert rows[0]["schema"]["properties"]["depth"] == {"type": "integer"}


def test_a_tool_is_called_with_json_or_pairs_or_stdin(place: Place) -> None:
    place.configure(server("one", "Works"))
    call = ("mcp", "call", "one", "echo")
    assert place.run(*call, "a=1", "b=x=y", 'c=["d"]').out == b'{"a": 1, "b": "x=y", "c": ["d"]}\n'
    assert place.run(*call, '{"a": {"b": null}}').out == b'{"a": {"b": null}}\n'
    assert place.run(*call, "-", given=b'{"a": 2}').out == b'{"a": 2}\n'
    assert place.run("mcp", "call", "one", "mcp__one__echo").out == b"{}\n"
    shown = read_json(place.run(*call, "a=1", "--json"))
    assert shown == {"ok": True, "output": '{"a": 1}', "structured": None, "images": []}


def test_a_long_result_is_shown_as_a_whole(place: Place) -> None:
    place.configure(server("one", "Works"))
    long = "x" * 100_000
    assert json.loads(place.run("mcp", "call", "one", "echo", f"a={long}").out) == {"a": long}


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["many", "last", "depth=deep"], 2, "depth: expected integer, got a string"),
        (["many", "last", "{"], 2, "the arguments are not JSON"),
        (["many", "last", "depth"], 2, "'depth' is not like KEY=VALUE"),
        (["many", "lst"], 2, "did you mean last?"),
        (["mny", "last"], 2, "did you mean many?"),
        (["many"], 2, "usage: "),
        (["crashes", "echo"], 1, "MCP server crashes: "),
        (["dies", "echo"], 1, "KeyError: 'no database'"),
    ],
)
def test_a_call_that_cannot_be_made_or_fails_says_why(place: Place, words: list[str], code: int, message: str) -> None:
    crashes = place.folder / "crashes"
    crashes.write_text("xxx")
    place.configure(server("many", "Many", "2") + server("crashes", "Crashes", str(crashes)) + server("dies", "Dies"))
    done = place.run("mcp", "call", *words)
    assert (done.code, done.out, message in done.errors) == (code, b"", True), done.errors


def test_a_server_is_added_tried_and_removed(place: Place) -> None:
    place.configure("# mine\n")
    added = place.run(
        "mcp", "add", "one", "--env", "A=${HOME}", "--deferred", "--", sys.executable, str(PLAIN), "Works"
    )
    assert (added.code, added.errors) == (0, "")
    table = tomllib.loads(place.settings.read_text())["mcp"]["servers"]["one"]
    assert table == {
        "command": sys.executable,
        "args": [str(PLAIN), "Works"],
        "env": {"A": "${HOME}"},
        "deferred": True,
    }
    assert place.run("mcp", "test", "one").code == 0
    assert place.run("mcp", "remove", "one").code == 0
    assert place.settings.read_text().strip() == "# mine"


def test_an_address_is_added_with_its_headers(place: Place) -> None:
    words = ["mcp", "add", "web", "https://x.example/mcp", "--header", "Authorization: Bearer ${TOKEN}"]
    missing = place.run(*words)
    assert (missing.code, "the environment has no TOKEN" in missing.errors) == (1, True)
    assert place.run(*words, env={"TOKEN": "t"}).code == 0
    assert place.run("mcp", "add", "old", "http://x.example/sse", "--transport", "sse").code == 0
    servers = tomllib.loads(place.settings.read_text())["mcp"]["servers"]
    assert servers["web"]["headers"] == {"Authorization": "Bearer ${TOKEN}"}
    assert [server["transport"] for server in servers.values()] == ["streamable-http", "sse"]


def test_a_key_in_a_file_that_others_can_read_is_remarked_on(place: Place) -> None:
    place.configure("# mine\n")
    place.settings.chmod(0o644)
    done = place.run("mcp", "add", "web", "https://x.example/mcp", "--header", "Authorization: Bearer t")
    assert (done.code, "others can read" in done.errors) == (0, True)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, ""),
        (["lst"], 2, "did you mean list?"),
        (["list", "x"], 2, "one word too many"),
        (["list", "--jsn"], 2, "did you mean --json?"),
        (["add", "a__b", "--", "x"], 2, "two underscores"),
        (["add", "one", "--", "x"], 1, "there is a server one"),
        (["add", "two", "https://x.example", "--env", "A=1"], 2, "--env has no meaning for an address"),
        (["add", "two", "x", "--header", "A: 1"], 2, "--header has no meaning for a command"),
        (["add", "two", "https://x.example", "y"], 2, "one word too many"),
        (["add", "two", "https://x.example", "--transport", "pigeon"], 1, "there is no 'pigeon'"),
        (["add", "two", "x", "--env", "A"], 2, "--env takes KEY=VALUE"),
        (["add", "two"], 2, "a word is missing"),
        (["remove", "two"], 1, "there is no server two"),
        (["test", "two"], 2, "there is no MCP server 'two'; there are one"),
    ],
)
def test_wrong_words_change_nothing(place: Place, words: list[str], code: int, message: str) -> None:
    place.configure(server("one", "Works"))
    before = place.settings.read_text()
    done = place.run("mcp", *words)
    assert (done.code, message in done.errors) == (code, True), done.errors
    assert place.settings.read_text() == before


def test_help_of_a_command_that_is_added_is_not_ours(place: Place) -> None:
    assert place.run("mcp", "add", "one", "--", "npx", "--help").code == 0
    assert tomllib.loads(place.settings.read_text())["mcp"]["servers"]["one"]["args"] == ["--help"]
    assert b"usage: polylect mcp" in place.run("mcp", "add", "--help").out


def test_a_login_by_a_code_is_stored_and_forgotten(place: Place) -> None:
    with oauth_double() as double:
        place.configure(f'[mcp.servers.far]\nurl = "{double.mcp}"\n')
        failed = read_json(place.run("mcp", "test", "far", "--json"))
        assert "run `polylect mcp login far`" in failed["reason"]
        done = place.run("mcp", "login", "far", "--device")
        assert (done.code, done.errors) == (0, "")
        shown = done.out.decode().splitlines()
        assert shown[0] == f"Open {double.url}/as/enter on any device and enter the code WDJB-MJHT"
        assert shown[1] == "You are logged in at far. Try it: polylect mcp test far"
        assert place.run("mcp", "logout", "far").out == b"The login at far is forgotten.\n"
        assert place.run("mcp", "logout", "far").out == b"There is no login at far.\n"


def test_a_login_without_a_browser_shows_the_address_at_once(place: Place) -> None:
    with oauth_double() as double:
        place.configure(f'[mcp.servers.far]\nurl = "{double.mcp}"\n')
        argv = [sys.executable, "-m", "polylect", "mcp", "login", "far", "--no-browser"]
        with subprocess.Popen(argv, env=place.env, stdout=subprocess.PIPE, text=True) as login:
            assert login.stdout
            assert login.stdout.readline() == "Open this in a browser:\n"
            with urllib.request.urlopen(login.stdout.readline().strip(), timeout=PATIENCE):
                pass
            assert "You are logged in at far." in login.stdout.read()
        assert login.returncode == 0


def test_a_server_without_an_address_has_no_login(place: Place) -> None:
    place.configure(server("one", "Works"))
    done = place.run("mcp", "login", "one")
    assert (done.code, "one has no url" in done.errors) == (1, True)
