"""Repositories as git makes them, without git."""

from pathlib import Path


def make_repository(folder: Path) -> Path:
    """Makes the folder a repository. Returns its git directory."""
    git = folder / ".git"
    make_git_directory(git)
    return git


def make_git_directory(git: Path) -> None:
    for name in ("objects", "refs"):
        (git / name).mkdir(parents=True, exist_ok=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
