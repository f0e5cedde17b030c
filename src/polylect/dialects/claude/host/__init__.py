"""The host's end of this wire: what the SDK uses to drive `claude`, or any engine that speaks stream-json.

`codec` joins the parts. Frames become events in `decode`, which uses `deduplicate`, `partial_messages`, `tools`,
`subagents`, `results` and `settings`; commands become lines in `commands` and `encode`; `requests` and `asks` match
answers to requests in both directions.
"""
