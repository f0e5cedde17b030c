"""Any conversation, in any order, with codec and engine in one room: what a host may rely on holds at every moment."""

import asyncio
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dialects.pair import env
from doubles import PATIENCE, Crash, Echo, Edit, Hang, Log, Run, Show, Talk
from grammar_check import Grammar
from polylect.dialects.jsonstream.engine.codec import EngineSide
from polylect.dialects.jsonstream.host.codec import HostSide
from polylect.providers.scripted import Scripted
from polylect.tools.builtin.ask_user_question import AskUserQuestion
from polylect.vocab.commands import Command, MalformedCommand, Prompt, UnknownCommand
from polylect.vocab.content import Abilities
from polylect.vocab.events import Event, MalformedEvent, Ready, Reply, UnknownEvent
from thoroughness import up_to

FLAGS = dict.fromkeys(("streaming_tools", "sub_agent_traces", "cost_attribution", "non_destructive_compact"), True)
PARTS: list[Any] = [
    "Some words. ",
    {"thinking": "hm "},
    {"call": "Echo", "id": "same", "args": {"text": "x"}},
    {"call": "Show", "args": {"pieces": ["a\nb", "c\n"]}},
    {"call": "Run", "args": {"command": "ls"}},
    {"call": "Run", "args": {"command": "git status"}},
    {"call": "Edit", "args": {"path": "../x"}},
    {"call": "Spawn", "args": {"tasks": [{"name": "kid", "prompt": "kid"}, {"name": "kid", "prompt": "kid"}]}},
    {"call": "Crash"},
    {"call": "Hang"},
    {"call": "No such tool"},
    {"call": "AskUserQuestion", "args": {"question": "Which?", "options": [{"label": "a"}, {"label": "b"}]}},
    {"call": "AskUserQuestion", "args": {"questions": [{"question": "Why?"}, {"question": "How?"}]}},
    {"call": "AskUserQuestion", "args": {}},
    {"error": "network"},
    {"hang": True},
]
REPLIES = st.lists(st.lists(st.sampled_from(PARTS), min_size=1, max_size=3), min_size=1, max_size=5)
KID = {"when": {"prompt": "kid", "step": 1}, "say": ["I am small. ", {"call": "Run", "args": {"command": "ls"}}]}
GROWN = {"when": {"prompt": "kid"}, "text": "Done."}
SCOPES = st.sampled_from(
    ["once", "always", {"always_prefix": {"prefix": "git"}}, {"always_path": {"root": "/", "write": True}}, "maybe", {}]
)
BAD = st.sampled_from(
    [b"{", b"[]", b"{}", b"\xff", b'{"type":"foo"}', b'{"type":"stop","type":"stop"}', b'{"type":"message"}',
     b'{"type":"tool_approve","call_id":null}', b'{"type":"set_mode","mode":"gentle"}', b"null", b'{"type":7}',
     b'{"type":"continue_with_budget"}', b'{"type":"init_history","text":null}', b'{"type":"set_config","model":1}']
)  # fmt: skip
ANSWERS = st.sampled_from([{}, {}, {"answer": None}, {"answer": "a"}, {"answer": "neither"}])
TEXTS = st.sampled_from(["go", "go", "go", "/help", "/nonsense", ""])
CHANGES = st.sampled_from(
    [{"model": "n"}, {"effort": "max"}, {"thinking": "disabled"}, {"thinking": "enabled", "thinking_budget": 9},
     {"compaction": "full"}, {"compaction": "tight"}, {"model": "o", "effort": "x"}, {}]
)  # fmt: skip
FILES = st.sampled_from([[], [], [], ["no/such/file"]])
SENT = "→"
"""Stands among the frames where the host has sent a message."""
PAUSES = st.sampled_from([0, 1, 2, 5, 12, 60])
"""How many rounds of the loop pass before the host does something else."""


