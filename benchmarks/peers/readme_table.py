"""The short table of both READMEs."""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.peers.endpoint import TRANSIENT
from benchmarks.peers.figures import TITLES, Figures, number_cell, table
from benchmarks.peers.results import Results


class Words(NamedTuple):
    """The words of a README's section."""

    before: str
    head: tuple[str, ...]
    after: str
    none: str
    picture: str


ENGLISH = Words(
    """\
`make bench-peers` lets other programs do the same work at the same fake endpoint: {samples:,} questions, exact match,
a log entry a sample, {latency} ms, {at_once} at once. {date}, {machine}, load {load}.""",
    (
        "program",
        "CPU s",
        "CPU s, {many:,} samples",
        "memory MB",
        "first request s",
        "answered questions asked again after kill -9",
        "samples scored despite faults",
        "s to the failed cases in the viewer",
    ),
    """\
CPU is that of the whole process tree. Commands, all figures, and where another program is better:
[results](benchmarks/RESULTS.md#peers).""",
    "no viewer",
    "CPU seconds of each program for the same work",
)
CHINESE = Words(
    """\
`make bench-peers` 让其他程序在同一个模拟端点上做同样的工作：{samples:,} 个问题，精确匹配，每个样本一条日志，
延迟 {latency} ms，并发 {at_once}。{date}，{machine}，负载 {load}。""",
    (
        "程序",
        "CPU 秒",
        "CPU 秒，{many:,} 个样本",
        "内存 MB",
        "首个请求（秒）",
        "kill -9 后对已答问题的重复请求",
        "端点出错时完成的样本",
        "在查看器中看到失败样本（秒）",
    ),
    """\
CPU 为整个进程树的用户与系统时间。命令、全部数据以及其他程序更好的地方：[结果](benchmarks/RESULTS.md#peers)。""",
    "没有查看器",
    "各程序完成同样工作所用的 CPU 秒数",
)


def readme_section(found: Results, words: Words) -> str:
    """The short table and one chart."""
    figures = Figures(found)
    latency, at_once = figures.settings[0]
    text = words.before.format(
        samples=figures.samples,
        latency=round(latency * 1000),
        at_once=at_once,
        date=found.date.partition(" ")[0],
        machine=found.machine,
        load=f"{min(found.load):.1f}–{max(found.load):.1f}",
    )
    rows: list[list[str]] = []
    for name in figures.names:
        speed, large, kill = figures.usual(name), figures.large(name), figures.kill(name)
        fault, view = figures.fault(name, TRANSIENT), figures.view(name)
        rows.append(
            [
                f"{TITLES[name]} {found.versions[name]}".strip(),
                number_cell(speed.cpu, speed.end),
                number_cell(large.cpu, large.end),
                number_cell(speed.memory, speed.end, 0),
                number_cell(speed.first, speed.end),
                "–" if kill is None or kill.again is None else f"{kill.again} / {kill.answered}",
                "–" if fault is None or fault.samples is None else f"{fault.samples:,} / {fault.count:,}",
                words.none if view is None or view.end == "none" else number_cell(view.seconds, view.end),
            ]
        )
    head = [cell.format(many=figures.many) for cell in words.head]
    picture = f"![{words.picture}](docs/pictures/peers-cpu.svg)"
    return f"\n\n{text}\n\n{table(head, rows)}\n{words.after}\n\n{picture}\n\n"
