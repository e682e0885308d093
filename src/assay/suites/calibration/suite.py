"""`assay judge calibrate`: compares the verdicts of a judge with the labels in a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from assay.core.errors import InputError, Problem, UsageError
from assay.core.file_check import CheckOptions, FileCheck, contents
from assay.core.hashing import file_sha256, fingerprint
from assay.core.json_schema import FileSchema
from assay.core.judges import ANSWER, LIMITED, NOT_JUDGED, Agreement, Calibration, JudgeInfo
from assay.core.protocols import Context, Scorer, Solver, View
from assay.core.registry import unknown
from assay.core.report import Entry, Interval, Metric, Report, Slice, Table
from assay.core.spec import RunSpec, apply_limit, split_names
from assay.core.suite import (
    CaseContent,
    CaseView,
    ListedRows,
    Match,
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
from assay.scoring.judge_setup import setup_of
from assay.scoring.judges.rubric import RubricJudge
from assay.scoring.panel import OFFLINE, Panel, judge_name
from assay.scoring.questions import CORRECT, AnswerQuestion, Verdict
from assay.store.calibrations import save_calibration, write_calibration
from assay.store.judges import kappa_problem, panel_judge, rubric_judge
from assay.store.labels import FILE as LABELS
from assay.store.runs import find_run
from assay.suites.calibration.file_schema import file_schemas
from assay.suites.calibration.labels import LabelFile, LabelledRow, looks_like_labels, read_labels
from assay.suites.calibration.options import CalibrationOptions

METRIC = "accepted"
OTHER_CLUSTERS = "of other clusters"
"""Reason for which a row is left out: --cluster selects others."""
_encode = msgspec.json.Encoder().encode


class CalibrationSuite(Suite[CalibrationOptions, LabelledRow]):
    """The suite of `assay judge calibrate`. A row is a labelled answer, the subject is the file.

    The judge scores each answer. `finish` compares the scores with the labels. A label is not part of a score,
    so a changed label changes the numbers without another call of the judge.
    """

    name: ClassVar[str] = "calibration"
    Options: ClassVar[type[CalibrationOptions]] = CalibrationOptions
    case_word: ClassVar[str] = "row"

    @classmethod
    def resolve(cls, spec: RunSpec) -> RunSpec:
        """Fill in the judge, which an environment variable may name, split --cluster, and find the labels of a run."""
        options = spec.options
        assert isinstance(options, CalibrationOptions)
        options = replace(options, cluster=split_names(options.cluster), labels=_labels_file(options.labels))
        return replace(spec, judge=judge_name(spec.judge), options=options)

    def __init__(self, spec: RunSpec) -> None:
        super().__init__(spec)
        if not self.options.labels:
            raise UsageError("no labels given; use: assay judge calibrate --judge NAME --labels FILE")
        if spec.model:
            raise UsageError("a calibration calls only the judge; pass the model with --judge, not --model")
        assert spec.judge is not None
        self._path = Path(self.options.labels)
        setup = setup_of(self.options.judge_prompt, spec.judge, OFFLINE)
        self._panel = Panel(spec.judge, spec.votes, params=spec.judge_kwargs, setup=setup)
        self._rubric_judge = RubricJudge(spec.judge_kwargs)
        self.roles = self._panel.roles
        self.solver = EmitAnswer()
        # The file is not read yet, so it is unknown which of the two prompts is used. The id covers both.
        prompts = [self._panel.fingerprint(ANSWER), self._rubric_judge.fingerprint]
        judge = fingerprint([self._panel.name, prompts, self._panel.endpoint])
        self.scorers = [CalibrationScorer(f"calibration@{judge}", self._panel, self._rubric_judge)]

    def ask_identity(self) -> dict[str, Any]:
        """Return nothing: the answers are in the file, and no model is called for them."""
        return {}

    def score_identity(self) -> Any:
        """Return the judge, the labels, and the numbers of rows that are left out."""
        labels = [[row.label, row.votes, row.category, row.cluster] for row in self._labels.rows]
        # The last item is a constant. Increase it to compute the reports of finished runs again.
        return [self.scorers[0].id, fingerprint([labels, self._labels.left_out]), 1]

    @cached_property
    def _labels(self) -> LabelFile:
        """The rows of the selected clusters, up to --limit. Raises InputError with all problems of the file."""
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
        # `read_labels` refuses a mixed file, so the first row is enough.
        if rows and rows[0].rubric:
            self._refuse_rubrics()
        return LabelFile(rows[:count], left_out, file.lists_without_rows)

    def _refuse_rubrics(self) -> None:
        if self._panel.name == OFFLINE:
            raise UsageError("rubrics need a model as judge; pass one with --judge PROVIDER/NAME")
        if self.options.judge_prompt:
            raise UsageError(
                "--judge-prompt is for answers, but the rows of the file have rubrics. Remove it."
            )
        if self.spec.votes > 1:
            raise UsageError(
                "--votes does not apply to rubrics: a rubric judge is asked once. Remove --votes."
            )

    def rows(self, facts: dict[str, Any] | None = None) -> ListedRows[LabelledRow]:
        """Return the labelled rows. A row's key covers the judge's input but not the label."""
        file = self._labels
        if places := file.lists_without_rows:
            more = " and others" if len(places) > 3 else ""
            self.notices = (f"ignored lists without labelled rows: {', '.join(places[:3])}{more}",)
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
        """Return the name of the file, the only subject."""
        return [self._path.stem]

    def case(self, row: Row[LabelledRow], subject: str) -> CaseContent:
        """Return the answer for the solver, and the whole row for the scorer."""
        tags = (row.data.category,) if row.data.category else ()
        return CaseContent(row.data.response, row.data, label=row.data.place, tags=tags)

    def finish(self, results: Results[LabelledRow], run: RunFacts) -> Outcome:
        """Compare verdicts with labels. Writes calibration.json and disagreements.jsonl."""
        judged: list[JudgedRow] = []
        disagreements = run.folder / "disagreements.jsonl"
        with disagreements.open("wb") as file:
            for result in results:
                if not result.scores:
                    continue
                row, score = result.row.data, result.scores[0]
                # None is an invalid verdict: the judge's reply could not be read.
                accepted = None if score.value is None else bool(score.value)
                confidence = (score.data or {}).get("sure")
                judged.append(JudgedRow(row.label, accepted, confidence, row.category, row.cluster))
                if accepted is not row.label:
                    file.write(_encode(_disagreement(row, score, accepted)) + b"\n")
        calibration = self._calibration(judged)
        files = [write_calibration(run.folder / "calibration.json", calibration), disagreements]
        judge = replace(self._judge, calibration=calibration)
        passed = self._reaches_min_kappa(calibration)
        kappa = calibration.overall.kappa
        value = "not defined" if kappa is None else f"{kappa:.3f}"
        report = Report(
            entries=[calibration_entry(self._path.stem, judge, calibration)],
            entry_word="labels",
            passed=passed,
            why=""
            if passed
            else f"Kappa is {value}; --min-kappa asks for at least {self.options.min_kappa:g}",
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
        # Rows for which the judge's endpoint failed have no score.
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
        """Return whether kappa is at least --min-kappa. An undefined kappa is not."""
        kappa, minimum = calibration.overall.kappa, self.options.min_kappa
        return minimum is None or (kappa is not None and kappa >= minimum)

    def on_report(self, report: Report) -> Sequence[str]:
        """Store the calibration for later reports, and with --save in a file. Returns notices.

        This also happens when the report of a finished run is shown again: the run that was shown last counts.
        """
        calibration = report.entries[0].judges[0].calibration
        if calibration is None:
            return ()
        warning = save_calibration(calibration)
        notices = [warning] if warning else []
        if self.options.save:
            path = Path(self.options.save)
            try:
                write_calibration(path, calibration)
            except OSError as error:
                raise UsageError(f"{path} cannot be written: {error.strerror}") from None
        minimum = self.options.min_kappa
        if minimum is not None and (reason := kappa_problem(calibration.judge, calibration, minimum)):
            notices.append(reason)
        return notices

    def overview(self, rows: Any) -> Overview:
        """Return the planned calls of the judge, one per row and vote, for `--dry-run`."""
        calls = 0 if self._panel.name == OFFLINE else rows.count * self._panel.votes
        texts = sum(
            len(row.question) + len(row.response) + len(row.reference or "") for row in self._labels.rows
        )
        judge = PlannedCalls(
            what="judge the rows",
            model=self._panel.name,
            calls=calls,
            # About four characters per token, and about 300 tokens of instructions in each prompt.
            input_tokens=(texts // 4 * self._panel.votes + 300 * calls) if calls else 0,
        )
        facts = {"labels": self._path.name, "rows": f"{rows.count:,}"}
        facts |= {f"left out, {reason}": f"{count:,}" for reason, count in self._labels.left_out.items()}
        return Overview(facts=facts, calls=[judge])

    @classmethod
    def check(cls, path: Path, beside: Path | None = None) -> list[Problem]:
        """Return every problem of a file with labels. Fields must have their usual names."""
        return cls.examine(path, CheckOptions()).problems

    @classmethod
    def recognises(cls, path: Path) -> Match:
        """Return LIKELY if the first row has a response and a label that is a vote."""
        return Match.LIKELY if looks_like_labels(path) else Match.NO

    @classmethod
    def examine(cls, path: Path, options: CheckOptions) -> FileCheck:
        """Return the check of a file with labels. Fields must have their usual names."""
        kind = "labelled answers (judge calibrate)"
        try:
            labels = read_labels(path, {})
        except InputError as error:
            return FileCheck(kind=kind, problems=error.problems)
        notes = [f"{count:,} rows left out: {reason}" for reason, count in labels.left_out.items()]
        return FileCheck(kind=kind, contents=contents({"labelled row": len(labels.rows)}), notes=notes)

    @classmethod
    def file_schemas(cls) -> Sequence[FileSchema]:
        """Return the schemas of the files of this format."""
        return file_schemas()

    @classmethod
    def sections(cls, case: CaseView) -> Sequence[Section]:
        """Return the answer that was judged, then the verdict, for `assay show`."""
        answers = [
            Section(heading="answer", text=str(record.data), max_chars=4000)
            for record in case.records
            if record.kind == "answer"
        ]
        return [*answers, *score_sections(case)]


def _labels_file(name: str) -> str:
    """Return the file that --labels names: a file, or the labels of a run that `assay label` wrote."""
    if not name or Path(name).is_file():
        return name
    try:
        path = find_run(name) / LABELS
    except UsageError:
        if Path(name).is_dir():
            raise
        return name  # reading the file says that it does not exist
    if not path.is_file():
        raise UsageError(
            f"the run has no labels: {path} does not exist. Label its answers: assay label {name}"
        )
    return str(path)


class EmitAnswer(Solver):
    """A solver without a model: it returns the answer of the labels file."""

    async def solve(self, inputs: str, ctx: Context) -> None:
        """Emit the row's answer as a record, which the scorer reads."""
        ctx.emit("answer", inputs)


