"""The answer to `session/list`: one page of the stored sessions, the newest first.

A cursor says after which session the next page begins, not how many there were before, so that sessions which come and
go meanwhile do no harm. Clients may not look into it.
"""

import json
from binascii import a2b_base64, b2a_base64
from datetime import UTC, datetime

from polylect.dialects.acp.engine.connection import Refusal
from polylect.dialects.acp.frames import client as shapes
from polylect.vocab.answers import SessionCard
from polylect.wire.jsonrpc import INVALID_PARAMS

_PAGE = 50
"""Sessions in one answer."""
FILTERS = {"exclude": (False,), "include": (False, True), "only": (True,)}
"""Which sessions are listed, by whether they are archived."""


def page(cards: object, after: tuple[int, str] | None, archived: str = "exclude") -> shapes.SessionList:
    known = [card for card in cards if isinstance(card, SessionCard)] if isinstance(cards, tuple | list) else []
    known = [card for card in known if card.archived in FILTERS[archived]]
    rows = [card for card in sorted(known, key=_place) if after is None or _place(card) > after]
    more = len(rows) > _PAGE
    return shapes.SessionList(
        sessions=[_info(card) for card in rows[:_PAGE]], next_cursor=_cursor(rows[_PAGE - 1]) if more else None
    )


def _place(card: SessionCard) -> tuple[int, str]:
    """The newest first."""
    return -card.at, card.id


def _info(card: SessionCard) -> shapes.SessionInfo:
    at = datetime.fromtimestamp(card.at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    title = (card.name or card.first).strip().partition("\n")[0]
    return shapes.SessionInfo(
        session_id=card.id,
        cwd=card.cwd or "/",
        title=title or None,
        updated_at=at if card.at else None,
        archived=True if card.archived else None,
    )


def _cursor(card: SessionCard) -> str:
    return b2a_base64(json.dumps(_place(card)).encode(), newline=False).decode()


def read_cursor(cursor: str) -> tuple[int, str]:
    """Raises Refusal for what is no cursor of ours."""
    try:
        match json.loads(a2b_base64(cursor)):
            case [int(at), str(id)]:
                return at, id
    except ValueError:
        pass
    raise Refusal(INVALID_PARAMS, "The cursor is none that this agent has given out; begin without one")
