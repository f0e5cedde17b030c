"""Ways out of the sandbox, each tried in bubblewrap and behind Landlock, as the user of the tests and as another."""

import asyncio
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from attacks.outside import folder_outside
from machine import PATIENCE
from polylect.system.search_paths import program_on
from polylect.tools.process.custody import Custody
from polylect.vocab.errors import ToolError

pytestmark = pytest.mark.long

OTHER = 65534
SECRET = "secret-content"
_DRIVER = str(Path(__file__).with_name("sandboxed.py"))
_AS_OTHER = ("setpriv", f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups")


_PATHS = os.pathsep.join((str(Path(__file__).parents[2] / "src"), str(Path(msgspec.__file__).parents[1])))
_IMPORT = "import sys, msgspec; from polylect.tools.sandbox.landlock import version; sys.exit(version() < 3)"


def _tried(user: str, *argv: str) -> str:
    """Why this cannot be run as this user; empty if it can. The shell is there because setpriv itself is still root."""
    before = _AS_OTHER if user == "other" else ()
    words = [*before, "/bin/sh", "-c", 'exec "$0" "$@"', *argv]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": _PATHS}
    try:
        done = subprocess.run(words, env=env, capture_output=True, timeout=PATIENCE, check=False)
    except OSError as error:
        return str(error)
    return (done.stderr.decode()[-200:] or "it fails") if done.returncode else ""


@cache
def _python(user: str) -> str:
    """An interpreter that this user may run: that of the tests may lie in a home that is closed to others."""
    return next(
        (path for path in (sys.executable, "/usr/bin/python3") if not _tried(user, path, "-S", "-c", _IMPORT)), ""
    )


@cache
def _fault(kind: str, user: str) -> str:
    """Why this kind of sandbox cannot be tried as this user; empty if it can."""
    if sys.platform != "linux":
        return "it takes Linux"
    if user == "other" and (os.geteuid() != 0 or not shutil.which("setpriv")):
        return "only root can become somebody else"
    if not _python(user):
        return "this user has no Python of this version, or no Landlock"
    if kind == "bwrap":
        return _tried(user, "bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "true")
    return ""


def _cases(*kinds: str) -> Any:
    """Parameters for `yard`: what cannot be tried here is skipped, and says why."""
    cases = []
    for kind, user in product(kinds, ("same", "other")):
        why = _fault(kind, user)
        mark = pytest.mark.skipif(bool(why), reason=f"{kind}, {user} user: {why}")
        cases.append(pytest.param((kind, user), id=f"{kind}-{user}", marks=mark))
    return pytest.mark.parametrize("yard", cases, indirect=True)


everywhere = _cases("bwrap", "landlock")
in_bubblewrap = _cases("bwrap")
behind_landlock = _cases("landlock")


class Yard:
    """A home, a workspace and a folder for temporary files, all of them the user's."""

    def __init__(self, folder: Path, kind: str, user: str) -> None:
        self.folder, self.kind, self.user = folder, kind, user
        self.home, self.workspace, self.temporary = (folder / name for name in ("home", "outer/workspace", "temporary"))
        for place in (self.home, self.workspace, self.temporary):
            place.mkdir(parents=True)
        self.env = {"HOME": str(self.home), "TMPDIR": str(self.temporary), "YARD": str(folder)}
        self.hidden: list[str] = []
        self.writable: list[str] = []
        self.roots: list[str] = []
        self.network = True
        self.python = _python(user)

    def secret(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SECRET)
        return path

    def run(self, *steps: str | tuple[str, Any]) -> list[str]:
        """What each command printed. A step that is no command is done outside of the sandbox."""
        if self.user == "other":
            for path in (self.folder, *self.folder.rglob("*")):
                os.chown(path, OTHER, OTHER, follow_symlinks=False)
        plan = {
            "kind": self.kind,
            "workspace": str(self.workspace),
            "env": self.env,
            "hidden": self.hidden,
            "writable": self.writable,
            "roots": self.roots,
            "network": self.network,
            "steps": [("run", step) if isinstance(step, str) else step for step in steps],
        }
        argv = [*(_AS_OTHER if self.user == "other" else ()), self.python, "-S", _DRIVER]
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": _PATHS}
        done = subprocess.run(
            argv, input=json.dumps(plan).encode(), env=env, capture_output=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        printed: list[str] = json.loads(done.stdout)
        return printed


@pytest.fixture
def yard(request: pytest.FixtureRequest) -> Iterator[Yard]:
    """pytest's own folder is closed to other users."""
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="yard-")))
    folder.chmod(0o755)
    try:
        yield Yard(folder, *request.param)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# What is hidden stays hidden.

