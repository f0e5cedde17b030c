"""The exceptions, by who has to act on them.

    PolylectError
    ├── ProviderError    the model's service failed; `kind` says how, `retryable` whether trying again can help
    ├── ToolError        a tool could not do it; the text is worded for the model
    ├── StartError       the program cannot start: wrong flag, key, session, folder; the text says what to do
    └── SessionError     a session cannot be opened, read or written
        └── StorageError     the disk refuses it: it is full, read-only, gone

What a peer sends never raises: it becomes a Malformed or an Unknown.

The worker process imports this module on a bare interpreter, so it imports nothing: `typing` alone takes 4 ms.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from polylect.vocab.ports import ProviderFault


class PolylectError(Exception):
    """The base of all errors that polylect raises on purpose."""


class ProviderError(PolylectError):
    """A model service failed.

    Args:
        kind: How it failed.
        message: A sentence for people.
        retryable: Whether trying again can help.
        status: The HTTP status; 0 if there is none.
        retry_after: Seconds after which the service wants to be asked again; None if it did not say.
    """

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


FAULTS_BY_STATUS: "dict[int, tuple[ProviderFault, bool]]" = {
    400: ("bad_request", False),
    401: ("auth", False),
    402: ("auth", False),
    403: ("auth", False),
    404: ("bad_request", False),
    408: ("timeout", True),
    409: ("server", True),
    413: ("overflow", False),
    422: ("bad_request", False),
    429: ("rate_limit", True),
    503: ("overloaded", True),
    529: ("overloaded", True),
}


def fault_of_status(status: int) -> "tuple[ProviderFault, bool]":
    """The kind of fault that an HTTP `status` of a model's service reports, and whether trying again can help."""
    return FAULTS_BY_STATUS.get(status, ("server", True) if status >= 500 else ("bad_request", False))


class ToolError(PolylectError):
    """A tool could not do it. The text is for the model."""


class NoSuchFile(ToolError):
    """A tool was to read a file that does not exist."""


class NoHostAnswer(ToolError):
    """The host was asked to do something for a tool, and has given no answer that can be used."""


class StartError(PolylectError):
    """The program cannot start.

    Args:
        message: What to do about it, in one line for stderr.
        code: The exit code.
    """

    def __init__(self, message: str, *, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class SessionError(PolylectError):
    """A session cannot be opened, read or written. The text says why."""


class StorageError(SessionError):
    """The disk refuses to be written: it is full, read-only or gone. A person has to do something."""
