"""Logins at a remote server, end to end: a real authorization server on loopback, and a browser that is a function."""

import asyncio
import json
import os
import socket
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from machine import PATIENCE
from mcp_servers.http_double import Client, result
from mcp_servers.oauth_double import OAuthDouble, oauth_double
from polylect.app.startup.config import credentials_file
from polylect.mcp.auth.token_store import FileStore, Login, StoreError, open_store, tokens_file
from polylect.mcp.server_log import ServerLog
from polylect.mcp.transports.base import Failed
from polylect.mcp.transports.streamable_http import StreamableHttp
from polylect.mcp.values import ServerSetup
from polylect.tools.process.custody import Custody
from polylect.vocab.content import Server

pytest.importorskip("mcp")

from polylect.mcp.auth.oauth import LoginError, login, logout

pytestmark = pytest.mark.long


def browse(url: str) -> bool:
    """Follows redirects, as a browser does with a user who is logged in everywhere."""
    with urllib.request.urlopen(url, timeout=PATIENCE) as page:
        assert page.status == 200
    return True


def log_in(
    double: OAuthDouble, home: Path, browser: Callable[[str], bool] | None = browse, **options: Any
) -> tuple[Login, list[str]]:
    """What a login has stored, and what it showed."""
    env, shown = {"HOME": str(home)}, list[str]()
    server = Server("far", "http", url=double.mcp, extras=options.pop("extras", {}))
    options = {"timeout": PATIENCE, **options}
    asyncio.run(login(server, env, open_store(env), show=shown.append, browser=browser, **options))
    stored = open_store(env).load(double.mcp)
    assert stored
    return stored, shown


def fault(double: OAuthDouble, home: Path, **options: Any) -> str:
    with pytest.raises(LoginError) as caught:
        log_in(double, home, **options)
    assert not Path(tokens_file({"HOME": str(home)})).exists()
    return str(caught.value)


def ask(double: OAuthDouble, home: Path, *ids: int, method: str = "tools/call", **headers: str) -> list[Any]:
    """What a transport gets for these requests, sent at once."""

    async def main() -> list[Any]:
        server = Server("far", "http", url=double.mcp, headers=headers)
        setup = ServerSetup(Custody(), {"HOME": str(home)}, str(home), lambda _: None)
        client = Client(StreamableHttp(server, setup, ServerLog(server)))
        await client.transport.start()
        for id in ids:
            client.request(id, method)
        items = [await client.receive() for _ in ids]
        await client.transport.close()
        return items

    return asyncio.run(main())


def test_a_login_finds_registers_asks_and_stores(tmp_path: Path) -> None:
    with oauth_double() as double:
        stored, shown = log_in(double, tmp_path)
        assert stored.access_token == "access-3"
        assert stored.refresh_token == "renewal-3"
        assert stored.issuer == f"{double.url}/as"
        assert stored.client_id == "client-1"
        assert 3500 < stored.expires_at - time.time() <= 3600
        assert double.seen == [
            "POST /mcp",
            "GET /.well-known/oauth-protected-resource/mcp",
            "GET /.well-known/oauth-authorization-server/as",
            "POST /as/register",
            "GET /as/authorize",
            "POST /as/token",
            "POST /mcp",
        ]
        (client,) = double.registered.values()
        assert (client["client_name"], client["application_type"]) == ("polylect", "native")
        assert urlsplit(client["redirect_uris"][0]).hostname == "127.0.0.1"
        assert double.forms[0]["resource"] == double.mcp
        assert shown[0] == "Log in in your browser. If no page opens there, open:"
        assert shown[1].startswith(f"{double.url}/as/authorize?")
        assert ask(double, tmp_path, 1) == [result(1, token="access-3")]


def test_tokens_are_in_a_file_that_only_the_user_can_read_beside_the_keys(tmp_path: Path) -> None:
    with oauth_double() as double:
        old = os.umask(0)
        try:
            log_in(double, tmp_path)
        finally:
            os.umask(old)
    path = tokens_file({"HOME": str(tmp_path)})
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
    for env in ({"HOME": str(tmp_path)}, {"HOME": "/x", "XDG_CONFIG_HOME": str(tmp_path)}, {"XDG_CONFIG_HOME": "rel"}):
        assert os.path.dirname(tokens_file(env)) == os.path.dirname(credentials_file(env))


