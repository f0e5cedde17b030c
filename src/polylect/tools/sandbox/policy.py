"""The default policy of the sandbox: which places commands may write, and which are hidden from them.

`Sandbox` computes the writable places once per session, and the hidden ones before every command: between two commands
a hidden file may be created, or replaced by a link to another place.
"""

import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress

from polylect.system.plain_files import real_path
from polylect.system.repository import find_repository, is_git_directory, read_line
from polylect.tools.files.paths import is_inside
from polylect.tools.sandbox.secret_places import KEYS_AND_TOKENS, SERVICES, VARIABLES
from polylect.tools.sandbox.sockets import is_usable_socket, known_sockets, listening_sockets

CACHES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("npm", ("~/.npm",)),
    ("pnpm", ("~/.local/share/pnpm/store",)),
    ("yarn", ("~/.yarn/berry",)),
    ("bun", ("~/.bun/install/cache",)),
    ("cargo", ("$CARGO_HOME/registry", "$CARGO_HOME/git")),
    ("go", ("$GOPATH/pkg",)),
    ("java", ("~/.gradle", "~/.m2/repository")),
    ("dotnet", ("~/.nuget", "~/.dotnet")),
    ("bundle", ("~/.bundle",)),
    ("dart", ("~/.pub-cache",)),
    ("mix", ("~/.hex", "~/.mix")),
)
"""Folders that a program fills wherever it works. They are open if the program is there."""
_DEFAULTS = {
    "XDG_CONFIG_HOME": "~/.config",
    "XDG_CACHE_HOME": "~/.cache",
    "XDG_DATA_HOME": "~/.local/share",
    "XDG_STATE_HOME": "~/.local/state",
    "CARGO_HOME": "~/.cargo",
    "GOPATH": "~/go",
}


def expand(path: str, env: Mapping[str, str]) -> str:
    """An absolute path without links; `~` and `$NAME` at its beginning are replaced. Empty if it cannot be one."""
    path = _absolute(path, env)
    return os.path.realpath(path) if path else ""


def is_real(path: str) -> bool:
    """Whether no link is in this path, which had none when it was resolved. It need not exist."""
    return real_path(path) == path


def _absolute(path: str, env: Mapping[str, str]) -> str:
    """As `expand`, with links left as they are."""
    if path.startswith("$"):
        name, _, rest = path[1:].partition("/")
        path = os.path.join(env.get(name) or _DEFAULTS.get(name, ""), rest)
    if path == "~" or path.startswith("~/"):
        path = (env.get("HOME") or os.path.expanduser("~")) + path[1:]
    return path if os.path.isabs(path) else ""


class HiddenPlaces:
    """The places that are hidden from commands: the usual secrets and sockets, and the paths of the settings.

    A path in `settings` that begins with `!` is excluded: it is not hidden, nor are the sockets below it.
    """

    def __init__(self, settings: Sequence[str], env: Mapping[str, str]) -> None:
        excluded = [_absolute(path[1:], env) for path in settings if path.startswith("!")]
        self._excluded = {form for path in excluded if path for form in (path, os.path.realpath(path))}
        named = [path for name in VARIABLES for path in _paths_in(env.get(name, ""))]
        usual = [form for path in (*KEYS_AND_TOKENS, *SERVICES, *named) for form in _locations(path, env)]
        own = [_absolute(path, env) for path in settings if not path.startswith("!")]
        self.names = _unique([path for path in usual if path not in self._excluded] + own)
        """Absolute paths, whether they exist or not, with links unresolved."""
        self._sockets: list[str] | None = None
        self._seen: dict[str, None] = {}
        self._home = expand("~", env)
        places = _unique(_real_paths(self.names))
        self._all = dict.fromkeys((*places, *self._linked(places, ())))

    def all(self) -> Set[str]:
        """The real paths of all places, whether they exist or not."""
        return self._all.keys()

    def now(self, roots: Sequence[str]) -> list[str]:
        """The real paths of what is there at this moment, also where a name led earlier in this session: a command may
        have put another link in its place. `roots` are the workspace and what was granted; sockets in them belong to
        the work."""
        if self._sockets is None:
            self._sockets = listening_sockets()
        sockets = [path for path in (*self._sockets, *known_sockets()) if is_usable_socket(path)]
        strange = [path for path in sockets if not is_inside(path, (*roots, *self._excluded))]
        places = _unique(real_path(path) for path in (*filter(_is_accessible, self.names), *strange))
        places += self._linked(places, roots)
        new = [path for path in places if path not in self._excluded and path not in self._seen]
        self._seen |= dict.fromkeys(new)
        self._all |= dict.fromkeys(new)
        return [path for path in self._seen if os.path.lexists(path) and is_real(path)]

    def _linked(self, places: Iterable[str], roots: Sequence[str]) -> list[str]:
        """Where links in hidden folders of the home lead, one level deep: some keep `~/.aws/credentials` elsewhere. Of
        targets outside of the home only those count that nobody else may read: others are programs and the like."""
        home = self._home.rstrip("/") + "/"
        links = [link for place in places if place.startswith(home) for link in _links_in(place)]
        targets = _unique(real_path(link) for link in links)
        return [
            path
            for path in targets
            if (path.startswith(home) or _is_private(path)) and not any(is_inside(root, (path,)) for root in roots)
        ]


