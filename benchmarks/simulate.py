"""How often the intervals contain the true value, and how often tests and gates are wrong: `make simulate`.

Draws runs whose true value is known and asks the code that `assay` uses for their intervals, p values and gates. Every
scenario has its own seed, so the figures are the same each time. Exits with 1 if a figure is outside its limit.

A run has clusters, such as conversations, with a share of right answers each, which vary between clusters: the
intraclass correlation (icc) is 0 if all clusters are alike and 1 if all answers of a cluster are equal. Sizes are
equal, or uneven: between half and one and a half times the mean.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable
from itertools import product
from multiprocessing import Pool
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from assay.core.report import Metric, PairedMetric
from assay.scoring.intervals import wilson
from assay.scoring.metric_builders import ClusteredValues, mean_metric
from assay.scoring.paired import fill_metric, paired
from assay.store.gate import Requirement, decide_drop, decide_level

Floats = NDArray[np.float64]
PROCESSES = 2
# A figure fails if it is this many of its own standard errors outside the limit.
TOLERANCE = 3.0


class Scenario(NamedTuple):
    """What is drawn: `rate` is the true value, `same` the share of cases that a paired system answers alike."""

    table: str
    clusters: int
    size: int
    rate: float
    icc: float = 0.0
    uneven: bool = False
    graded: bool = False
    same: float = 0.0
    runs: int = 2000


class Figure(NamedTuple):
    """One figure of a scenario with its limits. `runs` is the number of draws behind it."""

    name: str
    value: float
    least: float
    most: float
    runs: int

    @property
    def is_good(self) -> bool:
        """True within the limits, and a few standard errors outside them."""
        slack = TOLERANCE * math.sqrt(max(self.value * (1 - self.value), 1e-4) / self.runs)
        return self.least - slack <= self.value <= self.most + slack


def main() -> int:
    """Run all scenarios on both cores and print a table for each kind."""
    started = time.perf_counter()
    scenarios = list(all_scenarios())
    with Pool(PROCESSES) as pool:
        results = pool.map(measure, scenarios, chunksize=1)
    failed = 0
    shown = ""
    for scenario, figures in zip(scenarios, results, strict=True):
        if scenario.table != shown:
            shown = scenario.table
            print(f"\n{shown}")
            print("clusters  size         rate   icc  same  | figures in %, limits in brackets")
        size = f"{scenario.size}{' uneven' if scenario.uneven else ''}{' graded' if scenario.graded else ''}"
        cells = []
        for figure in figures:
            failed += not figure.is_good
            limits = f"[{100 * figure.least:.0f}, {100 * figure.most:.1f}]"
            word = "" if figure.is_good else " FAILED"
            cells.append(f"{figure.name} {100 * figure.value:5.1f} {limits}{word}")
        print(
            f"{scenario.clusters:8}  {size:11}  {scenario.rate:4}  {scenario.icc:4}  {scenario.same:4}  | "
            + "  ".join(cells)
        )
    count = sum(map(len, results))
    print(f"\n{count - failed} of {count} figures are within their limits; {time.perf_counter() - started:.0f} s")
    return int(failed > 0)


def all_scenarios() -> Iterable[Scenario]:
    """Yield every scenario, table by table."""
    shapes = [(4, False), (30, False), (20, True)]
    title = "One run, 50 clusters and more"
    rates = (0.1, 0.3, 0.5, 0.7, 0.9)
    for clusters, (size, uneven), icc, rate in product((50, 200), shapes, (0.0, 0.1, 0.3), rates):
        yield Scenario(title, clusters, size, rate, icc, uneven)
    for clusters, (size, icc), rate in product((50, 200), ((1, 0.0), (10, 0.2)), (0.1, 0.3, 0.5, 0.9)):
        yield Scenario("One run, graded values", clusters, size, rate, icc, graded=True)
    for (size, uneven), icc, rate in product(shapes[1:], (0.0, 0.1, 0.3), (0.2, 0.35, 0.5, 0.65, 0.8)):
        yield Scenario("One run, 5 clusters", 5, size, rate, icc, uneven)
    title = "One run, elsewhere: wrong although not marked"
    for clusters, rate in product((2, 3, 4, 5, 8, 15, 30), (0.02, 0.05, 0.1, 0.5, 0.95)):
        yield Scenario(title, clusters, 30, rate, 0.2)
    title = "One run, independent cases (exact, mean of rates within 0.02)"
    for clusters, rate in product((50, 100, 500), rates):
        yield Scenario(title, clusters, 1, rate)
    title = "Two equal systems on the same cases"
    systems = ((0.1, 0.3), (0.3, 0.7), (0.5, 0.3), (0.9, 0.5))
    for clusters, (size, icc), (rate, same) in product((50, 200), ((1, 0.0), (6, 0.0), (6, 0.2)), systems):
        yield Scenario(title, clusters, size, rate, icc, same=same, runs=1500)
    for clusters, (size, icc) in product((50, 200), ((1, 0.0), (10, 0.2))):
        yield Scenario(title, clusters, size, 0.5, icc, graded=True, runs=1500)
    for icc, rate in product((0.0, 0.1, 0.3), (0.2, 0.5, 0.8)):
        yield Scenario("Two equal systems, 5 clusters", 5, 30, rate, icc, same=0.5)
    title = "Gates: of two runs of equal quality, one passes and one fails"
    for (clusters, size, icc), rate in product(((50, 1, 0.0), (500, 1, 0.0), (5, 30, 0.2), (50, 10, 0.2)), (0.3, 0.8)):
        yield Scenario(title, clusters, size, rate, icc)
    title = "Rare changes: a drop of 0.05 that a gate of 0.02 passes, and the interval of the difference"
    for (clusters, size, icc), rate in product(
        ((50, 1, 0.0), (500, 1, 0.0), (10, 20, 0.1), (10, 200, 0.02), (50, 10, 0.2)), (0.4, 0.8)
    ):
        yield Scenario(title, clusters, size, rate, icc)


def measure(scenario: Scenario) -> list[Figure]:
    """Draw the runs of a scenario and return its figures."""
    stream = np.random.default_rng([ord(letter) for letter in repr(scenario)])
    functions: dict[str, Callable[[Scenario, Generator], list[Figure]]] = {
        "One run, indep": independent,
        "One run, elsew": marked,
        "Two equal syst": two_systems,
        "Gates: of two ": gates,
        "Rare changes: ": rare_changes,
    }
    return functions.get(scenario.table[:14], one_run)(scenario, stream)


# What is measured


def one_run(scenario: Scenario, stream: Generator) -> list[Figure]:
    """The share of runs whose interval contains the true value."""
    hits = 0
    for _ in range(scenario.runs):
        interval = metric_of(*draw(scenario, stream)).interval
        hits += interval is not None and interval.low <= scenario.rate <= interval.high
    least, most = (0.92, 1.0) if scenario.clusters == 5 else (0.94, 0.97)
    return [Figure("coverage", hits / scenario.runs, least, most, scenario.runs)]


def marked(scenario: Scenario, stream: Generator) -> list[Figure]:
    """The share of runs whose interval is wrong and not marked as "too few clusters"; and the share that is marked."""
    wrong = marks = 0
    for _ in range(scenario.runs):
        metric = metric_of(*draw(scenario, stream))
        marks += metric.few_clusters
        interval = metric.interval
        if interval is not None and not metric.few_clusters:
            wrong += not interval.low <= scenario.rate <= interval.high
    least = 1.0 if scenario.clusters < 5 else 0.0
    return [
        Figure("wrong", wrong / scenario.runs, 0.0, 0.08, scenario.runs),
        Figure("marked", marks / scenario.runs, least, 1.0, scenario.runs),
    ]


def independent(scenario: Scenario, stream: Generator) -> list[Figure]:
    """The coverage of Wilson's interval. Its exact value jumps with the rate, because a count is a whole number."""
    count, coverages = scenario.clusters, []
    intervals = [wilson(right, count) for right in range(count + 1)]
    for rate in np.linspace(scenario.rate - 0.02, scenario.rate + 0.02, 41):
        logs = (math.log(rate), math.log1p(-rate))
        coverage = 0.0
        for right, interval in enumerate(intervals):
            if interval is not None and interval.low <= rate <= interval.high:
                ways = math.lgamma(count + 1) - math.lgamma(right + 1) - math.lgamma(count - right + 1)
                coverage += math.exp(ways + right * logs[0] + (count - right) * logs[1])
        coverages.append(coverage)
    lowest = min(coverages)
    return [
        Figure("coverage", sum(coverages) / len(coverages), 0.94, 0.97, 10**9),
        Figure("at the worst rate", lowest, 0.92, 1.0, 10**9),
    ]


