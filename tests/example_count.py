"""How many examples hypothesis tries: a quarter in `make test`, all in `make test-all` and `make attack`.

`tests/conftest.py` has the profiles. A test that sets a number of its own takes it from here.
"""

from hypothesis import settings


def up_to(most: int) -> int:
    """`most` where a profile tries all examples, and the same part of them as of all others where it does not."""
    return most * min(settings.default.max_examples, 100) // 100
