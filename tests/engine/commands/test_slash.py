"""Slash commands: answered without a model, put in other words, or left as they are."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from doubles import Log, Played, Talk, converse, run
from polylect.engine.commands.prompt_files import PromptFile, parse
from polylect.providers.scripted import Scripted
from polylect.sessions.store import MemoryStore
from polylect.vocab.answers import CommandCard
from polylect.vocab.commands import Hello, Prompt, Query
from polylect.vocab.content import Block, Text
from polylect.vocab.errors import PolylectError
from polylect.vocab.events import (
    CompactionEnded,
    Notice,
    Reply,
    SettingChanged,
    TextDelta,
    TurnEnded,
    UserMessage,
)

BUILTIN = ["help", "compact", "clear", "cost", "context", "model", "mode", "status"]


@pytest.fixture(autouse=True)
def nobody_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def notice_text(folder: Path, text: str, **options: Any) -> str:
    """What a command answers; no model is there to be asked."""
    talk = converse(folder, Played(), [Prompt("t1", text)], **options)
    assert [(event.reason, event.steps) for event in talk.of(TurnEnded)] == [("end", 0)]
    assert talk.of(UserMessage) == []
    assert talk.messages == []
    return "\n".join(event.text for event in talk.of(Notice))


def user_messages(folder: Path, *prompts: Prompt, **options: Any) -> list[str]:
    """What the model is given."""
    talk = converse(folder, Scripted.in_order(*("ok" for _ in prompts)), prompts, store=MemoryStore(""), **options)
    return [event.text for event in talk.of(UserMessage)]


# The engine's own.


def test_help_lists_every_command(tmp_path: Path) -> None:
    write(tmp_path / ".claude/commands/review.md", "---\ndescription: Looks\nargument-hint: <file>\n---\nReview it.")
    lines = notice_text(tmp_path, "/help").splitlines()
    assert [line.split()[0] for line in lines] == [f"/{name}" for name in (*sorted(BUILTIN), "review")]
    assert lines[-1] == "/review <file>  Looks"


def test_cost_context_model_mode_and_status_are_told(tmp_path: Path) -> None:
    assert notice_text(tmp_path, "/cost") == "Nothing so far."
    assert re.fullmatch(
        r"[1-9]\d+ tokens", notice_text(tmp_path, "/context")
    )  # instructions and tools, before any reply
    assert (notice_text(tmp_path, "/model"), notice_text(tmp_path, "/model", model="")) == ("m", "No model is set.")
    assert notice_text(tmp_path, " /mode ", mode="plan") == "plan"
    assert notice_text(tmp_path, "/compact") == "There is nothing to compact: the conversation is short."
    assert f"workspace: {tmp_path}\nmodel: m (played)\nmode: default\n" in notice_text(tmp_path, "/status")


def test_the_cost_names_every_kind_of_token(tmp_path: Path) -> None:
    usage = {"input": 10, "output": 2, "cache_read": 3, "cache_write": 4}
    model = Scripted.from_values({"reply": [{"say": ["a"], "usage": usage}]})
    talk = converse(tmp_path, model, [Prompt("t1", "Hi"), Prompt("t2", "/cost")])
    assert talk.of(Notice)[-1].text.endswith(": 10 tokens in, 2 out, 3 read from cache, 4 written to it")


def test_the_mode_and_the_model_can_be_changed(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        words = ("/mode yolo", "/model other", "/mode odd", "/model \u00a0")
        talk.send(*(Prompt(f"t{number}", text) for number, text in enumerate(words, 1)))
        await talk.engine.settled()
        assert (talk.engine.settings.mode, talk.engine.settings.model) == ("force", "other")

    talk = run(conversation, tmp_path, Played())
    assert [(event.turn, event.text.partition(";")[0]) for event in talk.of(Notice)] == [
        ("t1", "The mode is force."),
        ("t2", "The model is other from the next prompt on."),
        ("t3", "mode 'odd' does not exist"),
        ("t4", "other"),
    ]
    assert {event.key for event in talk.of(SettingChanged)} >= {"mode", "model"}


def test_a_conversation_is_compacted_with_the_words_that_were_given(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(Prompt("t1", "one"), Prompt("t2", "two"), Prompt("t3", "/compact keep names"))
        await talk.engine.settled()

    talk = run(conversation, tmp_path, Scripted.in_order("a" * 400, "b" * 400, "sum"))
    assert [event.ok for event in talk.of(CompactionEnded)] == [True]
    assert talk.of(Notice)[-1].text == "The beginning of the conversation has become a summary."
    assert [(event.turn, event.reason, event.steps) for event in talk.of(TurnEnded)][-1] == ("t3", "end", 0)


def test_clear_begins_a_new_conversation(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.send(Hello("host"), Prompt("t1", "one"), Prompt("t2", "/clear"))
        await talk.until(TurnEnded, 2)
        await talk.engine.settled()
        assert [event.key for event in talk.of(SettingChanged)][-1] == "session"
        assert talk.engine.agent.session.messages == []

    run(conversation, tmp_path, Scripted.in_order("a", "b"), store=_Forgotten())


class _Forgotten(Log):
    """Its conversation is no longer the engine's when the test looks."""

    def check(self, messages: Sequence[Any]) -> None:
        pass


# What stands for a prompt.


def test_a_file_is_the_prompt_with_the_words_in_it(tmp_path: Path) -> None:
    write(tmp_path / ".polylect/commands/review.md", "---\ndescription: x\n---\nReview $ARGUMENTS. Only $ARGUMENTS!\n")
    write(tmp_path / ".claude/commands/plain.md", "Do it.\n")
    prompts = [Prompt("t1", "/review a.py b.py"), Prompt("t2", "/plain"), Prompt("t3", "/plain now")]
    assert user_messages(tmp_path, *prompts) == [
        "Review a.py b.py. Only a.py b.py!",
        "Do it.",
        "Do it.\n\nArguments: now",
    ]


