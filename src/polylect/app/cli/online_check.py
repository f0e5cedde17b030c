"""Checks for `polylect doctor --online` whether a model's service answers and accepts our key.

One small request is made to each provider. Where no model is set, it asks for one that does not exist: services check
the key first, so the answer shows whether the key is right and costs nothing.
"""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing

from polylect.app.serving.open_provider import open_one
from polylect.app.startup.config import Values
from polylect.vocab.content import Message, Text
from polylect.vocab.errors import ProviderError
from polylect.vocab.ports import ModelRequest

_SECONDS = 20.0
_UNKNOWN_MODEL = "polylect-doctor"
"""The name of a model that no service has."""
Verdict = tuple[str, str]


async def verdicts(providers: Mapping[str, Values], env: Mapping[str, str]) -> dict[str, Verdict]:
    """For each provider a state of `doctor` and a text. All are asked at the same time."""
    results = await asyncio.gather(*(_verdict(values, env) for values in providers.values()))
    return dict(zip(providers, results, strict=True))


async def _verdict(values: Values, env: Mapping[str, str]) -> Verdict:
    provider = open_one({**values, "max_retries": 0}, env)
    model = str(values.get("model") or _UNKNOWN_MODEL)
    request = ModelRequest(model, "", [Message("user", (Text("Say yes."),))], max_tokens=16)
    try:
        async with asyncio.timeout(_SECONDS), aclosing(provider.stream(request)) as batches:
            await anext(batches)
        return "ok", f"{model} answers"
    except TimeoutError:
        return "bad", f"no answer within {_SECONDS:g} s"
    except ProviderError as error:
        return _verdict_of_error(error, model)
    finally:
        await provider.close()


def _verdict_of_error(error: ProviderError, model: str) -> Verdict:
    # If the service complains about the model, it has accepted address and key.
    about_model = str(error).count(model) > 1 or error.status == 400
    if model == _UNKNOWN_MODEL and error.kind == "bad_request" and about_model:
        return "ok", "the service answers and takes the key"
    return "bad", str(error)
