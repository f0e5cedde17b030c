"""The real omp 13 and polylect, side by side: the same conversation in the same shape, and sessions for each other."""

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path

import pytest

from e2e.service import VENDORS, Service
from engine_process import Place, eventually
from interop.omp_clients import MODEL, Json, package
from interop.omp_wires import Wire, omp, paths, polylect, word
from polylect.vocab.content import Text, Thinking, ToolCall
from providers.loopback import STALL, WAIT, Step, reply

pytestmark = pytest.mark.interop
VENDOR = VENDORS["anthropic"]

WORDS = {
    "extension_ui_request": "omp has an extension of its own that shows a widget",
    "prompt_result": "ours: the end of a prompt, with its reason; later versions of omp have it too",
    "session_settled": "ours: nothing runs and nothing waits",
    "auto_retry_end": "ours comes when the service answers again, omp's when the message is complete",
}
"""Frames that one of them has more, or elsewhere."""
KEYS = {
    ".index": "where a block stands in the service's reply: left over from reading it",
    ".partialJson": "arguments as far as they have come: left over from reading them",
    ".thinkingSignature": "empty until the block has ended",
    ".responseId": "known to us when the reply is complete",
    ".duration": "how long a message took is not told",
    ".ttft": "the same for its first word",
    ".details": "a tool's own: theirs has some where ours has none",
    "message_start assistant message.errorMessage": "omp tells the end already with the beginning, where nothing came",
}
"""Keys that polylect leaves out of frames (by how frame and key end)."""


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service() as service:
        yield service


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with Place(tmp_path_factory.mktemp("pair")) as place:
        yield place


@pytest.fixture(scope="module")
def theirs(place: Place, service: Service) -> Wire:
    return omp(package("omp 13"), place, service.url)


@pytest.fixture(scope="module")
def ours(place: Place, service: Service) -> Wire:
    return polylect(place, service.url)


# Shapes.


def story(frames: list[Json]) -> list[str]:
    """What was said, in order: as often as it was, except for what comes in as many pieces as the moment allows."""
    words: list[str] = []
    for frame in call_by_call(frames):
        said = word(frame)
        if said in WORDS or (words[-1:] == [said] and said.endswith(("_delta", "_update"))):
            continue
        cut = said == "message_end assistant" and frame["message"]["stopReason"] == "aborted"
        if cut and words[-1].endswith("_end"):  # ours ends a block that was cut off, omp leaves it open
            words.pop()
        words.append(said)
    return words


def call_by_call(frames: list[Json]) -> list[Json]:
    """omp runs one command after the other, polylect several at once."""
    result: list[Json] = []
    for of_calls, run in groupby(frames, key=lambda frame: bool(call_of(frame))):
        result += sorted(run, key=call_of if of_calls else lambda frame: "")
    return result


def call_of(frame: Json) -> str:
    return str(frame.get("toolCallId") or frame.get("message", {}).get("toolCallId") or "")


def keys(frames: Iterable[Json]) -> set[str]:
    """Of every frame all keys, each with the way to it. Updates count as one: of a block omp tells a little early."""
    actual: set[str] = set()
    for frame in frames:
        name = "message_update" if frame["type"] == "message_update" else word(frame)
        actual |= {f"{name} {path}" for path in paths(frame)}
    return actual


def says(*blocks: Text | Thinking | ToolCall) -> list[Step]:
    return VENDOR.says(*blocks)


def stuck(then: Step) -> list[Step]:
    """Says one thing, and then nothing until it is told to go on, or left."""
    before, after = VENDOR.frames(Text("Working."))[:3], VENDOR.frames(Text("Working."))[3:]
    return [*reply(*before)[:-1], then, *reply(*after)[1:]]


def failing() -> list[Step]:
    """Breaks off before anything was said."""
    error = {"type": "error", "error": {"type": "api_error", "message": "Internal server error"}}
    return reply(VENDOR.frames(Text("x"))[0], f"event: error\ndata: {json.dumps(error)}\n\n".encode())


def text(wire: Wire, service: Service) -> None:
    service.give(says(Text("Hello there.")))
    prompt(wire)


def thinking(wire: Wire, service: Service) -> None:
    service.give(says(Thinking("Let me think about it.", "c2ln"), Text("Hello.")))
    prompt(wire)


def one_call(wire: Wire, service: Service) -> None:
    service.give(says(Text("I look."), ToolCall("a1", wire.shell, {"command": "echo one"})), says(Text("One.")))
    prompt(wire)


def a_call_that_fails(wire: Wire, service: Service) -> None:
    service.give(says(ToolCall("b1", wire.shell, {"command": "exit 3"})), says(Text("Three.")))
    prompt(wire)


