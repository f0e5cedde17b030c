"""The engine's end of the json-stream wire, used when polylect serves a host of aionrs or wayland-core.

`codec` is the interface, `encode` turns events into lines, `subagents` those of sub-agents.
"""
