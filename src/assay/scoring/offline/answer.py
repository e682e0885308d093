"""Judges answers: compares words, numbers and dates of the response with those of the reference.

The measure of an answer starts as the share of the reference's words that it contains. Findings, such as a wrong
date or a missing number, limit the measure. An answer with at least `THRESHOLD` is correct.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

from assay.scoring.offline.dates import Dated, agree, dates_in, is_vaguer, nearness, overlap
from assay.scoring.offline.numbers import Duration, durations_in, in_digits, numbers_in
from assay.scoring.offline.words import (
    abstains,
    are_similar,
    denied_words,
    fold,
    function_words,
    hedges,
    is_negated,
    is_unanswerable,
    words_of,
    yes_or_no,
)
from assay.scoring.questions import CORRECT, HALLUCINATION, OMISSION, AnswerQuestion, Verdict

# Just above 0.4, the highest limit of an answer with a missing or contradicted part.
THRESHOLD = 0.42

# Weights of words, chosen on half of the LoCoMo conversations; `make judges` measures both halves. A word with the
# same beginning as a word of the reference counts less than the word itself.
_FUNCTION_WORD_WEIGHT = 0.2
_SIMILAR_WEIGHT = 0.7
# A wrong answer with a lower share of words is about something else: a hallucination rather than an omission.
_ON_TOPIC = 0.2
# Factor for an answer that says of some part that it is not known.
_HEDGED_FACTOR = 0.6
# Lowest measure of an answer whose yes or no is right, before findings are applied.
_RIGHT_YES_OR_NO = 0.6
# Words of date expressions. They do not count as content of a reference beside its dates.
_TIME_WORDS = (
    "week weekend day month year date time early late mid beginning end start first last next before after "
    "prior during approximately roughly exactly sometime ago yesterday today tomorrow"
)
# Words that replace a number without giving it.
_VAGUE_NUMBERS = "few several many multiple numerous 几"
_LIST_SEPARATOR = re.compile(r",(?!\d)|;|\band\b|&|、|，|和", re.IGNORECASE)
_OR = re.compile(r"\bor\b|或", re.IGNORECASE)
# Most content words of an item, for the rule that both items of a list of two must be present.
_SHORT_ITEM = 3
_WEEKDAY = re.compile(
    r"\b((?:mon|tues|wednes|thurs|fri|satur|sun)day)s?\b|(?:星期|周|礼拜)([一二三四五六日天\d])",
    re.IGNORECASE,
)
# Number of characters that are read. Bounds the time; no answer to a question needs more.
_MOST_CHARACTERS = 20_000


class ParsedText(NamedTuple):
    """The parts of a text that are compared. `words` are all words, `undated_words` those outside dates."""

    text: str
    words: tuple[str, ...]
    undated_words: tuple[str, ...]
    numbers: tuple[float, ...]
    durations: tuple[Duration, ...]
    dates: tuple[Dated, ...]
    weekdays: frozenset[str]


@lru_cache(1 << 12)
def parse_text(text: str) -> ParsedText:
    """Parse a text. Cached, because a question and its reference are compared with several responses."""
    plain = in_digits(fold(text[:_MOST_CHARACTERS]))
    dates = tuple(dates_in(plain))
    undated = plain
    # From the end, so that the positions of earlier dates stay valid.
    for dated in reversed(dates):
        undated = f"{undated[: dated.start]} {undated[dated.end :]}"
    weekdays = frozenset("".join(match.groups("")).lower() for match in _WEEKDAY.finditer(undated))
    return ParsedText(
        plain,
        words_of(plain),
        words_of(undated),
        tuple(numbers_in(undated)),
        tuple(durations_in(undated)),
        dates,
        weekdays,
    )


class AnswerFinding(NamedTuple):
    """A reason against an answer. It limits the measure of the answer to `limit`.

    Any limit below THRESHOLD rejects the answer. How far below only ranks rejected answers among each other.
    `made_up` is true if the answer contradicts the reference, and false if it only says less.
    """

    limit: float
    reason: str
    made_up: bool


def judge_answer(question: AnswerQuestion) -> Verdict:
    """Return Correct if the answer has enough words of the reference and contradicts nothing in it."""
    comparison = _AnswerComparison(question)
    response, reference = comparison.response, comparison.reference
    if not question.response.strip():
        return Verdict((OMISSION,), "the answer is empty", sure=(0.0,))
    if reference.words:
        is_same = reference.words == response.words
    else:
        is_same = question.reference.strip() == question.response.strip()
    if is_same:
        return Verdict((CORRECT,), "the same words as the reference", sure=(1.0,))
    if is_unanswerable(reference.text, len(reference.words)):
        if abstains(response.text):
            reason = "the reference says that this is unknown, and so does the answer"
            return Verdict((CORRECT,), reason, sure=(1.0,))
        reason = "the reference says that this is unknown, but the answer claims something"
        return Verdict((HALLUCINATION,), reason, sure=(0.0,))
    return comparison.verdict()


class _AnswerComparison:
    """Compares the response to one question with its reference."""

    def __init__(self, question: AnswerQuestion) -> None:
        self.question = parse_text(question.question)
        self.reference = parse_text(question.reference)
        self.response = parse_text(question.response)

    def verdict(self) -> Verdict:
        word_share = self._word_share()
        start = self._start(word_share)
        is_hedged = hedges(self.response.text)
        findings = [
            finding
            for finding in (
                self._wrong_dates(),
                self._wrong_numbers(),
                self._wrong_duration(),
                self._wrong_weekday(),
                self._wrong_yes_or_no(),
                self._denial(),
                self._missing_items(),
            )
            if finding
        ]
        sure = min(
            [start.limit * (_HEDGED_FACTOR if is_hedged else 1.0), *(finding.limit for finding in findings)]
        )
        reasons = [start.reason]
        if is_hedged:
            reasons.append("the answer says that something is not known")
        reasons += [finding.reason for finding in findings]
        if sure >= THRESHOLD:
            label = CORRECT
        elif any(finding.made_up for finding in findings):
            label = HALLUCINATION
        elif is_hedged or findings or word_share >= _ON_TOPIC:
            label = OMISSION
        else:
            label = HALLUCINATION
        return Verdict((label,), "; ".join(reasons), sure=(sure,))

    def _start(self, word_share: float) -> AnswerFinding:
        """Return the measure of the answer before findings against it are applied."""
        start = AnswerFinding(word_share, f"{100 * word_share:.0f} % of the reference's words", made_up=False)
        if self.reference.dates:
            start = self._dates_and_words(word_share)
        elif not self._content_words() and self.reference.durations and not self._durations_differ():
            start = AnswerFinding(0.95, "the same length of time", made_up=False)
        reference_says = yes_or_no(self.reference.text)
        if reference_says is None or reference_says != self._response_says():
            return start
        limit = max(start.limit, _RIGHT_YES_OR_NO + (0.9 - _RIGHT_YES_OR_NO) * start.limit)
        agreement = "both say yes" if reference_says else "both say no"
        return AnswerFinding(limit, f"{start.reason}; {agreement}", made_up=False)

    def _response_says(self) -> bool | None:
        """Return whether the response means yes or no.

        A response that only repeats or negates the words of the question counts too: `She does not like tea.`
        """
        answer = yes_or_no(self.response.text)
        question_words = frozenset(self.question.words) - function_words()
        repeated = question_words & set(self.response.words)
        if answer is None and len(repeated) >= len(question_words) / 2:
            return not is_negated(self.response.text)
        return answer

    def _content_words(self) -> list[str]:
        """Return the content words of the reference, without those of the question unless none remain."""
        words = [
            word
            for word in self.reference.undated_words
            if word not in function_words() and word not in _stems(_TIME_WORDS) and not word.isdecimal()
        ]
        question_words = set(self.question.words)
        return [word for word in words if word not in question_words] or words

    def _word_share(self) -> float:
        """Return the share of the reference's words that the response has.

        It is the mean of two shares: of all words, and of the words that the question does not contain. The
        latter carry the answer.
        """
        reference_words = list(dict.fromkeys(self.reference.undated_words))
        question_words = set(self.question.words)
        words = self.response.words
        # Adjacent words are also joined, so that `book shelf` matches `bookshelf`.
        present = frozenset(words) | {first + second for first, second in pairwise(words)}
        new_words = [word for word in reference_words if word not in question_words]
        share = _weighted_share(reference_words, present)
        return (share + _weighted_share(new_words, present)) / 2 if new_words else share

    def _dates_and_words(self, word_share: float) -> AnswerFinding:
        """Return the measure of a reference with dates.

        If the reference has other content words, the dates weigh at most half. Otherwise they decide alone.
        """
        dates, content = self.reference.dates, len(self._content_words())
        missed = self._missed_dates()
        right = 1 - len(missed) / len(dates)
        reason = f"{len(missed)} of {len(dates)} dates missed" if missed else "the dates agree"
        if content:
            weight = min(0.5, len(dates) / (len(dates) + content))
            reason = f"{100 * word_share:.0f} % of the reference's other words; {reason}"
            return AnswerFinding(word_share * (1 - weight) + weight * right, reason, made_up=False)
        if missed:
            nearest = max(
                (nearness(dated.span, other.span) for dated in self.response.dates for other in missed),
                default=0.0,
            )
            # At most 0.4, because one date at least is missed; the distance only ranks rejected answers.
            return AnswerFinding(0.4 * right + 0.4 * nearest, reason, made_up=False)
        return AnswerFinding(0.85 if self._extra_dates() else 0.95, reason, made_up=False)

    def _missed_dates(self) -> list[Dated]:
        dates = self.response.dates
        return [
            dated
            for dated in self.reference.dates
            if not any(agree(other.span, dated.span) for other in dates)
        ]

    def _extra_dates(self) -> list[Dated]:
        dates = self.reference.dates
        return [
            dated
            for dated in self.response.dates
            if not any(agree(dated.span, other.span) for other in dates)
        ]

    def _wrong_dates(self) -> AnswerFinding | None:
        """A date of the reference is missing, or the response has another date instead.

        Dates that occur in the question do not count as another date.
        """
        missed = self._missed_dates()
        if not missed:
            return None
        content = self._content_words()
        missed_date = _quote(self.reference, missed[0])
        question_dates = self.question.dates
        wrong = [
            dated
            for dated in self._extra_dates()
            if not any(overlap(dated.span, other.span) for other in question_dates)
        ]
        if not wrong:
            return AnswerFinding(
                1.0 if content else 0.4, f"the date {missed_date} is not in the answer", made_up=False
            )
        wrong_date = _quote(self.response, wrong[0])
        if is_vaguer(wrong[0].span, missed[0].span) and overlap(wrong[0].span, missed[0].span):
            return AnswerFinding(0.4, f"{wrong_date} is vaguer than {missed_date}", made_up=False)
        reason = f"the date {missed_date} is not in the answer, which says {wrong_date}"
        return AnswerFinding(0.3 if content else 0.4, reason, made_up=True)

    def _wrong_numbers(self) -> AnswerFinding | None:
        """A number of the reference is missing.

        The number 1 may be missing (`a cat` for `one cat`), unless the response has another or a vague number.
        """
        if self.reference.durations and not self._durations_differ():
            return None
        expected, present = Counter(self.reference.numbers), Counter(self.response.numbers)
        question_numbers = frozenset(self.question.numbers)
        other = [number for number in present if number not in expected and number not in question_numbers]
        missing = [number for number, count in expected.items() if present[number] < (count if other else 1)]
        if not other:
            vague = _stems(_VAGUE_NUMBERS)
            is_vague = not vague.isdisjoint(self.response.words) and vague.isdisjoint(self.reference.words)
            missing = [
                number for number in missing if number not in question_numbers and (number != 1 or is_vague)
            ]
        if not missing:
            return None
        reason = f"the number {missing[0]:g} is not in the answer"
        if other:
            return AnswerFinding(0.25, f"{reason}, which says {other[0]:g}", made_up=True)
        return AnswerFinding(0.35, reason, made_up=False)

    def _wrong_duration(self) -> AnswerFinding | None:
        if self.response.durations and self._durations_differ():
            return AnswerFinding(0.3, "another length of time", made_up=True)
        return None

    def _durations_differ(self) -> bool:
        durations = self.response.durations
        return any(
            not any(expected.equals(duration) for duration in durations)
            for expected in self.reference.durations
        )

    def _wrong_weekday(self) -> AnswerFinding | None:
        expected, present = self.reference.weekdays, self.response.weekdays
        if expected and present and not expected & present:
            return AnswerFinding(0.3, "another day of the week", made_up=True)
        return None

    def _wrong_yes_or_no(self) -> AnswerFinding | None:
        expected, answer = yes_or_no(self.reference.text), yes_or_no(self.response.text)
        if expected is None:
            return None
        if answer is None:
            answer = not is_negated(self.response.text)
        return None if expected == answer else AnswerFinding(0.15, "one says yes, the other no", made_up=True)

    def _denial(self) -> AnswerFinding | None:
        """The response negates a word that the reference affirms."""
        affirmed = frozenset(self._content_words()) - denied_words(self.reference.text)
        if not denied_words(self.response.text) & affirmed or is_negated(self.reference.text):
            return None
        return AnswerFinding(0.3, "the answer denies what the reference says", made_up=True)

    def _missing_items(self) -> AnswerFinding | None:
        """The reference is a list of two short items, and the response lacks one of them.

        Alternatives (`tea or coffee`) are not a list: one is enough.
        """
        items = []
        for item in _LIST_SEPARATOR.split(self.reference.text):
            words = [word for word in words_of(item) if word not in function_words()]
            if words:
                items.append(words)
        is_list = len(items) == 2 and max(map(len, items)) <= _SHORT_ITEM
        if not is_list or _OR.search(self.reference.text) or yes_or_no(self.reference.text) is not None:
            return None
        present = set(self.response.words)
        count = sum(not present.isdisjoint(item) for item in items)
        if count == len(items):
            return None
        return AnswerFinding(0.4, f"{count} of {len(items)} parts of the reference", made_up=False)


def _weighted_share(wanted: list[str], present: frozenset[str]) -> float:
    total = share = 0.0
    for word in wanted:
        weight = _FUNCTION_WORD_WEIGHT if word in function_words() else 1.0
        total += weight
        if word in present:
            share += weight
        elif any(are_similar(word, other) for other in present):
            share += weight * _SIMILAR_WEIGHT
    return share / total if total else 1.0


def _quote(parsed: ParsedText, dated: Dated) -> str:
    return parsed.text[dated.start : dated.end].strip()


@cache
def _stems(words: str) -> frozenset[str]:
    return frozenset(words_of(words))
