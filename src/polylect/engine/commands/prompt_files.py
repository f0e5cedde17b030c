"""Slash commands from Markdown files: the text of the file becomes the prompt.

    ---
    description: Looks for mistakes in a file.
    argument-hint: <file>
    ---
    Review $ARGUMENTS and tell what is wrong.

Files are searched in `.polylect/commands` and `.claude/commands` of the user's home and of the workspace. A project may
come from anybody. So a file of the project that links out of it is not read, and it replaces a command of the user only
if the workspace is trusted. Files that the rules forbid to read are skipped. `slash.py` calls it;
`engine/subagents/personas.py` uses the same search for agents.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec import Struct

from polylect.permissions.rules import is_below
from polylect.system.plain_files import names_in, read_resolved, real_path
from polylect.system.user_folders import user_path
from polylect.wire.front_matter import split_front

_FOLDERS = (".claude/commands", ".polylect/commands")
_LARGEST = 256 * 1024
MOST_FILES = 500
"""Of a folder, and of all folders of a project."""
_WORDS = "$ARGUMENTS"
Fault = Callable[[str], str]
"""Why the file at a resolved path must not be told to the model; empty if it may be."""
T = TypeVar("T")


class PromptFile(Struct, frozen=True):
    """One slash command."""

    name: str
    text: str
    description: str = ""
    hint: str = ""

    def filled(self, words: str) -> str:
        """The prompt with the arguments in place of `$ARGUMENTS`, or after the text if it has no such place."""
        if _WORDS in self.text:
            return self.text.replace(_WORDS, words)
        return f"{self.text}\n\nArguments: {words}" if words else self.text


class MarkdownFile(Struct, frozen=True):
    """A Markdown file that was found."""

    name: str
    text: str
    own: bool
    """Whether it is the user's, not the project's."""


def no_fault(path: str) -> str:
    return ""


def find_prompt_files(
    places: Sequence[str], *, trusted: bool = False, fault: Fault = no_fault
) -> dict[str, PromptFile]:
    """The slash commands in these places by name, the project's place last. Empty files are skipped."""
    files = markdown_in(places, _FOLDERS, _LARGEST, fault)
    parsed = ((file.name, parse(file.name, file.text), file.own) for file in files)
    return strongest((row for row in parsed if row[1].text), trusted=trusted)


def strongest(files: Iterable[tuple[str, T, bool]], *, trusted: bool) -> dict[str, T]:
    """One value for each name. Later ones win, but a project's wins over the user's only if it is `trusted`."""
    strongest_by_name: dict[str, T] = {}
    own: set[str] = set()
    for name, value, is_own in files:
        if is_own:
            own.add(name)
        if is_own or trusted or name not in own:
            strongest_by_name[name] = value
    return strongest_by_name


def markdown_in(
    places: Sequence[str], folders: Sequence[str], largest: int, fault: Fault = no_fault
) -> Iterator[MarkdownFile]:
    """The Markdown files in these folders of each place. The last of several places is the project."""
    project = places[-1] if places[-1] not in places[:-1] else ""
    left = MOST_FILES
    for place, path in ((place, path) for place in places for path in folders):
        folder = os.path.join(place, path) if place == project else user_path(place, path)
        bound = os.path.realpath(place) if place == project else "/"
        files = names_in(folder)[: left if place == project else MOST_FILES]
        left -= len(files) if place == project else 0
        for file in files:
            name, ending = os.path.splitext(file)
            if ending == ".md" and (text := _read(os.path.join(folder, file), bound, largest, fault)):
                yield MarkdownFile(name, text, own=place != project)


def _read(path: str, bound: str, largest: int, fault: Fault) -> str:
    real = real_path(path)
    if not is_below(real, bound) or fault(real):
        return ""
    try:
        return read_resolved(real, largest).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return ""


def parse(name: str, text: str) -> PromptFile:
    """Split front matter from text. Without front matter all of it is the prompt."""
    fields, body = split_front(text) if "\n---" in text else ({}, text)
    return PromptFile(name, body.strip(), fields.get("description", ""), fields.get("argument-hint", ""))
