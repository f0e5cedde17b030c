"""Our model server as a process of its own, and its log."""

import json
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple, Self


class Request(NamedTuple):
    """When a request was here whole, and when each part of its answer was written."""

    at: int
    sent: list[int]
    model: str
    results: int
    """How many results of tools were in it."""


class ModelServer:
    def __init__(self, path_to_read: Path) -> None:
        argv = [sys.executable, "-m", "bench.model_server", "--path", str(path_to_read)]
        self._process = subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=Path(__file__).parents[1])
        assert self._process.stdout is not None
        self._port: int = json.loads(self._process.stdout.readline())["port"]

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.communicate()

    def take_log(self) -> list[Request]:
        """What was asked since the last time."""
        connection = HTTPConnection("127.0.0.1", self._port, timeout=10)
        connection.request("DELETE", "/log")
        log = json.load(connection.getresponse())
        connection.close()
        return [Request(entry["at"], entry["sent"], entry["model"], entry["results"]) for entry in log]
