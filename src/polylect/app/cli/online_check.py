"""Whether a model's service answers and takes our key: one small request, for `polylect doctor --online`."""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing

from polylect.app.serving.open_provider import open_one
from polylect.app.startup.config import Values
from polylect.vocab.content import Message, Text
from polylect.vocab.errors import ProviderError
from polylect.vocab.ports import ModelRequest

_SECONDS = 20.0
_NOBODY = "polylect-doctor"
"""Keys are looked at before models are: asking for one that nobody has costs nothing."""
Verdict = tuple[str, str]


async def verdicts(providers: Mapping[str, Values], env: Mapping[str, str]) -> dict[str, Verdict]:
    """How each of them answers, as doctor says it: a state and what to know."""
    found = await asyncio.gather(*(_verdict(values, env) for values in providers.values()))
    return dict(zip(providers, found, strict=True))


async def _verdict(values: Values, env: Mapping[str, str]) -> Verdict:
    provider = open_one({**values, "max_retries": 0}, env)
    model = str(values.get("model") or _NOBODY)
    request = ModelRequest(model, "", [Message("user", (Text("Say yes."),))], max_tokens=16)
    try:
        async with asyncio.timeout(_SECONDS), aclosing(provider.stream(request)) as batches:
            await anext(batches)
        return "ok", f"{model} answers"
    except TimeoutError:
        return "bad", f"no answer within {_SECONDS:g} s"
    except ProviderError as error:
        return _judged(error, model)
    finally:
        await provider.close()


def _judged(error: ProviderError, model: str) -> Verdict:
    # Where the service itself says a word about the model, address and key were right.
    said = str(error).count(model) > 1 or error.status == 400
    if model == _NOBODY and error.kind == "bad_request" and said:
        return "ok", "the service answers and takes the key"
    return "bad", str(error)
