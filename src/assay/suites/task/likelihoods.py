"""Metrics that are made of likelihoods: which choice was likeliest, how surprising a text was."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from assay.suites.task.config import CHOICE, LIKELIHOOD, ROLLING
from assay.suites.task.outputs import NO_LABEL, Gold

Answers = list[Any]
"""What is left of each request after the filters: [logprob, greedy], or a logprob for rolling ones."""


class Choices:
    """The likelihoods of one document's choices."""

    def __init__(self, gold: Gold, answers: Answers) -> None:
        self.gold = gold.label
        self.options = gold.choices or []
        self.greedy = [bool(greedy) for _, greedy in answers]
        count = len(self.options)
        self.logprobs = [float(logprob) for logprob, _ in answers[:count]]
        self.unconditional = [float(logprob) for logprob, _ in answers[count:]]

    def right(self, values: Sequence[float]) -> float:
        """1.0 if the largest value belongs to a right choice; of equal ones the first counts."""
        best = max(range(len(values)), key=values.__getitem__)
        return 1.0 if best in (self.gold if isinstance(self.gold, list) else [self.gold]) else 0.0

    def per(self, sizes: list[int]) -> list[float]:
        """Likelihoods by length; a choice without any length is never the likeliest."""
        pairs = zip(self.logprobs, sizes, strict=True)
        return [logprob / size if size else -math.inf for logprob, size in pairs]

    @property
    def best(self) -> int:
        """The likeliest choice."""
        return max(range(len(self.logprobs)), key=self.logprobs.__getitem__)


def _acc(one: Choices) -> float:
    return one.right(one.logprobs)


def _pair(one: Choices) -> list[Any]:
    return [one.gold, one.best]


def _acc_norm(one: Choices) -> float:
    return one.right(one.per([len(option) for option in one.options]))


def _acc_bytes(one: Choices) -> float:
    return one.right(one.per([len(option.encode()) for option in one.options]))


def _exact_match(one: Choices) -> int:
    labels = one.gold if isinstance(one.gold, list) else [one.gold]
    return int(any(one.greedy[label] for label in labels if label != NO_LABEL))


def _brier_score(one: Choices) -> list[Any]:
    import numpy as np

    exponents = np.exp(np.array(one.logprobs) - max(one.logprobs))
    return [one.gold, (exponents / exponents.sum()).tolist()]


def _likelihood(one: Choices) -> list[Any]:
    return [one.gold, one.logprobs]


def _acc_mutual_info(one: Choices) -> float:
    pairs = zip(one.logprobs, one.unconditional, strict=True)
    return one.right([logprob - alone for logprob, alone in pairs])


_OF_CHOICES: dict[str, Callable[[Choices], Any]] = {
    "acc": _acc,
    "f1": _pair,
    "mcc": _pair,
    "acc_norm": _acc_norm,
    "acc_bytes": _acc_bytes,
    "exact_match": _exact_match,
    "brier_score": _brier_score,
    "likelihood": _likelihood,
    "acc_mutual_info": _acc_mutual_info,
}
_OF_ONE: dict[str, Callable[[float, bool], Any]] = {
    "perplexity": lambda logprob, _greedy: logprob,
    "acc": lambda _logprob, greedy: int(greedy),
}
_OF_TEXT: dict[str, Callable[[str], int]] = {
    "word_perplexity": lambda text: len(re.split(r"\s+", text)),
    "byte_perplexity": lambda text: len(text.encode()),
    "bits_per_byte": lambda text: len(text.encode()),
}
METRICS = {
    CHOICE: (*_OF_CHOICES, "bypass"),
    LIKELIHOOD: (*_OF_ONE, "bypass"),
    ROLLING: (*_OF_TEXT, "bypass"),
}
"""The metrics of each output type, in the order in which rows show them."""


def measured(output: str, names: set[str], gold: Gold, answers: Answers) -> dict[str, Any]:
    """The values of one document by metric. `bypass` has none, and rows show the answers all the same."""
    found = _measured(output, names, gold, answers)
    return found | ({"bypass": None} if "bypass" in names else {})


def _measured(output: str, names: set[str], gold: Gold, answers: Answers) -> dict[str, Any]:
    if output == CHOICE:
        one = Choices(gold, answers)
        return {name: metric(one) for name, metric in _OF_CHOICES.items() if name in names}
    if output == LIKELIHOOD:
        logprob, greedy = answers[0]
        return {name: metric(logprob, greedy) for name, metric in _OF_ONE.items() if name in names}
    return {name: [answers[0], size(gold.target)] for name, size in _OF_TEXT.items() if name in names}
