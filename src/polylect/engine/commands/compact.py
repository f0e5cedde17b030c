"""The command `Compact`: summarise the conversation because somebody asked for it.

A compaction runs alone. It stops the running turn, waits for other exclusive work, and several of them run one after
another. Automatic compaction is in `turn/compaction.py`.
"""

from collections import deque

from polylect.engine.commands.background import LATER, attempted
from polylect.engine.commands.context import CommandContext
from polylect.engine.turn.compaction import CANCELLED
from polylect.vocab.commands import Compact
from polylect.vocab.content import Failure


class CompactQueue:
    """Compactions that were asked for and wait."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._waiting: deque[Compact] = deque()

    def submit(self, command: Compact) -> Failure | None:
        """Start a compaction, queue it, or refuse it if the host does not want to stop a turn."""
        turns = self._context.turns
        if not turns.busy:
            return self._begin(command)
        if command.busy == "refuse":
            return Failure("busy", "a turn is running: stop it first, or wait for its end", "host", retryable=True)
        self._waiting.append(command)
        turns.drop(queued=False)
        if turns.running:
            turns.stop(keep=True)
        turns.after_current(self._next)
        return LATER

    def drop(self) -> None:
        """Cancel those that wait."""
        waiting, self._waiting = self._waiting, deque()
        for command in waiting:
            self._context.reply(command, failure=Failure("cancelled", CANCELLED, "host"))

    def _next(self) -> None:
        if self._waiting and self._context.turns.busy:  # another one came first
            self._context.turns.after_current(self._next)
        elif self._waiting:
            command = self._waiting.popleft()
            self._context.reply(command, failure=attempted(self._begin, command))

    def _begin(self, command: Compact) -> Failure | None:
        agent = self._context.agent
        if not agent.compactor.possible():
            return Failure("nothing", "there is nothing to compact: the conversation is short", "host")
        if why := agent.meter.used_up():
            return Failure("budget", f"a summary would cost more, and {why}", "host")
        agent.session.expire_suspended()
        self._context.turns.run_exclusive(agent.compactor.by_hand(agent.emit, command.instructions))
        return None
