"""A list, a page at a time."""

from shelf.pages import page, page_count

__all__ = ["page", "page_count"]
