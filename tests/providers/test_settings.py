"""What is known before anything is asked: settings, addresses, models, prices."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from polylect.providers.anthropic import messages_url
from polylect.providers.anthropic.provider import Anthropic
from polylect.providers.check import check
from polylect.providers.error_kinds import Service
from polylect.providers.models import Catalogue
from polylect.providers.openai import base_url
from polylect.providers.settings import ProviderSettings
from polylect.vocab.content import Usage
from polylect.vocab.errors import ProviderError, StartError
from polylect.vocab.ports import ReplyDone


@pytest.mark.parametrize(
    "base", ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/", "http://h:1/v1/messages"]
)
def test_an_anthropic_address_works_with_and_without_v1(base: str) -> None:
    assert messages_url(base) == "http://h:1/v1/messages"


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("http://h:1", "http://h:1/v1"),
        ("http://h:1/v1/", "http://h:1/v1"),
        ("http://h:1/v1/chat/completions", "http://h:1/v1"),
        ("https://openrouter.ai/api", "https://openrouter.ai/api/v1"),
        ("https://g.example/v1beta/openai/", "https://g.example/v1beta/openai"),
        ("https://z.example/api/paas/v4", "https://z.example/api/paas/v4"),
    ],
)
def test_an_openai_address_works_with_and_without_v1(base: str, expected: str) -> None:
    assert base_url(base) == expected


def test_headers_for_a_gateway_are_sent_and_lines_that_are_none_left_out() -> None:
    lines = "X-Team: blue\nno header\nX-Bad Name: x\nX-Tab: a\tb\nX-Trace : 7 "
    provider = Anthropic(ProviderSettings("key", env={"ANTHROPIC_CUSTOM_HEADERS": lines}))
    plain = Anthropic(ProviderSettings("key"))
    assert {name: provider._headers[name] for name in provider._headers if name not in plain._headers} == {
        "x-team": "blue",
        "x-trace": "7",
    }


def test_settings_do_not_show_their_key() -> None:
    assert "secret" not in repr(ProviderSettings(api_key="secret", env={"ANTHROPIC_API_KEY": "secret"}))


def cost(model: str, usage: Usage, own: dict[str, object] | None = None) -> float | None:
    return Catalogue(own).with_cost(model, ReplyDone("end", usage)).usage.cost


def test_t6_a_price_is_known_or_it_is_not() -> None:
    usage = Usage(1_000_000, 100_000, 1_000_000, 1_000_000)
    assert cost("claude-sonnet-4-20250514", usage) == pytest.approx(3 + 1.5 + 0.3 + 3.75)
    assert cost("claude-sonnet-4-99", usage) is None
    assert cost("gpt-4o-2024-08-06", Usage(1_000_000)) == 2.5
    assert cost("gpt-4o-audio-preview", Usage(1_000_000)) is None
    assert cost("llama", Usage(1)) is None


def test_t6_a_bucket_without_a_price_makes_the_cost_unknown() -> None:
    own: dict[str, object] = {"mine": {"price": [1, 2, None, None]}}
    assert cost("mine", Usage(1_000_000, 1_000_000), own) == 3
    assert cost("mine", Usage(1_000_000, 1_000_000, 5), own) is None


def test_a_users_own_rows_come_first_and_wrong_ones_are_named() -> None:
    own = {"claude-sonnet-4": {"window": 7, "thinking": True, "effort_levels": ["low"]}}
    assert Catalogue(own).info("claude-sonnet-4").window == 7
    with pytest.raises(StartError, match=r"\[models\]"):
        Catalogue({"x": {"windw": 7}})


def test_abilities_follow_the_longest_name_wherever_the_model_is_served() -> None:
    for name in (
        "claude-opus-4-7",
        "us.anthropic.claude-opus-4-7-v1:0",
        "claude-opus-4-7@20260401",
        "anthropic/claude-opus-4-7",
    ):
        assert "xhigh" in Catalogue().info(name).effort_levels
    for name in ("claude-sonnet-4-20250514", "anthropic.claude-sonnet-4-20250514-v1:0"):
        info = Catalogue().info(name)
        assert (info.thinking, info.effort_levels, info.max_output) == (True, (), 64_000)
    assert Catalogue().info("llama").images is None


@pytest.mark.parametrize(
    ("provider", "options", "reason"),
    [
        ("anthropic", {}, "ANTHROPIC_API_KEY is not set"),
        ("anthropic", {"api_key": "k"}, None),
        ("anthropic", {"env": {"ANTHROPIC_API_KEY": "k"}}, None),
        ("anthropic", {"env": {"ANTHROPIC_AUTH_TOKEN": "k"}}, None),
        ("anthropic", {"env": {"ANTHROPIC_API_KEY": "k\n"}}, "set ANTHROPIC_API_KEY again"),
        ("anthropic", {"base_url": "http://localhost:1"}, None),
        ("openai", {}, "--provider scripted"),
        ("openai", {"base_url": "localhost:1"}, "--base-url"),
        ("openai", {"env": {"OPENAI_BASE_URL": "nonsense"}}, "--base-url"),
        ("bedrock", {}, "AWS_ACCESS_KEY_ID"),
        ("bedrock", {"base_url": "http://localhost:1"}, "AWS_ACCESS_KEY_ID"),
        ("bedrock", {"env": {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}}, None),
        ("vertex", {}, "GOOGLE_APPLICATION_CREDENTIALS"),
        ("vertex", {"env": {"GOOGLE_APPLICATION_CREDENTIALS": "/nowhere"}}, "/nowhere"),
        ("vertex", {"env": {"VERTEX_ACCESS_TOKEN": "t"}}, "set VERTEX_PROJECT_ID"),
        ("vertex", {"env": {"VERTEX_ACCESS_TOKEN": "t"}, "project": "p"}, None),
        ("vertex", {"env": {"VERTEX_ACCESS_TOKEN": "t", "GOOGLE_CLOUD_PROJECT": "p"}}, None),
        ("scripted", {}, None),
        ("of_somebody_else", {}, None),
    ],
)
def test_a_provider_is_checked_before_it_is_opened(
    provider: str, options: dict[str, object], reason: str | None, tmp_path: Path
) -> None:
    env = {"HOME": str(tmp_path), **options.pop("env", {})}  # type: ignore[dict-item]
    actual = check(provider, env=env, **options)  # type: ignore[arg-type]
    assert (actual is None) if reason is None else (actual is not None and reason in actual and "\n" not in actual)


@pytest.mark.parametrize(
    ("credentials", "reason"),
    [("{}", "no Google project: set VERTEX_PROJECT_ID"), ('{"project_id": "p"}', None), ("no JSON", None)],
)
def test_a_project_may_be_named_by_the_file_of_credentials(
    credentials: str, reason: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "credentials.json"
    path.write_text(credentials)
    assert check("vertex", env={"GOOGLE_APPLICATION_CREDENTIALS": str(path)}) == reason


def test_the_check_imports_nothing_heavy() -> None:
    """It runs before `ready`."""
    script = "import sys, polylect.providers.check as c; print(*sys.modules)"
    source = str(Path(sys.modules["polylect"].__file__ or "").parents[1])
    env = {**os.environ, "PYTHONPATH": source}
    loaded = subprocess.run([sys.executable, "-S", "-c", script], env=env, capture_output=True, text=True, check=True)
    assert not {"typing", "re", "msgspec", "asyncio", "collections", "json"} & set(loaded.stdout.split())


@pytest.mark.parametrize(("key", "text"), [("k", "check mock"), ("ollama", "ollama"), ("sk-ant-1234", "[secret]")])
def test_what_a_server_repeats_of_a_key_is_taken_out_but_a_short_key_is_part_of_other_words(
    key: str, text: str
) -> None:
    said = text.replace("[secret]", key)
    assert str(Service("s", "X", (key, "")).without_secrets(ProviderError("server", said))) == text
