"""How hard a model thinks, in words."""

import pytest

from polylect.engine.commands.configure import configured
from polylect.engine.settings import Settings
from polylect.engine.turn import thinking
from polylect.vocab.ports import ModelInfo

PLAIN = ModelInfo("plain")
BUDGET = ModelInfo("budget", thinking=True)
EFFORT = ModelInfo("effort", effort_levels=("minimal", "low", "medium", "high"))
NONE = ModelInfo("none", effort_levels=("none", "low", "medium", "high", "xhigh"))
BOTH = ModelInfo("both", thinking=True, effort_levels=("low", "medium", "high", "max"))
HIGH = ModelInfo("high", effort_levels=("high",))


@pytest.mark.parametrize(
    ("info", "offered"),
    [
        (PLAIN, ""),
        (BUDGET, "off minimal low medium high xhigh"),
        (EFFORT, "off minimal low medium high"),
        (NONE, "off low medium high xhigh"),
        (BOTH, "off low medium high max"),
        (HIGH, "off high"),
    ],
)
def test_a_model_offers_off_and_what_it_knows_in_order(info: ModelInfo, offered: str) -> None:
    assert " ".join(thinking.levels(info)) == offered


@pytest.mark.parametrize(
    ("info", "level", "becomes", "budget", "effort"),
    [
        (PLAIN, "high", "", 0, ""),
        (PLAIN, "off", "", 0, ""),
        (BUDGET, "off", "off", 0, ""),
        (BUDGET, "minimal", "minimal", 1024, ""),
        (BUDGET, "low", "low", 4096, ""),
        (BUDGET, "medium", "medium", 10_000, ""),
        (BUDGET, "high", "high", 20_000, ""),
        (BUDGET, "xhigh", "xhigh", 32_000, ""),
        (BUDGET, "max", "xhigh", 32_000, ""),
        (EFFORT, "max", "high", 20_000, "high"),
        (EFFORT, "off", "off", 0, ""),
        (NONE, "off", "off", 0, "none"),
        (NONE, "minimal", "low", 4096, "low"),
        (BOTH, "xhigh", "high", 20_000, "high"),
        (BOTH, "max", "max", 32_000, "max"),
        (BOTH, "minimal", "low", 4096, "low"),
        (HIGH, "low", "high", 20_000, "high"),
    ],
)
def test_a_level_becomes_the_nearest_at_or_below_it_that_the_model_offers_else_the_lowest(
    info: ModelInfo, level: str, becomes: str, budget: int, effort: str
) -> None:
    settings = configured(Settings("/w", info.name), {"thinking": level}, info)
    assert thinking.current(settings, info) == becomes
    assert (settings.thinking, thinking.effort(settings, info)) == (budget, effort)


@pytest.mark.parametrize(
    ("info", "budget", "effort", "level"),
    [
        (BUDGET, 500, "", "minimal"),
        (BUDGET, 9_999, "", "low"),
        (BUDGET, 10_000, "high", "medium"),
        (BUDGET, 100_000, "", "xhigh"),
        (EFFORT, 0, "", "off"),
        (EFFORT, 0, "low", "low"),
        (NONE, 0, "none", "off"),
        (BOTH, 0, "high", "off"),
        (BOTH, 10_000, "", "medium"),
        (BOTH, 10_000, "high", "high"),
        (PLAIN, 10_000, "high", ""),
    ],
)
def test_what_was_set_otherwise_has_a_level_too(info: ModelInfo, budget: int, effort: str, level: str) -> None:
    assert thinking.current(Settings("/w", thinking=budget, effort=effort), info) == level


def test_a_level_that_another_model_does_not_offer_is_the_nearest_there_and_itself_again_afterwards() -> None:
    settings = configured(Settings("/w", "both"), {"thinking": "max"}, BOTH)
    for info, level, effort in ((EFFORT, "high", "high"), (BUDGET, "xhigh", ""), (PLAIN, "", ""), (BOTH, "max", "max")):
        settings = configured(settings, {"model": info.name}, info)
        assert (thinking.current(settings, info), thinking.effort(settings, info)) == (level, effort)
