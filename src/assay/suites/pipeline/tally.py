"""Counts a variant's tests in data order: verdicts, by tag and set, what each step cost, the worst cases."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Sequence
from heapq import heappush, heapreplace
from typing import Any

from assay.core.types import Score
from assay.scoring.statistics import percentile, wilson
from assay.suites.pipeline.evaluation import Given
from assay.suites.pipeline.scorer import ERRORED, FAILED, PASSED, VERDICTS
from assay.suites.pipeline.testset.case import TestCase

NO_ANSWER = "no_answer"
_WORST = 10
_FEW = 50_000


class Rate:
    """How many tests came to which verdict."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def summary(self) -> dict[str, Any]:
        """The share that passed of those that were evaluated or failed on the way, with its interval."""
        counts = {name: self.counts[name] for name in (*VERDICTS, NO_ANSWER) if self.counts[name]}
        total = sum(self.counts[name] for name in (PASSED, FAILED, ERRORED))
        passed = self.counts[PASSED]
        return {
            "value": passed / total if total else None,
            "numerator": passed,
            "n": total,
            "interval": wilson(passed, total),
            "counts": counts,
        }


class StepTally:
    """One step over all tests."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.seconds = array("d")
        self.calls = self.input = self.output = self.items = self.failed_items = self.first_wrong = 0

    def add(self, said: dict[str, Any]) -> None:
        """What came of it in one test."""
        self.counts[said["status"]] += 1
        if said["status"] != "skipped":
            self.seconds.append(said.get("seconds", 0.0))
        self.calls += said.get("calls", 0)
        tokens = said.get("tokens") or (0, 0)
        self.input += tokens[0]
        self.output += tokens[1]
        self.items += said.get("items") or 0
        self.failed_items += len(said.get("failed_items", ()))

    def summary(self) -> dict[str, Any]:
        """Counts, seconds at the median and the 95th percentile, tokens; how often it went wrong first."""
        ordered = _in_order(self.seconds)
        found: dict[str, Any] = {
            "ok": self.counts["ok"],
            "failed": self.counts["failed"],
            "skipped": self.counts["skipped"],
            "first_wrong": self.first_wrong,
            "seconds": sum(ordered),
            "p50": percentile(ordered, 0.5),
            "p95": percentile(ordered, 0.95),
            "calls": self.calls,
            "input_tokens": self.input,
            "output_tokens": self.output,
        }
        return found | ({"items": self.items, "failed_items": self.failed_items} if self.items else {})


def _in_order(seconds: array[float]) -> Sequence[float]:
    """Many are sorted where they are: a list would need four times their memory."""
    if len(seconds) < _FEW:
        return sorted(seconds)
    import numpy as np

    np.frombuffer(seconds).sort()
    return seconds


class VariantTally:
    """Everything the summary says of one variant."""

    def __init__(self, steps: list[str]) -> None:
        self.all = Rate()
        self._tags: dict[str, Rate] = defaultdict(Rate)
        self.sets: dict[str, Rate] = defaultdict(Rate)
        self._steps = {step: StepTally() for step in steps}
        self._worst: list[tuple[float, int, dict[str, Any]]] = []
        self._seen = 0
        self.failed = False
        """Whether an evaluated check failed; a step that failed where nothing is expected is no check."""

    def add(self, set_: str, test: TestCase, found: Given, score: Score | None) -> None:
        """One test; without a score it got no answer."""
        said = score.data if score else {}
        result = said.get("verdict", NO_ANSWER)
        for rate in (self.all, self.sets[set_], *(self._tags[tag] for tag in dict.fromkeys(test.tags))):
            rate.counts[result] += 1
        self.failed |= any(check.get("passed") is False for check in said.get("checks", ()))
        for step, data in found.steps.items():
            self._steps[step].add(data)
        wrong = said.get("first_wrong")
        if wrong and wrong["step"] in self._steps:
            self._steps[wrong["step"]].first_wrong += 1
        if result in (FAILED, ERRORED) and score is not None:
            self._remember(set_, test, score)

    def _remember(self, set_: str, test: TestCase, score: Score) -> None:
        """The tests of which most went wrong; of equals, the first."""
        said = score.data
        wrong = sum(check.get("passed") is False for check in said.get("checks", ()))
        share = 2.0 if said["verdict"] == ERRORED else wrong / max(1, len(said.get("checks", ())))
        self._seen += 1
        case = {
            "id": test.id,
            "set": set_,
            "index": score.index,
            "verdict": said["verdict"],
            "failed_checks": wrong,
            "checks": len(said.get("checks", ())),
            "reason": score.reason,
            "first_wrong": said.get("first_wrong"),
        }
        entry = (share, -self._seen, case)
        if len(self._worst) < _WORST:
            heappush(self._worst, entry)
        elif entry > self._worst[0]:
            heapreplace(self._worst, entry)

    def counts(self) -> dict[str, dict[str, int]]:
        """How many tests of each set came to which verdict."""
        return {name: dict(rate.counts) for name, rate in self.sets.items()}

    def summary(self, alias: str) -> dict[str, Any]:
        """Every number with its denominator."""
        whole = self.all.summary()
        left_out = {
            name.replace("_", " "): count
            for name, count in whole["counts"].items()
            if name not in (PASSED, FAILED, ERRORED)
        }
        metric = {
            "filter": "",
            "metric": "pass_rate",
            "aggregation": "mean",
            "n": whole["n"],
            "value": whole["value"],
            "stderr": None,
            "interval": whole["interval"],
            "numerator": whole["numerator"],
            "higher_is_better": True,
        }
        return {
            "alias": alias,
            "counts": whole["counts"],
            "metrics": [metric | ({"left_out": left_out} if left_out else {})],
            "tags": {tag: rate.summary() for tag, rate in sorted(self._tags.items())},
            "sets": {name: rate.summary() for name, rate in self.sets.items()},
            "steps": {step: tally.summary() for step, tally in self._steps.items()},
            "worst": [case for _, _, case in sorted(self._worst, key=lambda entry: entry[:2], reverse=True)],
        }