def two_systems(scenario: Scenario, stream: Generator) -> list[Figure]:
    """The coverage of the interval of the difference, and how often equal systems are called different."""
    hits = differ = 0
    for _ in range(scenario.runs):
        row = row_of(*draw_pair(scenario, stream))
        hits += row.interval is not None and row.interval.low <= 0 <= row.interval.high
        differ += row.verdict != "unclear"
    least, most = (0.92, 1.0) if scenario.clusters == 5 else (0.94, 0.97)
    return [
        Figure("coverage", hits / scenario.runs, least, most, scenario.runs),
        Figure("type I", differ / scenario.runs, 0.0, 0.055, scenario.runs),
    ]


def gates(scenario: Scenario, stream: Generator) -> list[Figure]:
    """How often one run passes and another of the same quality fails, at the least favourable thresholds."""
    opposite = [0] * 4
    for _ in range(scenario.runs):
        metrics = [metric_of(*draw(scenario, stream)) for _ in range(2)]
        for place, shift in enumerate((0.0, 0.05)):
            requirement = Requirement("m", ">=", scenario.rate - shift)
            verdicts = {decide_level(requirement, "m", metric, point=False).verdict for metric in metrics}
            opposite[place] += verdicts == {"pass", "fail"}
        base, clusters = draw(scenario, stream)
        rows = []
        for _ in range(2):
            new = np.where(stream.random(len(base)) < 0.5, base, stream.permutation(base))
            rows.append(row_of(base, new, clusters))
        for place, drop in enumerate((0.0, 0.05)):
            verdicts = {decide_drop(drop, "m", row, point=False).verdict for row in rows}
            opposite[2 + place] += verdicts == {"pass", "fail"}
    names = ("at the true value", "0.05 below", "max-drop 0", "max-drop 0.05")
    return [
        Figure(name, times / scenario.runs, 0.0, 0.05, scenario.runs)
        for name, times in zip(names, opposite, strict=True)
    ]


