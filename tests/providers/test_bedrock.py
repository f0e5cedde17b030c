from pathlib import Path
from typing import Any

import pytest

from polylect.providers.auth.sigv4 import Keys, signed
from polylect.providers.bedrock import Bedrock
from polylect.providers.settings import ProviderSettings
from polylect.vocab.content import Message, Text
from polylect.vocab.errors import ProviderError
from polylect.vocab.ports import ModelRequest
from polylect.wire.http1 import quoted
from providers.loopback import Loopback, reply, run
from providers.wires import WIRES, binary
from wire import aws_messages

REQUEST = ModelRequest("a.model", "", [Message("user", (Text("hello"),))])


@pytest.mark.parametrize(
    ("token", "names", "signature"),
    [
        ("", "accept;content-type;host;x-amz-content-sha256;x-amz-date",
         "cc2315b5ba62b03211f3e6216e5d8b177ea2437437ed8abba2bf3f58ff7ef1bf"),
        ("TOK/EN+==", "accept;content-type;host;x-amz-content-sha256;x-amz-date;x-amz-security-token",
         "317f1593387946b490bd2b24be280f60cc2b79ab78fac38ce25e632b26d5d47e"),
    ],
)  # fmt: skip
def test_signatures_are_those_that_botocore_makes(token: str, names: str, signature: str) -> None:
    model = quoted("us.anthropic.claude-sonnet-4-20250514-v1:0")
    headers = signed(
        Keys("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", token),
        region="us-east-1",
        service="bedrock",
        url=f"https://bedrock-runtime.us-east-1.amazonaws.com/model/{model}/invoke-with-response-stream",
        headers={"content-type": "application/json", "accept": "application/vnd.amazon.eventstream"},
        body=b'{"a":1}',
        now="20260131T235959Z",
    )
    assert headers["authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260131/us-east-1/bedrock/aws4_request, "
        f"SignedHeaders={names}, Signature={signature}"
    )


def credential(settings: dict[str, Any], home: Path) -> tuple[str, str]:
    """The credential and the region that a request is signed with."""

    async def main() -> tuple[str, str]:
        env = {"HOME": str(home), **settings.pop("env", {})}
        async with Loopback([WIRES["bedrock"].answer()]) as server:
            provider = Bedrock(ProviderSettings(base_url=server.url, env=env, **settings))
            async for _ in provider.stream(REQUEST):
                pass
            await provider.close()
            text = server.requests[0].headers["authorization"]
            access, _, region, *_ = text.partition("Credential=")[2].split("/")
            return access, region

    return run(main)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/credentials").write_text(
        "[default]\naws_access_key_id = DEFAULT\naws_secret_access_key=x\n\n"
        "[work]\naws_access_key_id=WORK\naws_secret_access_key=y\naws_session_token=z\n"
    )
    (tmp_path / ".aws/config").write_text(
        "# mine\n[default]\nregion = eu-north-1\n[profile work]\ns3 =\n  region = no\nregion=ap-south-1\n"
    )
    return tmp_path


def test_keys_come_from_the_profile_or_the_environment(home: Path) -> None:
    keys = {"AWS_ACCESS_KEY_ID": "ENV", "AWS_SECRET_ACCESS_KEY": "x"}
    assert credential({}, home) == ("DEFAULT", "eu-north-1")
    assert credential({"profile": "work"}, home) == ("WORK", "ap-south-1")
    assert credential({"env": {"AWS_PROFILE": "work"}}, home) == ("WORK", "ap-south-1")
    assert credential({"env": keys}, home) == ("ENV", "eu-north-1")
    assert credential({"env": {**keys, "AWS_REGION": "us-west-2"}}, home) == ("ENV", "us-west-2")
    assert credential({"env": keys, "profile": "work", "region": "sa-east-1"}, home) == ("WORK", "sa-east-1")


def test_no_keys_is_an_error_that_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match="AWS_ACCESS_KEY_ID") as caught:
        credential({"profile": "nobody"}, tmp_path)
    assert caught.value.kind == "auth"


def test_an_exception_in_the_stream_is_a_fault() -> None:
    async def main() -> ProviderError:
        headers = {":message-type": "exception", ":exception-type": "throttlingException"}
        thrown = aws_messages.encode(headers, b'{"message":"Too many requests"}')
        answer = reply(binary(WIRES["bedrock"].payloads[0]), thrown, kind="application/vnd.amazon.eventstream")
        async with Loopback([answer]) as server:
            provider = WIRES["bedrock"].open(server.url)
            with pytest.raises(ProviderError) as caught:
                async for _ in provider.stream(REQUEST):
                    pass
            await provider.close()
            return caught.value

    error = run(main)
    assert (error.kind, error.retryable) == ("rate_limit", True)
    assert "Too many requests" in str(error)
