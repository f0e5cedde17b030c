"""Whether the price of the model is known, so that limits in dollars can hold.

Some engines say it in `ready`, some answer it with their state, and a change of the model makes it unknown again. The
conversation tells what it receives to `KnownPrices`, and asks it before a turn with a limit in dollars begins.
"""

import warnings
from collections.abc import Awaitable, Callable
from typing import Any

from polylect.host.errors import UnknownPrice
from polylect.host.limits import LimitWarning
from polylect.host.supervision.open_turns import UNPRICED
from polylect.vocab import answers
from polylect.vocab.events import Ready

_NO_PRICE = "the price of the model is not known, so limits in dollars do not hold"


class KnownPrices:
    """Of one conversation.

    Args:
        allow_unpriced: Whether limits in dollars are accepted where the price of the model is not known.
    """

    def __init__(self, *, allow_unpriced: bool) -> None:
        self._allow_unpriced = allow_unpriced
        self._known: bool | None = None
        """None if the engine has not said."""
        self._warned = False

    def read_ready(self, ready: Ready) -> None:
        """Reads what the engine said of itself when it was `ready`."""
        self._known = ready.abilities.extras.get("cost_attribution")

    def read_setting(self, key: str, value: Any) -> None:
        """Reads a setting that has changed."""
        if key == "abilities":
            self._known = bool(value.extras.get("cost_attribution"))
        elif key == "model":
            self._known = None

    async def lacking(self, state: Callable[[], Awaitable[answers.State]] | None) -> bool:
        """Whether the price is not known. An engine that can be asked and does not say is let pass.

        Args:
            state: Asks the engine for its state; None if its wire cannot say that. On json-stream, who knows prices
                says so.
        """
        if self._known is None:
            if state is None:
                return True
            card = (await state()).card
            self._known = bool(card.prices) if card else None
        return self._known is False

    def accept_unpriced(self) -> None:
        """Says once that limits in dollars do not hold. Raises UnknownPrice if that was not accepted."""
        if not self._allow_unpriced:
            raise UnknownPrice(UNPRICED)
        if not self._warned:
            self._warned = True
            warnings.warn(_NO_PRICE, LimitWarning, stacklevel=2)
