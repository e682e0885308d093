"""Labels that people give to the answers of a run: `labels.jsonl` in the run folder.

    answers = choose_answers(folder, graded_answers, metric="judged", sample=40, balance=True)
    labels = RunLabels(folder, by="ann")
    labels.add(answers.read(answers.places[0]), right=True)

Every label is a line that `assay judge calibrate` reads: question, reference, response and label. It is written at
once and whole. The judge's verdict is no part of the line, and the order of the answers does not depend on it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec
from msgspec import Struct

from assay.core.errors import DamagedRun, InputError, Problem, UsageError, unknown
from assay.core.judges import ANSWER, RUBRIC, Agreement
from assay.core.suite_pages import GradedAnswer, StoredCase, graded_answers
from assay.files.plain_files import open_plain, read_plain
from assay.files.write import sync_data
from assay.journal.run_files import read_info, usable_summary
from assay.scoring.agreement import JudgedRow, agreement
from assay.store.cases import RunCases

FILE = "labels.jsonl"
AnswersOf = Callable[[StoredCase], Sequence[GradedAnswer]]


class LabelsBusy(UsageError):
    """Another process has the labels of the run open."""


class AnswerKey(NamedTuple):
    """Identifies an answer in its run. An answer that several filters read has the part of the first of them."""

    set: str
    case: str
    subject: str
    part: str


class AnswerLabel(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of `labels.jsonl`. `response` is the text that a rubric is about, if there is a rubric."""

    question: str
    reference: str
    response: str
    label: bool
    rubric: str = ""
    evidence_texts: tuple[str, ...] = ()
    category: str = ""
    cluster: str = ""
    set: str
    case: str
    subject: str
    part: str = ""
    metric: str
    by: str
    at: float

    @property
    def key(self) -> AnswerKey:
        """The answer that has this label."""
        return AnswerKey(self.set, self.case, self.subject, self.part)


class AnswerPlace(NamedTuple):
    """Where to find an answer to label, and the verdict of its score, which must not be shown before the label."""

    key: AnswerKey
    position: int
    """The position of its case in the run."""
    number: int
    """The number of the answer among those of its case."""
    accepted: bool | None


class Answers:
    """The answers of a run to label, in an order that tells nothing about them. Texts are read one by one."""

    def __init__(self, cases: RunCases, answers_of: AnswersOf, metric: str, places: Sequence[AnswerPlace]) -> None:
        self._cases = cases
        self._answers_of = answers_of
        self.metric = metric
        self.places = places

    def read(self, place: AnswerPlace) -> GradedAnswer:
        """Return the texts of an answer."""
        case = self._cases.case(place.position)
        assert case is not None  # it had ended when the places were listed
        return self._answers_of(case._replace(calls=self._cases.calls(place.position)))[place.number]


def choose_answers(
    folder: Path,
    answers_of: AnswersOf = graded_answers,
    *,
    metric: str = "",
    sample: int | None = None,
    seed: int = 0,
    balance: bool = False,
    cases: RunCases | None = None,
    max_cases: int | None = None,
) -> Answers:
    """Return the answers of a run with a score of this metric, shuffled, or a sample of them.

    `answers_of` is `graded_answers` of the run's suite. Without a metric, it is one that a judge decides, else the
    first one. In a run with filters, `metric,filter` names a score; a metric alone is that of each case's first filter.
    With `balance`, half of the sample has accepted answers and half rejected ones, as far as there are
    enough. The same seed gives the same sample. Raises UsageError if the run has no such answer.

    `cases` are the cases of the run, if they are open already. All of them are read, or a random choice of `max_cases`.
    """
    cases = cases or RunCases(folder)
    has_filters = read_info(folder).score_parts == "filters"
    by_score: dict[str, list[AnswerPlace]] = {}
    first_filters: dict[str, dict[str, list[AnswerPlace]]] = {}
    for case in _drawn(cases, max_cases, seed):
        end = case.end
        parts: dict[tuple[str, str], str] = {}
        metrics: set[str] = set()
        for number, answer in enumerate(answers_of(case)):
            part, name = answer.part, answer.metric
            if has_filters:
                # Filters that show the same text are about one answer, which a person labels once.
                part = parts.setdefault((answer.rubric, answer.response), part)
                name = score_name(answer.metric, answer.part)
            place = AnswerPlace(AnswerKey(end.set, end.case, end.subject, part), end.index, number, answer.accepted)
            by_score.setdefault(name, []).append(place)
            if not has_filters or answer.metric not in metrics:
                first_filters.setdefault(answer.metric, {}).setdefault(name, []).append(place)
                metrics.add(answer.metric)
    if not by_score:
        raise UsageError(f"{folder} has no answer with a score yet, so there is nothing to label")
    if metric and metric not in by_score and metric not in first_filters:
        raise UsageError(unknown("metric", metric, sorted(by_score)))
    metric = metric or _judged_metric(folder, list(first_filters))
    if metric in first_filters:
        places = [place for group in first_filters[metric].values() for place in group]
        # Tasks may have different filters. Then only the metric is the name of all these scores.
        metric = next(iter(first_filters[metric])) if len(first_filters[metric]) == 1 else metric
    else:
        places = by_score[metric]
    # The hash makes an order that depends on nothing but the seed, also if the run grows later.
    shuffled = sorted(places, key=lambda place: sha256("\0".join((str(seed), *place.key)).encode()).digest())
    if sample is not None:
        shuffled = _balanced(shuffled, sample) if balance else shuffled[:sample]
    return Answers(cases, answers_of, metric, shuffled)


def score_name(metric: str, filter_name: str = "") -> str:
    """Return the name of a score: `metric`, or `metric,filter`."""
    return f"{metric},{filter_name}" if filter_name else metric


