"""Names for sessions: a program calls a session as it likes, on every engine, and resumes it by that name.

Engines differ in what they accept as an id (`EngineSpec.session_ids`). Where the name is no id for the engine, one is
derived from it: `fix-login` on Claude's wire is a UUID that is always the same for this name, so that nothing has to be
stored. omp and pi make ids of their own; there the file of the session is stored under its name, in
`<home>/session-names/<engine>/`. `connect` translates the names that it gets, and `Conversation` those
that come later, in both directions.
"""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from polylect.host.engine_registry import EngineSpec
from polylect.host.errors import SessionExists
from polylect.sessions.folder import is_id, sessions_root

_NAMESPACE = "6f1c3a52-7d0e-5b8e-9b1f-6a2f4f0c9d11"
"""Of the UUIDs that are derived from names. It never changes: sessions are found by it."""
_IDS = {
    "uuid": re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"),
    "hex": re.compile(r"[0-9a-fA-F]{6,40}"),
}


class SessionNames:
    """The names of the sessions of one agent.

    Args:
        engine: The engine; None for one that takes any id as it is.
        env: The environment of the engine, which says where the home folder is.
    """

    def __init__(self, engine: EngineSpec | None = None, env: Mapping[str, str] | None = None) -> None:
        self._engine = engine
        self._folder = ""
        if engine and engine.session_ids == "own":
            home = os.path.dirname(sessions_root(dict(os.environ if env is None else env)))
            self._folder = os.path.join(home, "session-names", engine.name)
        self._names: dict[str, str] = {}
        """By the id that the engine has for it."""
        self.new = ""
        """The name for the session that the engine begins, if it makes the id."""

    @property
    def needs_file(self) -> bool:
        """Whether `store` has to be called when the engine is ready."""
        return bool(self.new or (self._folder and self._names))

    def translate(self, wishes: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the `wishes` of `connect`, with `session` and `resume` as the engine wants them.

        Raises SessionExists if there is a session of this name already, on an engine that would not say so itself.
        """
        translated = dict(wishes)
        if resume := wishes.get("resume"):
            translated["resume"] = self.to_engine(str(resume))
        if not (name := str(wishes.get("session") or "")):
            return translated
        if not self._folder:
            return {**translated, "session": self.to_engine(name)}
        stored = self._stored(name)
        if stored and (os.path.exists(stored) or not os.path.isabs(stored)):  # an id, where the engine tells no file
            raise SessionExists(f"there is a session {name!r} already: go on with it by resume={name!r}")
        self.new = name
        return {key: wish for key, wish in translated.items() if key != "session"}

    def to_engine(self, name: str) -> str:
        """Returns what the engine calls the session of this `name`; an id, a file or `latest` as it is."""
        is_path = os.path.isabs(name) or (os.sep in name and os.path.exists(name))
        if name in ("", "latest") or self._engine is None or is_path:
            return name
        if self._folder:
            target = self._stored(name) or name
        else:
            kind = self._engine.session_ids
            fits = is_id(name) if kind == "name" else _IDS[kind].fullmatch(name)
            target = name if fits else _derived(name) if kind != "hex" else _derived(name).replace("-", "")
        if target != name:
            self._names[target] = name
        return target

    def to_program(self, session: str) -> str:
        """Returns the name of the session that the engine calls `session`; that id if it has no name."""
        return self._names.get(session, session)

    def in_names(self, text: str) -> str:
        """Returns the `text` of an error with names in the place of the engine's ids."""
        for session, name in self._names.items():
            text = text.replace(session, name)
        return text

    def store(self, session: str, file: str) -> None:
        """Notes the `session` that the engine has begun or resumed, which it keeps in `file`."""
        if name := self._names.get(file):
            self._names[session] = name
        if not self.new:
            return
        self._names[session] = self.new
        os.makedirs(self._folder, exist_ok=True)
        with open(self._path(self.new), "w", encoding="utf-8") as entry:
            entry.write(f"{file or session}\n{self.new}")
        self.new = ""

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, _derived(name))

    def _stored(self, name: str) -> str:
        try:
            with open(self._path(name), encoding="utf-8") as entry:
                return entry.readline().rstrip("\n")
        except FileNotFoundError:
            return ""

    def stored_names(self) -> dict[str, str]:
        """Returns the names of all sessions that have one, by the id or the file name of the session."""
        names: dict[str, str] = {}
        with suppress(OSError):
            for place in os.scandir(self._folder or os.devnull):
                with open(place.path, encoding="utf-8") as entry:
                    session, _, name = entry.read().partition("\n")
                names[os.path.basename(session)] = name
        return names


def _derived(name: str) -> str:
    """The UUID that stands for a name, always the same."""
    from uuid import UUID, uuid5  # only for names that are no ids: it takes some milliseconds

    return str(uuid5(UUID(_NAMESPACE), name))