def _real_paths(paths: Iterable[str]) -> Iterator[str]:
    """As `os.path.realpath` of each absolute path. Most share their folders, so each folder is looked at once."""
    known = {"/": "/"}

    def real(path: str) -> str:
        if path not in known:
            folder, name = os.path.split(path)
            place = "" if name in ("", ".", "..") else os.path.join(real(folder), name)
            known[path] = place if place and not os.path.islink(place) else real_path(path)
        return known[path]

    return map(real, paths)


def _locations(path: str, env: Mapping[str, str]) -> Iterator[str]:
    """Where a place is, and where it would be without its variable: programs may have used that before."""
    yield _absolute(path, env)
    name, slash, rest = path.partition("/")
    if name.startswith("$") and name[1:] in _DEFAULTS:
        yield _absolute(_DEFAULTS[name[1:]] + slash + rest, env)


def _links_in(folder: str) -> list[str]:
    try:
        return [entry.path for entry in os.scandir(folder) if entry.is_symlink()]
    except OSError:
        return []


def _is_private(path: str) -> bool:
    try:
        return not os.stat(path).st_mode & 0o077
    except OSError:
        return False


def _is_accessible(path: str) -> bool:
    """Whether we can read it, write to it (a socket), or make it readable because it is ours."""
    if not os.access(path, os.F_OK):  # most are not there
        return False
    return os.access(path, os.R_OK) or os.access(path, os.W_OK) or os.stat(path).st_uid == os.geteuid()


def _paths_in(value: str) -> list[str]:
    """The absolute paths in a variable: `/a`, `/a:/b`, `/a,12,0`, `unix:///a`, `unix:path=/a,guid=0`."""
    for scheme in ("unix:path=", "unix://", "unix:"):
        value = value.replace(scheme, "")
    return [path for path in (value, *value.replace(",", ":").split(":")) if os.path.isabs(path)]


class CacheFolders:
    """The folders of caches.

    Missing ones are made before a command runs, because a command in the sandbox could not make them. Those that no
    command has filled are removed again at the end, so that nothing is left in the user's home. Sessions that run at
    the same time share them: each holds a lock on the first folder, and none removes while another one runs.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        paths = [expand("$XDG_CACHE_HOME", env)]
        for program, folders in CACHES:
            if any(
                os.access(os.path.join(folder, program), os.X_OK) for folder in env.get("PATH", "").split(os.pathsep)
            ):
                paths += [expand(folder, env) for folder in folders]
        self._made: list[str] = []
        """Outer folders before inner ones."""
        self.paths = [path for path in _unique(paths) if self._make(path)]
        self._lock = _shared_lock(self.paths[0]) if self.paths else -1

    def make_missing(self) -> None:
        """Make those that have disappeared since the last command: another session may have removed them."""
        for path in self.paths:
            self._make(path)

    def remove_unused(self) -> None:
        """Remove the folders that were made here and are still empty."""
        if self._lock < 0:
            return
        with suppress(OSError):  # another session uses them
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for path in reversed(self._made):
                with suppress(OSError):  # something is in it
                    os.rmdir(path)
        os.close(self._lock)
        self._lock = -1

    def _make(self, path: str) -> bool:
        """Make a folder, and those above it that are missing. Returns whether it is there."""
        if not os.path.isdir(path):
            if not self._make(os.path.dirname(path)):
                return False
            try:
                os.mkdir(path, 0o700)
                self._made.append(path)
            except OSError:
                return os.path.isdir(path)
        return True


def _shared_lock(folder: str) -> int:
    """A descriptor of the folder that holds a shared lock on it; -1 if there is none to be had."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return -1
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return -1
    return descriptor


def temporary_paths(env: Mapping[str, str]) -> list[str]:
    return _unique(
        path for path in (expand(one, env) for one in ("/tmp", "/var/tmp", "$TMPDIR")) if os.path.isdir(path)
    )


def git_paths(workspace: str) -> Iterator[str]:
    """Where git keeps what belongs to this workspace, if that is outside of it: of a folder above, or of a worktree."""
    repository = find_repository(workspace)
    if repository is None:
        return
    place = os.path.join(repository.folder, ".git")
    if repository.git == place and not os.path.islink(place):
        yield place
    elif os.path.isfile(place):
        own = repository.git
        back = os.path.realpath(os.path.join(own, read_line(os.path.join(own, "gitdir")) or "nowhere"))
        common, kind = os.path.split(os.path.dirname(own))
        # Whoever wrote .git may have meant any folder. A worktree's own one points back and lies in a repository.
        if back == os.path.realpath(place) and kind == "worktrees" and is_git_directory(common):
            yield common


def _unique(paths: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(path for path in paths if path))
