"""What polylect adds to messages under `_meta`, for what has no field on this wire. Other programs ignore it.

All of it is inside `_meta.polylect`, and nothing is needed: both ends work with peers that never send it.

a message over WebSocket          `seq`, its number, beside `jsonrpc`, for clients that ask for it (docs/acp.md)
params of `initialize`            over WebSocket: `resume`, `cursor`; its result: `connection`, `resumeSeconds`,
                                  `resumed`, `received`
params of `session/prompt`        `turn` (its id); `busy`, `query`, `verbatim`, `schema`, `max_cost`, `max_tokens`
                                  as in `Prompt`
a `resource_link` of a prompt     `file`: the path, for a `File`; without it the block is a `Link`
params of `_session/steering`     `when`, `idle`, `to` as in `Steer`
params of `session/cancel`        `queued` as in `Cancel`
`session/request_permission`      `category`, `reason`, `timeout_ms` as in `Ask`
its result                        `reason`, `args`, `interrupt` as in `Answer`
`elicitation/create`              `kind`, `reason`, `options`, `multiple`, `default`, `timeout_ms` as in `Ask`
`user_message_chunk`              `origin` as in `UserMessage`; live ones are only for our own host
`tool_call`                       `category`
last `tool_call_update`           `outcome` if it is denied, cancelled or skipped; `reason`, `metadata` as in
                                  `ToolFinished`; `form` if it is not text
result of `session/prompt`        `cost` and `steps` of the turn; `failure` if a turn that did not fail has one
`error.data`, which has no _meta  `polylect`: `code`, `owner`, `retryable`, and of a turn `usage` and `steps`; the whole
                                  message is in `details`
`session_info_update`             `turn`, around turns that no open prompt of the client began: `{"id", "state":
                                  "started", "cause"}`, `{"id", "state": "ended", "reason", "usage", "failure", ...}`
`state_update` of version 2       `turn`, as in `session_info_update`; at the end of the turn of a prompt what the
                                  result of `session/prompt` has in version 1
`subagent_update`                 `agent`: `{"id", "parent", "call", "name", "background"}` with the first; `progress`:
                                  `{"text", "calls"}`; in the `state` of the last, `summary` and `failed`
`tool_call` of a sub-agent        `agent`, as above, where the client does not show sub-agents
`compaction_update`               `reason`; with the last `before`, `after` and `first_kept`
"""

from typing import Any

KEY = "polylect"
"""The field of `_meta` that is ours."""


def own_meta(**fields: Any) -> dict[str, Any] | None:
    """`_meta` with these fields of ours, without those that are empty; None if all are."""
    present = {name: value for name, value in fields.items() if value}
    return {KEY: present} if present else None


def read_own(meta: object) -> dict[str, Any]:
    """Our fields in the `_meta` of a peer."""
    fields = meta.get(KEY) if isinstance(meta, dict) else None
    return fields if isinstance(fields, dict) else {}
