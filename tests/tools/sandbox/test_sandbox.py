"""What a command in the sandbox can do and what it cannot (P4), each by trying, in both kinds of sandbox."""

import asyncio
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from doubles_tools import FolderContext, processes_with
from polylect.tools.builtin.bash import Bash
from polylect.tools.process.background_jobs import Background
from polylect.tools.process.custody import Custody
from polylect.tools.sandbox import sandbox as sandbox_module
from polylect.tools.sandbox.bwrap import bwrap_argv
from polylect.tools.sandbox.fence import Fence, read_fence
from polylect.tools.sandbox.sandbox import Mode, Sandbox
from polylect.vocab.errors import ToolError
from polylect.vocab.ports import Exit

BWRAP = "/usr/bin/bwrap"


def bwrap_fault() -> str:
    words = [BWRAP, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "true"]
    try:
        done = subprocess.run(words, capture_output=True, timeout=20, check=False)
    except OSError as error:
        return f"bubblewrap: {error}"
    return done.stderr.decode().strip()


def landlock_version() -> int:
    if sys.platform != "linux":
        return 0
    from polylect.tools.sandbox.landlock import version

    return version()


WITHOUT_BWRAP = bwrap_fault()
LANDLOCK = landlock_version()
KINDS = [
    pytest.param("bwrap", marks=pytest.mark.skipif(bool(WITHOUT_BWRAP), reason=WITHOUT_BWRAP or "it works")),
    pytest.param("landlock", marks=pytest.mark.skipif(LANDLOCK < 3, reason=f"the kernel's Landlock is {LANDLOCK}")),
]
both = pytest.mark.parametrize("kind", KINDS)


