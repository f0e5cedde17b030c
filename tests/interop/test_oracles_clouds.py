"""AWS's and Google's own libraries check our signatures, our frames and our claims."""

import json
from base64 import b64encode
from binascii import crc32
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import pytest
from botocore import eventstream as aws_eventstream
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as AwsCredentials
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth import jwt
from google.oauth2 import service_account
from hypothesis import given, settings
from hypothesis import strategies as st

from e2e.vendors import anthropic
from polylect.apis.bedrock_stream import Frames
from polylect.providers.auth.google_token import TOKEN_URL, Credentials, assertion
from polylect.providers.auth.sigv4 import Keys, signed
from polylect.vocab.content import Text, ToolCall
from polylect.wire import eventstream
from polylect.wire.http1 import quoted
from providers.wires import binary
from wire import aws_messages

_thorough = settings(max_examples=300, deadline=None, derandomize=True, database=None)

# Signatures.

_models = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40).filter(
    lambda name: name not in (".", "..")  # botocore takes them for steps in a path
)
_keys = st.builds(
    Keys,
    st.sampled_from(["AKIDEXAMPLE", "ASIA1"]),
    st.text(st.characters(codec="ascii", categories=["L", "N", "S", "P"]), min_size=1, max_size=40),
    st.sampled_from(["", "TOK/EN+==", "IQoJb3JpZ2luX2VjEA" * 40]),
)
_places = st.sampled_from(
    [
        "https://bedrock-runtime.us-east-1.amazonaws.com",
        "http://127.0.0.1:8080",
        "http://localhost:8080/behind/a%20proxy",
        "https://vpce-1.bedrock-runtime.eu-west-1.vpce.amazonaws.com:443",
    ]
)


def as_botocore_signs(keys: Keys, region: str, url: str, headers: dict[str, str], body: bytes) -> dict[str, str]:
    request = AWSRequest("POST", url, {**headers, "x-amz-content-sha256": sha256(body).hexdigest()}, body)
    SigV4Auth(AwsCredentials(keys.access, keys.secret, keys.token or None), "bedrock", region).add_auth(request)
    return {name.lower(): value for name, value in request.headers.items()}


@_thorough
@given(keys=_keys, place=_places, model=_models, region=st.sampled_from(["us-east-1", "ap-south-1"]), body=st.binary())
def test_requests_are_signed_as_botocore_signs_them(
    keys: Keys, place: str, model: str, region: str, body: bytes
) -> None:
    url = f"{place}/model/{quoted(model)}/invoke-with-response-stream"
    headers = {"content-type": "application/json", "accept": "application/vnd.amazon.eventstream"}
    theirs = as_botocore_signs(keys, region, url, headers, body)
    now = theirs["x-amz-date"]
    assert signed(keys, region=region, service="bedrock", url=url, headers=headers, body=body, now=now) == theirs


# Frames.

_headers = st.dictionaries(
    st.text(min_size=1, max_size=60), st.text(max_size=300).filter(lambda text: len(text.encode()) < 32767), max_size=6
)


def as_botocore_reads(data: bytes) -> list[Any]:
    buffer = aws_eventstream.EventStreamBuffer()
    buffer.add_data(data)
    return list(buffer)


@_thorough
@given(messages=st.lists(st.tuples(_headers, st.binary(max_size=2000)), max_size=5))
def test_botocore_reads_our_frames(messages: list[tuple[dict[str, str], bytes]]) -> None:
    data = b"".join(aws_messages.encode(headers, payload) for headers, payload in messages)
    assert [(event.headers, event.payload) for event in as_botocore_reads(data)] == messages


