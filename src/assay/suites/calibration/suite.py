"""`assay judge calibrate`: the verdicts of a judge against the labels of a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from assay.core.errors import InputError, Problem, UsageError
from assay.core.hashing import file_sha256, fingerprint
from assay.core.json_schema import FileSchema
from assay.core.judges import ANSWER, LIMITED, NOT_JUDGED, Agreement, Calibration, JudgeInfo
from assay.core.protocols import Context, Scorer, Solver, View
from assay.core.registry import unknown
from assay.core.report import Entry, Metric, Report, Slice, Table
from assay.core.spec import RunSpec, apply_limit, split_names
from assay.core.suite import (
    CaseContent,
    CaseView,
    ListedRows,
    Outcome,
    Overview,
    PlannedCalls,
    Results,
    Row,
    RunFacts,
    Section,
    Suite,
    score_sections,
)
from assay.core.types import Score
from assay.scoring.agreement import JudgedRow, agreement, among_votes, by_category
from assay.scoring.judges.rubric import RubricJudge
from assay.scoring.panel import OFFLINE, Panel, judge_name
from assay.scoring.questions import CORRECT, AnswerQuestion, Verdict
from assay.store.calibrations import remember, write
from assay.store.judges import panel_judge, rubric_judge, why_too_weak
from assay.suites.calibration.file_schema import file_schemas
from assay.suites.calibration.labels import LabelFile, LabelledRow, read_labels
from assay.suites.calibration.options import CalibrationOptions

METRIC = "accepted"
OTHER_CLUSTERS = "of other clusters"
_encode = msgspec.json.Encoder().encode


class CalibrationSuite(Suite[CalibrationOptions, LabelledRow]):
    """One case for each labelled row. The row's answer is judged; the label is compared when the run ends.

    A label is no part of a score, so an edited label changes the numbers without asking the judge again.
    """

    name: ClassVar[str] = "calibration"
    Options: ClassVar[type[CalibrationOptions]] = CalibrationOptions
    case_word: ClassVar[str] = "row"

    @classmethod
    def resolve(cls, spec: RunSpec) -> RunSpec:
        """The judge by its full name, since the environment may name it; clusters may be written `a,b`."""
        options = spec.options
        assert isinstance(options, CalibrationOptions)
        return replace(
            spec, judge=judge_name(spec.judge), options=replace(options, cluster=split_names(options.cluster))
        )

    def __init__(self, spec: RunSpec) -> None:
        super().__init__(spec)
        if not self.options.labels:
            raise UsageError("no labels are named: assay judge calibrate --judge NAME --labels FILE")
        if spec.model:
            raise UsageError("a calibration asks nobody but the judge: name it with --judge, not --model")
        assert spec.judge is not None
        self._path = Path(self.options.labels)
        self._panel = Panel(spec.judge, spec.votes)
        self._rubric_judge = RubricJudge()
        self.roles = self._panel.roles
        self.solver = EmitAnswer()
        prompts = [self._panel.fingerprint(ANSWER), self._rubric_judge.fingerprint]
        judge = fingerprint([self._panel.name, prompts, self._panel.endpoint])
        self.scorers = [CalibrationScorer(f"calibration@{judge}", self._panel, self._rubric_judge)]

    def ask_identity(self) -> dict[str, Any]:
        """No model is asked for answers."""
        return {}

    def score_identity(self) -> Any:
        """The judge, the labels, and which rows were left out."""
        labels = [[row.label, row.votes, row.category, row.cluster] for row in self._labels.rows]
        return [self.scorers[0].id, fingerprint([labels, self._labels.left_out]), 1]

    @cached_property
    def _labels(self) -> LabelFile:
        """The rows of the chosen clusters up to --limit. Raises InputError for what cannot be read."""
        options = self.options
        names = {
            "question": options.question_field,
            "reference": options.reference_field,
            "response": options.response_field,
            "text": options.response_field,
            "label": options.label_field,
            "category": options.category_field,
            "cluster": options.cluster_field,
        }
        file = read_labels(self._path, names)
        rows = file.rows
        if options.cluster:
            clusters = {row.cluster for row in rows if row.cluster is not None}
            for name in options.cluster:
                if name not in clusters:
                    raise UsageError(unknown("cluster", name, sorted(clusters)))
            rows = [row for row in rows if row.cluster in options.cluster]
        left_out = dict(file.left_out)
        if len(rows) < len(file.rows):
            left_out[OTHER_CLUSTERS] = len(file.rows) - len(rows)
        count = apply_limit(self.spec.limit, len(rows))
        if count < len(rows):
            left_out[LIMITED] = len(rows) - count
        if rows and rows[0].rubric:
            self._refuse_rubrics()
        return LabelFile(rows[:count], left_out, file.lists_without_rows)

    def _refuse_rubrics(self) -> None:
        if self._panel.name == OFFLINE:
            raise UsageError("these rows have a rubric, which only a model can judge; name one with --judge")
        if self.spec.votes > 1:
            raise UsageError("a rubric is judged once wherever it decides: leave --votes away")

    def rows(self, facts: dict[str, Any] | None = None) -> ListedRows[LabelledRow]:
        """The labelled rows. A key holds what is judged and no label."""
        file = self._labels
        if places := file.lists_without_rows:
            more = " and others" if len(places) > 3 else ""
            self.notices = (f"passed over, since there are no rows in it: {', '.join(places[:3])}{more}",)
        return ListedRows(
            file.rows,
            key=lambda row: _encode([row.question, row.reference, row.rubric, row.evidence, row.response]),
            set=self._path.stem,
            facts={"labels": self._path.name, "labels_sha256": self._sha256, "rows": len(file.rows)},
        )

    @cached_property
    def _sha256(self) -> str:
        return file_sha256(self._path)

    def subjects(self) -> Sequence[str]:
        """The file: nothing else is evaluated."""
        return [self._path.stem]

    def case(self, row: Row[LabelledRow], subject: str) -> CaseContent:
        """The answer is emitted as it is; the scorer gets the whole row."""
        tags = (row.data.category,) if row.data.category else ()
        return CaseContent(row.data.response, row.data, label=row.data.place, tags=tags)

    def finish(self, results: Results[LabelledRow], run: RunFacts) -> Outcome:
        """Count verdicts against labels; write the numbers, and the rows on which both differ."""
        judged: list[JudgedRow] = []
        disagreements = run.folder / "disagreements.jsonl"
        with disagreements.open("wb") as file:
            for result in results:
                if not result.scores:
                    continue
                row, score = result.row.data, result.scores[0]
                accepted = None if score.value is None else bool(score.value)
                confidence = (score.data or {}).get("sure")
                judged.append(JudgedRow(row.label, accepted, confidence, row.category, row.cluster))
                if accepted is not row.label:
                    file.write(_encode(_disagreement(row, score, accepted)) + b"\n")
        calibration = self._calibration(judged)
        files = [write(run.folder / "calibration.json", calibration), disagreements]
        judge = replace(self._judge, calibration=calibration)
        report = Report(
            entries=[calibration_entry(self._path.stem, judge, calibration)],
            entry_word="labels",
            passed=self._reaches_min_kappa(calibration),
        )
        return Outcome(report, files)

    @property
    def _judge(self) -> JudgeInfo:
        if self._labels.rows[0].rubric:
            return rubric_judge(self._panel.name, self._rubric_judge.fingerprint, [METRIC])
        return panel_judge(self._panel, [METRIC])

    def _calibration(self, judged: list[JudgedRow]) -> Calibration:
        left_out = dict(self._labels.left_out)
        rows = self._labels.rows
        if missing := len(rows) - len(judged):
            left_out[NOT_JUDGED] = missing
        judge = self._judge
        return Calibration(
            judge=judge.name,
            kind=judge.kind,
            fingerprint=judge.fingerprint,
            votes=judge.votes,
            labels=self._path.name,
            labels_sha256=self._sha256,
            overall=agreement(judged),
            categories=by_category(judged),
            among_votes=among_votes(row.votes for row in rows),
            left_out=left_out,
        )

    def _reaches_min_kappa(self, calibration: Calibration) -> bool:
        """Whether kappa is as high as --min-kappa wants. An unknown kappa is not."""
        kappa, least = calibration.overall.kappa, self.options.min_kappa
        return least is None or (kappa is not None and kappa >= least)

    def on_report(self, report: Report) -> Sequence[str]:
        """Remember the calibration: the newest one counts, also that of a run that was finished before."""
        calibration = report.entries[0].judges[0].calibration
        if calibration is None:
            return ()
        notices = [why for why in [remember(calibration)] if why]
        if self.options.save:
            path = Path(self.options.save)
            try:
                write(path, calibration)
            except OSError as error:
                raise UsageError(f"{path} cannot be written: {error.strerror}") from None
        least = self.options.min_kappa
        if least is not None and (why := why_too_weak(calibration.judge, calibration, least)):
            notices.append(why)
        return notices

    def overview(self, rows: Any) -> Overview:
        """Each row is one question to the judge, or as many as there are votes."""
        calls = 0 if self._panel.name == OFFLINE else rows.count * self._panel.votes
        texts = sum(
            len(row.question) + len(row.response) + len(row.reference or "") for row in self._labels.rows
        )
        judge = PlannedCalls(
            what="judge the rows",
            model=self._panel.name,
            calls=calls,
            # About four characters a token, and 300 tokens of instructions in each prompt.
            input_tokens=(texts // 4 * self._panel.votes + 300 * calls) if calls else 0,
        )
        facts = {"labels": self._path.name, "rows": f"{rows.count:,}"}
        facts |= {f"left out, {why}": f"{count:,}" for why, count in self._labels.left_out.items()}
        return Overview(facts=facts, calls=[judge])

    @classmethod
    def check(cls, path: Path, beside: Path | None = None) -> list[Problem]:
        """Every problem of a labelled file, by the usual names of fields."""
        try:
            read_labels(path, {})
        except InputError as error:
            return error.problems
        return []

    @classmethod
    def file_schemas(cls) -> Sequence[FileSchema]:
        """Return the schemas of the files of this format."""
        return file_schemas()

    @classmethod
    def sections(cls, case: CaseView) -> Sequence[Section]:
        """The answer that the judge looked at, then the verdict."""
        answers = [
            Section(heading="answer", text=str(record.data), max_chars=4000)
            for record in case.records
            if record.kind == "answer"
        ]
        return [*answers, *score_sections(case)]


class EmitAnswer(Solver):
    """Asks no model: the answers are in the file."""

    async def solve(self, inputs: str, ctx: Context) -> None:
        """Emit the row's answer."""
        ctx.emit("answer", inputs)


