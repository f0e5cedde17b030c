"""Conversations with extensions in them: real files, loaded as an engine loads them."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

from doubles import Talk, converse
from polylect.extensions.extensions import Extensions
from polylect.tools.process.custody import Custody
from polylect.vocab.commands import Command
from polylect.vocab.hooks import Hooks
from polylect.vocab.ports import Provider, Tool


def written(folder: Path, code: str, name: str = "mine.py") -> str:
    path = folder / name
    path.write_text(dedent(code))
    return str(path)


class TurnRecord(Extensions):
    """With custody of its own, which ends with it."""

    async def close(self) -> None:
        await super().close()
        await self._processes.close()


def loaded(*files: str, **options: Any) -> Callable[[dict[str, Tool]], Hooks]:
    return lambda tools: TurnRecord(tools, Custody(), files=files, **options)


def extended(
    folder: Path, code: str, provider: Provider, commands: list[Command], /, *tools: Tool, **options: Any
) -> Talk:
    """A conversation with this extension in it."""
    return converse(folder, provider, commands, *tools, hooks=loaded(written(folder, code)), **options)
