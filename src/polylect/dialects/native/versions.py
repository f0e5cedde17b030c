"""The versions of the native wire, and its limits. Imports nothing."""

PROTOCOL = "polylect-native"
VERSIONS = ("1",)
PROTOCOL_VERSION = "1.0"
"""Major and minor version. A minor version adds types, fields and words; docs/native.md has the promise."""
MAX_FRAME = 32 * 1024 * 1024
"""The longest line in bytes that either end writes."""
