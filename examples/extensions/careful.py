"""An extension to copy: asks before anything is deleted, keeps secrets from the model, and adds /todo.

Copy it to ~/.config/polylect/extensions/ or name it with --extension.
"""

import re
from pathlib import Path

SECRET = re.compile(r"\b(?:sk|ghp|AKIA)[-_A-Za-z0-9]{16,}\b")


def extend(polylect):
    @polylect.before_tool("Bash")
    async def ask_before_deleting(call):
        command = call.args.get("command", "")
        deletes = re.search(r"\brm\b|\bgit\s+clean\b", command)
        if deletes and not await polylect.confirm("Delete files?", command):
            return polylect.deny("The person does not want anything deleted.")
        return None

    @polylect.after_tool("Read|Grep|Bash")
    def hide_secrets(call, returned):
        return SECRET.sub("[a secret]", returned.output)

    @polylect.command("todo", description="List what the code says is still to be done")
    def todo(words):
        found = [
            f"{path.relative_to(polylect.workspace)}:{number}: {line.strip()}"
            for path in sorted(Path(polylect.workspace).rglob("*.py"))
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
            if "TODO" in line and words in line
        ]
        return "\n".join(found) or "Nothing is left to do."

    polylect.rule(
        r"eval\(",
        "Do not use eval: it runs whatever it is given. Parse the text instead.",
        name="no-eval",
    )
