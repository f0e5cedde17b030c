"""Answers the asks of an engine from the `--allow` and `--deny` rules of `polylect run`.

No person is at the terminal, so an ask that no rule allows is denied. The reason says whether a rule denied it or
nobody was there to ask; `run_task.py` makes the exit code from that difference.
"""

import os
from collections.abc import Callable, Sequence

from polylect.host.asks import Ask, Verdict
from polylect.permissions.gate import ProposedCall, verdict
from polylect.permissions.rules import parse
from polylect.vocab.content import Category, Rule
from polylect.vocab.tool_names import command_of, own_name

_CATEGORIES: dict[str, Category] = {"Bash": "exec", "Read": "info", "Grep": "info", "Glob": "info"}
_CATEGORIES |= {"Write": "edit", "Edit": "edit", "MultiEdit": "edit", "NotebookEdit": "edit"}
NOBODY_TO_ASK = "nobody is there to be asked"
"""The reason for a denial begins with this if no rule applied."""
BY_RULE = "the rule "
"""The reason for a denial begins with this if a rule applied."""
BY_PLAN_MODE = "the mode is plan"
"""The reason for a denial begins with this if the mode is plan, in which no approval would have helped."""
_PATHS = ("file_path", "path", "notebook_path")


def answer_by_rules(allow: Sequence[str], deny: Sequence[str], cwd: str) -> Callable[[Ask], Verdict]:
    """Returns a function that answers asks by these rules.

    It allows what an allow rule names and no deny rule does. It denies everything else, with the reason. A tool of an
    MCP server is allowed only by its full name, `mcp__server__tool`: any server can choose a short one. `cwd` is the
    folder that relative paths in rules and calls are resolved against.
    """
    home, cwd = os.path.realpath(os.path.expanduser("~")), os.path.realpath(cwd)
    denying: list[Rule] = [rule for text in deny for rule in parse(text, "deny", cwd, home)]
    allowing: list[Rule] = [rule for text in allow for rule in parse(text, "allow", cwd, home)]

    def judge(ask: Ask) -> Verdict:
        if ask.kind != "permission":
            return NOBODY_TO_ASK
        call = _proposed_call(ask, cwd)
        unidentified = call.origin == "mcp" and not call.long_name
        judged = verdict(call, "default", (), denying if unidentified else [*denying, *allowing])
        if judged.decision == "allow":
            return True
        # The engine may ask because of a rule of its own, which these rules do not contain.
        return judged.why if judged.decision == "deny" else f"{NOBODY_TO_ASK}: {ask.reason or judged.why}"

    return judge


def _proposed_call(ask: Ask, cwd: str) -> ProposedCall:
    of_server = ask.category == "mcp" or ask.name.startswith("mcp__")
    name = ask.name if of_server else own_name(ask.name)
    named_paths = [ask.args[key] for key in _PATHS if isinstance(ask.args.get(key), str)]
    paths = tuple(os.path.realpath(os.path.join(cwd, path)) for path in named_paths)
    outside = tuple(path for path in paths if os.path.commonpath([path, cwd]) != cwd)
    if of_server:
        long_name = name if name.startswith("mcp__") else ""
        return ProposedCall(name, "mcp", ask.args, outside, paths, long_name, origin="mcp")
    args = {**ask.args, "command": command_of(ask.name, ask.args)}
    return ProposedCall(name, _CATEGORIES.get(name, ask.category), args, outside, paths)
