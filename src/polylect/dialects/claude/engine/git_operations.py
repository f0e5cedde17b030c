"""What git reports in the output of a command: commits, pushes, merges and rebases.

    git commit -m "Fix it"  ->  "[main 1a2b3c4] Fix it"  ->  {"commit": {"sha": "1a2b3c4", "branch": "main", ...}}

Hosts refresh their view of the repository by it. Only what git itself has printed counts, as in the vendor's program: a
command with `--quiet` is not noticed. `EventWriter` calls it for Bash calls that ended well.
"""

import re
from typing import Any

from polylect.wire.lazy_regex import pattern

Object = dict[str, Any]

_COMMITTED = pattern(r"^\[(?:detached HEAD|(\S+))(?: \(root-commit\))? ([0-9a-f]{7,40})\] ", re.MULTILINE)
_PUSHED = pattern(r"^ [ +*] (?:[0-9a-f]+\.{2,3}[0-9a-f]+|\[new branch\])\s+\S+ -> (\S+)", re.MULTILINE)
_MERGED = pattern(r"^(?:Fast-forward|Merge made by )", re.MULTILINE)
_REBASED = pattern(r"Successfully rebased and updated ")
_COMMAND = pattern(r"\bgit\b[^\n;&|]*?\s(commit|push|merge|rebase)\b([^\n;&|]*)")
_KINDS = {"merged": "merge", "rebased": "rebase"}


def git_operation(command: str, output: str) -> Object:
    """The `gitOperation` of a Bash result; empty if git has reported none.

    command   the command line
    output    what it printed
    """
    arguments = dict(_COMMAND.findall(command))
    operation: Object = {}
    if "commit" in arguments and (commit := _COMMITTED.search(output)):
        branch = {"branch": commit[1]} if commit[1] else {}
        kind = "amended" if "--amend" in arguments["commit"] else "committed"
        operation["commit"] = {"sha": commit[2], "kind": kind, **branch}
    if "push" in arguments and (push := _PUSHED.search(output)):
        operation["push"] = {"branch": push[1]}
    for action, report in (("merged", _MERGED), ("rebased", _REBASED)):
        name = _KINDS[action]
        if name in arguments and report.search(output):
            operation["branch"] = {"ref": (arguments[name].split() or [""])[-1], "action": action}
    return operation


def changes(operation: Object) -> list[tuple[str, str]]:
    """The kind and the branch of each `vcs_state_changed` frame; an empty branch is not known."""
    branches: dict[str, str] = {
        kind: str(operation[kind].get("branch", "")) for kind in ("commit", "push") if kind in operation
    }
    if "branch" in operation:
        branches[_KINDS[operation["branch"]["action"]]] = ""
    return list(branches.items())
