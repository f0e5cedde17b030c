"""The base of events and commands: what has a `type` in JSON and can be written as JSON."""

from typing import Any

from msgspec import Struct


class Item(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True, kw_only=True, tag_field="type"):
    """An event or a command. `vocab/json_form.py` defines the JSON.

    Attributes:
        session: The session that it belongs to, where a wire carries several.
        unknown_fields: What a newer peer has added to it; written again where it is passed on.
    """

    session: str = ""
    unknown_fields: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns it as plain data: `type` names it, and fields at their default are left out."""
        from polylect.vocab.json_form import to_fields  # it imports all events and commands

        return to_fields(self)

    def to_json(self) -> str:
        """Returns `to_dict` as JSON text."""
        from polylect.vocab.json_form import to_json

        return to_json(self)
