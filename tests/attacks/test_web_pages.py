"""Pages that a whole engine fetches: each host of a redirect is judged, and no page keeps a turn from ending.

Servers of tests are on this machine, which WebFetch does not visit. So an extension makes the engine take all
addresses for public ones.
"""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Semaphore, Thread

import pytest

from attacks.deafness import results
from attacks.test_deafness import END, asks_for, call, ended, prompted
from engine_process import Engine, Place
from machine import PATIENCE, within

PUBLIC = """
import ipaddress

def extend(polylect):
    ipaddress.IPv4Address.is_global = True
"""
DONE = '[[reply]]\ntext = "done"\n'


class Site:
    """A server at this address, which sends one page to everybody. `sent` is released for each page."""

    def __init__(self, address: str, kind: str = "text/plain", body: bytes = b"hello", redirect: str = "") -> None:
        self.sent = Semaphore(0)
        self.visits = 0
        site = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *words: object) -> None:
                pass

            def do_GET(self) -> None:
                site.visits += 1
                self.send_response(302 if redirect else 200)
                if redirect:
                    self.send_header("location", redirect)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                site.sent.release()

        self._server = ThreadingHTTPServer((address, 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://{address}:{self._server.server_port}/"

    def __enter__(self) -> "Site":
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path) as place:
        (place.folder / "public.py").write_text(PUBLIC)
        yield place


def fetching(place: Place, *urls: str, flags: tuple[str, ...]) -> Engine:
    script = asks_for(*(call("WebFetch", url=url) for url in urls)) + DONE
    return place.started(*flags, "--extension", str(place.folder / "public.py"), script=script)


@pytest.mark.parametrize("rule", ["deny", "allow"])
def test_a_redirect_to_a_host_that_no_rule_allows_is_not_followed(place: Place, rule: str) -> None:
    """The page leads to a host that a rule denies; or to one that the rule for the first host does not name."""
    with ExitStack() as stack:
        other = stack.enter_context(Site("127.0.0.2"))
        first = stack.enter_context(Site("127.0.0.1", redirect=other.url))
        rules = {
            "deny": ("--force", "--deny", "WebFetch(domain:127.0.0.2)"),
            "allow": ("--approval-mode", "dont_ask"),
        }
        place.configure('[tools]\nallow = ["WebFetch(domain:127.0.0.1)"]\n')
        engine = fetching(place, first.url, flags=rules[rule])
        [result] = results(prompted(engine).until("stream_end"))
        assert (first.visits, other.visits) == (1, 0)
    assert f"The page is on another host: {other.url}" in result["output"]


@pytest.mark.parametrize("end", ["stop", "eof", "signal"])
def test_pages_that_take_long_to_decode_do_not_keep_a_turn_from_ending(place: Place, end: str) -> None:
    """More pages than asyncio's pool has threads, in a charset that takes Python minutes for 5 MB."""
    place.configure("heartbeat = 1000\n")  # else it goes on to say something, and the test to wait
    with Site("127.0.0.1", "text/plain; charset=punycode", b"a" * 5_000_000) as site:
        engine = fetching(place, *[site.url] * 8, flags=("--force", "--on-eof", "stop"))
        listener = prompted(engine)
        for _ in range(8):
            assert site.sent.acquire(timeout=PATIENCE)
        _, over = listener.ping_for(1.0, until="stream_end")
    with within(END):
        if over:
            assert engine.finish() == ([], 0)
        else:
            assert ended(engine, end) == {"stop": 0, "eof": 0, "signal": 128 + signal.SIGTERM}[end]


@pytest.mark.parametrize("charset", ["zlib", "idna", "undefined"])
def test_a_charset_that_no_page_is_written_in_is_no_fault_of_the_tool(place: Place, charset: str) -> None:
    with Site("127.0.0.1", f"text/plain; charset={charset}") as site:
        engine = fetching(place, site.url, flags=("--force",))
        [result] = results(prompted(engine).until("stream_end"))
    assert (result["status"], result["output"].endswith("\n\nhello")) == ("success", True)
