"""HTML of a comparison: one page without scripts and without anything from the network.

Names and texts come from data files and models. They are escaped, their control characters (also those that turn the
direction of writing) become `�`, and each stands in a `<bdi>`, so that a text in Arabic or Hebrew does not reorder its
neighbours. The page also forbids scripts, images and connections by its own content security policy.
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Iterable, Sequence
from hashlib import sha256
from html import escape
from math import isfinite
from typing import TYPE_CHECKING

from assay.core.report import PairedMetric
from assay.store.render.flips import Change, cut, flip_texts, word_changes
from assay.store.render.screen import safe
from assay.store.render.tables import (
    TextTable,
    comparison_table,
    cost_table,
    is_number,
    judge_lines,
    overview_rows,
    overview_table,
    purpose_table,
    row_remarks,
    slice_remarks,
    slice_rows,
    slice_table,
)

if TYPE_CHECKING:
    from assay.store.comparison import Comparison, ComparisonResult, Flip, Flips, OneSided, Side

# Characters of an answer or expected value. The page of 20 flips stays below 500 KB.
MAX_CHARS = 4000
# Size of an interval bar, and the space on both sides for the caps.
_WIDTH, _HEIGHT, _MARGIN = 160, 16, 4

_STYLE = """\
:root { color-scheme: light dark; --text: #1f2937; --muted: #6b7280; --line: #e5e7eb; --page: #fff; --card: #f9fafb;
  --better: #15803d; --worse: #b91c1c; --unclear: #6b7280; --added: #dcfce7; --removed: #fee2e2; }
@media (prefers-color-scheme: dark) { :root { --text: #e5e7eb; --muted: #9ca3af; --line: #374151; --page: #111827;
  --card: #1f2937; --better: #4ade80; --worse: #f87171; --unclear: #9ca3af; --added: #14532d; --removed: #7f1d1d; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1.5rem; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 1rem; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .75rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
a { color: inherit; } .muted { color: var(--muted); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem .3rem 0; border-bottom: 1px solid var(--line); text-align: left; white-space: nowrap; }
th { color: var(--muted); font-weight: 500; } td.number, th.number { text-align: right; }
th.middle { text-align: center; }
.better { color: var(--better); } .worse { color: var(--worse); } .unclear, .equal { color: var(--unclear); }
td.verdict { font-weight: 600; }
svg { display: block; } svg .axis { stroke: var(--line); } svg .zero { stroke: var(--muted); }
svg .bar { stroke: currentColor; stroke-width: 2; } svg circle { fill: currentColor; }
.sides { display: grid; grid-template-columns: 1fr 1fr; gap: .75rem; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: .4rem; padding: .6rem .8rem;
  min-width: 0; }
.card p { margin: 0; overflow-wrap: anywhere; }
.label { color: var(--muted); font-size: .85em; margin: 0; }
pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; font: 13px/1.5 ui-monospace, monospace; }
article { margin: 0 0 1rem; padding: .75rem 0 0; border-top: 1px solid var(--line); }
article > p { margin: 0 0 .4rem; overflow-wrap: anywhere; }
article .card { margin-bottom: .5rem; }
summary { cursor: pointer; font-weight: 600; margin: 1.5rem 0 .5rem; }
del { background: var(--removed); text-decoration: none; } ins { background: var(--added); text-decoration: none; }
ul { margin: .5rem 0; padding-left: 1.2rem; overflow-wrap: anywhere; }
@media (max-width: 42rem) { .sides { grid-template-columns: 1fr; } body { padding: .8rem; } }
@page { size: A4 landscape; margin: 12mm; }
@media print {
  :root { --text: #000; --muted: #444; --line: #bbb; --page: #fff; --card: #fff; --better: #15803d; --worse: #b91c1c;
    --unclear: #444; --added: #dcfce7; --removed: #fee2e2; }
  body { max-width: none; padding: 0; font-size: 10px; } pre { font-size: 9px; } .wide { overflow: visible; }
  article, tr, .card { break-inside: avoid; } h2, h3, summary { break-after: avoid; }
  del, ins { print-color-adjust: exact; } del { text-decoration: line-through; } ins { text-decoration: underline; }
}
"""


def comparison_html(result: ComparisonResult) -> str:
    """Return the page of all comparisons of a command."""
    comparisons = result.comparisons
    title = comparisons[0].title
    if len(comparisons) > 1:
        title = f"{comparisons[0].base.run}: {len(comparisons)} comparisons"
    style = b64encode(sha256(_STYLE.encode()).digest()).decode()
    parts = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        # No script runs and nothing is loaded, even if a text should ever slip through the escaping.
        f"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{style}'\">",
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{_plain(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>",
        f"<h1>{_bdi(title)}</h1>",
        comparison_body(result),
        "</body>\n</html>\n",
    ]
    return "\n".join(parts)


def comparison_body(result: ComparisonResult) -> str:
    """Return all comparisons as part of a page. Its classes are those of `_STYLE`."""
    comparisons = result.comparisons
    parts: list[str] = []
    if len(comparisons) > 1:
        rows = [row for _, row in overview_rows(comparisons)]
        links = [
            f'<li><a href="#comparison-{number}">{_bdi(comparison.title)}</a></li>'
            for number, comparison in enumerate(comparisons, 1)
        ]
        parts += ["<h2>Overview</h2>", _paired_table(overview_table(comparisons), rows)]
        parts.append(f"<ul>{''.join(links)}</ul>")
    for number, comparison in enumerate(comparisons, 1):
        parts.append(f'<section id="comparison-{number}">')
        if len(comparisons) > 1:
            parts.append(f"<h2>{_bdi(comparison.title)}</h2>")
        parts += [*_comparison(comparison), "</section>"]
    parts.append(_notes(result.notes))
    return "\n".join(filter(None, parts))


def _comparison(comparison: Comparison) -> list[str]:
    parts = ['<div class="sides">', _side("base", comparison.base), _side("new", comparison.new), "</div>"]
    if comparison.rows:
        parts += ["<h3>Metrics</h3>", _paired_table(comparison_table(comparison.rows), comparison.rows)]
    else:
        parts.append("<p>No case has a score on either side.</p>")
    parts.append(_notes(row_remarks(comparison.rows)))
    if comparison.slices:
        parts.append(f"<h3>By {_plain(comparison.slices[0].by)}</h3>")
        rows = [row for _, row in slice_rows(comparison.slices)]
        parts.append(_paired_table(slice_table(comparison.slices), rows))
        parts.append(_notes(slice_remarks(comparison.slices)))
    parts += _flips("Now failing", comparison.now_failing)
    parts += _flips("Now passing", comparison.now_passing)
    parts += _one_sided("base", comparison.only_base)
    parts += _one_sided("new", comparison.only_new)
    parts += ["<h3>Time and cost</h3>", _table(cost_table(comparison))]
    purposes = purpose_table(comparison)
    if purposes.rows:
        parts.append(_table(purposes))
    return [*parts, _notes(comparison.notes)]


def _side(name: str, side: Side) -> str:
    started = time.strftime("%Y-%m-%d %H:%M", time.localtime(side.started))
    subject = f"{side.subject} (reference)" if side.reference else side.subject
    lines = [f"<strong>{_bdi(side.run)}</strong>", _bdi(subject)]
    if side.model not in ("", side.subject):
        lines.append(_bdi(side.model))
    lines.append(f'<span class="muted">{side.suite} · {started} · {side.cases:,} cases</span>')
    lines += [f'<span class="muted">{_bdi(line)}</span>' for line in judge_lines(side.judges)]
    return f'<div class="card"><p class="label">{name}</p><p>{"<br>".join(lines)}</p></div>'


# Tables


def _paired_table(table: TextTable, rows: Sequence[PairedMetric]) -> str:
    """Return a table of paired rows, with a bar of the interval before the last column."""
    reaches: dict[str, float] = {}
    for row in rows:
        # Rows of one metric share a scale. Different metrics may have different units.
        ends = [abs(value) for value in (*(row.interval or ()), row.difference) if value is not None]
        reaches[row.metric] = max([reaches.get(row.metric, 0.0), *filter(isfinite, ends)])
    bars = [_bar(row, reaches[row.metric]) for row in rows]
    return _table(table, bars, [row.verdict for row in rows])


def _table(table: TextTable, bars: Sequence[str] = (), verdicts: Sequence[str] = ()) -> str:
    """Return a table. Columns that hold one number each are aligned to the right."""
    columns = list(zip(*table.rows, strict=True)) or [("",)] * len(table.header)
    right = [False] * table.names + [all(map(is_number, column)) for column in columns[table.names :]]
    classes = [' class="number"' if to_right else "" for to_right in right]
    head = [f"<th{class_}>{_bdi(cell)}</th>" for class_, cell in zip(classes, table.header, strict=True)]
    if bars:
        head.insert(-1, '<th class="middle">− 0 +</th>')
    lines = [f'<div class="wide"><table>\n<thead><tr>{"".join(head)}</tr></thead>\n<tbody>']
    for number, row in enumerate(table.rows):
        cells = [f"<td{class_}>{_bdi(cell)}</td>" for class_, cell in zip(classes, row, strict=True)]
        if bars:
            verdict = verdicts[number]
            cells[-1] = f'<td class="verdict {verdict}">{_bdi(row[-1])}</td>'
            cells.insert(-1, f'<td class="{verdict}">{bars[number]}</td>')
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return "\n".join([*lines, "</tbody></table></div>"])


def _bar(row: PairedMetric, reach: float) -> str:
    """Return a picture of the difference with its interval, around a line for 0. Empty without a finite difference."""
    if row.difference is None or not isfinite(row.difference):
        return ""
    middle, height = _WIDTH / 2, _HEIGHT / 2

    def x(value: float) -> float:
        share = value / reach if reach else 0.0
        return round(middle + share * (middle - _MARGIN), 1)

    text = f"difference {row.difference:+.4f}"
    lines = [
        f'<line class="axis" x1="{_MARGIN}" x2="{_WIDTH - _MARGIN}" y1="{height}" y2="{height}"/>',
        f'<line class="zero" x1="{middle}" x2="{middle}" y1="0" y2="{_HEIGHT}"/>',
    ]
    if row.interval is not None:
        low, high = x(row.interval[0]), x(row.interval[1])
        text += f", 95% interval {row.interval[0]:+.4f} to {row.interval[1]:+.4f}"
        lines.append(f'<line class="bar" x1="{low}" x2="{high}" y1="{height}" y2="{height}"/>')
        lines += [
            f'<line class="bar" x1="{end}" x2="{end}" y1="{height - 4}" y2="{height + 4}"/>' for end in (low, high)
        ]
    lines.append(f'<circle cx="{x(row.difference)}" cy="{height}" r="3.5"/>')
    size = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    return f'<svg {size} role="img" aria-label="{text}"><title>{text}</title>{"".join(lines)}</svg>'


# Cases


def _flips(name: str, flips: Flips) -> list[str]:
    if not flips.count:
        return []
    # Open from the start, because closed details are not printed.
    parts = [f"<details open><summary>{name}: {flips.count:,}</summary>", *map(_flip, flips.shown)]
    if more := flips.count - len(flips.shown):
        parts.append(f'<p class="muted">… {more:,} more (--flips N shows more)</p>')
    return [*parts, "</details>"]


def _flip(flip: Flip) -> str:
    texts = flip_texts(flip)
    parts = [f"<article><p>{_bdi(texts.title)}</p>"]
    if texts.place:
        parts.append(f'<p class="muted">{_bdi(texts.place)}</p>')
    if texts.expected is not None:
        parts.append(_card("expected", [Change("same", texts.expected)]))
    base = None if texts.base is None else cut(texts.base, MAX_CHARS)
    new = None if texts.new is None else cut(texts.new, MAX_CHARS)
    changes = word_changes(base or "", new or "")
    parts.append('<div class="sides">')
    for name, text, other in (("base", base, "added"), ("new", new, "removed")):
        mine = [change for change in changes if change.kind != other]
        if text is None:
            parts.append(f'<div class="card"><p class="label">{name}</p><p class="muted">no answer</p></div>')
        else:
            parts.append(_card(name, mine or [Change("same", text)]))
    parts.append("</div>")
    parts += [f'<p class="muted">{name}: {_bdi(cut(why, MAX_CHARS))}</p>' for name, why in texts.reasons]
    return "".join([*parts, "</article>"])


def _card(name: str, pieces: Iterable[Change]) -> str:
    """Return a text under its name, with the words marked that the other side does not have."""
    marks = {"removed": "del", "added": "ins"}
    text = ""
    for kind, piece in pieces:
        shown = escape(safe(piece, keep="\n\t"))
        text += f"<{marks[kind]}>{shown}</{marks[kind]}>" if kind in marks else shown
    # A newline directly after <pre> would be dropped.
    return f'<div class="card"><p class="label">{name}</p><pre><bdi>{text}</bdi></pre></div>'


def _one_sided(name: str, only: OneSided) -> list[str]:
    if not only.count:
        return []
    items = [f"<li>{_bdi(case)}</li>" for case in only.shown]
    if more := only.count - len(only.shown):
        items.append(f'<li class="muted">… {more:,} more</li>')
    return [f"<h3>Only in {name}: {only.count:,}</h3>", f"<ul>{''.join(items)}</ul>"]


def _notes(notes: Sequence[str]) -> str:
    return f'<ul class="muted">{"".join(f"<li>{_bdi(note)}</li>" for note in notes)}</ul>' if notes else ""


def _plain(text: str) -> str:
    """Return an escaped text without control characters, in one line."""
    return escape(safe(text, keep=" "))


def _bdi(text: str) -> str:
    return f"<bdi>{_plain(text)}</bdi>" if text else ""
