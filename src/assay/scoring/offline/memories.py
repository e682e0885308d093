"""Judges memories: points that are covered, memories that are true, points that changed or must not be kept.

A point is covered by the piece of text with the largest share of its words. A piece that shares the words and
contradicts the point (another number, name or date in the same place) does not cover it.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.scoring.offline.dates import MONTHS, agree, dates_in
from assay.scoring.offline.index import Piece, TextIndex, index_of
from assay.scoring.offline.numbers import in_digits
from assay.scoring.offline.words import denied_words, fold, function_words, words_of
from assay.scoring.questions import (
    BOTH,
    COVERED,
    FABRICATED,
    IRRELEVANT,
    MEMORIZED,
    MISSED,
    OUTDATED,
    REJECTED,
    TRUE,
    UPDATED,
    CorrectnessQuestion,
    InterferenceQuestion,
    UpdateQuestion,
    Verdict,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

THRESHOLD = 0.36
"""A point is covered from this share on. It was chosen on half of the LoCoMo conversations."""

# Weight of what all texts have among them, beside the best single piece.
_TOGETHER_WEIGHT = 0.1
# How much more a search among many texts finds by chance than one among ten.
_CHANCE, _USUAL_TEXTS, _FEWEST_TEXTS = 0.06, 10, 3
# A piece that contradicts the point counts half, and the point stays below the threshold.
_CONTRADICTED_FACTOR, _CONTRADICTED_LIMIT = 0.5, 0.3
# Bounds the search for contradictions: the best pieces only, and none with few shared words.
_MOST_PIECES = 200
_WORTH_CHECKING = 0.3
# How many of the nearest points a memory is checked against.
_NEAREST_POINTS = 3
# Share of the words that tell new from old which decides for one of them.
_DISTINCT_SHARE = 0.5
# A text of more than twice a point's words denies many things; a denial says nothing about the point.
_DENIAL_LENGTH = 2


class Coverage(NamedTuple):
    """How well a point is covered, from 0 to 1, and the contradiction that speaks against it."""

    share: float
    contradiction: str


def judge_coverage(points: tuple[str, ...], texts: tuple[str, ...]) -> Verdict:
    """A label for each point. The reason names those that are missed, counted from 1."""
    index = index_of(texts)
    coverages = [cover(index, point) for point in points]
    labels = tuple(COVERED if coverage.share >= THRESHOLD else MISSED for coverage in coverages)
    missed = []
    for number, coverage in enumerate(coverages, 1):
        if coverage.share < THRESHOLD:
            detail = f"{100 * coverage.share:.0f} %"
            if coverage.contradiction:
                detail += f", {coverage.contradiction}"
            missed.append(f"{number} ({detail})")
    reason = f"{len(points) - len(missed)} of {len(points)} covered"
    if missed:
        reason += "; missed: " + ", ".join(missed)
    return Verdict(labels, reason, sure=tuple(coverage.share for coverage in coverages))


def cover(index: TextIndex, point: str) -> Coverage:
    """The coverage by the best piece, corrected by what all texts have and by chance."""
    if not index.pieces:
        return Coverage(0.0, "there is no text")
    import numpy as np

    shares = index.shares(point)
    best = Coverage(0.0, "")
    for number in np.argsort(-shares, kind="stable")[:_MOST_PIECES].tolist():
        share = float(shares[number])
        if share <= best.share:
            break
        contradiction = (
            find_contradiction(point, index.pieces[number].text) if share >= _WORTH_CHECKING else ""
        )
        if contradiction:
            share *= _CONTRADICTED_FACTOR
        if share > best.share:
            best = Coverage(share, contradiction)
    if not best.share:
        return best
    share = (1 - _TOGETHER_WEIGHT) * best.share + _TOGETHER_WEIGHT * index.share_together(point)
    share -= chance_share(len(index.pieces))
    limit = _CONTRADICTED_LIMIT if best.contradiction else 1.0
    return Coverage(min(limit, max(0.0, share)), best.contradiction)


def chance_share(count: int) -> float:
    """What this number of texts finds of a point by chance, beyond what ten texts find."""
    return _CHANCE * math.log(max(count, _FEWEST_TEXTS) / _USUAL_TEXTS)


def judge_correctness(question: CorrectnessQuestion) -> Verdict:
    """True where a memory carries a point, made up where it contradicts a near one, else irrelevant."""
    points = (*question.points, *question.earlier_points)
    points = tuple(dict.fromkeys(point for point in points if point.strip()))
    index = index_of(question.texts)
    shares = _shares_by_text(index, points, len(question.texts))
    labels, sure, reasons = [], [], []
    for number in range(len(question.texts)):
        label, share, contradiction = _judge_memory(index, number, points, shares[:, number])
        labels.append(label)
        sure.append(share)
        if contradiction:
            reasons.append(f"{number + 1}: {contradiction}")
    counts = ", ".join(f"{labels.count(label)} {label}" for label in (TRUE, FABRICATED, IRRELEVANT))
    return Verdict(tuple(labels), "; ".join([counts, *reasons]), sure=tuple(sure))


def _shares_by_text(index: TextIndex, points: tuple[str, ...], texts: int) -> NDArray[Any]:
    """The share of each point (row) in each text (column): that of the text's best piece."""
    import numpy as np

    shares = np.zeros((len(points), texts))
    for row, point in enumerate(points):
        np.maximum.at(shares[row], index.owners, index.shares(point))
    return shares


