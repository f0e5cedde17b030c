"""What people read: Markdown and a web page. Whatever was said is text there, never markup."""

import json
import time
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from machine import cpu
from polylect.sessions.formats import claude, html_page, json_document, markdown, omp
from polylect.sessions.formats.conversation import WrongFormat, milliseconds
from polylect.sessions.formats.markdown_html import prose
from polylect.vocab.content import Document, Image, Message, Text, ToolCall, ToolResult
from polylect.vocab.entries import MessageAdded
from sessions.formats.test_exchange import CALLS, EVERYTHING, PNG, conversation, exported, user

TABLE = ("table", "thead", "tbody", "tr", "th", "td")
EDIT = ToolCall("c1", "Edit", {"file_path": "a.py", "old_string": "a = 1", "new_string": "a = 2"})


class Elements(HTMLParser):
    """The elements of a page, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.open: list[str] = []
        self.names: set[str] = set()
        """Of all attributes."""
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)
        self.names |= {name for name, _ in attrs}
        if tag not in ("meta", "br", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, json_document: str) -> None:
        self.text += json_document


def test_markdown_tells_who_said_what_and_what_was_done() -> None:
    page = exported(markdown, conversation(*EVERYTHING)).decode()
    assert page.startswith("# My name\n\n- Workspace: /w\n- Began: 1970-01-01 00:00 UTC\n- Messages: 7\n- Model: m\n")
    assert "- Used: 223 tokens in, 21 out" in page
    for part in (
        "## Context\n\n> Be brief.",
        "## You\n\nplease go\n\n(a picture, image/png)\n\n## Agent\n\n> hm\n\nI look.\n\n**Bash** `echo one`",
        "Result of Bash, error:\n\n```\nExit code 1\n```",
        "*From here on the model saw this summary of the beginning:*\n\n> They said go.\n\n## You\n\nthen go on\n",
    ):
        assert part in page


def test_what_stands_in_a_fence_cannot_end_it() -> None:
    call = ToolCall("c1", "Bash", {"command": "echo ```` `x`"})
    result = ToolResult("c1", "Bash", "```\n# not a heading\n```")
    page = exported(
        markdown, conversation(MessageAdded(Message("assistant", (call,))), MessageAdded(Message("tool", (result,))))
    ).decode()
    assert "````\n```\n# not a heading\n```\n````" in page
    assert "````` echo ```` `x` `````" in page


def test_a_page_is_whole_by_itself_with_calls_folded_and_diffs_in_colour() -> None:
    diff = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a = 1\n+a = 2"
    results = (
        ToolResult("c1", "Edit", diff),
        ToolResult("toolu_1", "Bash", "one"),
        ToolResult("toolu_2", "Bash", "", "denied"),
    )
    called, done = Message("assistant", (EDIT, *CALLS)), Message("tool", results)
    page = exported(html_page, conversation(*EVERYTHING[:3], MessageAdded(called), MessageAdded(done))).decode()
    elements = Elements(page)
    assert elements.open == []
    assert elements.found.count("details") == 3
    assert elements.found.count("img") == 1
    assert f'src="data:image/png;base64,{PNG}"' in page
    assert '<span class="del">-a = 1</span><span class="add">+a = 2</span>' in page
    assert '<span class="denied">denied</span>' in page
    assert "http" not in page
    assert "prefers-color-scheme: dark" in page


NASTY = '<script>alert(1)</script> & "quotes" \'</pre></style> <img src=x onerror=alert(1)>'


def test_nothing_that_was_said_becomes_markup() -> None:
    call = ToolCall(NASTY, NASTY, {NASTY: NASTY, "command": NASTY})
    formed = f"`{NASTY}` **{NASTY}**\n# {NASTY}\n- {NASTY}\n```{NASTY}\n{NASTY}\n```"
    messages = (
        user(NASTY, formed, Document(NASTY, NASTY, NASTY)),
        user(Image(NASTY, PNG), Image("image/png", '"><script>'), Image("image/svg+xml", PNG)),
        Message("assistant", (call,), model=NASTY),
        Message("tool", (ToolResult(NASTY, NASTY, NASTY),)),
    )
    elements = Elements(exported(html_page, conversation(*map(MessageAdded, messages))).decode())
    assert "script" not in elements.found
    assert "img" not in elements.found
    assert elements.text.count(NASTY) >= 8


@given(st.text(alphabet="`*#-+1. \n<ab~&", max_size=200) | st.text(alphabet='|-: \n>[]()<"`\\a', max_size=200))
def test_prose_of_any_text_is_well_formed_and_loses_no_letter(text: str) -> None:
    elements = Elements(prose(text))
    assert elements.open == []
    assert set(elements.found) <= {"p", "br", "h3", "ul", "ol", "li", "pre", "code", "strong", *TABLE, "blockquote"}


def test_prose_knows_what_agents_write() -> None:
    assert prose("# One\ntwo\nthree\n\n- a\n  b\n- c\n\n1. d\n```py\nx < 1\n```") == (
        "<h3>One</h3>\n<p>two<br>three</p>\n<ul><li>a<br>b</li><li>c</li></ul>\n<ol><li>d</li></ol>\n"
        "<pre><code>x &lt; 1</code></pre>"
    )
    assert prose("`a*b` and **c**, 2 * 3") == "<p><code>a*b</code> and <strong>c</strong>, 2 * 3</p>"


def test_prose_has_tables_quotes_and_links() -> None:
    table = "| col a | col `b` |\n|---|:-:|\n| 1 | x \\| y |\n| 2 |\n\nafter"
    assert prose(f"before\n{table}") == (
        "<p>before</p>\n<table><thead><tr><th>col a</th><th>col <code>b</code></th></tr></thead><tbody>"
        "<tr><td>1</td><td>x | y</td></tr><tr><td>2</td><td></td></tr></tbody></table>\n<p>after</p>"
    )
    assert prose("> a quote\n> > inner\nafter") == (
        "<blockquote><p>a quote</p><blockquote><p>inner</p></blockquote></blockquote>\n<p>after</p>"
    )
    anchor = '<a href="https://a.org/x_(y)?q=1&amp;r" rel="noopener noreferrer">'
    assert prose('see [link](https://a.org/x_(y)?q=1&r "title").') == f"<p>see {anchor}link</a>.</p>"
    assert prose("<https://a.org/x_(y)?q=1&r>") == f"<p>{anchor}https://a.org/x_(y)?q=1&amp;r</a></p>"


@pytest.mark.parametrize(
    "text",
    [
        "[x](javascript:alert(1))",
        "[x](JaVaScRiPt:alert(1))",
        "[x](data:text/html,<script>)",
        "[x](//evil.org)",
        "[x](java\nscript:alert(1))",
        "<javascript:alert(1)>",
        "a | b\nc | d",
        "no - dash",
    ],
)
def test_what_could_run_or_is_none_stays_text(text: str) -> None:
    elements = Elements(prose(text))
    assert set(elements.found) <= {"p", "br"}


def test_an_address_cannot_leave_its_attribute() -> None:
    parsed = Elements(prose('[<b>x</b>](https://a.org/"onclick="alert(1)) and <https://a.org/"><script>'))
    assert set(parsed.found) <= {"p", "a"}
    assert parsed.names <= {"href", "rel"}


@pytest.mark.parametrize("piece", ["[", "[a](https://x", "<https://a(", "|", "> ", "**a", "`a", "|-|\n", "a|b\n-|-\n"])
def test_long_text_takes_no_time(piece: str) -> None:
    began = time.process_time()
    prose(piece * (200_000 // len(piece)))
    took = time.process_time() - began
    assert took < 2 or took < cpu(2)


def test_the_json_document_holds_everything() -> None:
    document = json.loads(exported(json_document, conversation(*EVERYTHING)))
    assert (document["session"], document["workspace"], document["name"], document["contexts"]) == (
        "s1",
        "/w",
        "My name",
        ["Be brief."],
    )
    assert [next(iter(set(step) - {"at"})) for step in document["steps"]] == ["message"] * 6 + ["compacted", "message"]
    assert document["steps"][0]["message"]["content"][1] == {"type": "image", "media_type": "image/png", "data": PNG}


def test_text_that_utf_8_cannot_say_is_no_reason_to_fail() -> None:
    broken = conversation(
        MessageAdded(user("lone \ud800 surrogate")), MessageAdded(Message("assistant", (Text("\ud800"),)))
    )
    for form in (markdown, html_page, omp, claude):
        assert b"surrogate" in exported(form, broken)


KEYS = ["type", "id", "uuid", "message", "content", "parentId", "parentUuid", "role", "text", "tool_use_id", "input"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=12,
)
HEADER = {"type": "session", "version": 3, "id": "x"}
TYPES = st.sampled_from(["user", "assistant", "system", "message", "compaction"])


@given(st.lists(st.tuples(TYPES, JSON, JSON), max_size=6))
def test_files_of_any_content_are_taken_or_refused_and_never_a_crash(values: list[tuple[str, object, object]]) -> None:
    lines = [
        json.dumps({"type": kind, "uuid": "a", "message": one, "content": two}).encode() for kind, one, two in values
    ]
    for take, file in ((claude.import_lines, lines), (omp.import_lines, [json.dumps(HEADER).encode(), *lines])):
        try:
            assert take(file).bodies
        except WrongFormat:
            pass


@pytest.mark.parametrize("value", ["12", "tomorrow", "", "2026-99-99"])
def test_a_bad_time_is_none(value: str) -> None:
    assert milliseconds(value) == 0
