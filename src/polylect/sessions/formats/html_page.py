"""Exports a conversation as one self-contained web page: folded calls, coloured diffs, light and dark.

Everything that was said is escaped first, so that no text of a conversation becomes markup.
"""

import re
from collections.abc import Iterator
from html import escape

from polylect.sessions.formats.conversation import Conversation, iso
from polylect.sessions.formats.markdown_html import prose
from polylect.sessions.formats.wording import about, arguments, change, facts, heading, is_diff
from polylect.vocab.content import Block, Document, Image, Message, Text, Thinking, ToolCall, ToolResult
from polylect.vocab.entries import Compacted

_MEDIA_TYPE = re.compile(r"image/(png|jpeg|gif|webp)")
_BASE64 = re.compile(r"[A-Za-z0-9+/=]*")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_KINDS = {"---": "hunk", "+++": "hunk", "+": "add", "-": "del", "@": "hunk"}
_STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --paper: #fbfbfa; --soft: #65696f; --line: #dfe1e4; --box: #f1f2f3;
  --you: #1f5fbf; --agent: #1e7b4b; --bad: #b3261e; --add: #d9f2e0; --del: #fbe0de; --hunk: #e4ecfa; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e6e9; --paper: #17181a; --soft: #9aa0a8; --line: #34373c;
  --box: #212327; --you: #7fb0ff; --agent: #6fcf97; --bad: #ff8a80; --add: #17402a; --del: #4d2020; --hunk: #22304a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1.25rem 6rem; max-width: 50rem; background: var(--paper); color: var(--ink);
  font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .75rem; }
h2, h3, h4 { font-size: 1.05rem; margin: 1.2rem 0 .3rem; }
p, ul, ol { margin: .5rem 0; } ul, ol { padding-left: 1.4rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: 0 0 2rem; font-size: .9rem;
  color: var(--soft); } dt { font-weight: 600; } dd { margin: 0; }