def test_without_a_browser_the_address_is_shown(tmp_path: Path) -> None:
    with oauth_double() as double:
        shown: list[str] = []

        def show(text: str) -> None:
            shown.append(text)
            if text.startswith("http"):
                asyncio.get_running_loop().run_in_executor(None, browse, text)

        env = {"HOME": str(tmp_path)}
        server = Server("far", "http", url=double.mcp)
        asyncio.run(login(server, env, open_store(env), show=show, browser=None))
        assert shown[0] == "Open this in a browser:"
        assert open_store(env).load(double.mcp)


def test_a_device_code_needs_no_browser_here(tmp_path: Path) -> None:
    with oauth_double() as double:
        stored, shown = log_in(double, tmp_path, None, device=True)
        assert shown == [f"Open {double.url}/as/enter on any device and enter the code WDJB-MJHT"]
        assert stored.refresh_token
        assert [form.get("device_code") for form in double.forms] == ["d", "d"]
        assert "GET /as/authorize" not in double.seen
        assert ask(double, tmp_path, 1) == [result(1, token=stored.access_token)]
    with oauth_double(metadata={"device_authorization_endpoint": None}) as double:
        place = tmp_path / "other"
        assert fault(double, place, device=True) == ("the server has no login by device code: log in without --device")


def test_a_client_that_is_registered_already_is_used(tmp_path: Path) -> None:
    with oauth_double() as double:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
        double.registered["mine"] = {"redirect_uris": [f"http://127.0.0.1:{port}/callback"]}
        oauth = {"client_id": "mine", "client_secret": "s", "callback_port": str(port), "scope": "more"}
        seen: list[str] = []

        def browser(url: str) -> bool:
            seen.append(url)
            return browse(url)

        stored, _ = log_in(double, tmp_path, browser, extras={"oauth": oauth})
        assert (stored.client_id, stored.client_secret, stored.auth_method) == ("mine", "s", "client_secret_post")
        assert "POST /as/register" not in double.seen
        assert double.forms[0]["client_secret"] == "s"
        assert "scope=more&" in f"{seen[0]}&"


def test_a_secret_goes_into_a_header_where_the_server_takes_it_only_there(tmp_path: Path) -> None:
    methods = {"token_endpoint_auth_methods_supported": ["client_secret_basic"]}
    with oauth_double(metadata=methods) as double:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
        double.registered["mine"] = {"redirect_uris": [f"http://127.0.0.1:{port}/callback"]}
        oauth = {"client_id": "mine", "client_secret": "s", "callback_port": str(port)}
        stored, _ = log_in(double, tmp_path, browse, extras={"oauth": oauth})
        assert stored.auth_method == "client_secret_basic"
        assert "client_secret" not in double.forms[0]


# Logins that fail.


def test_a_login_that_the_user_refuses(tmp_path: Path) -> None:
    with oauth_double(refuse_login=True) as double:
        assert fault(double, tmp_path) == "the login was refused: access_denied: no"


def test_a_redirect_with_another_state_changes_nothing_and_the_wait_ends(tmp_path: Path) -> None:
    statuses: list[int] = []

    def browser(url: str) -> bool:
        try:
            browse(url)
        except urllib.error.HTTPError as error:
            statuses.append(error.code)
        return True

    with oauth_double(wrong_state=True) as double:
        assert fault(double, tmp_path, browser=browser, timeout=0.5) == "nobody has logged in within 0.5 s"
    assert statuses == [400]


def test_strangers_at_the_listener_do_not_disturb_a_login(tmp_path: Path) -> None:
    statuses: list[int] = []

    def browser(url: str) -> bool:
        (place,) = parse_qs(urlsplit(url).query)["redirect_uri"]
        for path in (place, f"{place}?code=1", f"{place}?code=1&state=x", place.replace("callback", "other")):
            try:
                browse(path)
            except urllib.error.HTTPError as error:
                statuses.append(error.code)
        return browse(url)

    with oauth_double() as double:
        assert log_in(double, tmp_path, browser)[0].access_token
    assert statuses == [400] * 4


def test_metadata_of_another_issuer_is_not_used(tmp_path: Path) -> None:
    with oauth_double(wrong_issuer=True) as double:
        assert "issuer mismatch" in fault(double, tmp_path)


