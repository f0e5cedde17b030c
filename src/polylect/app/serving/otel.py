"""Sends turns, model calls and tool calls as OpenTelemetry spans, named by its conventions for generative models.

Only where `polylect[otel]` is installed and the environment names a collector: `OTEL_EXPORTER_OTLP_ENDPOINT` or
`OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`. Spans hold counts and times, never the text of a conversation. A `TRACEPARENT` in
the environment becomes the parent of all spans. `assembly.py` opens this and gives it the records of the engine.
"""

import logging
from collections.abc import Mapping
from typing import Any

from polylect.engine.traces import PRODUCT, Record, TurnRecord
from polylect.vocab.content import CallRecord
from polylect.vocab.events import StepTraced

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_HEADERS = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
"""These hold credentials, so `secrets.conceal` has removed them from the environment of the process."""
_log = logging.getLogger(__name__)


class Spans:
    """Makes spans of records. `parent` is a context of OpenTelemetry; `provider` exports the spans."""

    def __init__(self, provider: Any, parent: Any, session: str = "") -> None:
        self._provider = provider
        self._tracer = provider.get_tracer(PRODUCT)
        self._parent = parent
        self._session = session
        self._turns: dict[str, Any] = {}

    def add(self, record: Record) -> None:
        match record:
            case StepTraced():
                self._step(record)
            case TurnRecord(turn, reason, usage, began, ended):
                span = self._turns.pop(turn, None) or self._begin_turn(began)
                tokens = {"gen_ai.usage.input_tokens": usage.input, "gen_ai.usage.output_tokens": usage.output}
                span.set_attributes({**tokens, "polylect.turn.end": reason})
                self._end(span, ended, reason if reason in ("error", "cancelled") else "")

    def close(self) -> None:
        """Sends what has not been sent. May wait for the network."""
        self._provider.shutdown()

    def _step(self, step: StepTraced) -> None:
        if step.turn and step.turn not in self._turns:
            self._turns[step.turn] = self._begin_turn(step.began)
        context = self._context_of(step.turn)
        usage, model = step.usage, step.model
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": step.provider,
            "gen_ai.response.model": model,
            "gen_ai.response.finish_reasons": [step.stop],
            "gen_ai.usage.input_tokens": usage.input + usage.cache_read + usage.cache_write,
            "gen_ai.usage.output_tokens": usage.output,
            "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
            "gen_ai.agent.id": step.agent,
            "gen_ai.conversation.id": self._session,
        }
        span = self._tracer.start_span(f"chat {model}".strip(), context, start_time=step.began, attributes=attributes)
        self._end(span, step.ended, step.stop if step.error else "")
        for call in step.calls:
            self._call(call, step, context)

    def _call(self, call: CallRecord, step: StepTraced, context: Any) -> None:
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.call.id": call.call,
            "gen_ai.agent.id": step.agent,
        }
        name = f"execute_tool {call.name}"
        span = self._tracer.start_span(name, context, start_time=call.began, attributes=attributes)
        self._end(span, call.ended, "" if call.outcome == "ok" else call.outcome)

    def _begin_turn(self, began: int) -> Any:
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": PRODUCT,
            "gen_ai.conversation.id": self._session,
        }
        name = f"invoke_agent {PRODUCT}"
        return self._tracer.start_span(name, self._parent, start_time=began, attributes=attributes)

    def _context_of(self, turn: str) -> Any:
        from opentelemetry.trace import set_span_in_context  # loaded by open_spans, if at all

        span = self._turns.get(turn)
        return set_span_in_context(span, self._parent) if span else self._parent

    def _end(self, span: Any, at: int, fault: str) -> None:
        from opentelemetry.trace import StatusCode

        if fault:
            span.set_attribute("error.type", fault)
            span.set_status(StatusCode.ERROR)
        span.end(at)


def open_spans(env: Mapping[str, str], session: str = "") -> Spans | None:
    """The spans of a session; None where no collector is set or the library is missing."""
    if not any(env.get(name) for name in _ENDPOINTS) or env.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    try:  # 300 ms, and only where a collector is set
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.util.re import parse_env_headers
    except ImportError:
        _log.warning("no spans are sent: pip install 'polylect[otel]'")
        return None
    provider = TracerProvider(resource=Resource.create({"service.name": env.get("OTEL_SERVICE_NAME") or PRODUCT}))
    headers = next((env[name] for name in _HEADERS if env.get(name)), "")
    exporter = OTLPSpanExporter(headers=parse_env_headers(headers, liberal=True))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Spans(provider, parent_of(env), session)


def parent_of(env: Mapping[str, str]) -> Any:
    """The context that `TRACEPARENT` names; an empty one if it names none."""
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    names = {"traceparent": "TRACEPARENT", "tracestate": "TRACESTATE"}
    return TraceContextTextMapPropagator().extract({key: env[name] for key, name in names.items() if env.get(name)})