EXCHANGE = "python3 -S -c \"import ctypes; ctypes.CDLL(None).renameat2(-100, b'config', -100, b'other', 2)\""
LOOK = 'grep -rs "" "$YARD"'


ATTEMPTS = (
    "mv config config2",
    "mv config/deep config/deep2",
    "mv config/deep deep",
    "mv config/deep/secret.env here",
    "ln config/deep/secret.env here",
    "ln -s config/deep/secret.env link",
    "cp -r config copy",
    f"mkdir other; {EXCHANGE}",
    "cd .. && mv workspace workspace2 && mkdir workspace",
    "cd ../.. && mv outer outer2 && mkdir -p outer/workspace",
    "rm -rf config; mkdir config",
    "chmod 777 config/deep/secret.env; cat config/deep/secret.env",
)


@everywhere
def test_a_hidden_file_cannot_be_carried_to_where_the_next_command_sees_it(yard: Yard) -> None:
    secret = yard.secret(yard.workspace / "config" / "deep" / "secret.env")
    yard.hidden = [str(secret)]
    printed = yard.run(*(command for attempt in ATTEMPTS for command in (f"{attempt}; {LOOK}", LOOK)))
    leaks = [ATTEMPTS[number // 2] for number, text in enumerate(printed) if SECRET in text]
    assert leaks == []
    assert secret.read_text() == SECRET


@everywhere
def test_what_lies_beside_it_can_be_used(yard: Yard) -> None:
    yard.hidden = [str(yard.secret(yard.workspace / "config" / "secret.env"))]
    (yard.workspace / "config" / "plain.toml").write_text("plain")
    (yard.workspace / "src").mkdir()
    printed = yard.run("cat config/plain.toml; echo new > src/new && mv src/new src/renamed && cat src/renamed")
    assert printed == ["plainnew\n"]


@everywhere
def test_a_hidden_folder_of_the_home_holds_when_the_home_is_the_workspace(yard: Yard) -> None:
    yard.secret(yard.home / ".config" / "gh" / "hosts.yml")
    yard.workspace = yard.home
    assert SECRET not in "".join(yard.run(f"mv .config .config2; {LOOK}", LOOK))


@everywhere
def test_a_hidden_file_that_is_made_between_two_commands_is_hidden_from_the_second(yard: Yard) -> None:
    later = yard.workspace / "later.env"
    yard.hidden = [str(later)]
    assert SECRET not in "".join(yard.run("ls", ("write", str(later)), "cat later.env"))


@everywhere
def test_a_link_in_the_place_of_a_hidden_folder_does_not_open_the_folder(yard: Yard) -> None:
    """The settings name a link. Once a command has put another one there, both places are hidden."""
    yard.secret(yard.workspace / "real" / "secret.env")
    (yard.workspace / "config").symlink_to("real")
    yard.hidden = [str(yard.workspace / "config" / "secret.env")]
    printed = yard.run(
        "rm config; mkdir public; ln -s public config",
        "cat real/secret.env",
        ("write", str(yard.workspace / "config" / "secret.env")),
        "cat real/secret.env public/secret.env config/secret.env",
    )
    assert SECRET not in "".join(printed)


PLACES = (
    *(".ssh/id", ".pgpass", ".vault-token", ".claude.json", ".gemini/oauth_creds.json", ".codex/auth.json", ".netrc"),
    *(
        ".config/polylect/config.toml",
        ".local/share/polylect/x",
        ".local/state/polylect/chat_history",
        ".kaggle/kaggle.json",
    ),
    *(".local/share/keyrings/login", ".config/rclone/rclone.conf", ".config/microsoft-edge/Cookies", ".Xauthority"),
    *(".config/github-copilot/apps.json", ".databrickscfg", ".my.cnf", ".python_history", ".m2/settings.xml", ".s3cfg"),
    *(".local/share/jupyter/runtime/kernel.json", ".local/share/opencode/auth.json", ".docker/config.json"),
    *(".azure/token", ".kube/config", ".pulumi/credentials.json", ".config/sops/age/keys.txt", ".yarnrc.yml"),
    *(".cargo/credentials.toml", ".config/gcloud/credentials.db", ".git-credentials", ".terraformrc", ".boto"),
    *(
        ".cache/huggingface/token",
        ".supabase/access-token",
        ".snowsql/config",
        ".config/configstore/firebase-tools.json",
    ),
    *(".dockercfg", ".msmtprc", ".fetchmailrc", ".subversion/auth", ".ollama/id_ed25519", ".copilot/config.json"),
    *(
        ".qwen/oauth_creds.json",
        ".gradle/gradle.properties",
        ".nuget/NuGet/NuGet.Config",
        ".sentryclirc",
        ".cf/config.json",
    ),
    *(
        ".aliyun/config.json",
        ".step/secrets",
        ".config/ngrok/ngrok.yml",
        ".config/JetBrains/x",
        ".config/tea/config.yml",
    ),
    *(".electrum/wallet", ".mozilla/key4.db", ".zsh_history", ".authinfo", ".pypirc", ".gnupg/key", ".aws/credentials"),
)


NAMING = (
    *("GOOGLE_APPLICATION_CREDENTIALS", "PIP_CONFIG_FILE", "npm_config_userconfig", "CODEX_HOME"),
    *("TF_CLI_CONFIG_FILE", "POETRY_CONFIG_DIR"),
)


@everywhere
def test_the_usual_places_of_credentials_cannot_be_read(yard: Yard) -> None:
    for place in PLACES:
        yard.secret(yard.home / place)
    for name in NAMING:
        yard.env[name] = str(yard.secret(yard.folder / f"{name}.json"))
    yard.env["CLAUDE_CONFIG_DIR"] = str(yard.secret(yard.folder / "claude" / ".credentials.json").parent)
    yard.env["KRB5CCNAME"] = f"FILE:{yard.secret(yard.folder / 'krb5cc')}"
    assert yard.run(LOOK) == [""]


@everywhere
def test_of_the_folder_of_claude_only_credentials_are_hidden(yard: Yard) -> None:
    """Skills have scripts that commands run."""
    for name in (".credentials.json", ".claude.json"):
        yard.secret(yard.folder / "claude" / name)
    yard.env["CLAUDE_CONFIG_DIR"] = str(yard.folder / "claude")
    (script := yard.folder / "claude" / "skills" / "greet" / "greet.sh").parent.mkdir(parents=True)
    script.write_text("echo hello")
    assert yard.run(f"sh {script}", LOOK) == ["hello\n", f"{script}:echo hello\n"]


@everywhere
def test_the_usual_places_stay_hidden_where_variables_name_others(yard: Yard) -> None:
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "CARGO_HOME"):
        yard.env[name] = str(yard.folder / name)
    for place in PLACES:
        yard.secret(yard.home / place)
    yard.secret(yard.folder / "XDG_CONFIG_HOME" / "gh" / "hosts.yml")
    assert yard.run(LOOK) == [""]


@everywhere
def test_what_links_of_hidden_places_lead_to_is_hidden(yard: Yard) -> None:
    """A workspace of settings that the home has links to. A program that a link leads to can still be run."""
    yard.workspace = yard.home / "dotfiles"
    yard.secret(yard.workspace / "p" / "ssh" / "id")
    (yard.home / ".ssh").symlink_to("dotfiles/p/ssh")
    yard.secret(yard.workspace / "awscreds")
    (yard.home / ".aws").mkdir()
    (yard.home / ".aws" / "credentials").symlink_to("../dotfiles/awscreds")
    (yard.home / ".aws" / "sh").symlink_to("/bin/sh")
    printed = yard.run(f"mv p p2; mv p/ssh p/ssh2; {LOOK}", f"rm ../.ssh; {LOOK}", "/bin/sh -c 'echo runs'")
    assert SECRET not in "".join(printed[:2])
    assert printed[2] == "runs\n"


# What is writable stays where it was granted.


@pytest.fixture
def outside(yard: Yard) -> Iterator[Path]:
    """A file of the user's where commands may not write: temporary folders are open to them."""
    with folder_outside() as folder:
        (folder / "file").write_text("clean")
        for path in (folder, folder / "file"):
            os.chown(path, *((OTHER, OTHER) if yard.user == "other" else (-1, -1)))
        yield folder / "file"


@pytest.mark.parametrize("grant", ["workspace", "root", "writable", "TMPDIR", "XDG_CACHE_HOME"])
@everywhere
def test_a_link_in_the_place_of_a_writable_folder_opens_nothing(yard: Yard, outside: Path, grant: str) -> None:
    place = yard.folder / "nix" / "shell"
    place.mkdir(parents=True)
    yard.roots = [str(yard.folder)]
    if grant == "workspace":
        yard.workspace = place
    elif grant == "root":
        yard.roots.append(str(place))
    elif grant == "writable":
        yard.writable = [str(place)]
    else:
        yard.env[grant] = str(place)
    target = os.path.relpath(outside.parent, place.parent)
    write = f"echo evil >> {outside}; echo evil >> {place}/file"
    yard.run(
        f"cd {yard.folder}; mv nix old; mkdir nix; ln -s {target} nix/shell",
        write,
        f"cd {place.parent}; mv shell old; rm -rf shell; ln -s {target} shell",
        write,
    )
    assert outside.read_text() == "clean"


# Sockets.

CONNECT = """
import socket, sys
for name in sys.argv[1:]:
    with socket.socket(socket.AF_UNIX) as line:
        try:
            line.connect(name.replace("@", chr(0)))
            print(name, "answers")
        except OSError as error:
            pass
"""


def listen(stack: ExitStack, path: str) -> str:
    server = stack.enter_context(socket.socket(socket.AF_UNIX))
    if path.startswith("@"):
        server.bind(path.replace("@", "\0"))
    else:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        server.bind(path)
        os.chmod(path, 0o777)
    server.listen()
    return path


@in_bubblewrap
def test_sockets_of_other_programs_are_out_of_reach(yard: Yard) -> None:
    with ExitStack() as stack:
        own = listen(stack, str(yard.workspace / "own.sock"))
        agent, docker = str(yard.temporary / "ssh" / "agent.1"), str(yard.folder / "elsewhere" / "docker.sock")
        yard.env |= {"SSH_AUTH_SOCK": agent, "DOCKER_HOST": f"unix://{docker}"}
        strange = [
            listen(stack, path)
            for path in (
                str(yard.home / ".docker" / "desktop" / "docker.sock"),
                docker,
                agent,
                str(yard.temporary / "editor.sock"),
                f"@polylect-{yard.folder.name}",
            )
        ]
        (yard.workspace / "connect.py").write_text(CONNECT)
        printed = yard.run(f"{shlex.quote(yard.python)} -S connect.py {own} {' '.join(strange)}")
    assert printed == [f"{own} answers\n"]


@behind_landlock
def test_abstract_sockets_are_out_of_reach_of_landlock_too(yard: Yard) -> None:
    from polylect.tools.sandbox.landlock import SCOPES, version

    if version() < SCOPES:
        pytest.skip("this kernel cannot fence abstract sockets in")
    with ExitStack() as stack:
        name = listen(stack, f"@polylect-{yard.folder.name}")
        (yard.workspace / "connect.py").write_text(CONNECT)
        assert yard.run(f"{shlex.quote(yard.python)} -S connect.py {name}") == [""]


FAMILIES = """
import itertools, socket
opened = set()
for family, kind in itertools.product(range(50), (1, 2, 3, 5)):
    try:
        socket.socket(family, kind).close()
        opened.add(family)
    except OSError:
        pass
print(*sorted(opened))
for address in ("127.0.0.1", "::1"):
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as server:
        server.bind((address, 0))
        server.listen()
        socket.create_connection(server.getsockname()[:2]).close()
"""


@in_bubblewrap
def test_without_a_network_only_sockets_of_the_own_namespace_can_be_opened(yard: Yard) -> None:
    """AF_VSOCK knows no network namespaces: it reaches services of the machine that this virtual one runs on."""
    yard.network = False
    (yard.workspace / "families.py").write_text(FAMILIES)
    expected = sorted((socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK))
    printed = yard.run(f"{shlex.quote(yard.python)} -S families.py")
    assert printed == [f"{' '.join(str(int(family)) for family in expected)}\n"]


@everywhere
def test_a_socket_of_an_agent_among_temporary_files_leaves_the_folder_usable(yard: Yard) -> None:
    with ExitStack() as stack:
        yard.env["SSH_AUTH_SOCK"] = listen(stack, str(yard.temporary / "agent"))
        printed = yard.run('echo made > "$TMPDIR/file" && mkdir "$TMPDIR/folder" && cat "$TMPDIR/file"')
    assert printed == ["made\n"]


# Devices.


@everywhere
def test_the_persons_terminal_can_be_neither_written_nor_read(yard: Yard) -> None:
    near, far = os.openpty()
    try:
        terminal = os.ttyname(far)
        os.chmod(terminal, 0o666)
        os.write(near, b"typed\n")
        printed = yard.run(
            f"echo written > {terminal}; head -c 5 < {terminal}; echo x > /dev/tty; head -c 5 < /dev/tty"
        )
        os.set_blocking(near, False)
        assert b"written" not in os.read(near, 1000)  # but the echo of what was typed
        assert "typed" not in printed[0]
    finally:
        os.close(near)
        os.close(far)


@everywhere
def test_no_disk_can_be_read_past_its_files(yard: Yard) -> None:
    disks = [path for name in os.listdir("/sys/class/block") if (path := Path("/dev", name)).exists()]
    if not disks:
        pytest.skip("there is no disk here")
    assert yard.run("; ".join(f"head -c 1 {disk} 2>/dev/null | wc -c" for disk in disks)) == ["0\n" * len(disks)]


# Keys in the kernel.

READ_KEY = """
import ctypes
libc = ctypes.CDLL(None)
key = libc.syscall(250, 10, -3, b"user", b"polylect-test", 0)  # keyctl: search the session keyring
text = ctypes.create_string_buffer(100)
print(libc.syscall(250, 11, key, text, ctypes.c_size_t(100)), text.value)
"""


@everywhere
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of the system calls are those of x86_64")
def test_keys_of_the_session_keyring_cannot_be_read(yard: Yard) -> None:
    (yard.workspace / "key.py").write_text(READ_KEY)
    assert SECRET not in yard.run(("add key", "polylect-test"), f"{shlex.quote(yard.python)} -S key.py")[0]


# Settings of the kernel.

OPEN_FOR_WRITING = """
import os
for folder, folders, files in os.walk("/proc"):
    if folder == "/proc":
        folders[:] = [name for name in folders if not name.isdigit() and name != "pressure"]
    for path in (os.path.join(folder, name) for name in files):
        try:
            if os.stat(path).st_mode & 0o222:  # there is something to write
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))  # but nothing is written
                print(path)
        except OSError:
            pass
"""


@everywhere
def test_no_setting_of_the_kernel_can_be_opened_for_writing(yard: Yard) -> None:
    (yard.workspace / "walk.py").write_text(OPEN_FOR_WRITING)
    assert yard.run(f"{shlex.quote(yard.python)} -S walk.py") == [""]


# Programs that we start ourselves.


def test_a_program_of_the_workspace_is_not_taken_for_one_of_ours(tmp_path: Path) -> None:
    workspace, outside = tmp_path / "workspace", tmp_path / "outside"
    for folder in (workspace / "bin", outside):
        folder.mkdir(parents=True)
    (workspace / "bin" / "server").write_text("#!/bin/sh\necho > ran\n")
    (workspace / "bin" / "server").chmod(0o755)
    (outside / "server").symlink_to(workspace / "bin" / "server")
    path = os.pathsep.join(map(str, (workspace / "bin", outside)))
    assert program_on(path, "server") == str(workspace / "bin" / "server")
    assert program_on(path, "server", outside=str(workspace)) == ""

    async def start(name: str) -> str:
        custody = Custody()
        try:
            child = await custody.open(
                (name,), cwd=str(workspace), env={"PATH": path}, on_error_output=lambda data: None
            )
            await child.read()  # until it has ended
            await child.close()
            return ""
        except ToolError as error:
            return str(error)
        finally:
            await custody.close()

    assert "only if its absolute path is named" in asyncio.run(start("server"))
    assert "name the program's absolute path" in asyncio.run(start("bin/server"))
    assert not (workspace / "ran").exists()
    assert asyncio.run(start(str(workspace / "bin" / "server"))) == ""
    assert (workspace / "ran").exists()
