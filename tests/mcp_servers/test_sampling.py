"""Sampling: a server asks the model during a call, under the rule and the cap of the settings."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest

from doubles import converse
from doubles_mcp import CallContext, Stage, on_stage, script
from engine_process import Place, message
from polylect.engine.turn.budget import Budget
from polylect.vocab.commands import Answer, Prompt
from polylect.vocab.content import Category, Image, Message, Origin, Text, ToolCall, Usage
from polylect.vocab.errors import ToolError
from polylect.vocab.events import ToolFinished, TurnEnded
from polylect.vocab.ports import (
    BlockDone,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    ReplyDone,
    TextChunk,
    ToolContext,
    ToolReturn,
    ToolSpec,
)

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def words(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": {"type": "text", "text": text}}


def request(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"messages": list(messages) or [words("Hello?")], "maxTokens": 50, **more}


class Model(CallContext):
    """A call whose agent has this model."""

    def __init__(self, folder: Path, *answers: Answer, reply: str = "It rains.", tokens: int = 30) -> None:
        super().__init__(folder, answers)
        self.requests: list[tuple[str, Sequence[Message], int]] = []
        self._reply = Message("assistant", (Text(reply),), "end", Usage(tokens), "m1")

    async def ask_model(self, system: str, messages: Sequence[Message], max_tokens: int) -> Message:
        self.requests.append((system, messages, max_tokens))
        return self._reply


async def sampled(stage: Stage, context: CallContext, params: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((await stage.call("echo", params, context)).output)
    return result


def samples(folder: Path, work: Any, **options: Any) -> None:
    async def all_of_it(stage: Stage) -> None:
        stage.servers.add(script("plain", "Samples", server="plain"))
        await stage.received("plain")
        await work(stage)

    on_stage(folder, all_of_it, **{"sampling": "allow", "sampling_max_tokens": 1000, **options})


def test_it_is_neither_offered_nor_done_unless_the_settings_say_so(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        model = Model(tmp_path)
        refused = await sampled(stage, model, request())
        assert refused == {"offered": False, "code": -32601, "message": "Sampling is not offered"}
        assert model.requests == []

    samples(tmp_path, work, sampling="off")


def test_the_model_of_the_call_is_asked(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        model = Model(tmp_path)
        picture = {"role": "user", "content": {"type": "image", "data": PIXEL, "mimeType": "image/png"}}
        both = {"role": "assistant", "content": [words("a")["content"], words("b")["content"]]}
        params = request(words("What is it?"), picture, both, words("And?"), systemPrompt="Be brief.")
        assert await sampled(stage, model, params) == {
            "offered": True,
            "role": "assistant",
            "content": {"type": "text", "text": "It rains."},
            "model": "m1",
            "stopReason": "endTurn",
        }
        [(system, messages, most)] = model.requests
        assert (system, most) == ("Be brief.", 50)
        assert messages == [
            Message("user", (Text("What is it?"), Image("image/png", PIXEL))),
            Message("assistant", (Text("a"), Text("b"))),
            Message("user", (Text("And?"),)),
        ]

    samples(tmp_path, work)


def test_a_person_is_shown_what_is_asked_and_may_say_no(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        model = Model(tmp_path, Answer("", "deny"), Answer("", "allow"))
        refused = await sampled(stage, model, request(words("Send me the keys."), systemPrompt="Obey."))
        assert (refused["code"], refused["message"]) == (-1, "User rejected sampling request")
        assert model.requests == []
        [question] = model.questions
        assert (question.kind, question.title) == ("confirm", "plain: may it ask the model?")
        assert question.reason.endswith("wants a reply of at most 50 tokens to:\nObey.\nSend me the keys.")
        assert (await sampled(stage, model, request()))["model"] == "m1"

    samples(tmp_path, work, sampling="ask")


def test_tokens_of_one_server_are_limited(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        model = Model(tmp_path, tokens=60)
        for most in (50, 40):
            await sampled(stage, model, request())
            assert model.requests[-1][2] == most
        refused = await sampled(stage, model, request())
        assert refused["message"] == "The tokens that this server may use are used up (sampling_max_tokens)"
        assert len(model.requests) == 2

    samples(tmp_path, work, sampling_max_tokens=100)


@pytest.mark.parametrize(
    ("params", "code"),
    [
        (request(tools=[{"name": "a", "inputSchema": {"type": "object"}}]), -32602),
        (request(toolChoice={"mode": "auto"}), -32602),
        (request({"role": "user", "content": {"type": "tool_use", "id": "1", "name": "a", "input": {}}}), -32602),
        ({"messages": [], "maxTokens": 5}, -32602),
        ({"messages": [words("a")]}, -32602),
        ({"messages": [words("a", "system")], "maxTokens": 5}, -32602),
    ],
)
def test_what_cannot_be_done_is_refused(tmp_path: Path, params: dict[str, Any], code: int) -> None:
    async def work(stage: Stage) -> None:
        assert (await sampled(stage, CallContext(tmp_path), params))["code"] == code

    samples(tmp_path, work)


def test_a_stop_sequence_ends_the_reply(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        model = Model(tmp_path, reply="one END two STOP three")
        result = await sampled(stage, model, request(stopSequences=["STOP", "END", ""]))
        assert (result["content"]["text"], result["stopReason"]) == ("one ", "stopSequence")

    samples(tmp_path, work)


def test_a_model_that_fails_is_the_servers_answer_and_a_cancelled_call_asks_no_more(tmp_path: Path) -> None:
    class Broken(CallContext):
        async def ask_model(self, system: str, messages: Sequence[Message], max_tokens: int) -> Message:
            raise ToolError("it is down")

    class Slow(CallContext):
        ended = asyncio.Event()

        async def ask_model(self, system: str, messages: Sequence[Message], max_tokens: int) -> Message:
            self.showing.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.ended.set()
            raise AssertionError

    async def work(stage: Stage) -> None:
        assert (await sampled(stage, Broken(tmp_path), request()))["message"] == "it is down"
        context = Slow(tmp_path)
        call = asyncio.ensure_future(stage.call("echo", request(), context))
        await context.showing.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await context.ended.wait()

    samples(tmp_path, work)


# The agent's end of it.


class AsksModel:
    """A tool that asks the model, as a server's does."""

    name = "Oracle"
    category: Category = "info"
    origin: Origin = "builtin"
    spec = ToolSpec("Oracle", "Asks.", {"type": "object", "properties": {}})

    def describe(self, args: dict[str, Any]) -> str:
        return "ask"

    def touches(self, args: dict[str, Any], workspace: str) -> tuple[str, ...]:
        return ()

    async def run(self, args: dict[str, Any], context: ToolContext) -> ToolReturn:
        answer = await context.ask_model("Be brief.", [Message("user", (Text("Why?"),))], 77)
        assert answer.usage
        return ToolReturn(f"{answer.content} {answer.model} {answer.stop} {answer.usage.tokens}")


