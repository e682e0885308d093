"""F1 and Matthews correlation of labels, from pairs [target label, answered label].

The numbers equal those of scikit-learn, which lm-evaluation-harness uses. They are computed from counts of equal
pairs, so the 100,000 resamples of the bootstrap take little longer than drawing their random numbers.
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

# A statistic for the bootstrap: it gets rows of drawn values and returns one number for each row.
RowStatistic = Callable[["NDArray[Any]"], "NDArray[np.float64] | list[float]"]


class LabelGroups(NamedTuple):
    """Codes of pairs, grouped by label. This is the form that numpy's `reduceat` expects.

    `order` lists the codes, group after group. `starts` are the positions in `order` at which the groups begin.
    `labels` are the labels of the groups, as indexes into `LabelPairs.labels`. A label without codes has no group.
    """

    order: Ints
    starts: Ints
    labels: Ints


class LabelPairs(NamedTuple):
    """Pairs of target and answer, each distinct pair replaced by an integer code.

    `codes` has one code per pair. `target` groups the codes by the label of the target, `answer` by the label of the
    answer. `right` groups only the codes whose two labels are equal.
    """

    codes: Ints
    labels: list[Any]
    target: LabelGroups
    answer: LabelGroups
    right: LabelGroups


def label_f1(pairs: Sequence[Any]) -> float:
    """Return F1 of label 1 if there are at most two labels and 1 is among them, or if all labels are equal.

    The labels may be the texts "0" and "1". In all other cases the harness fails; here the result is the mean of
    the F1 of all labels.
    """
    return _of_all(_coded(pairs), _f1)


def matthews_corrcoef(pairs: Sequence[Any]) -> float:
    """Return the Matthews correlation of any number of labels. It is 0 if one side has only one label."""
    return _of_all(_coded(pairs), _matthews)


def resampled_f1(pairs: Sequence[Any]) -> tuple[Ints, RowStatistic]:
    """Return the codes of the pairs, and a function that returns the F1 of each resample (a row of codes)."""
    coded = _coded(pairs)
    return coded.codes, partial(_of_rows, coded, _f1)


def resampled_matthews(pairs: Sequence[Any]) -> tuple[Ints, RowStatistic]:
    """Return the codes of the pairs, and a function that returns the correlation of each resample (a row of codes)."""
    coded = _coded(pairs)
    return coded.codes, partial(_of_rows, coded, _matthews)


def _of_all(coded: LabelPairs, statistic: Any) -> float:
    return float(_of_rows(coded, statistic, coded.codes[None, :])[0])


def _of_rows(coded: LabelPairs, statistic: Any, rows: Ints) -> Floats:
    """Return the statistic of every row of codes. It is computed from the count of each code in the row."""
    import numpy as np

    kinds = len(coded.target.order)
    # Each row gets codes of its own, so that one bincount counts all rows.
    row_codes = rows + np.arange(len(rows))[:, None] * kinds
    counts = np.bincount(row_codes.ravel(), minlength=len(rows) * kinds)
    values: Floats = statistic(coded, counts.reshape(-1, kinds))
    return values


def _f1(coded: LabelPairs, counts: Ints) -> Floats:
    import numpy as np

    hits = _by_label(coded, coded.right, counts)
    occurrences = _by_label(coded, coded.target, counts) + _by_label(coded, coded.answer, counts)
    label_scores = np.zeros(hits.shape)
    np.divide(2.0 * hits, occurrences, out=label_scores, where=occurrences > 0)
    if _has_positive(coded.labels):
        ones = [column for column, label in enumerate(coded.labels) if label in (1, "1")]
        return label_scores[:, ones[0]] if ones else np.zeros(len(counts))
    total = np.zeros(len(counts))
    for column in label_scores.T:  # added from left to right, so that rounding does not depend on numpy
        total += column
    total /= (occurrences > 0).sum(axis=1)
    return total


def _has_positive(labels: list[Any]) -> bool:
    """Return True if F1 is the F1 of label 1, False if it is the mean over all labels.

    `labels` are those of all pairs, so that every resample is treated alike.
    """
    if len(labels) > 2:
        return False
    if len(labels) == 1 or set(labels) == {"0", "1"}:
        return True
    return 1 in labels and all(float(label).is_integer() for label in labels)


def _matthews(coded: LabelPairs, counts: Ints) -> Floats:
    import numpy as np

    targets = _by_label(coded, coded.target, counts)
    answers = _by_label(coded, coded.answer, counts)
    right = _by_label(coded, coded.right, counts).sum(axis=1)
    total = answers.sum(axis=1)
    covariance = right * total - (targets * answers).sum(axis=1)
    variances = (total**2 - (answers * answers).sum(axis=1)) * (total**2 - (targets * targets).sum(axis=1))
    correlations = np.zeros(len(covariance))
    np.divide(covariance, np.sqrt(variances), out=correlations, where=variances != 0)
    return correlations


def _by_label(coded: LabelPairs, groups: LabelGroups, counts: Ints) -> Floats:
    """Return how many pairs each label has in every resample, one column per label.

    The sums are exact, because the counts are integers.
    """
    import numpy as np

    sums = np.zeros((len(counts), len(coded.labels)))
    if len(groups.order):
        sums[:, groups.labels] = np.add.reduceat(counts.take(groups.order, axis=1), groups.starts, axis=1)
    return sums


def _coded(pairs: Sequence[Any]) -> LabelPairs:
    """Return the pairs as codes. If any label is not a number, all labels become texts.

    As numbers, 1, 1.0 and true are one label.
    """
    import numpy as np

    plain = [(_unwrap(target), _unwrap(answer)) for target, answer in pairs]
    if not all(isinstance(label, Real) for pair in plain for label in pair):
        plain = [(str(target), str(answer)) for target, answer in plain]
    labels = sorted({label for pair in plain for label in pair})
    column = {label: number for number, label in enumerate(labels)}
    codes = {pair: code for code, pair in enumerate(dict.fromkeys(plain))}
    coded = [(code, column[target], column[answer]) for (target, answer), code in codes.items()]
    return LabelPairs(
        codes=np.array([codes[pair] for pair in plain], dtype=np.int64),
        labels=labels,
        target=_groups([(target, code) for code, target, _ in coded]),
        answer=_groups([(answer, code) for code, _, answer in coded]),
        right=_groups([(target, code) for code, target, answer in coded if target == answer]),
    )


def _groups(members: list[tuple[int, int]]) -> LabelGroups:
    import numpy as np

    table = np.array(sorted(members), dtype=np.int64).reshape(-1, 2)
    labels, starts = np.unique(table[:, 0], return_index=True)
    return LabelGroups(table[:, 1], starts, labels)


def _unwrap(label: Any) -> Any:
    """Return the label of a list with one label. Tasks may return either form."""
    return label[0] if isinstance(label, (list, tuple)) and len(label) == 1 else label
