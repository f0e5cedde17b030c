"""Commands that are answered once they have been carried out."""

from polylect.vocab.content import Failure

LATER = Failure("later", "", "engine")
"""Returned for a command that was taken and whose one `Reply` comes when its work is done."""