class CalibrationScorer(Scorer):
    """Returns one score per row: 1 if the judge accepts the answer, 0 if not, invalid without a verdict."""

    def __init__(self, scorer_id: str, panel: Panel, rubric_judge: RubricJudge) -> None:
        self.id = scorer_id
        self._panel = panel
        self._rubric_judge = rubric_judge

    async def score(self, view: View, ctx: Context) -> list[Score]:
        """Call the judge. Raises ModelError if its endpoint does not answer."""
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
    """Return a confidence from 0 to 1 for AUC: the share of votes for the answer, or the judge's own measure.

    None if there is neither.
    """
    if verdict.votes:
        return sum(labels[0] == CORRECT for labels in verdict.votes) / len(verdict.votes)
    return verdict.sure[0] if verdict.sure else None


def _disagreement(row: LabelledRow, score: Score, accepted: bool | None) -> dict[str, Any]:
    """Return a line of disagreements.jsonl."""
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
    """Return the report's entry: the numbers overall and by category, and the confusion table."""
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


def _why_no_kappa(result: Agreement) -> str:
    if result.kappa is not None:
        return ""
    # Kappa divides by 0 if all are alike: chance agreement is 1.
    return "labels and verdicts are all alike" if result.n else "no verdict is valid"


def _metrics(result: Agreement) -> Iterator[Metric]:
    left_out = {"invalid": result.invalid} if result.invalid else {}
    # If every row is a cluster of its own, the interval is not a clustered one.
    clustered = 0 < result.clusters < result.n
    yield Metric(
        name="kappa",
        aggregation="kappa",
        value=result.kappa,
        denominator=result.n,
        left_out=left_out,
        interval=Interval(*result.interval) if result.interval else None,
        interval_method=result.interval_method if result.interval else "",
        clusters=result.clusters if clustered else None,
        reason=_why_no_kappa(result),
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
    """Yield notes: the method of the interval, the agreement of the voters, and the rows that are left out."""
    overall = calibration.overall
    if overall.interval:
        units = f"{overall.clusters:,} clusters" if overall.clusters < overall.n else "single rows"
        yield f"interval of kappa: {overall.interval_method} over {units}"
    if votes := calibration.among_votes:
        share = votes.unanimous / votes.rows
        yield f"voters: unanimous on {votes.unanimous:,} of {votes.rows:,} rows ({share:.1%})"
    for reason, count in calibration.left_out.items():
        yield f"left out: {count:,} row{'' if count == 1 else 's'}, {reason}"
