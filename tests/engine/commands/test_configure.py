"""Settings that change while the engine runs."""

from pathlib import Path
from typing import Any

import pytest

from doubles import Echo, Hang, Played, Talk, converse, run
from polylect.engine.commands.configure import DEFAULT_THINKING, BadSetting, configured
from polylect.engine.settings import Settings
from polylect.providers.scripted import Scripted
from polylect.vocab.commands import Cancel, Command, Configure, Prompt
from polylect.vocab.content import Abilities, Image, Rule, ToolCall, ToolResult
from polylect.vocab.events import Ask, Event, Reply, SettingChanged, ToolCalled, ToolStarted
from polylect.vocab.ports import BlockDone, ModelInfo, ModelRequest, ReplyDone, ToolContext, ToolReturn

HELLO = Prompt("t1", "Hello")
PLAIN = ModelInfo("plain")
CLEVER = ModelInfo("clever", thinking=True, effort_levels=("low", "high"))
SETTINGS = Settings("/w", "plain")


def test_settings_change_at_once_when_nothing_runs(tmp_path: Path) -> None:
    model = Played([ReplyDone("end")], infos=[CLEVER])
    change = Configure({"model": "clever", "effort": "high", "thinking": "enabled", "mode": "force"}, ref="r1")
    talk = converse(tmp_path, model, [change, HELLO])
    assert talk.story[0].startswith("setting_changed abilities")
    assert talk.story[1:6] == [
        "setting_changed model clever",
        "setting_changed effort high",
        "setting_changed thinking enabled",
        "setting_changed mode force",
        "reply r1",
    ]
    request = model.requests[0]
    assert (request.model, request.effort, request.thinking) == ("clever", "high", DEFAULT_THINKING)


def test_what_the_new_model_can_do_is_told_before_its_name_and_only_if_it_is_something_else(tmp_path: Path) -> None:
    infos = [PLAIN, CLEVER, ModelInfo("plain too"), ModelInfo("known", priced=True, images=True)]
    changes = [Configure({"model": model}) for model in ("clever", "plain", "plain too", "known", "known")]
    talk = converse(tmp_path, Played(infos=infos), changes, model="plain")
    result = [event.value if event.key == "model" else event.key for event in talk.of(SettingChanged)]
    assert result == ["abilities", "clever", "abilities", "plain", "plain too", "abilities", "known", "known"]
    able = [event.value for event in talk.of(SettingChanged) if event.key == "abilities"]
    assert able == [
        Abilities(thinking=True, effort_levels=("low", "high"), extras={"cost_attribution": False}),
        Abilities(extras={"cost_attribution": False}),
        Abilities(images=True, extras={"cost_attribution": True}),
    ]


PICTURE = Image("image/png", "iVBORw0KGgo=")


