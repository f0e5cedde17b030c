"""What can be raised, sorted by who has to mend it.

    PolylectError
    ├── ProviderError    the model's service failed; `kind` says how, `retryable` whether trying again can help
    ├── ToolError        a tool could not do it; the text is worded for the model
    ├── StartError       the program cannot start: wrong flag, key, session, folder; the text says what to do
    ├── SessionError     a session cannot be opened, read or written
    │   └── StorageError     the disk refuses it: it is full, read-only, gone
    └── GrammarError     our own code said something out of order: a bug

What a peer sends never raises: it becomes a Malformed or an Unknown.

The worker process imports this module on a bare interpreter, so it imports nothing: `typing` alone takes 4 ms.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from polylect.vocab.ports import ProviderFault


class PolylectError(Exception):
    pass


class ProviderError(PolylectError):
    def __init__(
        self,
        kind: "ProviderFault",
        message: str,
        *,
        retryable: bool = False,
        status: int = 0,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: ProviderFault = kind
        self.retryable = retryable
        self.status = status
        self.retry_after = retry_after


class ToolError(PolylectError):
    pass


class StartError(PolylectError):
    def __init__(self, message: str, *, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class SessionError(PolylectError):
    pass


class StorageError(SessionError):
    """The disk is full or refuses to be written: nobody's mistake here, and a person has to make room."""


class GrammarError(PolylectError):
    pass
