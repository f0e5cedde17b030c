"""A module that is put off is no different in use. Each case is a Python of its own: imports cannot be undone."""

import subprocess
import sys
from pathlib import Path

from machine import PATIENCE

_SOURCES = Path(__file__).parents[3] / "src"


def run(program: str, **env: str) -> str:
    env = {"PYTHONPATH": str(_SOURCES), **env}
    argv = [sys.executable, "-c", program]
    done = subprocess.run(argv, capture_output=True, text=True, env=env, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


ASYNCIO = (
    "import sys\nfrom polylect.app.startup.lazy import LazyImports\nwith LazyImports():\n    import asyncio, msgspec\n"
)


def test_asyncio_is_imported_without_tls() -> None:
    assert run(ASYNCIO + "print('_ssl' in sys.modules, 'ast' in sys.modules)") == "False False\n"


def test_a_module_is_loaded_by_its_first_use() -> None:
    program = "import ssl\nprint(issubclass(ssl.SSLContext, object), ssl.__spec__.name, '_ssl' in sys.modules)"
    assert run(ASYNCIO + program) == "True ssl True\n"


def test_names_can_be_imported_from_a_module_that_was_put_off() -> None:
    assert run(ASYNCIO + "from inspect import signature\nprint(signature(lambda a: a))") == "(a)\n"


def test_it_is_the_same_module_for_everybody_afterwards() -> None:
    program = """
import ssl, asyncio.base_events as base
ssl.OP_ALL
print(base.ssl is ssl is sys.modules['ssl'], type(ssl).__name__)
"""
    assert run(ASYNCIO + program) == "True module\n"


def test_threads_that_want_it_at_once_all_get_it_whole() -> None:
    program = """
import threading, ssl
gate, found = threading.Barrier(8), []
def use():
    gate.wait()
    found.append(ssl.create_default_context and ssl.PROTOCOL_TLS_CLIENT and ssl.get_server_certificate)
threads = [threading.Thread(target=use) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(found))
"""
    assert run(ASYNCIO + program) == "8\n"


def test_a_module_that_cannot_be_loaded_says_so_every_time() -> None:
    program = """
import inspect
sys.modules["dis"] = None
for _ in range(2):
    try:
        inspect.signature
    except ImportError as error:
        print(type(error).__name__)
"""
    assert run(ASYNCIO + program) == "ModuleNotFoundError\nModuleNotFoundError\n"


def test_a_python_without_tls_is_seen_to_have_none() -> None:
    without = """
import sys
class Without:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, path=None, target=None):
        return None if name == "_ssl" else self.finder.find_spec(name, path, target)
sys.meta_path[:] = map(Without, sys.meta_path)
"""
    assert run(without + ASYNCIO + "import asyncio.base_events as b\nprint(b.ssl)") == "None\n"


def test_nothing_is_hidden_any_more_once_the_imports_are_done() -> None:
    program = "print(sys.modules.get('typing_extensions'), len(sys.meta_path) == before)"
    start = ASYNCIO.replace("import sys\n", "import sys\nbefore = len(sys.meta_path)\n")
    assert run(start + program) == "None True\n"


def test_the_name_of_the_system_is_known_without_loading_platform() -> None:
    program = """
import uuid
loaded = type(sys.modules.get('platform')).__name__  # from Python 3.13 on uuid does not even ask
import platform
from platform import system
print(loaded in ('_LazyModule', 'NoneType'), uuid._LINUX == (platform.system() == 'Linux'))
print(platform.machine() == __import__('os').uname().machine, platform.system() == system())
"""
    assert run(ASYNCIO + program) == "True True\nTrue True\n"


def test_a_connection_without_tls_does_not_load_it_and_one_of_tls_is_still_known() -> None:
    program = """
import socket, ssl
async def serve():
    server = await asyncio.start_server(lambda reader, writer: writer.close(), '127.0.0.1', 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    print(await reader.read(), '_ssl' in sys.modules)
    writer.close()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with ssl.SSLSocket._create(socket.socket(), context=tls, server_hostname='x') as wrapped:
        wrapped.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(wrapped, server.sockets[0].getsockname())
        except TypeError as error:
            print(error)
    server.close()
asyncio.run(serve())
"""
    assert run(ASYNCIO + program) == "b'' False\nSocket cannot be of type SSLSocket\n"


def test_the_class_of_tls_sockets_can_be_taken_before_tls_is_loaded() -> None:
    program = """
import socket, ssl
Socket = ssl.SSLSocket
print(isinstance(socket.socket(), Socket), '_ssl' in sys.modules)
class Own(Socket):
    pass
with Socket._create(socket.socket(), context=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), server_hostname='x') as wrapped:
    print(issubclass(Own, ssl.SSLSocket), isinstance(wrapped, Socket), Socket.__name__)
"""
    assert run(ASYNCIO + program) == "False False\nTrue True SSLSocket\n"


def test_a_finder_from_before_find_spec_is_skipped() -> None:
    finder = (
        "import sys\nclass Old:\n    def find_module(self, name, path=None): pass\nsys.meta_path.insert(0, Old())\n"
    )
    quiet = "import warnings\nwarnings.simplefilter('ignore')\n"  # Python 3.11 itself warns of such a finder
    assert run(quiet + finder + ASYNCIO + "import ssl\nprint(ssl.SSLContext.__name__)") == "SSLContext\n"


def test_the_switch_turns_it_off() -> None:
    program = "print('_ssl' in sys.modules, 'ast' in sys.modules)"
    assert run(ASYNCIO + program, POLYLECT_PLAIN_IMPORTS="1") == "True True\n"
