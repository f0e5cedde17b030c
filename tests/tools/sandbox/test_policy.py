"""What a sandbox leaves open and what it hides, if nobody says otherwise."""

import os
import subprocess
from pathlib import Path

import pytest

from polylect.tools.sandbox import Sandbox
from polylect.tools.sandbox.policy import CacheFolders, HiddenPlaces, expand, git_paths, temporary_paths


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = Path(os.path.realpath(tmp_path)) / "home"
    home.mkdir()
    return home


def test_the_usual_secrets_are_hidden_with_those_that_variables_and_settings_name(home: Path) -> None:
    env = {
        "HOME": str(home),
        "SSH_AUTH_SOCK": "/tmp/agent",
        "KUBECONFIG": "relative:/k/a:/k/b",
        "DOCKER_HOST": "unix:///d/sock",
        "DBUS_SESSION_BUS_ADDRESS": "unix:path=/b/us,guid=12",
        "TMUX": "/t/mux,12,0",
    }
    names = HiddenPlaces(["~/mine", "!~/.npmrc"], env).names
    assert {f"{home}/.ssh", f"{home}/.aws", f"{home}/.config/gcloud", f"{home}/.gnupg", f"{home}/.netrc"} <= set(names)
    assert {"/tmp/agent", f"{home}/mine", "/k/a", "/k/b", "/d/sock", "/b/us", "/t/mux"} <= set(names)
    assert f"{home}/.npmrc" not in names
    assert all(os.path.isabs(path) for path in names)


def test_a_secret_that_is_a_link_is_hidden_where_it_lies_and_where_it_lay(home: Path) -> None:
    (home / "real").mkdir()
    (home / ".ssh").symlink_to("real")
    places = HiddenPlaces([], {"HOME": str(home)})
    assert f"{home}/real" in places.now([])
    (home / ".ssh").unlink()
    (home / ".ssh").mkdir()
    assert {f"{home}/real", f"{home}/.ssh"} <= set(places.now([]))


@pytest.fixture
def cargo(home: Path) -> dict[str, str]:
    """An environment in which there is cargo and no other program."""
    programs = home.parent / "bin"
    programs.mkdir()
    (programs / "cargo").write_text("")
    (programs / "cargo").chmod(0o755)
    return {"HOME": str(home), "PATH": str(programs), "CARGO_HOME": f"{home}/rust"}


def test_caches_are_made_for_programs_that_are_there_and_only_for_those(home: Path, cargo: dict[str, str]) -> None:
    caches = CacheFolders(cargo)
    assert caches.paths == [f"{home}/.cache", f"{home}/rust/registry", f"{home}/rust/git"]
    assert (home / "rust" / "git").is_dir()
    assert not (home / ".npm").exists()
    caches.remove_unused()


def test_caches_that_were_made_and_not_used_are_removed_at_the_end(home: Path, cargo: dict[str, str]) -> None:
    (home / ".cache").mkdir()
    caches = CacheFolders(cargo)
    (home / "rust" / "git" / "checkout").write_text("")
    caches.remove_unused()
    assert sorted(str(path.relative_to(home)) for path in home.rglob("*")) == [
        *(".cache", "rust", "rust/git", "rust/git/checkout")
    ]


def test_caches_are_not_removed_while_another_session_runs(home: Path, cargo: dict[str, str]) -> None:
    first, second, third = CacheFolders(cargo), CacheFolders(cargo), CacheFolders(cargo)
    third.remove_unused()
    first.remove_unused()
    assert (home / "rust" / "git").is_dir()
    second.remove_unused()
    assert (home / "rust" / "git").is_dir(), "which it has not made"


def test_only_caches_that_were_made_here_are_removed(home: Path, cargo: dict[str, str]) -> None:
    (home / "rust" / "git").mkdir(parents=True)
    CacheFolders(cargo).remove_unused()
    assert sorted(path.name for path in home.rglob("*")) == ["git", "rust"]


