"""A vendor's service on loopback, in a thread of its own, for engines that are real processes."""

import asyncio
import json
import threading
from concurrent.futures import Future
from typing import NamedTuple, Self

from e2e import vendors
from engine_process import PATIENCE, Engine, Place
from polylect.vocab.content import Block, Text
from providers.loopback import Loopback, Request, Step, reply
from providers.wires import AWS, GOOGLE, SECRET, binary

WIDTH, TOKENS = 8, 100


class Vendor(NamedTuple):
    provider: str
    render: vendors.Render
    env: dict[str, str]
    settings: str = ""
    last: str = ""
    kind: str = "text/event-stream"
    replays_thinking: bool = True

    def frames(self, *blocks: Block, width: int = WIDTH) -> list[bytes]:
        """The reply, one piece for each event."""
        payloads = self.render(list(blocks), width, TOKENS)
        if self.provider == "bedrock":
            return [binary(json.dumps(payload)) for payload in payloads]
        return vendors.sse(payloads, last=self.last)

    def before_text(self, text: Text, width: int) -> int:
        """How many events come before the first one that shows something of this text."""
        payloads = self.render([text], width, TOKENS)
        return next(index for index, payload in enumerate(payloads) if text.text[:width] in json.dumps(payload))

    def says(self, *blocks: Block, width: int = WIDTH) -> list[Step]:
        return reply(*self.frames(*blocks, width=width), kind=self.kind)

    def engine(self, place: Place, url: str, *flags: str) -> Engine:
        if self.settings:
            place.configure(self.settings)
        result = ("--provider", self.provider, "--base-url", url, "--model", "some-model", *flags)
        return place.started(*result, env=self.env)


OPENAI = {"OPENAI_API_KEY": SECRET}
VENDORS = {
    "anthropic": Vendor("anthropic", vendors.anthropic, {"ANTHROPIC_API_KEY": SECRET}),
    "chat": Vendor("openai", vendors.chat, OPENAI, last="[DONE]", replays_thinking=False),
    "responses": Vendor("openai", vendors.responses, OPENAI, '[providers.openai]\napi = "responses"\n'),
    "bedrock": Vendor("bedrock", vendors.anthropic, AWS, kind="application/vnd.amazon.eventstream"),
    "vertex": Vendor("vertex", vendors.anthropic, GOOGLE),
}


class Service:
    """Answers requests with what was given last, in that order."""

    def __enter__(self) -> Self:
        self._started: Future[Loopback] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        self._server = self._started.result(PATIENCE)
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(PATIENCE)

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        async with Loopback([]) as server:
            self._started.set_result(server)
            await self._end.wait()

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def requests(self) -> list[Request]:
        return self._server.requests

    @property
    def connections(self) -> int:
        return self._server.connections

    @property
    def left(self) -> int:
        """How many clients hung up while they were kept waiting."""
        return self._server.left

    def give(self, *answers: list[Step]) -> None:
        """What the next requests are answered; the last one also all later ones."""
        self._server.answers = [[] for _ in self.requests] + list(answers)

    def go(self) -> None:
        """Go on after a WAIT."""
        self._loop.call_soon_threadsafe(self._server.go.set)
