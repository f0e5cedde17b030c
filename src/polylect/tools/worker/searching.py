"""Operations that search folders and files for Glob and Grep.

They run in the worker process, which starts ripgrep (with an empty environment), or `files/fallback_search.py`, in a
child process. The child starts in the folder that the permission check has seen, entered by its descriptor, and where
the kernel has Landlock it is confined to that folder (`search_confinement.py`), so that no name leads it
elsewhere. A single file is the child's standard input. The output is processed while it arrives, and little more is
held in memory than what will be shown. `program.py` calls `glob` and `grep`.
"""

import os
import re
import resource
import select
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from heapq import nsmallest

from polylect.system.plain_files import opened_parent
from polylect.tools.files.paths import PROC, is_inside, opened_folder, relative
from polylect.tools.files.regular_files import opened_file, regular
from polylect.tools.process.programs import find_ripgrep
from polylect.tools.text.glob_pattern import compile_pattern, fixed_folder
from polylect.tools.text.search_results import Matches
from polylect.tools.text.truncate import Capture
from polylect.vocab.errors import ToolError

MOST_KEPT = 10_000
"""Matches of a Glob that are held before the oldest are dropped."""
MOST_SHOWN = 20_000
"""Characters of what Grep shows."""
_ALWAYS = ("--no-config", "--no-messages", "--hidden", "--no-require-git", "--color=never", "--glob=!.git")
_CHUNK = 256 * 1024
_NOT_STARTED = 126
_SIMPLE_NAME = r"[\w.*?-]*(\{[\w.,-]+\})?[\w.*?-]*"


# Glob.


def glob(*, pattern: str, path: str, real: str, most: int, workspace: str) -> dict[str, object]:
    """The `output` of Glob. `real` is the folder that holds every match: `path` and the pattern's fixed beginning."""
    matcher = _matcher(pattern)
    try:
        with opened_folder(real) as folder:
            listing = Listing(folder, matcher, most)
            error_text = search(("--files", "--null", *_prefilter(pattern)), folder, real, listing.add)
    except (FileNotFoundError, NotADirectoryError):
        if not os.path.isdir(os.path.join(workspace, os.path.expanduser(path))):
            raise ToolError(f"{path} is not a folder.") from None
        return {"output": "No files matched the pattern"}  # only the pattern names a missing one
    if error_text:
        raise ToolError(f"Could not list {path}: {error_text}")
    lines = [relative(os.path.join(real, name), workspace) for name in listing.newest()]
    if listing.total > len(lines):
        lines.append(f"({listing.total - len(lines)} more files match: use a narrower pattern to see them)")
    return {"output": "\n".join(lines) or "No files matched the pattern"}


def _prefilter(pattern: str) -> tuple[str, ...]:
    """Options that make ripgrep skip most other files: a type, because a glob would also list what git ignores."""
    name = pattern.rpartition("/")[2]
    if not name or "**" in name or not re.fullmatch(_SIMPLE_NAME, name, re.ASCII):
        return ()
    return (f"--type-add=wanted:{name}", "--type=wanted")


def _matcher(pattern: str) -> re.Pattern[str]:
    """For paths below the pattern's own fixed folder."""
    fixed = fixed_folder(pattern)
    try:
        return compile_pattern(pattern[len(fixed) :].lstrip("/") if fixed or pattern.startswith("/") else pattern)
    except re.error as error:
        raise ToolError(f"Not a pattern: {pattern} ({error})") from None


class Listing:
    """The newest matches of a list of paths that arrives in pieces, and their number."""

    def __init__(self, folder: int, matcher: re.Pattern[str], most: int) -> None:
        self.total = 0
        self._matches: list[tuple[int, str]] = []
        self._most = most
        self._folder = folder
        self._matcher = matcher
        self._rest = b""

    def add(self, data: bytes) -> None:
        records, _, self._rest = (self._rest + data).rpartition(b"\0")
        match = self._matcher.match
        names = [name for line in os.fsdecode(records).split("\0") if match(name := line.removeprefix("./"))]
        self.total += len(names)
        self._matches += [(self._age(name), name) for name in names]
        if len(self._matches) > MOST_KEPT:
            self._matches = nsmallest(self._most, self._matches)

    def newest(self) -> list[str]:
        return [name for _, name in nsmallest(self._most, self._matches)]

    def _age(self, name: str) -> int:
        """Sorts the newest first."""
        try:
            return -os.stat(name, dir_fd=self._folder, follow_symlinks=False).st_mtime_ns
        except OSError:
            return 0  # gone meanwhile


# Grep.


