"""Faults of runs whose cases run on Ray: workers and nodes are lost, the driver is killed and continued elsewhere.

The first starts of such a run are on the cluster. The last one is on the cluster or without it, as the seed says.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from mmap import mmap

from chaos.faults import Fault, bad_endpoint, full_disk, interrupt, kill, nothing
from chaos.oracle import read_logged
from chaos.stage import Stage
from chaos.write_points import Disturbance
from support.lost_workers import Messages, killed_at

# Messages of a case besides those of its calls, and of a call: the question and its answer.
_CASE_MESSAGES, _CALL_MESSAGES = 2, 2
# Patches of a copied process, which last as long as the copy.
_kept: list[AbstractContextManager[Messages]] = []


def lost_worker(stage: Stage) -> None:
    """`kill -9` of the worker that a message comes from or goes to: nothing is asked again."""
    calls = stage.whole.requests.total()
    messages = _CALL_MESSAGES * calls + _CASE_MESSAGES * len(stage.whole.cases)
    number = 1 + int(stage.random.random() * messages)
    # A continued run may have fewer messages. The copied process tells whether this one came.
    with mmap(-1, 1) as came:

        def lose() -> None:
            patch = killed_at(number, lambda: came.write_byte(1))
            patch.__enter__()
            _kept.append(patch)

        try:
            ended = stage.start(change=lose)
        finally:
            stage.tell(f"the worker of message {number} was killed" if came[0] else f"message {number} did not come")
    assert ended.code == stage.whole.code, f"exit code {ended.code}: {ended.text[-2000:]}"


def lost_node(stage: Stage) -> None:
    """A node with its workers is gone while the driver writes a line."""
    whole, nodes = stage.whole, stage.lab.nodes
    assert nodes is not None
    stage.lab.behave(stage.behaviour)
    before = read_logged(stage.folder).replies
    what = "no node is lost"
    (paused, told), (waits, resume) = os.pipe(), os.pipe()
    try:
        driver = stage.begin(Disturbance("pause", stage.point(), pipe=(told, waits)))
        ended = driver.wait(or_readable=paused)
        if ended is None:
            nodes.lose_one()
            what = "a node is lost"
            os.write(resume, b"g")
            ended = driver.end()
    finally:
        for descriptor in (paused, told, waits, resume):
            os.close(descriptor)
    stage.tell(f"{what}: exit code {ended.code} at {ended.reached}")
    stage.account(ended, before, [stage.starts])
    assert ended.code == whole.code, f"exit code {ended.code}: {ended.text[-2000:]}"


RAY_FAULTS: dict[str, Fault] = {
    "lost worker": Fault(lost_worker, 40),
    "lost node": Fault(lost_node, 15),
    "kill": Fault(kill, 20),
    "interrupt": Fault(interrupt, 5),
    "full disk": Fault(full_disk, 5),
    "bad endpoint": Fault(bad_endpoint, 10),
    "nothing": Fault(nothing, 5),
}
