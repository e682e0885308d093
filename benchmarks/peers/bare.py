"""The bare script of benchmarks/bare.py: what the work costs without a harness."""

from __future__ import annotations

import json
import sys
from typing import ClassVar

from benchmarks.measure import REPOSITORY
from benchmarks.peers.peer import Command, Outcome, Peer, Work


class Bare(Peer):
    """100 lines around aiohttp and orjson: no retries, no resume, no viewer. In the tables as the floor."""

    name: ClassVar[str] = "bare"
    title: ClassVar[str] = "bare script"
    how: ClassVar[str] = "`benchmarks/bare.py`: aiohttp, orjson, a JSONL log"
    telemetry: ClassVar[str] = "none"
    continues: ClassVar[str] = "cannot"
    no_viewer: ClassVar[str] = "no viewer"

    @property
    def version(self) -> str:
        """It is of this repository."""
        return ""

    def install(self) -> None:
        """It runs in the environment of the benchmarks."""

    def start(self, work: Work) -> Command:
        """The script has no options."""
        work.output.mkdir(exist_ok=True)
        arguments = [work.data, work.at_once, work.output / "log.jsonl", work.url]
        script = REPOSITORY / "benchmarks" / "bare.py"
        return Command([sys.executable, str(script), *map(str, arguments)], {})

    def proceed(self, work: Work) -> list[Command]:
        """There is no way."""
        return []

    def outcome(self, work: Work) -> Outcome:
        """Count the lines of the log."""
        lines = (work.output / "log.jsonl").read_bytes().splitlines()
        right = sum(json.loads(line)["score"] for line in lines)
        return Outcome(len(lines), 0, right / len(lines) if lines else None)
