"""Why an engine does not start, as an error of its own kind and in the words of `connect`.

An engine process can only exit and write a line to stderr. `EngineSpec.start_errors` says by which exit codes and texts
each engine means that a session does not exist, is taken or is in use, or that something has to be configured.
`ProcessLink.death` asks here while the engine has not been ready.

    Session ID 'monday' already exists. Use --resume monday to go on with it
    SessionExists: Session ID 'monday' already exists. Use resume='monday' to go on with it
"""

import re
from collections.abc import Collection, Mapping

from msgspec import Struct

from polylect.host.errors import EngineDied

_NAMED = ("scripted", "latest")
"""Values that engines name in their advice."""


class StartErrors(Struct, frozen=True):
    """How one engine says why it does not start."""

    kinds: Mapping[int | str, type[EngineDied]] = {}
    """By its exit code, or by a regular expression for what it says."""
    parameters: Mapping[str, str] = {}
    """The parameter of `connect` that each of its flags stands for: `session=` for `--session-id`."""
    values: Collection[str] = ()
    """The words that it was started with."""

    def kind(self, code: int | None, words: str) -> type[EngineDied]:
        """Returns the type of the error for an engine that has ended with this `code` and these last `words`."""
        for sign, kind in self.kinds.items():
            if sign == code if isinstance(sign, int) else re.search(sign, words):
                return kind
        return EngineDied

    def in_parameters(self, words: str) -> str:
        """Returns what an engine said with parameters in the place of its flags."""
        values = "|".join(re.escape(value) for value in sorted({*self.values, *_NAMED}, key=len, reverse=True) if value)
        pattern = rf"(?<![\w-])({'|'.join(self.parameters)})(?![\w-])(?:[ =](?:'([^']*)'|({values})(?!\w)))?"
        return re.sub(pattern, self._assignment, words) if self.parameters else words

    def _assignment(self, flag: re.Match[str]) -> str:
        value = flag[2] or flag[3]
        return self.parameters[flag[1]] + (repr(value) if value else "")
