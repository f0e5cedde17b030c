"""A small host: give a task to an engine, show what it does, answer what it asks.

python examples/first_host.py "The tests fail. Mend it." [engine]
"""

import asyncio
import sys

from polylect.host import Ask, TextDelta, ToolFinished, TurnEnded, connect


async def main(task: str, engine: str = "polylect") -> None:
    async with connect(engine, cwd=".") as agent:
        async for event in agent.prompt(task):
            match event:
                case TextDelta(text=text):
                    print(text, end="", flush=True)
                case Ask() as ask:
                    what = ask.args.get("command") or ask.title or ask.name
                    answer = await asyncio.to_thread(input, f"\n{what}  allow it? [y/N] ")
                    await (ask.allow() if answer == "y" else ask.deny("not now"))
                case ToolFinished(name=name, outcome=outcome):
                    print(f"\n[{name}: {outcome}]")
                case TurnEnded(reason=reason, usage=usage):
                    print(f"\n{reason}: {usage.input} tokens in, {usage.output} out")
        print(f"to go on: connect({engine!r}, resume={agent.session_id!r})")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
