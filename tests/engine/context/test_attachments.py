"""Files that come with a prompt (T7)."""

import base64
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from doubles import Played, converse
from polylect.engine.context.attachments import MOST_IMAGE, MOST_TEXT
from polylect.vocab.commands import Prompt, Steer
from polylect.vocab.content import Attachment, Document, File, Image, Link, Message, Text
from polylect.vocab.events import Reply, UserMessage
from polylect.vocab.ports import ReplyDone

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
WIDE = PNG[:16] + (60_000).to_bytes(4) * 2 + PNG[24:]
JPEG = bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffc0000b080001000101011100ffd9")
GIF = bytes.fromhex("47494638396101000100800000ffffff00000021f90401000000002c00000000010001000002024401003b")
WEBP = b"RIFF" + (16).to_bytes(4, "little") + b"WEBPVP8L" + bytes(8)


def coded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_T7_text_goes_as_text_images_as_images_and_the_rest_is_named(tmp_path: Path) -> None:
    for name, data in {"a.txt": b"words", "b.bin": b"a\0b", "c.png": PNG, "d": WEBP, "e.txt": b"\xff\xfe"}.items():
        (tmp_path / name).write_bytes(data)
    link, picture = Link("https://example.org/x", "page"), Image("image/gif", coded(GIF))
    files: list[Attachment] = [*map(File, ("a.txt", "b.bin", "c.png", "d", "e.txt")), link, picture]
    talk = converse(tmp_path, Played([ReplyDone("end")]), [Prompt("t1", "Look", tuple(files))])
    assert talk.messages == [
        Message(
            "user",
            (
                Text("Look"),
                Document(f"{tmp_path}/a.txt", "text/plain", "words"),
                Text(f"[Attached file: {tmp_path}/b.bin, 3 bytes, not text]"),
                Image("image/png", coded(PNG)),
                Image("image/webp", coded(WEBP)),
                Text(f"[Attached file: {tmp_path}/e.txt, 2 bytes, not UTF-8 text]"),
                Text("[Attached: page (https://example.org/x)]"),
                picture,
            ),
        )
    ]
    assert "words" not in talk.of(UserMessage)[0].text


def test_T7_a_picture_is_what_its_bytes_say_whatever_its_name(tmp_path: Path) -> None:
    kinds = {"a.jpg": (PNG, "png"), "b.png": (JPEG, "jpeg"), "c.txt": (GIF, "gif"), "d.gif": (WEBP, "webp")}
    for name, (data, _) in kinds.items():
        (tmp_path / name).write_bytes(data)
    talk = converse(tmp_path, Played([ReplyDone("end")]), [Prompt("t1", "Look", tuple(map(File, kinds)))])
    pictures = [block for block in talk.messages[0].content if isinstance(block, Image)]
    assert [picture.media_type for picture in pictures] == [f"image/{kind}" for _, kind in kinds.values()]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("missing.txt", "cannot be read: No such file or directory"),
        ("a\0b", "embedded null"),
        ("\ud800.txt", "cannot be read"),
        ("folder", "cannot be read: Is a directory"),
        ("", "cannot be read: Is a directory"),
        ("pipe", "is not a regular file"),
        ("/dev/zero", "is not a regular file"),
        ("/proc/self/mem", "cannot be read"),
        ("large.txt", f"has {MOST_TEXT + 1} bytes; at most {MOST_TEXT} can be attached"),
        ("large.png", f"is larger than {MOST_IMAGE} bytes"),
        ("fake.png", "is not an image of a kind that can be used"),
        ("half.png", "is not a whole png image: it seems to be cut off"),
        ("half.jpg", "is not a whole jpeg image: it seems to be cut off"),
        ("half.gif", "is not a whole gif image: it seems to be cut off"),
        ("half.webp", "is not a whole webp image: it seems to be cut off"),
        ("frameless.jpg", "is not a whole jpeg image: it has no frame"),
        ("wide.png", "has 60000 x 60000 pixels; at most 8000 on either side can be used"),
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
    for ending, data in {"png": PNG, "jpg": JPEG, "gif": GIF, "webp": WEBP}.items():
        (tmp_path / f"half.{ending}").write_bytes(data[:20])
    (tmp_path / "frameless.jpg").write_bytes(JPEG[:2] + b"\xff" + JPEG[-2:])
    (tmp_path / "wide.png").write_bytes(WIDE)
    talk = converse(tmp_path, Played(), [Prompt("t1", "Look", (File(name),), ref="r1")])
    failure = talk.of(Reply)[0].failure
    assert failure is not None
    assert failure.code == "bad_attachment"
    assert name in failure.message
    assert why in failure.message
    assert (len(talk.events), talk.messages, talk.store.entries) == (1, [], [])


