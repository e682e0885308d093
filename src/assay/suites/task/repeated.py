"""What repeats tell beyond one number: pass@k and maj@k for every k, from the same replies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from assay.suites.task.chains import Chain
from assay.suites.task.config import GENERATE
from assay.suites.task.metrics import Metric
from assay.suites.task.outputs import Gold

Right = Callable[[Metric, Any, Any], bool]


def curve(scoring: Any, chain: Chain, gold: Gold, replies: list[Any], right: Right) -> dict[str, Any] | None:
    """How many repeats were right, and whether the vote over the first k was, for every k.

    Only for metrics that know right and wrong. A vote is what `take_first_k` and `majority_vote` give: the
    most frequent answer of the first k, of equal ones the one that came first.
    """
    metric = next((one for one in scoring.metrics.values() if one.right_wrong and one.measure), None)
    if metric is None or scoring.output != GENERATE or scoring.process is not None:
        return None
    answers = chain.extract(replies, gold.doc)
    known = {answer: right(metric, gold.label, answer) for answer in dict.fromkeys(map(_key, answers))}
    hits = [known[_key(answer)] for answer in answers]
    return {"metric": metric.name, "n": len(hits), "right": sum(hits), "votes": _votes(answers, known)}


def _key(answer: Any) -> Any:
    return answer if isinstance(answer, (str, int, float, bool, type(None))) else str(answer)


def _votes(answers: list[Any], known: dict[Any, bool]) -> str:
    """A digit for each k: whether the vote over the first k answers was right."""
    counts: Counter[Any] = Counter()
    order: dict[Any, int] = {}
    winner: Any = None
    digits: list[str] = []
    for answer in map(_key, answers):
        order.setdefault(answer, len(order))
        counts[answer] += 1
        if not digits or (counts[answer], -order[answer]) > (counts[winner], -order[winner]):
            winner = answer
        digits.append("1" if known[winner] else "0")
    return "".join(digits)


class Curves:
    """Means over documents of pass@k and maj@k, for every k."""

    def __init__(self, pass_at_k: Callable[[int, int, int], float]) -> None:
        self._pass_at_k = pass_at_k
        self._passed: list[float] = []
        self._voted: list[int] = []
        self._known: dict[int, list[float]] = {}
        self.docs = 0
        self.metric = ""

    def add(self, found: dict[str, Any]) -> None:
        """One document's repeats; documents with another number of repeats than the first are left out."""
        n, votes = found["n"], found["votes"]
        if not self.docs:
            self.metric = found["metric"]
            self._passed, self._voted = [0.0] * n, [0] * n
        if n != len(self._passed):
            return
        self.docs += 1
        passed = self._passes(n, found["right"])
        for at in range(n):
            self._passed[at] += passed[at]
            self._voted[at] += votes[at] == "1"

    def _passes(self, n: int, right: int) -> list[float]:
        if right not in self._known:
            self._known[right] = [self._pass_at_k(n, right, k) for k in range(1, n + 1)]
        return self._known[right]

    def summary(self) -> dict[str, Any] | None:
        """Every k with its mean, and the denominator."""
        if not self.docs:
            return None
        return {
            "metric": self.metric,
            "docs": self.docs,
            "pass@k": [total / self.docs for total in self._passed],
            "maj@k": [count / self.docs for count in self._voted],
        }
