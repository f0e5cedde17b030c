"""Landlock and seccomp by system call: the process that calls `confine` and all it starts lose what the fence forbids.

Linux can allow what lies below a folder, not forbid a part of it. So where something is hidden, the folders above it
are opened entry by entry. Names of hidden files can still be listed; their content cannot be had. Sockets are not
hidden: Landlock does not govern who connects to them, and the folder around them would only become useless. Devices are
opened by name, terminals not at all: a command could write to the person's, or read what is typed there.

Runs in the process that is about to become the command, on the bare standard library.
"""

import ctypes
import errno
import os
import stat
import struct
from _collections_abc import Collection, Iterator

from polylect.tools.sandbox.fence import Fence

OLDEST = 3
"""Before this version, moving files between folders was forbidden and emptying them was not."""

SCOPES = 6
"""From this version on, signals and sockets without a path end at the fence."""
_LIBC = ctypes.CDLL(None, use_errno=True)
_SYSCALLS = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
"""The architecture as seccomp knows it, and the number of socket(2) there."""
_OPENAT2, _FROM_HERE, _NO_LINKS = 437, -100, 4
_KEYCTL, _JOIN_SESSION_KEYRING = {"x86_64": 250, "aarch64": 219}, 1
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_IO_URING_SETUP = 425
_X32 = 0x4000_0000
_LOCAL, _INTERNET = (1, 16), (2, 10)
"""Families of sockets: AF_UNIX and AF_NETLINK, which lists interfaces; AF_INET and AF_INET6."""
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER, _DROP_CAPABILITY = 38, 22, 2, 24
_KEPT_CAPABILITIES = (0, 1, 3, 6, 7)  # to own, write and hand over files of others, as in bubblewrap

EXECUTE, _WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15
_READ = EXECUTE | READ_FILE | READ_DIR
_CHANGE = _WRITE_FILE | 0x3FF0 & ~(1 << 6 | 1 << 11) | _TRUNCATE  # make, remove and move anything but devices
_FOR_FILES = EXECUTE | _WRITE_FILE | READ_FILE | _TRUNCATE | _IOCTL
_SCOPED = 3  # abstract sockets and signals end at the fence
_DEVICES = ("null", "zero", "full", "random", "urandom", "shm", "dri", "kfd")


def version() -> int:
    """The version of Landlock in this kernel; 0 without."""
    return max(0, int(_LIBC.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))))


def can_cut_network() -> bool:
    return os.uname().machine in _SYSCALLS


def confine(fence: Fence) -> None:
    """Confine this process. Raises OSError, and then no command must be run."""
    abi = version()
    _leave_session_keyring()
    if fence.only_scope:
        if abi >= SCOPES:
            restrict(create_ruleset(abi, 0))
        if not fence.network:
            _restrict_sockets(*_LOCAL, *_INTERNET)  # those of the internet reach only what runs in the same bubblewrap
        return
    if abi < OLDEST:
        raise OSError(errno.ENOSYS, "this kernel has no Landlock that would do")
    known = 0x7FFF if abi < 5 else 0xFFFF
    ruleset = create_ruleset(abi, known)
    try:
        for path, rights in _rights(fence):
            _add_path(ruleset, path, rights & known)
        _drop_capabilities()
    except BaseException:
        os.close(ruleset)
        raise
    restrict(ruleset)
    if not fence.network:
        _restrict_sockets(*_LOCAL)


