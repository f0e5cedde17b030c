"""What the model is told before the conversation."""

from pathlib import Path

from polylect.engine.prompt import system_prompt


def test_the_model_is_told_where_it_works_what_is_wanted_and_what_came_before(tmp_path: Path) -> None:
    told = system_prompt(str(tmp_path), "Answer in verse.", ["We agreed on tabs.", "And on verse."])
    assert f"Workspace: {tmp_path}" in told
    assert told.endswith(
        "Answer in verse.\n\nContext from before this conversation:\n\nWe agreed on tabs.\n\nAnd on verse."
    )


def test_instructions_come_from_the_repository_outermost_first_and_from_nowhere_above_it(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    workspace = repository / "package" / "part"
    workspace.mkdir(parents=True)
    (repository / ".git").mkdir()
    (tmp_path / "AGENTS.md").write_text("not ours")
    (repository / "AGENTS.md").write_text("use tabs\n")
    (repository / "CLAUDE.md").write_text("the second choice")
    (repository / "package" / "AGENTS.md").mkdir()
    (workspace / "CLAUDE.md").write_bytes(b"use spaces \xff")
    told = system_prompt(str(workspace), "", [])
    assert told.endswith(
        f"Instructions for this project, from {repository}/AGENTS.md:\n\nuse tabs\n\n"
        f"Instructions for this project, from {workspace}/CLAUDE.md:\n\nuse spaces \ufffd"
    )
    assert "not ours" not in told
    assert "the second choice" not in told
