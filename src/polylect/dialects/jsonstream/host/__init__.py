"""The host's end of the json-stream wire, used when the SDK drives aionrs, wayland-core or polylect.

`codec` is the interface, `decode` turns frames into events, `undocumented_events` those that no document describes.
`engine_quirks` knows how engines differ from the documents, `subagents` follows the agents of an engine.
"""
