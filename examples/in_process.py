"""An engine inside this very program, with a tool that is one of its own functions: no child process, no wire.

python examples/in_process.py
"""

import asyncio
import tempfile

from polylect.app.embed import InProcess
from polylect.host import TextDelta, ToolFinished, allow_all, connect, tool
from polylect.providers.scripted import Scripted

SCRIPT = """
[[reply]]
when.step = 1
say = [{ call = "stock", id = "c1", args = { article = "bolts" } }]

[[reply]]
text = "There are enough of them."
"""


@tool
def stock(article: str) -> int:
    """How many pieces of an article there are."""
    return {"bolts": 4200}.get(article, 0)


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        engine = InProcess(Scripted.from_text(SCRIPT), workspace=folder)
        async with connect(lambda: engine, approve=allow_all, tools=[stock]) as agent:
            async for event in agent.prompt("Have we enough bolts?"):
                match event:
                    case ToolFinished(name=name, output=output):
                        print(f"[{name}: {output}]")
                    case TextDelta(text=text):
                        print(text, end="")
    print()


if __name__ == "__main__":
    asyncio.run(main())
