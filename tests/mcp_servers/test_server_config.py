"""What a configuration says of servers is read whole or refused by name."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from polylect.mcp.server_config import ServerConfigError, servers_from
from polylect.system.child_environment import server_environment
from polylect.vocab.content import Server

TEXT = """
[files]
command = "npx"
args = ["-y", "@example/server-files", "${HOME}/notes"]
env = { TOKEN = "${FILES_TOKEN}" }

[search]
transport = "streamable-http"
url = "https://search.example/mcp"
headers = { Authorization = "Bearer ${FILES_TOKEN}" }
deferred = true

[old]
transport = "sse"
url = "http://127.0.0.1:8000/sse"

[short]
url = "https://short.example/mcp"
disabled = true
"""


def test_servers_are_read_with_variables_filled_in() -> None:
    assert servers_from(tomllib.loads(TEXT), {"HOME": "/home/ada", "FILES_TOKEN": "t0p"}) == [
        Server("files", "stdio", "npx", ("-y", "@example/server-files", "/home/ada/notes"), {"TOKEN": "t0p"}),
        Server(
            "search",
            "http",
            url="https://search.example/mcp",
            headers={"Authorization": "Bearer t0p"},
            extras={"deferred": True},
        ),
        Server("old", "sse", url="http://127.0.0.1:8000/sse"),
        Server("short", "http", url="https://short.example/mcp", extras={"disabled": True}),
    ]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"a": 5}, "mcp.servers.a is a table"),
        ({" ": {"command": "x"}}, "a server needs a name"),
        ({"a": {}}, "mcp.servers.a needs a command or a url"),
        ({"a": {"transport": "stdio"}}, "mcp.servers.a has the transport stdio and needs a command"),
        ({"a": {"transport": "sse", "command": "x"}}, "mcp.servers.a has the transport sse and needs a url"),
        ({"a": {"transport": "carrier-pigeon"}}, "there is no 'carrier-pigeon'; choose stdio, sse or streamable-http"),
        ({"a": {"url": "ftp://x"}}, "mcp.servers.a.url has to begin with http:// or https://"),
        ({"a": {"comand": "x"}}, "mcp.servers.a has no setting comand"),
        ({"a": {"command": ["x"]}}, "mcp.servers.a.command has to be a text$"),
        ({"a": {"url": "https://x", "headers": "Bearer secret"}}, "mcp.servers.a.headers has to be a table of texts$"),
        ({"a": {"url": "https://x", "headers": {"A: x\r\nB": "y"}}}, "a header cannot be named"),
        ({"a": {"url": "http://[127.0.0.1/p"}}, "a bracket too many or too few"),
        ({"a": {"command": "x", "args": [1]}}, "mcp.servers.a.args takes strings only"),
        ({"a": {"command": "x", "env": {"A": 1}}}, "mcp.servers.a.env takes strings only"),
        ({"a": {"command": "x", "env": {"A": "${NOPE}"}}}, r"env.A wants \$\{NOPE\}, and the environment has no NOPE"),
    ],
)
def test_what_is_wrong_is_named(table: dict[str, Any], message: str) -> None:
    with pytest.raises(ServerConfigError, match=message):
        servers_from(table)


def test_the_example_of_the_guide_is_right() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text()
    table = tomllib.loads(guide.split("```toml\n")[1].split("```")[0])["mcp"]["servers"]
    servers = servers_from(table, {"HOME": "/home/ada", "TRACKER_TOKEN": "t0p"})
    assert [(server.name, server.transport) for server in servers] == [
        ("files", "stdio"),
        ("tracker", "http"),
        ("old", "sse"),
    ]


def test_P5_a_server_gets_little_of_our_environment_and_all_of_its_own() -> None:
    ours = {
        "PATH": "/bin",
        "HOME": "/home/ada",
        "DATABASE_URL": "postgres://ada:secret@db",
        "HTTPS_PROXY": "http://ada:secret@proxy",
        "http_proxy": "http://proxy",
    }
    assert server_environment(ours, {"TOKEN": "x", "PATH": "/opt/bin"}) == {
        "PATH": "/opt/bin",
        "HOME": "/home/ada",
        "http_proxy": "http://proxy",
        "TOKEN": "x",
    }


def test_a_server_inside_the_host_has_only_a_name() -> None:
    table = {"calc": {"type": "sdk", "name": "calc"}, "shop": {"transport": "host"}}
    assert servers_from(table) == [Server("calc", "host"), Server("shop", "host")]


def test_a_client_that_is_registered_for_logins_is_read_whole() -> None:
    oauth = {"client_id": "polylect", "client_secret": "${SECRET}", "callback_port": "8123"}
    (server,) = servers_from({"far": {"url": "https://far.example/mcp", "oauth": oauth}}, {"SECRET": "s"})
    assert server.extras["oauth"] == {"client_id": "polylect", "client_secret": "s", "callback_port": "8123"}
    with pytest.raises(ServerConfigError, match=r"mcp\.servers\.far\.oauth has no setting key; there are client_id, "):
        servers_from({"far": {"url": "https://far.example/mcp", "oauth": {"key": "x"}}})
