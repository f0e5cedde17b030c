"""A prompt and all after it are taken out of the conversation; the log keeps them."""

from itertools import count
from pathlib import Path

from doubles import Log, Talk, run
from polylect.providers.scripted import Scripted
from polylect.sessions import folder
from polylect.sessions.session import Session
from polylect.sessions.store import FileStore
from polylect.vocab.answers import Rewound
from polylect.vocab.commands import Prompt, Rewind
from polylect.vocab.content import Failure
from polylect.vocab.events import Settled


def opened(tmp_path: Path) -> FileStore:
    root = str(tmp_path / "sessions")
    place = (folder.resume if (tmp_path / "sessions" / "s1").exists() else folder.create)(root, "s1", "/w")
    return FileStore(place, cwd="/w", new_id=map("e{}".format, count(100)).__next__)


def texts(session: Session) -> list[str]:
    return [str(getattr(message.content[0], "text", "")) for message in session.messages]


def test_the_model_hears_nothing_of_what_was_taken_back(tmp_path: Path) -> None:
    async def conversation(talk: Talk) -> None:
        for number, prompt in enumerate(("One", "Two", "Three"), 1):
            talk.send(Prompt(f"t{number}", prompt))
            await talk.until(Settled, number)
        assert await talk.answer(Rewind("t2", what="conversation", ref="r")) == Rewound(prompt="Two")
        assert texts(talk.engine.agent.session) == ["One", "a"]
        talk.send(Prompt("t4", "Four"))
        await talk.until(Settled, 4)

    talk = run(conversation, tmp_path, Scripted.in_order("a", "b", "c"), store=opened(tmp_path))
    assert texts(talk.engine.agent.session) == ["One", "a", "Four", "b"]
    store = opened(tmp_path)
    assert texts(Session(store)) == ["One", "a", "Four", "b"]
    store.close()


def test_a_prompt_that_is_not_there_or_not_kept_is_a_failure(tmp_path: Path) -> None:
    async def unknown(talk: Talk) -> None:
        failure = await talk.answer(Rewind("t9", what="conversation", ref="r"))
        assert isinstance(failure, Failure)
        assert failure.code == "target_not_found"

    async def not_kept(talk: Talk) -> None:
        failure = await talk.answer(Rewind("t9", what="conversation", ref="r"))
        assert isinstance(failure, Failure)
        assert failure.code == "unsupported"

    run(unknown, tmp_path, Scripted.in_order("a"), store=opened(tmp_path))
    run(not_kept, tmp_path, Scripted.in_order("a"), store=Log())
