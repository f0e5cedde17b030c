"""Which files decide what runs later (P2)."""

import pytest

from polylect.permissions.protected_paths import decides_what_runs

HOME = "/home/me"


@pytest.mark.parametrize(
    ("path", "workspace", "protected"),
    [
        ("/home/me/.bashrc", HOME, True),
        ("/home/me/.ssh/authorized_keys", HOME, True),
        ("/home/me/.config/autostart/a.desktop", HOME, True),
        ("/home/me/bin/ls", HOME, True),
        ("/home/me/project/.git/hooks/x", HOME, True),
        ("/home/me/project/bin/ls", HOME, False),
        ("/home/me/notes.txt", HOME, False),
        ("/home/me/.bashrc", "/home", True),
        ("/home/me/.bashrc", "/", True),
        ("/etc/profile.d/x.sh", "/", True),
        ("/usr/bin/ls", "/", True),
        ("/srv/site/index.html", "/", False),
        ("/home/me/.dotfiles/bashrc", "/home/me/.dotfiles", False),
        ("/usr/local/src/project/a.c", "/usr/local/src/project", False),
        ("/usr/local/src/project/.polylect/config.toml", "/usr/local/src/project", True),
    ],
)
def test_P2_startup_files_are_protected_where_the_workspace_holds_them(
    path: str, workspace: str, protected: bool
) -> None:
    assert decides_what_runs(path, workspace, [workspace], HOME) is protected


def test_P2_a_granted_folder_is_meant_with_what_is_in_it() -> None:
    roots = [HOME, "/home/me/.config/nvim", "/home/me/.bashrc"]
    assert not decides_what_runs("/home/me/.config/nvim/init.lua", HOME, roots, HOME)
    assert not decides_what_runs("/home/me/.bashrc", HOME, roots, HOME)
    assert decides_what_runs("/home/me/.config/fish/config.fish", HOME, roots, HOME)
