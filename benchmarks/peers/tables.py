"""The section of RESULTS.md: every figure of results.json."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from benchmarks import tasks
from benchmarks.peers.endpoint import PERMANENT, TRANSIENT
from benchmarks.peers.figures import ENDS, TITLES, Figures, accuracy_cell, number_cell, setting_words, table
from benchmarks.peers.programs import PEERS
from benchmarks.peers.results import Results, Speed

Rows = list[list[str]]

_HOW = """\
`make bench-peers`, {date}; {machine}, Python {python}; {minutes:.0f} minutes. Load average before each part: {loads}.
Network: {network}.

All programs ask one endpoint on loopback the same questions, get the same answers and compare them by exact match. The
endpoint runs on one core, the program on the other. CPU is user and system time of the whole process tree, memory the
peak of its largest process. Each figure is one run. The seconds of the clock include start and end of the program; if
the load is above the number of cores, they say little, and CPU is the figure to compare.
"""
_KILL = """\
The whole process tree is killed when half of the questions were asked; 50 ms, 64 at once. *Answered* are the answers
that the endpoint had sent; the program may not have read the last of them. *Asked again* are requests after the kill
for questions among these. Requests in flight are not counted.
"""
_FAULT = """\
Passing faults: the first attempt of 9 in 100 questions fails, 5 with 429 (`Retry-After: 1`), 2 with 500, 2 with a
closed connection. Lasting faults: 1 in 100 questions gets 500 at every attempt. Retries are each
program's defaults, except for Inspect, which would never give up. The last column says where a person or a CI job can
see that samples are missing: in an exit code other than the usual one, or in failed samples named by the result.
"""
_VIEW = """\
Chromium, headless, {samples:,} samples of which a fifth is wrong. *JavaScript* is what the browser loaded on the way,
unpacked. *Seconds* go from the address to a list of the wrong answers only, by the clicks of the last column.
"""


def results_section(found: Results) -> str:
    """The whole section."""
    figures = Figures(found)
    loads = ", ".join(f"{load:.1f}" for load in found.load)
    how = _HOW.format(
        date=found.date,
        machine=found.machine,
        python=found.python,
        minutes=found.minutes,
        loads=loads,
        network=found.network,
    )
    usual, many = figures.settings[0], figures.large(figures.names[0])
    head = ["program", "peak memory MB", "log KB", "first request s", "samples", "accuracy", "exit code"]
    large = ["program", "CPU s", "clock s", "CPU ms a sample", "peak memory MB", "log KB", "first request s"]
    parts = [
        "\n\n## peers\n",
        how,
        table(["program", "version", "command", "telemetry off by", "continues by"], _commands(figures, found)),
        "### Peers: CPU and seconds\n",
        f"{figures.samples:,} samples. Each cell: CPU seconds / seconds of the clock.\n",
        table(["program", *map(setting_words, figures.settings)], _speeds(figures)),
        "![CPU seconds](../docs/pictures/peers-cpu.svg)\n",
        "### Peers: memory, log, first request\n",
        f"{figures.samples:,} samples, {setting_words(usual)}.\n",
        table(head, [_row(figures.usual(name)) for name in figures.names]),
        f"### Peers: {figures.many:,} samples\n",
        f"Once, {setting_words((many.latency, many.at_once))}.\n",
        table([*large, "end"], _large(figures)),
        "![Peak memory](../docs/pictures/peers-memory.svg)\n",
    ]
    if found.kills:
        head = ["program", "answered", "asked again", "samples at the end", "accuracy", "exit code"]
        parts += [
            "### Peers: kill -9 in the middle, and started again\n",
            _KILL,
            table(head, _kills(figures)),
        ]
        parts += ["![Asked again after kill -9](../docs/pictures/peers-again.svg)\n"]
    if found.faults:
        head = ["program", "faults", "samples scored", "named as failed", "accuracy", "exit code (usual)"]
        rows = [*_faults(figures, TRANSIENT), *_faults(figures, PERMANENT)]
        parts += ["### Peers: faults\n", _FAULT, table([*head, "clock s", "a failure shows in"], rows)]
    if found.views:
        head = ["program", "JavaScript KB", "server ready s", "seconds to the failed cases", "the way"]
        parts += ["### Peers: viewer\n", _VIEW.format(samples=figures.samples), table(head, _views(figures))]
    parts += ["### Peers: where another program is better than assay\n", _better(figures)]
    return "\n".join(parts) + "\n"


def _commands(figures: Figures, found: Results) -> Rows:
    by_name = {peer.name: peer for peer in PEERS}
    return [
        [peer.title, found.versions[name], peer.how, peer.telemetry, peer.continues]
        for name in figures.names
        for peer in [by_name[name]]
    ]


def _speeds(figures: Figures) -> Rows:
    rows: Rows = []
    for name in figures.names:
        speeds = [figures.speed(name, figures.samples, *setting) for setting in figures.settings]
        cells = [f"{number_cell(one.cpu, one.end)} / {number_cell(one.wall, one.end)}" for one in speeds]
        rows.append([TITLES[name], *cells])
    return rows


def _row(speed: Speed) -> list[str]:
    log = "–" if speed.log is None else f"{speed.log / 1000:,.0f}"
    return [
        TITLES[speed.peer],
        number_cell(speed.memory, speed.end, 0),
        log,
        number_cell(speed.first, speed.end, 2),
        f"{speed.samples:,} of {speed.count:,}" if speed.samples is not None else "–",
        accuracy_cell(speed.accuracy),
        "–" if speed.code is None else str(speed.code),
    ]


def _large(figures: Figures) -> Rows:
    rows: Rows = []
    for name in figures.names:
        one = figures.large(name)
        ended = one.end == "ended"
        each = one.cpu / one.count * 1000 if ended and one.cpu is not None else None
        rows.append(
            [
                TITLES[name],
                number_cell(one.cpu, one.end),
                number_cell(one.wall, one.end),
                "–" if each is None else f"{each:.2f}",
                number_cell(one.memory, one.end, 0),
                "–" if one.log is None else f"{one.log / 1000:,.0f}",
                number_cell(one.first, "ended", 2),
                _end(one),
            ]
        )
    return rows


def _end(run: Speed) -> str:
    if run.end == "limit":
        return f"killed by its limit: {run.asked:,} of {run.count:,} asked in {run.wall or 0:.0f} s"
    return ENDS.get(run.end, f"{run.samples:,} samples, accuracy {accuracy_cell(run.accuracy)}")


def _kills(figures: Figures) -> Rows:
    rows: Rows = []
    for name in figures.names:
        if (kill := figures.kill(name)) is None:
            continue
        if kill.again is None:
            rows.append([TITLES[name], str(kill.answered), ENDS.get(kill.end, kill.end), "–", "–", "–"])
            continue
        samples = f"{kill.samples:,} of {kill.count:,}"
        if kill.end != "ended":
            samples += f"; {ENDS.get(kill.end, kill.end)}"
        cells = [str(kill.answered), str(kill.again), samples, accuracy_cell(kill.accuracy), str(kill.code)]
        rows.append([TITLES[name], *cells])
    return rows


def _faults(figures: Figures, kind: str) -> Iterator[list[str]]:
    word = {TRANSIENT: "passing", PERMANENT: "lasting"}[kind]
    for name in figures.names:
        if (one := figures.fault(name, kind)) is None:
            continue
        if one.end != "ended":
            yield [TITLES[name], word, ENDS.get(one.end, one.end), *["–"] * 5]
            continue
        whole = one.samples == one.count and one.accuracy == tasks.accuracy(one.count)
        places = ["exit code"] * (one.code != one.usual_code) + ["files"] * bool(one.errors)
        yield [
            TITLES[name],
            word,
            f"{one.samples:,} of {one.count:,}",
            str(one.errors),
            accuracy_cell(one.accuracy),
            f"{one.code} ({'–' if one.usual_code is None else one.usual_code})",
            number_cell(one.wall, one.end),
            "no failure" if whole else " and ".join(places) or "**nowhere**",
        ]


def _views(figures: Figures) -> Rows:
    rows: Rows = []
    reasons = {peer.name: peer.no_viewer for peer in PEERS}
    for name in figures.names:
        if (view := figures.view(name)) is None:
            continue
        if view.end != "ended":
            rows.append([TITLES[name], "–", "–", "–", reasons[name] or view.end])
            continue
        script = f"{(view.script or 0) / 1000:,.0f}"
        rows.append(
            [
                TITLES[name],
                script,
                number_cell(view.ready, "ended"),
                number_cell(view.seconds, "ended"),
                view.clicks,
            ]
        )
    return rows


def _better(figures: Figures) -> str:
    """One line a measure in which another program has the smaller value; the bare script does not count."""
    lines = []
    for measure in _measures(figures):
        values = {name: value for name, value in measure.values.items() if value is not None and name != "bare"}
        if (own := values.pop("assay", None)) is None:
            continue
        better = [f"{TITLES[name]} {_short(value)}" for name, value in values.items() if value < own]
        if better:
            lines.append(f"- {measure.name}: {', '.join(better)}; assay {_short(own)} {measure.unit}")
    return "\n".join(lines or ["- in no figure of this run"]) + "\n"


class _Measure(NamedTuple):
    """A figure for which less is better, by program."""

    name: str
    unit: str
    values: dict[str, float | None]


def _measures(figures: Figures) -> Iterator[_Measure]:
    for setting in figures.settings:
        runs = [figures.speed(name, figures.samples, *setting) for name in figures.names]
        yield from _of_runs(runs, setting_words(setting), whole=setting == figures.settings[0])
    yield from _of_runs([figures.large(name) for name in figures.names], "once", whole=True)
    kills = [kill for name in figures.names if (kill := figures.kill(name))]
    yield _Measure("asked again after kill -9", "requests", {kill.peer: kill.again for kill in kills})
    for kind, word in ((TRANSIENT, "passing"), (PERMANENT, "lasting")):
        faults = [fault for name in figures.names if (fault := figures.fault(name, kind))]
        # A program that gave up early is not faster.
        walls = {fault.peer: fault.wall for fault in faults if fault.end == "ended" and fault.samples}
        yield _Measure(f"seconds of the clock with {word} faults", "s", walls)
    views = [view for name in figures.names if (view := figures.view(name))]
    sizes = {view.peer: view.script / 1000 for view in views if view.script is not None}
    yield _Measure("JavaScript", "KB", {**sizes})
    yield _Measure("viewer ready", "s", {view.peer: view.ready for view in views})
    yield _Measure("seconds to the failed cases", "s", {view.peer: view.seconds for view in views})


def _of_runs(runs: list[Speed], setting: str, *, whole: bool) -> Iterator[_Measure]:
    """CPU and clock of runs that ended; memory, log and first request too if `whole`."""
    ended = [run for run in runs if run.end == "ended"]
    where = f"{runs[0].count:,} samples, {setting}"
    yield _Measure(f"CPU, {where}", "s", {run.peer: run.cpu for run in ended})
    yield _Measure(f"seconds of the clock, {where}", "s", {run.peer: run.wall for run in ended})
    if whole:
        yield _Measure(f"peak memory, {where}", "MB", {run.peer: run.memory for run in ended})
        logs = {run.peer: run.log / 1000 for run in ended if run.log is not None}
        yield _Measure(f"log, {where}", "KB", {**logs})
        yield _Measure(f"first request, {where}", "s", {run.peer: run.first for run in ended})


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.1f}"
