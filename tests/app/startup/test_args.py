"""The command line."""

import pytest

from polylect.app.startup.args import FLAGS, SHORT, UsageError, parse
from polylect.app.startup.nearest_word import nearest


def test_both_ways_of_giving_a_value_are_read() -> None:
    assert parse(["--model", "m", "--base-url=http://x/?a=b"]) == ({"model": "m", "base_url": "http://x/?a=b"}, [])


def test_values_have_the_type_of_their_flag() -> None:
    options, _ = parse(["--max-turns", "3", "--approval-timeout", "1.5", "--json-stream", "--system-prompt", ""])
    assert options == {"max_turns": 3, "approval_timeout": 1.5, "json_stream": True, "system_prompt": ""}


def test_a_value_may_look_like_a_flag() -> None:
    assert parse(["--system-prompt", "--be brief"])[0] == {"system_prompt": "--be brief"}


def test_a_flag_given_twice_counts_the_last_time_and_a_list_grows() -> None:
    assert parse(["--model", "a", "--model", "b"])[0] == {"model": "b"}
    assert parse(["--add-dir", "a", "--add-dir=b"])[0] == {"folders": ["a", "b"]}


def test_what_is_no_flag_is_left_over() -> None:
    assert parse(["hello", "--force", "-"]) == ({"force": True}, ["hello", "-"])


def test_the_short_forms_mean_their_long_ones() -> None:
    assert parse(["-p", "scripted", "-m=m", "-c"])[0] == {"provider": "scripted", "model": "m", "continue": True}
    assert set(SHORT.values()) <= set(FLAGS)


@pytest.mark.parametrize("word", ["--auto-approve", "--force", "--yolo", "--dangerously-skip-permissions"])
def test_every_word_for_force_is_known(word: str) -> None:
    assert parse([word])[0] == {"force": True}


def test_flags_of_other_engines_are_listed_to_be_noted() -> None:
    assert parse(["--toon", "--log-dir", "p"])[0] == {"ignored": ["--toon", "--log-dir"]}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--provder", "x"], "unknown flag --provder; did you mean --provider?"),
        (["--modle", "x"], "unknown flag --modle; did you mean --model?"),
        (["--qqqq"], "unknown flag --qqqq; see polylect --help"),
        (["-x"], "unknown flag -x"),
        (["--provider"], "--provider needs a value"),
        (["--force=1"], "--force takes no value"),
        (["--max-line", "-1"], "--max-line takes a whole number, not '-1'"),
        (["--max-line", "١"], "--max-line takes a whole number"),
        (["--stream-timeout", "nan"], "--stream-timeout takes a number of seconds, not 'nan'"),
        (["--stream-timeout", "inf"], "--stream-timeout takes a number of seconds, not 'inf'"),
        (["--stream-timeout", "-2"], "--stream-timeout takes a number of seconds, not '-2'"),
    ],
)
def test_mistakes_are_named_with_what_would_be_right(words: list[str], told: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(words)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("word", "known", "near"),
    [
        ("--modle", ("--mode", "--model"), "--model"),
        ("--onlin", ("--login", "--online"), "--online"),
        ("--mod", ("--mode", "--model"), "--mode"),
        ("sesions", ("sessions", "models"), "sessions"),
        ("xyz", ("run", "chat"), ""),
        ("x" * 10_000, ("run",), ""),
        ("anything", (), ""),
    ],
)
def test_the_nearest_word_is_the_one_that_was_meant(word: str, known: tuple[str, ...], near: str) -> None:
    assert nearest(word, known) == near


def test_every_flag_of_seed_004_is_known() -> None:
    seed = (
        "--json-stream --provider --model --max-tokens --max-turns --base-url --system-prompt --auto-approve "
        "--workspace --session-id --resume"
    )
    assert set(seed.split()) <= set(FLAGS)