def grep(
    *,
    options: Sequence[str],
    path: str,
    real: str,
    most: int,
    offset: int,
    numbers: bool,
    by_file: bool,
    workspace: str,
    file: int = -1,
) -> dict[str, object]:
    """The `output` of Grep: `most` lines after the first `offset` ones, with or without the numbers of lines.

    `options` are ripgrep's; `by_file` says that these let it print only names.
    """

    def name_of(match: str) -> str:
        return relative(real if match == "<stdin>" else os.path.join(real, match.removeprefix("./")), workspace)

    matches = Matches(name_of, offset + most, b"\0" if by_file else b"\n")
    error_text = _search_in(options, path, real, file, matches.add)
    if error_text and not matches.total:
        raise ToolError(error_text)
    return {"output": matches.text(offset, MOST_SHOWN, numbers=numbers) or "No matches found"}


def _search_in(options: Sequence[str], path: str, real: str, file: int, on_data: Callable[[bytes], None]) -> str:
    if file >= 0:
        regular(path, os.fstat(file))
        return search(options, -1, real, on_data, stdin=file)
    try:
        with opened_parent(real) as (parent, name):
            status = os.stat(name or ".", dir_fd=parent, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            with opened_folder(real) as folder:
                return search(options, folder, real, on_data)
        with opened_file(path, real) as own:  # a pipe or a device would hold up the search
            return search(options, -1, real, on_data, stdin=own)
    except (FileNotFoundError, NotADirectoryError):
        raise ToolError(f"{path} does not exist.") from None


# The child.


def search(options: Sequence[str], folder: int, real: str, on_data: Callable[[bytes], None], *, stdin: int = -1) -> str:
    """Pass on the output of the search as it arrives. Returns its error text if it could not work at all.

    It searches the folder, of which `folder` is the descriptor and `real` the path, or else the file `stdin`.
    """
    if is_inside(PROC, (real,)):  # `admit` refuses /proc, so a search of `/` leaves it out
        options = (*options, f"--glob=!/{os.path.relpath(PROC, real)}")
    arguments = (*_ALWAYS, *options, "--", "-" if stdin >= 0 else "./")
    program = find_ripgrep()
    code, error_text = _run(program, arguments, folder, real, stdin, on_data)
    if code == _NOT_STARTED and program:
        code, error_text = _run("", arguments, folder, real, stdin, on_data)
    return error_text if code not in (0, 1) else ""


def _run(
    program: str, arguments: Sequence[str], folder: int, real: str, stdin: int, on_data: Callable[[bytes], None]
) -> tuple[int, str]:
    """The exit code, and what was printed on stderr. Without a program, our own search."""
    ruleset = _ruleset(folder, real, program)
    out, out_far = os.pipe()
    err, err_far = os.pipe()
    child = os.fork()
    if not child:
        _exec_search(program, arguments, folder, stdin, out_far, err_far, ruleset)
    for descriptor in (out_far, err_far, *((ruleset,) if ruleset >= 0 else ())):
        os.close(descriptor)
    error_text = Capture(4000)
    try:
        _read_pipes({out: on_data, err: error_text.add})
    finally:
        os.close(out)
        os.close(err)
        _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), error_text.text().strip()


def _ruleset(folder: int, real: str, program: str) -> int:
    if sys.platform != "linux" or folder < 0:  # a file is searched by its descriptor, and needs no ruleset
        return -1
    try:
        from polylect.tools.worker.search_confinement import landlock_ruleset  # ctypes: 3 ms, and only for searches
    except (ImportError, AttributeError, OSError):
        return -1
    return landlock_ruleset(folder, real, program)


def _exec_search(
    program: str, arguments: Sequence[str], folder: int, stdin: int, out: int, err: int, ruleset: int
) -> None:
    """In the child: become the search program. Never returns."""
    code = _NOT_STARTED
    try:
        for place, descriptor in enumerate((stdin if stdin >= 0 else os.open(os.devnull, os.O_RDONLY), out, err)):
            os.dup2(descriptor, place)
        if folder >= 0:
            os.fchdir(folder)
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
        if not program:
            # Before our own files are out of reach.
            from polylect.tools.files.fallback_search import main
        if ruleset >= 0:
            from polylect.tools.sandbox.landlock import restrict

            restrict(ruleset)
        if program:
            os.execve(program, (program, *arguments), {})
        code = main(arguments)
    except OSError as error:
        with suppress(OSError):
            os.write(2, (error.strerror or "failed").encode())
    finally:
        os._exit(code)


def _read_pipes(pipes: dict[int, Callable[[bytes], None]]) -> None:
    """Pass on the data of all pipes until they have ended."""
    poll = select.poll()
    for pipe in pipes:
        poll.register(pipe, select.POLLIN)
    left = len(pipes)
    while left:
        for pipe, _ in poll.poll():
            if data := os.read(pipe, _CHUNK):
                pipes[pipe](data)
            else:
                poll.unregister(pipe)
                left -= 1
