"""Judges memories: which points they cover, whether they are true, and how they treat changed or unwanted points.

A point is covered if a piece of text contains a large enough share of its words. A piece that has the words but
contradicts the point (another number, name or date in the same place) does not cover it.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from msgspec import Struct

from assay.scoring import questions
from assay.scoring.offline.dates import MONTHS, Dated, agree, dates_in
from assay.scoring.offline.index import Piece, TextIndex, best_first, index_of
from assay.scoring.offline.words import denied_words, function_words, plain_text, word_set, words_of

# A point is covered from this share on. Chosen, like the weights below, on half of the LoCoMo conversations.
THRESHOLD = 0.34

# Many texts contain a larger share of any point by chance. The correction is relative to ten texts.
_CHANCE, _USUAL_TEXTS, _FEWEST_TEXTS = 0.06, 10, 3
# The share of a piece that contradicts the point is halved. If it still is the best piece, the point is limited to a
# value below the threshold.
_CONTRADICTED_FACTOR, _CONTRADICTED_LIMIT = 0.5, 0.3
# Limits of the search for contradictions: only the best pieces, and only those with enough shared words.
_MOST_PIECES, _WORTH_CHECKING = 200, 0.3
# A memory is checked against this many of its nearest points.
_NEAREST_POINTS = 3
# A piece is about the new (or old) state if it has this share of the words that only this state has.
_DISTINCT_SHARE = 0.5
# A negation in a text with more than this many times the point's words may concern something else.
_DENIAL_LENGTH = 2


class Coverage(NamedTuple):
    """How well a point is covered, from 0 to 1, and the contradiction that was found, if any."""

    share: float
    contradiction: str


def judge_coverage(points: tuple[str, ...], texts: tuple[str, ...]) -> questions.Verdict:
    """Return a label for each point. The reason lists the missed points by number, from 1."""
    index = index_of(texts)
    coverages = [cover(index, point) for point in points]
    labels = tuple(questions.COVERED if coverage.share >= THRESHOLD else questions.MISSED for coverage in coverages)
    missed = []
    for number, (share, contradiction) in enumerate(coverages, 1):
        if share < THRESHOLD:
            missed.append(f"{number} ({100 * share:.0f} %{', ' if contradiction else ''}{contradiction})")
    reason = f"{len(points) - len(missed)} of {len(points)} covered"
    if missed:
        reason += "; missed: " + ", ".join(missed)
    return questions.Verdict(labels, reason, sure=tuple(coverage.share for coverage in coverages))


def cover(index: TextIndex, point: str) -> Coverage:
    """Return the coverage by the best piece, corrected by chance."""
    if not index.pieces:
        return Coverage(0.0, "there are no texts")
    shares = index.shares(point)
    best = Coverage(0.0, "")
    for number in islice(best_first(shares), _MOST_PIECES):
        share = shares[number]
        if share <= best.share:
            break
        contradiction = find_contradiction(point, index.pieces[number].text) if share >= _WORTH_CHECKING else ""
        if contradiction:
            share *= _CONTRADICTED_FACTOR
        if share > best.share:
            best = Coverage(share, contradiction)
    if not best.share:
        return best
    limit = _CONTRADICTED_LIMIT if best.contradiction else 1.0
    share = best.share - chance_share(len(index.pieces))
    return Coverage(min(limit, max(0.0, share)), best.contradiction)


def chance_share(count: int) -> float:
    """Return the share of a point that this number of texts contains by chance, relative to ten texts."""
    return _CHANCE * math.log(max(count, _FEWEST_TEXTS) / _USUAL_TEXTS)


def judge_correctness(question: questions.CorrectnessQuestion) -> questions.Verdict:
    """Label each memory: true if it covers a point, fabricated if it contradicts a near one, else irrelevant."""
    points = (*question.points, *question.earlier_points)
    points = tuple(dict.fromkeys(point for point in points if point.strip()))
    index = index_of(question.texts)
    # The share of each point (row) in each text (column). The best piece of a text counts.
    rows = []
    for point in points:
        row = shares = index.shares(point)
        if len(shares) > len(question.texts):
            row = [0.0] * len(question.texts)
            for owner, share in zip(index.owners, shares, strict=True):
                row[owner] = max(row[owner], share)
        rows.append(row)
    verdicts = [
        _judge_memory(text, points, [row[number] for row in rows]) for number, text in enumerate(question.texts)
    ]
    labels = tuple(label for label, _, _ in verdicts)
    counts = (f"{labels.count(label)} {label}" for label in questions.CorrectnessQuestion.labels)
    reasons = [f"{number}: {reason}" for number, (_, _, reason) in enumerate(verdicts, 1) if reason]
    sure = tuple(share for _, share, _ in verdicts)
    return questions.Verdict(labels, "; ".join([", ".join(counts), *reasons]), sure=sure)


def _judge_memory(text: str, points: tuple[str, ...], shares: list[float]) -> tuple[str, float, str]:
    """Return the label of one memory, its share, and the contradiction if it is fabricated."""
    threshold = THRESHOLD + chance_share(len(points))
    best = max(shares, default=0.0)
    if best < threshold:
        return questions.IRRELEVANT, best, ""
    nearest = [row for row, share in enumerate(shares) if share == best]
    # The order of up to three equally near points does not matter if the memory is true to one of them.
    if len(nearest) <= _NEAREST_POINTS and any(not find_contradiction(points[row], text) for row in nearest):
        return questions.TRUE, best, ""
    import numpy as np

    # By numpy, whose order of equal shares is its own: the calibrated verdicts were made with it.
    nearest = np.array(shares).argsort()[::-1][:_NEAREST_POINTS].tolist()
    first_contradiction = ""
    for row in nearest:
        if shares[row] < threshold:
            break
        contradiction = find_contradiction(points[row], text)
        if not contradiction:
            return questions.TRUE, shares[row], ""
        first_contradiction = first_contradiction or contradiction
    return questions.FABRICATED, best / 2, first_contradiction


def judge_update(question: questions.UpdateQuestion) -> questions.Verdict:
    """Label a changed point by the words that only its new state has, and those that only an old state has.

    A text with both, such as `moved from Rome to Oslo`, counts for the new state.
    """
    index = index_of(question.texts)
    if question.old:
        sides = [_new_and_old_share(index, question.new, old) for old in question.old]
    else:
        sides = [(cover(index, question.new).share, 0.0)]
    new = min(1.0, *(new for new, _ in sides))
    old = min(1.0, max(old for _, old in sides))
    if new < THRESHOLD:
        label = questions.OUTDATED
    elif old >= THRESHOLD:
        label = questions.BOTH
    else:
        label = questions.UPDATED
    reason = f"the new state is {_coverage_text(new)}, the old state is {_coverage_text(old)}"
    return questions.Verdict((label,), reason, sure=(new - min(new, old) / 2,))


def judge_interference(question: questions.InterferenceQuestion) -> questions.Verdict:
    """Label an unwanted point as memorized if the texts cover it."""
    coverage = cover(index_of(question.texts), question.content)
    label = questions.MEMORIZED if coverage.share >= THRESHOLD else questions.REJECTED
    reason = f"the point is {_coverage_text(coverage.share)}"
    if coverage.contradiction:
        reason += f", {coverage.contradiction}"
    return questions.Verdict((label,), reason, sure=(1 - coverage.share,))


def _coverage_text(share: float) -> str:
    negation = "" if share >= THRESHOLD else "not "
    return f"{negation}covered ({100 * share:.0f} %)"


def _new_and_old_share(index: TextIndex, new: str, old: str) -> tuple[float, float]:
    """Return the best shares of the new and of the old state, each among the pieces that are about it."""
    new_words, old_words = _content_words(new), _content_words(old)
    only_new, only_old = new_words - old_words, old_words - new_words
    best_new = best_old = 0.0
    chance = chance_share(len(index.pieces))
    for new_share, old_share, piece in zip(index.shares(new), index.shares(old), index.pieces, strict=True):
        if max(new_share, old_share) - chance < THRESHOLD:
            continue
        side = _side_of(piece, only_new, only_old)
        if side > 0 and not find_contradiction(new, piece.text):
            best_new = max(best_new, new_share - chance)
        elif side < 0 and not find_contradiction(old, piece.text):
            best_old = max(best_old, old_share - chance)
    return best_new, best_old


def _side_of(piece: Piece, only_new: frozenset[str], only_old: frozenset[str]) -> int:
    """Return 1 if the piece is about the new state, -1 for the old one, 0 if it has too few words of either."""
    new_share = len(only_new & piece.words) / len(only_new) if only_new else None
    old_share = len(only_old & piece.words) / len(only_old) if only_old else None
    # If a state has no words of its own, the absence of the words of the other state counts for it.
    new = 1 - (old_share or 0.0) if new_share is None else new_share
    old = 1 - (new_share or 0.0) if old_share is None else old_share
    if new >= _DISTINCT_SHARE and new >= old:
        return 1
    return -1 if old >= _DISTINCT_SHARE else 0


def _content_words(text: str) -> frozenset[str]:
    return word_set(plain_text(text)) - function_words()


# Contradictions between a point and a text that has its words.

# The lookbehinds change no match. Without them, a long run of dots or spaces would be read again from each of them.
_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_\u3400-\u9fff]+|[\u3400-\u9fff]|(?<![.!?])[.!?]+(?=\s)")
# The tokens of an ASCII text. Gives the same result as _TOKEN in less time.
_ASCII_TOKEN = re.compile(r"[A-Za-z]+|[0-9]+(?:[.,][0-9]+)*|(?<![.!?])[.!?]+(?=\s)")
# A time stamp that a memory puts before its text, such as `[2023-05-07 10:00]`.
TIME_STAMP = re.compile(
    r"(?<!\s)\s*(?:\[[^\]\n]{4,60}\]|\([^)\n]{4,60}\)|(?=[^:\n]{0,30}\d)[\w\s,/.:-]{6,40}?(?::\s|\s[|-]\s))",
    re.IGNORECASE,
)
# Every time stamp contains one of these. The last two are the end of a time stamp without brackets, which has 6 to 40
# characters before.
_TIME_STAMP_HINT = re.compile(r"[\[(]|:(?=\s)|\s(?=[|-]\s)")
_SHORTEST_STAMP, _LONGEST_STAMP = 6, 40
_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thurs fri sat sun"
# These words are not names: dates are compared as dates.
_DATE_WORDS = frozenset((*_WEEKDAYS.split(), *MONTHS))


class TextClaim(Struct, frozen=True, gc=False):
    """A number or a name in a text, with the words around it. `key` is its stem."""

    text: str
    key: str
    before: tuple[str, str]
    after: str


@lru_cache(1 << 13)
def find_contradiction(point: str, text: str) -> str:
    """Return the contradiction in words: another number, name or date, or a negation. Empty if there is none."""
    point, text = without_time_stamp(plain_text(point)), without_time_stamp(plain_text(text))
    return _other_claim(point, text) or _other_date(point, text) or _opposite(point, text)


@lru_cache(1 << 13)
def _claims_in(text: str) -> tuple[TextClaim, ...]:
    """Return the numbers and names of a text, which another text can contradict.

    Cached, because the same texts are compared with many points.
    """
    pattern = _ASCII_TOKEN if text.isascii() else _TOKEN
    tokens = ["", "", *pattern.findall(text), ""]
    claims = []
    for place, token in enumerate(tokens):
        initial = token[:1]
        # Most words are neither numbers nor names.
        if initial.isdigit() or (initial.isupper() and token.lower() not in _DATE_WORDS):
            first, second, key, after = map(_key, tokens[place - 2 : place + 2])
            if key and key not in function_words():
                claims.append(TextClaim(token, key, (first, second), after))
    return tuple(claims)


@lru_cache(1 << 14)
def _key(token: str) -> str:
    return next(iter(words_of(token)), "")


@lru_cache(1 << 13)
def without_time_stamp(text: str) -> str:
    """Return the text without its first time stamp, as `TIME_STAMP.sub("", text, count=1)` would.

    That tries every character of the text. A time stamp begins at a bracket, or at most 40 characters before its end.
    Cached, because the same texts are compared with many points.
    """
    for hint in _TIME_STAMP_HINT.finditer(text):
        place = hint.start()
        is_bracket = text[place] in "[("
        if not is_bracket and place < _SHORTEST_STAMP:
            continue
        start = place if is_bracket else max(0, place - _LONGEST_STAMP)
        # The spaces before a time stamp belong to it.
        while start and text[start - 1].isspace():
            start -= 1
        match = TIME_STAMP.search(text, start, place + 2 * _LONGEST_STAMP)
        # A match that begins later has a hint of its own.
        if match and match.start() <= place:
            return text[: match.start()] + text[match.end() :]
    return text


def _other_claim(point: str, text: str) -> str:
    """Find another number or name in the same place: after the same word, or before the same word."""
    text_words = word_set(text)
    missing = [claim for claim in _claims_in(point) if claim.key not in text_words]
    if not missing:
        return ""
    point_words = word_set(point)
    others = [claim for claim in _claims_in(text) if claim.key not in point_words]
    for claim in missing:
        for other in others:
            if claim.text[0].isdigit() == other.text[0].isdigit() and _same_place(claim, other):
                return f"it says {other.text}, not {claim.text}"
    return ""


def _same_place(one: TextClaim, other: TextClaim) -> bool:
    word_before = one.before[1]
    same_word_before = word_before and word_before == other.before[1]
    # If the word before is a function word, the word before that must agree too.
    if same_word_before and (word_before not in function_words() or one.before == other.before):
        return True
    return bool(one.after) and one.after == other.after and one.after not in function_words()


def _other_date(point: str, text: str) -> str:
    point_dates = _dates_of(point)
    dates = _dates_of(text) if point_dates else ()
    missed = [date for date in point_dates if not any(agree(other.span, date.span) for other in dates)]
    if not missed or not dates:
        return ""
    point_date = point[missed[0].start : missed[0].end].strip()
    text_date = text[dates[0].start : dates[0].end].strip()
    return f"it says {text_date}, not {point_date}"


@lru_cache(1 << 12)
def _dates_of(text: str) -> tuple[Dated, ...]:
    return tuple(dates_in(text))


def _opposite(point: str, text: str) -> str:
    """Return the contradiction if the text negates a word of the point, or the reverse.

    Applies only to texts of about the same length as the point.
    """
    point_words, text_words = word_set(point), word_set(text)
    if len(text_words) > _DENIAL_LENGTH * len(point_words):
        return ""
    text_denies = denied_words(text) & point_words
    point_denies = denied_words(point) & text_words
    return "one denies what the other says" if bool(text_denies) != bool(point_denies) else ""
