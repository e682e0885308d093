"""Judges answers: compares words, numbers and dates of the response with those of the reference.

The measure of an answer starts as the share of the reference's words that it contains. Findings, such as a wrong
date or several guesses, limit the measure. An answer with at least `THRESHOLD` is correct.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import pairwise, product, takewhile
from typing import NamedTuple

from msgspec.structs import replace

from assay.scoring.offline.dates import Dated, agree, dates_in, is_other_year, is_vaguer, nearness, overlap
from assay.scoring.offline.guesses import BETWEEN_DATES, OR, candidates_in
from assay.scoring.offline.measures import clock_times_in, number_of_other_unit, rates_in, same_rate
from assay.scoring.offline.numbers import (
    Duration,
    durations_in,
    in_digits,
    number_of,
    numbers_in,
    without_list_markers,
)
from assay.scoring.offline.references import alternatives_in, is_rubric, is_unknown
from assay.scoring.offline.words import (
    COMMON_PREFIX,
    abstains,
    are_similar,
    common_words,
    denied_clauses,
    denied_words,
    fold,
    function_words,
    hedges,
    is_negated,
    is_negative,
    is_restricted,
    is_vague,
    opposites,
    refused_words,
    words_of,
    yes_or_no,
)
from assay.scoring.questions import CORRECT, HALLUCINATION, OMISSION, AnswerQuestion, Verdict, invalid

# Just above 0.4, the highest limit of an answer with a missing or contradicted part.
THRESHOLD = 0.42

# Weights of words, chosen on half of the LoCoMo conversations; `make judges` measures both halves. A word with the
# same beginning as a word of the reference counts less than the word itself.
_FUNCTION_WORD_WEIGHT, _COMMON_WORD_WEIGHT, _SIMILAR_WEIGHT = 0.2, 0.5, 0.7
# A wrong answer with a lower share of words is about something else: a hallucination rather than an omission.
_ON_TOPIC = 0.2
# Factors for an answer that says of some part that it is not known, and for one with a word such as `something`.
_HEDGED_FACTOR, _VAGUE_FACTOR = 0.6, 0.8
# Lowest measure of an answer whose yes or no is right, before findings are applied.
_RIGHT_YES_OR_NO = 0.6
# Words of date expressions. They do not count as content of a reference beside its dates.
_TIME_WORDS = (
    "week weekend day month year date time early late mid beginning end start first last next before after "
    "prior during approximately roughly exactly sometime ago yesterday today tomorrow hour minute half "
    "年月日号天周星期时分钟"
)
# Words of rates that have no content beside them.
_RATE_WORDS = "every each per single other daily weekly monthly yearly hourly morning evening night 每"
# Words that replace a number without giving it.
_VAGUE_NUMBERS = "few several many multiple numerous 几"
_LIST_SEPARATOR = re.compile(r",(?!\d)|;|\band\b|&|、|，|和", re.IGNORECASE)
# A list has short items, in content words. It needs both items of two, two of three, three of four.
_SHORT_ITEM, _ENOUGH_ITEMS = 3, 0.65
# The rule about other words reads only short texts: a long answer has other words everywhere.
_SHORT_ANSWER, _SHORT_REFERENCE = 12, 3
# A question that is not answered by yes or no.
_OPEN_QUESTION = re.compile(r"\W*(?:what|when|where|who|which|why|how)\b", re.IGNORECASE)
# The first words after `how many`, and a number with the words around it.
_HOW_MANY = re.compile(r"\bhow many ((?:[a-z]+\s*){1,3})", re.IGNORECASE)
_COUNT = re.compile(
    r"(?P<own>\b(?:his|her|their|my|your|its|our) )?(?<![\w.,$])(?P<number>\d+(?:,\d{3})*(?:\.\d+)?)"
    r"(?P<words>(?:[\s-][a-z]+){0,3})",
    re.IGNORECASE,
)
_LOWER_CASE = re.compile(r"\b[a-z]+")
_NAME = re.compile(r"(?<=[\w,] )[A-Z][a-z]+\b")
# Number of characters that are read. Bounds the time; no answer to a question needs more.
_MOST_CHARACTERS = 20_000


class ParsedText(NamedTuple):
    """The parts of a text that are compared. `words` are all words; `undated` and `undated_words` are outside dates."""

    text: str
    undated: str
    words: tuple[str, ...]
    undated_words: tuple[str, ...]
    numbers: tuple[float, ...]
    durations: tuple[Duration, ...]
    dates: tuple[Dated, ...]

    def quote(self, dated: Dated) -> str:
        """Return the words of a date."""
        return self.text[dated.start : dated.end].strip()

    def names(self) -> dict[str, str]:
        """Map the stems of words that are capitalised, but not at the start of a sentence, to the words."""
        names = {stem: name for name in _NAME.findall(self.text) for stem in words_of(name)}
        if not names:
            return names
        lower = words_of(" ".join(_LOWER_CASE.findall(self.text)))
        return {stem: name for stem, name in names.items() if stem in self.undated_words and stem not in lower}


@lru_cache(1 << 12)
def parse_text(text: str) -> ParsedText:
    """Parse a text. Cached, because a question and its reference are compared with several responses."""
    plain = in_digits(fold(text[:_MOST_CHARACTERS]))
    dates = tuple(dates_in(plain))
    undated = plain
    # From the end, so that the positions of earlier dates stay valid.
    for dated in reversed(dates):
        undated = f"{undated[: dated.start]} {undated[dated.end :]}"
    words = words_of(plain)
    undated_words = words_of(undated) if dates else words
    numbers = tuple(numbers_in(undated))
    durations = tuple(durations_in(undated))
    return ParsedText(plain, undated, words, undated_words, numbers, durations, dates)


class AnswerFinding(NamedTuple):
    """A reason against an answer. It limits the measure of the answer to `limit`.

    Any limit below THRESHOLD rejects the answer. How far below only ranks rejected answers among each other.
    `made_up` is true if the answer contradicts the reference, and false if it only says less.
    """

    limit: float
    reason: str
    made_up: bool = False


def judge_answer(question: AnswerQuestion) -> Verdict:
    """Return Correct if the answer has enough words of the reference and contradicts nothing in it.

    If the reference names several answers, the best verdict counts. A rubric is not judged: rules cannot tell whether
    an answer meets it.
    """
    if not question.response.strip():
        return Verdict((OMISSION,), "the answer is empty", sure=(0.0,))
    if is_rubric(question.reference):
        return invalid("the reference describes a good answer instead of giving it; a judge model can read it")
    references = alternatives_in(question.reference)
    verdicts = [_judge_by(question, reference) for reference in references]
    best = max(verdicts, key=lambda verdict: verdict.sure)
    if len(references) == 1:
        return best
    return replace(best, reason=f"{best.reason} (compared with {references[verdicts.index(best)]!r})")


def _judge_by(question: AnswerQuestion, reference_text: str) -> Verdict:
    """Return the verdict on an answer by one of the references."""
    reference, response = parse_text(reference_text), parse_text(question.response)
    # Texts without words, such as `!`, are compared as they are.
    is_same = (reference.words or reference_text.strip()) == (response.words or question.response.strip())
    # `€50` and `$50` have the same words.
    if is_same and number_of_other_unit(reference.text, response.text) is None:
        return Verdict((CORRECT,), "the same words as the reference", sure=(1.0,))
    if not reference.words or is_unknown(reference.text):
        if abstains(response.text):
            reason = "the reference says that this is unknown, and so does the answer"
            return Verdict((CORRECT,), reason, sure=(1.0,))
        reason = "the reference says that this is unknown, but the answer claims something"
        return Verdict((HALLUCINATION,), reason, sure=(0.0,))
    return _AnswerComparison(parse_text(question.question), reference, response).verdict()


class _AnswerComparison:
    """Compares the response to one question with its reference."""

    def __init__(self, question: ParsedText, reference: ParsedText, response: ParsedText) -> None:
        self.question, self.reference, self.response = question, reference, response
        self.question_words = frozenset(question.words)
        # Adjacent words are also joined, so that `book shelf` matches `bookshelf`.
        self.present = frozenset(response.words) | {one + two for one, two in pairwise(response.words)}
        skipped = _words_without_content()
        words = [word for word in reference.undated_words if word not in skipped and not word.isdecimal()]
        # The words that carry the answer: those of the question only if there are no others.
        self.content = [word for word in words if word not in self.question_words] or words
        self.items = self._list_items()
        asked = _HOW_MANY.search(question.text) if "any" in question.text else None
        # The things that are counted, if the question asks how many there are.
        self.counted = frozenset(_leading_content(words_of(asked[1]))) if asked else frozenset()
        self.same_yes_or_no = self._same_yes_or_no()
        self.same_rate = self._same_rate()
        self.missed_dates = [
            dated for dated in reference.dates if not any(agree(d.span, dated.span) for d in response.dates)
        ]
        self.extra_dates = [
            dated for dated in response.dates if not any(agree(dated.span, d.span) for d in reference.dates)
        ]

    def verdict(self) -> Verdict:
        """Return the label, the measure, and the reasons for both."""
        word_share = self._word_share()
        sure, start_reason = self._start(word_share)
        reasons = [start_reason]
        is_hedged = hedges(self.response.text)
        if is_hedged:
            sure *= _HEDGED_FACTOR
            reasons.append("the answer says that something is not known")
        if is_vague(self.response.text) and not is_vague(self.reference.text):
            sure *= _VAGUE_FACTOR
            reasons.append("the answer is vague")
        checks = (
            self._wrong_dates(),
            self._wrong_numbers(),
            self._other_measure(),
            self._other_count(),
            self._denial(),
            self._affirmation(),
            self._opposite(),
            self._missing_items(),
            self._guesses(),
            self._other_name(),
            self._other_word(),
        )
        findings = [finding for finding in checks if finding]
        if self.same_yes_or_no is False:
            findings.append(AnswerFinding(0.15, "one says yes, the other no", made_up=True))
        sure = min([sure, *(finding.limit for finding in findings)])
        reasons += [finding.reason for finding in findings]
        is_about_it = is_hedged or findings or word_share >= _ON_TOPIC
        if sure >= THRESHOLD:
            label = CORRECT
        elif is_about_it and not any(finding.made_up for finding in findings):
            label = OMISSION
        else:
            label = HALLUCINATION
        return Verdict((label,), "; ".join(reasons), sure=(sure,))

    def _word_share(self) -> float:
        """Return the share of the reference's words that the response has.

        It is the mean of two shares: of all words, and of the words that the question does not contain. The
        latter carry the answer.
        """
        reference_words = list(dict.fromkeys(self.reference.undated_words))
        new_words = [word for word in reference_words if word not in self.question_words]
        share = _weighted_share(reference_words, self.present)
        return (share + _weighted_share(new_words, self.present)) / 2 if new_words else share

    def _start(self, word_share: float) -> tuple[float, str]:
        """Return the measure of the answer before findings are applied, and its reason."""
        start, reason = word_share, f"{100 * word_share:.0f} % of the reference's words"
        if self.reference.dates:
            start, reason = self._dates_and_words(word_share)
        elif not self.content and self.reference.durations and not self._durations_differ():
            start, reason = 0.95, "the same length of time"
        elif self.same_rate and _stems(_RATE_WORDS).issuperset(self.content):
            start, reason = 0.95, "the same rate"
        if self.same_yes_or_no:
            start = max(start, _RIGHT_YES_OR_NO + (0.9 - _RIGHT_YES_OR_NO) * start)
            reason += "; both say yes" if yes_or_no(self.reference.text) else "; both say no"
        return start, reason

    def _same_yes_or_no(self) -> bool | None:
        """Return whether response and reference both mean yes or both no. None if one of them means neither.

        A response that repeats or negates most words of the question counts too: `She does not like tea.`
        """
        expected = yes_or_no(self.reference.text)
        if expected is None or _OPEN_QUESTION.match(self.question.text):
            return None
        answer = yes_or_no(self.response.text)
        if answer is None and is_restricted(self.response.text):
            return None
        means = not is_negated(self.response.text) if answer is None else answer
        asked = self.question_words - function_words() - self.question.names().keys()
        is_clear = answer is not None or len(asked.intersection(self.response.words)) > len(asked) / 2
        return False if means != expected else is_clear or None

    def _same_rate(self) -> bool | None:
        """Return whether both give the same rate, such as `every week`. None if one of them has none."""
        expected = set(rates_in(self.reference.text))
        rates = set(rates_in(self.response.text)) if expected else set()
        if not rates:
            return None
        return any(same_rate(one, other) for one, other in product(expected, rates))

    def _dates_and_words(self, word_share: float) -> tuple[float, str]:
        """Return the measure of a reference with dates, and its reason.

        If the reference has other content words, the dates weigh at most half. Otherwise they decide alone.
        """
        count, missed = len(self.reference.dates), self.missed_dates
        right = 1 - len(missed) / count
        reason = f"{len(missed)} of {count} dates missed" if missed else "the dates agree"
        if self.content:
            weight = min(0.5, count / (count + len(self.content)))
            reason = f"{100 * word_share:.0f} % of the reference's other words; {reason}"
            return word_share * (1 - weight) + weight * right, reason
        if missed:
            pairs = product(self.response.dates, missed)
            nearest = max((nearness(dated.span, other.span) for dated, other in pairs), default=0.0)
            # At most 0.4, because one date at least is missed; the distance only ranks rejected answers.
            return 0.4 * right + 0.4 * nearest, reason
        return 0.85 if self.extra_dates else 0.95, reason

    def _wrong_dates(self) -> AnswerFinding | None:
        """A date of the reference is missing, or the response has another date instead.

        Dates that occur in the question do not count as another date. If no date is missing, the response may
        still give a date of the question another year.
        """
        if not self.missed_dates:
            for dated, asked in product(self.response.dates, self.question.dates):
                if is_other_year(dated.span, asked.span):
                    reason = f"{self.response.quote(dated)} is another year than in the question"
                    return AnswerFinding(0.4, reason, made_up=True)
            return None
        missed = self.missed_dates[0]
        reason = f"the date {self.reference.quote(missed)} is not in the answer"
        for dated in self.extra_dates:
            if any(overlap(dated.span, asked.span) for asked in self.question.dates):
                continue
            text = self.response.quote(dated)
            if is_vaguer(dated.span, missed.span) and overlap(dated.span, missed.span):
                return AnswerFinding(0.4, f"{text} is vaguer than {self.reference.quote(missed)}")
            return AnswerFinding(0.3 if self.content else 0.4, f"{reason}, which says {text}", made_up=True)
        return AnswerFinding(1.0 if self.content else 0.4, reason)

    def _wrong_numbers(self) -> AnswerFinding | None:
        """A number or a length of time is missing, or the response has another one instead.

        The number 1 may be missing (`a cat` for `one cat`), unless the response has another or a vague number.
        """
        if self.reference.durations and not self._durations_differ():
            return None
        if self.reference.durations and self.response.durations:
            return AnswerFinding(0.25, "another length of time", made_up=True)
        if not self.reference.numbers:
            return None
        numbers = self.response.numbers
        if self.counted:
            numbers = tuple(numbers_in(without_list_markers(self.response.undated)))
        expected, present = Counter(self.reference.numbers), Counter(numbers)
        asked = frozenset(self.question.numbers)
        other = [number for number in present if number not in expected and number not in asked]
        missing = [number for number, count in expected.items() if present[number] < (count if other else 1)]
        if not other:
            vague = _stems(_VAGUE_NUMBERS)
            is_few = not vague.isdisjoint(self.response.words) and vague.isdisjoint(self.reference.words)
            missing = [number for number in missing if number not in asked and (number != 1 or is_few)]
        if not missing:
            return None
        reason = f"the number {missing[0]:g} is not in the answer"
        if other:
            return AnswerFinding(0.25, f"{reason}, which says {other[0]:g}", made_up=True)
        return AnswerFinding(0.35, reason)

    def _durations_differ(self) -> bool:
        present = self.response.durations
        return any(not any(map(expected.equals, present)) for expected in self.reference.durations)

    def _other_measure(self) -> AnswerFinding | None:
        """The response has the right number with another half of the day, period or unit: `7 pm` for `7 am`."""
        text, reference = self.response.text, self.reference.text
        if self.same_rate is False:
            return AnswerFinding(0.3, "another rate", made_up=True)
        if not self.reference.numbers:
            return None
        if expected_times := clock_times_in(reference):
            times = set(clock_times_in(text))
            for expected in set(expected_times):
                halves = {time.half for time in times if time.minutes == expected.minutes}
                if expected.half and halves and not halves & {expected.half, ""}:
                    return AnswerFinding(0.3, "another half of the day", made_up=True)
        if (number := number_of_other_unit(reference, text)) is not None:
            return AnswerFinding(0.3, f"{number:g} of another unit", made_up=True)
        return None

    def _other_count(self) -> AnswerFinding | None:
        """A short response says the number of other things, and another number of the things that are asked for.

        `She has 3 dogs and 2 sisters` does not say that she has 3 sisters. Long responses count too many things.
        """
        if not self.counted or len(self.response.words) > _SHORT_ANSWER or len(self.reference.numbers) != 1:
            return None
        (number,) = self.reference.numbers
        counts: list[float] = []
        for match in _COUNT.finditer(self.response.undated):
            value, things = number_of(match["number"]), _leading_content(words_of(match["words"]))
            is_asked = not self.counted.isdisjoint(things)
            # Without a thing it may be the answer, `3 of them`, unless it is a place in an order: `his fourth`.
            if value == number and (is_asked or not (things or match["own"])):
                return None
            if is_asked:
                counts.append(value)
        if not counts or number not in self.response.numbers:
            return None
        return AnswerFinding(0.25, f"the answer counts {counts[0]:g}, not {number:g}", made_up=True)

    def _denial(self) -> AnswerFinding | None:
        """The response negates a word that the reference affirms."""
        denied = denied_words(self.response.text)
        clauses = denied_clauses(self.response.text)
        if not (denied or clauses) or is_negated(self.reference.text) or is_negated(self.question.text):
            return None
        others = (word for word in self.reference.words if word.isdecimal() or not self.content)
        affirmed = frozenset([*self.content, *others]) - denied_words(self.reference.text)
        # Said once, in a clause that denies it. What is said again elsewhere may be affirmed there.
        is_denied = bool(affirmed) and any(affirmed <= clause for clause in clauses)
        is_denied = is_denied and all(self.response.words.count(word) == 1 for word in affirmed)
        if not is_denied and affirmed.isdisjoint(denied):
            return None
        return AnswerFinding(0.3, "the answer denies what the reference says", made_up=True)

    def _affirmation(self) -> AnswerFinding | None:
        """The response affirms a word that the reference negates. The opposite of `_denial`."""
        groups = refused_words(self.reference.text) if len(self.reference.words) <= _SHORT_ANSWER else []
        if not groups or is_negative(self.response.text) or is_negative(self.question.text):
            return None
        if not any(group.issubset(self.response.words) for group in groups):
            return None
        return AnswerFinding(0.3, "the answer says what the reference denies", made_up=True)

    def _opposite(self) -> AnswerFinding | None:
        """The response has the opposite of a word in the same place: `after the wedding` for `before the wedding`."""
        words, expected = self.response.undated_words, self.reference.undated_words
        pairs = opposites()
        missing = (pairs.keys() & expected).difference(words)
        if not missing:
            return None
        denied = denied_words(self.response.text) | denied_words(self.reference.text)
        for word in missing - denied:
            others = pairs[word].intersection(words).difference(expected) - denied
            # A response may repeat the question, unless the question asks which of the two it is.
            if word not in self.question_words:
                others -= self.question_words
            places = _WordPlaces.of(word, expected) if others else _NOWHERE
            if any(places.meet(_WordPlaces.of(other, words)) for other in others):
                return AnswerFinding(0.3, "the opposite of a word of the reference", made_up=True)
        return None

    def _list_items(self) -> list[frozenset[str]]:
        """Return the content words of each item if the reference is a list of short items, else nothing.

        Alternatives (`tea or coffee`) are not a list: one is enough.
        """
        text = self.reference.text
        if self.reference.dates or OR.search(text) or yes_or_no(text) is not None:
            return []
        if self.reference.durations and not self.content:
            return []  # `an hour and a half`
        items = [frozenset(words_of(item)) - function_words() for item in _LIST_SEPARATOR.split(text)]
        items = [item for item in items if item]
        return items if len(items) > 1 and max(map(len, items)) <= _SHORT_ITEM else []

    def _missing_items(self) -> AnswerFinding | None:
        """The response lacks items of a list. An item is present by any word that no other item has."""
        if not self.items:
            return None
        counts = Counter(word for item in self.items for word in item)
        own_words = ([word for word in item if counts[word] == 1 and word.isalpha()] or item for item in self.items)
        present = sum(any(map(self._has, words)) for words in own_words)
        if present >= _ENOUGH_ITEMS * len(self.items):
            return None
        return AnswerFinding(0.4, f"{present} of {len(self.items)} parts of the reference")

    def _guesses(self) -> AnswerFinding | None:
        """The response names several candidates, and not all of them are right: `Oslo, Rome or Bonn`."""
        if OR.search(self.reference.text):
            return None
        finding = AnswerFinding(0.3, "several candidates, not all right")
        extra_dates = frozenset(self.extra_dates)
        for one, other in pairwise(self.response.dates):
            between = self.response.text[one.end : other.start]
            if (one in extra_dates) != (other in extra_dates) and BETWEEN_DATES.fullmatch(between):
                return finding
        numbers = [word for word in self.reference.undated_words if word.isdecimal()]
        key = numbers or self.content
        ignored = (self.question_words | _stems(_TIME_WORDS)) - frozenset(key)
        keep = str.isdecimal if numbers else lambda word: word not in ignored
        # A candidate for a list may be one of its items.
        needed = 0.0 if self.items else 0.5
        for group in candidates_in(self.response.text, len(key), keep) if key else ():
            if len({_weighted_share(key, frozenset(candidate)) > needed for candidate in group}) > 1:
                return finding
        return None

    def _other_name(self) -> AnswerFinding | None:
        """The response has another name instead of a name of the reference. Lists may lack a name."""
        names = self.reference.names().items()
        missing = [name for stem, name in names if stem not in self.question_words and not self._has(stem)]
        if not missing or self.items:
            return None
        # A name with the same beginning is the same: `Midwest` for `Midwestern`.
        known = _beginnings(self.question_words.union(self.reference.words))
        other = [name for stem, name in self.response.names().items() if stem[:COMMON_PREFIX] not in known]
        if not other:
            return None
        reason = f"the name {missing[0]} is not in the answer, which says {other[0]}"
        return AnswerFinding(0.38, reason, made_up=True)

    def _other_word(self) -> AnswerFinding | None:
        """A short response has another word beside a word of the reference: `almond milk` for `coconut milk`."""
        expected = [word for word in self.reference.undated_words if word not in function_words()]
        is_long = len(self.response.words) > _SHORT_ANSWER or len(expected) > _SHORT_REFERENCE
        if is_long or self.items or not self.content:
            return None
        for one, two in pairwise(expected):
            missing = two if self._has(one) else one
            if self._has(missing) or missing in self.question_words or missing in common_words():
                continue
            if one.isdecimal() or two.isdecimal():
                continue
            known = self.question_words.union(self.reference.words, function_words())
            for first, second in pairwise(self.response.undated_words):
                other = second if first == one else first if second == two else None
                if other and not _weighted_share([other], known):
                    return AnswerFinding(0.38, "another word instead of one of the reference", made_up=True)
        return None

    def _has(self, word: str) -> bool:
        return _weighted_share([word], self.present) > 0


def _leading_content(words: Sequence[str]) -> list[str]:
    """Return the words up to the first function word."""
    return list(takewhile(lambda word: word not in function_words(), words))


class _WordPlaces(NamedTuple):
    """The content words after and before a word in a text. `last` are the words before it where none is after it."""

    after: frozenset[str]
    before: frozenset[str]
    last: frozenset[str]

    @classmethod
    def of(cls, word: str, words: Sequence[str]) -> _WordPlaces:
        content = [each for each in words if each == word or each not in function_words()]
        pairs = list(pairwise(content))
        before = frozenset(one for one, two in pairs if two == word)
        last = frozenset(content[-2:-1]) if content[-1] == word else frozenset()
        return cls(frozenset(two for one, two in pairs if one == word), before, last)

    def meet(self, other: _WordPlaces) -> bool:
        """Return whether the words are in the same place: before the same word, or after it at the end of a text."""
        return bool(self.after & other.after or self.last & other.before or other.last & self.before)


_NOWHERE = _WordPlaces(frozenset(), frozenset(), frozenset())


def _weighted_share(wanted: list[str], present: frozenset[str]) -> float:
    total = share = 0.0
    for word in wanted:
        weight = 1.0
        if word in function_words():
            weight = _FUNCTION_WORD_WEIGHT
        elif word in common_words():
            weight = _COMMON_WORD_WEIGHT
        total += weight
        if word in present:
            share += weight
        elif word[:COMMON_PREFIX] in _beginnings(present) and any(are_similar(word, each) for each in present):
            share += weight * _SIMILAR_WEIGHT
    return share / total if total else 1.0


@lru_cache(1 << 6)
def _beginnings(words: frozenset[str]) -> frozenset[str]:
    """Return the first letters of the words. They spare most words the search for a similar one."""
    return frozenset(word[:COMMON_PREFIX] for word in words)


@cache
def _words_without_content() -> frozenset[str]:
    return function_words() | _stems(_TIME_WORDS)


@cache
def _stems(words: str) -> frozenset[str]:
    return frozenset(words_of(words))
