"""Runs several commands one after the other in the sandbox of one session, as a program of its own.

It reads one JSON object from standard input and prints the output of each command as a JSON list. As a program it can
be started as another user (`setpriv`); a `write` or `rename` between two commands is what the person does meanwhile.
"""

import asyncio
import ctypes
import json
import os
import sys
from pathlib import Path
from typing import Any

from polylect.tools.process.custody import Custody
from polylect.tools.sandbox import Sandbox
from polylect.vocab.errors import ToolError


class Session:
    """The sandbox of one session, and those who run its commands."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._workspace, self._env = plan["workspace"], {"PATH": os.environ["PATH"], **plan["env"]}
        self._roots = (self._workspace, *plan["roots"])
        settings = {name: plan[name] for name in ("hidden", "writable", "network")}
        self._sandbox = Sandbox(plan["kind"], env=self._env, **settings)
        self._custody = Custody()
        self._steps = plan["steps"]

    async def play(self) -> list[str]:
        try:
            return [
                await self._run(value) for step, value in self._steps if step == "run" or self._meanwhile(step, value)
            ]
        finally:
            await self._custody.close()

    @staticmethod
    def _meanwhile(step: str, value: Any) -> bool:
        if step == "write":
            Path(value).write_text("secret-content")
        elif step == "add key":
            libc = ctypes.CDLL(None)
            libc.syscall(250, 1, None)  # keyctl: a session keyring of our own
            libc.syscall(248, b"user", value.encode(), b"secret-content", ctypes.c_size_t(14), -3)
        else:
            os.rename(*value)
        return False

    async def _run(self, command: str) -> str:
        output: list[bytes] = []
        shell = ("/bin/sh", "-c", f"exec 2>&1; {command}")
        try:
            argv = await self._sandbox.argv(shell, self._workspace, self._roots, self._custody)
        except ToolError as error:
            return str(error)
        await self._custody.run(
            argv, cwd=self._workspace, env=self._env, timeout=30, on_output=lambda _, data: output.append(data)
        )
        return b"".join(output).decode(errors="replace")


if __name__ == "__main__":
    print(json.dumps(asyncio.run(asyncio.wait_for(Session(json.load(sys.stdin)).play(), 50))))
