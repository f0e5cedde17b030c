"""What all tests share: examples that are the same in every run, no clock that fails a slow machine, no odd settings.

`pytest --hypothesis-profile full` tries all examples, as `make test-all` does; without it a quarter of them is tried.
`pytest --hypothesis-profile search` looks for examples that nobody has seen yet.
"""

import gc
import os
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("full", settings.get_profile("search"), derandomize=True)
settings.register_profile("polylect", settings.get_profile("full"), max_examples=25)
settings.load_profile("polylect")

# Whatever the machine is told of proxies and of telemetry: servers of tests are on this machine, and tests decide.
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost," + os.environ.get("NO_PROXY", "")
for name in [name for name in os.environ if name.startswith("OTEL_")]:
    del os.environ[name]

# Whoever runs the tests may have keys: no test may find them. Engines that are told nothing play a script.
VENDORS = ("ANTHROPIC_", "OPENAI_", "AWS_", "GOOGLE_", "VERTEX_", "CLOUD_ML_", "CLAUDE_", "POLYLECT_")
OURS = ("POLYLECT_ATTACK_", "POLYLECT_INTEROP_")
"""Set by `make attack` and `make interop`."""
for name in [name for name in os.environ if name.startswith(VENDORS) and not name.startswith(OURS)]:
    del os.environ[name]
os.environ["POLYLECT_PROVIDER"] = "scripted"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """No garbage is looked for among ten thousand tests while they are collected, and never among them later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
