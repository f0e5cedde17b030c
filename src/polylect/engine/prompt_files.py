"""Slash commands that a project or a user has written: Markdown files whose text becomes the prompt.

    ---
    description: Looks for mistakes in a file.
    argument-hint: <file>
    ---
    Review $ARGUMENTS and tell what is wrong.

They are looked for in `.polylect/commands` and `.claude/commands` of the workspace and of the user's home.
"""

import os
from collections.abc import Sequence

from msgspec import Struct

_FOLDERS = (".claude/commands", ".polylect/commands")
_LARGEST = 256 * 1024
_WORDS = "$ARGUMENTS"


class PromptFile(Struct, frozen=True):
    name: str
    text: str
    description: str = ""
    hint: str = ""

    def filled(self, words: str) -> str:
        if _WORDS in self.text:
            return self.text.replace(_WORDS, words)
        return f"{self.text}\n\nArguments: {words}" if words else self.text


def find_prompt_files(places: Sequence[str]) -> dict[str, PromptFile]:
    """All that are in these places; later ones win."""
    found: dict[str, PromptFile] = {}
    for folder in (os.path.join(place, name) for place in places for name in _FOLDERS):
        for file in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            name, ending = os.path.splitext(file)
            if ending == ".md" and (read := _read(name, os.path.join(folder, file))):
                found[name] = read
    return found


def _read(name: str, path: str) -> PromptFile | None:
    try:
        with open(path, encoding="utf-8") as file:
            return parse(name, file.read(_LARGEST))
    except (OSError, UnicodeDecodeError):
        return None


def parse(name: str, text: str) -> PromptFile:
    """Without front matter, all of it is the prompt."""
    head, fence, body = text.removeprefix("---\n").partition("\n---\n")
    if not text.startswith("---\n") or not fence:
        return PromptFile(name, text.strip())
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in head.split("\n"))}
    return PromptFile(name, body.strip(), fields.get("description", ""), fields.get("argument-hint", ""))
