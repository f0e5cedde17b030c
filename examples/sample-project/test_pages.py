import unittest

from shelf import page, page_count


class Pages(unittest.TestCase):
    def test_every_item_is_on_a_page(self) -> None:
        items = [f"book {number}" for number in range(11)]
        shown = [item for number in range(page_count(11, 10)) for item in page(items, number + 1, 10)]
        self.assertEqual(shown, items)
