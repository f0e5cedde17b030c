"""Regular expressions that are compiled at their first use.

Compiling takes about 0.1 ms each, and most starts use few of them.
"""

import re
from typing import Any, cast


class _Pattern:
    def __init__(self, source: str, flags: int) -> None:
        self._arguments = source, flags

    def __getattr__(self, name: str) -> Any:
        method = getattr(re.compile(*self._arguments), name)  # of which re keeps hold
        setattr(self, name, method)
        return method


def pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    """Like `re.compile`, but an invalid expression raises at its first use. Only attributes of the pattern work, not
    `isinstance` or comparison.
    """
    return cast("re.Pattern[str]", _Pattern(source, flags))
