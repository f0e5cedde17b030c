"""Settings beyond numbers and modes: other models, names, the next one in turn, and what a session is remembered by."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from doubles import Hang, Log, Played, Talk, run
from polylect.sessions.session import Session
from polylect.vocab.answers import Cycled, ModelCard
from polylect.vocab.commands import Cancel, Command, Configure, Prompt, Query
from polylect.vocab.content import ToolCall
from polylect.vocab.events import Event, Failed, Notice, Reply, SettingChanged, ToolStarted, TurnEnded
from polylect.vocab.ports import BlockDone, ModelInfo, Provider, ReplyDone

HELLO = Prompt("t1", "Hello")
SMALL = ModelCard("played", "small")
CLEVER = ModelCard("played", "clever", thinking=True)
OTHER = ModelCard("other", "clever", effort_levels=("low", "high"))
CARDS = (SMALL, CLEVER, OTHER)
END = [ReplyDone("end")]


class Served(Played):
    """A model service that notes when it is closed."""

    def __init__(self, name: str, *replies: Any, infos: Sequence[ModelInfo] = ()) -> None:
        super().__init__(*replies, infos=infos)
        self.name = name
        self.closed = False

    async def close(self) -> None:
        self.closed = True


class BlobStore:
    """The models that can be used, and the providers that can be opened."""

    def __init__(self, providers: Sequence[Served], cards: Sequence[ModelCard]) -> None:
        self._providers = {provider.name: provider for provider in providers}
        self._cards = cards

    def cards(self) -> Sequence[ModelCard]:
        return self._cards

    def open(self, provider: str) -> Provider:
        if provider not in self._providers:
            raise LookupError(f"No API key for {provider}")
        return self._providers[provider]


class Stage:
    """Two providers and an engine that knows of both."""

    def __init__(self, *replies: Any, cards: Sequence[ModelCard] = CARDS) -> None:
        thinks = [ModelInfo("clever", thinking=True)]
        self.first = Served("played", *replies, infos=thinks)
        self.second = Served("other", END, END, infos=[ModelInfo("clever", effort_levels=("low", "high"))])
        self.cards = cards

    def talk(self, *args: Any, **options: Any) -> Talk:
        talk = Talk(*args, **{"model": "small", **options})
        talk.engine.agent.models = BlobStore([self.first, self.second], self.cards)
        return talk

    def play(self, folder: Path, *commands: Command, **options: Any) -> Talk:
        async def conversation(talk: Talk) -> None:
            for command in commands:
                talk.send(command)
                await talk.engine.settled()

        return run(conversation, folder, self.first, made=self.talk, **options)


def changed(talk: Talk) -> list[tuple[str, Any]]:
    return [(event.key, event.value) for event in talk.of(SettingChanged) if event.key != "abilities"]


def answers(talk: Talk) -> dict[str, Any]:
    return {reply.ref: reply.failure.message if reply.failure else reply.data for reply in talk.of(Reply)}


# Models and their providers.


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"model": "other/clever"}, [("model", "clever"), ("provider", "other")]),
        ({"model": "clever", "provider": "other"}, [("model", "clever"), ("provider", "other")]),
    ],
)
def test_a_model_of_another_provider_is_opened_and_the_old_one_is_closed(
    settings: dict[str, Any], told: list[tuple[str, str]], tmp_path: Path
) -> None:
    stage = Stage(END)
    talk = stage.play(tmp_path, HELLO, Configure(settings, ref="r1"), Prompt("t2", "Again"))
    assert changed(talk) == told
    assert answers(talk) == {"r1": None}
    assert [len(stage.first.requests), len(stage.second.requests)] == [1, 1]
    assert stage.second.requests[0].model == "clever"
    assert stage.first.closed
    assert stage.second.closed


def test_a_provider_changes_after_the_running_turn(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(HELLO)
        await talk.until(ToolStarted)
        talk.send(Configure({"model": "other/clever"}), Configure({"thinking": "high"}, ref="r1"))
        talk.send(Query("state", ref="state"))
        assert not stage.first.closed
        talk.send(Cancel())
        await talk.engine.settled()
        talk.send(Prompt("t2", "Again"))

    stage = Stage([BlockDone(ToolCall("c1", "Hang", {})), ReplyDone("calls")])
    talk = run(conversation, tmp_path, stage.first, Hang(), made=stage.talk)
    assert [notice.text for notice in talk.of(Notice)] == [
        "model, provider: will be changed after the current response",
        "thinking: will be changed after the current response",
    ]
    assert changed(talk) == [("model", "clever"), ("provider", "other"), ("thinking", "high")]
    assert stage.second.requests[0].effort == "high"
    state = answers(talk)["state"]
    assert (state.provider, state.model, state.thinking, state.card) == ("other", "clever", "high", OTHER)


@pytest.mark.parametrize(
    ("settings", "message", "code"),
    [
        ({"model": "large", "provider": "other"}, "Model not found: other/large", "unknown_model"),
        ({"model": "large", "provider": "nobody"}, "Model not found: nobody/large", "unknown_model"),
        ({"model": "other/large"}, "Model not found: other/large", "unknown_model"),
        ({"model": "closed/one"}, "No API key for closed", "unknown_model"),
        ({"cycle": "colour"}, "there is no next 'colour'; there is a next model and a next thinking", "bad_setting"),
    ],
)
def test_L2_a_model_that_cannot_be_had_is_told_and_nothing_changes(
    settings: dict[str, Any], message: str, code: str, tmp_path: Path
) -> None:
    stage = Stage(END, cards=(*CARDS, ModelCard("closed", "one")))
    talk = stage.play(tmp_path, Configure(settings, ref="r1"), HELLO)
    [reply] = talk.of(Reply)
    assert reply.failure is not None
    assert (reply.failure.code, reply.failure.message) == (code, message)
    assert changed(talk) == []
    assert stage.first.requests[0].model == "small"


def test_a_model_that_nobody_lists_is_for_the_provider_in_use_to_know(tmp_path: Path) -> None:
    stage = Stage(END, END)
    names = ("vendor/model", "played/unheard")
    talk = stage.play(tmp_path, Configure({"model": names[0]}), HELLO, Configure({"model": names[1]}), Prompt("t2", ""))
    assert stage.first.requests[0].model == names[0]
    assert talk.engine.settings.model == names[1]


# The next one in turn.


def test_models_are_gone_through_in_order_and_round(tmp_path: Path) -> None:
    stage = Stage()
    talk = stage.play(tmp_path, *(Configure({"cycle": "model"}, ref=f"r{number}") for number in range(3)))
    assert list(answers(talk).values()) == [Cycled(CLEVER, "off"), Cycled(OTHER, "off"), Cycled(SMALL)]
    assert [value for key, value in changed(talk) if key == "model"] == ["clever", "clever", "small"]
    assert [value for key, value in changed(talk) if key == "provider"] == ["played", "other", "played"]


def test_of_one_model_there_is_no_next_one(tmp_path: Path) -> None:
    for cards in ((), (SMALL,)):
        talk = Stage(cards=cards).play(tmp_path, Configure({"cycle": "model"}, ref="r1"))
        assert answers(talk) == {"r1": None}
        assert changed(talk) == []


def test_levels_are_gone_through_from_off_upwards_and_round(tmp_path: Path) -> None:
    cycles = [Configure({"cycle": "thinking"}, ref=f"r{number}") for number in range(6)]
    talk = Stage().play(tmp_path, *cycles, model="clever")
    levels = ["minimal", "low", "medium", "high", "xhigh", "off"]
    assert list(answers(talk).values()) == [Cycled(thinking=level) for level in levels]
    assert changed(talk) == [("thinking", level) for level in levels]


def test_a_model_that_does_not_think_has_no_next_level_and_takes_any(tmp_path: Path) -> None:
    talk = Stage().play(tmp_path, Configure({"cycle": "thinking"}, ref="r1"), Configure({"thinking": "high"}, ref="r2"))
    assert answers(talk) == {"r1": None, "r2": None}
    assert (talk.engine.settings.thinking, changed(talk)) == (0, [("thinking", "")])


def test_a_level_is_told_as_what_it_has_become(tmp_path: Path) -> None:
    talk = Stage().play(tmp_path, Configure({"thinking": "max"}), model="clever")
    assert changed(talk) == [("thinking", "xhigh")]


# What a session is remembered by.


def test_a_name_is_trimmed_and_stored_at_once_and_an_empty_one_is_refused(tmp_path: Path) -> None:
    def host(event: Event) -> Command | None:
        return Configure({"name": "  Tidying up "}, ref="r1") if isinstance(event, ToolStarted) else None

    log = Log()
    stage = Stage([BlockDone(ToolCall("c1", "Hang", {})), ReplyDone("calls")])

    async def conversation(talk: Talk) -> None:
        talk.send(HELLO)
        await talk.until(SettingChanged)
        talk.send(Configure({"name": " "}, ref="r2"), Cancel())

    talk = run(conversation, tmp_path, stage.first, Hang(), made=stage.talk, host=host, store=log)
    assert changed(talk) == [("name", "Tidying up")]
    assert answers(talk) == {"r1": None, "r2": "Session name cannot be empty"}
    assert Session(log.read_back()).name == "Tidying up"


def test_what_was_chosen_is_in_the_log_for_whoever_resumes(tmp_path: Path) -> None:
    log = Log()
    Stage().play(tmp_path, Configure({"model": "other/clever"}), Configure({"thinking": "low"}), store=log)
    assert Session(log.read_back()).settings == {"model": "other/clever", "thinking": "low"}


def test_L2_a_name_that_cannot_be_stored_is_not_taken(tmp_path: Path) -> None:
    talk = Stage().play(tmp_path, Configure({"name": "x"}, ref="r1"), store=Log(full=lambda write: True))
    assert "No space left" in answers(talk)["r1"]
    assert changed(talk) == []


def test_L2_a_model_that_cannot_be_stored_once_its_time_has_come_is_told_and_the_turn_ends_well(tmp_path: Path) -> None:
    full: list[int] = []

    async def conversation(talk: Talk) -> None:
        talk.send(HELLO)
        await talk.until(ToolStarted)
        talk.send(Configure({"model": "clever"}, ref="r1"), Cancel())
        await talk.until(TurnEnded)

    log = Log(full=lambda write: bool(full))
    stage = Stage([BlockDone(ToolCall("c1", "Hang", {})), ReplyDone("calls")])

    def host(event: Event) -> Command | None:
        if isinstance(event, TurnEnded):
            full.append(1)
        return None

    talk = run(conversation, tmp_path, stage.first, Hang(), made=stage.talk, host=host, store=log)
    assert "No space left" in talk.of(Failed)[0].failure.message
    assert talk.engine.settings.model == "small"
