"""What a process uses, as Linux tells it. Elsewhere these figures are left out."""

import time
from pathlib import Path

KNOWN = Path("/proc/self/smaps_rollup").exists()
_QUIET = 0.15
_PATIENCE = 10.0


def resident(pid: int) -> tuple[float, float]:
    """RSS and PSS in MiB. PSS counts a page that n processes share as an nth."""
    found = _table(Path(f"/proc/{pid}/smaps_rollup"))
    return found["Rss"] / 1024, found["Pss"] / 1024


def peak(pid: int) -> float:
    """The most RSS it ever had, in MiB."""
    return _table(Path(f"/proc/{pid}/status"))["VmHWM"] / 1024


def cpu_seconds(pid: int) -> float:
    """All its threads so far. /proc/PID/stat would do too, but counts in hundredths of a second."""
    tasks = Path(f"/proc/{pid}/task")
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9


def settle(pid: int) -> None:
    """Returns when the process has done nothing for a moment."""
    if not KNOWN:
        time.sleep(0.5)
        return
    end = time.monotonic() + _PATIENCE
    before = -1.0
    while (now := cpu_seconds(pid)) - before > 0.001 and time.monotonic() < end:
        before = now
        time.sleep(_QUIET)


def _table(path: Path) -> dict[str, int]:
    rows = (line.split() for line in path.read_text().splitlines())
    found = {row[0].rstrip(":"): int(row[1]) for row in rows if len(row) == 3 and row[2] == "kB"}
    if not found:
        raise ProcessLookupError(f"{path}: the process has ended")
    return found
