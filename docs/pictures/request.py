"""Draws request.svg, the path of a request through assay: `python docs/pictures/request.py`.

The picture has no dependency and no randomness, so a test compares the committed file with the output.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

WIDTH, HEIGHT = 920, 690
TITLE_SIZE, TEXT_SIZE, CODE_SIZE = 17, 14, 13
# Average width of a character as a share of the font size. Both are upper estimates, so that a text that
# passes `check_fits` also fits with the fonts of another system.
SANS, MONO = 0.58, 0.62
PADDING = 14

STYLE = """\
  .page { fill: #ffffff } .box { fill: #f3f6fa; stroke: #57606a } .file { fill: #fff4d6; stroke: #9a6700 }
  .outside { fill: #ffffff; stroke: #57606a; stroke-dasharray: 6 4 } .arrow { stroke: #57606a; fill: none }
  .head { fill: #57606a } .number { fill: #0757b5 } .digit { fill: #ffffff; font-weight: 600 }
  .title { fill: #1f2328; font-weight: 600 } .text, .label { fill: #1f2328 } .code { fill: #57606a }
  .title, .text, .label, .digit { font-family: system-ui, "Segoe UI", Helvetica, Arial, sans-serif }
  .code { font-family: ui-monospace, Menlo, Consolas, monospace }
  .box, .file, .outside, .arrow { stroke-width: 1.5 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } .box { fill: #1c2430; stroke: #8b949e } .file { fill: #33290f; stroke: #d29922 }
    .outside { fill: #0d1117; stroke: #8b949e } .arrow { stroke: #8b949e } .head { fill: #8b949e }
    .number { fill: #58a6ff } .digit { fill: #0d1117 } .title, .text, .label { fill: #e6edf3 }
    .code { fill: #9da7b3 }
  }"""


class Box(NamedTuple):
    """A rectangle with a title, one line of text and the file or folder of the code."""

    x: int
    y: int
    title: str
    text: str
    code: str
    kind: str = "box"


class Arrow(NamedTuple):
    """A line through points, with a head at its end. The number stands at `place`, the label on its `side`."""

    number: int
    points: tuple[tuple[int, int], ...]
    place: tuple[int, int]
    label: str = ""
    side: str = "right"


BOX_WIDTH, BOX_HEIGHT = 250, 86
LEFT, MIDDLE, RIGHT = 20, 335, 650
HEADINGS = ((LEFT, "one case"), (MIDDLE, "the run folder"), (RIGHT, "the way to the model"))
BOXES = (
    Box(LEFT, 40, "Solver", "asks through its context", "suites/"),
    Box(RIGHT, 40, "Asker", "looks in the log first", "engine/asker.py"),
    Box(MIDDLE, 176, "calls.jsonl", "every request and reply", "journal/", "file"),
    Box(RIGHT, 176, "Caller", "permit, budget, retries", "engine/caller.py"),
    Box(LEFT, 312, "Scorer", "metrics, checks, judges", "suites/, scoring/"),
    Box(MIDDLE, 312, "records.jsonl", "the output of every case", "journal/", "file"),
    Box(RIGHT, 312, "Provider", "openai, local, script, …", "models/, models/http/"),
    Box(MIDDLE, 448, "scores.jsonl", "the scores of every case", "journal/", "file"),
    Box(RIGHT, 448, "Model", "a server, or in-process", "", "outside"),
    Box(LEFT, 584, "Report", "summary.json, terminal", "core/report.py"),
    Box(MIDDLE, 584, "Suite.finish", "computes the numbers", "suites/"),
    Box(RIGHT, 584, "Result files", "in the format of the suite", "suites/", "file"),
)
ARROWS = (
    Arrow(1, ((270, 60), (650, 60)), (415, 60), "request"),
    Arrow(2, ((520, 176), (520, 108), (650, 108)), (520, 148), "logged: replay", "left"),
    Arrow(3, ((775, 126), (775, 176)), (775, 148), "not logged"),
    Arrow(4, ((775, 262), (775, 312)), (775, 284), "one attempt"),
    Arrow(5, ((775, 398), (775, 448)), (775, 420), "call, reply"),
    Arrow(6, ((650, 118), (560, 118), (560, 176)), (560, 148), "write"),
    Arrow(7, ((650, 84), (270, 84)), (302, 84), "reply, after the write"),
    Arrow(8, ((145, 126), (145, 219), (302, 219), (302, 336), (335, 336)), (145, 172), "records and end"),
    Arrow(9, ((335, 374), (270, 374)), (302, 374)),
    Arrow(10, ((145, 398), (145, 491), (335, 491)), (145, 444), "scores and end"),
    Arrow(11, ((460, 534), (460, 584)), (460, 556), "results in data order"),
    Arrow(12, ((335, 627), (270, 627)), (302, 627)),
    Arrow(13, ((585, 627), (650, 627)), (617, 627)),
)


def check_fits(text: str, size: int, share: float) -> None:
    """Raise ValueError if a text is wider than the inside of a box."""
    if len(text) * size * share > BOX_WIDTH - 2 * PADDING:
        raise ValueError(f"{text!r} is wider than its box")


def draw_box(box: Box) -> list[str]:
    """Return the elements of a box."""
    check_fits(box.title, TITLE_SIZE, SANS)
    check_fits(box.text, TEXT_SIZE, SANS)
    check_fits(box.code, CODE_SIZE, MONO)
    x = box.x + PADDING
    size = f'width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="8"'
    return [
        f'<rect class="{box.kind}" x="{box.x}" y="{box.y}" {size}/>',
        f'<text class="title" x="{x}" y="{box.y + 26}" font-size="{TITLE_SIZE}">{box.title}</text>',
        f'<text class="text" x="{x}" y="{box.y + 49}" font-size="{TEXT_SIZE}">{box.text}</text>',
        f'<text class="code" x="{x}" y="{box.y + 71}" font-size="{CODE_SIZE}">{box.code}</text>',
    ]


def draw_arrow(arrow: Arrow) -> list[str]:
    """Return the line, its number in a circle, and the label beside the number."""
    points = " ".join(f"{x},{y}" for x, y in arrow.points)
    x, y = arrow.place
    elements = [
        f'<polyline class="arrow" points="{points}" marker-end="url(#head)"/>',
        f'<circle class="number" cx="{x}" cy="{y}" r="11"/>',
        f'<text class="digit" x="{x}" y="{y + 4}" font-size="12" text-anchor="middle">{arrow.number}</text>',
    ]
    if arrow.label:
        start_x, end_x = arrow.points[0][0], arrow.points[1][0]
        # The label of a line that starts horizontally would stand on the line. Number 1 points right and has
        # its label above the line, number 7 points left and has it below.
        if arrow.place[1] == arrow.points[0][1] == arrow.points[1][1]:
            y += 18 if end_x < start_x else -10
        side = 'text-anchor="end"' if arrow.side == "left" else 'text-anchor="start"'
        x += -18 if arrow.side == "left" else 18
        size = f'font-size="{TEXT_SIZE}" {side}'
        elements.append(f'<text class="label" x="{x}" y="{y + 5}" {size}>{arrow.label}</text>')
    return elements


def draw() -> str:
    """Return the whole picture as SVG."""
    elements = [f'<rect class="page" width="{WIDTH}" height="{HEIGHT}"/>']
    for x, heading in HEADINGS:
        elements.append(f'<text class="code" x="{x}" y="26" font-size="{CODE_SIZE}">{heading}</text>')
    for box in BOXES:
        elements += draw_box(box)
    for arrow in ARROWS:
        elements += draw_arrow(arrow)
    title = "The path of a request: solver, asker, log, caller, provider, model, and back; then scorer and report"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
            f"<title>{title}</title>",
            f"<style>\n{STYLE}\n</style>",
            '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9"',
            '  orient="auto"><path class="head" d="M0 0 L10 5 L0 10 z"/></marker></defs>',
            *elements,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(draw(), encoding="utf-8")
