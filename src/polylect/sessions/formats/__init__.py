"""Exports and imports of conversations. Pure: bytes in, bytes out.

For people: `html_page.py`, `markdown.py`. For programs: `json_document.py`, and the session files of omp and Claude
Code, which can also be imported. `conversation.py` has what all of them share.
"""