def test_we_read_headers_of_every_kind_as_botocore_does() -> None:
    fields = {
        b"\x00": (b"", True),
        b"\x01": (b"", False),
        b"\x02": (b"\xff", -1),
        b"\x03": (b"\x00\x07", 7),
        b"\x04": (b"\x00\x00\x00\x07", 7),
        b"\x05": (b"\x00" * 7 + b"\x07", 7),
        b"\x06": (b"\x00\x03abc", b"abc"),
        b"\x07": (b"\x00\x05h\xc3\xa9yo", "héyo"),
        b"\x08": (b"\x00\x00\x01\x9b\x00\x00\x00\x00", None),
        b"\x09": (bytes(range(16)), None),
    }
    raw = b"".join(b"\x02h" + str(n).encode() + kind + value for n, (kind, (value, _)) in enumerate(fields.items()))
    data = framed(raw, b"payload")
    [theirs] = as_botocore_reads(data)
    [ours] = eventstream.Parser().feed(data)
    assert ours.payload == theirs.payload == b"payload"
    assert ours.headers == {name: value for name, value in theirs.headers.items() if isinstance(value, str)}
    assert len(theirs.headers) == len(fields)


def framed(headers: bytes, payload: bytes) -> bytes:
    """A message with headers as they are given, with checksums that botocore confirms."""
    sizes = (len(headers) + len(payload) + 16).to_bytes(4, "big") + len(headers).to_bytes(4, "big")
    body = sizes + crc32(sizes).to_bytes(4, "big") + headers + payload
    return body + crc32(body).to_bytes(4, "big")


@_thorough
@given(at=st.integers(0, 1000), flipped=st.integers(1, 255))
def test_a_damaged_frame_is_noticed_as_botocore_notices_it(at: int, flipped: int) -> None:
    message = bytearray(aws_messages.encode({":message-type": "event"}, b'{"bytes":"e30="}'))
    message[at % len(message)] ^= flipped
    with pytest.raises(aws_eventstream.ParserError):
        as_botocore_reads(bytes(message))
    with pytest.raises(ValueError, match="AWS event stream"):
        eventstream.Parser().feed(bytes(message))


def test_botocore_hands_out_the_events_that_our_server_sends() -> None:
    """The binary wire of the tests' own server, read as Bedrock's client reads it, then by us."""
    payloads = [json.dumps(payload) for payload in anthropic([Text("héllo"), ToolCall("t1", "Read", {})], 2, 10)]
    body = b"".join(binary(payload) for payload in payloads)
    events = as_botocore_reads(body)
    assert {event.headers[":event-type"] for event in events} == {"chunk"}
    assert [json.loads(event.payload)["bytes"] for event in events] == [
        b64encode(p.encode()).decode() for p in payloads
    ]
    assert [data.decode() for data in Frames().feed(body)] == payloads


# Claims.


def pem_of(key: rsa.RSAPrivateKey, form: serialization.PrivateFormat) -> str:
    return str(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()), "ascii")


@pytest.mark.parametrize("bits", [2048, 3072, 4096])
@pytest.mark.parametrize("form", ["PKCS8", "TraditionalOpenSSL"])
def test_google_accepts_our_claim_and_would_have_made_the_same(bits: int, form: str) -> None:
    key = rsa.generate_private_key(65537, bits)
    pem = pem_of(key, getattr(serialization.PrivateFormat, form))
    account = {"client_email": "me@project.iam", "private_key": pem, "private_key_id": "k1", "token_uri": TOKEN_URL}
    now = int(datetime.now(UTC).timestamp())
    ours = assertion(Credentials(type="service_account", **account), now)
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    claims = jwt.decode(ours, certs=public, audience=TOKEN_URL)
    scopes = ["https://www.googleapis.com/auth/cloud-platform"]
    theirs = service_account.Credentials.from_service_account_info(account, scopes=scopes)
    expected = jwt.decode(theirs._make_authorization_grant_assertion(), certs=public)
    for one in (claims, expected):
        assert one.pop("exp") - one.pop("iat") == 3600
    assert claims == expected
    assert jwt.decode_header(ours) == {"alg": "RS256", "typ": "JWT", "kid": "k1"}
