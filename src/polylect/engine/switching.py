"""Going on in another session, and going back to what files were."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polylect.vocab.commands import OpenSession, Rewind
from polylect.vocab.content import Failure

if TYPE_CHECKING:
    from polylect.engine.engine import Engine


def open_session(engine: Engine, command: OpenSession) -> Failure | None:
    return Failure("unsupported", "this engine cannot do OpenSession yet", "host")


def rewind(engine: Engine, command: Rewind) -> Failure | None:
    return Failure("unsupported", "this engine cannot do Rewind yet", "host")
