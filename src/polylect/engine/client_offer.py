"""What the host has offered of its own program: text files and terminals.

One value for an agent and its sub-agents. `commands/host_capabilities.py` fills it from `Hello`; `client_files.py` and
`client_terminals.py` use it.
"""

from polylect.system.tasks import TaskSet


class ClientOffer:
    """What is offered now."""

    def __init__(self) -> None:
        self.read = False
        self.write = False
        self.terminal = False
        self.silent_until = 0.0
        """Until this time of the event loop the host is not asked for files, because it did not answer."""
        self.tasks = TaskSet()
        """Terminals that are being released."""

    async def close(self) -> None:
        self.tasks.cancel()
        await self.tasks.finished()
