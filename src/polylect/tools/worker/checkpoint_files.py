"""Operations for checkpoints: read the state of a file, restore it, count the lines that this changes.

They run in the worker process for files that it can reach. For others the engine calls `read_state` and `restore_file`
in a thread. Both open the path without following a link. So if a folder was replaced by a link after the checkpoint,
the file is refused, and nothing behind the link is written or deleted.
"""

import errno
import os
import stat

from polylect.system.bare_contextlib import suppress
from polylect.system.plain_files import opened_parent
from polylect.tools.files.regular_files import Draft, opened_file
from polylect.tools.text.diff import changed_spans
from polylect.vocab.errors import ToolError


def snapshot(*, path: str) -> dict[str, object]:
    """Its `mode` and its bytes; `there` is false if there is none. Raises ToolError for what is not a file."""
    state = read_state(path)
    return {"there": False} if state is None else {"there": True, "data": state[0], "mode": state[1]}


def restore(*, path: str, there: bool, mode: int = 0, data: bytes = b"") -> dict[str, object]:
    """Replace the file by these bytes, or delete it."""
    restore_file(path, (data, mode) if there else None)
    return {}


def count_changes(*, size: int, data: bytes = b"") -> dict[str, object]:
    """The number of added (`come`) and removed (`go`) lines between the first `size` bytes and the rest."""
    old, new = data[:size].splitlines(), data[size:].splitlines()
    spans = changed_spans(old, new)
    return {"come": sum(to - at for _, _, at, to in spans), "go": sum(to - at for at, to, _, _ in spans)}


def read_state(path: str) -> tuple[bytes, int] | None:
    """The bytes and the mode of the regular file at a real path; None if there is none."""
    try:
        with opened_file(path, path) as file:
            mode = stat.S_IMODE(os.fstat(file).st_mode)
            with open(file, "rb", closefd=False) as stream:
                return stream.read(), mode
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        _refuse_link(path)
        return None


def restore_file(path: str, state: tuple[bytes, int] | None) -> None:
    """Replace the file at a real path by this state, whole or not at all; None deletes it."""
    try:
        with opened_parent(path, make=state is not None) as (folder, name):
            if state is None:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
                return
            data, mode = state
            with Draft(folder) as draft:
                with open(draft.file, "wb", closefd=False) as stream:
                    stream.write(data)
                os.fchmod(draft.file, mode)
                os.fsync(draft.file)
                draft.publish(name, new=False)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            _refuse_link(path)
        raise


def _refuse_link(path: str) -> None:
    """Raises ToolError if a folder on the way is a link by now."""
    folder = os.path.dirname(path)
    if os.path.realpath(folder) != folder:
        raise ToolError(f"{folder} leads elsewhere now")
