"""Cuts a list into pages."""


def page_count(items: int, per_page: int) -> int:
    """How many pages it takes to show so many items."""
    return items // per_page


def page(items: list[str], number: int, per_page: int) -> list[str]:
    """What is on this page. The first page has number 1."""
    start = (number - 1) * per_page
    return items[start : start + per_page]
