"""One task, several engines, side by side, each in its own copy of a folder.

python examples/compare_engines.py FOLDER "Add a test for parse()" polylect claude omp

An engine that fails, or that there is none of, is a line like any other.
"""

import asyncio
import shutil
import sys
import tempfile
import time
from pathlib import Path

from polylect.host import HostError, Limits, allow_all, connect


async def attempt(engine: str, folder: Path, task: str) -> str:
    began = time.monotonic()
    try:
        async with connect(engine, cwd=str(folder), approve=allow_all, limits=Limits(total=600)) as agent:
            result = await agent.ask(task)
    except HostError as error:
        return f"{engine:<16} failed: {error}"
    tokens = f"{result.usage.tokens} tokens"
    cost = "price unknown" if result.cost is None else f"${result.cost:.4f}"
    return f"{engine:<16} {time.monotonic() - began:5.1f} s  {tokens:>14}  {cost:>14}  {result.text.strip()[:60]}"


async def main(folder: str, task: str, *engines: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        places = [Path(scratch) / f"{number}-{engine}" for number, engine in enumerate(engines)]
        for place in places:
            shutil.copytree(folder, place)
        for told in await asyncio.gather(*map(attempt, engines, places, [task] * len(engines))):
            print(told)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