class Yard:
    """A workspace, a folder outside, and secrets, on the same file system."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(os.path.realpath(folder))
        self.inside, self.outside, self.secrets = (self.folder / name for name in ("inside", "outside", "secrets"))
        for place in (self.inside, self.outside, self.secrets):
            place.mkdir()
            (place / "file").write_text(f"{place.name}\n")
        (self.folder / "key").write_text("key\n")
        (self.inside / "link").symlink_to(self.outside)
        (self.inside / "secret-link").symlink_to(self.secrets / "file")
        self.hidden = [str(self.secrets), str(self.folder / "key")]

    def fence(self, **others: object) -> Fence:
        options = {"writable": [str(self.inside)], "hidden": self.hidden, **others}
        return Fence(**options)  # type: ignore[arg-type]

    def run(self, kind: str, command: str, fence: Fence | None = None, env: dict[str, str] | None = None) -> str:
        """What it printed, standard error included."""
        said: list[bytes] = []
        self.end = asyncio.run(asyncio.wait_for(self._run(kind, command, fence or self.fence(), said, env), 30))
        return b"".join(said).decode()

    async def _run(self, kind: str, command: str, fence: Fence, said: list[bytes], env: dict[str, str] | None) -> Exit:
        custody = Custody()
        try:
            return await custody.run(
                self.argv(kind, command, fence),
                cwd=str(self.inside),
                env={"PATH": os.environ["PATH"], **(env or {})},
                timeout=20,
                on_output=lambda stream, data: said.append(data),
            )
        finally:
            await custody.close()

    @staticmethod
    def argv(kind: str, command: str, fence: Fence) -> Sequence[str]:
        argv = ["/bin/sh", "-c", f"exec 2>&1; {command}"]
        return bwrap_argv(BWRAP, fence, argv) if kind == "bwrap" else [*fence.to_argv(), *argv]


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


@both
def test_inside_everything_can_be_done(yard: Yard, kind: str) -> None:
    command = (
        "mkdir -p a/b && echo 1 > a/x && mv a/x a/b/y && ln -s y a/b/z && ln a/b/y a/w && echo 2 >> a/b/z"
        " && mkfifo a/p && rm file && cat a/w && rm -r a && echo done > /dev/null && head -c 1 /dev/urandom | wc -c"
    )
    assert yard.run(kind, command) == "1\n2\n1\n"
    assert yard.end == Exit(0)


@both
@pytest.mark.parametrize(
    "attempt",
    [
        "echo x > ../outside/new",
        "echo x >> ../outside/file",
        "echo x > link/new",
        "echo x > /proc/self/root$PWD/../outside/new",
        "truncate -s 0 ../outside/file",
        "rm ../outside/file",
        "mv ../outside/file .",
        "mv file ../outside/new",
        "mkdir ../outside/new",
        "ln -s x ../outside/new",
        "ln ../outside/file hard && echo x >> hard",
        "cd / && touch polylect-was-here",
    ],
)
def test_outside_nothing_can_be_changed(yard: Yard, kind: str, attempt: str) -> None:
    yard.run(kind, attempt)
    assert yard.end.code > 0
    assert [path.name for path in yard.outside.iterdir()] == ["file"]
    assert (yard.outside / "file").read_text() == "outside\n"
    assert not Path("/polylect-was-here").exists()


@both
def test_outside_everything_else_can_be_read_and_run(yard: Yard, kind: str) -> None:
    assert yard.run(kind, "cat ../outside/file link/file && ls / > list && ls ..") == (
        "outside\noutside\ninside\nkey\noutside\nsecrets\n"
    )


@both
@pytest.mark.parametrize(
    "attempt",
    [
        "cat ../secrets/file",
        "cat ../key",
        "cat secret-link",
        "cat /proc/self/root$PWD/../secrets/file",
        "cd ../secrets && cat file",
        "cp -r ../secrets copy && cat copy/file",
        "ln ../secrets/file hard && cat hard",
        "mv ../secrets moved && cat moved/file",
        "tar c ../secrets 2>/dev/null | grep -a secrets$",
        "echo x > ../secrets/file",
        "echo x > ../secrets/new",
        "rm -f ../secrets/file && echo gone",
    ],
)
def test_P5_what_is_hidden_can_be_neither_read_nor_changed(yard: Yard, kind: str, attempt: str) -> None:
    said = yard.run(kind, attempt)
    assert "secrets\n" not in said.replace("../secrets\n", "")
    assert "key\n" not in said
    assert [path.name for path in yard.secrets.iterdir()] == ["file"]
    assert (yard.secrets / "file").read_text() == "secrets\n"


@both
def test_the_inner_of_two_nested_places_counts(yard: Yard, kind: str) -> None:
    hidden = yard.inside / "hidden"
    for name in ("open", "readable"):
        (yard.secrets / name).mkdir()
        (yard.secrets / name / "file").write_text(f"{name}\n")
    hidden.mkdir()
    (hidden / "file").write_text("hidden\n")
    fence = yard.fence(
        writable=[str(yard.inside), str(yard.secrets / "open")],
        hidden=[*yard.hidden, str(hidden)],
        readable=[str(yard.secrets / "readable")],
    )
    said = yard.run(kind, "cat ../secrets/*/file hidden/file; echo new > ../secrets/open/new; echo x > file", fence)
    assert "open\nreadable\n" in said
    assert "hidden\n" not in said
    assert (yard.secrets / "open" / "new").read_text() == "new\n"
    assert (yard.inside / "file").read_text() == "x\n"
    yard.run(kind, "echo new > ../secrets/readable/new", fence)
    assert yard.end.code > 0


PHONE = """
import socket, sys
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    try:
        with socket.socket(socket.AF_INET, kind) as line:
            line.connect(("127.0.0.1", int(sys.argv[1])))
            line.send(b"hello")
            print("sent")
    except OSError as error:
        print("refused")
