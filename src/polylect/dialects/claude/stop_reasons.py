"""Why a model stopped, in the words of this wire and in ours. Both ends and the session files use these tables."""

from polylect.vocab.content import Stop

WIRE_STOPS: dict[Stop, str] = {"end": "end_turn", "calls": "tool_use", "length": "max_tokens", "refused": "refusal"}
"""`stop_reason` by our reason. A reply that was cut short has none."""
OUR_STOPS: dict[str, Stop] = {word: stop for stop, word in WIRE_STOPS.items()}