def a_call_of_nothing(wire: Wire, service: Service) -> None:
    service.give(says(ToolCall("c1", "nothing", {})), says(Text("There is no such thing.")))
    prompt(wire)


def two_calls(wire: Wire, service: Service) -> None:
    calls = [ToolCall(id, wire.shell, {"command": f"echo {id}"}) for id in ("d1", "d2")]
    service.give(says(*calls), says(Text("Both.")))
    prompt(wire)


def stopped_while_it_talks(wire: Wire, service: Service) -> None:
    service.give(stuck(STALL))
    wire.send("prompt", message="hi")
    wire.until("text_delta")
    wire.ask("abort")


def stopped_before_it_talks(wire: Wire, service: Service) -> None:
    service.give([STALL])
    requested = len(service.requests)
    wire.send("prompt", message="hi")
    wire.until("message_end user")
    eventually(lambda: len(service.requests) > requested)
    wire.ask("abort")


def stopped_while_a_call_runs(wire: Wire, service: Service) -> None:
    service.give(says(ToolCall("e1", wire.shell, {"command": "echo begun; sleep 60"})))
    wire.send("prompt", message="hi")
    wire.until("tool_execution_update")
    wire.ask("abort")


def one_makes_way_for_another(wire: Wire, service: Service) -> None:
    service.give(stuck(STALL), says(Text("Hello.")))
    wire.send("prompt", message="hi")
    wire.until("text_delta")
    wire.ask("abort_and_prompt", message="rather this")
    wire.until("agent_end")


def steered(wire: Wire, service: Service) -> None:
    joined(wire, service, "steer")


def followed_up(wire: Wire, service: Service) -> None:
    joined(wire, service, "follow_up")


def joined(wire: Wire, service: Service, how: str) -> None:
    service.give(stuck(WAIT), says(Text("Hello.")))
    wire.send("prompt", message="hi")
    wire.until("text_delta")
    wire.ask(how, message="and this")
    service.go()
    wire.until("agent_end")


def tried_again(wire: Wire, service: Service) -> None:
    service.give(failing(), says(Text("Hello.")))
    prompt(wire)
    wire.until("auto_retry_start")
    wire.until("agent_end")


def refused(wire: Wire, service: Service) -> None:
    """With 403: the text of a 400 has a file's name with the time in it, and omp tries again where it finds "500"."""
    error = {"type": "error", "error": {"type": "permission_error", "message": "this is not for you"}}
    service.give(reply(json.dumps(error).encode(), status=403, kind="application/json"))
    prompt(wire)


def prompt(wire: Wire) -> None:
    wire.send("prompt", message="hi")
    wire.until("agent_end")


CONVERSATIONS: tuple[Callable[[Wire, Service], None], ...] = (
    text, thinking, one_call, a_call_that_fails, a_call_of_nothing, two_calls, stopped_while_it_talks,
    stopped_before_it_talks, stopped_while_a_call_runs, one_makes_way_for_another, steered, followed_up, tried_again,
    refused,
)  # fmt: skip


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda conversation: conversation.__name__)
def test_both_say_the_same_frames_in_the_same_order_and_ours_have_all_their_keys(
    conversation: Callable[[Wire, Service], None], theirs: Wire, ours: Wire, service: Service
) -> None:
    frames = []
    for wire in (theirs, ours):
        conversation(wire, service)
        frames.append(wire.received())
    expected, received = frames
    assert story(received) == story(expected)
    assert {
        key for key in keys(expected) - keys(received) if told_by_both(key) and not key.endswith(tuple(KEYS))
    } == set()


def told_by_both(key: str) -> bool:
    return key.partition(" ")[0] not in WORDS


# Answers.

ANSWERS = {
    "messages[].attribution": "who said it is told while it happens",
    "messages[].duration": "how long a message took is not told",
    "messages[].ttft": "the same for its first word",
    "messages[].meta": "what of a command's output was left out: ours names the file that has it all",
}
"""Keys that polylect leaves out of answers."""
QUESTIONS: tuple[tuple[str, Json], ...] = (
    ("get_state", {}),
    ("get_session_stats", {}),
    ("get_messages", {}),
    ("get_available_models", {}),
    ("set_thinking_level", {"level": "low"}),
    ("cycle_thinking_level", {}),
    ("bash", {"command": "echo hi; exit 3"}),
    ("bash", {"command": "seq 100000"}),
    ("get_messages", {}),
    ("get_branch_messages", {}),
    ("get_last_assistant_text", {}),
    ("set_session_name", {"name": "A talk"}),
    ("set_session_name", {"name": " "}),
    ("set_model", {"provider": "nobody", "modelId": "nothing"}),
    ("set_steering_mode", {"mode": "one-at-a-time"}),
    ("set_auto_compaction", {"enabled": True}),
    ("abort", {}),
    ("abort_bash", {}),
    ("abort_retry", {}),
    ("no_such_command", {}),
    ("new_session", {}),
    ("get_state", {}),
    ("get_last_assistant_text", {}),
)


