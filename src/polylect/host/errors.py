"""What can go wrong between a host and its engine.

PolylectError
└── HostError
    ├── EngineDied     it could not be started, was never ready, or is gone; has `code` and `last_words`
    │   ├── NoSuchSession  the session to go on with does not exist
    │   ├── SessionExists  the id of a new session is taken
    │   ├── SessionInUse   another process has the session open
    │   └── NotConfigured  a person has to set something first: a key, a provider, a model
    ├── InvalidValue   an argument cannot have this value; also a ValueError
    ├── InvalidType    an argument cannot have this type; also a TypeError
    ├── UnknownName    there is nothing of this name; the text says what there is; also a LookupError
    │   └── UnknownEngine
    ├── WrongState     not here or not now: outside of the block, or inside of a policy; also a RuntimeError
    ├── UnreadableFile a file to attach cannot be read; also an OSError
    ├── Unsupported    this engine's wire has no word for it; nothing was sent
    ├── Refused        the engine said no; has the `failure`
    ├── UnknownPrice   the price of the model is not known, so a limit in dollars could not hold
    ├── ServerFailed   an MCP server did not come up; the text says why
    ├── TimedOut       the turn took too long, or was silent for too long; it has been cancelled; has the `result`
    └── TurnFailed     `ask` got no answer; has the `result` as far as it came
        └── SchemaNotMet   the answer does not fit its schema, after it was asked for again; has the `result`
"""

from typing import TYPE_CHECKING

from polylect.vocab.content import Failure
from polylect.vocab.errors import PolylectError

if TYPE_CHECKING:
    from polylect.host.results import Result


class HostError(PolylectError):
    pass


class EngineDied(HostError):
    def __init__(self, message: str, code: int | None = None, last_words: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.last_words = last_words


class NoSuchSession(EngineDied):
    pass


class SessionExists(EngineDied):
    pass


class SessionInUse(EngineDied):
    pass


class NotConfigured(EngineDied):
    pass


class InvalidValue(HostError, ValueError):
    pass


class InvalidType(HostError, TypeError):
    pass


class UnknownName(HostError, LookupError):
    pass


class UnknownEngine(UnknownName):
    pass


class WrongState(HostError, RuntimeError):
    pass


class UnreadableFile(HostError, OSError):
    pass


class Unsupported(HostError):
    pass


class Refused(HostError):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class UnknownPrice(HostError):
    pass


class ServerFailed(HostError):
    pass


class TimedOut(HostError):
    def __init__(self, message: str, result: "Result") -> None:
        super().__init__(message)
        self.result = result


class TurnFailed(HostError):
    def __init__(self, message: str, result: "Result") -> None:
        super().__init__(message)
        self.result = result


class SchemaNotMet(TurnFailed):
    pass
