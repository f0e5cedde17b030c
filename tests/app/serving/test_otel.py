"""Spans: what was done and how long it took, in OpenTelemetry's words, and nothing of what was said."""

from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from doubles import Echo, Fail, converse
from polylect.app.serving.otel import Spans, open_spans, parent_of
from polylect.engine.traces import Tracer
from polylect.providers.scripted import Scripted
from polylect.vocab.commands import Prompt

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def finished_spans(folder: Path, env: dict[str, str]) -> list[Any]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans = Spans(provider, parent_of(env), "s1")
    calls = [{"call": "Echo", "id": "e", "args": {"text": "secret"}}, {"call": "Fail", "id": "f"}]
    model = Scripted.from_values({"reply": [{"when": {"step": 1}, "say": calls}, {"say": ["secret"]}]})
    talk = converse(folder, model, [Prompt("t1", "secret")], Echo(), Fail())
    tracer = Tracer(lambda event: None, lambda: "scripted", emit_traces=False, record=spans.add)
    for event in talk.events:
        tracer.receive(event)
    spans.close()
    return list(exporter.get_finished_spans())


def test_a_turn_holds_its_model_calls_and_tool_calls(tmp_path: Path) -> None:
    actual = finished_spans(tmp_path, {})
    assert [span.name for span in actual] == [
        "chat m",
        "execute_tool Echo",
        "execute_tool Fail",
        "chat m",
        "invoke_agent polylect",
    ]
    turn = actual[-1]
    assert turn.parent is None
    assert {span.parent.span_id for span in actual[:-1]} == {turn.context.span_id}
    assert [span.attributes.get("error.type") for span in actual] == [None, None, "error", None, None]
    assert actual[0].attributes["gen_ai.operation.name"] == "chat"
    assert actual[0].attributes["gen_ai.provider.name"] == "scripted"
    assert actual[0].attributes["gen_ai.usage.input_tokens"] > 0
    assert actual[1].attributes["gen_ai.tool.call.id"] == "e"
    assert all("secret" not in span.to_json() for span in actual)


def test_a_traceparent_is_the_parent_of_every_turn(tmp_path: Path) -> None:
    turn = finished_spans(tmp_path, {"TRACEPARENT": PARENT})[-1]
    assert f"{turn.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert f"{turn.parent.span_id:016x}" == "b7ad6b7169203331"


def test_a_traceparent_that_makes_no_sense_is_none(tmp_path: Path) -> None:
    assert finished_spans(tmp_path, {"TRACEPARENT": "nonsense"})[-1].parent is None


def test_nothing_is_sent_unless_somebody_says_where() -> None:
    assert open_spans({}) is None
    assert open_spans({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"}) is None
