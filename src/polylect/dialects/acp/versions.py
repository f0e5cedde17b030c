"""The versions of the Agent Client Protocol that are spoken here, its limits and its words. Imports nothing."""

VERSIONS = ("1", "2")
"""The first is the default. The second is a draft: an agent offers it only if it is told to."""
MAX_FRAME = 32 * 1024 * 1024
"""The longest line in bytes that either end writes; the reference client drops longer ones."""

AUTH_REQUIRED = -32000
NOT_FOUND = -32002
UNSUPPORTED_VERSION = -32022
CANCELLED = -32800
"""Error codes beside those of JSON-RPC itself."""

MODES = {
    "default": ("Ask", "Asks before edits and commands"),
    "auto_edit": ("Accept edits", "Edits files in the workspace without a question; asks before commands"),
    "plan": ("Plan", "Reads and plans; changes nothing"),
    "dont_ask": ("Don't ask", "Denies what would need a question"),
    "force": ("Bypass permissions", "Asks nothing. Only for folders and machines that can be lost"),
}
"""Our modes: the name and the description that a person sees. Their ids on this wire are our own names."""