class CalibrationScorer(Scorer):
    """One score a row: 1 where the judge accepts the answer, 0 where it rejects it, invalid without a verdict."""

    def __init__(self, scorer_id: str, panel: Panel, rubric_judge: RubricJudge) -> None:
        self.id = scorer_id
        self._panel = panel
        self._rubric_judge = rubric_judge

    async def score(self, view: View, ctx: Context) -> list[Score]:
        """Ask the judge. Raises ModelError where it could not be asked."""
        row: LabelledRow = view.case.gold
        response: str = view.records[0].data
        label, confidence = "", None
        if row.rubric:
            judged = await self._rubric_judge.judge(ctx.model("judge"), row.rubric, response, row.reference)
            accepted, reason = judged.passed, judged.reason
        else:
            question = AnswerQuestion(row.question, row.reference or "", response, row.evidence)
            verdict = await self._panel.verdict(question, ctx)
            accepted, reason = None, verdict.reason
            if verdict.valid:
                label = verdict.labels[0]
                accepted, confidence = label == CORRECT, answer_quality(verdict)
        data = {"id": row.place, "target": row.rubric or row.reference, "label": label, "sure": confidence}
        return [
            Score(
                *view.case.head,
                self.id,
                METRIC,
                status="invalid" if accepted is None else "scored",
                value=None if accepted is None else float(accepted),
                reason=reason,
                data={key: value for key, value in data.items() if value not in ("", None)},
                expected=row.label,
            )
        ]