def _judge_memory(
    index: TextIndex, number: int, points: tuple[str, ...], shares: NDArray[Any]
) -> tuple[str, float, str]:
    """The label of one memory, its share, and the contradiction behind FABRICATED."""
    threshold = THRESHOLD + chance_share(len(points))
    nearest = [(float(shares[row]), row) for row in shares.argsort()[::-1][:_NEAREST_POINTS]]
    first_contradiction = ""
    for share, row in nearest:
        if share < threshold:
            break
        contradiction = find_contradiction(points[row], index.texts[number])
        if not contradiction:
            return TRUE, share, ""
        first_contradiction = first_contradiction or contradiction
    best = nearest[0][0] if nearest else 0.0
    if first_contradiction:
        return FABRICATED, best / 2, first_contradiction
    return IRRELEVANT, min(best, threshold), ""


def judge_update(question: UpdateQuestion) -> Verdict:
    """Decided by the words that only the new point has, and those that only an old one has.

    A text that has both, such as `moved from Rome to Oslo`, holds the new state.
    """
    index = index_of(question.texts)
    if question.old:
        sides = [_new_and_old_share(index, question.new, old) for old in question.old]
    else:
        sides = [(cover(index, question.new).share, 0.0)]
    new = min(1.0, *(new for new, _ in sides))
    old = min(1.0, max(old for _, old in sides))
    if new < THRESHOLD:
        label = OUTDATED
    elif old >= THRESHOLD:
        label = BOTH
    else:
        label = UPDATED
    reason = f"the new one is {_held(new)}, the old one is {_held(old)}"
    return Verdict((label,), reason, sure=(new - min(new, old) / 2,))


def judge_interference(question: InterferenceQuestion) -> Verdict:
    """Memorized where the texts cover the point."""
    coverage = cover(index_of(question.texts), question.content)
    label = MEMORIZED if coverage.share >= THRESHOLD else REJECTED
    reason = f"it is {_held(coverage.share)}"
    if coverage.contradiction:
        reason += f", {coverage.contradiction}"
    return Verdict((label,), reason, sure=(1 - coverage.share,))


def _held(share: float) -> str:
    negation = "" if share >= THRESHOLD else "not "
    return f"{negation}held ({100 * share:.0f} %)"


def _new_and_old_share(index: TextIndex, new: str, old: str) -> tuple[float, float]:
    """The best share of the new and of the old point, each among the pieces that speak of that one."""
    new_words, old_words = _content_words(new), _content_words(old)
    only_new, only_old = new_words - old_words, old_words - new_words
    best_new = best_old = 0.0
    chance = chance_share(len(index.pieces))
    for new_share, old_share, piece in zip(index.shares(new), index.shares(old), index.pieces, strict=True):
        if max(new_share, old_share) - chance < THRESHOLD:
            continue
        side = _side_of(piece, only_new, only_old)
        if side > 0 and not find_contradiction(new, piece.text):
            best_new = max(best_new, float(new_share) - chance)
        elif side < 0 and not find_contradiction(old, piece.text):
            best_old = max(best_old, float(old_share) - chance)
    return best_new, best_old


def _side_of(piece: Piece, only_new: frozenset[str], only_old: frozenset[str]) -> int:
    """1 for the new state, -1 for the old one, 0 where the piece has too little of either to tell."""
    new_share = len(only_new & piece.words) / len(only_new) if only_new else None
    old_share = len(only_old & piece.words) / len(only_old) if only_old else None
    # A state without words of its own is told by the absence of the other's.
    new = 1 - (old_share or 0.0) if new_share is None else new_share
    old = 1 - (new_share or 0.0) if old_share is None else old_share
    if new >= _DISTINCT_SHARE and new >= old:
        return 1
    return -1 if old >= _DISTINCT_SHARE else 0


