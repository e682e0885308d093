"""`assay judge calibrate`: compares the verdicts of a judge with the labels in a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from assay.core.errors import UsageError, unknown
from assay.core.hashing import file_sha256, fingerprint
from assay.core.judges import ANSWER, BUILT_IN, LIMITED, NOT_JUDGED, RUBRIC, Calibration, JudgeInfo
from assay.core.protocols import Context, Scorer, ScorerInput, Solver
from assay.core.report import Report
from assay.core.spec import RunSpec, apply_limit, split_names
from assay.core.suite import CaseContent, ListedRows, Outcome, Overview, PlannedCalls, Results, Row, RunFacts, Suite
from assay.core.types import Score
from assay.scoring.agreement import agreement, among_votes, by_category
from assay.scoring.judge import OFFLINE, Judge, judge_name
from assay.scoring.judge_setup import setup_of
from assay.scoring.judges.rubric import RubricJudge
from assay.scoring.questions import (
    KINDS,
    AnswerQuestion,
    EvidenceQuestion,
    JudgeQuestion,
    RecallQuestion,
    Verdict,
)
from assay.store.calibrations import save_calibration, write_calibrations
from assay.store.judges import judge_info, kappa_problem, rubric_judge_info
from assay.store.labels import FILE as LABELS
from assay.store.runs import find_run
from assay.suites.calibration.labels import (
    LabelFile,
    LabelledRow,
    RubricText,
    read_labels,
)
from assay.suites.calibration.options import CalibrationOptions
from assay.suites.calibration.tally import KindTally, calibration_entry

CONSTRUCTED = Path(__file__).with_name("constructed.jsonl")
"""The labelled questions that ship with the package. `benchmarks/labelled` makes them."""
METRIC = "accepted"
# Kinds in the order of the report: answers first, then as `assay memory eval` lists its dimensions.
_KINDS = (ANSWER, *(kind for kind in KINDS if kind != ANSWER))
# Kinds for which the measure of `offline` grows with the kind's first label.
_MEASURED = frozenset({ANSWER, EvidenceQuestion.kind, RecallQuestion.kind})
OTHER_CLUSTERS = "of other clusters"
"""Reason for which a row is left out: --cluster selects others."""
_encode = msgspec.json.Encoder().encode


class CalibrationSuite(Suite[CalibrationOptions, LabelledRow]):
    """The suite of `assay judge calibrate`. A row is a labelled answer, the subject is the file.

    The judge scores each answer. `finish` compares the scores with the labels. A label is not part of a score,
    so a changed label changes the numbers without another call of the judge.
    """

    name: ClassVar[str] = "calibration"
    files = "assay.suites.calibration.suite_files:CalibrationFiles"
    pages = "assay.suites.calibration.suite_pages:CalibrationPages"
    stores: ClassVar[str] = "the judge's calibration for later reports"
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
        if spec.shard:
            raise UsageError("a calibration is one number over all labels; remove --shard")
        if spec.model:
            raise UsageError("a calibration calls only the judge; pass the model with --judge, not --model")
        assert spec.judge is not None
        self._path = CONSTRUCTED if self.options.labels == BUILT_IN else Path(self.options.labels)
        self._name = BUILT_IN if self.options.labels == BUILT_IN else self._path.stem
        setup = setup_of(self.options.judge_prompt, spec.judge, OFFLINE)
        self._judge = Judge(spec.judge, spec.votes, params=spec.judge_kwargs, setup=setup)
        self._rubric_judge = RubricJudge(spec.judge_kwargs)
        self.roles = self._judge.roles
        self.solver = EmitText()
        # The file is not read yet, so it is unknown which prompts are used. The id covers all of them.
        prompts = [*map(self._judge.fingerprint, KINDS), self._rubric_judge.fingerprint]
        judge = fingerprint([self._judge.name, prompts, self._judge.endpoint])
        self.scorers = [CalibrationScorer(f"calibration@{judge}", self._judge, self._rubric_judge)]

    def ask_identity(self) -> dict[str, Any]:
        """Return nothing: the answers are in the file, and no model is called for them."""
        return {}

    def score_identity(self) -> Any:
        """Return the judge, the labels, and the numbers of rows that are left out."""
        labels = [[row.labels, row.votes, row.category, row.cluster] for row in self._labels.rows]
        # The last item is a constant. Increase it to compute the reports of finished runs again.
        return [self.scorers[0].id, fingerprint([labels, self._labels.left_out]), 2]

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
        rows, other_clusters = file.rows, list[LabelledRow]()
        if options.cluster:
            clusters = {row.cluster for row in rows if row.cluster is not None}
            for name in options.cluster:
                if name not in clusters:
                    raise UsageError(unknown("cluster", name, sorted(clusters)))
            other_clusters = [row for row in rows if row.cluster not in options.cluster]
            rows = [row for row in rows if row.cluster in options.cluster]
        left_out = {kind: Counter(reasons) for kind, reasons in file.left_out.items()}
        count = apply_limit(self.spec.limit, len(rows))
        for others, reason in ((other_clusters, OTHER_CLUSTERS), (rows[count:], LIMITED)):
            for row in others:
                left_out.setdefault(row.kind, Counter())[reason] += row.labelled
        # `read_labels` refuses a file with rubrics and other rows, so the first row is enough.
        if rows and rows[0].kind == RUBRIC:
            self._refuse_rubrics()
        return LabelFile(rows[:count], left_out, file.lists_without_rows)

    def _refuse_rubrics(self) -> None:
        if self._judge.name == OFFLINE:
            raise UsageError("rubrics need a model as judge; pass one with --judge PROVIDER/NAME")
        if self.options.judge_prompt:
            raise UsageError("--judge-prompt is for answers, but the rows of the file have rubrics. Remove it.")
        if self.spec.votes > 1:
            raise UsageError("--votes does not apply to rubrics: a rubric judge is asked once. Remove --votes.")

    def rows(self, facts: dict[str, Any] | None = None) -> ListedRows[LabelledRow]:
        """Return the labelled rows. A row's key covers the judge's input but not the label."""
        file = self._labels
        if places := file.lists_without_rows:
            more = " and others" if len(places) > 3 else ""
            self.notices = (f"ignored lists without labelled rows: {', '.join(places[:3])}{more}",)
        return ListedRows(
            file.rows,
            key=lambda row: _encode([row.kind, row.question]),
            set=self._name,
            facts={"labels": self._path.name, "labels_sha256": self._sha256, "rows": len(file.rows)},
        )

    @cached_property
    def _sha256(self) -> str:
        return file_sha256(self._path)

    def subjects(self) -> Sequence[str]:
        """Return the name of the file, the only subject."""
        return [self._name]

    def case(self, row: Row[LabelledRow], subject: str) -> CaseContent:
        """Return the answer for the solver, and the whole row for the scorer."""
        tags = (row.data.category,) if row.data.category else ()
        return CaseContent(_judged_text(row.data), row.data, label=row.data.place, tags=tags)

    def finish(self, results: Results[LabelledRow], run: RunFacts) -> Outcome:
        """Compare verdicts with labels. Writes calibration.json and disagreements.jsonl."""
        kinds = [kind for kind in (RUBRIC, *_KINDS) if any(row.kind == kind for row in self._labels.rows)]
        tallies = {kind: KindTally(kind) for kind in kinds}
        disagreements = run.folder / "disagreements.jsonl"
        with disagreements.open("wb") as file:
            for result in results:
                row = result.row.data
                for line in tallies[row.kind].add(row, result.scores):
                    file.write(_encode(line) + b"\n")
        calibrations = [self._calibration(tally) for tally in tallies.values()]
        files = [write_calibrations(run.folder / "calibration.json", calibrations), disagreements]
        name = self._name
        entries = [
            calibration_entry(name if len(kinds) == 1 else each.kind, name, self._calibrated_judge(each), each)
            for each in calibrations
        ]
        problems = list(self._below_min_kappa(calibrations))
        report = Report(entries=entries, entry_word="labels", passed=not problems, why="; ".join(problems))
        return Outcome(report, files)

    def _calibrated_judge(self, calibration: Calibration) -> JudgeInfo:
        judge = self._judge_of(calibration.kind)
        return replace(judge, metrics=[calibration.kind], calibration=calibration, calibrated_here=True)

    def _judge_of(self, kind: str) -> JudgeInfo:
        if kind == RUBRIC:
            return rubric_judge_info(self._judge.name, self._rubric_judge.fingerprint, [METRIC])
        return judge_info(self._judge, [METRIC], kind)

    def _calibration(self, tally: KindTally) -> Calibration:
        rows = [row for row in self._labels.rows if row.kind == tally.kind]
        left_out = dict(+self._labels.left_out.get(tally.kind, Counter()))
        # Rows for which the judge's endpoint failed have no score.
        if missing := sum(row.labelled for row in rows) - len(tally.judged):
            left_out[NOT_JUDGED] = missing
        judge = self._judge_of(tally.kind)
        return Calibration(
            judge=judge.name,
            kind=judge.kind,
            fingerprint=judge.fingerprint,
            votes=judge.votes,
            labels=self._path.name,
            labels_sha256=self._sha256,
            overall=agreement(tally.judged, tally.positive),
            categories=by_category(tally.judged, tally.positive),
            among_votes=among_votes(votes for row in rows for votes in row.votes),
            left_out=left_out,
            verdicts=tally.verdicts,
            constructed=self.options.labels == BUILT_IN,
        )

    def _below_min_kappa(self, calibrations: Sequence[Calibration]) -> Iterator[str]:
        """Yield why a kappa is too low, for each kind. An undefined kappa is too low."""
        minimum = self.options.min_kappa
        for calibration in calibrations:
            kappa = calibration.overall.kappa
            if minimum is None or (kappa is not None and kappa >= minimum):
                continue
            value = "not defined" if kappa is None else f"{kappa:.3f}"
            of = f" of {calibration.kind}" if len(calibrations) > 1 else ""
            yield f"Kappa{of} is {value}; --min-kappa asks for at least {minimum:g}"

    def on_report(self, report: Report) -> Sequence[str]:
        """Store the calibration for later reports, and with --save in a file. Returns notices.

        This also happens when the report of a finished run is shown again: the run that was shown last counts.
        """
        judges = [judge for entry in report.entries for judge in entry.judges]
        calibrations = [judge.calibration for judge in judges if judge.calibration is not None]
        if not calibrations:
            return ()
        notices = list(dict.fromkeys(filter(None, map(save_calibration, calibrations))))
        if self.options.save:
            path = Path(self.options.save)
            try:
                write_calibrations(path, calibrations)
            except OSError as error:
                raise UsageError(f"{path} cannot be written: {error.strerror}") from None
        minimum = self.options.min_kappa
        if minimum is not None:
            notices += filter(None, (kappa_problem(each, each.calibration, minimum) for each in judges))
        return notices

    def overview(self, rows: Any) -> Overview:
        """Return the planned calls of the judge, one per row and vote, for `--dry-run`."""
        calls = 0 if self._judge.name == OFFLINE else rows.count * self._judge.votes
        texts = sum(len(_encode(row.question)) for row in self._labels.rows)
        judge = PlannedCalls(
            what="judge the rows",
            model=self._judge.name,
            calls=calls,
            # About four characters per token, and about 300 tokens of instructions in each prompt.
            input_tokens=(texts // 4 * self._judge.votes + 300 * calls) if calls else 0,
        )
        facts = {"labels": self._path.name, "rows": f"{rows.count:,}"}
        left_out = self._labels.all_left_out
        facts |= {f"left out, {reason}": f"{count:,}" for reason, count in left_out.items()}
        return Overview(facts=facts, calls=[judge])


def _labels_file(name: str) -> str:
    """Return the file that --labels names: a file, or the labels of a run that `assay label` wrote."""
    if name in ("", BUILT_IN) or Path(name).is_file():
        return name
    try:
        path = find_run(name) / LABELS
    except UsageError:
        if Path(name).is_dir():
            raise
        return name  # reading the file says that it does not exist
    if not path.is_file():
        raise UsageError(f"the run has no labels: {path} does not exist. Label its answers: assay label {name}")
    return str(path)


class EmitText(Solver):
    """A solver without a model: it returns the judged text of the labels file."""

    async def solve(self, inputs: str, ctx: Context) -> None:
        """Emit the row's text as a record, which `assay show` prints."""
        ctx.emit("answer", inputs)