article { margin: 0 0 1.1rem; padding: 0 0 0 1rem; border-left: 3px solid var(--line); }
article.user { border-color: var(--you); margin-top: 2.2rem; } article.assistant { border-color: var(--agent); }
header { font-size: .8rem; font-weight: 600; color: var(--soft); } header time { font-weight: 400; margin-left: .5rem; }
article.user header b { color: var(--you); } article.assistant header b { color: var(--agent); }
code, pre { font: .85em/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
code { background: var(--box); padding: .1em .3em; border-radius: 4px; }
pre { background: var(--box); padding: .7rem .8rem; border-radius: 6px; overflow: auto; max-height: 32rem;
  margin: .5rem 0; white-space: pre-wrap; } pre code { padding: 0; background: none; font-size: 1em; }
pre.diff span { display: block; margin: 0 -.8rem; padding: 0 .8rem; min-height: 1.5em; }
.add { background: var(--add); } .del { background: var(--del); } .hunk { background: var(--hunk); color: var(--soft); }
details { margin: .5rem 0; border: 1px solid var(--line); border-radius: 6px; padding: 0 .8rem; }
summary { cursor: pointer; padding: .4rem 0; font-size: .9rem; white-space: nowrap; overflow: hidden;
  text-overflow: ellipsis; }
summary code { background: none; color: var(--soft); } .error, .denied, .cancelled, .skipped { color: var(--bad); }
details.thought { border-style: dashed; color: var(--soft); }
aside { margin: 2rem 0; padding: .6rem 1rem; border: 1px dashed var(--soft); border-radius: 6px; color: var(--soft); }
table { border-collapse: collapse; margin: .5rem 0; display: block; overflow-x: auto; }
th, td { border: 1px solid var(--line); padding: .2rem .6rem; text-align: left; vertical-align: top; }
blockquote { margin: .5rem 0; padding: 0 0 0 .8rem; border-left: 3px solid var(--line); color: var(--soft); }
a { color: var(--you); }
img { max-width: 100%; max-height: 30rem; border-radius: 6px; display: block; margin: .5rem 0; }
@media print { pre { max-height: none; } }
"""


def pieces(conversation: Conversation) -> Iterator[bytes]:
    """A message at a time: a thread that makes a long page lets others have their say."""
    title = escape(heading(conversation))
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts(conversation))
    page = f"<!doctype html>\n<html><head>{head}<title>{title}</title><style>{_STYLE}</style></head>"
    yield _encoded(f"{page}\n<body><h1>{title}</h1>\n<dl>{listed}</dl>\n")
    for part in _parts(conversation):
        yield _encoded(part)
        yield b"\n"
    yield b"</body></html>\n"


def _encoded(part: str) -> bytes:
    """Control characters, which HTML has no place for, are shown: a terminal with the page's source would obey them."""
    shown = _CONTROLS.sub(lambda match: f"\\x{ord(match[0]):02x}", part.replace("\r\n", "\n"))
    return shown.encode("utf-8", "replace")


def _parts(conversation: Conversation) -> Iterator[str]:
    for context in conversation.replay.contexts:
        yield f"<aside>Context<br>{prose(context)}</aside>"
    steps = list(conversation.steps())
    results = {
        block.call: block
        for _, step in steps
        if isinstance(step, Message)
        for block in step.content
        if isinstance(block, ToolResult)
    }
    for at, step in steps:
        if isinstance(step, Compacted):
            yield f"<aside>From here on the model saw this summary of the beginning:{prose(step.summary)}</aside>"
        elif step.role != "tool":  # results stand with their calls
            yield _article(at, step, results)


def _article(at: int, message: Message, results: dict[str, ToolResult]) -> str:
    who = "You" if message.role == "user" else "Agent"
    time = iso(at)
    head = f'<header><b>{who}</b><time datetime="{time}">{time[:16].replace("T", " ")}</time></header>'
    blocks = "\n".join(_block(block, results) for block in message.content)
    return f'<article class="{message.role}">{head}\n{blocks}</article>'


def _block(block: Block, results: dict[str, ToolResult]) -> str:
    match block:
        case Text(text):
            return prose(text)
        case Thinking(text):
            return _folded("thought", "Thinking", prose(text)) if text.strip() else ""
        case ToolCall() as call:
            return _call(call, results.get(call.call))
        case Image():
            return _image(block)
        case Document(name, _, text):
            return _folded("file", f"Attached: <code>{escape(name)}</code>", _pre(text))
        case ToolResult():
            return ""


def _call(call: ToolCall, result: ToolResult | None) -> str:
    outcome = result.outcome if result else "cancelled"
    how = "" if outcome == "ok" else f' <span class="{outcome}">{outcome}</span>'
    summary = f"<b>{escape(call.name)}</b> <code>{escape(about(call))}</code>{how}"
    edit = change(call)
    shows_diff = result is not None and is_diff(result.output)
    request = "" if shows_diff else _diff(edit) if edit else _pre(arguments(call.args))
    output = (_diff(result.output) if shows_diff else _pre(result.output)) if result else ""
    pictures = "".join(map(_image, result.images)) if result else ""
    return _folded("call", summary, request + output + pictures)


def _folded(kind: str, summary: str, body: str) -> str:
    return f'<details class="{kind}"><summary>{summary}</summary>{body}</details>'


def _pre(text: str) -> str:
    return f"<pre>{escape(text.rstrip())}</pre>" if text.strip() else ""


def _diff(text: str) -> str:
    kinds = ((_KINDS.get(line[:3]) or _KINDS.get(line[:1], ""), line) for line in text.rstrip().split("\n"))
    lines = (f'<span class="{kind}">{escape(line)}</span>' for kind, line in kinds)
    return f'<pre class="diff">{"".join(lines)}</pre>'


def _image(image: Image) -> str:
    """Only what can be nothing but a picture gets into an address."""
    if not (image.data and _MEDIA_TYPE.fullmatch(image.media_type) and _BASE64.fullmatch(image.data)):
        return "<p>(a picture that cannot be shown)</p>"
    return f'<img alt="" src="data:{image.media_type};base64,{image.data}">'
