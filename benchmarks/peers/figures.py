"""The figures of results.json by program, and the words and numbers of their cells."""

from __future__ import annotations

from benchmarks.peers.programs import PEERS
from benchmarks.peers.results import Fault, Kill, Results, Speed, View

TITLES = {peer.name: peer.title for peer in PEERS}
ENDS = {
    "limit": "not finished within its time limit",
    "skipped": "not measured: its time was used up",
    "cannot": "cannot continue",
    "none": "no viewer",
}


class Figures:
    """The figures of all programs, found by program and setting."""

    def __init__(self, found: Results) -> None:
        self.names = [name for name in TITLES if name in found.versions]
        self._found = found
        self.samples = min(speed.count for speed in found.speeds)
        self.many = max(speed.count for speed in found.speeds)
        self.settings = [
            (speed.latency, speed.at_once)
            for speed in found.speeds
            if speed.count == self.samples and speed.peer == self.names[0]
        ]

    def speed(self, name: str, count: int, latency: float, at_once: int) -> Speed:
        """The run of a program with a setting."""
        return next(
            speed
            for speed in self._found.speeds
            if (speed.peer, speed.count, speed.latency, speed.at_once) == (name, count, latency, at_once)
        )

    def usual(self, name: str) -> Speed:
        """The run with the first setting, which the short tables show."""
        return self.speed(name, self.samples, *self.settings[0])

    def large(self, name: str) -> Speed:
        """The run with many samples."""
        return next(one for one in self._found.speeds if one.peer == name and one.count == self.many)

    def kill(self, name: str) -> Kill | None:
        """The kill of a program."""
        return next((kill for kill in self._found.kills if kill.peer == name), None)

    def fault(self, name: str, kind: str) -> Fault | None:
        """The run of a program against an endpoint with such faults."""
        return next((one for one in self._found.faults if (one.peer, one.kind) == (name, kind)), None)

    def view(self, name: str) -> View | None:
        """The viewer of a program."""
        return next((view for view in self._found.views if view.peer == name), None)


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def setting_words(setting: tuple[float, int]) -> str:
    """Latency and requests at once."""
    latency, at_once = setting
    return f"{latency * 1000:.0f} ms, {at_once} at once"


def number_cell(value: float | None, end: str, digits: int = 1) -> str:
    """A number; of a run that its time limit killed, the number is a lower bound."""
    if value is None or end not in ("ended", "limit"):
        return ENDS.get(end, "–")
    return f"{'> ' * (end == 'limit')}{value:,.{digits}f}"


def accuracy_cell(value: float | None) -> str:
    """An accuracy, if the program reports one."""
    return "–" if value is None else f"{value:.3f}"