def _content_words(text: str) -> frozenset[str]:
    return frozenset(words_of(in_digits(fold(text)))) - function_words()


# Contradictions between a point and a text that shares its words.

_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_\u3400-\u9fff]+|[\u3400-\u9fff]|[.!?]+(?=\s)")
_TIME_STAMP = re.compile(
    r"\s*(?:\[[^\]\n]{4,60}\]|\([^)\n]{4,60}\)|(?=[^:\n]{0,30}\d)[\w\s,/.:-]{6,40}?(?::\s|\s[|-]\s))",
    re.IGNORECASE,
)
_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thurs fri sat sun"
# Dates are compared as dates, so these words are no names.
_DATE_WORDS = frozenset((*_WEEKDAYS.split(), *MONTHS))


class TextClaim(NamedTuple):
    """A number or a name in a text, and the words around it. `key` is its stem."""

    text: str
    key: str
    before: tuple[str, str]
    after: str


class TextClaims(NamedTuple):
    """What of a text can be contradicted."""

    text: str
    words: frozenset[str]
    numbers: tuple[TextClaim, ...]
    names: tuple[TextClaim, ...]


@lru_cache(1 << 13)
def find_contradiction(point: str, text: str) -> str:
    """A contradiction in words: another number, name or date, or the opposite. Empty where none is seen."""
    ours, theirs = _claims_of(point), _claims_of(text)
    return (
        _other_claim(ours.numbers, theirs.numbers, ours, theirs)
        or _other_claim(ours.names, theirs.names, ours, theirs)
        or _other_date(ours.text, theirs.text)
        or _opposite(ours, theirs)
    )


@lru_cache(1 << 13)
def _claims_of(text: str) -> TextClaims:
    """Cached, because the same texts are held against many points. A time stamp at the start is no claim."""
    plain = _TIME_STAMP.sub("", in_digits(fold(text)), count=1)
    tokens = _TOKEN.findall(plain)
    keys = [next(iter(words_of(token)), "") for token in tokens]
    numbers: list[TextClaim] = []
    names: list[TextClaim] = []
    for place, (token, key) in enumerate(zip(tokens, keys, strict=True)):
        is_number = token[0].isdigit()
        if not (is_number or token[0].isupper()) or not key or key in function_words():
            continue
        if token.lower() in _DATE_WORDS:
            continue
        before = (keys[place - 2] if place > 1 else "", keys[place - 1] if place else "")
        after = keys[place + 1] if place + 1 < len(keys) else ""
        (numbers if is_number else names).append(TextClaim(token, key, before, after))
    return TextClaims(plain, frozenset(words_of(plain)), tuple(numbers), tuple(names))


def _other_claim(
    ours: tuple[TextClaim, ...], theirs: tuple[TextClaim, ...], point: TextClaims, text: TextClaims
) -> str:
    """Another number or name in the same place: after the same word, or before it."""
    for claim in ours:
        if claim.key in text.words:
            continue
        for other in theirs:
            if other.key not in point.words and _same_place(claim, other):
                return f"it says {other.text}, not {claim.text}"
    return ""


def _same_place(one: TextClaim, other: TextClaim) -> bool:
    word_before = one.before[1]
    same_word_before = word_before and word_before == other.before[1]
    # A function word alone says little: then the word before it must agree too.
    if same_word_before and (word_before not in function_words() or one.before == other.before):
        return True
    return bool(one.after) and one.after == other.after and one.after not in function_words()


def _other_date(point: str, text: str) -> str:
    wanted = dates_in(point)
    dates = dates_in(text) if wanted else []
    missed = [date for date in wanted if not any(agree(other.span, date.span) for other in dates)]
    if not missed or not dates:
        return ""
    ours = point[missed[0].start : missed[0].end].strip()
    theirs = text[dates[0].start : dates[0].end].strip()
    return f"it says {theirs}, not {ours}"


def _opposite(point: TextClaims, text: TextClaims) -> str:
    """A text of about the same length that denies what the point says, or the reverse."""
    if len(text.words) > _DENIAL_LENGTH * len(point.words):
        return ""
    text_denies = denied_words(text.text) & point.words
    point_denies = denied_words(point.text) & text.words
    return "one denies what the other says" if bool(text_denies) != bool(point_denies) else ""