class Conversation(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.frames: list[dict[str, Any]] = []
        self.said = b""
        self.commands: list[Command] = []
        self.refused: dict[str, str] = {}
        self.pings = 0
        self.requests: list[str] = []
        self.messages = 0
        self.closed = False
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()

    @initialize(version=st.sampled_from(["0.2.0", "0.1.0"]), flags=st.sampled_from([FLAGS, {}]), replies=REPLIES)
    def begin(self, version: str, flags: dict[str, bool], replies: list[Any]) -> None:
        rules = [{"when": {"step": step}, "say": say} for step, say in enumerate(replies, 1)]
        script = {"reply": [KID, GROWN, *rules, {"text": "That was all."}], "batch": 1}
        self.version = version
        self.codec = EngineSide(env(), version=version)
        self.host = HostSide(env(), version=version, hold=False)
        self.codec.send(Ready(session="s", abilities=Abilities(extras=flags)))
        self.runner.run(self.open(Scripted.from_values(script)))
        self.flush()

    async def open(self, provider: Scripted) -> None:
        tools = (Echo(), Show(), Run(), Edit(), Crash(), Hang(), AskUserQuestion())
        place = Path(self.folder.name)
        self.talk = Talk(place, provider, *tools, host=self.deliver, store=Log(), cancel_timeout=1.0)

    def deliver(self, event: Event) -> Command | None:
        """What the engine says goes over the wire; what follows from that goes back."""
        if isinstance(event, Reply) and event.failure:
            self.refused[event.ref] = event.failure.code
        follows = self.codec.send(event)
        assert len(follows) <= 1
        self.flush()
        return follows[0] if follows else None

    def flush(self) -> None:
        data = self.codec.data_to_send()
        self.said += data
        self.frames += [json.loads(line) for line in data.splitlines()]

    def receive(self, data: bytes, pause: int, turn: str = "") -> list[dict[str, Any]]:
        """What the codec itself says to it. Other work may go on before. `turn` is what a message asks for."""

        async def take() -> list[dict[str, Any]]:
            self.frames += [{"type": SENT, "msg_id": turn}] if turn else []
            before = len(self.frames)
            commands = self.codec.receive(data)
            self.commands += commands
            self.flush()
            answered = self.frames[before:]
            self.talk.send(*commands)
            await rounds(pause)
            return answered

        return self.runner.run(take())

    def send(self, pause: int, **frame: Any) -> None:
        self.receive(json.dumps(frame).encode() + b"\n", pause)

    @property
    def asked(self) -> list[str]:
        return [frame["call_id"] for frame in self.frames if frame["type"] == "tool_request"]

    # What the host does.

    @precondition(lambda self: not self.closed)
    @rule(pause=PAUSES, key=st.sampled_from(["input", "content"]), files=FILES, text=TEXTS)
    def message(self, pause: int, key: str, files: list[str], text: str) -> None:
        self.messages += 1
        self.prompt(pause, f"m{self.messages}", **{key: text, "files": files})

    @precondition(lambda self: not self.closed and self.messages)
    @rule(pause=PAUSES, files=FILES, which=st.integers(0, 2))
    def message_again(self, pause: int, files: list[str], which: int) -> None:
        """An id that was used before: refused while its turn has not ended, and then a turn like any other."""
        self.prompt(pause, f"m{max(1, self.messages - which)}", content="go", files=files)

    def prompt(self, pause: int, msg_id: str, **frame: Any) -> None:
        message = {"type": "message", "msg_id": msg_id, **frame}
        self.receive(json.dumps(message).encode() + b"\n", pause, msg_id)

    @precondition(lambda self: not self.closed)
    @rule(pause=PAUSES)
    def stop(self, pause: int) -> None:
        self.send(pause, type="stop")

    @precondition(lambda self: not self.closed)
    @rule(pause=PAUSES, which=st.integers(0, 30), scope=SCOPES, answer=ANSWERS)
    def approve(self, pause: int, which: int, scope: Any, answer: dict[str, str | None]) -> None:
        self.send(pause, type="tool_approve", call_id=self.call(which), scope=scope, **answer)

    @precondition(lambda self: not self.closed)
    @rule(pause=PAUSES, which=st.integers(0, 30))
    def deny(self, pause: int, which: int) -> None:
        self.send(pause, type="tool_deny", call_id=self.call(which), reason="no")

    @precondition(lambda self: not self.closed)
    @rule(pause=PAUSES, scope=SCOPES)
    def approve_all(self, pause: int, scope: Any) -> None:
        for call in self.asked:
            self.send(0, type="tool_approve", call_id=call, scope=scope)
        self.runner.run(rounds(pause))

    def call(self, which: int) -> str:
        """The newest ones most of the time; some that were answered before; some that never were."""
        requested = self.asked[::-1]
        return requested[which % len(requested)] if requested and which < 25 else "never asked"

    @precondition(lambda self: not self.closed)
    @rule(pause=PAUSES, mode=st.sampled_from(["default", "auto_edit", "yolo", "force"]))
    def set_mode(self, pause: int, mode: str) -> None:
        self.send(pause, type="set_mode", mode=mode)

    @precondition(lambda self: not self.closed)
    @rule(pause=PAUSES, change=CHANGES)
    def set_config(self, pause: int, change: dict[str, str]) -> None:
        self.send(pause, type="set_config", **change)

    @precondition(lambda self: not self.closed)
    @rule(pause=PAUSES)
    def add_things(self, pause: int) -> None:
        self.send(0, type="init_history", text="Be brief.")
        self.send(0, type="add_mcp_server", name="x", transport="stdio", command="no-such-program")
        self.pings += 1
        self.send(pause, type="ping")

    @precondition(lambda self: not self.closed)
    @rule(pause=PAUSES, approved=st.booleans())
    def resume(self, pause: int, approved: bool) -> None:
        """Nothing is suspended here, so it is refused."""
        self.send(pause, type="approval_resume", resume_token="nobody's", approved=approved)

    @precondition(lambda self: not self.closed)
    @rule(pause=PAUSES)
    def grant(self, pause: int) -> None:
        self.requests.append(f"r{len(self.requests)}")
        self.send(0, type="continue_with_budget", request_id=self.requests[-1], additional_tokens=9)
        self.send(0, type="grant_path", grant_id="g", root="/")
        self.send(pause, type="revoke_path", grant_id="g")

    @precondition(lambda self: not self.closed)
    @rule(pause=PAUSES, line=BAD)
    def bad_line(self, pause: int, line: bytes) -> None:
        middle = len(line) // 2
        assert self.receive(line[:middle], 0) == []
        assert [frame["type"] for frame in self.receive(line[middle:] + b"\r\n", 0)] == ["error"]
        assert isinstance(self.commands[-1], MalformedCommand | UnknownCommand)
        assert self.receive(b"\n", pause) == []

    @precondition(lambda self: not self.closed and self.messages > 2)
    @rule(stop=st.booleans())
    def end_of_input(self, stop: bool) -> None:
        async def close() -> None:
            assert self.codec.receive_eof() == []
            self.talk.engine.input_closed(stop=stop)

        self.closed = True
        self.runner.run(close())

    @rule(pause=PAUSES)
    def wait(self, pause: int) -> None:
        self.runner.run(rounds(pause))

    # What holds at every moment.

    @invariant()
    def nothing_of_a_turn_comes_after_its_end(self) -> None:
        over: set[str] = set()
        for frame in self.frames:
            msg_id = frame.get("msg_id")
            if frame["type"] == SENT:
                over.discard(frame["msg_id"])
            assert not msg_id or msg_id not in over, frame
            if frame["type"] == "stream_end":
                over.add(frame["msg_id"])

    @invariant()
    def every_request_is_closed_by_the_end_of_its_turn(self) -> None:
        opened: dict[str, str] = {}
        for frame in self.frames:
            match frame["type"]:
                case "tool_request":
                    assert frame["call_id"] not in opened, frame
                    opened[frame["call_id"]] = frame["msg_id"]
                case "tool_result" | "tool_cancelled":
                    opened.pop(frame["call_id"], None)
                case "stream_end":
                    assert frame["msg_id"] not in opened.values(), frame

    def teardown(self) -> None:
        if not hasattr(self, "talk"):
            self.runner.close()
            self.folder.cleanup()
            return
        try:
            if not self.closed:
                self.end_of_input(stop=True)
            self.runner.run(self.settle())
            self.flush()
            self.nothing_of_a_turn_comes_after_its_end()
            self.every_request_is_closed_by_the_end_of_its_turn()
            self.each_message_has_one_end()
            self.a_host_understands_all_of_it()
        finally:
            self.runner.close()
            self.folder.cleanup()

    async def settle(self) -> None:
        """Nobody answers any more: whatever still hangs is stopped."""
        async with asyncio.timeout(PATIENCE):
            self.talk.engine.input_closed(stop=True)
            await self.talk.engine.settled()
            await self.talk.end()

    def each_message_has_one_end(self) -> None:
        sent = [command for command in self.commands if isinstance(command, Prompt)]
        ending = [prompt.turn for prompt in sent if self.refused.get(prompt.ref) != "duplicate_turn"]
        ends = Counter(frame["msg_id"] for frame in self.frames if frame["type"] == "stream_end")
        asked_for = Counter({turn: count for turn, count in ends.items() if not turn.startswith("agent-")})
        assert asked_for == Counter(ending)
        assert sum(frame["type"] == "pong" for frame in self.frames) == self.pings
        granted = [frame["request_id"] for frame in self.frames if frame["type"] == "budget_grant_result"]
        assert granted == (self.requests if self.version == "0.2.0" else [])

    def a_host_understands_all_of_it(self) -> None:
        grammar = Grammar()
        for event in [*self.host.receive(self.said), *self.host.receive_eof()]:
            assert not isinstance(event, MalformedEvent | UnknownEvent), event
            grammar.check(event)


async def rounds(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


TestConversation = Conversation.TestCase
TestConversation.settings = settings(
    max_examples=up_to(80), stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