def answer_quality(verdict: Verdict) -> float | None:
    """How good the answer is from 0 to 1: the share of votes for it, or the judge's own measure."""
    if verdict.votes:
        return sum(labels[0] == CORRECT for labels in verdict.votes) / len(verdict.votes)
    return verdict.sure[0] if verdict.sure else None


def _disagreement(row: LabelledRow, score: Score, accepted: bool | None) -> dict[str, Any]:
    """A line of disagreements.jsonl."""
    kinds: Mapping[bool | None, str] = {True: "false accept", False: "false reject", None: "invalid"}
    data = score.data or {}
    return {
        "place": row.place,
        "what": kinds[accepted],
        "category": row.category,
        **({"rubric": row.rubric} if row.rubric else {"question": row.question}),
        "reference": row.reference,
        "response": row.response,
        "label": row.label,
        "judge": data.get("label") or accepted,
        "sure": data.get("sure"),
        "reason": score.reason,
    }


def calibration_entry(name: str, judge: JudgeInfo, calibration: Calibration) -> Entry:
    """The numbers of a calibration, overall and by category, for people."""
    overall = calibration.overall
    accepts, rejects = overall.false_accepts, overall.false_rejects
    confusion = Table(
        name="confusion",
        columns=["", "judge accepts", "judge rejects"],
        rows=[
            ["label: right", rejects.of - rejects.count, rejects.count],
            ["label: wrong", accepts.count, accepts.of - accepts.count],
        ],
    )
    return Entry(
        name=name,
        subject=name,
        metrics=list(_metrics(overall)),
        slices=[
            Slice(by="category", name=category, metrics=list(_metrics(share)))
            for category, share in calibration.categories.items()
        ],
        tables=[confusion],
        judges=[judge],
        notes=list(_notes(calibration)),
    )


