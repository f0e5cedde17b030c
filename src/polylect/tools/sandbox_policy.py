"""What a sandbox leaves open and what it hides, if nobody says otherwise."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from polylect.repository import find_repository, is_git_directory, read_line

SECRETS = (
    *("~/.ssh", "~/.gnupg", "~/.aws", "~/.azure", "~/.kube", "~/.password-store", "~/.local/share/keyrings"),
    *(
        "$XDG_CONFIG_HOME/gcloud",
        "$XDG_CONFIG_HOME/gh",
        "$XDG_CONFIG_HOME/hub",
        "$XDG_CONFIG_HOME/op",
        "$XDG_CONFIG_HOME/polylect",
        "$XDG_CONFIG_HOME/git/credentials",
    ),
    *("~/.netrc", "~/.git-credentials", "~/.npmrc", "~/.pypirc", "~/.docker/config.json", "~/.gem/credentials"),
    *("~/.cargo/credentials", "~/.cargo/credentials.toml", "~/.terraform.d/credentials.tfrc.json"),
    *("~/.claude/.credentials.json", "~/.codex/auth.json", "~/.local/share/fish", "~/.bash_history", "~/.zsh_history"),
    *(
        "~/.mozilla",
        "~/.thunderbird",
        "$XDG_CONFIG_HOME/google-chrome",
        "$XDG_CONFIG_HOME/chromium",
        "$XDG_CONFIG_HOME/BraveSoftware",
    ),
    # Sockets of services that would do outside what is forbidden here.
    *("/run/user", "/run/docker.sock", "/run/podman", "/run/containerd", "/run/crio", "/run/dbus/system_bus_socket"),
)
SECRET_VARIABLES = (
    *("SSH_AUTH_SOCK", "GOOGLE_APPLICATION_CREDENTIALS", "AWS_SHARED_CREDENTIALS_FILE", "KUBECONFIG", "NETRC"),
)
CACHES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("npm", ("~/.npm",)),
    ("pnpm", ("~/.local/share/pnpm",)),
    ("yarn", ("~/.yarn",)),
    ("bun", ("~/.bun/install/cache",)),
    ("cargo", ("$CARGO_HOME/registry", "$CARGO_HOME/git")),
    ("go", ("$GOPATH/pkg",)),
    ("java", ("~/.gradle", "~/.m2/repository")),
    ("dotnet", ("~/.nuget", "~/.dotnet")),
    ("bundle", ("~/.bundle",)),
    ("dart", ("~/.pub-cache",)),
    ("mix", ("~/.hex", "~/.mix")),
)
"""Folders that a program fills wherever it works. They are made if the program is there and they are not."""
_DEFAULTS = {"XDG_CONFIG_HOME": "~/.config", "CARGO_HOME": "~/.cargo", "GOPATH": "~/go", "XDG_CACHE_HOME": "~/.cache"}


def expand(path: str, env: Mapping[str, str]) -> str:
    """An absolute path without links; `~` and `$NAME` at its beginning are replaced. Empty if it cannot be one."""
    if path.startswith("$"):
        name, _, rest = path[1:].partition("/")
        path = os.path.join(env.get(name) or _DEFAULTS.get(name, ""), rest)
    if path == "~" or path.startswith("~/"):
        path = (env.get("HOME") or os.path.expanduser("~")) + path[1:]
    return os.path.realpath(path) if os.path.isabs(path) else ""


def hidden_paths(told: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """The usual secrets and what was told; `!path` takes one of the usual ones out."""
    spared = {expand(path[1:], env) for path in told if path.startswith("!")}
    named = [env[name] for name in SECRET_VARIABLES if env.get(name)]
    usual = [expand(path, env) for path in (*SECRETS, *named)]
    own = [expand(path, env) for path in told if not path.startswith("!")]
    return _once([path for path in usual if path not in spared] + own)


def cache_paths(env: Mapping[str, str]) -> list[str]:
    """Made where they are missing: inside the sandbox nothing could make them."""
    found = [expand("$XDG_CACHE_HOME", env)]
    for program, folders in CACHES:
        if any(os.access(os.path.join(folder, program), os.X_OK) for folder in env.get("PATH", "").split(os.pathsep)):
            found += [expand(folder, env) for folder in folders]
    return _once(path for path in found if path and _is_made(path))


def temporary_paths(env: Mapping[str, str]) -> list[str]:
    return _once(path for path in (expand(one, env) for one in ("/tmp", "/var/tmp", "$TMPDIR")) if os.path.isdir(path))


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


def _is_made(path: str) -> bool:
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
    except OSError:
        return False
    return True


def _once(paths: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(path for path in paths if path))
