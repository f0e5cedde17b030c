"""What the model is told before the conversation."""

from pathlib import Path

from polylect.engine.context.instructions import InstructionFiles
from polylect.engine.context.prompt import system_prompt


def test_the_model_is_told_where_it_works_what_is_wanted_and_what_came_before(tmp_path: Path) -> None:
    result = system_prompt(str(tmp_path), "Answer in verse.", ["We agreed on tabs.", "And on verse."])
    assert f"Workspace: {tmp_path}" in result
    assert result.endswith(
        "Answer in verse.\n\nContext from before this conversation:\n\nWe agreed on tabs.\n\nAnd on verse."
    )


def test_the_model_is_told_what_the_person_and_the_project_say(tmp_path: Path) -> None:
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    (home / ".claude").mkdir(parents=True)
    workspace.mkdir()
    (home / ".claude" / "CLAUDE.md").write_text("be brief\n")
    (workspace / "AGENTS.md").write_text("use tabs\n")
    files = InstructionFiles(str(workspace), {"HOME": str(home)}).read()
    assert system_prompt(str(workspace), "", [], files).endswith(
        f"Instructions for every project of this person, from {home}/.claude/CLAUDE.md:\n\nbe brief\n\n"
        f"Instructions for this project, from {workspace}/AGENTS.md:\n\nuse tabs"
    )
