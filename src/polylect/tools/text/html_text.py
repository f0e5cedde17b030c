"""Turns HTML into text that reads like Markdown: headings, lists, links, tables and code.

    <h1>News</h1><p>See <a href="/a">this</a>.</p>      becomes      # News, an empty line, See [this](https://x.org/a).

It has a scanner of its own instead of `html.parser`, which a hostile page can make read the rest of the page again and
again. This one reads any page once. Called by the worker for WebFetch (`tools/worker/untrusted_text.py`).
"""

import re
from collections.abc import Callable
from html import unescape
from urllib.parse import urljoin

_DROPPED = frozenset({
    "script", "style", "noscript", "template", "svg", "iframe", "object", "canvas", "math", "textarea", "select",
})  # fmt: skip
_PARAGRAPHS = frozenset({
    "p", "h1", "h2", "h3", "h4", "h5", "h6", "table", "ul", "ol", "dl", "blockquote", "pre", "section", "article",
    "figure", "hr",
})  # fmt: skip
_LINES = frozenset({
    "div", "tr", "li", "dt", "dd", "br", "header", "footer", "main", "nav", "aside", "form", "fieldset", "details",
    "summary", "figcaption", "option",
})  # fmt: skip
_MARKUP = re.compile(r"<(?=[A-Za-z!?]|/[A-Za-z])")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*")
# Possessive, and tried only where a name begins: a long run of letters is looked at once.
_ATTRIBUTE = re.compile(r"""(?<![a-zA-Z-])([a-zA-Z-]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'>]++))""")
_TAG_STOP = re.compile(r"""["'>]""")
_SPACE = re.compile(r"\s+")
_MOST_TAG = 4096


def html_to_text(html: str, url: str) -> str:
    writer = _Writer(url)
    at = 0
    while markup := _MARKUP.search(html, at):
        writer.add_text(html[at : markup.start()])
        at = _markup(html, markup.start(), writer)
    writer.add_text(html[at:])
    return writer.text()


def _markup(html: str, start: int, writer: "_Writer") -> int:
    """Handle the tag, comment or declaration at this `<`. Returns the position after it."""
    if html.startswith("<!--", start):
        return _after(html, "-->", start + 4)
    closing = html.startswith("</", start)
    name = _NAME.match(html, start + 1 + closing)
    if not name:  # a declaration
        return _after(html, ">", start)
    end = _tag_end(html, name.end())
    tag = name[0].lower()
    if closing:
        writer.close(tag)
    elif tag in _DROPPED or tag == "title":
        return _skip_element(html, tag, end, writer)
    else:
        writer.open(tag, html[name.end() : end][:_MOST_TAG])
    return end


def _after(html: str, mark: str, at: int) -> int:
    at_mark = html.find(mark, at)
    return at_mark + len(mark) if at_mark >= 0 else len(html)


def _tag_end(html: str, at: int) -> int:
    """The position after the `>` that ends a tag. A `>` inside quotes does not count."""
    limit = at + _MOST_TAG
    while stop := _TAG_STOP.search(html, at, limit):
        if stop[0] == ">":
            return stop.end()
        closed = html.find(stop[0], stop.end(), limit)
        if closed < 0:
            return _after(html, ">", stop.end())
        at = closed + 1
    return _after(html, ">", limit)


def _skip_element(html: str, tag: str, at: int, writer: "_Writer") -> int:
    """Skip an element whose content is not shown in its place. The content of a title is stored for the first line."""
    end_tag = re.compile(f"</{tag}", re.IGNORECASE).search(html, at)
    stop = end_tag.start() if end_tag else len(html)
    if tag == "title" and not writer.title:
        writer.title = _SPACE.sub(" ", _unescaped(html[at:stop][:1000])).strip()
    return _after(html, ">", stop)


