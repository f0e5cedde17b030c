"""Files that are written whole or not at all."""

import os
from collections.abc import Iterable
from contextlib import suppress


def write(path: str, pieces: Iterable[bytes], mode: int | None = None) -> None:
    """What was there stays until all of this is on disk. Without a mode, that of any new file."""
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
