"""The figures of one `make bench-peers`, as they stand in results.json."""

from __future__ import annotations

from pathlib import Path

import msgspec

FILE = Path(__file__).with_name("results.json")


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """One run without faults. Times are seconds, memory is in MB, the log in bytes."""

    peer: str
    count: int
    latency: float
    at_once: int
    end: str
    """`ended`, `limit` (the time limit killed it) or `skipped` (the time of the program was used up)."""
    code: int | None = None
    wall: float | None = None
    cpu: float | None = None
    memory: float | None = None
    log: int | None = None
    first: float | None = None
    asked: int = 0
    samples: int | None = None
    accuracy: float | None = None


class Kill(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was killed with SIGKILL in the middle and started again."""

    peer: str
    count: int
    at_once: int
    end: str
    """How the second start ended, as in `Speed`; `cannot` if the program has no way to continue."""
    answered: int = 0
    """Answers sent before the kill."""
    again: int | None = None
    """Requests after it for questions among these."""
    code: int | None = None
    samples: int | None = None
    accuracy: float | None = None


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A run against an endpoint with faults."""

    peer: str
    kind: str
    count: int
    end: str
    faults: int = 0
    """Requests that got an error or a closed connection."""
    asked: int = 0
    code: int | None = None
    usual_code: int | None = None
    """The exit code of the same run without faults."""
    samples: int | None = None
    errors: int | None = None
    accuracy: float | None = None
    wall: float | None = None


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A viewer in Chromium: from its address to the wrong answers only."""

    peer: str
    count: int
    end: str
    """`ended`, `none` (no viewer offline), or what went wrong."""
    script: int | None = None
    """Bytes of JavaScript that the browser ran, unpacked."""
    ready: float | None = None
    """Seconds from the start of the viewer's process to its first answer."""
    seconds: float | None = None
    """Seconds from the address to the wrong answers on the page."""
    clicks: str = ""


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the tables show."""

    date: str
    machine: str
    python: str
    command: str
    network: str
    minutes: float
    load: list[float]
    """The load average of one minute, at the beginning and before each kind of measurement."""
    versions: dict[str, str]
    speeds: list[Speed] = []
    kills: list[Kill] = []
    faults: list[Fault] = []
    views: list[View] = []


def read(path: Path = FILE) -> Results:
    """Read a file of results."""
    return msgspec.json.decode(path.read_bytes(), type=Results)


def write(results: Results, path: Path = FILE) -> None:
    """Write a file of results for people and programs."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