one, two = socket.socketpair()
one.send(b"in the house")
print(two.recv(99).decode())
"""


@both
@pytest.mark.parametrize("network", [True, False])
def test_the_network_is_on_or_off(yard: Yard, kind: str, network: bool) -> None:
    (yard.inside / "phone.py").write_text(PHONE)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as post:
            post.bind(("127.0.0.1", port))
            post.setblocking(False)
            server.setblocking(False)
            said = yard.run(kind, f"{shlex.quote(sys.executable)} -S phone.py {port}", yard.fence(network=network))
            assert said.splitlines()[-1] == "in the house"
            if network:
                assert said == "sent\nsent\nin the house\n"
                assert post.recv(99) == b"hello"
            else:
                for ear in (server.accept, lambda: post.recv(99)):
                    with pytest.raises(BlockingIOError):
                        ear()


@both
def test_P5_the_environment_and_memory_of_the_engine_cannot_be_read(yard: Yard, kind: str) -> None:
    us = f"/proc/{os.getpid()}"
    assert Path(f"{us}/environ").read_bytes()
    said = yard.run(kind, f"wc -c < {us}/environ; head -c 1 {us}/mem; ls {us}/cwd/ {us}/root/etc; ls -l {us}/fd")
    assert "hosts" not in said
    assert not said[0].isdigit()
    assert "->" not in said
    assert (kind == "landlock") != (f"{us}/fd': No such file" in said)


@both
@pytest.mark.skipif(LANDLOCK < 6, reason=f"signals are fenced in since Landlock 6, and this is {LANDLOCK}")
def test_P1_neither_the_engine_nor_what_watches_over_the_command_can_be_ended(yard: Yard, kind: str) -> None:
    with subprocess.Popen(["sleep", "60"]) as victim:
        yard.run(kind, f"kill -9 {victim.pid}")
        assert victim.poll() is None
        victim.kill()
    said = yard.run("landlock", "kill -9 $PPID; echo still here")  # its warden
    assert said.endswith("still here\n")


@both
def test_rights_cannot_be_won_back(yard: Yard, kind: str) -> None:
    """Root without these guards would simply mount the root folder anew."""
    attempts = (
        "mount -o remount,rw /; mount -o remount,rw,bind /; umount -l ../secrets",
        "unshare -rm mount -o remount,rw,bind /",
        f"unshare -rm sh -c 'umount {yard.secrets}; mount --bind / /mnt && cat /mnt{yard.secrets}/file'",
        "grep NoNewPrivs /proc/self/status",
    )
    said = yard.run(kind, f"{'; '.join(attempts)}; cat ../secrets/file; echo x > ../outside/new")
    assert "NoNewPrivs:\t1" in said
    assert "\nsecrets\n" not in said
    assert not (yard.outside / "new").exists()


@both
@pytest.mark.parametrize(("command", "code"), [("exit 7", 7), ("kill -9 $$", 137), ("nothing-of-that-name", 127)])
def test_the_exit_code_comes_through(yard: Yard, kind: str, command: str, code: int) -> None:
    yard.run(kind, command)
    assert (yard.end.code if yard.end.code >= 0 else 128 - yard.end.code) == code


@both
def test_P1_nothing_outlives_its_call_in_the_sandbox_either(yard: Yard, kind: str) -> None:
    marker = f"60.{os.getpid()}{kind == 'bwrap':d}"
    yard.run(kind, f"setsid sleep {marker} & (sleep {marker} &) ; trap '' INT TERM; sleep {marker} & echo started")
    assert processes_with(marker) == []


@both
def test_P1_a_cancelled_call_is_told_first_and_then_ended(yard: Yard, kind: str) -> None:
    marker = f"61.{os.getpid()}{kind == 'bwrap':d}"

    async def whole() -> None:
        custody, output_seen = Custody(), asyncio.Event()
        command = f"trap 'echo bye > bye' INT TERM; echo up; sleep {marker} & wait; sleep {marker}"
        call = asyncio.create_task(
            custody.run(
                yard.argv(kind, command, yard.fence()),
                cwd=str(yard.inside),
                env={"PATH": os.environ["PATH"]},
                timeout=60,
                on_output=lambda stream, data: output_seen.set(),
            )
        )
        async with asyncio.timeout(20):
            await output_seen.wait()
        call.cancel()
        await asyncio.wait([call])
        await custody.close()

    asyncio.run(whole())
    assert (yard.inside / "bye").read_text() == "bye\n"
    assert processes_with(marker) == []


def test_a_fence_travels_whole() -> None:
    fence, argv = read_fence(
        [os.fsencode(word) for word in (*Fence(["/a b"], ["/c\n"], ["/d"], network=False).to_argv(), "x")]
    )
    assert (fence.writable, fence.hidden, fence.readable, fence.network) == (["/a b"], ["/c\n"], ["/d"], False)
    assert argv == [b"x"]
    assert read_fence([os.fsencode(word) for word in (*Fence([]).to_argv(), "--", "n")])[1] == [b"--", b"n"]


LAYERS = """
import asyncio
from polylect.tools.process.custody import Custody
from polylect.tools.sandbox.fence import Fence
from polylect.tools.sandbox.landlock import confine

