import subprocess
from base64 import urlsafe_b64decode
from pathlib import Path
from urllib.parse import parse_qs

import msgspec
import pytest

from polylect.providers.auth.rsa import read_key
from polylect.providers.settings import ProviderSettings
from polylect.providers.vertex import Vertex
from polylect.vocab.content import Message, Text
from polylect.vocab.errors import ProviderError
from polylect.vocab.ports import ModelRequest
from providers.loopback import Loopback, Request, reply, run
from providers.wires import WIRES, write_key_file

REQUEST = ModelRequest("claude-x", "", [Message("user", (Text("hello"),))])
GRANTED = reply(b'{"access_token":"ya29.token","expires_in":3599,"token_type":"Bearer"}', kind="application/json")


@pytest.fixture(scope="module")
def pem() -> str:
    made = subprocess.run(["openssl", "genpkey", "-algorithm", "RSA"], capture_output=True, check=True)
    return made.stdout.decode()


def requested(folder: Path, count: int = 1, **credentials: str) -> list[Request]:
    """What a server that is both Google's login and Vertex is asked for `count` replies."""

    async def main() -> list[Request]:
        async with Loopback([GRANTED, WIRES["vertex"].answer()]) as server:
            path = write_key_file(folder, token_uri=f"{server.url}/token", **credentials)
            env = {"GOOGLE_APPLICATION_CREDENTIALS": str(path), "VERTEX_REGION": "europe-west1"}
            provider = Vertex(ProviderSettings(base_url=server.url, env=env))
            for _ in range(count):
                async for _ in provider.stream(REQUEST):
                    pass
            await provider.close()
            return server.requests

    return run(main)


def test_a_service_account_trades_a_signed_claim_for_a_token_and_keeps_it(tmp_path: Path, pem: str) -> None:
    login, *questions = requested(
        tmp_path, 2, type="service_account", project_id="p1", client_email="me@p1", private_key=pem, private_key_id="k1"
    )
    assert login.line == "POST /token HTTP/1.1"
    form = parse_qs(login.body.decode())
    assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    text, _, signature = form["assertion"][0].rpartition(".")
    header, claims = (msgspec.json.decode(urlsafe_b64decode(part + "==")) for part in text.split("."))
    assert header == {"alg": "RS256", "typ": "JWT", "kid": "k1"}
    assert (claims["iss"], claims["exp"] - claims["iat"]) == ("me@p1", 3600)
    verify(pem, text.encode(), urlsafe_b64decode(signature + "=="), tmp_path)
    assert len(questions) == 2
    assert {question.headers["authorization"] for question in questions} == {"Bearer ya29.token"}
    place = "/v1/projects/p1/locations/europe-west1/publishers/anthropic/models/claude-x:streamRawPredict"
    assert questions[0].line == f"POST {place} HTTP/1.1"
    body = msgspec.json.decode(questions[0].body)
    assert body["anthropic_version"] == "vertex-2023-10-16"
    assert "model" not in body


def verify(pem: str, text: bytes, signature: bytes, folder: Path) -> None:
    (folder / "key").write_text(pem)
    (folder / "signature").write_bytes(signature)
    command = ["openssl", "dgst", "-sha256", "-prverify", folder / "key", "-signature", folder / "signature"]
    assert subprocess.run(command, input=text, capture_output=True, check=False).stdout == b"Verified OK\n"


def test_what_gcloud_left_is_refreshed(tmp_path: Path) -> None:
    secrets = {"client_id": "id", "client_secret": "cs", "refresh_token": "1//r+t"}
    login, question = requested(tmp_path, type="authorized_user", quota_project_id="p2", **secrets)
    form = {name: values[0] for name, values in parse_qs(login.body.decode()).items()}
    assert form == {"grant_type": "refresh_token", **secrets}
    assert "/projects/p2/" in question.line


def test_credentials_that_cannot_be_used_say_what_to_do(tmp_path: Path) -> None:
    for credentials in ({"type": "external_account"}, {"type": "service_account", "private_key": "nonsense"}):
        with pytest.raises(ProviderError, match="GOOGLE_APPLICATION_CREDENTIALS") as caught:
            requested(tmp_path, **credentials)
        assert caught.value.kind == "auth"


def test_keys_in_both_forms_are_read(pem: str) -> None:
    old = subprocess.run(
        ["openssl", "rsa", "-traditional"], input=pem.encode(), capture_output=True, check=True
    ).stdout.decode()
    assert read_key(old).modulus == read_key(pem).modulus
    for junk in ("", "x", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----", "MIIB"):
        with pytest.raises(ValueError, match="RSA"):
            read_key(junk)
