"""What an engine and the processes it has started use, as Linux tells it. Elsewhere these figures are left out."""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

KNOWN = Path("/proc/self/smaps_rollup").exists()
_QUIET = 0.15
_PATIENCE = 10.0


def resident(group: int) -> tuple[float, float]:
    """RSS and PSS in MiB. PSS counts a page that n processes share as an nth."""
    found = _tables(group, "smaps_rollup")
    return sum(one["Rss"] for one in found) / 1024, sum(one["Pss"] for one in found) / 1024


def own() -> float:
    """PSS of this very process, in MiB."""
    return _table(Path("/proc/self/smaps_rollup"))["Pss"] / 1024


def peak(group: int) -> float:
    """The most RSS each ever had, in MiB."""
    return sum(one["VmHWM"] for one in _tables(group, "status")) / 1024


def cpu_seconds(group: int) -> float:
    """All threads so far. /proc/PID/stat would do too, but counts in hundredths of a second."""
    tasks = (task for folder in _members(group) for task in (folder / "task").iterdir())
    return sum(_spent(task) for task in tasks)


def wait_until_idle(*groups: int) -> None:
    """Returns when they have done nothing for a moment."""
    if not KNOWN:
        time.sleep(0.5)
        return
    end = time.monotonic() + _PATIENCE
    before = -1.0
    while (now := sum(map(cpu_seconds, groups))) - before > 0.001 * len(groups) and time.monotonic() < end:
        before = now
        time.sleep(_QUIET)


def _members(group: int) -> Iterator[Path]:
    """An engine leads a group of processes of its own; most are alone in it."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                if int((folder / "stat").read_text().rpartition(")")[2].split()[2]) == group:
                    yield folder


def _spent(task: Path) -> float:
    with suppress(OSError):  # a thread may end while it is looked at
        return int((task / "schedstat").read_text().split()[0]) / 1e9
    return 0.0


def _tables(group: int, name: str) -> list[dict[str, int]]:
    """Raises ProcessLookupError if all have ended."""
    found = [table for folder in _members(group) if (table := _table(folder / name))]
    if not found:
        raise ProcessLookupError(f"no process is left in the group {group}")
    return found


def _table(path: Path) -> dict[str, int]:
    """Nothing for a process that has just ended."""
    with suppress(OSError):
        rows = (line.split() for line in path.read_text().splitlines())
        return {row[0].rstrip(":"): int(row[1]) for row in rows if len(row) == 3 and row[2] == "kB"}
    return {}