async def main():
    for _ in range(15):
        confine(Fence(["/"]))
    custody = Custody()
    argv = [*Fence(["/"]).to_argv(), "/usr/bin/touch", "ran"]
    try:
        await custody.run(argv, cwd=".", env={}, timeout=9, on_output=lambda stream, data: None)
    except Exception as error:
        print(str(error).rpartition(": ")[2])
    await custody.close()

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Landlock is only to be had on Linux")
def test_where_the_fence_cannot_be_put_up_the_command_does_not_run(yard: Yard) -> None:
    """Sixteen fences around each other are the most that the kernel builds; without Landlock there is none."""
    (yard.inside / "layers.py").write_text(LAYERS)
    env = {"PYTHONPATH": os.pathsep.join(sys.path)}
    said = yard.run("landlock", f"{shlex.quote(sys.executable)} layers.py", env=env)
    assert said == ("Argument list too long\n" if LANDLOCK >= 3 else "")
    assert yard.end.code != 0 or LANDLOCK >= 3
    assert not (yard.inside / "ran").exists()


# Which sandbox it is.


class Cage:
    """A sandbox as the settings describe it, with what a session would give it."""

    def __init__(self, folder: Path, mode: Mode, *, network: bool = True, hidden: Sequence[str] = ()) -> None:
        self.context = FolderContext(folder)
        env = {"HOME": str(folder), "PATH": os.environ["PATH"]}
        self.sandbox = Sandbox(mode, network=network, hidden=hidden, env=env)

    def use(self, command: str) -> str:
        async def call() -> str:
            try:
                bash = Bash(Background(), self.sandbox)
                return (await bash.run({"command": command}, self.context)).output
            finally:
                await self.context.processes.close()

        return asyncio.run(asyncio.wait_for(call(), 30))


@both
def test_P4_bash_runs_in_the_sandbox_that_is_asked_for(tmp_path: Path, kind: Mode) -> None:
    cage = Cage(tmp_path, kind)
    said = cage.use("touch here && touch /polylect-was-here; grep NoNewPrivs /proc/self/status")
    assert cage.sandbox.kind == kind
    assert "NoNewPrivs:\t1" in said
    assert (tmp_path / "here").exists()
    assert not Path("/polylect-was-here").exists()


def test_P4_off_is_off(tmp_path: Path) -> None:
    cage = Cage(tmp_path, "off")
    assert "NoNewPrivs:\t0" in cage.use("grep NoNewPrivs /proc/self/status")
    assert (cage.sandbox.kind, cage.sandbox.why) == ("none", "it is switched off by [sandbox] mode")


@pytest.fixture
def broken_bwrap(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bubblewrap as on machines that forbid namespaces."""
    programs = tmp_path_factory.mktemp("programs")
    (programs / "bwrap").write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
    (programs / "bwrap").chmod(0o755)
    monkeypatch.setattr(sandbox_module, "_PROGRAM_FOLDERS", f"{programs}:")


@pytest.mark.usefixtures("broken_bwrap")
def test_P4_auto_takes_the_next_best_and_says_what_is_missing(tmp_path: Path) -> None:
    cage = Cage(tmp_path, "auto")
    assert "Exit code: 0" in cage.use("true")
    assert cage.sandbox.kind == ("landlock" if LANDLOCK >= 3 else "none")
    assert "bubblewrap does not work here: bwrap: No permissions to create new namespace" in cage.sandbox.why


@pytest.mark.usefixtures("broken_bwrap")
def test_P4_what_was_asked_for_and_cannot_be_had_is_refused_rather_than_left_out(tmp_path: Path) -> None:
    cage = Cage(tmp_path, "bwrap")
    with pytest.raises(ToolError, match="No permissions to create new namespace"):
        asyncio.run(cage.sandbox.detect(str(tmp_path), cage.context.processes))
    assert "sandbox that the settings ask for" in cage.use("touch ran")
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(bool(WITHOUT_BWRAP), reason=WITHOUT_BWRAP or "it works")
def test_P4_more_hidden_places_than_bubblewrap_takes_are_an_error_and_no_reason_for_less(tmp_path: Path) -> None:
    places = [tmp_path / "hidden" / str(number) for number in range(3100)]
    (tmp_path / "hidden").mkdir()
    for place in places:
        place.touch()
    cage = Cage(tmp_path, "auto", hidden=[*map(str, places)])
    assert "more places than bubblewrap takes" in cage.use("touch ran")
    assert cage.sandbox.kind == "bwrap"
    assert not (tmp_path / "ran").exists()
