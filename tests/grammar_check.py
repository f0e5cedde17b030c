"""The grammar of events as an assertion: tests pass the events of a conversation to `check`, one after the other.

`polylect.vocab.grammar` only says which rule an event breaks, because at run time nobody could act on more.
"""

from polylect.vocab import events as e
from polylect.vocab.grammar import grammar


class GrammarError(AssertionError):
    """An event came out of order, or something was never ended."""


class Grammar(grammar.Grammar):
    def check(self, event: e.Event) -> None:
        """Accepts the next event. Raises GrammarError if it breaks a rule; the text says which."""
        rule = self.accept(event)
        if rule is not None:
            agent = self.agents.get(event.agent)
            where = f"phase {agent.phase.value}, turn {agent.turn!r}" if agent else "not running"
            description = f"{type(event).__name__} of turn {event.turn!r}, agent {event.agent!r} ({where})"
            raise GrammarError(f"{description}: {rule.value}")

    @property
    def open(self) -> tuple[str, ...]:
        """What has begun and not ended, as texts for people."""
        agents = [agent for agent in self.agents.values() if agent is not self.main]
        return (
            *([f"turn {self.main.turn}"] if self.main.turn else []),
            *(f"agent {agent.id}" for agent in agents),
            *(f"ask {ask}" for ask in self.asks),
            *(f"compaction of {agent.id!r}" for agent in self.agents.values() if agent.compacting),
        )

    def finish(self) -> None:
        """Ends the session. Raises GrammarError if something is still open."""
        if self.open:
            raise GrammarError(f"still open at the end: {', '.join(self.open)}")