@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint", "registration_endpoint"])
def test_secrets_are_sent_by_tls_only(tmp_path: Path, name: str) -> None:
    with oauth_double(metadata={name: "http://as.example/x"}) as double:
        assert "not https" in fault(double, tmp_path)


def test_what_a_server_publishes_is_bounded(tmp_path: Path) -> None:
    with oauth_double(metadata={"service_documentation": "https://a.example/" + "x" * 20_000_000}) as double:
        assert len(fault(double, tmp_path)) <= 500


def test_a_server_without_a_login_says_so(tmp_path: Path) -> None:
    with oauth_double(valid={""}) as double:
        assert fault(double, tmp_path) == "far does not ask for a login"


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    assert "cannot connect to 127.0.0.1:1" in fault(OAuthDouble(url="http://127.0.0.1:1"), tmp_path)


def test_a_server_on_a_pipe_has_no_login(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    with pytest.raises(LoginError, match="near has no url"):
        asyncio.run(login(Server("near", command="x"), env, open_store(env), show=print))


def test_without_the_package_the_text_says_what_to_install(tmp_path: Path) -> None:
    program = (
        "import sys, asyncio\nsys.modules['mcp'] = None\n"
        "from polylect.mcp.auth.oauth import login, LoginError\nfrom polylect.vocab.content import Server\n"
        "try: asyncio.run(login(Server('far', 'http', url='http://127.0.0.1:1'), {}, None, show=print))\n"
        "except LoginError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert 'pip install "polylect[oauth]"' in done.stdout


# Tokens in use.


def test_a_server_that_wants_a_login_names_the_command(tmp_path: Path) -> None:
    with oauth_double() as double:
        expected = Failed(1, "HTTP 401 Unauthorized: run `polylect mcp login far`", 401)
        assert ask(double, tmp_path, 1) == [expected]
        assert ask(double, tmp_path, 1, Authorization="Bearer mine") == [Failed(1, "HTTP 401 Unauthorized", 401)]


def test_a_token_that_has_expired_is_renewed_once_for_all_requests(tmp_path: Path) -> None:
    with oauth_double(expires_in=-1) as double:
        before, _ = log_in(double, tmp_path)
        double.expires_in = None
        items = ask(double, tmp_path, 1, 2, 3)
        renewed = open_store({"HOME": str(tmp_path)}).load(double.mcp)
        assert renewed
        assert renewed.access_token != before.access_token
        assert sorted(item["result"]["token"] for item in items) == [renewed.access_token] * 3
        assert [form["grant_type"] for form in double.forms] == ["authorization_code", "refresh_token"]
        assert double.forms[1]["resource"] == double.mcp


def test_a_token_that_the_server_refuses_is_renewed(tmp_path: Path) -> None:
    with oauth_double() as double:
        log_in(double, tmp_path)
        double.valid.clear()
        items = ask(double, tmp_path, 1, 2, 3)
        assert [item["result"]["token"] for item in items] == [next(iter(double.valid))] * 3
        assert [form["grant_type"] for form in double.forms] == ["authorization_code", "refresh_token"]


def test_two_engines_renew_one_after_the_other(tmp_path: Path) -> None:
    program = Path(__file__).parent / "renewing_engine.py"
    with oauth_double() as double:
        log_in(double, tmp_path)
        double.valid.clear()
        argv = (sys.executable, str(program), double.mcp, str(tmp_path))
        engines = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        answers = [json.loads(engine.communicate(timeout=PATIENCE)[0]) for engine in engines]
        token = next(iter(double.valid))
        assert answers == [result(1, token=token)] * 3
        assert [form["grant_type"] for form in double.forms] == ["authorization_code", "refresh_token"]


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (400, "the login has expired: run `polylect mcp login far`"),
        (401, "the login has expired: run `polylect mcp login far`"),
        (503, "the login cannot be renewed: HTTP 503"),
    ],
)
def test_a_renewal_that_is_refused_names_the_command(tmp_path: Path, status: int, reason: str) -> None:
    with oauth_double(expires_in=-1) as double:
        log_in(double, tmp_path)
        double.refuse_renewal = status
        assert ask(double, tmp_path, 1) == [Failed(1, reason, 401)]


