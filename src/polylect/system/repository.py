"""The repository that a folder belongs to: what git itself would take for one, if it is the user's own.

Instructions and skills are read from a repository's root down to the workspace, and the sandbox lets commands write to
its git directory. An empty `.git` in `/tmp`, or one of another user, must not make a repository of everything below it.
So the rules are those of git (setup.c): a git directory has a valid HEAD, objects and refs; a file `.git` names one;
the search ends at the boundary of a file system; and folder, file and git directory belong to the current user
(`safe.directory`). Exceptions that git's configuration makes to the last rule are not known here.
"""

import os
import stat
from typing import NamedTuple

_HEX = frozenset("0123456789abcdef")
_MOST = 4096
_POINTER = "gitdir: "


class Repository(NamedTuple):
    """`folder` holds `.git`; `git` is the git directory, elsewhere if `.git` is a file."""

    folder: str
    git: str


def find_repository(folder: str) -> Repository | None:
    """The repository of this absolute folder; None if it is in none, or in one that git would refuse to use."""
    try:
        top = folder
        while not (git := _git_directory_in(top)):
            if top == (top := os.path.dirname(top)):
                return None
        ours = _on_one_device(folder, top) and all(map(_is_owned, (top, os.path.join(top, ".git"), git)))
        return Repository(top, git) if ours else None
    except OSError:
        return None


def folders_from_root(workspace: str) -> list[str]:
    """From the repository's root down to the workspace. Without one only the workspace: others may be anybody's."""
    folders = [workspace]
    if repository := find_repository(workspace):
        while folders[0] != repository.folder:
            folders.insert(0, os.path.dirname(folders[0]))
    return folders


def project() -> str:
    """The repository around the current folder, else that folder; empty where it is gone or is the whole home."""
    try:
        here = os.getcwd()
    except FileNotFoundError:
        return ""
    root = folders_from_root(here)[0]
    return "" if _is_home_or_above(root) else root


def _is_home_or_above(folder: str) -> bool:
    """Whether the user's own programs (`~/.local/bin`) lie in this folder: then it is no project to keep apart."""
    home = os.path.realpath(os.path.expanduser("~"))
    return (home + "/").startswith(os.path.realpath(folder).rstrip("/") + "/")


def is_git_directory(path: str) -> bool:
    """Whether git would work with it: HEAD is valid, and there are objects and refs, maybe of the main work tree's."""
    common = read_line(os.path.join(path, "commondir"))
    shared = os.path.join(path, common) if common else path
    parts = (os.path.join(shared, name) for name in ("objects", "refs"))
    return _has_head(path) and all(map(os.path.isdir, parts))


def _has_head(path: str) -> bool:
    head = os.path.join(path, "HEAD")
    if os.path.islink(head):
        return os.readlink(head).startswith("refs/")
    text = read_line(head)
    return text.removeprefix("ref:").strip().startswith("refs/") or (len(text) in (40, 64) and _HEX.issuperset(text))


def _git_folder_of(place: str) -> str:
    line = read_line(place)
    path = line.removeprefix(_POINTER) if line.startswith(_POINTER) else ""
    return os.path.realpath(os.path.join(os.path.dirname(place), path)) if path else ""


def _git_directory_in(folder: str) -> str:
    """The git directory that belongs to `.git` in this folder; empty if there is none. Raises OSError."""
    place = f"{folder.rstrip('/')}/.git"
    kind = _kind(place)
    if kind != stat.S_IFREG:
        return place if kind == stat.S_IFDIR and is_git_directory(place) else ""
    git = _git_folder_of(place)
    if not is_git_directory(git):
        raise FileNotFoundError(git)  # git looks no further, wherever the file leads
    return git


def _on_one_device(folder: str, top: str) -> bool:
    """Whether the folder, `top` above it and all between them are on one file system."""
    device = os.stat(top).st_dev
    while os.stat(folder).st_dev == device:
        if folder == top:
            return True
        folder = os.path.dirname(folder)
    return False


def _is_owned(path: str) -> bool:
    """As git's safe.directory: of the current user, or, for root by sudo, of the one who called it."""
    owner, user = os.lstat(path).st_uid, os.geteuid()
    sudo = os.environ.get("SUDO_UID", "") if user == 0 else ""
    return owner == user or (sudo.isdecimal() and owner == int(sudo))


def _kind(path: str) -> int:
    """Which kind of file this is, as the constants of `stat` name them; 0 if there is none."""
    try:
        return stat.S_IFMT(os.stat(path).st_mode)
    except OSError:
        return 0


def read_line(path: str) -> str:
    """The text of a small file of git's; empty if it is not there, or is a pipe."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        text = os.read(file, _MOST) if stat.S_ISREG(os.fstat(file).st_mode) else b""
    except OSError:
        text = b""
    finally:
        os.close(file)
    return text.decode("utf-8", "replace").strip().replace("\0", "?")
