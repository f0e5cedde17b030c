"""An engine inside this very program, with a tool that is one of its own functions: no child process, no wire.

export ANTHROPIC_API_KEY=...      # or whatever your settings say
python examples/in_process.py "Have we enough bolts for 40 shelves?"

`settings=True` takes the model and its key from your settings and the environment. A program that brings its own says
`open_engine("anthropic", model="claude-sonnet-4-5", api_key=...)`.
"""

import asyncio
import os
import sys

from polylect.embed import open_engine
from polylect.host import Ask, HostError, Limits, TextDelta, ToolFinished

SESSIONS = os.path.expanduser("~/.local/state/stock-clerk")


def stock(article: str) -> int:
    """How many pieces of an article there are."""
    return {"bolts": 4200, "shelves": 12}.get(article, 0)


def approve(ask: Ask) -> bool | str:
    """Our own tool may run; nothing else that would need a person."""
    return ask.name == "stock" or "this program only looks up the stock"


async def main(question: str) -> None:
    engine = open_engine(
        settings=True,
        sessions=SESSIONS,
        system_prompt="You answer questions about our stock.",
        tools=[stock],
        approve=approve,
        limits=Limits(total=120),
    )
    async with engine as agent:
        async for event in agent.prompt(question):
            match event:
                case ToolFinished(name=name, output=output):
                    print(f"[{name}: {output}]")
                case TextDelta(text=text):
                    print(text, end="")
        print(f"\n[session {agent.session}]")


if __name__ == "__main__":
    try:
        asyncio.run(main(" ".join(sys.argv[1:]) or "Have we enough bolts?"))
    except HostError as error:
        sys.exit(str(error))