def test_T7_a_picture_that_is_sent_along_is_what_its_bytes_say_too(tmp_path: Path) -> None:
    lines = base64.encodebytes(PNG * 2).decode()
    supplied = Image("image/jpeg", coded(PNG)), Image("image/svg+xml", coded(JPEG)), Image("image/png", lines)
    talk = converse(tmp_path, Played([ReplyDone("end")]), [Prompt("t1", "", supplied)])
    assert talk.messages[0].content == (
        Image("image/png", coded(PNG)),
        Image("image/jpeg", coded(JPEG)),
        Image("image/png", coded(PNG * 2)),
    )


@pytest.mark.parametrize(
    ("picture", "why"),
    [
        (Image("image/png", "not base64!"), "is not valid base64"),
        (Image("image/png", coded(PNG)[:-1]), "is not valid base64"),
        (Image("image/png", "\ud800"), "is not valid base64"),
        (Image("image/png"), "is empty"),
        (Image("image/png", coded(b"hello")), "is not of a kind that can be used"),
        (Image("image/svg+xml", coded(b"<svg/>")), "is not of a kind that can be used"),
        (Image("image/png", blob="sha256:" + "0" * 64), "is empty"),
        (Image("text/plain", coded(PNG)), "has the media type 'text/plain'"),
        (Image("", coded(PNG)), "has the media type ''"),
        (Image("image/png", coded(PNG[:20])), "is not a whole png image: it seems to be cut off"),
        (Image("image/png", coded(WIDE)), "has 60000 x 60000 pixels"),
        (Image("image/png", coded(PNG + bytes(MOST_IMAGE))), f"is larger than {MOST_IMAGE} bytes"),
    ],
)
@pytest.mark.parametrize("command", [Prompt("t1", "Look", ref="r1"), Steer("Look", idle="keep", ref="r1")])
def test_T7_a_picture_that_cannot_be_used_is_refused_before_anything_is_stored(
    picture: Image, why: str, command: Prompt | Steer, tmp_path: Path
) -> None:
    talk = converse(tmp_path, Played(), [replace(command, attachments=(picture,))])
    failure = talk.of(Reply)[0].failure
    assert failure is not None
    assert (failure.code, why in failure.message) == ("bad_attachment", True)
    assert (len(talk.events), talk.messages, talk.store.entries) == (1, [], [])


def test_T7_a_large_file_that_is_not_text_is_named_too(tmp_path: Path) -> None:
    (tmp_path / "big.bin").write_bytes(bytes(MOST_TEXT + 1))
    talk = converse(tmp_path, Played([ReplyDone("end")]), [Prompt("t1", "", (File("big.bin"),))])
    assert talk.messages[0].content == (Text(f"[Attached file: {tmp_path}/big.bin, {MOST_TEXT + 1} bytes, not text]"),)


@pytest.mark.parametrize(
    ("count", "why"), [(33, "have more than 33554432 bytes in all"), (1001, "1001 files are attached")]
)
def test_T7_files_that_are_too_many_or_too_large_together_are_refused(count: int, why: str, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_bytes(b"a" * MOST_TEXT)
    talk = converse(tmp_path, Played(), [Prompt("t1", "Look", (File("one.txt"),) * count, ref="r1")])
    failure = talk.of(Reply)[0].failure
    assert failure is not None
    assert (failure.code, why in failure.message, talk.store.entries) == ("bad_attachment", True, [])
