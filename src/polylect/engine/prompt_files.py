"""Slash commands that a project or a user has written: Markdown files whose text becomes the prompt.

    ---
    description: Looks for mistakes in a file.
    argument-hint: <file>
    ---
    Review $ARGUMENTS and tell what is wrong.

They are looked for in `.polylect/commands` and `.claude/commands` of the workspace and of the user's home. A project's
file that leads out of the project is not read: what is there is none of the model's business.
"""

import os
from collections.abc import Iterator, Sequence

from msgspec import Struct

from polylect.engine.rules import is_below
from polylect.wire.front_matter import split_front

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
    """All that are in these places; later ones win. One without a word is none."""
    read = ((name, parse(name, text)) for name, text in markdown_in(places, _FOLDERS, _LARGEST))
    return {name: file for name, file in read if file.text}


def markdown_in(places: Sequence[str], folders: Sequence[str], largest: int) -> Iterator[tuple[str, str]]:
    """The Markdown files in these folders of each place, by name and text. The last place is the project's."""
    for place, folder in ((place, os.path.join(place, name)) for place in places for name in folders):
        for file in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            name, ending = os.path.splitext(file)
            bound = os.path.realpath(place) if place == places[-1] else "/"
            if ending == ".md" and (text := _read(os.path.realpath(os.path.join(folder, file)), bound, largest)):
                yield name, text


def _read(path: str, bound: str, largest: int) -> str:
    if not is_below(path, bound) or not os.path.isfile(path):  # a pipe would keep us waiting for good
        return ""
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read(largest)
    except (OSError, UnicodeDecodeError):
        return ""


def parse(name: str, text: str) -> PromptFile:
    """Without front matter, all of it is the prompt."""
    fields, body = split_front(text) if "\n---" in text else ({}, text)
    return PromptFile(name, body.strip(), fields.get("description", ""), fields.get("argument-hint", ""))
