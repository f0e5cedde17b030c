"""The little Markdown that agents write, as HTML: paragraphs, headings, lists, code, bold. The rest stays text."""

import re
from collections.abc import Callable, Iterator
from html import escape

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r"^#{1,6} +(.*)")
_ITEM = re.compile(r"^\s*(?:[-*+]|(\d+)[.)]) +(.*)")
_LONGEST = 10_000
"""A line that is longer is not prose."""
_INLINE = re.compile(r"(`+)(.+?)\1|\*\*(?=\S)(.+?)\*\*")


def prose(text: str) -> str:
    return "\n".join(_blocks(text.split("\n")))


def _blocks(lines: list[str]) -> Iterator[str]:
    at = 0
    while at < len(lines):
        line = lines[at]
        if fence := _FENCE.match(line):
            end = _fence_end(lines, at, fence[1])
            yield f"<pre><code>{escape(chr(10).join(lines[at + 1 : end]))}</code></pre>"
            at = end + 1
        elif found := _HEADING.match(line):
            yield f"<h3>{_inline(found[1])}</h3>"
            at += 1
        elif item := _ITEM.match(line):
            end = _run(lines, at, lambda line: bool(_ITEM.match(line) or line.startswith("  ")))
            yield _list(lines[at:end], "ol" if item[1] else "ul")
            at = end
        elif not line.strip():
            at += 1
        else:
            end = _run(lines, at, _goes_on)
            yield f"<p>{'<br>'.join(map(_inline, lines[at:end]))}</p>"
            at = end


def _goes_on(line: str) -> bool:
    return bool(line.strip()) and not (_FENCE.match(line) or _HEADING.match(line) or _ITEM.match(line))


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


def _inline(text: str) -> str:
    if len(text) > _LONGEST:
        return escape(text)
    parts: list[str] = []
    at = 0
    for found in _INLINE.finditer(text):
        parts.append(escape(text[at : found.start()]))
        inside = found[2] or found[3]
        parts.append(f"<code>{escape(inside)}</code>" if found[1] else f"<strong>{escape(inside)}</strong>")
        at = found.end()
    return "".join((*parts, escape(text[at:])))
