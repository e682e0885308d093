"""Writes tables and charts of results.json into the repository."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import REPOSITORY
from benchmarks.peers.charts import Bar, Panel, bar_chart
from benchmarks.peers.figures import ENDS, TITLES, Figures, number_cell, setting_words
from benchmarks.peers.readme_table import CHINESE, ENGLISH, readme_section
from benchmarks.peers.results import Results, Speed
from benchmarks.peers.tables import results_section

BEGIN, END = "<!-- peers: written by `python -m benchmarks.peers --tables` -->", "<!-- /peers -->"
RESULTS = REPOSITORY / "benchmarks" / "RESULTS.md"
PICTURES = REPOSITORY / "docs" / "pictures"


def pages(found: Results) -> dict[Path, str]:
    """The section of each page."""
    return {
        RESULTS: results_section(found),
        REPOSITORY / "README.md": readme_section(found, ENGLISH),
        REPOSITORY / "README.zh.md": readme_section(found, CHINESE),
    }


def write_pages(found: Results) -> None:
    """Write tables and charts into the repository. Raises ValueError, and writes nothing, if a page lost a mark."""
    texts = {page: replace_section(page, text) for page, text in pages(found).items()}
    for name, svg in charts(found).items():
        (PICTURES / name).write_text(svg, encoding="utf-8")
    for page, text in texts.items():
        page.write_text(text, encoding="utf-8")


def replace_section(page: Path, section: str) -> str:
    """Return the text of a page with another section between its marks."""
    before, _, after = _parts(page)
    return f"{before}{BEGIN}{section}{END}{after}"


def section_of(page: Path) -> str:
    """Return what stands between the marks of a page."""
    return _parts(page)[1]


def _parts(page: Path) -> tuple[str, str, str]:
    """Return a page before, between and after its marks. Raises ValueError unless it has each of them once.

    Without this check, a page that lost a mark would get a second section, or lose the text after its section.
    """
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    section, _, after = rest.partition(END)
    if text.count(BEGIN) != 1 or text.count(END) != 1 or END in before:
        raise ValueError(f"{page}: expected one line {BEGIN} and, below it, one line {END}")
    return before, section, after


def charts(found: Results) -> dict[str, str]:
    """The pictures by file name."""
    figures = Figures(found)
    setting = setting_words(figures.settings[0])

    def panel(heading: str, value: Callable[[str], tuple[float | None, str]]) -> Panel:
        return Panel(heading, [Bar(TITLES[name], *value(name)) for name in figures.names])

    def bar(value: float | None, end: str, digits: int, unit: str) -> tuple[float | None, str]:
        label = number_cell(value, end, digits)
        if end == "limit":
            return value, f"{label} {unit}, not finished"
        return (value, f"{label} {unit}") if end == "ended" else (None, label)

    def cpu(speed: Speed) -> tuple[float | None, str]:
        return bar(speed.cpu, speed.end, 1, "s")

    def memory(speed: Speed) -> tuple[float | None, str]:
        return bar(speed.memory, speed.end, 0, "MB")

    def again(name: str) -> tuple[float | None, str]:
        kill = figures.kill(name)
        if kill is None or kill.again is None:
            return None, "not measured" if kill is None else ENDS.get(kill.end, kill.end)
        return float(kill.again), f"{kill.again} of {kill.answered}"

    small, large = f"{figures.samples:,} samples, {setting}", f"{figures.many:,} samples, {setting}"
    drawn = {
        "peers-cpu.svg": bar_chart(
            "CPU seconds for the same work; shorter is better",
            [
                panel(small, lambda name: cpu(figures.usual(name))),
                panel(large, lambda name: cpu(figures.large(name))),
            ],
        ),
        "peers-memory.svg": bar_chart(
            "Peak memory; shorter is better",
            [
                panel(small, lambda name: memory(figures.usual(name))),
                panel(large, lambda name: memory(figures.large(name))),
            ],
        ),
    }
    if found.kills:
        drawn["peers-again.svg"] = bar_chart(
            "Answered questions that are asked again after kill -9; shorter is better",
            [panel(f"{figures.samples:,} samples, killed half way, 50 ms, 64 at once", again)],
        )
    return drawn
