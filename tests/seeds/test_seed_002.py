"""Seed 002, Claude stream-json: snapshots that repeat and agents that interleave, statement by statement."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from dialects.claude.host_talk import INIT, RESULT, Frame, Host, assistant, brief, only, stream, text, thinking, use
from dialects.claude.host_talk import tool_result as returned
from dialects.pair import Pair
from polylect.dialects.claude.dialect import DIALECT
from polylect.dialects.claude.host.deduplicate import fingerprint
from polylect.vocab import events as e
from polylect.vocab.commands import Prompt
from polylect.vocab.content import Text, Thinking
from seeds.walk import Statements, Untested, lost
from thoroughness import up_to

HOST = "dialects/claude/host/test_codec.py::test_"
TRANSLATOR = "dialects/claude/host/test_deduplicate.py::test_"
INTEROP = "interop/test_claude_engine.py::test_"

STATEMENTS: Statements = {
    # The format.
    "the engine writes lines of JSON, each an object with a type": ("test_each_line_is_an_object_with_a_type",),
    "each line stands alone: no framing, no lengths": ("test_each_line_can_be_read_alone",),
    "the example of the seed": ("test_the_three_lines_of_the_seed_are_understood",),
    # A turn.
    "a turn is init, assistant, user, result": ("test_a_turn_has_the_four_kinds_of_frames_in_order",),
    "init tells the session: model, tools, id": (HOST + "settings_are_told_when_they_are_new",),
    "assistant and user repeat for each cycle of tools": ("test_a_turn_has_the_four_kinds_of_frames_in_order",),
    "the result ends the turn with costs and tokens": (HOST + "usage_and_costs",),
    # Snapshots.
    "with --verbose an event holds all blocks so far": ("test_the_three_snapshots_of_the_seed_give_three_blocks",),
    "only what is new is handed out, always": (
        TRANSLATOR + "of_a_growing_snapshot_only_what_is_new_is_handed_out",
        "test_no_block_is_lost_and_none_doubled",
    ),
    "today's engines send each block alone instead, and nothing is lost either": (
        TRANSLATOR + "blocks_that_come_one_by_one_are_all_handed_out",
        INTEROP + "thinking_and_text_are_told_once",
    ),
    "partial messages may come on top": ("test_partial_messages_add_nothing_and_take_nothing_away",),
    # Agents.
    "agents' events interleave on one stdout": (
        "test_no_block_is_lost_and_none_doubled",
        INTEROP + "two_agents_at_once_have_lanes_of_their_own",
    ),
    "a change of context shows in the first block": (TRANSLATOR + "another_first_block_is_another_reply",),
    "a call is known by its id, words by their first 64 characters": ("test_the_fingerprints_of_the_seed",),
    "another fingerprint begins from the beginning": (
        TRANSLATOR + "without_ids_the_same_words_after_somebody_else_has_spoken_are_a_new_reply",
    ),
    "where frames name their agent, that counts first": (
        TRANSLATOR + "agents_have_lanes_of_their_own_even_with_the_same_message_id",
        "test_the_same_words_of_several_agents_are_kept_apart_by_their_names",
    ),
    # Input.
    "prompts go in as stream-json too": ("test_a_prompt_goes_in_as_a_user_line",),
    "who is not affiliated with whom": Untested("it speaks of the people behind another program, not of the wire"),
}


def test_every_statement_has_its_test() -> None:
    assert lost(STATEMENTS, Path(__file__)) == []


# The format and a turn.


def conversation() -> Pair:
    """Of our own engine, as it goes over the wire."""
    pair = Pair(DIALECT, DIALECT.versions[0])
    where = {"turn": "t"}
    pair.ask(Prompt("t", "list"))
    for event in (
        e.Ready(session="s", model="m"),
        e.TurnStarted(**where),
        e.UserMessage("list", **where),
        e.StepStarted(**where),
        e.ToolCalled("c1", "Bash", {"command": "ls"}, **where),
        e.ReplyEnded("calls", **where),
        e.ToolStarted("c1", "Bash", **where),
        e.ToolFinished("c1", "Bash", "a\nb", **where),
        e.StepEnded(**where),
        e.StepStarted(**where),
        e.TextDelta("Two.", **where),
        e.BlockEnded(Text("Two."), **where),
        e.ReplyEnded("end", **where),
        e.StepEnded(**where),
        e.TurnEnded("end", steps=2, **where),
    ):
        pair.send(event)
    return pair


def test_each_line_is_an_object_with_a_type() -> None:
    wire = conversation().to_host
    assert wire.endswith(b"\n")
    assert all(isinstance(json.loads(line)["type"], str) for line in wire.splitlines())


def test_each_line_can_be_read_alone() -> None:
    lines = conversation().to_host.splitlines(keepends=True)
    for line in lines:
        host = Host(greeted=False)
        received = host.side.receive(line)
        assert not only(received, e.MalformedEvent, e.UnknownEvent)
    assert b"".join(lines) == conversation().to_host, "and nothing stands between them"


def test_the_three_lines_of_the_seed_are_understood() -> None:
    host = Host(greeted=False)
    received = host.receive(
        '{ "type": "system", "subtype": "init", "session_id": "sess-1", "model": "claude-sonnet-4-6" }',
        '{ "type": "assistant", "message": { "role": "assistant", "content": [{"type":"text","text":"Hi."}] } }',
        '{ "type": "result", "subtype": "success", "total_cost_usd": 0.018 }',
    )
    [ready] = only(received, e.Ready)
    assert (ready.session, ready.model) == ("sess-1", "claude-sonnet-4-6")
    assert brief(received) == ["says Hi.", "turn end"]
    assert only(received, e.CostChanged)[0].total.cost == 0.018


def test_a_turn_has_the_four_kinds_of_frames_in_order() -> None:
    frames = [json.loads(line) for line in conversation().to_host.splitlines()]
    kinds = [frame.get("subtype") if frame["type"] == "system" else frame["type"] for frame in frames]
    named = [kind for kind in kinds if kind in ("init", "assistant", "user", "result")]
    assert named == ["init", "assistant", "user", "assistant", "result"]


def test_the_three_snapshots_of_the_seed_give_three_blocks() -> None:
    one, two, three = thinking("t"), text("x"), use("c1")
    host = Host()
    received = [brief(host.receive(assistant(*content))) for content in ([one], [one, two], [one, two, three])]
    assert received == [["thinks t"], ["says x"], ["calls c1"]]


def test_the_fingerprints_of_the_seed() -> None:
    assert fingerprint(use("toolu_abc")) == "tool_use:toolu_abc"
    assert fingerprint(text("Let me search...")) == "text:Let me search..."
    assert fingerprint(thinking("y" * 100)) == "thinking:" + "y" * 64


def test_a_prompt_goes_in_as_a_user_line() -> None:
    host = Host()
    host.send(Prompt("t", "Tidy the imports"))
    [frame] = host.said()
    assert (frame["type"], frame["message"]) == ("user", {"role": "user", "content": "Tidy the imports"})


# Any interleaving, in any form.


class Reply(Struct, frozen=True):
    """One reply of an agent, block by block."""

    id: str
    agent: str
    blocks: tuple[Frame, ...]


class Form(Struct, frozen=True):
    """How an engine tells the same thing."""

    growing: bool
    ids: bool
    parents: bool
    uuids: bool

    def frames(self, reply: Reply) -> list[Frame]:
        """Of one reply, with what its calls return."""
        result = []
        for number, block in enumerate(reply.blocks):
            content = reply.blocks[: number + 1] if self.growing else (block,)
            own = {"uuid": f"{reply.id}-{number}"} if self.uuids else {}
            result.append(assistant(*content, id=reply.id if self.ids else "", **own) | self._lane(reply))
        calls = [block["id"] for block in reply.blocks if block["type"] == "tool_use" and block["name"] != "Agent"]
        return [*result, *(returned(call) | self._lane(reply) for call in calls)]

    def _lane(self, reply: Reply) -> Frame:
        return {"parent_tool_use_id": (reply.agent or None) if self.parents else None}


FORMS = st.builds(Form, growing=st.booleans(), ids=st.booleans(), parents=st.booleans(), uuids=st.booleans())
NAMED = st.builds(Form, growing=st.booleans(), ids=st.just(True), parents=st.just(True), uuids=st.just(True))
quick = settings(max_examples=up_to(60), deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def replies(draw: st.DrawFn, agents: list[str], words: st.SearchStrategy[str] | None = None) -> list[list[Reply]]:
    """For each agent what it says. Without `words` no two blocks begin alike."""
    script = []
    for agent in agents:
        said = []
        for number in range(draw(st.integers(1, 3))):
            blocks = []
            for place in range(draw(st.integers(1, 4))):
                name = f"{agent or 'main'} {number}.{place}"
                spoken = draw(words) if words is not None else f"{name} {draw(st.text(max_size=70))}"
                kind = draw(st.sampled_from(("text", "thinking", "call")))
                blocks.append(
                    {"text": text, "thinking": thinking, "call": use}[kind](name if kind == "call" else spoken)
                )
            said.append(Reply(f"{agent}-{number}", agent, tuple(blocks)))
        script.append(said)
    return script


@st.composite
def interleaved(draw: st.DrawFn, lanes: list[list[Any]]) -> list[Any]:
    """All of them, each lane in its own order."""
    left, result = [list(lane) for lane in lanes if lane], []
    while left:
        lane = draw(st.sampled_from(left))
        result.append(lane.pop(0))
        left = [one for one in left if one]
    return result


def said(events: list[e.Event]) -> list[tuple[str, str, str]]:
    """Every block with its lane."""
    result = []
    for event in events:
        match event:
            case e.BlockEnded(Text(words)):
                result.append((event.agent, "text", words))
            case e.BlockEnded(Thinking(words)):
                result.append((event.agent, "thinking", words))
            case e.ToolCalled(call):
                result.append((event.agent, "call", call))
    return result


def meant(script: list[list[Reply]]) -> list[tuple[str, str, str]]:
    keys = {"text": ("text", "text"), "thinking": ("thinking", "thinking"), "tool_use": ("call", "id")}
    return [
        (reply.agent, keys[block["type"]][0], block[keys[block["type"]][1]])
        for lane in script
        for reply in lane
        for block in reply.blocks
    ]


def play(form: Form, agents: list[str], frames: list[Frame]) -> list[e.Event]:
    """The main agent calls for the others, then all speak at once. It is clear from the first reply how blocks come."""
    host = Host()
    host.send(Prompt("t", "go"))
    calls = Reply("first", "", (thinking("whom to ask"), text("these"), *(use(agent, "Agent") for agent in agents)))
    return host.receive(INIT, *form.frames(calls), *frames, *(returned(agent) for agent in agents), RESULT)


def spoken(form: Form, agents: list[str], frames: list[Frame]) -> list[tuple[str, str, str]]:
    """Without what the main agent began with."""
    received = said(play(form, agents, frames))
    return received[2 + len(agents) :]


@pytest.mark.parametrize("count", [1, 2, 3])
@given(data=st.data(), form=FORMS)
@quick
def test_no_block_is_lost_and_none_doubled(count: int, data: st.DataObject, form: Form) -> None:
    agents = [f"agent-{number}" for number in range(count)]
    script = data.draw(replies(["", *agents]))
    lanes = [[frame for reply in lane for frame in form.frames(reply)] for lane in script]
    received = spoken(form, agents, data.draw(interleaved(lanes)))
    expected = meant(script)
    if not form.parents:
        expected = [("", kind, words) for _, kind, words in expected]
    assert sorted(received) == sorted(expected)
    for lane in script:
        own = [block[1:] for block in meant([lane])]
        assert [block[1:] for block in received if block[1:] in own] == own, "each agent's blocks are in order"


@given(data=st.data(), form=NAMED)
@quick
def test_the_same_words_of_several_agents_are_kept_apart_by_their_names(data: st.DataObject, form: Form) -> None:
    agents = ["agent-0", "agent-1"]
    script = data.draw(replies(["", *agents], st.sampled_from(("a", "ab", "a b", "Let me search", "Let me"))))
    lanes = [[frame for reply in lane for frame in form.frames(reply)] for lane in script]
    received = spoken(form, agents, data.draw(interleaved(lanes)))
    for agent, lane in zip(["", *agents], script, strict=True):
        assert [block for block in received if block[0] == agent] == meant([lane])


@given(data=st.data(), growing=st.booleans())
@quick
def test_a_conversation_means_the_same_in_either_form(data: st.DataObject, growing: bool) -> None:
    """Rewritten from one form into the other, frame by frame in the same order of replies."""
    agents = ["agent-0", "agent-1"]
    script = data.draw(replies(["", *agents]))
    order = data.draw(interleaved(script))
    one = Form(growing=growing, ids=True, parents=True, uuids=False)
    for ids in (True, False):
        other = Form(growing=not growing, ids=ids, parents=True, uuids=False)
        result = [
            spoken(form, agents, [frame for reply in order for frame in form.frames(reply)]) for form in (one, other)
        ]
        assert result[0] == result[1]


@given(data=st.data(), growing=st.booleans(), late=st.booleans())
@quick
def test_partial_messages_add_nothing_and_take_nothing_away(data: st.DataObject, growing: bool, late: bool) -> None:
    script = data.draw(replies([""]))
    form = Form(growing=growing, ids=True, parents=True, uuids=False)
    frames = [frame for reply in script[0] for frame in on_top(form, reply, late=late)]
    received = play(form, [], frames)
    result, expected = said(received)[2:], meant(script)
    assert (sorted(result) == sorted(expected)) if late else (result == expected)
    words = "".join(event.text for event in only(received, e.TextDelta))
    assert words == "these" + "".join(block[2] for block in meant(script) if block[1] == "text")


def on_top(form: Form, reply: Reply, *, late: bool) -> list[Frame]:
    """Each block in pieces and then as a whole; or, `late`, all the pieces first."""
    whole = form.frames(reply)
    pieces = [stream(type="message_start", message={"id": reply.id})]
    result: list[Frame] = []
    for number, block in enumerate(reply.blocks):
        kind = block["type"]
        started = {**block, kind: ""} if kind in block else {**block, "input": {}}
        pieces.append(stream(type="content_block_start", index=number, content_block=started))
        if kind in block:
            cut = len(block[kind]) // 2
            for part in (block[kind][:cut], block[kind][cut:]):
                delta = {"type": f"{kind}_delta", kind: part}
                pieces.append(stream(type="content_block_delta", index=number, delta=delta))
        result += [] if late else [*pieces, whole[number], stream(type="content_block_stop", index=number)]
        pieces = pieces if late else []
    end = stream(type="message_delta", delta={"stop_reason": "end_turn"})
    return [*pieces, *(whole[: len(reply.blocks)] if late else result), end, *whole[len(reply.blocks) :]]
