"""The same question about every row of a CSV file, a few at a time, with answers of a fixed shape.

python examples/batch.py reviews.csv "Is this review good or bad?" > answers.csv
"""

import asyncio
import csv
import sys

from msgspec import Struct

from polylect.host import HostError, connect

AT_ONCE = 4


class Answer(Struct):
    verdict: str
    why: str


async def ask(question: str, row: dict[str, str], engine: str, turn: asyncio.Semaphore) -> dict[str, str]:
    async with turn:
        try:
            async with connect(engine) as agent:
                result = await agent.ask(f"{question}\n\n{row}", schema=Answer)
                return {**row, "verdict": result.value.verdict, "why": result.value.why}
        except HostError as error:
            return {**row, "verdict": "failed", "why": str(error)}


def read(path: str) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


async def main(path: str, question: str, engine: str = "polylect") -> None:
    rows = read(path)
    turn = asyncio.Semaphore(AT_ONCE)
    out = csv.DictWriter(sys.stdout, [*rows[0], "verdict", "why"])
    out.writeheader()
    work = [asyncio.ensure_future(ask(question, row, engine, turn)) for row in rows]
    for done, each in enumerate(asyncio.as_completed(work), 1):
        out.writerow(await each)
        print(f"\r{done} of {len(rows)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
