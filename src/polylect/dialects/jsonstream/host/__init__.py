"""The host's end of the json-stream wire, used when the SDK drives aionrs, wayland-core or polylect.

`codec` is the interface, `decode` turns frames into events, `undocumented_events` reads what engines
added since.
"""
