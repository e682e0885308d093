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
    """Write tables and charts into the repository."""
    for name, svg in charts(found).items():
        (PICTURES / name).write_text(svg, encoding="utf-8")
    for page, text in pages(found).items():
        before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
        page.write_text(f"{before}{BEGIN}{text}{END}{rest.partition(END)[2]}", encoding="utf-8")


def section_of(page: Path) -> str:
    """Return what stands between the marks of a page."""
    return page.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]


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