def rare_changes(scenario: Scenario, stream: Generator) -> list[Figure]:
    """A new version that changes few answers: how often its drop passes, and how often its interval is wrong.

    Of all answers, 0.07 become wrong and 0.02 right. In small runs, often no pair differs.
    """
    lost, gained, most = 0.07, 0.02, 0.02
    passes = wrong = 0
    for _ in range(scenario.runs):
        base, clusters = draw(scenario, stream)
        chance = np.where(base == 1, lost / scenario.rate, gained / (1 - scenario.rate))
        new = np.where(stream.random(len(base)) < chance, 1 - base, base)
        row = row_of(base, new, clusters)
        passes += decide_drop(most, "m", row, point=False).verdict == "pass"
        if row.interval is not None and not row.few_clusters:
            wrong += not row.interval.low <= gained - lost <= row.interval.high
    return [
        Figure("passes", passes / scenario.runs, 0.0, 0.05, scenario.runs),
        Figure("wrong", wrong / scenario.runs, 0.0, 0.08, scenario.runs),
    ]


# What is drawn


def draw(scenario: Scenario, stream: Generator) -> tuple[Floats, NDArray[np.int64]]:
    """Return the values of a run and the cluster of each."""
    clusters = draw_clusters(scenario, stream)
    shares = draw_shares(scenario, stream)[clusters]
    if scenario.graded:
        # Grades around the share of the cluster.
        return stream.beta(2 * shares + 1e-9, 2 * (1 - shares) + 1e-9), clusters
    return (stream.random(len(clusters)) < shares).astype(float), clusters


def draw_pair(scenario: Scenario, stream: Generator) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Return the values of two systems of the same quality. They answer a share of the cases alike."""
    clusters = draw_clusters(scenario, stream)
    sides = []
    for _ in range(2):
        shares = draw_shares(scenario, stream)[clusters]
        if scenario.graded:
            sides.append(stream.beta(2 * shares + 1e-9, 2 * (1 - shares) + 1e-9))
        else:
            sides.append((stream.random(len(clusters)) < shares).astype(float))
    new = np.where(stream.random(len(clusters)) < scenario.same, sides[0], sides[1])
    return sides[0], new, clusters


def draw_clusters(scenario: Scenario, stream: Generator) -> NDArray[np.int64]:
    sizes = np.full(scenario.clusters, scenario.size)
    if scenario.uneven:
        sizes = np.rint(scenario.size * stream.uniform(0.5, 1.5, scenario.clusters)).astype(int)
    return np.repeat(np.arange(scenario.clusters), sizes)


def draw_shares(scenario: Scenario, stream: Generator) -> Floats:
    if not scenario.icc:
        return np.full(scenario.clusters, scenario.rate)
    scale = (1 - scenario.icc) / scenario.icc
    return stream.beta(scenario.rate * scale, (1 - scenario.rate) * scale, scenario.clusters)


def metric_of(values: Floats, clusters: NDArray[np.int64]) -> Metric:
    """Return the metric that a suite would report."""
    if len(values) == clusters[-1] + 1 and not np.isin(values, (0.0, 1.0)).all():
        return mean_metric("m", values.tolist())
    collected = ClusteredValues()
    for value, cluster in zip(values.tolist(), clusters.tolist(), strict=True):
        collected.add(value, cluster)
    return collected.metric("m")


def row_of(base: Floats, new: Floats, clusters: NDArray[np.int64]) -> PairedMetric:
    """Return the row that a comparison would show."""
    row = PairedMetric(set="", metric="m", part="", higher_is_better=True, n=0)
    fill_metric(row, paired(base, new, clusters))
    return row


if __name__ == "__main__":
    sys.exit(main())
