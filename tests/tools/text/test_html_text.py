"""Pages as text: what a reader sees, and no page that takes for ever."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from machine import cpu
from polylect.tools.text.html_text import html_to_text
from thoroughness import up_to


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("plain &amp; simple", "plain & simple"),
        ("<p>one<p>two", "one\n\ntwo"),
        ("<h2>A</h2>b<br>c", "## A\n\nb\nc"),
        ("<ul><li>a<li>b<ul><li>c</ul></ul>d", "- a\n- b\n\n  - c\n\nd"),
        ("a\n  b\t<b>c</b> d", "a b c d"),
        ("<pre>a\n  b &lt;c></pre>", "```\na\n  b <c>\n```"),
        ("use <code>x = 1</code>.", "use `x = 1`."),
        ("<a href='/b'>link</a>, <a href='#x'>here</a>", "[link](https://x.org/b), here"),
        ("<a href='javascript:alert(1)'>no</a> <a href=c><p>block</p></a>", "no [block](https://x.org/a/c)"),
        ("<a href=/1>one<a href=/2>two</a>", "[one](https://x.org/1)[two](https://x.org/2)"),
        ("<img src=x alt='A cat'><img src=y>", "[image: A cat]"),
        ("<table><tr><th>a<th>b</tr><tr><td>1</td><td>2</td></tr></table>", "a | b\n1 | 2"),
        ("<title>T &amp; U</title><script>if (a<b) x()</script><style>p{}</style>rest", "T & U\n\nrest"),
        ("<SCRIPT>x</Script >a<!-- b -->c<!doctype html>d<?xml?>e", "acde"),
        ('<p title="a > b">c</p><p title="it\'s">d</p>', "c\n\nd"),
        ("1 < 2 <3 a<b> c", "1 < 2 <3 a c"),
        ("a<script>unclosed <p>b", "a"),
        ("a<!-- unclosed", "a"),
        ("a<p title='unclosed>b</p>c", "a\n\nb\n\nc"),
        ("&#" + "9" * 5000 + ";x", "&#" + "9" * 5000 + ";x"),
        ("<a href='http://[x'>y</a>", "[y](http://[x)"),
        ("İ<script>x</script>İ", "İİ"),
    ],
)
def test_markup_becomes_words(html: str, text: str) -> None:
    assert html_to_text(html, "https://x.org/a/") == text


@given(some.text(some.sampled_from("<>/!-='\" abpli\n&;#x"), max_size=80))
@settings(max_examples=up_to(500), deadline=None)
def test_no_page_is_a_fault(html: str) -> None:
    html_to_text(html, "https://x.org/")


@pytest.mark.parametrize(
    "piece",
    [
        "<",
        "<a",
        "<a ",
        "<!--",
        "<![",
        "</",
        "<a href='",
        '<a b="',
        "<script",
        "<a href=x>",
        "&",
        "<p a" + "b" * 90,
        "<ul>",
        "<pre>",
    ],
)
def test_no_page_takes_more_than_one_pass(piece: str) -> None:
    """A page of ten times the size takes about ten times as long, whatever it repeats."""
    short = min(seconds(piece, 10_000) for _ in range(3))
    assert seconds(piece, 100_000) < 40 * short + cpu(0.05)


@pytest.mark.parametrize("name", ["b" * 4000, "b " * 2000, "b=" * 2000, "b='" * 1300, " " * 4000])
def test_no_tag_takes_long_either(name: str) -> None:
    assert seconds(f"<a {name}>", 300_000) < cpu(1)


def seconds(piece: str, size: int) -> float:
    html = piece * (size // len(piece))
    began = time.process_time()
    html_to_text(html, "https://x.org/")
    return time.process_time() - began
