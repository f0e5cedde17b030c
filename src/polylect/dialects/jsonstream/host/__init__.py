"""The host's end of the json-stream wire, used when the SDK drives aionrs, wayland-core or polylect.

`codec` is the interface, `decode` turns frames into events, `newer_events` reads what newer engines send.
"""
