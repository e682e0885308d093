"""The suite `memory-eval`: evaluates memories over many sessions in six dimensions, in eval_framework's format.

Stage one inserts samples into memories and asks questions; its results are the two pipeline files. Stage two judges
them; its results are the two record files and the aggregate. `--eval-only` runs stage two alone, on existing pipeline
files. A `SampleSource` hides the difference: `LiveSource` runs the memories, `RecordedSource` reads the files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

from msgspec.structs import replace

from assay.core.error_counts import ErrorCounts
from assay.core.errors import UsageError
from assay.core.judges import ANSWER as ANSWER_KIND, JudgeInfo
from assay.core.protocols import Scorer, ScorerInput
from assay.core.report import Report
from assay.core.roles import with_provider
from assay.core.spec import RunSpec, SuiteOptions, split_names
from assay.core.suite import (
    CaseContent,
    CaseResult,
    Outcome,
    Overview,
    PlannedCalls,
    Results,
    Row,
    Rows,
    RunFacts,
    Suite,
)
from assay.scoring.judge import OFFLINE, Judge, judge_name
from assay.scoring.judge_setup import setup_of
from assay.store.judges import judge_info, require_kappa, with_calibration
from assay.suites.memory.costs import memory_costs, memory_tables
from assay.suites.memory.eval.checkpoint_files import CheckpointFiles
from assay.suites.memory.eval.eval_columns import sample_evals
from assay.suites.memory.eval.live import LiveSource
from assay.suites.memory.eval.options import MemoryEvalOptions
from assay.suites.memory.eval.output_files import MemoryFiles
from assay.suites.memory.eval.recorded import (
    RecordedSource,
    WrittenFiles,
    add_written_files,
    find_own_run,
    forget_checkpoint,
    pipeline_folders,
    refuse_foreign_files,
)
from assay.suites.memory.eval.result_lines import SampleResults
from assay.suites.memory.eval.sample_source import SampleLines, SampleSource
from assay.suites.memory.eval.scorers import ANSWER, F1, METRICS_BY_KIND, EvalScorer, LexicalScorer
from assay.suites.memory.eval.tally import MemoryEvalTally, answered_questions
from assay.suites.memory.settings import split_settings
from assay.usercode.addresses import OPENAI, same_vendor
from assay.usercode.loop import compute

NOT_JUDGED = "No judge: the report has only token F1 and BLEU-1."
ONE_WRONG_LABEL = (
    "{file} has no label for omissions: Hallucination stands for every wrong answer, and only the share of correct "
    "answers has a meaning."
)
# With --eval-only, the first of these variables that is set is the endpoint of a judge of OpenAI.
_JUDGE_URLS = ("OPENAI_BASE_URL_JUDGE", "OPENAI_BASE_URL")


class MemoryEvalSuite(Suite[MemoryEvalOptions, Any]):
    """Every sample with every memory, which the format calls a baseline. Writes five files per memory."""

    name = "memory-eval"
    files = "assay.suites.memory.eval.suite_files:MemoryEvalFiles"
    pages = "assay.suites.memory.eval.suite_pages:MemoryEvalPages"
    Options: ClassVar[type[SuiteOptions]] = MemoryEvalOptions
    parts = "rows"
    case_word = "sample"
    computes = True

    @classmethod
    def resolve(cls, spec: RunSpec) -> RunSpec:
        """Split option values of the form `a,b`, and fill model, judge and endpoints from the environment."""
        options = spec.options
        assert isinstance(options, MemoryEvalOptions)
        if options.no_judge and options.min_kappa is not None:
            raise UsageError("--min-kappa is about the judge, but --no-judge skips it. Remove one of them.")
        if options.no_judge and spec.judge:
            raise UsageError(f"--no-judge and --judge {spec.judge} exclude each other. Remove one of them.")
        if options.eval_only and spec.shard:
            raise UsageError(
                "--shard takes rows of the data, but --eval-only judges the files in --output-dir. Remove --shard"
            )
        options = replace(options, baseline=split_settings(options.baseline), sample_id=split_names(options.sample_id))
        model, base_url = spec.model, spec.base_url
        judge = None if options.no_judge else judge_name(spec.judge)
        if options.eval_only:
            # Only the judge is called, so --base-url means the judge's endpoint.
            env_url = None
            if judge and same_vendor(judge, OPENAI):
                env_url = next((os.environ[name] for name in _JUDGE_URLS if os.environ.get(name)), None)
            options = replace(options, judge_base_url=options.judge_base_url or base_url or env_url)
            # The answering model is not called, so neither --model nor OPENAI_MODEL is part of the run.
            model, base_url = "", None
        elif not model and os.environ.get("OPENAI_MODEL"):
            model = with_provider(os.environ["OPENAI_MODEL"], base_url or os.environ.get("OPENAI_BASE_URL"))
        return replace(spec, model=model, base_url=base_url, judge=judge, options=options)

    @classmethod
    def adopt(cls, spec: RunSpec) -> Path | None:
        """With `--eval-only`, return the run that wrote the files. Its cases are then scored again.

        Returns None if no run wrote the files in their present content.
        """
        options = spec.options
        assert isinstance(options, MemoryEvalOptions)
        if not options.eval_only or spec.fresh:
            return None
        output = Path(spec.output_dir)
        own_run = find_own_run(output, pipeline_folders(output, options.baseline))
        return own_run.folder if own_run else None

    def __init__(self, spec: RunSpec) -> None:
        super().__init__(spec)
        options = self.options
        self.source: SampleSource = RecordedSource(spec, options) if options.eval_only else LiveSource(spec, options)
        if self.source.writes_pipeline:
            refuse_foreign_files(Path(spec.output_dir), self.source.folders)
        # The files have fixed names, so a run with other settings must not write into the same folder.
        self.exclusive_output = self.source.writes_pipeline
        self.checkpoints = self.source.writes_pipeline
        self._checkpoint: CheckpointFiles | None = None
        self.open_cases = options.open_cases
        self.solver = self.source.solver
        self._judge: Judge | None = None
        setup = setup_of(options.judge_prompt, spec.judge, OFFLINE)
        if not options.no_judge:
            self._judge = Judge(spec.judge or "", spec.votes, options.judge_base_url, spec.judge_kwargs, setup)
        self.roles = dict(self.source.roles)
        if self._judge is not None:
            self.roles |= self._judge.roles

    # Identity of the run.

    def ask_identity(self) -> dict[str, Any]:
        """Return the answer prompt, and the code and prompts of the memories; nothing with `--eval-only`."""
        return self.source.ask_identity()

    def reuse_identity(self) -> Any:
        """Return the models that build memories and the data. Runs that share both share the building."""
        return self.source.reuse_identity()

    def data_identity(self) -> Any:
        """Return the ids and keys of the samples, or with `--eval-only` the hashes of the files."""
        return self.source.data_identity()

    @cached_property
    def scorers(self) -> Sequence[Scorer]:  # type: ignore[override]  # reads the data, so not in __init__
        """The word scorer, and the judge if there is one. Two scorers, so that a new judge keeps the word scores."""
        source, gold = self.source, self.source.gold_fingerprint

        def rows_of(given: ScorerInput) -> SampleResults:
            return source.sample_results(given.case.gold, given.case.subject, given.records)

        scorers: list[Scorer] = [
            LexicalScorer(lambda given: source.answers(given.case.gold, given.case.subject, given.records), gold)
        ]
        if self._judge is not None:
            if self.options.min_kappa is not None:
                asked = source.judged_kinds()
                require_kappa([each for each in self._judges() if each.kind in asked], self.options.min_kappa)
            scorers.append(EvalScorer(self._judge, rows_of, gold))
        return scorers

    @property
    def notices(self) -> Sequence[str]:  # type: ignore[override]  # reads the data, so not in __init__
        """Warnings about the data and the judge, and the checkpoints that --max-sessions skips."""
        return [*self.source.notices, *(self._judge.notices if self._judge else ())]

    # Rows and cases.

    def rows(self, facts: dict[str, Any] | None = None) -> Rows[Any]:
        return self.source.rows()

    def subjects(self) -> Sequence[str]:
        return list(self.source.subjects)

    def has(self, row: Row[Any], subject: str) -> bool:
        """Return whether a memory has a sample. Files of other tools may differ in their samples."""
        return self.source.has(row, subject)

    def total(self, rows: Rows[Any]) -> int:
        """Return the number of existing pairs of a sample and a memory."""
        return self.source.total()

    def case(self, row: Row[Any], subject: str) -> CaseContent:
        """Return the inputs and the gold of one sample with one memory."""
        return self.source.case(row, subject)

    def overview(self, rows: Rows[Any]) -> Overview:
        """Return the sizes of the data, models, planned calls and output folders, for --dry-run."""
        facts = {name: _plain(value) for name, value in self.source.facts().items() if name != "files"}
        facts |= {"model": self.spec.model or "none", "top k": str(self.options.top_k), "judge": "none"}
        calls = self.source.planned_calls()
        if self._judge is not None:
            facts["judge"] = f"{self._judge.name}, votes: {self._judge.votes}"
            # A judge without roles, such as `offline`, calls no model. The number of calls of a model judge depends
            # on what the memories will write, so it is unknown.
            judge_calls = None if self._judge.roles else 0
            calls.append(PlannedCalls(what="judge", model=self._judge.name, calls=judge_calls))
        facts["files"] = ", ".join(str(folder) for folder in self.source.folders.values())
        return Overview(facts=facts, calls=calls)

    async def checkpoint(self, given: ScorerInput, folder: Path, redact: Callable[[bytes], bytes]) -> None:
        """Add the sample to the pipeline files, so that `--eval-only` can judge it whatever becomes of this run."""
        await compute(partial(self._add_to_pipeline, given, folder, redact))

    def _add_to_pipeline(self, given: ScorerInput, folder: Path, redact: Callable[[bytes], bytes]) -> None:
        case = given.case
        if self._checkpoint is None:
            self._checkpoint = CheckpointFiles(folder, self.source.gold_fingerprint, self.source.folders)
        files = self._checkpoint
        if files.has(case.subject, case.gold.sample_id):
            return
        lines = self.source.lines(case.gold, case.subject, given.end, given.records)
        if lines is not None:
            sessions, questions = (list(map(redact, each)) for each in (lines.sessions, lines.questions))
            files.add(case.subject, case.gold.sample_id, sessions, questions)

    # Results.

    def finish(self, results: Results[Any], run: RunFacts) -> Outcome:
        """Write the five files of each memory and build the report."""
        source = self.source
        files: dict[str, MemoryFiles] = {}
        tallies = {
            name: MemoryEvalTally(name, info.alias, reference=info.reference) for name, info in source.subjects.items()
        }
        try:
            for name, folder in source.folders.items():
                files[name] = MemoryFiles(folder, name, writes_pipeline=source.writes_pipeline)
            for result in results:
                lines = source.lines(result.row.data, result.subject, result.end, result.records)
                tally = tallies[result.subject]
                if lines is None:
                    failure = result.end.failure if result.end else None
                    reason = failure.message if failure else "not all sessions were inserted"
                    tally.add_failure(result.index, result.row.data.sample_id, reason)
                else:
                    files[result.subject].add_sample(lines, sample_evals(lines.results, result.scores))
                    _count_sample(tally, result, lines)
            hashes = {name: each.close() for name, each in files.items()}
            # The hashes must be on disk before the files get their names: see `add_written_files`.
            if source.writes_pipeline:
                add_written_files(run.folder, WrittenFiles(source.gold_fingerprint, hashes))
            written = [path for each in files.values() for path in each.publish()]
            if source.writes_pipeline:
                forget_checkpoint(run.folder)
        finally:
            for each in files.values():
                each.discard()
        judges = self._judges()
        errors = ErrorCounts(error for tally in tallies.values() for error in tally.errors.all())
        report = Report(
            answered=answered_questions(tallies.values()),
            errors=errors.all(),
            entries=[tally.entry(judges) for tally in tallies.values()],
            entry_word="memory",
            notices=self._judge_notices(),
        )
        groups = {name: info.group or name for name, info in source.subjects.items()}
        by_purpose = {name: tally.by_purpose() for name, tally in tallies.items()}
        headline = F1 if self._judge is None else ANSWER
        report.tables = memory_tables(memory_costs(report, headline, groups, by_purpose))
        return Outcome(report, written)

    def _judge_notices(self) -> list[str]:
        if self._judge is None:
            return [NOT_JUDGED]
        return [ONE_WRONG_LABEL.format(file=self._judge.prompt_file)] if self._judge.binary else []

    def _judges(self) -> list[JudgeInfo]:
        """Return the judge once per kind of question, answers first.

        Each kind is calibrated separately: agreement on answers says nothing about the other kinds.
        """
        if self._judge is None:
            return []
        kinds = sorted(METRICS_BY_KIND, key=lambda kind: kind != ANSWER_KIND)
        return [with_calibration(judge_info(self._judge, METRICS_BY_KIND[kind], kind)) for kind in kinds]

    # `assay check` and `assay show`.


def _count_sample(tally: MemoryEvalTally, result: CaseResult[Any], lines: SampleLines) -> None:
    results = lines.results
    tally.add_sample(result.index, len(results.sessions), results.questions, result.records, result.scores)


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
