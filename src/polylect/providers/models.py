"""What is known of models: sizes, abilities and prices.

`models.json` is the table; rows and prices of the user's settings come before it, and dated names have the row of their
model. Providers use it for `info` and to compute costs. What is not in the table is not known: a price is never
guessed.
"""

import os
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, Self, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from polylect.providers.check import bare, is_version, longest
from polylect.providers.settings import ProviderSettings
from polylect.vocab.content import Usage
from polylect.vocab.errors import StartError
from polylect.vocab.ports import ModelInfo, ReplyDone

Price = tuple[float | None, float | None, float | None, float | None]
"""Dollars for a million tokens: input, output, read from cache, written to it. None is not known."""
_Bucket = Literal["input", "output", "cache_read", "cache_write"]
_BUCKETS: tuple[_Bucket, ...] = get_args(_Bucket)


class Row(Struct, frozen=True, forbid_unknown_fields=True):
    window: int = 0
    max_output: int = 0
    thinking: bool = False
    effort_levels: tuple[str, ...] = ()
    images: bool | None = None
    price: Price | None = None
    api: Literal["chat", "responses"] = "chat"


@cache
def _table() -> dict[str, Row]:
    with open(os.path.join(os.path.dirname(__file__), "models.json"), "rb") as file:
        return msgspec.json.decode(file.read(), type=dict[str, Row])


class Catalogue:
    """Names in the table are beginnings of models' names: the longest that fits counts.

    `own` is the user's `[models."name"]` tables, each of which changes what it says and nothing else; `prices` the
    `[prices."name"]` tables, where prices of the cache that are left out are the input's.
    """

    def __init__(self, own: Mapping[str, Any] | None = None, prices: Mapping[str, Any] | None = None) -> None:
        self._own: dict[str, Row] = {}
        self._prices: dict[str, Price | None] = {}
        try:
            for name, values in (own or {}).items():
                self._own[name] = msgspec.convert({**asdict(self._base(name)), **values}, Row)
            for name, values in msgspec.convert(prices or {}, dict[str, dict[_Bucket, float]]).items():
                price = (values.get(bucket, values.get("input") if "cache" in bucket else None) for bucket in _BUCKETS)
                self._own[name] = replace(self._base(name), price=tuple(price))
        except msgspec.ValidationError as error:
            raise StartError(f"the configuration's [models] and [prices] cannot be used: {error}", code=78) from None

    @classmethod
    def of(cls, settings: ProviderSettings) -> Self:
        return cls(settings.extra.get("models"), settings.extra.get("prices"))

    @property
    def rows(self) -> Mapping[str, Row]:
        return {**_table(), **self._own}

    def row(self, model: str) -> Row:
        rows = self.rows
        return rows.get(model) or rows.get(longest(rows, bare(model))) or Row()

    def _base(self, name: str) -> Row:
        """What a user's row begins with. A price belongs to one model: it is not taken from a shorter name."""
        rows = self.rows
        return rows.get(name) or replace(rows.get(longest(rows, bare(name))) or Row(), price=None)

    def info(self, model: str) -> ModelInfo:
        row, price = self.row(model), self._price(model)
        read, written = price[:2] if price else (None, None)
        limits = (row.window, row.max_output, row.thinking, row.effort_levels, row.images)
        if read is None or written is None:
            return ModelInfo(model, *limits)
        return ModelInfo(model, *limits, priced=True, prices=(read, written))

    def with_cost(self, model: str, done: ReplyDone) -> ReplyDone:
        """The end of a reply with its price, if that is known."""
        return replace(done, usage=replace(done.usage, cost=self._cost(model, done.usage)))

    def _price(self, model: str) -> Price | None:
        """A price belongs to one model and its dated versions only: `gpt-4o-audio` is not `gpt-4o`.

        Every reply needs it, so it is looked up once.
        """
        if model not in self._prices:
            rows = self.rows
            row = rows.get(model) or next((rows[name] for name in rows if is_version(model, name)), None)
            self._prices[model] = row.price if row else None
        return self._prices[model]

    def _cost(self, model: str, usage: Usage) -> float | None:
        prices = self._price(model)
        if prices is None:
            return None
        counts = (usage.input, usage.output, usage.cache_read, usage.cache_write)
        parts = list(zip(counts, prices, strict=True))
        if any(count and price is None for count, price in parts):
            return None
        return sum(count * (price or 0.0) for count, price in parts) / 1_000_000
