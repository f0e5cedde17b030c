"""Every frame that the engine's side writes is one that the schema describes."""

from typing import Any

import msgspec
import pytest

from conversations import CONVERSATIONS
from dialects.claude.engine_driver import EngineDriver
from dialects.everything import EVENTS as EVERYTHING
from polylect.dialects.claude.frames import control
from polylect.dialects.claude.frames.table import EVENTS
from polylect.dialects.schema import by_name, defined_in
from polylect.vocab.events import Event

REQUESTS = by_name(*defined_in(control, control.Request))
REQUIRED = {
    "assistant": ("message", "parent_tool_use_id", "session_id", "uuid"),
    "user": ("message", "parent_tool_use_id", "session_id", "uuid"),
    "result": ("subtype", "duration_ms", "duration_api_ms", "is_error", "num_turns", "session_id", "usage"),
    "stream_event": ("uuid", "session_id", "event", "parent_tool_use_id"),
    "system/task_started": ("task_id", "description", "uuid", "session_id"),
    "system/task_progress": ("task_id", "description", "usage", "uuid", "session_id"),
    "system/task_notification": ("task_id", "status", "output_file", "summary", "uuid", "session_id"),
}
"""What the Python SDK cannot do without (section 3.7)."""


@pytest.mark.parametrize("conversation", [*CONVERSATIONS.values(), EVERYTHING], ids=[*CONVERSATIONS, "everything"])
@pytest.mark.parametrize("version", ["2.1.325", "2.1.197"])
def test_what_is_written_has_its_shape(version: str, conversation: list[Event]) -> None:
    driver = EngineDriver(version=version, partial=True, forward_agents=True, session_state=True)
    driver.send(*conversation)
    for frame in driver.frames:
        kind = _kind(frame)
        msgspec.convert(frame, EVENTS[kind])
        assert [name for name in REQUIRED.get(kind, ()) if name not in frame] == []
        if kind == "control_request":
            msgspec.convert(frame["request"], REQUESTS[frame["request"]["subtype"]])


def _kind(frame: dict[str, Any]) -> str:
    return f"system/{frame['subtype']}" if frame["type"] == "system" else str(frame["type"])
