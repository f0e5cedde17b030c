"""Two hundred steps with a model that remembers sixteen thousand tokens, over real HTTP (issue: sessions)."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apis.test_histories import check_anthropic, check_chat, check_responses
from doubles import Echo, Talk
from e2e import vendors
from e2e.service import VENDORS
from polylect.plug import load
from polylect.providers.settings import ProviderSettings
from polylect.sessions.store import MemoryStore
from polylect.vocab.commands import Prompt
from polylect.vocab.content import Block, Text, ToolCall
from polylect.vocab.events import CompactionEnded, StepStarted, TurnEnded
from providers.loopback import Loopback, Step, reply

WINDOW, STEPS = 16_000, 200
CHECKS: dict[str, Callable[[Any], None]] = {
    "anthropic": check_anthropic,
    "chat": check_chat,
    "responses": check_responses,
}


class Model(list[list[Step]]):
    """Calls a tool as often as there are steps, and refuses what it should never be sent."""

    def __init__(self, vendor: str) -> None:
        super().__init__([[]])
        self._vendor = vendor
        self.server = Loopback(self)
        self.largest = 0
        self.steps = 0
        self.summaries = 0

    def __getitem__(self, number: Any) -> Any:
        """The answer to the last request."""
        body = self.server.requests[-1].body
        tokens = len(body) // 4
        self.largest = max(self.largest, tokens)
        if tokens > WINDOW:
            return reply(b'{"error":{"message":"prompt is too long"}}', status=400, kind="application/json")
        said = json.loads(body)
        CHECKS[self._vendor](said)
        vendor = VENDORS[self._vendor]
        payloads = vendor.render(self._reply(working=bool(said.get("tools"))), 500, tokens)
        return reply(b"".join(vendors.sse(payloads, last=vendor.last)))

    def _reply(self, *, working: bool) -> list[Block]:
        if not working:
            self.summaries += 1
            return [Text("What was found so far. " * 40)]
        self.steps += 1
        if self.steps == STEPS:
            return [Text("All found.")]
        args = {"text": f"finding {self.steps}: " + "words " * 300}
        return [Text(f"Step {self.steps}."), ToolCall(f"toolu_{self.steps}", "Echo", args)]


@pytest.mark.parametrize("vendor", CHECKS)
def test_two_hundred_steps_fit_a_small_window_by_way_of_summaries(tmp_path: Path, vendor: str) -> None:
    model = Model(vendor)

    async def conversation() -> Talk:
        async with model.server as server, asyncio.timeout(30):
            extra = {"models": {"m": {"window": WINDOW}}, "api": vendor}
            settings = ProviderSettings(api_key="k", base_url=server.url, extra=extra)
            provider = load("providers", VENDORS[vendor].provider).open_provider(settings)
            talk = Talk(tmp_path, provider, Echo(), store=MemoryStore(str(tmp_path)))
            talk.send(Prompt("t1", "Find everything."))
            await talk.until(TurnEnded)
            await talk.end()
            return talk

    talk = asyncio.run(conversation())
    assert talk.of(TurnEnded)[0].reason == "end"
    assert (model.steps, len(talk.of(StepStarted))) == (STEPS, STEPS)
    assert 5 < model.summaries == len(talk.of(CompactionEnded)) < 100
    assert all(ended.ok and ended.after < ended.before for ended in talk.of(CompactionEnded))
    assert model.largest < WINDOW
    assert len(talk.messages) == 2 * STEPS, "the log keeps everything"
