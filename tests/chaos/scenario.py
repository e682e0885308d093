"""A scenario: one seed decides the suite, its size and options, the faults and their places.

scenario = Scenario.of(17)
result = scenario.play(lab)      # a Result; `failure` is empty if all is well
"""

from __future__ import annotations

import time
from random import Random
from typing import NamedTuple

import msgspec

from chaos.configuration import CONFIGURATIONS, Configuration, How
from chaos.faults import FAULTS, Fault
from chaos.ray_faults import RAY_FAULTS
from chaos.stage import Executor, Lab, Stage

TABLES: dict[Executor, dict[str, Fault]] = {"local": FAULTS, "ray": RAY_FAULTS}
"""The faults of each executor."""


class Result(msgspec.Struct):
    """How a scenario went. `failure` says what was wrong; empty if nothing was."""

    seed: int
    suite: str
    faults: list[str]
    failure: str
    what: str
    cpu: float
    seconds: float


class Scenario(NamedTuple):
    """What a seed means. `executor` is where the cases run: in the process of the command, or on a Ray cluster."""

    seed: int
    configuration: Configuration
    faults: tuple[str, ...]
    concurrency: int
    large: bool
    executor: Executor = "local"

    @classmethod
    def of(cls, seed: int, executor: Executor = "local") -> Scenario:
        """Return the scenario of a seed. Suites take turns, so that any few seeds have all of them."""
        random = Random(seed)
        suite = list(CONFIGURATIONS)[seed % len(CONFIGURATIONS)]
        table = TABLES[executor]
        weights = [fault.weight for fault in table.values()]
        faults = random.choices(list(table), weights, k=random.choice((1, 1, 1, 2, 2, 3)))
        alone = [name for name in faults if table[name].alone]
        return cls(
            seed,
            random.choice(CONFIGURATIONS[suite]),
            tuple(alone[:1] or faults),
            random.choice((1, 2, 4, 8)),
            large=random.random() < 0.3,
            executor=executor,
        )

    def __str__(self) -> str:
        return f"scenario {self.seed}: {self.configuration}, {self.concurrency} at once, {' then '.join(self.faults)}"

    def play(self, lab: Lab) -> Result:
        """Play the faults one after the other, then let the run end, and compare it."""
        started, cpu = time.monotonic(), time.process_time()
        table = TABLES[self.executor]
        small = any(table[name].small for name in self.faults)
        stage = Stage(lab, self.configuration, Random(self.seed), small=small)
        stage.how, stage.large = How(concurrency=self.concurrency), self.large
        failure = ""
        if lab.nodes is not None:
            stage.flags = ["--executor", "ray", "--address", lab.nodes.address, "--workers", "2"]
        try:
            lab.whole(stage.configuration, stage.lasting)
            lab.server.reset()
            for name in self.faults:
                if not stage.refused:
                    table[name].play(stage)
            stage.finish()
        except Exception as error:  # noqa: BLE001 - a failure of the machinery is a failure, too
            failure = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        what = "\n  ".join([str(self), *stage.told])
        used = stage.cpu + time.process_time() - cpu
        return Result(
            self.seed,
            self.configuration.suite,
            list(self.faults),
            failure,
            what,
            used,
            time.monotonic() - started,
        )
