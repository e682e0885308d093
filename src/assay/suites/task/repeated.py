"""What repeats tell beyond one number: pass@k and maj@k for every k, from the same replies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assay.scoring.repeats import first_votes, pass_at_k
from assay.suites.task.chains import Chain
from assay.suites.task.config import GENERATE
from assay.suites.task.metrics import Metric
from assay.suites.task.outputs import Gold

Right = Callable[[Metric, Any, Any], bool]


def curve(scoring: Any, chain: Chain, gold: Gold, replies: list[Any], right: Right) -> dict[str, Any] | None:
    """How many repeats were right, and a digit for every k: whether the vote over the first k was.

    Only for metrics that know right and wrong.
    """
    metric = next((one for one in scoring.metrics.values() if one.right_wrong and one.measure), None)
    if metric is None or scoring.output != GENERATE or scoring.process is not None:
        return None
    answers = [_key(answer) for answer in chain.extract(replies, gold.doc)]
    known = {answer: right(metric, gold.label, answer) for answer in dict.fromkeys(answers)}
    votes = "".join("1" if vote else "0" for vote in first_votes(answers, known))
    hits = sum(known[answer] for answer in answers)
    return {"metric": metric.name, "n": len(answers), "right": hits, "votes": votes}


def _key(answer: Any) -> Any:
    return answer if isinstance(answer, (str, int, float, bool, type(None))) else str(answer)


class Curves:
    """Means over documents of pass@k and maj@k, for every k."""

    def __init__(self) -> None:
        self._right: dict[int, int] = {}
        self._voted: list[int] = []
        self.docs = 0
        self.metric = ""

    def add(self, found: dict[str, Any]) -> None:
        """One document's repeats; documents with another number of repeats than the first are left out."""
        votes = found["votes"]
        if not self.docs:
            self.metric, self._voted = found["metric"], [0] * len(votes)
        if len(votes) != len(self._voted):
            return
        self.docs += 1
        self._right[found["right"]] = self._right.get(found["right"], 0) + 1
        for at, vote in enumerate(votes):
            self._voted[at] += vote == "1"

    def summary(self) -> dict[str, Any] | None:
        """Every k with its mean, and the denominator."""
        if not self.docs:
            return None
        return {
            "metric": self.metric,
            "docs": self.docs,
            "pass@k": [self._passed(k) for k in range(1, len(self._voted) + 1)],
            "maj@k": [count / self.docs for count in self._voted],
        }

    def _passed(self, k: int) -> float:
        """Documents with equally many right repeats pass equally often."""
        n = len(self._voted)
        return sum(pass_at_k(n, right, k) * docs for right, docs in self._right.items()) / self.docs
