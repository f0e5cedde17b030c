"""Prompts of the host, from the `user` frame to the end of the turn.

It reads `user` frames as `Prompt` commands and writes what becomes of each: `command_lifecycle` frames (queued,
started, completed, cancelled; 2.1.325 and later) and the replayed `user` frame (`--replay-user-messages`). The uuid of
a frame names the turn. A uuid that comes again is acknowledged and not run again. The codec reads through it,
`EventWriter` reports starts and ends, `control_requests` withdraws prompts.
"""

from typing import Any

from msgspec import Struct

from polylect.dialects.claude.engine.line_writer import LineWriter
from polylect.dialects.claude.frames import notices
from polylect.dialects.claude.frames import turn as shapes
from polylect.vocab.commands import Prompt
from polylect.vocab.content import Attachment, Document, File, Image, Link


class _SentPrompt(Struct):
    content: Any
    uuid: str = ""
    replayed: bool = False


class Prompts:
    def __init__(self, out: LineWriter, *, replay: bool) -> None:
        self._out = out
        self._replay = replay
        self._sent: dict[str, _SentPrompt] = {}
        """By turn, until that has ended."""
        self._refs: dict[str, str] = {}
        self._prompt_uuids: set[str] = set()
        self.waiting: dict[str, str] = {}
        """Turns that were accepted and have not begun, with the uuids of their prompts."""
        self.held: list[Prompt] = []
        """Prompts that came before `initialize` was answered: they may need what it offers."""
        self.queued: tuple[str, ...] = ()
        """Turns in the queue of the engine, as `QueueChanged` reports them."""
        self._withdrawn: set[str] = set()

    # Frames of the host.

    def read(self, frame: dict[str, Any]) -> list[Prompt]:
        """The prompt in a `user` frame; none if its uuid has come before. Raises ValueError if it is no prompt."""
        message = frame.get("message")
        if not isinstance(message, dict) or message.get("role") != "user":
            raise ValueError('message: expected an object with the role "user"')
        text, attachments = _read(message.get("content"))
        attachments += [File(path) for path in _files(frame.get("file_attachments"))]
        uuid = frame.get("uuid") or ""
        if not isinstance(uuid, str):
            raise ValueError("uuid: expected a string")
        if uuid in self._prompt_uuids:
            self._write_repeated(uuid, message["content"])
            return []
        self._prompt_uuids |= {uuid} - {""}
        turn, ref = uuid or self._out.new_id(), self._out.new_id()
        self._sent[turn] = _SentPrompt(message["content"], uuid)
        self._refs[ref] = turn
        return [
            Prompt(
                turn,
                text,
                tuple(attachments),
                busy="interrupt" if frame.get("priority") == "now" else "queue",
                query=frame.get("shouldQuery") is not False,
                verbatim=frame.get("client_composed") is True,
                ref=ref,
            )
        ]

    def replied(self, ref: str) -> str | None:
        """The turn of the prompt with this ref; None if the ref is of another command."""
        return self._refs.pop(ref, None)

    def accepted(self, turn: str, *, busy: bool) -> None:
        uuid = self._sent[turn].uuid if turn in self._sent else ""
        if busy or self.waiting:
            self._write_lifecycle(uuid, "queued")
        self.waiting[turn] = uuid

    # Events of the engine.

    def uuids(self, turn: str) -> list[str]:
        """The uuid of the turn's prompt, if it has one. A turn that no host began has its own id as uuid."""
        sent = self._sent.get(turn)
        return [sent.uuid] if sent and sent.uuid else [] if sent else [turn]

    def started(self, turn: str, *, unasked: bool) -> list[str]:
        self.waiting.pop(turn, None)
        if turn not in self._sent:
            self._sent[turn] = _SentPrompt(None, "" if unasked else turn, replayed=True)
        self._write_lifecycle(self._sent[turn].uuid, "started")
        return self.uuids(turn)

    def replay(self, turn: str) -> None:
        """Write the prompt back to the host, once, if it wants replays."""
        sent = self._sent.get(turn)
        if sent and not sent.replayed and self._replay:
            sent.replayed = True
            self._write_replay(sent.uuid or turn, sent.content)  # the name by which files can be set back to it

    def ended(self, turn: str, how: str = "completed") -> None:
        self.waiting.pop(turn, None)
        sent = self._sent.pop(turn, None)
        self._write_lifecycle(sent.uuid if sent else "", how)

    # Taken back by the host.

    def forget(self, uuid: str) -> None:
        """A prompt was taken out of the conversation, so its uuid may come again."""
        self._prompt_uuids.discard(uuid)

    @property
    def queue(self) -> list[str]:
        """The uuids of prompts that wait: for another turn, or for the answer to `initialize`."""
        turns = (*(prompt.turn for prompt in self.held), *self.queued)
        return [sent.uuid for turn in turns if (sent := self._sent.get(turn)) and sent.uuid]

    def withdraw(self, uuid: str = "") -> list[str]:
        """Withdraw one waiting prompt, or all, and return their uuids. The engine ends those in its queue."""
        withdrawn = [one for one in self.queue if uuid in ("", one)]
        unsent = [prompt for prompt in self.held if not uuid or prompt.turn == uuid]
        self.held = [prompt for prompt in self.held if prompt not in unsent]
        self._withdrawn |= {turn for turn in self.queued if uuid in ("", turn)}
        for prompt in unsent:
            self._refs.pop(prompt.ref, None)
            self.ended(prompt.turn, "cancelled")
        return withdrawn

    def cancelled(self, turn: str) -> bool:
        """Whether the host has withdrawn the prompt of this turn. Then a lifecycle frame is its end, and no result is
        written; a prompt without a uuid has no such frame.
        """
        withdrawn = turn in self._withdrawn and self._out.newer and bool(self.uuids(turn))
        self._withdrawn.discard(turn)
        if withdrawn:
            self.ended(turn, "cancelled")
        return withdrawn

    def _write_repeated(self, uuid: str, content: Any) -> None:
        if self._replay:
            self._write_replay(uuid, content)
        self._write_lifecycle(uuid, "completed")

    def _write_replay(self, uuid: str, content: Any) -> None:
        """Write a prompt back with its content as it was sent."""
        self._out.write(
            shapes.User(
                message=shapes.Words(content),
                parent_tool_use_id=None,
                timestamp=self._out.timestamp(),
                isReplay=True,
                session_id=self._out.session,
                uuid=uuid,
            )
        )

    def _write_lifecycle(self, uuid: str, state: str) -> None:
        if uuid and self._out.newer:
            session, own = self._out.session, self._out.new_id()
            self._out.write(notices.CommandLifecycle(command_uuid=uuid, state=state, session_id=session, uuid=own))


