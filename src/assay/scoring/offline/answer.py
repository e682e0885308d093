"""Answers: the reference's words, numbers and dates against those of the response."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from typing import NamedTuple

from assay.scoring.offline.agreement import agree, nearness, vaguer
from assay.scoring.offline.reading import Read, read
from assay.scoring.offline.spans import Dated, overlap
from assay.scoring.offline.stance import abstains, denied, hedges, leaning, negated, unknown
from assay.scoring.offline.words import alike, little, words_of
from assay.scoring.questions import CORRECT, HALLUCINATION, OMISSION, AnswerQuestion, Verdict

ENOUGH = 0.42
"""An answer is correct from here on: just above what is left to one with a part missing or contradicted."""
_LITTLE_WEIGHT = 0.2
_ALIKE_WEIGHT = 0.7
_TOUCHED = 0.2
_ABSTAINED = 0.6
_OF_TIME = (
    "week weekend day month year date time early late mid beginning end start first last next before after "
    "prior during approximately roughly exactly sometime ago yesterday today tomorrow"
)
_LEANING = 0.6
_LIST = re.compile(r",(?!\d)|;|\band\b|&|、|，|和", re.IGNORECASE)
_OR = re.compile(r"\bor\b|或", re.IGNORECASE)
_SHORT_ITEM = 3
_VAGUE = "few several many multiple numerous 几"


class Finding(NamedTuple):
    """Something that bounds how correct an answer can be. `made_up`: it says otherwise, rather than less."""

    most: float
    reason: str
    made_up: bool


class Trio(NamedTuple):
    """Question, reference and response as they were read."""

    question: Read
    reference: Read
    response: Read


@cache
def _stems(words: str) -> frozenset[str]:
    return frozenset(words_of(words))


def answer(question: AnswerQuestion) -> Verdict:
    """Correct where the words suffice and nothing is contradicted. An empty response is an omission."""
    trio = Trio(read(question.question), read(question.reference), read(question.response))
    if not question.response.strip():
        return Verdict((OMISSION,), "nothing was answered", sure=(0.0,))
    if _same(question, trio):
        return Verdict((CORRECT,), "the reference's own words", sure=(1.0,))
    if unknown(trio.reference.said, len(trio.reference.words)):
        return _of_unknown(trio.response)
    return _weighed(trio)


def _same(question: AnswerQuestion, trio: Trio) -> bool:
    if not trio.reference.words:
        return question.reference.strip() == question.response.strip()
    return trio.reference.words == trio.response.words


def _of_unknown(response: Read) -> Verdict:
    if abstains(response.said):
        return Verdict((CORRECT,), "nobody can know, and the answer says so", sure=(1.0,))
    return Verdict((HALLUCINATION,), "nobody can know, and the answer claims something", sure=(0.0,))


def _weighed(trio: Trio) -> Verdict:
    share = _words(trio)
    base = _base(trio, share)
    silent = hedges(trio.response.said)
    findings = [
        finding
        for find in (_of_dates, _numbers, _durations, _weekdays, _yes_or_no, _denied, _items)
        for finding in find(trio)
    ]
    sure = min([base.most * (_ABSTAINED if silent else 1.0), *(finding.most for finding in findings)])
    told = ["the answer says that something is not known"] if silent else []
    reason = "; ".join([base.reason, *told, *(finding.reason for finding in findings)])
    return Verdict((_label(sure, share, silent, findings),), reason, sure=(sure,))


def _base(trio: Trio, share: float) -> Finding:
    """How correct the answer is if nothing speaks against it."""
    words = Finding(share, f"{100 * share:.0f} % of the reference's words", made_up=False)
    meant = leaning(trio.reference.said)
    if trio.reference.dates:
        words = _dates(trio, share)
    elif not _content(trio) and trio.reference.durations and not _wrong_durations(trio):
        words = Finding(0.95, "the same length of time", made_up=False)
    if meant is None or meant != _leans(trio):
        return words
    told = "both say yes" if meant else "both say no"
    return Finding(
        max(words.most, _LEANING + (0.9 - _LEANING) * words.most), f"{words.reason}; {told}", made_up=False
    )


def _leans(trio: Trio) -> bool | None:
    """What the response says to a question of yes or no, also by repeating what was asked, or denying it."""
    said = leaning(trio.response.said)
    asked = frozenset(trio.question.words) - little()
    if said is None and len(asked & set(trio.response.words)) >= len(asked) / 2:
        return not negated(trio.response.said)
    return said


def _label(sure: float, share: float, silent: bool, findings: list[Finding]) -> str:
    if sure >= ENOUGH:
        return CORRECT
    if any(finding.made_up for finding in findings):
        return HALLUCINATION
    lacking = silent or bool(findings) or share >= _TOUCHED
    return OMISSION if lacking else HALLUCINATION


def _content(trio: Trio) -> list[str]:
    known = set(trio.question.words)
    said = [
        word
        for word in trio.reference.rest
        if word not in little() and word not in _stems(_OF_TIME) and not word.isdecimal()
    ]
    return [word for word in said if word not in known] or said


def _words(trio: Trio) -> float:
    """The mean of two shares: of all words of the reference, and of those that the question does not have."""
    wanted = list(dict.fromkeys(trio.reference.rest))
    known = set(trio.question.words)
    said = frozenset(trio.response.words)
    joined = said | {a + b for a, b in zip(trio.response.words, trio.response.words[1:], strict=False)}
    new = [word for word in wanted if word not in known]
    every = _share(wanted, joined)
    return (every + _share(new, joined)) / 2 if new else every


def _share(wanted: list[str], said: frozenset[str]) -> float:
    total = found = 0.0
    for word in wanted:
        weight = _LITTLE_WEIGHT if word in little() else 1.0
        total += weight
        found += weight * (
            1.0 if word in said else _ALIKE_WEIGHT if any(alike(word, other) for other in said) else 0.0
        )
    return found / total if total else 1.0


def _dates(trio: Trio, share: float) -> Finding:
    """Dates decide where the reference is nothing but dates; else each counts as a word, at most half."""
    meant, said, content = trio.reference.dates, trio.response.dates, len(_content(trio))
    missed = _missed(trio)
    right = 1 - len(missed) / len(meant)
    told = "the dates agree" if not missed else f"{len(missed)} of {len(meant)} dates missed"
    if content:
        weight = min(0.5, len(meant) / (len(meant) + content))
        told = f"{100 * share:.0f} % of the reference's other words; {told}"
        return Finding(share * (1 - weight) + weight * right, told, made_up=False)
    if missed:
        return Finding(0.4 * right + 0.4 * _near(said, missed), told, made_up=False)
    return Finding(0.85 if _stray(trio) else 0.95, told, made_up=False)


def _missed(trio: Trio) -> list[Dated]:
    said = trio.response.dates
    return [one for one in trio.reference.dates if not any(agree(other.span, one.span) for other in said)]


def _stray(trio: Trio) -> list[Dated]:
    meant = trio.reference.dates
    return [one for one in trio.response.dates if not any(agree(one.span, other.span) for other in meant)]


def _near(said: tuple[Dated, ...], missed: list[Dated]) -> float:
    return max((nearness(one.span, other.span) for one in said for other in missed), default=0.0)


def _of_dates(trio: Trio) -> list[Finding]:
    """A date that is not said, or another one in its place. Dates of the question are no other ones."""
    missed, asked, content = _missed(trio), trio.question.dates, _content(trio)
    if not missed:
        return []
    name = _text(trio.reference, missed[0])
    wrong = [one for one in _stray(trio) if not any(overlap(one.span, other.span) for other in asked)]
    if not wrong:
        return [Finding(1.0 if content else 0.4, f"the date {name} is not in the answer", made_up=False)]
    said = _text(trio.response, wrong[0])
    if vaguer(wrong[0].span, missed[0].span) and overlap(wrong[0].span, missed[0].span):
        return [Finding(0.4, f"{said} is vaguer than {name}", made_up=False)]
    most = 0.3 if content else 0.4
    return [Finding(most, f"the date {name} is not in the answer, which says {said}", made_up=True)]


def _text(read_text: Read, dated: Dated) -> str:
    return read_text.said[dated.start : dated.end].strip()


def _numbers(trio: Trio) -> list[Finding]:
    """A number of the reference must be said. `one` may be missing, unless another one is said."""
    if trio.reference.durations and not _wrong_durations(trio):
        return []
    meant, said, asked = (Counter(each.numbers) for each in (trio.reference, trio.response, trio.question))
    other = [number for number in said if number not in meant and number not in asked]
    missing = [number for number, count in meant.items() if said[number] < (count if other else 1)]
    if not other:
        missing = [number for number in missing if number not in asked and (number != 1 or _vague(trio))]
    if not missing:
        return []
    name = f"the number {missing[0]:g} is not in the answer"
    if other:
        return [Finding(0.25, f"{name}, which says {other[0]:g}", made_up=True)]
    return [Finding(0.35, name, made_up=False)]


def _vague(trio: Trio) -> bool:
    vague = _stems(_VAGUE)
    return not vague.isdisjoint(trio.response.words) and vague.isdisjoint(trio.reference.words)


def _durations(trio: Trio) -> list[Finding]:
    wrong = bool(trio.response.durations) and _wrong_durations(trio)
    return [Finding(0.3, "another length of time", made_up=True)] if wrong else []


def _wrong_durations(trio: Trio) -> bool:
    meant, said = trio.reference.durations, trio.response.durations
    return any(not any(one.same(other) for other in said) for one in meant)


def _weekdays(trio: Trio) -> list[Finding]:
    meant, said = trio.reference.weekdays, trio.response.weekdays
    if meant and said and not meant & said:
        return [Finding(0.3, "another day of the week", made_up=True)]
    return []


def _yes_or_no(trio: Trio) -> list[Finding]:
    meant, said = leaning(trio.reference.said), leaning(trio.response.said)
    if meant is None:
        return []
    if said is None:
        said = not negated(trio.response.said)
    return [] if meant == said else [Finding(0.15, "yes against no", made_up=True)]


def _denied(trio: Trio) -> list[Finding]:
    """The response denies a word that the reference affirms."""
    meant = frozenset(_content(trio)) - denied(trio.reference.said)
    wrong = denied(trio.response.said) & meant
    if not wrong or negated(trio.reference.said):
        return []
    return [Finding(0.3, "the answer denies what the reference says", made_up=True)]


def _items(trio: Trio) -> list[Finding]:
    """Of two short parts both must be there; of alternatives one."""
    items = [words_of(item) for item in _LIST.split(trio.reference.said)]
    items = [tuple(word for word in item if word not in little()) for item in items]
    items = [item for item in items if item]
    listed = len(items) == 2 and max(map(len, items)) <= _SHORT_ITEM
    if not listed or _OR.search(trio.reference.said) or leaning(trio.reference.said) is not None:
        return []
    said = set(trio.response.words)
    there = sum(not said.isdisjoint(item) for item in items)
    if there == len(items):
        return []
    return [Finding(0.4, f"{there} of {len(items)} parts of the reference", made_up=False)]
