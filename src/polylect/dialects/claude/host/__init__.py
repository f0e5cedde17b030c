"""The host's end of this wire: bytes to events (`decode`), commands to bytes (`encode`); `codec` joins them."""
