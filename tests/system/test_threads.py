"""Work in threads of its own: independent of asyncio's pool, and abandoned when nobody waits for it."""

import asyncio
import subprocess
import sys
from threading import Event

import pytest

from machine import PATIENCE
from polylect.system.threads import run_in_thread


def test_the_result_and_the_error_come_back() -> None:
    async def main() -> None:
        assert await run_in_thread(divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            await run_in_thread(divmod, 7, 0)

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_a_full_pool_does_not_hold_it_up() -> None:
    async def main() -> int:
        release = Event()
        full = [asyncio.create_task(asyncio.to_thread(release.wait, PATIENCE)) for _ in range(64)]
        await asyncio.sleep(0)
        try:
            return await asyncio.wait_for(run_in_thread(lambda: 7), PATIENCE / 2)
        finally:
            release.set()
            await asyncio.gather(*full)

    assert asyncio.run(main()) == 7


def test_a_cancelled_wait_leaves_the_thread_behind_and_the_process_ends() -> None:
    program = """
import asyncio, threading
from polylect.system.threads import run_in_thread

async def main():
    started = asyncio.Event()
    loop = asyncio.get_running_loop()
    def block():
        loop.call_soon_threadsafe(started.set)
        threading.Event().wait()
    task = asyncio.create_task(run_in_thread(block))
    await started.wait()
    task.cancel()
    await asyncio.wait([task])
    print(task.cancelled())

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
