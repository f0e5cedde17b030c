"""The engine's end of this wire: what `polylect` uses when a Claude SDK or another stream-json host starts it.

`codec` joins the parts. Lines of the host become commands in `prompts`, `control_requests` and `asks`; events become
lines in `encode`, with `block_stream` for what a model writes, `subagents` for tasks and `turn_state` for results.
"""
