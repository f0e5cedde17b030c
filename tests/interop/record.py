"""Writes what the SDKs say of every recorded stream beside it: `scripts/interop.py --record`."""

import asyncio
import json

from interop.oracles import said
from recorded.final import FOLDER, STREAMS, stream


async def record() -> None:
    for wire, name in STREAMS:
        actual = await said(wire, stream(wire, name))
        text = json.dumps(actual, indent=1, ensure_ascii=False, sort_keys=True)
        (FOLDER / wire / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(record())