class _Writer:
    def __init__(self, url: str) -> None:
        self.title = ""
        self._url = url
        self._out: list[str] = []
        self._lists = 0
        self._plain = 0
        """How many `pre` elements are open. Inside them, white space is kept."""
        self._link: tuple[int, str] | None = None

    def add_text(self, text: str) -> None:
        if not text:
            return
        text = _unescaped(text)
        if not self._plain:
            text = _SPACE.sub(" ", text)
            if not self._out or self._out[-1].endswith(("\n", " ")):
                text = text.removeprefix(" ")
        if text:
            self._out.append(text)

    def open(self, tag: str, attributes: str) -> None:
        self._break(tag)
        if special := _OPENERS.get(tag):
            special(self, {key.lower(): a or b or c for key, a, b, c in _ATTRIBUTE.findall(attributes)})
        elif tag in _HEADINGS:
            self._out.append("#" * int(tag[1]) + " ")

    def close(self, tag: str) -> None:
        if special := _CLOSERS.get(tag):
            special(self)
        self._break(tag)

    def text(self) -> str:
        lines = [line.rstrip() for line in "".join(self._out).split("\n")]
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
        return f"{self.title}\n\n{text}" if self.title else text

    def _break(self, tag: str) -> None:
        if tag in _PARAGRAPHS:
            self._out.append("\n\n")
        elif tag in _LINES and self._out and not self._out[-1].endswith("\n"):
            self._out.append("\n")

    # Elements that need more than a new line.

    def _item(self, attributes: dict[str, str]) -> None:
        self._out.append("  " * (self._lists - 1) + "- ")

    def _list(self, attributes: dict[str, str]) -> None:
        self._lists = min(self._lists + 1, 10)

    def _end_list(self) -> None:
        self._lists = max(0, self._lists - 1)

    def _anchor(self, attributes: dict[str, str]) -> None:
        self._end_anchor()
        href = _unescaped(attributes.get("href", ""))
        if href and not href.startswith(("#", "javascript:", "data:")):
            self._link = len(self._out), href

    def _end_anchor(self) -> None:
        if self._link is None:
            return
        (at, href), self._link = self._link, None
        label = "".join(self._out[at:]).strip()
        if label and "\n" not in label:
            self._out[at:] = [f"[{label}]({_absolute(self._url, href)})"]

    def _image(self, attributes: dict[str, str]) -> None:
        if alt := _unescaped(attributes.get("alt", "")).strip():
            self._out.append(f"[image: {alt}]")

    def _code(self, attributes: dict[str, str]) -> None:
        self._end_code()

    def _end_code(self) -> None:
        if not self._plain:
            self._out.append("`")

    def _verbatim(self, attributes: dict[str, str]) -> None:
        self._plain += 1
        self._out.append("```\n")

    def _end_verbatim(self) -> None:
        if self._plain:
            self._plain -= 1
            self._out.append("\n```")

    def _cell(self, attributes: dict[str, str]) -> None:
        if self._out and not self._out[-1].endswith("\n"):
            self._out.append(" | ")


def _unescaped(text: str) -> str:
    try:
        return unescape(text)
    except ValueError:  # a character number of thousands of digits
        return text


def _absolute(url: str, href: str) -> str:
    try:
        return urljoin(url, href)
    except ValueError:
        return href


_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_OPENERS: dict[str, Callable[[_Writer, dict[str, str]], None]] = {
    "li": _Writer._item,
    "ul": _Writer._list,
    "ol": _Writer._list,
    "a": _Writer._anchor,
    "img": _Writer._image,
    "code": _Writer._code,
    "pre": _Writer._verbatim,
    "td": _Writer._cell,
    "th": _Writer._cell,
}
_CLOSERS: dict[str, Callable[[_Writer], None]] = {
    "ul": _Writer._end_list,
    "ol": _Writer._end_list,
    "a": _Writer._end_anchor,
    "code": _Writer._end_code,
    "pre": _Writer._end_verbatim,
}
