"""What is known of models: abilities and prices. The table is data, and a user's own rows come before it."""

import os
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from polylect.vocab.content import Usage
from polylect.vocab.errors import StartError
from polylect.vocab.ports import ModelInfo, ReplyDone


class Row(Struct, frozen=True, forbid_unknown_fields=True):
    """`price` is dollars for a million tokens: input, output, read from cache, written to it. None is not known."""

    window: int = 0
    max_output: int = 0
    thinking: bool = False
    effort_levels: tuple[str, ...] = ()
    images: bool | None = None
    price: tuple[float, float, float | None, float | None] | None = None
    api: Literal["chat", "responses"] = "chat"


@cache
def _table() -> dict[str, Row]:
    with open(os.path.join(os.path.dirname(__file__), "models.json"), "rb") as file:
        return msgspec.json.decode(file.read(), type=dict[str, Row])


class Catalogue:
    """`own` is the user's `[models."name"]` tables. Names in the table are beginnings of models' names."""

    def __init__(self, own: Mapping[str, Any] | None = None) -> None:
        try:
            self._own = msgspec.convert(own or {}, dict[str, Row])
        except msgspec.ValidationError as error:
            raise StartError(f"the configuration's [models] cannot be used: {error}", code=78) from None

    def row(self, model: str) -> Row:
        """The abilities of a model: those of the longest name that it begins with."""
        name = _bare(model)
        return self._own.get(model) or _longest(self._own, name) or _longest(_table(), name) or Row()

    def info(self, model: str) -> ModelInfo:
        row = self.row(model)
        return ModelInfo(model, row.window, row.max_output, row.thinking, row.effort_levels, row.images)

    def settled(self, model: str, done: ReplyDone) -> ReplyDone:
        """The end of a reply with its price, if that is known."""
        return replace(done, usage=replace(done.usage, cost=self._cost(model, done.usage)))

    def _cost(self, model: str, usage: Usage) -> float | None:
        """A price belongs to one model and its dated versions only: `gpt-4o-audio` is not `gpt-4o`."""
        rows = {**_table(), **self._own}
        row = rows.get(model) or next((rows[name] for name in rows if _is_version(model, name)), None)
        if row is None or row.price is None:
            return None
        counts = (usage.input, usage.output, usage.cache_read, usage.cache_write)
        parts = list(zip(counts, row.price, strict=True))
        if any(count and price is None for count, price in parts):
            return None
        return sum(count * (price or 0.0) for count, price in parts) / 1_000_000


def _bare(model: str) -> str:
    """Without what clouds and gateways write around it: `us.anthropic.claude-x-v1:0`, `anthropic/claude-x`."""
    return model.rpartition("/")[2].rpartition("anthropic.")[2].partition("@")[0].partition(":")[0]


def _longest(rows: Mapping[str, Row], model: str) -> Row | None:
    name = max((name for name in rows if model.startswith(name)), key=len, default="")
    return rows[name] if name else None


def _is_version(model: str, name: str) -> bool:
    rest = model.removeprefix(name)
    return rest != model and (rest == "-latest" or (len(rest) >= 9 and rest.replace("-", "").isdigit()))
