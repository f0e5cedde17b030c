"""The engine's end of this wire: bytes to commands (`decode`), events to bytes (`encode`); `codec` joins them."""