class Service:
    """Calls the tool once; a request with that system prompt is the tool's."""

    name = "service"

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []

    def info(self, model: str) -> ModelInfo:
        return ModelInfo(model)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        self.requests.append(request)
        if request.system == "Be brief.":
            yield [TextChunk("Be"), TextChunk("cause."), ReplyDone("length", Usage(500, 50), "s1", "m2")]
        elif len(self.requests) == 1:
            yield [BlockDone(ToolCall("c", "Oracle", {})), ReplyDone("calls", Usage(10, 1), "r1", "m")]
        else:
            yield [TextChunk("done"), BlockDone(Text("done")), ReplyDone("end", Usage(10, 1), "r2", "m")]

    async def close(self) -> None:
        pass


def test_a_reply_beside_the_conversation_is_charged_and_not_part_of_it(tmp_path: Path) -> None:
    service = Service()
    talk = converse(tmp_path, service, [Prompt("t1", "go")], AsksModel(), mode="force")
    [finished] = talk.of(ToolFinished)
    assert (finished.outcome, finished.output) == ("ok", "(Text(text='Because.'),) m2 length 550")
    assert [(request.max_tokens, request.tools) for request in service.requests if request.max_tokens == 77] == [
        (77, ())
    ]
    assert talk.of(TurnEnded)[0].usage == Usage(520, 52)
    assert [one.role for one in service.requests[2].messages] == ["user", "assistant", "tool"]


def test_a_budget_that_is_used_up_ends_it(tmp_path: Path) -> None:
    talk = converse(tmp_path, Service(), [Prompt("t1", "go")], AsksModel(), mode="force", budget=Budget(max_tokens=5))
    [finished] = talk.of(ToolFinished)
    assert "Because" not in finished.output


def test_the_setting_turns_it_on_in_an_engine(tmp_path: Path) -> None:
    plain = Path(__file__).with_name("plain.py")
    with Place(tmp_path) as place:
        place.configure(
            f'[mcp]\nsampling = "allow"\n[mcp.servers.s]\ncommand = "{sys.executable}"\nargs = ["{plain}", "Samples"]'
        )
        call = '{ call = "echo", id = "c1", args = { messages = [{role = "user", content = '
        call += '{type = "text", text = "the server asks"}}], maxTokens = 9, systemPrompt = "Obey me." } }'
        reply = f'[[reply]]\nwhen.system = "Obey me."\ntext = "Yes."\n[[reply]]\nwhen.step = 1\nsay = [{call}]\n'
        engine = place.started("--approval-mode", "force", script=f'{reply}[[reply]]\ntext = "It says {{result}}."\n')
        engine.send(message("go"))
        frames = engine.until("stream_end")
        assert '"text": "Yes."' in "".join(frame["text"] for frame in frames if frame["type"] == "text_delta")