# Content.


def _read(content: Any) -> tuple[str, list[Attachment]]:
    if isinstance(content, str):
        return content, []
    if not isinstance(content, list):
        raise ValueError("message.content: expected a string or a list of blocks")
    texts: list[str] = []
    attachments: list[Attachment] = []
    for number, block in enumerate(content):
        try:
            match block:
                case {"type": "text", "text": str(text)}:
                    texts.append(text)
                case {"type": "image", "source": dict(source)}:
                    attachments.append(_image(source))
                case {"type": "document", "source": dict(source)}:
                    attachments.append(_document(source, block.get("title")))
                case {"type": "tool_result", "content": inner}:
                    texts.append(_read(inner)[0])
                case _:
                    raise ValueError("expected a block of type text, image, document or tool_result")
        except (KeyError, TypeError) as error:
            raise ValueError(f"message.content[{number}]: {error} is missing or wrong") from None
        except ValueError as error:
            raise ValueError(f"message.content[{number}]: {error}") from None
    return "\n".join(texts), attachments


def _image(source: dict[str, Any]) -> Attachment:
    if source.get("type") == "url":
        return Link(str(source["url"]), media_type="image")
    return Image(str(source["media_type"]), str(source["data"]))


def _document(source: dict[str, Any], title: Any) -> Attachment:
    name = str(title or "document")
    match source.get("type"):
        case "url":
            return Link(str(source["url"]), name)
        case "text":
            return Document(name, str(source.get("media_type") or "text/plain"), text=str(source["data"]))
        case _:
            return Document(name, str(source["media_type"]), data=str(source["data"]))


def _files(attachments: Any) -> list[str]:
    """Paths in `file_attachments`, a field that only the host end of polylect sends."""
    rows = attachments if isinstance(attachments, list) else []
    paths = [row.get("path") if isinstance(row, dict) else row for row in rows]
    return [path for path in paths if isinstance(path, str)]
