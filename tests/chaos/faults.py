"""The faults: each disturbs one or two starts of a run, and checks what is true of this fault alone.

A fault is a function that gets the stage. What it draws comes from `stage.random`, so a seed decides everything. A new
fault is a function with a line in FAULTS.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

from chaos.configuration import OUTPUT, How
from chaos.oracle import check_readable, read_logged
from chaos.process import Ended
from chaos.stage import SMALL_DISK_BYTES, Stage, filled_disk
from chaos.write_points import Disturbance, When
from servers.fake_openai import LIES, STATUSES, Behaviour
from support.damaged_runs import BYTE_DAMAGE, FILE_DAMAGE, LINE_DAMAGE

_WHEN: tuple[When, ...] = ("before", "after", "torn")
_STOPPED = 3


class Fault(NamedTuple):
    """A fault with its share of the scenarios."""

    play: Callable[[Stage], None]
    weight: int
    alone: bool = False
    """Whether it is the only fault of its scenario."""
    small: bool = False
    """Whether the run is on the small disk."""


def kill(stage: Stage) -> None:
    """`kill -9` before, after or in the middle of a write."""
    wanted = Disturbance("kill", stage.point(), stage.random.choice(_WHEN))
    ended = stage.start(wanted)
    assert ended.killed == bool(ended.reached), ended
    if stage.random.random() < 0.2:
        stage.check(lambda: check_readable(stage.folder))


def full_disk(stage: Stage) -> None:
    """A write finds no room, or half of the room it needs; so do all later ones, or it alone."""
    when: When = stage.random.choice(("before", "torn"))
    lasts = stage.random.random() < 0.6
    _refuse(stage, Disturbance("error", stage.point(), when, errno.ENOSPC, lasts))


def read_only(stage: Stage) -> None:
    """From some point on, nothing can be created, renamed or removed."""
    point = 1 if stage.random.random() < 0.4 else stage.point()
    _refuse(stage, Disturbance("error", point, "before", errno.EROFS, lasts=True))


def broken_disk(stage: Stage) -> None:
    """The device fails, once or for good."""
    lasts = stage.random.random() < 0.5
    _refuse(stage, Disturbance("error", stage.point(), "before", errno.EIO, lasts))


def _refuse(stage: Stage, disturbance: Disturbance) -> None:
    before = read_logged(stage.folder).replies
    whole = stage.whole
    stage.lab.behave(stage.behaviour)
    ended = stage.begin(disturbance).end()
    stage.tell(f"start {stage.starts}: {errno.errorcode[disturbance.errno]}, exit code {ended.code} at {ended.reached}")
    lost = stage.how.concurrency if "could not be saved" in ended.text else 0
    stage.account(ended, before, [stage.starts], lost=lost)
    _check_stopped(stage, ended, whole.code)


def _check_stopped(stage: Stage, ended: Ended, code: int) -> None:
    """A start that met a full disk stops with 3, or with 2 before its first request, or did not need the write."""
    assert ended.code in (code, 2, _STOPPED), f"exit code {ended.code}: {ended.text[-2000:]}"
    if ended.code == 2 != code:
        assert not stage.lab.requests(f"start-{stage.starts}"), f"requests before exit code 2: {ended.text[-2000:]}"


def real_full_disk(stage: Stage) -> None:
    """A small disk is full: at once, after the first replies, or under the result files."""
    if not stage.is_small:
        full_disk(stage)
        return
    free = int(stage.random.choice((0.02, 0.2, 1.05, 1.1)) * (1 << 20)) + stage.random.randrange(1 << 16)
    before = read_logged(stage.folder).replies
    whole = stage.whole
    stage.lab.behave(stage.behaviour)
    with filled_disk(stage.lab.disk, min(free, SMALL_DISK_BYTES)):
        ended = stage.begin().end()
    stage.tell(f"start {stage.starts} with {free >> 10} KB of room: exit code {ended.code}")
    lost = stage.how.concurrency if "could not be saved" in ended.text else 0
    stage.account(ended, before, [stage.starts], lost=lost)
    _check_stopped(stage, ended, whole.code)


def real_read_only(stage: Stage) -> None:
    """The disk of the run is mounted read-only, before its first start or between two."""
    if not stage.is_small:
        read_only(stage)
        return
    if stage.random.random() < 0.6:
        kill(stage)
    before = read_logged(stage.folder).replies
    whole = stage.whole
    stage.lab.behave(stage.behaviour)
    stage.lab.set_read_only(on=True)
    try:
        ended = stage.begin().end()
        stage.tell(f"start {stage.starts} on a read-only disk: exit code {ended.code}")
        stage.account(ended, before, [stage.starts])
        _check_stopped(stage, ended, whole.code)
        stage.check(lambda: check_readable(stage.folder))
    finally:
        stage.lab.set_read_only(on=False)


def interrupt(stage: Stage) -> None:
    """Ctrl-C or SIGTERM: replies in flight are waited for, and all are saved."""
    number = stage.random.choice((signal.SIGINT, signal.SIGTERM))
    ended = stage.start(Disturbance("signal", stage.point(), stage.random.choice(("before", "after")), number))
    assert ended.code in (stage.whole.code, 130, -number), f"exit code {ended.code}: {ended.text[-2000:]}"


def jumping_clock(stage: Stage) -> None:
    """The clock is set back or forward while the run goes on, and the run may be killed besides."""
    jumps = {stage.random.randrange(60): stage.random.choice((-1e9, -86400.0, -3.5, 2.0, 7200.0, 1e8))}
    jumps[stage.random.randrange(10)] = stage.random.choice((-3600.0, 3600.0))
    wanted = Disturbance("kill", stage.point()) if stage.random.random() < 0.6 else None
    stage.tell(f"the clock jumps: {jumps}")
    stage.start(wanted, change=lambda: _set_clock(jumps))


def _set_clock(jumps: dict[int, float]) -> None:
    real, calls, shift = time.time, 0, 0.0

    def jumped() -> float:
        nonlocal calls, shift
        shift += jumps.get(calls, 0.0)
        calls += 1
        return real() + shift

    time.time = jumped


def moved_times(stage: Stage) -> None:
    """The files of the run get other times of change, as after a copy or a wrong clock."""
    if stage.random.random() < 0.5:
        kill(stage)
    else:
        stage.start()
    for path in sorted((stage.folder / OUTPUT).rglob("*")):
        if stage.random.random() < 0.5:
            moment = stage.random.choice((0, 946_684_800, 4_000_000_000))
            os.utime(path, (moment, moment))
    stage.tell("times of change were moved")


def two_writers(stage: Stage) -> None:
    """While one start waits at a write, the same command is started beside it."""
    whole = stage.whole
    stage.lab.behave(stage.behaviour)
    before = read_logged(stage.folder).replies
    paused, resume = os.pipe(), os.pipe()
    try:
        wanted = Disturbance(
            "pause", stage.point(), stage.random.choice(("before", "after")), pipe=(paused[1], resume[0])
        )
        first = stage.begin(wanted)
        ended = first.wait(or_readable=paused[0])
        second = stage.begin()
        # The second start waits for the first while that one creates the run.
        beside = second.wait(0.4)
        os.write(resume[1], b"g")
        ended, beside = ended or first.end(), beside or second.end()
    finally:
        for descriptor in (*paused, *resume):
            os.close(descriptor)
    stage.tell(f"two starts: exit codes {ended.code} at {ended.reached} and {beside.code}")
    stage.cpu += ended.cpu
    stage.account(beside, before, [stage.starts - 1, stage.starts])
    for each in (ended, beside):
        busy = each.code == 2 and "another process is working on" in each.text
        assert busy or each.code == whole.code, f"exit code {each.code}: {each.text[-2000:]}"
    assert whole.code in (ended.code, beside.code), "both starts were refused"


def reader_beside(stage: Stage) -> None:
    """While a start waits at a write, the run is listed, shown and checked."""
    before = read_logged(stage.folder).replies
    whole = stage.whole
    stage.lab.behave(stage.behaviour)
    paused, resume = os.pipe(), os.pipe()
    try:
        when: When = stage.random.choice(("before", "after"))
        first = stage.begin(Disturbance("pause", stage.point(), when, pipe=(paused[1], resume[0])))
        ended = first.wait(or_readable=paused[0])
        try:
            stage.check(lambda: check_readable(stage.folder))
        finally:
            os.write(resume[1], b"g")
            ended = ended or first.end()
            stage.tell(f"a reader beside: exit code {ended.code} at {ended.reached}")
    finally:
        for descriptor in (*paused, *resume):
            os.close(descriptor)
    stage.account(ended, before, [stage.starts])
    assert ended.code == whole.code, f"exit code {ended.code}: {ended.text[-2000:]}"


# Result files are left alone: assay takes a changed one for the user's edit.
_DAMAGED_NAMES = (
    "calls.jsonl",
    "records.jsonl",
    "scores.jsonl",
    "summary.json",
    "run.json",
    "code_files.jsonl",
)
_WAYS: list[Callable[[Random, Path], None]] = [
    way
    for way in (*BYTE_DAMAGE, *LINE_DAMAGE, *FILE_DAMAGE)
    if "twin" not in way.__name__ and "exchange_f" not in way.__name__
]


def damage(stage: Stage) -> None:
    """Bytes of the run change between two starts."""
    if stage.random.random() < 0.7:
        kill(stage)
    else:
        stage.start()
    stage.damaged = True
    runs = sorted((stage.folder / OUTPUT / "assay").glob("*/run.json"))
    if not runs:
        return
    for _ in range(stage.random.choice((1, 1, 2))):
        files = [runs[0].with_name(name) for name in _DAMAGED_NAMES] + sorted(runs[0].parent.glob("*.bin"))
        path = stage.random.choice([file for file in files if file.is_file()] or [runs[0]])
        way = stage.random.choice(_WAYS)
        if path.is_file() and path.stat().st_size:
            content = path.read_bytes()
            way(stage.random, path)
            stage.tell(f"{way.__name__} in {path.name}")
            # Every later start is refused until somebody does what the message says.
            is_changed = not path.is_file() or path.read_bytes() != content
            stage.refused = stage.refused or (path == runs[0] and is_changed)
    stage.check(lambda: check_readable(stage.folder))


_PASSING = (*LIES, "429", "500", "503", "drop", "cut", "hang", "garbage", "no_choices")
_REPEATED = ("429", "500", "503", "drop", "cut", "reset", "trickle", "old_http", "long_length")


def bad_endpoint(stage: Stage) -> None:
    """The endpoint trickles, floods, lies, closes or never answers, then recovers."""
    # Code that goes on without a reply ends its case well, so all its calls must be answered in the end.
    names = stage.random.sample(_REPEATED if stage.configuration.forgives else _PASSING, 2)
    if stage.configuration.suite.startswith("memory") and "hang" in names:
        # --timeout also limits what a memory does itself, and a busy machine takes longer than the short one below.
        names = ["drop"]
    share = stage.random.choice((0.1, 0.4, 1.0)) / len(names)
    attempts = stage.random.choice((1, 1, 2))
    faults = dict.fromkeys(names, share)
    stage.behaviour = Behaviour(
        wrap=stage.configuration.wrap, faults=faults, faulty_attempts=attempts, retry_after=0.005
    )
    # Three retries are enough for two faulty attempts. Without retries, cases have no answer, and are asked again.
    retries = 3 if stage.configuration.forgives else stage.random.choice((3, 3, 0))
    stage.how = How(concurrency=stage.how.concurrency, timeout=0.3 if "hang" in names else 5.0, max_retries=retries)
    stage.tell(f"endpoint with {faults} in {attempts} attempts, {retries} retries")
    wanted = Disturbance("kill", stage.point()) if stage.random.random() < 0.3 else None
    ended = stage.start(wanted)
    assert ended.killed or ended.code in (stage.whole.code, _STOPPED, 2), f"{ended.code}: {ended.text[-2000:]}"
    stage.behaviour = stage.lasting


_LASTING = ("refusal", "overflow")


def refusing_endpoint(stage: Stage) -> None:
    """The endpoint refuses some requests for good: the run has fewer answers, killed or not."""
    faults = {stage.random.choice(_LASTING): stage.random.choice((0.2, 0.5))}
    stage.lasting = stage.behaviour = Behaviour(wrap=stage.configuration.wrap, faults=faults, same_fault=True)
    stage.tell(f"endpoint that refuses {faults}")
    kill(stage)


def closed_door(stage: Stage) -> None:
    """The endpoint rejects every request at first: the key is wrong, or the service is down."""
    if stage.configuration.forgives:
        kill(stage)
        return
    status = stage.random.choice([name for name in STATUSES if name != "overflow"])
    stage.behaviour = Behaviour(wrap=stage.configuration.wrap, faults={status: 1.0}, retry_after=0.005)
    stage.how = How(concurrency=stage.how.concurrency, max_retries=1)
    stage.tell(f"endpoint that answers {status}")
    is_complete = read_logged(stage.folder).replies == stage.whole.requests
    ended = stage.start()
    expected = [stage.whole.code, 3] if is_complete else [1, 2, 3]
    if stage.damaged:
        # If the log was damaged after the last case had ended, no reply is missing, whatever the log still has.
        expected.append(stage.whole.code)
    assert ended.code in expected, f"{ended.code}: {ended.text[-2000:]}"
    stage.behaviour = stage.lasting


def nothing(stage: Stage) -> None:
    """No fault: the same run twice is the same."""
    stage.start()


FAULTS: dict[str, Fault] = {
    "kill": Fault(kill, 30),
    "full disk": Fault(full_disk, 10),
    "real full disk": Fault(real_full_disk, 4, small=True),
    "read-only": Fault(read_only, 4),
    "real read-only": Fault(real_read_only, 2, small=True),
    "broken disk": Fault(broken_disk, 4),
    "interrupt": Fault(interrupt, 6),
    "jumping clock": Fault(jumping_clock, 6),
    "moved times": Fault(moved_times, 3),
    "two writers": Fault(two_writers, 8),
    "reader beside": Fault(reader_beside, 4),
    "damage": Fault(damage, 10),
    "bad endpoint": Fault(bad_endpoint, 14),
    "refusing endpoint": Fault(refusing_endpoint, 3, alone=True),
    "closed door": Fault(closed_door, 2),
    "nothing": Fault(nothing, 1),
}
