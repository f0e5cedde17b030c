"""Converts the Markdown that agents write to HTML, for the exported page (`html_page.py`).

Paragraphs, headings, lists, tables, block quotes, code, bold and links become elements; everything else stays text. The
text is not trusted: it is escaped before it gets into an element, and only http, https and mailto addresses become
links, so that no link can run a script.
"""

import re
from collections.abc import Callable, Iterator
from html import escape

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r"^#{1,6} +(.*)")
_ITEM = re.compile(r"^\s*(?:[-*+]|(\d+)[.)]) +(.*)")
_LONGEST = 10_000
"""A line that is longer is not prose."""
_DEEPEST = 8
"""Quotes inside quotes; those further in stay text."""
_MOST_COLUMNS = 50
_QUOTE = re.compile(r"^ {0,3}> ?")
_RULE = re.compile(r":?-+:?")
_BAR = re.compile(r"(?<!\\)\|")
_ADDRESS = r"(?:https?://|mailto:)[^\s()<>\x00-\x20\x7f]+(?:\([^\s()<>\x00-\x20\x7f]*\)[^\s()<>\x00-\x20\x7f]*)*"
_INLINE = re.compile(
    r"(?P<ticks>`+)(?P<code>.+?)(?P=ticks)"
    r"|\*\*(?=\S)(?P<bold>.+?)\*\*"
    rf"|\[(?P<words>[^\[\]]+)\]\((?P<link>{_ADDRESS})(?: +\"[^\"]*\")?\)"
    rf"|<(?P<bare>{_ADDRESS})>",
    re.IGNORECASE,
)


def prose(text: str) -> str:
    return "\n".join(_blocks(text.split("\n")))


def _blocks(lines: list[str], depth: int = 0) -> Iterator[str]:
    at = 0
    while at < len(lines):
        line = lines[at]
        if fence := _FENCE.match(line):
            end = _fence_end(lines, at, fence[1])
            yield f"<pre><code>{escape(chr(10).join(lines[at + 1 : end]))}</code></pre>"
            at = end + 1
        elif heading := _HEADING.match(line):
            yield f"<h3>{_inline(heading[1])}</h3>"
            at += 1
        elif item := _ITEM.match(line):
            end = _run(lines, at, lambda line: bool(_ITEM.match(line) or line.startswith("  ")))
            yield _list(lines[at:end], "ol" if item[1] else "ul")
            at = end
        elif _QUOTE.match(line) and depth < _DEEPEST:
            end = _run(lines, at, lambda line: bool(_QUOTE.match(line)))
            inside = [_QUOTE.sub("", line) for line in lines[at:end]]
            yield f"<blockquote>{''.join(_blocks(inside, depth + 1))}</blockquote>"
            at = end
        elif _is_table(lines, at):
            end = _run(lines, at, lambda line: "|" in line and bool(line.strip()))
            yield _table(lines[at], lines[at + 2 : end])
            at = end
        elif not line.strip():
            at += 1
        else:
            end = at + 1
            while end < len(lines) and _goes_on(lines[end]) and not _is_table(lines, end):
                end += 1
            yield f"<p>{'<br>'.join(map(_inline, lines[at:end]))}</p>"
            at = end


def _goes_on(line: str) -> bool:
    begins = _FENCE.match(line) or _HEADING.match(line) or _ITEM.match(line) or _QUOTE.match(line)
    return bool(line.strip()) and not begins


def _run(lines: list[str], at: int, belongs: Callable[[str], bool]) -> int:
    end = at + 1
    while end < len(lines) and belongs(lines[end]):
        end += 1
    return end


def _fence_end(lines: list[str], at: int, fence: str) -> int:
    """Where it is closed, or the end of the text."""
    closing = (number for number in range(at + 1, len(lines)) if lines[number].strip().startswith(fence))
    return next(closing, len(lines))


def _list(lines: list[str], kind: str) -> str:
    items: list[str] = []
    for line in lines:
        if item := _ITEM.match(line):
            items.append(_inline(item[2]))
        else:
            items[-1] += f"<br>{_inline(line.strip())}"
    return f"<{kind}>{''.join(f'<li>{item}</li>' for item in items)}</{kind}>"


def _is_table(lines: list[str], at: int) -> bool:
    """A line with bars, and below it one of dashes for each of its columns."""
    if "|" not in lines[at] or at + 1 == len(lines) or "-" not in lines[at + 1]:
        return False
    head, rule = _cells(lines[at]), _cells(lines[at + 1])
    return 0 < len(head) == len(rule) <= _MOST_COLUMNS and all(_RULE.fullmatch(cell) for cell in rule)


def _cells(line: str) -> list[str]:
    """What is between the bars; those at its ends may be left out, and one after a backslash is text."""
    line = line.strip()[:_LONGEST].removeprefix("|")
    cells = _BAR.split(line)
    if len(cells) > 1 and not cells[-1]:
        cells.pop()
    return [cell.strip().replace("\\|", "|") for cell in cells]


def _table(head: str, rows: list[str]) -> str:
    names = _cells(head)
    body = "".join(_row((_cells(row) + [""] * len(names))[: len(names)], "td") for row in rows)
    return f"<table><thead>{_row(names, 'th')}</thead><tbody>{body}</tbody></table>"


def _row(cells: list[str], kind: str) -> str:
    return f"<tr>{''.join(f'<{kind}>{_inline(cell)}</{kind}>' for cell in cells)}</tr>"


def _inline(text: str) -> str:
    if len(text) > _LONGEST:
        return escape(text)
    parts: list[str] = []
    at = 0
    for match in _INLINE.finditer(text):
        parts.append(escape(text[at : match.start()]))
        parts.append(_element(match))
        at = match.end()
    return "".join((*parts, escape(text[at:])))


def _element(match: re.Match[str]) -> str:
    if match["code"]:
        return f"<code>{escape(match['code'])}</code>"
    if match["bold"]:
        return f"<strong>{escape(match['bold'])}</strong>"
    address = match["link"] or match["bare"]
    return f'<a href="{escape(address)}" rel="noopener noreferrer">{escape(match["words"] or address)}</a>'