def _metrics(result: Agreement) -> Iterator[Metric]:
    left_out = {"invalid": result.invalid} if result.invalid else {}
    clustered = 0 < result.clusters < result.n
    yield Metric(
        name="kappa",
        aggregation="kappa",
        value=result.kappa,
        denominator=result.n,
        left_out=left_out,
        interval=result.interval,
        interval_method=result.interval_method if result.interval else "",
        clusters=result.clusters if clustered else None,
        reason="" if result.kappa is not None else "labels and verdicts are all alike",
    )
    for name, label, value in (
        ("auc", "AUC", result.auc),
        ("accuracy", "accuracy", result.accuracy),
        ("balanced_accuracy", "balanced accuracy", result.balanced_accuracy),
        ("base_rate", "base rate", result.base_rate),
    ):
        yield Metric(name=name, label=label, aggregation=name, value=value, denominator=result.n)
    for name, label, share in (
        ("false_accepts", "false accepts", result.false_accepts),
        ("false_rejects", "false rejects", result.false_rejects),
    ):
        yield Metric(
            name=name,
            label=label,
            aggregation="rate",
            value=share.count / share.of if share.of else None,
            numerator=share.count,
            denominator=share.of,
            higher_is_better=False,
        )


def _notes(calibration: Calibration) -> Iterator[str]:
    """How the interval was made, how the voters agree, and what was left out."""
    overall = calibration.overall
    if overall.interval:
        over = f"{overall.clusters:,} clusters" if overall.clusters < overall.n else "single rows"
        yield f"interval of kappa: {overall.interval_method} over {over}"
    if votes := calibration.among_votes:
        share = votes.unanimous / votes.rows
        yield f"voters: unanimous on {votes.unanimous:,} of {votes.rows:,} rows ({share:.1%})"
    for why, count in calibration.left_out.items():
        yield f"left out: {count:,} row{'' if count == 1 else 's'}, {why}"
