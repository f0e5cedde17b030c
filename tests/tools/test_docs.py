"""docs/tools.md tells of every tool what it takes."""

import re
from pathlib import Path

from polylect.tools.standard import standard_tools

DOCS = Path(__file__).parents[2] / "docs" / "tools.md"
ROW = re.compile(r"^\| (\w+) \| (\w+) \| (.*?) \|", re.MULTILINE)


def test_the_table_is_what_the_tools_say(tmp_path: Path) -> None:
    (tmp_path / ".polylect" / "skills").mkdir(parents=True)
    said = {name: (category, parameters) for name, category, parameters in ROW.findall(DOCS.read_text())[1:]}
    described = {}
    for name, tool in standard_tools(str(tmp_path)).items():
        fields = tool.spec.schema["properties"]
        required = tool.spec.schema["required"]
        described[name] = tool.category, {f"**{field}**" if field in required else field for field in fields}
    assert {name: (category, set(words.split(", "))) for name, (category, words) in said.items()} == described