def test_caches_that_have_disappeared_are_made_again(home: Path, cargo: dict[str, str]) -> None:
    caches = CacheFolders(cargo)
    (home / "rust" / "git").rmdir()
    caches.make_missing()
    assert (home / "rust" / "git").is_dir()
    caches.remove_unused()
    assert list(home.iterdir()) == []


def test_a_cache_that_cannot_be_made_is_left_out(home: Path) -> None:
    (home / "file").write_text("in the way")
    assert CacheFolders({"HOME": str(home), "PATH": "", "XDG_CACHE_HOME": f"{home}/file/cache"}).paths == []


def test_temporary_folders_are_open(home: Path) -> None:
    paths = temporary_paths({"TMPDIR": str(home)})
    assert os.path.realpath("/tmp") in paths
    assert str(home) in paths
    assert all(os.path.isdir(path) for path in paths)


def test_a_path_is_expanded_or_none(home: Path) -> None:
    env = {"HOME": str(home)}
    assert expand("~", env) == str(home)
    assert expand("~/a/../b", env) == f"{home}/b"
    assert expand("$GOPATH/pkg", env) == f"{home}/go/pkg"
    assert [expand(path, env) for path in ("", "a", "./a", "~other/a", "$NOTHING", "$NOTHING/a")] == [""] * 6


def git(folder: Path, *words: str) -> None:
    names = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True, timeout=30)


def test_git_can_be_used_in_a_folder_of_a_repository_and_in_a_worktree(home: Path) -> None:
    repository = home / "repository"
    (repository / "part").mkdir(parents=True)
    git(repository, "init")
    git(repository, "commit", "--allow-empty", "-m", "first")
    git(repository, "worktree", "add", str(home / "tree"))
    assert list(git_paths(str(repository))) == [f"{repository}/.git"]
    assert list(git_paths(str(repository / "part"))) == [f"{repository}/.git"]
    assert list(git_paths(str(home / "tree"))) == [f"{repository}/.git"]
    assert list(git_paths("/")) == []


def test_a_repository_cannot_open_a_folder_by_claiming_that_it_is_gits(home: Path) -> None:
    victim, workspace = home / "victim", home / "workspace"
    victim.mkdir()
    workspace.mkdir()
    git(victim, "init")
    git(victim, "commit", "--allow-empty", "-m", "first")
    git(victim, "worktree", "add", str(home / "tree"))
    (workspace / ".git").write_text(f"gitdir: {victim}/.git/worktrees/tree")
    assert list(git_paths(str(workspace))) == []
    for claim in (f"gitdir: {victim}", f"gitdir: {victim}/.git", "gitdir: /", "gitdir: ../victim/.git", "", "\0"):
        (workspace / ".git").write_text(claim)
        assert list(git_paths(str(workspace))) == []
    fake = workspace / "worktrees" / "fake"
    fake.mkdir(parents=True)
    (fake / "gitdir").write_text(f"{workspace}/.git")
    (fake / "commondir").write_text(str(home))
    (workspace / ".git").write_text(f"gitdir: {fake}")
    assert list(git_paths(str(workspace))) == []
    (workspace / ".git").unlink()
    (workspace / ".git").symlink_to(victim / ".git")
    assert list(git_paths(str(workspace))) == []


def test_what_was_granted_is_stronger_than_what_is_usually_hidden(home: Path) -> None:
    for name in (".ssh", ".aws", "mine"):
        (home / name).mkdir()
    sandbox = Sandbox("auto", env={"HOME": str(home), "PATH": ""}, writable=["~/more"], hidden=["~/mine/private"])
    (home / "mine" / "private").mkdir()
    fence = sandbox.fence(f"{home}/mine", [f"{home}/mine", f"{home}/.aws"])
    assert fence.writable[:2] == [f"{home}/mine", f"{home}/.aws"]
    assert f"{home}/more" in fence.writable
    assert [path for path in fence.hidden if path.startswith(str(home))] == [f"{home}/.ssh", f"{home}/mine/private"]
