"""Which versions of each engine were tried with this SDK, when, and how.

`polylect engines` shows the table and says so when an installed engine is newer than all of them. The engines that
`make interop` installs are pinned in `bench/peers.py`; a test compares the pins with this table. `make newest` tries
what is newest today. Nothing refuses to run with another version.
"""

import re
from typing import NamedTuple


class Tried(NamedTuple):
    """One version of an engine that was driven by this SDK."""

    version: str
    date: str
    how: str
    """The tests that drive it, or how else it was tried."""


_INTEROP = "tests/interop/test_omp_engines.py"
_ON_PATH = "tests/interop/test_json_stream_engines.py"
_ACP = "tests/interop/test_acp_agents.py"
TRIED: dict[str, tuple[Tried, ...]] = {
    "claude": (Tried("2.1.325", "2026-11-16", "tests/interop/test_claude_engine.py"),),
    "omp": tuple(Tried(version, "2026-11-16", _INTEROP) for version in ("13.19.0", "18.2.3", "18.3.4")),
    "pi": tuple(Tried(version, "2026-11-16", _INTEROP) for version in ("0.73.1", "0.87.1", "1.5.0")),
    "aionrs": (Tried("0.2.10", "2026-11-16", _ON_PATH),),
    "wayland-core": (Tried("0.13.4", "2026-11-16", _ON_PATH),),
    "claude-acp": (Tried("0.99.1", "2026-11-16", _ACP),),
    "codex-acp": (Tried("2.6.0", "2026-11-16", _ACP),),
    "gemini": (Tried("0.61.0", "2026-11-16", _ACP),),
    "goose": (Tried("1.52.0", "2026-11-16", _ACP),),
    "kimi": (Tried("2.1.0", "2026-11-16", _ACP),),
    "opencode": (Tried("1.18.33", "2026-11-16", _ACP),),
    "qwen": (Tried("0.24.4", "2026-11-16", _ACP),),
}


def newest_tried(engine: str) -> Tried | None:
    """The newest version of this engine that was tried; None for an engine of ours or an unknown one."""
    return max(TRIED.get(engine, ()), key=lambda tried: _numbers(tried.version), default=None)


def is_newer(version: str, than: str) -> bool:
    """Whether the first version number in a line is higher than another. A line without a number is not newer."""
    return _numbers(version) > _numbers(than)


def _numbers(line: str) -> tuple[int, ...]:
    match = re.search(r"\d{1,9}(?:\.\d{1,9})+", line)
    return tuple(map(int, match[0].split("."))) if match else ()
