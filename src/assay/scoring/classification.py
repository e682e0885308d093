"""F1 and Matthews' correlation of labels, from pairs [right label, answered label].

The numbers are scikit-learn's, which the harness uses. They are computed from counts alone, so that a hundred
thousand resamples cost little more than their random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

RowStatistic = Callable[["NDArray[Any]"], "NDArray[np.float64] | list[float]"]
"""For the bootstrap: from rows of drawn values to one number for each row."""


class LabelGroups(NamedTuple):
    """Which codes belong to which label, as numpy's `reduceat` wants it. Some labels have no codes."""

    order: Ints
    starts: Ints
    labels: Ints


class LabelPairs(NamedTuple):
    """Pairs as codes, one for each pair that differs; which codes have which label, and which are right."""

    codes: Ints
    labels: list[Any]
    wanted: LabelGroups
    given: LabelGroups
    right: LabelGroups


def label_f1(pairs: Sequence[Any]) -> float:
    """F1 of label 1 where the harness has a number: at most two labels, 1 among them, or all labels equal.

    "0" and "1" as text count as labels too. Everything else is the mean F1 of all labels: the harness fails.
    """
    return _of_all(_coded(pairs), _f1)


def matthews_corrcoef(pairs: Sequence[Any]) -> float:
    """Matthews' correlation of any number of labels; 0 where either side has only one."""
    return _of_all(_coded(pairs), _matthews)


def resampled_f1(pairs: Sequence[Any]) -> tuple[Ints, RowStatistic]:
    """The pairs as codes, and the F1 of rows of such codes."""
    coded = _coded(pairs)
    return coded.codes, partial(_of_rows, coded, _f1)


def resampled_matthews(pairs: Sequence[Any]) -> tuple[Ints, RowStatistic]:
    """The pairs as codes, and the correlation of rows of such codes."""
    coded = _coded(pairs)
    return coded.codes, partial(_of_rows, coded, _matthews)


def _of_all(coded: LabelPairs, statistic: Any) -> float:
    return float(_of_rows(coded, statistic, coded.codes[None, :])[0])


def _of_rows(coded: LabelPairs, statistic: Any, rows: Ints) -> Floats:
    """Count the codes of every row, then compute on counts."""
    import numpy as np

    kinds = len(coded.wanted.order)
    apart = rows + np.arange(len(rows))[:, None] * kinds
    counts = np.bincount(apart.ravel(), minlength=len(rows) * kinds)
    values: Floats = statistic(coded, counts.reshape(-1, kinds))
    return values


def _f1(coded: LabelPairs, counts: Ints) -> Floats:
    import numpy as np

    hits = _by_label(coded, coded.right, counts)
    seen = _by_label(coded, coded.wanted, counts) + _by_label(coded, coded.given, counts)
    each = np.zeros(hits.shape)
    np.divide(2.0 * hits, seen, out=each, where=seen > 0)
    if _has_positive(coded.labels):
        ones = [column for column, label in enumerate(coded.labels) if label in (1, "1")]
        return each[:, ones[0]] if ones else np.zeros(len(counts))
    total = np.zeros(len(counts))
    for column in each.T:  # from left to right, as everywhere
        total += column
    total /= (seen > 0).sum(axis=1)
    return total


def _has_positive(labels: list[Any]) -> bool:
    """Whether F1 is of label 1 alone. It is asked of all pairs: their draws are treated alike."""
    if len(labels) > 2:
        return False
    if len(labels) == 1 or set(labels) == {"0", "1"}:
        return True
    return 1 in labels and all(float(label).is_integer() for label in labels)


def _matthews(coded: LabelPairs, counts: Ints) -> Floats:
    import numpy as np

    wanted = _by_label(coded, coded.wanted, counts)
    given = _by_label(coded, coded.given, counts)
    right = _by_label(coded, coded.right, counts).sum(axis=1)
    total = given.sum(axis=1)
    both = right * total - (wanted * given).sum(axis=1)
    spread = (total**2 - (given * given).sum(axis=1)) * (total**2 - (wanted * wanted).sum(axis=1))
    correlations = np.zeros(len(both))
    np.divide(both, np.sqrt(spread), out=correlations, where=spread != 0)
    return correlations


def _by_label(coded: LabelPairs, groups: LabelGroups, counts: Ints) -> Floats:
    """The counts of each label's codes, a column for each label. All are whole numbers, so sums are exact."""
    import numpy as np

    sums = np.zeros((len(counts), len(coded.labels)))
    if len(groups.order):
        sums[:, groups.labels] = np.add.reduceat(counts.take(groups.order, axis=1), groups.starts, axis=1)
    return sums


def _coded(pairs: Sequence[Any]) -> LabelPairs:
    """Labels are numbers where all are numbers (1, 1.0 and true are one label), else what they read as."""
    import numpy as np

    plain = [(_alone(wanted), _alone(given)) for wanted, given in pairs]
    if not all(isinstance(label, Real) for pair in plain for label in pair):
        plain = [(str(wanted), str(given)) for wanted, given in plain]
    labels = sorted({label for pair in plain for label in pair})
    column = {label: number for number, label in enumerate(labels)}
    codes = {kind: code for code, kind in enumerate(dict.fromkeys(plain))}
    every = [(code, column[wanted], column[given]) for (wanted, given), code in codes.items()]
    return LabelPairs(
        codes=np.array([codes[pair] for pair in plain], dtype=np.int64),
        labels=labels,
        wanted=_groups([(wanted, code) for code, wanted, _ in every]),
        given=_groups([(given, code) for code, _, given in every]),
        right=_groups([(wanted, code) for code, wanted, given in every if wanted == given]),
    )


def _groups(members: list[tuple[int, int]]) -> LabelGroups:
    import numpy as np

    table = np.array(sorted(members), dtype=np.int64).reshape(-1, 2)
    labels, starts = np.unique(table[:, 0], return_index=True)
    return LabelGroups(table[:, 1], starts, labels)


def _alone(label: Any) -> Any:
    """A list of one label is that label."""
    return label[0] if isinstance(label, (list, tuple)) and len(label) == 1 else label
