"""A conversation with many calls: no request makes anew what the last one has made, and none differs for that."""

import pytest

from apis.cases import History, assistant, call, result, user
from e2e.service import VENDORS, Vendor
from polylect.apis.history import Normalizer
from polylect.vocab.content import Message, Text, ToolCall
from polylect.vocab.ports import ModelRequest, Provider
from providers.loopback import Loopback, run
from providers.wires import WIRES

STEPS = 12


async def ask(provider: Provider, history: History) -> None:
    async for _ in provider.stream(ModelRequest("some-model", "be good", history, thinking=4000)):
        pass


def grown(step: int) -> History:
    return assistant(f"Step {step}.", call(f"t{step}", path="a.txt")), result(f"t{step}", f"text {step}")


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    """Every message that was looked at, each time."""
    seen: list[Message] = []
    add = Normalizer.add

    def watched(settling: Normalizer, message: Message) -> None:
        seen.append(message)
        add(settling, message)

    monkeypatch.setattr(Normalizer, "add", watched)
    return seen


@pytest.mark.parametrize("name", VENDORS)
def test_every_message_is_put_into_words_once_while_calls_go_on(name: str, settled: list[Message]) -> None:
    vendor = VENDORS[name]

    async def main() -> None:
        async with Loopback([calls(vendor)] * STEPS + [vendor.says(Text("done"))]) as server:
            provider, history = WIRES[name].open(server.url), (user("go"),)
            for step in range(STEPS):
                await ask(provider, history)
                history += grown(step)
            await ask(provider, history)
            assert len(settled) == len(history)
            await ask(provider, history)
            assert len(settled) == 2 * len(history), "nothing is kept when no results are waited for"
            await provider.close()

    run(main)


@pytest.mark.parametrize("name", VENDORS)
def test_requests_are_those_of_a_provider_that_was_never_asked_before(name: str) -> None:
    async def main() -> None:
        async with Loopback([calls(VENDORS[name])]) as server:
            provider, history = WIRES[name].open(server.url), (user("go"),)
            for step in range(STEPS):
                await ask(provider, history)
                fresh = WIRES[name].open(server.url)
                await ask(fresh, history)
                await fresh.close()
                history = history + grown(step) if step != STEPS // 2 else (user("a summary"), *history[5:])
            await provider.close()
            bodies = [request.body for request in server.requests]
            assert bodies[::2] == bodies[1::2]

    run(main)


def calls(vendor: Vendor) -> list[bytes | str]:
    return vendor.says(ToolCall("t1", "Read", {"path": "a.txt"}))
