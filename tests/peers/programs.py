"""Puts scripted peers on PATH, under the names of the programs that they stand for, and drives them."""

import asyncio
import os
import shlex
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from machine import PATIENCE
from polylect.host import Agent, Ask, Event, connect

TESTS = Path(__file__).resolve().parents[1]
MODULES = {"aionrs": "peers.aionrs", "claude": "peers.claude", "wayland-core": "peers.wayland_core"}


def path_with(name: str, folder: Path) -> str:
    """A PATH on which `name` is the scripted peer. Its launcher is written into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    launcher = folder / name
    python, tests = shlex.quote(sys.executable), shlex.quote(str(TESTS))
    launcher.write_text(f'#!/bin/sh\nPYTHONPATH={tests} exec {python} -m {MODULES[name]} "$@"\n')
    launcher.chmod(0o755)
    return os.pathsep.join([str(folder), os.environ.get("PATH", os.defpath)])


def drive(engine: str, workspace: Path, conversation: Callable[[Agent], Awaitable[None]], **options: Any) -> None:
    """Hold a conversation with the engine of this name in a folder, in bounded time."""

    async def converse() -> None:
        async with connect(engine, cwd=workspace, **options) as agent:
            await conversation(agent)

    asyncio.run(asyncio.wait_for(converse(), PATIENCE))


async def allowed_turn(agent: Agent, prompt: str, **answer: Any) -> list[Event]:
    """The events of a turn in which everything is allowed."""
    events = []
    async for event in agent.prompt(prompt):
        events.append(event)
        if isinstance(event, Ask):
            await event.allow(**answer)
    return events