def test_a_token_that_is_still_good_is_used_while_it_cannot_be_renewed(tmp_path: Path) -> None:
    with oauth_double(expires_in=20) as double:
        stored, _ = log_in(double, tmp_path)
        double.refuse_renewal = 503
        assert ask(double, tmp_path, 1) == [result(1, token=stored.access_token)]
        assert len(double.forms) == 2


def test_a_login_that_does_not_permit_something_names_what_to_ask_for(tmp_path: Path) -> None:
    with oauth_double(scopes="tools read") as double:
        log_in(double, tmp_path)
        text = "HTTP 403 Forbidden: run `polylect mcp login far --scope 'tools read prompts'`"
        assert ask(double, tmp_path, 1, method="prompts/list") == [Failed(1, text, 403)]


def test_a_token_belongs_to_an_address_and_not_to_a_name(tmp_path: Path) -> None:
    with oauth_double() as double, oauth_double() as other:
        log_in(double, tmp_path)
        other.valid = double.valid
        assert ask(other, tmp_path, 1) == [Failed(1, "HTTP 401 Unauthorized: run `polylect mcp login far`", 401)]


def test_a_logout_forgets_and_revokes(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    with oauth_double() as double:
        stored, _ = log_in(double, tmp_path)
        server = Server("far", "http", url=double.mcp)
        assert asyncio.run(logout(server, env, open_store(env))) is True
        assert open_store(env).load(double.mcp) is None
        assert double.forms[-1] == {"token": stored.refresh_token, "client_id": stored.client_id}
        assert asyncio.run(logout(server, env, open_store(env))) is False


def test_a_request_that_is_cancelled_does_not_lose_a_renewal(tmp_path: Path) -> None:
    async def main(double: OAuthDouble) -> None:
        server = Server("far", "http", url=double.mcp)
        setup = ServerSetup(Custody(), {"HOME": str(tmp_path)}, str(tmp_path), lambda _: None)
        client = Client(StreamableHttp(server, setup, ServerLog(server)))
        await client.transport.start()
        client.request(1, "tools/call")
        while len(double.forms) < 2:  # noqa: ASYNC110  (the double is in another thread)
            await asyncio.sleep(0.001)
        client.transport.cancel(1)
        client.request(2, "tools/call")
        assert (await client.receive())["result"]["token"] in double.valid
        await client.transport.close()

    with oauth_double(expires_in=-1) as double:
        log_in(double, tmp_path)
        double.expires_in = 3600
        asyncio.run(main(double))
        assert [form["grant_type"] for form in double.forms] == ["authorization_code", "refresh_token"]


# The store.


def test_a_damaged_file_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    for text in ("{", '{"logins": {"a": 7}}', "[" * 5000):
        path.write_text(text)
        with pytest.raises(StoreError, match="is damaged: remove it and log in again"):
            FileStore(str(path)).load("a")
    os.remove(path)
    os.mkfifo(path)
    with pytest.raises(StoreError, match="not a regular file"):
        FileStore(str(path)).load("a")
    assert "access" not in repr(Login("access", "renewal"))


def test_a_keyring_is_used_where_the_setting_names_it(tmp_path: Path) -> None:
    keyring = """
import json, os
PATH = os.environ["RING"]
def _all(): return json.load(open(PATH)) if os.path.exists(PATH) else {}
def get_password(service, name): return _all().get(service + name)
def set_password(service, name, value): json.dump(_all() | {service + name: value}, open(PATH, "w"))
def delete_password(service, name): json.dump({k: v for k, v in _all().items() if k != service + name}, open(PATH, "w"))
"""
    program = """
from polylect.mcp.auth.token_store import Login, open_store
store = open_store({}, "keyring")
store.save("http://a", Login("access", "renewal"))
assert open_store({}, "keyring").load("http://a") == Login("access", "renewal")
assert store.load("http://b") is None
assert (store.remove("http://a"), store.remove("http://a"), store.load("http://a")) == (True, False, None)
"""
    (tmp_path / "keyring.py").write_text(keyring)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]), "RING": str(tmp_path / "ring")}
    subprocess.run([sys.executable, "-c", program], env=env, timeout=PATIENCE, check=True)
    with pytest.raises(StoreError, match="pip install keyring"):
        open_store({}, "keyring")
