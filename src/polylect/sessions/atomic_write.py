"""Writes a file so that a crash leaves either the old content or the new one, never a mixture.

Used for exports; logs are append-only and do not need it.
"""

import os
from collections.abc import Iterable
from contextlib import suppress


def write(path: str, pieces: Iterable[bytes], mode: int | None = None) -> None:
    """Replace the file at `path` by these pieces. `mode` is for the new file; None for the default.

    Raises OSError with the name of the file; then the old content is still there.
    """
    draft = os.path.join(os.path.dirname(path), f".polylect-{os.urandom(6).hex()}.tmp")
    try:
        with open(draft, "xb") as file:
            file.writelines(pieces)
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
        os.rename(draft, path)
    except BaseException as error:
        with suppress(FileNotFoundError):
            os.unlink(draft)
        if isinstance(error, OSError):
            error.filename = path  # nobody has heard of the draft
        raise
