"""Approval without a person: a function decides, and what it denies is in the result.

python examples/approval_policy.py "Tidy the imports" [engine]
"""

import asyncio
import sys

from polylect.host import Ask, connect


def policy(ask: Ask) -> bool | str:
    """True allows; a text denies and tells the model why."""
    command = ask.args.get("command")
    if isinstance(command, str) and ("rm " in command or "git push" in command):
        return "nothing is deleted or pushed without a person"
    return True


async def main(task: str, engine: str = "polylect") -> None:
    async with connect(engine, cwd=".", approve=policy) as agent:
        result = await agent.ask(task)
    print(result.text)
    for denial in result.denials:
        print(f"denied: {denial.name}: {denial.reason}")
    print("cost:", "unknown" if result.cost is None else f"${result.cost:.4f}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
