"""The scripted provider: a model that plays a script, with no key and no network.

`make demo`, our own tests and those of host authors use it. `script_match.py` chooses the reply for a request,
`playback.py` plays it. If no reply fits, the error says what was asked for.
"""

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from math import inf
from typing import Any, Self

from polylect.providers.scripted.parse import Script, ScriptHead, build_script, parse_script, read_script
from polylect.providers.scripted.playback import Faults, Playback, PlaybackItem
from polylect.providers.scripted.script_match import MatchedReply, ScriptPosition, choose, position_of
from polylect.providers.settings import ProviderSettings
from polylect.vocab.errors import ProviderError, StartError
from polylect.vocab.ports import ModelEvent, ModelInfo, ModelRequest, Retrying

BUILT_IN = os.path.join(os.path.dirname(__file__), "scripts", "built_in.toml")


def open_provider(settings: ProviderSettings) -> "Scripted":
    """The script is `settings.extra["script"]`, else the file in POLYLECT_SCRIPT, else the built-in one."""
    path = settings.extra.get("script") or settings.find("POLYLECT_SCRIPT") or BUILT_IN
    return Scripted(
        lambda: read_script(path),
        built_in=path == BUILT_IN,
        stream_timeout=settings.stream_timeout,
        max_retries=settings.max_retries,
        pace=_pace(settings.find("POLYLECT_SCRIPT_PACE")),
    )


def _pace(text: str) -> float | None:
    if not text:
        return None
    if not re.fullmatch(r"\d+(\.\d+)?", text):
        raise StartError(
            f"POLYLECT_SCRIPT_PACE is {text!r}; it has to be seconds between chunks, such as 0.02", code=78
        )
    return float(text)


class Scripted:
    """Plays a script. What comes next is read from the request, so that a resumed session goes on where it was."""

    name = "scripted"

    def __init__(
        self,
        read: Callable[[], Script],
        *,
        built_in: bool = False,
        stream_timeout: float = 300.0,
        max_retries: int = 0,
        pace: float | None = None,
    ) -> None:
        self._read = read
        self._built_in = built_in
        self._script: Script | None = None
        self._stream_timeout = stream_timeout or inf
        self._max_retries = max_retries
        self._pace = pace
        self._faults: Faults = Faults()

    @classmethod
    def from_text(cls, toml: str, **options: Any) -> Self:
        """A script as TOML. Options are those of the constructor."""
        script = parse_script(toml)
        return cls(lambda: script, **options)

    @classmethod
    def from_values(cls, values: Mapping[str, Any], **options: Any) -> Self:
        """A script as plain values, in the words of the TOML format."""
        script = build_script(values)
        return cls(lambda: script, **options)

    @classmethod
    def in_order(cls, *turns: Any, **options: Any) -> Self:
        """The first prompt gets the first turn, the second the second, and so on."""
        return cls.from_values({"turn": turns}, **options)

    def load(self) -> Script:
        """Read the script now instead of at the first request. Raises StartError."""
        if self._script is None:
            self._script = self._read()
        return self._script

    def info(self, model: str) -> ModelInfo:
        # The built-in script says nothing of its model and is free: it need not be read before somebody prompts.
        head = ScriptHead() if self._built_in else self.load().head
        about, priced = head.model, self._built_in or head.price is not None
        limits = (about.window, about.max_output, about.thinking, about.effort_levels, about.images)
        prices = (head.price.input, head.price.output) if head.price else (0.0, 0.0)
        return ModelInfo(model, *limits, priced, prices)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        position = position_of(request)
        script, matched = self._find(position)
        for attempt in range(1, self._max_retries + 2):
            started = False
            try:
                items = Playback(script, matched, position, self._faults, self._pace).play()
                async with aclosing(self._batches(items)) as batches:
                    async for batch in batches:
                        started = True
                        yield batch
                return
            except ProviderError as error:
                if started or not error.retryable or attempt > self._max_retries:
                    raise
                delay = error.retry_after or 0.0
                yield [Retrying(attempt, self._max_retries, int(delay * 1000), str(error))]
                await asyncio.sleep(delay)

    async def close(self) -> None:
        pass

    def _find(self, position: ScriptPosition) -> tuple[Script, MatchedReply]:
        try:
            script = self.load()
        except StartError as error:
            raise ProviderError("bad_request", str(error)) from None
        if matched := choose(script, position):
            return script, matched
        last = ", ".join(f"{done.result.name} {done.result.outcome}" for done in position.latest)
        place = f"turn {position.turn}, step {position.step}" + (f", after {last}" if last else "")
        raise ProviderError(
            "bad_request",
            f"the script {script.source} has no reply for {position.prompt!r:.200} ({place}); "
            "add a [[reply]] for it, or a last one without `when`",
        )

    async def _batches(self, items: Iterator[PlaybackItem]) -> AsyncGenerator[Sequence[ModelEvent], None]:
        size = self.load().head.batch
        batch: list[ModelEvent] = []
        for item in items:
            if not isinstance(item, float | ProviderError):
                batch.append(item)
                if len(batch) < size:
                    continue
            if batch:
                yield batch
                batch = []
            if isinstance(item, ProviderError):
                raise item
            # Even with nothing to wait for: a long reply must not keep a cancel from getting through.
            await self._silence(item if isinstance(item, float) else 0.0)
        if batch:
            yield batch

    async def _silence(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, self._stream_timeout))
        if seconds > self._stream_timeout:
            raise ProviderError(
                "timeout", f"the model said nothing for {self._stream_timeout:g} seconds", retryable=True
            )
