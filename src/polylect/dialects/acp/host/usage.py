"""What a session uses: tokens and cost, from the several places where agents report them.

The answer to a prompt may have `usage` (not in the stable version, and sent by most), gemini has `_meta.quota` there,
qwen puts `_meta.usage` into an empty chunk after each reply. The cost comes in `usage_update`, as a total.
"""

from polylect.dialects.lenient import Object, amount, inner, text, whole
from polylect.vocab.content import Usage
from polylect.vocab.events import ContextUsed, CostChanged, Event

_OUR_FIELDS = ("input", "output", "cache_read", "cache_write")


class SessionUsage:
    """The totals of one session, and what the running turn has used so far."""

    def __init__(self) -> None:
        self.total = Usage()
        self.context = ContextUsed(0)
        self._steps = Usage()
        self._cost_before = 0.0

    def turn_began(self) -> None:
        self._steps, self._cost_before = Usage(), self.total.cost or 0.0

    def reply_used(self, meta: Object) -> None:
        """The `_meta` of a chunk; qwen reports the tokens of a reply there."""
        self._steps += counted(inner(meta, "usage"))

    def turn_ended(self, result: Object) -> Usage:
        """What the turn took, by the answer to its prompt."""
        reported = (counted(inner(result, "usage")), _quota(inner(result, "_meta")))
        return self.spent(next((used for used in reported if used.tokens), self._steps))

    def spent(self, used: Usage) -> Usage:
        """Adds the tokens of a turn to the total. Returns them with the part of the cost that came since it began."""
        cost = self.total.cost
        since = None if cost is None else round(cost - self._cost_before, 9)
        tokens = _without_cost(used) + _without_cost(self.total)
        self.total = Usage(tokens.input, tokens.output, tokens.cache_read, tokens.cache_write, cost)
        return Usage(used.input, used.output, used.cache_read, used.cache_write, since or None)

    def changed(self, fields: Object) -> list[Event]:
        """A `usage_update`: the context, and perhaps the cost of the session so far. Agents repeat it."""
        before, total = self.context, self.total
        self.context = ContextUsed(whole(fields, "used"), whole(fields, "size"))
        events: list[Event] = [self.context] if self.context != before else []
        cost = inner(fields, "cost")
        if text(cost, "currency").upper() == "USD" and amount(cost, "amount") != total.cost:
            self.total = Usage(total.input, total.output, total.cache_read, total.cache_write, amount(cost, "amount"))
            events.append(CostChanged(self.total))
        return events


def counted(fields: Object) -> Usage:
    """Tokens as the wire counts them. Where the sum shows that cached tokens are among the others, they are taken out.

    codex counts like its vendor: `inputTokens` has the cached ones in it. claude counts them apart.
    """
    names = ("inputTokens", "outputTokens", "cachedReadTokens", "cachedWriteTokens", "thoughtTokens", "totalTokens")
    fresh, output, read, written, thought, total = (whole(fields, name) for name in names)
    if total and thought and total in (fresh + output + thought, fresh + output + thought + read + written):
        output += thought
    if total and (read or written) and total == fresh + output:
        fresh = max(0, fresh - read - written)
    return Usage(fresh, output, read, written)


def our_usage(fields: Object) -> Usage:
    """Usage in our own words, as polylect writes it below `_meta.polylect`."""
    fresh, output, read, written = (whole(fields, name) for name in _OUR_FIELDS)
    return Usage(fresh, output, read, written, amount(fields, "cost") or None)


def _quota(meta: Object) -> Usage:
    count = inner(inner(meta, "quota"), "token_count")
    return Usage(whole(count, "input_tokens"), whole(count, "output_tokens"))


def _without_cost(used: Usage) -> Usage:
    return Usage(used.input, used.output, used.cache_read, used.cache_write)
