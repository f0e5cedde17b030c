"""P2: file tools stay inside the workspace and what was granted, whatever symlinks say."""

import os
from pathlib import Path
from typing import Any

import pytest

from doubles_tools import FolderContext, use
from polylect.system.plain_files import opened_parent
from polylect.tools.files.paths import real_path
from polylect.tools.standard import standard_tools
from polylect.vocab.errors import ToolError


@pytest.fixture
def context(tmp_path: Path) -> FolderContext:
    """A workspace with a neighbour that is none of its business."""
    (tmp_path / "work").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "secret.txt").write_text("secret\n")
    (tmp_path / "work" / "folder_link").symlink_to(tmp_path / "other")
    (tmp_path / "work" / "file_link").symlink_to(tmp_path / "other" / "secret.txt")
    (tmp_path / "work" / "dangling").symlink_to(tmp_path / "other" / "new.txt")
    return FolderContext(tmp_path / "work")


WAYS_OUT = ["../other/secret.txt", "folder_link/secret.txt", "file_link", "folder_link/../other/secret.txt"]


@pytest.mark.parametrize("path", WAYS_OUT)
def test_P2_nothing_outside_is_read(context: FolderContext, path: str) -> None:
    for result in (use(context, "Read", file_path=path), use(context, "Grep", pattern="secret", path=path)):
        assert not result.ok
        assert "outside the workspace" in result.output
        assert "secret\n" not in result.output


@pytest.mark.parametrize("path", [*WAYS_OUT, "dangling", "../other/deep/new.txt", "folder_link/deep/new.txt"])
def test_P2_nothing_outside_is_written(context: FolderContext, path: str) -> None:
    other = Path(context.workspace).parent / "other"
    context.seen[str(other / "secret.txt")] = (0, 0)
    written = use(context, "Write", file_path=path, content="mine")
    edited = use(context, "Edit", file_path=path, old_string="secret", new_string="mine")
    assert not written.ok
    assert not edited.ok
    assert os.listdir(other) == ["secret.txt"]
    assert (other / "secret.txt").read_text() == "secret\n"


def test_P2_an_absolute_path_outside_is_refused_with_a_way_out(context: FolderContext) -> None:
    result = use(context, "Read", file_path="/etc/passwd")
    assert not result.ok
    assert "ask the user for access" in result.output


def test_P2_glob_does_not_leave_through_its_pattern(context: FolderContext) -> None:
    for args in ({"pattern": "../other/*"}, {"pattern": "*", "path": "folder_link"}, {"pattern": "folder_link/*"}):
        result = use(context, "Glob", **args)
        assert not result.ok, args
    assert "secret" not in use(context, "Glob", pattern="**/*").output


def test_P2_a_granted_folder_or_file_is_inside(context: FolderContext) -> None:
    other = Path(context.workspace).parent / "other"
    context.roots = (*context.roots, str(other / "secret.txt"))
    assert use(context, "Read", file_path="file_link").output == "     1\tsecret"
    assert not use(context, "Write", file_path=str(other / "new.txt"), content="").ok
    context.roots = (*context.roots, str(other))
    assert use(context, "Write", file_path="dangling", content="new").ok
    assert (other / "new.txt").read_text() == "new"


def test_P2_a_folder_with_a_similar_name_is_outside(context: FolderContext) -> None:
    Path(context.workspace + "_too").mkdir()
    assert not use(context, "Write", file_path="../work_too/a", content="").ok


def test_touches_names_real_paths_before_anything_is_checked(context: FolderContext) -> None:
    other = str(Path(context.workspace).parent / "other")
    cases: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
        ("Read", {"file_path": "file_link"}, (other + "/secret.txt",)),
        ("Write", {"file_path": "folder_link/a/b"}, (other + "/a/b",)),
        ("Edit", {"file_path": "x/../y"}, (context.workspace + "/y",)),
        ("Glob", {"pattern": "folder_link/**/*.py"}, (other,)),
        ("Glob", {"pattern": "*"}, (context.workspace,)),
        ("Grep", {"pattern": "x", "path": "folder_link"}, (other,)),
        ("Grep", {"pattern": "x"}, (context.workspace,)),
        ("Bash", {"command": "ls"}, ()),
        ("Read", {"file_path": 3}, ()),
        ("Read", {"file_path": "a\0b"}, ()),
        ("Read", {}, ()),
    ]
    tools = standard_tools()
    for name, args, paths in cases:
        assert tools[name].touches(args, context.workspace) == paths, (name, args)


def test_P2_a_folder_swapped_for_a_symlink_after_the_check_leads_nowhere(context: FolderContext) -> None:
    workspace = Path(context.workspace)
    (workspace / "deep").mkdir()
    real = real_path("deep/file", context.workspace)
    (workspace / "deep").rmdir()
    (workspace / "deep").symlink_to(workspace.parent / "other")
    with pytest.raises(OSError, match="deep"), opened_parent(real, make=True):
        pass
    assert os.listdir(workspace.parent / "other") == ["secret.txt"]


def test_P2_a_grant_for_a_path_does_not_cover_what_a_symlink_makes_of_it_later(context: FolderContext) -> None:
    workspace = Path(context.workspace)
    (tool := standard_tools()["Write"]).touches({"file_path": "later"}, context.workspace)
    (workspace / "later").symlink_to(workspace.parent / "other" / "secret.txt")
    assert tool.touches({"file_path": "later"}, context.workspace)[0].endswith("/other/secret.txt")
    assert not use(context, "Write", file_path="later", content="mine").ok


def test_what_cannot_be_a_path_is_a_clear_fault(context: FolderContext) -> None:
    with pytest.raises(ToolError, match="Not a path"):
        real_path("a\0b", context.workspace)
    for path in ("a\0b", "\ud800", "x" * 300, "file_link/x"):
        assert not use(context, "Read", file_path=path).ok
        assert not use(context, "Write", file_path=path, content="").ok