def _drawn(cases: RunCases, max_cases: int | None, seed: int) -> Iterator[StoredCase]:
    """Yield all cases, or a random choice of them in the order of the data."""
    positions = cases.positions
    if max_cases is None or len(positions) <= max_cases:
        yield from cases
        return
    for position in sorted(Random(seed).sample(positions, max_cases)):  # noqa: S311 - a sample, no secret
        case = cases.case(position)
        if case is not None:
            yield case


def _judged_metric(folder: Path, metrics: Sequence[str]) -> str:
    """Return the first metric that a judge of answers decides, else the first metric of the run."""
    summary = usable_summary(folder)
    judges = summary.report.judges() if summary is not None and summary.report is not None else []
    judged = [name for judge in judges if judge.kind in (ANSWER, RUBRIC) for name in ("judge", *judge.metrics)]
    return next((name for name in judged if name in metrics), metrics[0])


def _balanced(shuffled: Sequence[AnswerPlace], sample: int) -> list[AnswerPlace]:
    """Return as many accepted as rejected answers, in the order that they had."""
    rejected = [place for place in shuffled if not place.accepted]
    accepted = [place for place in shuffled if place.accepted]
    count = max(sample - len(rejected), min(len(accepted), sample // 2))
    chosen = {id(place) for place in (*accepted[:count], *rejected[: sample - count])}
    return [place for place in shuffled if id(place) in chosen]


class RunLabels:
    """The file of labels of a run, open for one person. Another process that labels the same run is refused."""

    def __init__(self, folder: Path, by: str) -> None:
        self.path = folder / FILE
        self.by = by
        self.labels: dict[AnswerKey, AnswerLabel] = {}
        """The newest label that this person gave to each answer."""
        self._starts: list[tuple[int, AnswerKey]] = []
        self._fd = self._lock()
        try:
            for label in self._read():
                if label.by == by:
                    self.labels[label.key] = label
        except BaseException:
            self.close()
            raise

    def _lock(self) -> int:
        """Return the open and locked file."""
        while True:
            try:
                fd = open_plain(self.path, os.O_RDWR | os.O_CREAT)
            except OSError as error:
                raise UsageError(f"{self.path} cannot be written: {error.strerror}") from None
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                raise LabelsBusy(f"another process has {self.path} open. Wait until it has ended") from None
            if os.fstat(fd).st_nlink:
                return fd
            os.close(fd)  # another process removed the empty file between the two calls

    def _read(self) -> list[AnswerLabel]:
        """Return all labels. The beginning of a line at the end of the file, left by a kill, is cut off."""
        content = read_plain(self.path)
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.ftruncate(self._fd, whole)
        labels = []
        for number, line in enumerate(content[:whole].splitlines(), 1):
            try:
                labels.append(msgspec.json.decode(line, type=AnswerLabel))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                message = f"this is no label of `assay label`: {error}. Mend or remove the line"
                raise InputError(Problem(f"{self.path}:{number}", message)) from None
        return labels

    def add(self, place: AnswerPlace, answer: GradedAnswer, *, right: bool) -> None:
        """Append a label. It is on the disk when this returns."""
        label = AnswerLabel(
            question=answer.question,
            reference=answer.reference,
            response=answer.response,
            label=right,
            rubric=answer.rubric,
            evidence_texts=answer.evidence,
            category=answer.category,
            cluster=answer.cluster,
            **place.key._asdict(),
            metric=answer.metric,
            by=self.by,
            at=round(time.time(), 3),
        )
        start = os.lseek(self._fd, 0, os.SEEK_END)
        line = msgspec.json.encode(label) + b"\n"
        problem = ""
        try:
            if os.write(self._fd, line) < len(line):
                problem = "the disk is full"
            sync_data(self._fd)
        except OSError as error:
            problem = error.strerror or "unknown error"
        if problem:
            os.ftruncate(self._fd, start)
            raise UsageError(f"{self.path} cannot be written: {problem}. The earlier labels are saved")
        self._starts.append((start, place.key))
        self.labels[place.key] = label

    def undo(self) -> AnswerKey | None:
        """Remove the newest label of this session and return its answer. None if there is none."""
        if not self._starts:
            return None
        start, key = self._starts.pop()
        os.ftruncate(self._fd, start)
        del self.labels[key]
        return key

    def undo_newest(self) -> AnswerKey | None:
        """Remove the newest label of the file, also one of an earlier session, and return its answer.

        None if the file has none, or if it is another person's.
        """
        labels = self._read()
        if not labels or labels[-1].by != self.by:
            return None
        content = read_plain(self.path)
        os.ftruncate(self._fd, content.rfind(b"\n", 0, len(content) - 1) + 1)
        self._starts.clear()
        self.labels = {label.key: label for label in labels[:-1] if label.by == self.by}
        return labels[-1].key

    def close(self) -> None:
        """Close the file. An empty one is removed."""
        if os.fstat(self._fd).st_size == 0:
            self.path.unlink(missing_ok=True)
        os.close(self._fd)


def read_labels(folder: Path) -> list[AnswerLabel]:
    """Return all labels of a run, oldest first. Takes no lock. Lines that are no labels are left out."""
    try:
        lines = read_plain(folder / FILE).splitlines()
    except (OSError, DamagedRun):
        return []
    labels = []
    for line in lines:
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            labels.append(msgspec.json.decode(line, type=AnswerLabel))
    return labels


def agreement_with_scores(labels: Mapping[AnswerKey, AnswerLabel], places: Sequence[AnswerPlace]) -> Agreement:
    """Compare the labels of one person with the scores of the run. An answer without a label is left out."""
    labelled = [(place, labels[place.key]) for place in places if place.key in labels]
    return agreement(
        JudgedRow(label.label, place.accepted, None, label.category, label.cluster or None) for place, label in labelled
    )
