"""polylect: one coding agent engine that speaks every host's wire, and one host API for every engine."""

__version__ = "0.1.0"
