"""Writes what the host itself has to do: show a dialog, show a text, run a tool or read a URI.

Keeps the asks and host calls that wait for a response, by the id that went over the wire. An ask is stored before its
frame is written, so that no answer can come too early. Called by `encode` and `codec`.
"""

from typing import Any

from msgspec import UNSET

from polylect.dialects.base import Env
from polylect.dialects.omp.engine import dialogs
from polylect.dialects.omp.engine.line_writer import LineWriter
from polylect.dialects.omp.frames import events as shapes
from polylect.vocab.events import Ask, AskClosed, Display, HostCall, HostCallEnded, Notice

_DISPLAY_METHODS = ("notify", "setStatus", "setWidget", "setTitle", "set_editor_text", "open_url")


class HostUI:
    """Dialogs, displays and host calls of one connection."""

    def __init__(self, line_writer: LineWriter, env: Env, version: str) -> None:
        self.asks: dict[str, Ask] = {}
        """Dialogs that wait for their answer, by the id that went over the wire."""
        self.host_calls: dict[str, str] = {}
        """What the host was asked to do and has not answered: by its id, how it was asked."""
        self.shows_questions = False
        """Whether the host knows the dialog `ask`."""
        self._line_writer = line_writer
        self._env = env
        self._version = version

    # Questions.

    def ask(self, event: Ask) -> bool:
        """Write the dialog of an ask. Returns False if the wire has none for it."""
        id = event.ask if event.ask not in self.asks else self._env.new_id()
        frame = dialogs.dialog(event, id, questions=self.shows_questions)
        if frame:
            self.asks[id] = event  # before it is written (A3)
            self._line_writer.write(frame)
        return frame is not None

    def ask_closed(self, event: AskClosed) -> None:
        """Tell the host to close a dialog that nobody has answered."""
        for id in [id for id, ask in self.asks.items() if ask.ask == event.ask]:
            del self.asks[id]
            self._line_writer.write(shapes.ExtensionUIRequest(self._env.new_id(), "cancel", target_id=id))

    # Work.

    def host_call(self, event: HostCall) -> bool:
        """Write the request of a host call. Returns False if the wire has none for it."""
        params: dict[str, Any] = event.params if isinstance(event.params, dict) else {}
        match event.method:
            case "tool":
                call, name, args = params.get("call", ""), params.get("name", ""), params.get("args", {})
                self._line_writer.write(shapes.HostToolCall(event.call, str(call), str(name), args))
            case "uri":
                operation, url = str(params.get("operation", "read")), str(params.get("url", ""))
                self._line_writer.write(shapes.HostUriRequest(event.call, operation, url, params.get("content", UNSET)))
            case _:
                return False
        self.host_calls[event.call] = event.method
        return True

    def host_call_ended(self, event: HostCallEnded) -> None:
        match self.host_calls.pop(event.call, ""):
            case "tool":
                self._line_writer.write(shapes.HostToolCancel(self._env.new_id(), event.call))
            case "uri":
                self._line_writer.write(shapes.HostUriCancel(self._env.new_id(), event.call))
            case _:
                self._line_writer.lost["HostCallEnded"] += 1

    # Things to show.

    def display(self, event: Display) -> None:
        params = event.params
        if event.method == "command_output":
            self._line_writer.write(shapes.CommandOutput(str(params.get("text", ""))))
        elif event.method in _DISPLAY_METHODS:
            message = {"message": params.get("text", "")} if event.method == "notify" else {}
            ui_fields = {"id": self._env.new_id(), "method": event.method}
            self._line_writer.write_fields("extension_ui_request", {**message, **params, **ui_fields})
        else:
            self._line_writer.lost["Display"] += 1

    def notice(self, event: Notice) -> None:
        if self._version == "18":
            self._line_writer.write(shapes.Notice(event.level, event.text))
        else:
            id = self._env.new_id()
            self._line_writer.write(
                shapes.ExtensionUIRequest(id, "notify", message=event.text, notify_type=event.level)
            )
