"""What can go wrong with any model's stream, whoever sends it."""

from polylect.vocab.errors import ProviderError


def unreadable(error: Exception) -> ProviderError:
    return ProviderError("protocol", f"the model server sent what cannot be read: {error}")


def cut_off() -> ProviderError:
    return ProviderError("network", "the model's reply was cut off", retryable=True)
