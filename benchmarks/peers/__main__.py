"""`python -m benchmarks.peers [--install | --tables] [--quick] [--only NAME,…] [--results FILE]`.

`make bench-peers` makes the environments, measures, and writes the pages.

Exit code 1 if a program that ended without faults had another accuracy or another number of requests than the others.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks import tasks
from benchmarks.peers import pages, results
from benchmarks.peers.browser import measure_view
from benchmarks.peers.endpoint import PERMANENT, TRANSIENT, serving
from benchmarks.peers.measurements import Bench, measure_faults, measure_kill, measure_speed
from benchmarks.peers.network import leave_network
from benchmarks.peers.peer import Peer, Work
from benchmarks.peers.programs import PEERS
from benchmarks.peers.results import Results, Speed


class Sizes(NamedTuple):
    """How much is measured, and the seconds that bound it."""

    samples: int
    many: int
    longest: int
    """For a run of `samples`."""
    longest_many: int
    per_peer: float
    """For all runs of one program."""
    whole: float
    """After so many seconds nothing new is started."""


FULL = Sizes(samples=1_000, many=10_000, longest=180, longest_many=480, per_peer=1200, whole=50 * 60)
QUICK = Sizes(samples=100, many=200, longest=60, longest_many=60, per_peer=300, whole=15 * 60)
SETTINGS = ((0.0, 64), (0.0, 256), (0.05, 64), (0.05, 256))
"""Latency in seconds, and requests at once."""
MANY = (0.0, 64)
KILL = (0.05, 64)


def main() -> int:
    """Install, measure, and write the tables."""
    arguments = _arguments()
    names = arguments.only.split(",") if arguments.only else [peer.name for peer in PEERS]
    peers = [peer for peer in PEERS if peer.name in names]
    if arguments.install:
        for peer in peers:
            _install(peer)
        return 0
    if arguments.tables:
        pages.write_pages(results.read(Path(arguments.results)))
        return 0
    found = _measure(peers, QUICK if arguments.quick else FULL)
    results.write(found, Path(arguments.results))
    wrong = list(_wrong(found.speeds))
    for line in wrong:
        print(line)
    return 1 if wrong else 0


def _install(peer: Peer) -> None:
    """Make the environment of a program once for each set of versions."""
    ready = peer.folder / ".ready"
    wanted = peer.packages()
    if not wanted or (ready.exists() and ready.read_text(encoding="utf-8") == "\n".join(wanted)):
        return
    print(f"installing {', '.join(wanted)}", flush=True)
    peer.install()
    ready.write_text("\n".join(wanted), encoding="utf-8")


def _measure(peers: list[Peer], sizes: Sizes) -> Results:
    network = leave_network()
    print(f"network: {network}", flush=True)
    began = time.monotonic()
    load = [os.getloadavg()[0]]
    speeds, kills, faults, views = [], [], [], []
    finished: dict[str, Work | None] = {}
    scratch = tempfile.TemporaryDirectory(prefix="assay-peers-")

    def in_time() -> bool:
        return time.monotonic() - began < sizes.whole

    with scratch as folder, serving() as endpoint:
        bench = Bench(Path(folder), endpoint, sizes.per_peer)
        for latency, at_once in SETTINGS:
            for peer in peers:
                longest = sizes.longest if in_time() else 0
                speed, work = measure_speed(bench, peer, sizes.samples, latency, at_once, longest)
                speeds.append(speed)
                print(speed, flush=True)
                if (latency, at_once) == SETTINGS[0]:
                    finished[peer.name] = work if speed.end == "ended" else None
                elif work:
                    bench.clear(work)
        load.append(os.getloadavg()[0])
        for peer in peers:
            views.append(measure_view(peer, finished[peer.name], sizes.samples))
            print(views[-1], flush=True)
        load.append(os.getloadavg()[0])
        usual = {speed.peer: speed.code for speed in speeds if speed.end == "ended"}
        for peer in peers:
            longest = sizes.longest if in_time() else 0
            kills.append(measure_kill(bench, peer, sizes.samples, *KILL, longest))
            print(kills[-1], flush=True)
        load.append(os.getloadavg()[0])
        for kind in (TRANSIENT, PERMANENT):
            for peer in peers:
                longest = sizes.longest if in_time() else 0
                code = usual.get(peer.name)
                faults.append(measure_faults(bench, peer, kind, sizes.samples, 64, longest, code))
                print(faults[-1], flush=True)
        load.append(os.getloadavg()[0])
        for peer in peers:
            longest = sizes.longest_many if in_time() else 0
            speed, work = measure_speed(bench, peer, sizes.many, *MANY, longest)
            speeds.append(speed)
            print(speed, flush=True)
            if work:
                bench.clear(work)
    load.append(os.getloadavg()[0])
    return Results(
        date=time.strftime("%Y-%m-%d %H:%M"),
        machine=f"{_processor()}, {os.cpu_count()} cores, {_memory()} GB",
        python=platform.python_version(),
        command=" ".join(["python -m benchmarks.peers", *sys.argv[1:]]),
        network=network,
        minutes=(time.monotonic() - began) / 60,
        load=load,
        versions={peer.name: peer.version for peer in peers},
        speeds=speeds,
        kills=kills,
        faults=faults,
        views=views,
    )


def _wrong(speeds: list[Speed]) -> Iterator[str]:
    """Runs that did not do the same work as the others."""
    for speed in speeds:
        if speed.end != "ended":
            continue
        same = speed.asked == speed.samples == speed.count
        if not same or speed.accuracy != tasks.accuracy(speed.count):
            yield (
                f"{speed.peer}: {speed.asked} requests, {speed.samples} samples, accuracy {speed.accuracy}, "
                f"exit code {speed.code}"
            )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--install", action="store_true", help="only make the environments; needs the registries")
    parser.add_argument("--tables", action="store_true", help="only write the pages again from the results")
    parser.add_argument("--quick", action="store_true", help="100 samples, to try the programs")
    parser.add_argument("--only", metavar="NAME,…", help=f"some of {', '.join(peer.name for peer in PEERS)}")
    parser.add_argument("--results", default=str(results.FILE), help="the file to write")
    return parser.parse_args()


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown CPU"


def _memory() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)


if __name__ == "__main__":
    sys.exit(main())