def restrict(ruleset: int) -> None:
    """Put the ruleset in force for this process, and close it. Raises OSError."""
    try:
        _check(_LIBC.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
        _check(_LIBC.syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def _leave_session_keyring() -> None:
    """Start a new one: keys that the person's programs put into the kernel's session keyring are not for commands."""
    number = _KEYCTL.get(os.uname().machine, 0)
    if number and _LIBC.syscall(number, _JOIN_SESSION_KEYRING, None) < 0 and ctypes.get_errno() == errno.EDQUOT:
        raise OSError(errno.EDQUOT, "too many keys")  # every other error means that there are no keyrings


def _drop_capabilities() -> None:
    """Drop most capabilities of root: with some of them, a process may read the memory of others."""
    for capability in range(64) if os.geteuid() == 0 else ():
        if capability not in _KEPT_CAPABILITIES:
            _LIBC.prctl(_DROP_CAPABILITY, capability, 0, 0, 0)  # fails where the process does not have it


# Files.


def _rights(fence: Fence) -> Iterator[tuple[str, int]]:
    yield "/", READ_DIR
    hidden = {path for path in fence.hidden if not _is_socket(path)}
    for path in _without_hidden("/", {*hidden, "/dev"}):
        yield path, _READ
    for root in fence.writable:
        for path in _without_hidden(root, hidden):
            yield path, _READ | _CHANGE
    for path in fence.readable:
        yield path, _READ
    for name in os.listdir("/dev"):
        if name in _DEVICES or name.startswith("nvidia"):
            yield os.path.realpath(f"/dev/{name}"), _READ | _CHANGE | _IOCTL


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False


def _without_hidden(path: str, hidden: Collection[str]) -> Iterator[str]:
    """The largest folders and files below a path that contain nothing hidden."""
    if path in hidden:
        return
    below = [one for one in hidden if one.startswith(path.rstrip("/") + "/")]
    if not below:
        yield path
        return
    try:
        entries = [entry.path for entry in os.scandir(path) if not entry.is_symlink()]
    except OSError:
        return
    for entry in entries:
        yield from _without_hidden(entry, below)


def create_ruleset(abi: int, files: int, network: int = 0) -> int:
    """`files` and `network` are the rights that are forbidden unless a rule grants them."""
    attributes = struct.pack("=QQQ", files, network, _SCOPED)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    return _check(_LIBC.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0))


def _add_path(ruleset: int, path: str, rights: int) -> None:
    """Grant rights to a path. One with a link in it gets none, because a command may have created the link."""
    how = struct.pack("=QQQ", os.O_PATH | os.O_CLOEXEC, 0, _NO_LINKS)
    place = _LIBC.syscall(_OPENAT2, _FROM_HERE, os.fsencode(path), how, ctypes.c_size_t(len(how)))
    if place < 0:
        return  # it is gone, so nothing has to be allowed
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _FOR_FILES
        add_rule(ruleset, place, rights)
    finally:
        os.close(place)


def add_rule(ruleset: int, descriptor: int, rights: int) -> None:
    """Grant these rights to what the descriptor is, and to everything below it."""
    _check(_LIBC.syscall(_ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, descriptor), 0))


# The network.


def _restrict_sockets(*families: int) -> None:
    """Allow only sockets of these families. All system calls of other architectures are refused."""
    if not can_cut_network():
        raise OSError(errno.ENOSYS, "the network cannot be cut off on this machine")
    _check(_LIBC.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    architecture, socket = _SYSCALLS[os.uname().machine]
    load, equal, at_least, give = 0x20, 0x15, 0x35, 0x06
    refuse, allow = 0x00050000 | errno.EACCES, 0x7FFF0000
    count = len(families)
    steps = (
        (load, 0, 0, 4),  # the architecture
        (equal, 0, count + 5, architecture),
        (load, 0, 0, 0),  # the system call
        (at_least, count + 3, 0, _X32),
        (equal, count + 2, 0, _IO_URING_SETUP),
        (equal, 0, count + 2, socket),
        (load, 0, 0, 16),  # the family of the socket
        *((equal, count - number, 0, family) for number, family in enumerate(families)),
        (give, 0, 0, refuse),
        (give, 0, 0, allow),
    )
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    header = struct.pack("@HP", len(steps), ctypes.addressof(program))
    _check(_LIBC.prctl(_SET_SECCOMP, _FILTER, header, 0, 0))


def _check(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
