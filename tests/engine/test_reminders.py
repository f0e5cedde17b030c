"""A model that ends its turn before its own list is reminded of it: only where that is wanted, and not for ever."""

from pathlib import Path
from typing import Any

from doubles import Act, Talk, converse
from polylect.providers.scripted import Scripted
from polylect.vocab.commands import Prompt
from polylect.vocab.content import PlanItem
from polylect.vocab.events import PlanChanged, TurnEnded, TurnStarted, UserMessage
from polylect.vocab.ports import ToolContext, ToolReturn


class Todos(Act):
    async def work(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        context.plan([PlanItem("wash", "completed"), PlanItem("dry", args["status"])])
        return ToolReturn("")


def talk_of(folder: Path, *replies: dict[str, Any], **settings: Any) -> Talk:
    model = Scripted.from_values({"reply": replies})
    return converse(folder, model, [Prompt("t1", "go")], Todos(), allow_list=("Todos",), **settings)


PENDING = {"when": {"prompt": "go", "step": 1}, "say": [{"call": "Todos", "args": {"status": "pending"}}]}
DONE = {"when": {"prompt": "dry", "step": 1}, "say": [{"call": "Todos", "args": {"status": "completed"}}]}
END = {"say": ["well"]}


def test_a_model_is_reminded_until_its_list_is_done(tmp_path: Path) -> None:
    talk = talk_of(tmp_path, PENDING, DONE, END, todo_reminder=True)
    assert [started.cause for started in talk.of(TurnStarted)] == ["prompt", "engine"]
    [_, reminder] = talk.of(UserMessage)
    assert (reminder.origin, reminder.text.endswith("matter:\n- dry")) == ("engine", True)
    assert [changed.items[1].status for changed in talk.of(PlanChanged)] == ["pending", "pending", "completed"]


def test_it_is_not_reminded_more_than_three_times(tmp_path: Path) -> None:
    talk = talk_of(tmp_path, PENDING, END, todo_reminder=True)
    assert [started.cause for started in talk.of(TurnStarted)] == ["prompt", "engine", "engine", "engine"]


def test_nobody_is_reminded_unless_it_is_switched_on(tmp_path: Path) -> None:
    assert len(talk_of(tmp_path, PENDING, END).of(TurnStarted)) == 1


def test_a_turn_that_ended_by_a_limit_is_left_alone(tmp_path: Path) -> None:
    talk = talk_of(tmp_path, PENDING, END, todo_reminder=True, max_turns=1)
    assert [ended.reason for ended in talk.of(TurnEnded)] == ["limit"]