class Camera(Echo):
    name = "Camera"

    async def run(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        return ToolReturn("taken", images=(PICTURE,))


def test_a_model_that_cannot_see_is_sent_no_pictures(tmp_path: Path) -> None:
    call = BlockDone(ToolCall("c1", "Camera", {}))
    model = Played([call, ReplyDone("calls")], [ReplyDone("end")], [ReplyDone("end")], infos=[PLAIN, CLEVER])
    change, prompt = Configure({"image_input": "unsupported"}), Prompt("t1", "Look")
    again = [Configure({"model": "clever"}), Prompt("t2", "Look")]
    talk = converse(tmp_path, model, [change, prompt, *again], Camera(), model="plain", mode="force")
    assert [images(request) for request in model.requests] == [0, 0, 1]
    assert "cannot see pictures" in str(model.requests[1].messages)
    able = [event.value.images for event in talk.of(SettingChanged) if event.key == "abilities"]
    assert able == [False, None]


def images(request: ModelRequest) -> int:
    results = [block for message in request.messages for block in message.content if isinstance(block, ToolResult)]
    return sum(len(result.images) for result in results)


def test_a_model_changes_after_the_running_turn_and_before_the_next(tmp_path: Path) -> None:
    def host(event: Event) -> Command | None:
        return Configure({"model": "other", "mode": "force"}, ref="r1") if isinstance(event, ToolCalled) else None

    reply = [{"call": "Echo", "id": "c1"}, "{turn}"]
    talk = converse(tmp_path, Scripted.in_order(reply, "two"), [HELLO, Prompt("t2", "Again")], Echo(), host=host)
    assert talk.story[4:] == [
        "reply_ended calls",
        "notice model: will be changed after the current response",
        "setting_changed mode force",
        "reply r1",
        "tool_started c1 Echo",
        "tool_finished c1 Echo ",
        "step_ended",
        "step_started",
        "text_delta 1",
        "block_ended 1",
        "reply_ended end",
        "step_ended",
        "turn_ended t1 end 2",
        "setting_changed model other",
        "turn_started t2",
        "user_message Again",
        "step_started",
        "text_delta two",
        "block_ended two",
        "reply_ended end",
        "step_ended",
        "turn_ended t2 end 1",
        "settled",
    ]
    assert [message.model for message in talk.messages if message.role == "assistant"] == ["m", "m", "other"]


def test_A7_a_mode_changes_at_once_and_holds_for_the_next_call(tmp_path: Path) -> None:
    def host(event: Event) -> Command | None:
        return Configure({"mode": "force"}) if isinstance(event, ToolStarted) and event.call == "c1" else None

    steps = [{"call": "Echo", "id": "c1"}, {"call": "Run", "id": "c2"}, "ok"]
    talk = converse(tmp_path, Scripted.in_order(steps), [HELLO], Echo(), Echo("Run", "exec"), host=host)
    assert talk.of(Ask) == []
    assert "tool_started c2 Run" in talk.story


def test_a_change_is_judged_by_what_the_settings_will_be_when_its_time_comes(tmp_path: Path) -> None:
    """Each of them would be right by itself; together they must not stop the engine when the turn is over."""
    changes = [{"model": "plain"}, {"effort": "high"}, {"thinking": "enabled"}, {"model": "clever"}, {"effort": "low"}]

    async def conversation(talk: Talk) -> None:
        talk.send(HELLO)
        await tool.started.wait()
        talk.send(*(Configure(change, ref=str(number)) for number, change in enumerate(changes)))
        talk.send(Cancel())
        await talk.engine.settled()
        talk.send(Prompt("t2", "Again"))

    tool = Hang()
    model = Played(
        [BlockDone(ToolCall("c1", "Hang", {})), ReplyDone("calls")], [ReplyDone("end")], infos=[PLAIN, CLEVER]
    )
    talk = run(conversation, tmp_path, model, tool, model="clever")
    assert [reply.failure is None for reply in talk.of(Reply)] == [True, False, False, True, True]
    assert [line for line in talk.story if line.startswith("setting") and "abilities" not in line] == [
        "setting_changed model plain",
        "setting_changed model clever",
        "setting_changed effort low",
    ]
    assert (model.requests[1].model, model.requests[1].effort) == ("clever", "low")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"colour": "red"}, "there is no setting 'colour'; settings are model, mode, thinking"),
        ({"mode": "wild"}, "mode 'wild' does not exist; modes are default, auto_edit, force, plan, dont_ask"),
        ({"mode": ["force"]}, "mode ['force'] does not exist"),
        ({"effort": "high"}, "effort 'high' is not offered; levels are none for this model"),
        ({"thinking": "enabled"}, "the model plain does not offer thinking"),
        ({"thinking": 500}, "the model plain does not offer thinking"),
        ({"thinking": "much"}, "thinking 'much' is neither 'enabled', 'disabled', a number nor one of off"),
        ({"max_turns": "many"}, "Expected `int`, got `str`"),
        ({"model": " "}, "the model has to be named, and the name is empty"),
        ({"model": 5}, "Expected `str`, got `int`"),
        ({"mode": "force", "max_tokens": 1.5}, "Expected `int`, got `float`"),
    ],
)
def test_L2_a_wrong_setting_is_answered_and_nothing_changes(changes: dict[str, Any], told: str, tmp_path: Path) -> None:
    talk = converse(tmp_path, Played(infos=[PLAIN]), [Configure(changes, ref="r1")], model="plain")
    assert len(talk.events) == 1
    failure = talk.of(Reply)[0].failure
    assert failure is not None
    assert failure.code == "bad_setting"
    assert failure.message.startswith(told)


@pytest.mark.parametrize(
    ("before", "changes", "after"),
    [
        (0, {"thinking": "enabled"}, DEFAULT_THINKING),
        (0, {"thinking": True}, DEFAULT_THINKING),
        (0, {"thinking": "enabled", "thinking_budget": 500}, 500),
        (700, {"thinking": "enabled"}, 700),
        (700, {"thinking": 500}, 500),
        (700, {"thinking_budget": 500}, 500),
        (0, {"thinking_budget": 500}, 0),
        (700, {"thinking": "disabled"}, 0),
        (700, {"thinking": 0}, 0),
        (700, {"thinking": None, "model": "clever"}, 700),
    ],
)
def test_thinking_is_a_budget_that_can_be_named_in_several_ways(
    before: int, changes: dict[str, Any], after: int
) -> None:
    assert configured(Settings("/w", "clever", thinking=before), changes, CLEVER).thinking == after


def test_settings_that_are_not_named_stay() -> None:
    changed = configured(Settings("/w", "clever", "force", folders=("/a",)), {"effort": "low"}, CLEVER)
    assert changed == Settings("/w", "clever", "force", effort="low", folders=("/a",))
    with pytest.raises(BadSetting):
        configured(SETTINGS, {"workspace": "/elsewhere"}, PLAIN)


def test_rules_of_the_host_hold_at_once_until_it_sets_others(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        book = talk.engine.agent.rules
        talk.send(Configure({"rules": {"allow": ["Echo"], "deny": ["Edit(src/**)"]}}))
        assert list(book) == [Rule("tool", "Echo"), Rule("path", f"{tmp_path}/src/**", effect="deny", tool="Edit")]
        talk.send(Configure({"mode": "plan"}))
        assert len(list(book)) == 2
        talk.send(Configure({"rules": {"deny": ["Echo"]}}))
        assert list(book) == [Rule("tool", "Echo", effect="deny")]

    run(conversation, tmp_path, Scripted.in_order("x"), Echo())


@pytest.mark.parametrize("rules", [5, {"allow": "Bash"}, {"perhaps": ["Bash"]}, {"allow": ["Bash("]}, {"deny": [5]}])
def test_rules_that_make_no_sense_are_refused_and_nothing_else_is_taken_either(tmp_path: Path, rules: Any) -> None:
    talk = converse(tmp_path, Scripted.in_order("x"), [Configure({"rules": rules, "mode": "force"}, ref="r1")], Echo())
    [reply] = talk.of(Reply)
    assert reply.failure is not None
    assert reply.failure.code == "bad_setting"
    assert talk.of(SettingChanged) == []
    assert list(talk.engine.agent.rules) == []
