"""The provider for a model in a file, run inside this process by llama.cpp (xllamacpp).

The library serves the model on the loopback interface, and we ask it there with the wire of OpenAI
(`apis/openai_chat.py`). The model is loaded at the first use, in a thread; the server has a random key, so that other
users of the machine cannot ask it.
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from threading import Thread
from typing import Any

from msgspec.structs import replace

from polylect.providers.local import gguf
from polylect.providers.models import Catalogue
from polylect.providers.openai.provider import OpenAI
from polylect.providers.settings import ProviderSettings
from polylect.vocab.errors import ProviderError
from polylect.vocab.ports import ModelEvent, ModelInfo, ModelRequest, Provider

_WINDOW = 16_384
"""Memory grows with the window: a model made for more gets more only where [models."name"] says so."""


class Loaded:
    """A model in memory, and how it is spoken to."""

    def __init__(self, server: Any, voice: OpenAI) -> None:
        self.server = server  # lives as long as somebody holds it
        self.voice = voice


class _LocalClient(OpenAI):
    name = "local"


class Local:
    name = "local"

    def __init__(self, settings: ProviderSettings) -> None:
        self._settings = settings
        self._models = Catalogue.of(settings)
        self._path = ""
        self._loading: asyncio.Future[Loaded] | None = None

    def info(self, model: str) -> ModelInfo:
        row = self._models.row(os.path.basename(model)) if model else self._models.row("")
        return ModelInfo(model, row.window or _window(gguf.find(model)), row.max_output, images=False)

    def warm(self) -> None:
        self._load(str(self._settings.extra.get("model", "")))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        loaded = await asyncio.shield(self._load(request.model))
        named = replace(request, model=request.model or "local")
        async with aclosing(loaded.voice.stream(named)) as batches:
            async for batch in batches:
                yield batch

    async def close(self) -> None:
        if self._loading and self._loading.done() and not self._loading.exception():
            await self._loading.result().voice.close()

    def _load(self, model: str) -> asyncio.Future[Loaded]:
        """Begin, unless this model is loaded or being loaded. A failed one is tried again: memory may be free now."""
        path = gguf.find(model)
        before = self._loading
        if before is None or path != self._path or (before.done() and before.exception()):
            self._path, self._loading = path, asyncio.get_running_loop().create_future()
            # Not of the loop's own pool: that one is waited for at the end, and a large model takes minutes.
            Thread(target=self._work, args=(model, path, self._loading), daemon=True).start()
            return self._loading
        return before

    def _work(self, model: str, path: str, done: "asyncio.Future[Loaded]") -> None:
        if reason := gguf.missing(model):
            return _set_outcome(done, ProviderError("bad_request", f"local: {reason}"))
        name, began = os.path.basename(path), time.monotonic()
        _print_status(f"loading {name} ({os.path.getsize(path) / 1e6:.0f} MB)")
        try:
            loaded = _loaded(path, self.info(model).window, self._settings)
        except Exception as error:  # noqa: BLE001  (whatever a library of others raises, the prompt has to hear of it)
            text = f"local: {name} cannot be loaded ({error}): set --model to another file, or free some memory"
            return _set_outcome(done, ProviderError("bad_request", " ".join(text.split())))
        _print_status(f"{name} is loaded after {time.monotonic() - began:.1f} s")
        return _set_outcome(done, loaded)


def _loaded(path: str, window: int, settings: ProviderSettings) -> Loaded:
    import xllamacpp  # 110 MB

    key = os.urandom(16).hex()  # the port can be found by everybody on this machine
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx, params.n_parallel = window, 1
    params.api_keys, params.port = [key], 0
    params.ui, params.offline = False, True
    params.cpuparams.n_threads = max(1, (os.cpu_count() or 2) - 1)  # threads that share a core spin for each other
    params.verbosity = 1  # errors
    server = xllamacpp.Server(params)  # without the lock of the interpreter, so that the engine goes on
    return Loaded(
        server, _LocalClient(replace(settings, api_key=key, base_url=server.listening_address, project="", env={}))
    )


def _window(path: str) -> int:
    length = gguf.context_length(path)
    return min(length, _WINDOW) if length else _WINDOW


def _set_outcome(done: "asyncio.Future[Loaded]", outcome: Loaded | ProviderError) -> None:
    try:
        if isinstance(outcome, ProviderError):
            done.get_loop().call_soon_threadsafe(done.set_exception, outcome)
        else:
            done.get_loop().call_soon_threadsafe(done.set_result, outcome)
    except RuntimeError:
        pass  # the loop is closed: nobody waits any more


def _print_status(text: str) -> None:
    sys.stderr.write(f"polylect: {text}\n")
    sys.stderr.flush()


def open_provider(settings: ProviderSettings) -> Provider:
    return Local(settings)