class CalibrationScorer(Scorer):
    """Returns one score per item: 1 if the judge gives it the kind's first label, 0 if not, invalid without a verdict.

    For an answer that is 1 if the judge accepts it.
    """

    def __init__(self, scorer_id: str, judge: Judge, rubric_judge: RubricJudge) -> None:
        self.id = scorer_id
        self._judge = judge
        self._rubric_judge = rubric_judge

    async def score(self, given: ScorerInput, ctx: Context) -> list[Score]:
        """Call the judge. Raises ModelError if its endpoint does not answer."""
        row: LabelledRow = given.case.gold
        question = row.question
        if isinstance(question, RubricText):
            judged = await self._rubric_judge.judge(
                ctx.model("judge"), question.rubric, question.response, question.reference
            )
            value = None if judged.passed is None else float(judged.passed)
            return [self._score(given, row, 0, value, judged.reason, {"target": question.rubric})]
        verdict = await self._judge.verdict(question, ctx)
        scores = []
        for number in range(question.count):
            data: dict[str, Any] = {}
            if isinstance(question, AnswerQuestion):
                data["target"] = question.reference
            value = None
            if verdict.valid:
                label = verdict.labels[number]
                value = float(label == question.labels[0])
                data |= {"label": label, "sure": confidence(question, verdict, number)}
            scores.append(self._score(given, row, number, value, verdict.reason, data))
        return scores

    def _score(
        self,
        given: ScorerInput,
        row: LabelledRow,
        number: int,
        value: float | None,
        reason: str,
        data: dict[str, Any],
    ) -> Score:
        return Score(
            *given.case.head,
            self.id,
            METRIC,
            part=str(number + 1) if len(row.labels) > 1 else "",
            status="invalid" if value is None else "scored",
            value=value,
            reason=reason,
            data={key: item for key, item in {"id": row.place, **data}.items() if item not in ("", None)},
            expected=row.labels[number],
        )


def confidence(question: JudgeQuestion, verdict: Verdict, number: int = 0) -> float | None:
    """Return from 0 to 1 how far an item has its kind's first label, for AUC. None if the judge gives no measure.

    It is the share of votes for this label, else the judge's own measure.
    """
    if verdict.votes:
        return sum(labels[number] == question.labels[0] for labels in verdict.votes) / len(verdict.votes)
    # For the other kinds, the measure of `offline` is not about the first label.
    return verdict.sure[number] if verdict.sure and question.kind in _MEASURED else None


def _judged_text(row: LabelledRow) -> str:
    """Return the text that was judged, or for memories all texts of the question by field."""
    question = row.question
    if isinstance(question, (AnswerQuestion, RubricText)):
        return question.response
    lines = []
    for name, value in msgspec.structs.asdict(question).items():
        if isinstance(value, str):
            lines.append(f"{name}: {value}")
        else:
            lines += [f"{name}:", *(f"{number}. {each}" for number, each in enumerate(value, 1))]
    return "\n".join(lines)
