"""The section of RESULTS.md: every figure of results.json."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks import tasks
from benchmarks.peers.endpoint import PERMANENT, TRANSIENT
from benchmarks.peers.figures import ENDS, TITLES, Figures, accuracy_cell, number_cell, setting_words, table
from benchmarks.peers.programs import PEERS
from benchmarks.peers.results import Results, Speed, View

Rows = list[list[str]]

_HOW = """\
`make bench-peers`, {date}; {machine}, Python {python}; {minutes:.0f} minutes. Load average before each part: {loads}.
Network: {network}.

All programs ask one endpoint on loopback the same questions, get the same answers and compare them by exact match. The
endpoint runs on one core, the program on the other. CPU is user and system time of the whole process tree, memory the
peak of its largest process. Each figure is one run. The seconds of the clock include start and end of the program.
"""
_KILL = """\
The whole process tree is killed when half of the questions were asked; 50 ms, 64 at once. *Answered* are the answers
that the endpoint had sent; the program may not have read the last of them. *Asked again* are requests after the kill
for questions among these. Requests in flight are not counted.
"""
_FAULT = """\
Passing faults: the first attempt of 9 in 100 questions fails, 5 with 429 (`Retry-After: 1`), 2 with 500, 2 with a
closed connection. Lasting faults: 1 in 100 questions gets 500 at every attempt. Retries are those of each program's
defaults.
A failure looks like success if the exit code is the usual one and the program's files name no failed sample.
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
        table(
            ["program", "version", "command", "telemetry off by", "continues by"], _commands(figures, found)
        ),
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
        parts += ["### Peers: faults\n", _FAULT, table([*head, "clock s", "looks like success"], rows)]
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
        cells = [
            f"{one.cpu:.1f} / {one.wall:.1f}" if one.end == "ended" and one.cpu is not None else ENDS[one.end]
            for one in speeds
        ]
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
                number_cell(one.memory, "ended", 0),
                "–" if one.log is None else f"{one.log / 1000:,.0f}",
                number_cell(one.first, "ended", 2),
                ENDS.get(one.end, f"{one.samples:,} samples, accuracy {accuracy_cell(one.accuracy)}"),
            ]
        )
    return rows


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
        hidden = one.code == one.usual_code and not one.errors and not whole
        yield [
            TITLES[name],
            word,
            f"{one.samples:,} of {one.count:,}",
            str(one.errors),
            accuracy_cell(one.accuracy),
            f"{one.code} ({'–' if one.usual_code is None else one.usual_code})",
            number_cell(one.wall, one.end),
            "no failure" if whole else "**yes**" if hidden else "no",
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
    """One line a figure in which another program has the smaller value; the bare script does not count."""
    others = [name for name in figures.names if name not in ("assay", "bare")]
    lines = []

    def compare(what: str, value: Callable[[str], float | None], unit: str) -> None:
        own = value("assay")
        found = [(other, number) for other in others if (number := value(other)) is not None]
        better = [
            f"{TITLES[other]} {number:,.1f}" for other, number in found if own is not None and number < own
        ]
        if better:
            lines.append(f"- {what}: {', '.join(better)}; assay {own:,.1f} {unit}")

    def of(speed: Speed, value: float | None) -> float | None:
        return value if speed.end == "ended" else None

    for latency, at_once in figures.settings:
        where = f"{figures.samples:,} samples, {setting_words((latency, at_once))}"

        def setting(name: str, latency: float = latency, at_once: int = at_once) -> Speed:
            return figures.speed(name, figures.samples, latency, at_once)

        compare(f"CPU, {where}", lambda name: of(setting(name), setting(name).cpu), "s")
        compare(f"seconds of the clock, {where}", lambda name: of(setting(name), setting(name).wall), "s")
    compare("peak memory", lambda name: of(figures.usual(name), figures.usual(name).memory), "MB")
    compare("first request", lambda name: of(figures.usual(name), figures.usual(name).first), "s")
    compare("log of the usual run", lambda name: (figures.usual(name).log or 0) / 1000 or None, "KB")
    more = f"{figures.many:,} samples"
    compare(f"CPU, {more}", lambda name: of(figures.large(name), figures.large(name).cpu), "s")
    compare(f"peak memory, {more}", lambda name: of(figures.large(name), figures.large(name).memory), "MB")
    compare(f"log, {more}", lambda name: of(figures.large(name), (figures.large(name).log or 0) / 1000), "KB")

    def again(name: str) -> float | None:
        kill = figures.kill(name)
        return None if kill is None or kill.again is None else float(kill.again)

    def view(name: str) -> View:
        return figures.view(name) or View(peer=name, count=0, end="none")

    compare("asked again after kill -9", again, "requests")
    for kind, word in ((TRANSIENT, "passing"), (PERMANENT, "lasting")):

        def clock(name: str, kind: str = kind) -> float | None:
            fault = figures.fault(name, kind)
            return fault.wall if fault and fault.end == "ended" and fault.samples else None

        compare(f"seconds of the clock with {word} faults", clock, "s")
    compare("bytes of JavaScript", lambda name: (view(name).script or 0) / 1000 or None, "KB")
    compare("seconds to the failed cases", lambda name: view(name).seconds, "s")
    return "\n".join(lines or ["- in no figure of this run"]) + "\n"