def test_a_projects_file_that_leads_out_of_it_is_no_command_nor_is_one_without_a_word(tmp_path: Path) -> None:
    write(tmp_path / "home/secret.md", "Secret.")
    write(tmp_path / "project/.polylect/commands/empty.md", "---\ndescription: nothing\n---\n")
    (tmp_path / "project/.polylect/commands/leak.md").symlink_to(tmp_path / "home/secret.md")
    os.mkfifo(tmp_path / "project/.polylect/commands/pipe.md")
    (tmp_path / "home/.polylect").mkdir()
    (tmp_path / "home/.polylect/commands").symlink_to(tmp_path / "home")  # the person's own links are theirs
    prompts = [Prompt(name, name) for name in ("/leak", "/empty", "/pipe", "/secret")]
    assert user_messages(tmp_path / "project", *prompts) == [
        "/leak",
        "/empty",
        "/pipe",
        "Secret.",
    ]


def test_a_trusted_projects_file_is_stronger_than_the_persons_and_a_builtin_than_both(tmp_path: Path) -> None:
    write(tmp_path / "home/.claude/commands/same.md", "Person's.")
    write(tmp_path / "home/.claude/commands/mine.md", "Mine.")
    write(tmp_path / ".claude/commands/same.md", "Project's.")
    write(tmp_path / ".claude/commands/mode.md", "Never.")
    prompts = Prompt("t1", "/same"), Prompt("t2", "/mine")
    assert user_messages(tmp_path, *prompts) == ["Person's.", "Mine."]
    assert user_messages(tmp_path, *prompts, trust_workspace=True) == ["Project's.", "Mine."]
    assert notice_text(tmp_path, "/mode") == "default"


def test_what_is_verbatim_and_what_is_unknown_goes_to_the_model(tmp_path: Path) -> None:
    prompts = [Prompt("t1", "/help", verbatim=True), Prompt("t2", "/nothing at all"), Prompt("t3", "/etc/hosts is odd")]
    assert user_messages(tmp_path, *prompts) == ["/help", "/nothing at all", "/etc/hosts is odd"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Do it.\n", PromptFile("x", "Do it.")),
        ("---\ndescription: What\n---\nDo it.", PromptFile("x", "Do it.", "What")),
        ("---\nno end", PromptFile("x", "---\nno end")),
    ],
)
def test_front_matter_is_read_where_there_is_some(text: str, found: PromptFile) -> None:
    assert parse("x", text) == found


class Prompts:
    """Stands for servers with one prompt that works and one that does not."""

    def commands(self) -> list[CommandCard]:
        return [CommandCard("mcp__s__greet", "Greets", "<who>"), CommandCard("mcp__s__broken")]

    async def wait_for_prompts(self, command: str) -> None:
        pass

    async def expand(self, command: str, words: Sequence[str]) -> tuple[Block, ...]:
        if command == "mcp__s__broken":
            raise PolylectError("the server is gone")
        return (Text(f"Greet {' '.join(words)}."), Text("Kindly."))

    def status(self) -> list[Any]:
        return []

    def starting(self) -> dict[str, float]:
        return {}

    async def close(self) -> None:
        pass


def test_a_servers_prompt_is_asked_for(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        talk.engine.context.servers.current = Prompts()  # type: ignore[assignment]
        talk.send(Prompt("t1", "/mcp__s__greet Ada L."), Prompt("t2", "/mcp__s__broken"))
        await talk.engine.settled()

    talk = run(conversation, tmp_path, Scripted.in_order("hi"), store=MemoryStore(""))
    assert [event.text for event in talk.of(UserMessage)] == ["Greet Ada L..\n\nKindly."]
    assert talk.of(Notice)[-1].text == "/mcp__s__broken: the server is gone"


# What the host knows of them.


def test_commands_are_told_to_a_host_that_says_hello_and_can_be_asked_for(tmp_path: Path) -> None:
    write(tmp_path / ".claude/commands/review.md", "---\ndescription: Looks\n---\nReview.")
    talk = converse(tmp_path, Played(), [Hello(), Query("commands", ref="q")])
    [cards] = [event.value for event in talk.of(SettingChanged) if event.key == "commands"]
    assert [card.name for card in cards if card.builtin] == BUILTIN
    assert cards[-1] == CommandCard("review", "Looks")
    assert talk.of(Reply)[-1].data == tuple(cards)


@pytest.mark.parametrize("greeting", [[], [Hello("host")]], ids=["the same session", "another session"])
def test_what_waits_behind_clear_is_answered_without_what_came_before_t2(tmp_path: Path, greeting: list[Hello]) -> None:
    """A host that was never told of sessions keeps the one it knows."""
    model = Scripted.in_order("the first of a conversation", "the second")
    commands = [*greeting, Prompt("t1", "one"), Prompt("t2", "/clear"), Prompt("t3", "two")]
    talk = converse(tmp_path, model, commands)
    ended = {event.turn: event.reason for event in talk.events if isinstance(event, TurnEnded)}
    assert ended == {"t1": "end", "t2": "end", "t3": "end"}
    texts = [event.text for event in talk.events if isinstance(event, TextDelta) and event.turn == "t3"]
    assert "".join(texts) == "the first of a conversation"
    sessions = [event.value for event in talk.events if isinstance(event, SettingChanged) and event.key == "session"]
    assert len(sessions) == len(greeting)
