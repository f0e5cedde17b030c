"""Other shapes of a conversation: for people, and for programs whose users come or go. Pure: bytes in, bytes out."""
