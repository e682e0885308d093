"""A calibration, resolved: which rows are judged by whom, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from assay.core.connect import CHAT
from assay.core.errors import UsageError
from assay.core.hashing import RepeatFinder, Twins, file_sha256, fingerprint, row_key
from assay.core.judges import LIMITED, NOT_JUDGED, Calibration
from assay.core.protocols import Outcome, Reader, RunFacts, check_key
from assay.core.registry import unknown
from assay.core.spec import RunSpec, limited
from assay.core.types import Case, Score
from assay.scoring.agreement import JudgedRow, agreement, among_votes, by_category
from assay.store.calibrations import remember
from assay.suites.calibration.bench import bench_for
from assay.suites.calibration.options import CalibrationOptions
from assay.suites.calibration.reading import read
from assay.suites.calibration.row import Row
from assay.suites.calibration.scorer import CalibrationScorer, RowSolver
from assay.suites.calibration.writing import Disagreements, metrics_of, write_calibration

OTHERS = "of other clusters"
_MOST_NAMED = 3
_encode = msgspec.json.Encoder().encode


class CalibrationPlan:
    """One case a row, in the order of the file."""

    def __init__(self, spec: RunSpec) -> None:
        options = spec.options
        assert isinstance(options, CalibrationOptions)
        assert spec.judge is not None
        if not options.labels:
            raise UsageError("no labels are named: assay judge calibrate --judge NAME --labels FILE")
        if spec.model:
            raise UsageError("a calibration asks nobody but the judge: name it with --judge, not --model")
        self._options = options
        self._path = Path(options.labels)
        self._read(spec.limit)
        self._bench = bench_for(self._rows, spec.judge, spec.votes)
        self.roles = self._bench.roles
        self.needs = frozenset({CHAT}) if self.roles else frozenset[str]()
        self.total = len(self._rows)
        self.solver = RowSolver()
        self.ask: dict[str, Any] = {"rows": self._keys}
        identity = self._bench.identity
        judge = fingerprint([identity.name, identity.kind, identity.fingerprint, self._bench.endpoint])
        labels = [[row.label, row.votes, row.category, row.cluster] for row in self._rows]
        self.score: dict[str, Any] = {
            "judge": judge,
            "labels": fingerprint([labels, self._left_out]),
            "version": 1,
        }
        self.scorers = [CalibrationScorer(f"calibration@{judge}", self._bench)]

    def _read(self, limit: float | None) -> None:
        found = read(self._path, _told(self._options))
        chosen = _chosen(found.rows, self._options.cluster)
        count = limited(limit, len(chosen))
        self._rows = chosen[:count]
        others = {OTHERS: len(found.rows) - len(chosen), LIMITED: len(chosen) - count}
        self._left_out = found.left_out | {why: left for why, left in others.items() if left}
        self._keys = _keys(self._rows)
        self.notices: tuple[str, ...] = ()
        if places := found.passed_over:
            named = ", ".join(places[:_MOST_NAMED]) + (" and others" if len(places) > _MOST_NAMED else "")
            self.notices = (f"passed over, since there are no rows in it: {named}",)

    @cached_property
    def sha256(self) -> str:
        """The labels by content."""
        return file_sha256(self._path)

    def prepare(self, facts: dict[str, Any] | None) -> dict[str, Any]:
        """The file was read to know which run this is."""
        return {"labels": self._path.name, "labels_sha256": self.sha256, "rows": self.total}

    def load(self, skip: Callable[[int], bool]) -> Iterator[Case]:
        """Row after row; the label goes with what only the scorer sees."""
        name = self._path.stem
        for index, (row, key) in enumerate(zip(self._rows, self._keys, strict=True)):
            if not skip(index):
                yield Case(index, key, name, name, row.place, row.response, row)

    def finish(self, reader: Reader, facts: RunFacts) -> Outcome:
        """Labels against verdicts: the numbers, the rows on which they differ, and a note for later."""
        judged: list[JudgedRow] = []
        with Disagreements(facts.folder) as differing:
            for index, row in enumerate(self._rows):
                score = self._said(index, reader)
                if score is None:
                    continue
                judged.append(_judged(row, score))
                differing.add(row, score)
        calibration = self._calibration(judged)
        files = [write_calibration(facts.folder, calibration), differing.path]
        results = {self._path.stem: self._results(calibration)}
        notices = tuple(filter(None, [remember(calibration)]))
        return Outcome(results, files, self._reached(calibration), notices=notices)

    def _said(self, index: int, reader: Reader) -> Score | None:
        end, _, scores = reader.case(index, self.scorers[0].id) or (None, [], [])
        if end is not None:
            check_key(self._keys[index], end, self._rows[index].place)
        return scores[0] if scores else None

    def _calibration(self, judged: list[JudgedRow]) -> Calibration:
        left_out = dict(self._left_out)
        if missing := self.total - len(judged):
            left_out[NOT_JUDGED] = missing
        identity = self._bench.identity
        return Calibration(
            judge=identity.name,
            kind=identity.kind,
            fingerprint=identity.fingerprint,
            votes=identity.votes,
            labels=self._path.name,
            labels_sha256=self.sha256,
            overall=agreement(judged),
            categories=by_category(judged),
            among_votes=among_votes(row.votes for row in self._rows),
            left_out=left_out,
        )

    def _results(self, calibration: Calibration) -> dict[str, Any]:
        identity = msgspec.structs.replace(self._bench.identity, calibration=calibration)
        return {"metrics": metrics_of(calibration), "judge": msgspec.to_builtins(identity)}

    def _reached(self, calibration: Calibration) -> bool:
        """Whether kappa is as high as it must be; one that is unknown is not."""
        floor, kappa = self._options.min_kappa, calibration.overall.kappa
        return floor is None or (kappa is not None and kappa >= floor)


def _chosen(rows: list[Row], clusters: list[str]) -> list[Row]:
    """The rows of these clusters, or all; a name that no row has is a slip."""
    known = {row.cluster for row in rows if row.cluster is not None}
    if missing := [name for name in clusters if name not in known]:
        raise UsageError(unknown("cluster", missing[0], sorted(known)))
    return [row for row in rows if row.cluster in clusters] if clusters else rows


def _told(options: CalibrationOptions) -> dict[str, str]:
    names = ("question", "reference", "response", "label", "category", "cluster")
    told = {name: getattr(options, f"{name}_field") for name in names}
    return {**told, "text": told["response"]}


def _keys(rows: list[Row]) -> list[str]:
    """What is judged, in sixteen digits; no label is part of it, and equal rows are numbered."""
    found = [
        row_key(_encode([row.question, row.reference, row.rubric, row.evidence, row.response]))
        for row in rows
    ]
    repeats = RepeatFinder()
    for key in found:
        repeats.add(key)
    twins = Twins(repeats.repeated())
    return [twins.name(key) for key in found]


def _judged(row: Row, score: Score) -> JudgedRow:
    said = None if score.value is None else bool(score.value)
    return JudgedRow(row.label, said, (score.data or {}).get("sure"), row.category, row.cluster)
