"""Files that come with a prompt (T7)."""

import base64
import os
from pathlib import Path

import pytest

from doubles import Played, converse
from polylect.engine.attach import MOST_IMAGE, MOST_TEXT
from polylect.vocab.commands import Prompt
from polylect.vocab.content import Attachment, Document, File, Image, Link, Message, Text
from polylect.vocab.events import Reply, UserMessage
from polylect.vocab.ports import ReplyDone

PNG = b"\x89PNG\r\n\x1a\nrest"
WEBP = b"RIFF\0\0\0\0WEBPrest"


def test_T7_text_goes_as_text_images_as_images_and_the_rest_is_named(tmp_path: Path) -> None:
    for name, data in {"a.txt": b"words", "b.bin": b"a\0b", "c.png": PNG, "d": WEBP, "e.txt": b"\xff\xfe"}.items():
        (tmp_path / name).write_bytes(data)
    link, picture = Link("https://example.org/x", "page"), Image("image/png", "AAAA")
    files: list[Attachment] = [*map(File, ("a.txt", "b.bin", "c.png", "d", "e.txt")), link, picture]
    talk = converse(tmp_path, Played([ReplyDone("end")]), [Prompt("t1", "Look", tuple(files))])
    assert talk.messages == [
        Message(
            "user",
            (
                Text("Look"),
                Document(f"{tmp_path}/a.txt", "text/plain", "words"),
                Text(f"[Attached file: {tmp_path}/b.bin, 3 bytes, not text]"),
                Image("image/png", base64.b64encode(PNG).decode()),
                Image("image/webp", base64.b64encode(WEBP).decode()),
                Text(f"[Attached file: {tmp_path}/e.txt, 2 bytes, not UTF-8 text]"),
                Text("[Attached: page (https://example.org/x)]"),
                picture,
            ),
        )
    ]
    assert "words" not in talk.of(UserMessage)[0].text


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("missing.txt", "cannot be read: No such file or directory"),
        ("a\0b", "cannot be read: embedded null byte"),
        ("\ud800.txt", "cannot be read"),
        ("folder", "cannot be read: Is a directory"),
        ("", "cannot be read: Is a directory"),
        ("pipe", "is not a regular file"),
        ("/dev/zero", "is not a regular file"),
        ("/proc/self/mem", "cannot be read"),
        ("large.txt", f"has {MOST_TEXT + 1} bytes; at most {MOST_TEXT} can be attached"),
        ("large.png", f"is larger than {MOST_IMAGE} bytes"),
        ("fake.png", "is not a valid png image"),
        ("other.gif", "is not a valid gif image"),
    ],
)
def test_T7_a_file_that_cannot_be_taken_is_refused_by_name_before_anything_is_stored(
    name: str, why: str, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large.txt").write_bytes(b"a" * (MOST_TEXT + 1))
    (tmp_path / "large.png").write_bytes(PNG + bytes(MOST_IMAGE))
    (tmp_path / "fake.png").write_bytes(b"hello")
    (tmp_path / "other.gif").write_bytes(PNG)
    talk = converse(tmp_path, Played(), [Prompt("t1", "Look", (File(name),), ref="r1")])
    failure = talk.of(Reply)[0].failure
    assert failure is not None
    assert failure.code == "bad_attachment"
    assert name in failure.message
    assert why in failure.message
    assert (len(talk.events), talk.messages, talk.store.entries) == (1, [], ())


def test_T7_a_large_file_that_is_not_text_is_named_too(tmp_path: Path) -> None:
    (tmp_path / "big.bin").write_bytes(bytes(MOST_TEXT + 1))
    talk = converse(tmp_path, Played([ReplyDone("end")]), [Prompt("t1", "", (File("big.bin"),))])
    assert talk.messages[0].content == (Text(f"[Attached file: {tmp_path}/big.bin, {MOST_TEXT + 1} bytes, not text]"),)
