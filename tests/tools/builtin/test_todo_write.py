"""TodoWrite: the person sees the plan."""

from pathlib import Path

from doubles_tools import FolderContext, use
from polylect.vocab.content import PlanItem


def test_the_whole_list_is_shown_to_both(tmp_path: Path) -> None:
    context = FolderContext(tmp_path)
    todos = [
        {"content": "look", "status": "completed", "activeForm": "Looking"},
        {"content": "do", "status": "in_progress", "priority": "high"},
        {"content": "check"},
    ]
    assert use(context, "TodoWrite", todos=todos).output == "[x] look\n[>] do\n[ ] check"
    assert context.plans == [[PlanItem("look", "completed"), PlanItem("do", "in_progress", "high"), PlanItem("check")]]
    assert use(context, "TodoWrite", todos=[]).output == "The list is empty."
    assert context.plans[1] == []


def test_a_wrong_list_is_not_shown(tmp_path: Path) -> None:
    context = FolderContext(tmp_path)
    assert not use(context, "TodoWrite", todos=[{"content": "x", "status": "done"}]).ok
    assert not use(context, "TodoWrite", todos=[{"content": ""}]).ok
    assert not use(context, "TodoWrite", todos="look").ok
    assert not context.plans
