"""Events between the wire and the vocabulary, where no state is needed."""

from typing import Any, Literal

from polylect.dialects.jsonstream import shapes
from polylect.dialects.jsonstream.versions import ALL_CAPABILITIES, ERROR_CODES, MODES
from polylect.vocab.content import Abilities, Failure, Form, Image, Usage
from polylect.vocab.events import CompactionEnded, RetryStarted, ToolFinished

Owner = Literal["host", "user", "provider", "tool", "engine"]

_OWNERS: dict[str, Owner] = {
    "protocol_error": "host",
    "config_error": "user",
    "auth_required": "user",
    "auth_invalid": "user",
    "provider_error": "provider",
    "tool_error": "tool",
}
_FORMS: dict[str, Form] = {"text": "text", "diff": "diff", "image": "image"}
_IMAGE_WORDS = {"supported": True, "unsupported": False}


def fault(failure: Failure) -> shapes.Fault:
    return shapes.Fault(ERROR_CODES[failure.owner], failure.message, failure.retryable)


def failure_of(fault: shapes.Fault) -> Failure:
    return Failure(fault.code, fault.message, _OWNERS.get(fault.code, "engine"), fault.retryable)


def usage(usage: Usage) -> shapes.Usage:
    return shapes.Usage(usage.input, usage.output, usage.cache_read, usage.cache_write)


def usage_of(usage: shapes.Usage | None) -> Usage:
    if usage is None:
        return Usage()
    return Usage(usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)


def result(event: ToolFinished, msg_id: str) -> shapes.ToolResult:
    """An image travels as base64 in `output`, and its media type in `metadata`."""
    output, metadata = event.output, event.metadata
    if event.form == "image" and event.images and event.images[0].data:
        output = event.images[0].data
        metadata = {**(metadata or {}), "media_type": event.images[0].media_type}
    status = "success" if event.outcome == "ok" else "error"
    return shapes.ToolResult(msg_id, event.call, event.name, status, output, event.form, metadata)


def finished_of(frame: shapes.ToolResult) -> ToolFinished:
    """Success is only what says so."""
    form = _FORMS.get(frame.output_type, "text")
    metadata = frame.metadata if isinstance(frame.metadata, dict) else None
    images: tuple[Image, ...] = ()
    if form == "image":
        metadata = dict(metadata or {})
        images = (Image(str(metadata.pop("media_type", "image/png")), frame.output),)
    return ToolFinished(
        frame.call_id,
        frame.tool_name,
        "" if images else frame.output,
        "ok" if frame.status == "success" else "error",
        form,
        metadata=metadata or None,
        images=images,
        turn=frame.msg_id,
    )


def abilities_of(offered: dict[str, Any]) -> Abilities:
    """What a `capabilities` object offers. A missing key is false; what nobody knows is kept as an extra."""
    known = (*ALL_CAPABILITIES, "image_input", "current_model")
    return Abilities(
        approval=offered.get("tool_approval") is True,
        thinking=offered.get("thinking") is True,
        effort_levels=tuple(offered.get("effort_levels", ())),
        modes=tuple(MODES.get(mode, mode) for mode in offered["modes"]) if "modes" in offered else Abilities().modes,
        mcp=offered.get("mcp") is True,
        images=_IMAGE_WORDS.get(str(offered.get("image_input"))),
        extras={key: value for key, value in offered.items() if key not in known},
    )


def retry_text(event: RetryStarted) -> str:
    why = f" ({event.error})" if event.error else ""
    return f"The model's service did not answer{why}, retrying... ({event.attempt}/{event.most})"


def compaction_text(event: CompactionEnded) -> str:
    if not event.ok:
        return f"The conversation could not be shortened: {event.error}"
    return f"The conversation was shortened from {event.before} to {event.after} tokens."