def test_both_answer_alike(theirs: Wire, ours: Wire, service: Service, place: Place) -> None:
    """Success or error in the same words, and data with all of their keys."""
    for wire in (theirs, ours):
        begin_session(wire, service, place)
    for command, fields in QUESTIONS:
        expected, received = (wire.answer(command, **fields) for wire in (theirs, ours))
        assert {**received, "data": None} == {**expected, "data": None}
        missing = set(paths(expected.get("data"))) - set(paths(received.get("data")))
        assert {key for key in missing if not key.startswith(tuple(ANSWERS))} == set(), command


def test_the_answers_about_models_and_branches_are_alike(
    theirs: Wire, ours: Wire, service: Service, place: Place
) -> None:
    data = []
    for wire, provider in ((theirs, "mock"), (ours, "anthropic")):
        begin_session(wire, service, place)
        chosen = wire.ask("set_model", provider=provider, modelId=MODEL)
        [point] = wire.ask("get_branch_messages")["messages"]
        branched = wire.ask("branch", entryId=point["entryId"])
        assert branched == {"text": "What do the notes say?", "cancelled": False}
        assert wire.ask("get_state")["messageCount"] == 0
        assert not wire.answer("branch", entryId="nowhere")["success"]
        data.append(chosen)
    expected, received = (set(paths(chosen)) for chosen in data)
    assert expected <= received


# Sessions.


def spoken(messages: list[Json]) -> list[tuple[str, object]]:
    """Who said what: texts, thoughts, calls and results."""
    result: list[tuple[str, object]] = []
    for message in messages:
        for block in message["content"]:
            match block["type"]:
                case "toolCall":
                    result.append((message["role"], block["arguments"]))
                case kind:
                    result.append((message["role"], block[kind]))
    return result


def begin_session(wire: Wire, service: Service, place: Place) -> list[tuple[str, object]]:
    """With all that a session can hold in one turn."""
    (place.workspace / "notes.txt").write_text("alpha\n")
    call = ToolCall("s1", wire.shell, {"command": "cat notes.txt"})
    service.give(says(Thinking("I should look.", "c2ln"), Text("I look."), call), says(Text("It says alpha.")))
    wire.ask("new_session")
    wire.send("prompt", message="What do the notes say?")
    wire.until("agent_end")
    wire.received()
    result = spoken(wire.ask("get_messages")["messages"])
    assert [role for role, _ in result] == ["user", *["assistant"] * 3, "toolResult", "assistant"]
    return result


def go_on(wire: Wire, service: Service) -> str:
    """The last request to the model, after one more prompt."""
    service.give(says(Text("Alpha.")))
    wire.send("prompt", message="Say it again.")
    wire.until("agent_end")
    return service.requests[-1].body.decode()


@pytest.mark.parametrize("version", ["omp 13", "omp 18", "omp 18.3"])
def test_a_session_of_polylect_goes_on_in_omp(
    version: str, theirs: Wire, ours: Wire, service: Service, place: Place, tmp_path: Path
) -> None:
    result = begin_session(ours, service, place)
    session, file = ours.ask("get_state")["sessionId"], tmp_path / "session.jsonl"
    exported = place.run("sessions", "export", session, "--to", "omp", str(file))
    assert exported.code == 0, exported.errors
    engine = theirs if version == "omp 13" else omp(package(version), place, service.url)
    assert engine.ask("switch_session", sessionPath=str(file)) == {"cancelled": False}
    assert engine.ask("get_state")["sessionId"] == session
    assert spoken(engine.ask("get_messages")["messages"]) == result
    request = go_on(engine, service)
    assert all(text in request for text in ("What do the notes say?", "cat notes.txt", "alpha", "Say it again."))


def test_a_session_of_omp_goes_on_in_polylect(theirs: Wire, ours: Wire, service: Service, place: Place) -> None:
    result = begin_session(theirs, service, place)
    file = Path(theirs.ask("get_state")["sessionFile"])
    before = file.read_bytes()
    assert ours.ask("switch_session", sessionPath=str(file)) == {"cancelled": False}
    assert spoken(ours.ask("get_messages")["messages"]) == result
    stats = ours.ask("get_session_stats")
    assert (stats["userMessages"], stats["assistantMessages"], stats["toolCalls"]) == (1, 2, 1)
    request = go_on(ours, service)
    assert all(text in request for text in ("What do the notes say?", "cat notes.txt", "alpha", "Say it again."))
    assert file.read_bytes() == before, "it is theirs"
