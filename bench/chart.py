"""The figures as a picture: one small bar chart each, plain SVG, readable on light and on dark."""

from html import escape
from typing import NamedTuple

from bench.table import Result, more_is_better, number

_STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600 } .small { font-size: 11px } .dim { fill: #656d76 }
.card { fill: #ffffff; stroke: #d0d7de } .page { fill: #f6f8fa } .peer { fill: #afb8c1 } .ours { fill: #1a7f37 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .dim { fill: #9198a1 }
  .card { fill: #161b22; stroke: #30363d } .page { fill: #0d1117 } .peer { fill: #57606a } .ours { fill: #3fb950 }
}"""


class Panel(NamedTuple):
    figure: str
    title: str
    unit: str


PANELS = (
    Panel("ready ms", "Start to ready", "ms"),
    Panel("first answer ms", "Start to the first answer", "ms"),
    Panel("one-shot to request ms", "One-shot: start to the model's request", "ms"),
    Panel("idle RSS MiB", "Memory when idle", "MiB"),
    Panel("prompt to request, warm ms", "Prompt to request", "ms"),
    Panel("delta to line, warm ms", "Delta to line", "ms"),
    Panel("20000 deltas, per s", "Deltas per second, a line each", "/s"),
    Panel("tool turn ms", "Tool turn", "ms"),
)
_WIDTH, _ROW, _HEAD, _GAP, _FOOT, _COLUMNS = 420, 20, 40, 12, 30, 2
_NAME, _BAR = 72, 230


def draw(result: Result, caption: str) -> str:
    who = [result.first, *result.peers]
    height = _HEAD + _ROW * len(who) + 10
    panels = [panel for panel in PANELS if panel.figure in result.engines.get(result.first, {})]
    rows = -(-len(panels) // _COLUMNS)
    whole = (_COLUMNS * (_WIDTH + _GAP) + _GAP, rows * (height + _GAP) + _GAP + _FOOT)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole[0]} {whole[1]}" role="img">',
        f"<title>polylect and its peers, measured in one run</title><style>{_STYLE}</style>",
        f'<rect class="page" width="{whole[0]}" height="{whole[1]}" rx="6"/>',
    ]
    for index, panel in enumerate(panels):
        left, top = _GAP + index % _COLUMNS * (_WIDTH + _GAP), _GAP + index // _COLUMNS * (height + _GAP)
        parts.append(f'<g transform="translate({left},{top})">{_panel(result, panel, who, height)}</g>')
    parts.append(f'<text class="small dim" x="{_GAP}" y="{whole[1] - 12}">{escape(caption)}</text></svg>\n')
    return "\n".join(parts)


def _panel(result: Result, panel: Panel, who: list[str], height: int) -> str:
    found = {
        name: result.engines[name][panel.figure].median for name in who if panel.figure in result.engines.get(name, {})
    }
    order = sorted(found, key=found.__getitem__, reverse=more_is_better(panel.figure))
    most, better = max(found.values()), "more" if more_is_better(panel.figure) else "less"
    parts = [
        f'<rect class="card" width="{_WIDTH}" height="{height}" rx="6"/>',
        f'<text class="title" x="12" y="24">{panel.title}</text>',
        f'<text class="small dim" x="{_WIDTH - 12}" y="24" text-anchor="end">{better} is better</text>',
    ]
    for index, name in enumerate(order):
        top, ours = _HEAD + index * _ROW, name == result.first
        parts.append(_bar(name, found[name], most, panel.unit, top, ours=ours))
    for index, name in enumerate((name for name in who if name not in found), len(order)):
        parts.append(_blank(name, _why(result, name, panel.figure), _HEAD + index * _ROW))
    return "\n".join(parts)


def _why(result: Result, name: str, figure: str) -> str:
    merged = figure.replace(", per s", ", merged, per s")
    return "several in a line" if merged in result.engines.get(name, {}) else "fails, see docs/performance.md"


def _bar(name: str, value: float, most: float, unit: str, top: int, *, ours: bool) -> str:
    look, kind = ("title", "ours") if ours else ("", "peer")
    left, base, width = 12 + _NAME, top + 13, max(1.0, value / most * _BAR)
    label = f'<text class="{look}" x="12" y="{base}">{escape(name)}</text>'
    bar = f'<rect class="{kind}" x="{left}" y="{top + 3}" width="{width:.1f}" height="13" rx="2"/>'
    return f'{label}{bar}<text class="small" x="{left + width + 6:.1f}" y="{base}">{number(value)} {unit}</text>'


def _blank(name: str, why: str, top: int) -> str:
    label = f'<text x="12" y="{top + 13}">{escape(name)}</text>'
    return f'{label}<text class="small dim" x="{12 + _NAME}" y="{top + 13}">{why}</text>'
