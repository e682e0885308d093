"""Reads result files of Prompt Lab itself for `assay import`.

- A baseline snapshot or an evaluation as JSON: `evaluation_results` or `sample_results`, a list of samples.
- The CSV file of `eval`, a row per sample, and that of a comparison, with columns for each variant.

Prompt Lab gives a sample `must_have_pass`, which becomes the verdict, and `overall_score`, a judge's points.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from assay.core.errors import InputError, Problem, UsageError, unreadable
from assay.core.hashing import fingerprint
from assay.core.imported import UNPLACED, ImportedCase, ImportedRun, ImportPlan, imported_scorer
from assay.core.report import Report
from assay.core.types import Failure, Record
from assay.files.read import convert_json, read_json
from assay.formats.prompt_lab.results import POINTS, TestFields, find_results, points_metric, points_score
from assay.suites.pipeline.output_checks import TestOutput
from assay.suites.pipeline.pipeline_file import BASELINE
from assay.suites.pipeline.result_files import COMPARED, has_prompt_lab_columns
from assay.suites.pipeline.scorer import ERRORED, FAILED, INVALID, PASSED, verdict_score
from assay.suites.pipeline.tally import VariantTally, build_report
from assay.suites.pipeline.testset.case import TestCase
from assay.suites.pipeline.testset.testsets import Testsets, group_key

FORMAT = "pipeline"
_SCORER = imported_scorer("pipeline")
_LISTS = ("evaluation_results", "sample_results")
# One of these keys is at the beginning of every JSON file of Prompt Lab that has samples.
_MARKS = (b'"entity_type"', b'"pipeline_id"', b'"sample_id"')
_SNIFFED_BYTES = 4096
# What the testset has and the results do not.
_IN_TESTSET = ("inputs", "tags", "expected values")
# Texts that Prompt Lab writes into `judge_feedback`: the pipeline failed, the evaluation failed, no such sample.
_PIPELINE_FAILED, _EVALUATION_FAILED, _NOT_FOUND = "Pipeline 执行失败", "评估失败", "未找到结果"

# Also refuses NaN and infinity, which JSON of Python programs may have.
_LARGEST = 1e15
_Seconds = Annotated[float, Meta(ge=0, le=_LARGEST)]
_Points = Annotated[float, Meta(ge=-_LARGEST, le=_LARGEST)]


class SampleResult(Struct, kw_only=True):
    """The result of one sample with one variant. The keys are Prompt Lab's."""

    sample_id: int | str
    must_have_pass: bool
    variant: str = BASELINE
    overall_score: _Points = 0.0
    entity_id: str = ""
    rule_violations: list[str] = field(default_factory=list)
    judge_feedback: str = ""
    execution_time: _Seconds = 0.0
    step_outputs: dict[str, Any] = field(default_factory=dict)
    failed_steps: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """The verdict in the words of a pipeline run."""
        if self.judge_feedback.startswith(_PIPELINE_FAILED):
            return ERRORED
        if self.judge_feedback.startswith(_EVALUATION_FAILED):
            return INVALID
        return PASSED if self.must_have_pass else FAILED

    @property
    def reason(self) -> str:
        """Why the sample did not pass; empty if it passed."""
        if self.verdict == PASSED:
            return ""
        rules = f"rules violated: {', '.join(self.rule_violations)}" if self.rule_violations else ""
        return "; ".join(filter(None, (rules, self.judge_feedback)))


def find_prompt_lab_results(path: Path) -> ImportedRun | None:
    """Return the results in a JSON or CSV file of Prompt Lab. None if the file is not one."""
    if path.suffix == ".csv" and path.is_file():
        samples = _csv_samples(path)
        return None if samples is None else PromptLabRun(path, samples, None)
    if path.suffix != ".json" or not path.is_file() or not _looks_like_prompt_lab(path):
        return None
    value = read_json(path)
    if isinstance(value, dict):
        name = next((name for name in _LISTS if isinstance(value.get(name), list)), None)
        if name is None:
            return None
        default = str(value.get("variant") or value.get("baseline_name") or BASELINE)
        samples = _json_samples(path, value[name], f"$.{name}", default)
        return PromptLabRun(path, samples, _seconds(value.get("created_at")))
    if isinstance(value, list) and value and isinstance(value[0], dict) and "sample_id" in value[0]:
        return PromptLabRun(path, _json_samples(path, value, "$", BASELINE), None)
    return None


class PromptLabRun(ImportedRun):
    """The samples of one file. The file has no inputs and no tags; without `--data` a key is made of the id alone."""

    def __init__(self, path: Path, samples: list[SampleResult], started: float | None) -> None:
        if not samples:
            raise InputError(Problem(str(path), "has no samples"))
        variants = list(dict.fromkeys(sample.variant for sample in samples))
        self._rows: dict[str, dict[str, SampleResult]] = {}
        for sample in samples:
            row = self._rows.setdefault(str(sample.sample_id), {})
            if sample.variant in row:
                raise InputError(
                    Problem(
                        str(path),
                        f"has the sample {str(sample.sample_id)!r} twice with the variant {sample.variant!r}",
                    )
                )
            row[sample.variant] = sample
        # Without a judge, Prompt Lab writes 0.0 for every sample. This is no measured number.
        self._has_points = any(sample.overall_score for sample in samples)
        self._points: dict[str, list[float]] = {variant: [] for variant in variants}
        self._tallies = {variant: VariantTally([]) for variant in variants}
        self._set = samples[0].entity_id or path.name.partition(".")[0]
        self._count = 0
        self._tests: dict[str, TestCase] = {}
        missing = [
            *_IN_TESTSET,
            "models",
            "requests and replies",
            "tokens",
            "times of steps",
        ]
        if not self._has_points:
            missing.append("a judge's points")
        super().__init__(
            ImportPlan(
                format=FORMAT,
                suite="pipeline",
                files=[path],
                total=len(samples),
                subjects=variants,
                scorers=[_SCORER],
                score_parts="rows",
                started=started,
                seconds=sum(sample.execution_time for sample in samples),
                producer="Prompt Lab",
                missing=missing,
                facts={"sets": {self._set: len(self._rows)}, "variants": variants},
            )
        )

    def use_data(self, path: Path) -> None:
        """Take inputs, tags and expectations from the testset. Raises InputError if it lacks a sample."""
        if not path.is_file():
            raise UsageError(f"--data {path} is not a file; pass the testset of these results")
        loaded = Testsets([str(path)]).load()
        self._tests = {case.key: case for group in loaded.groups for case in group.cases}
        unknown = [name for name in self._rows if name not in self._tests]
        if unknown:
            raise InputError(Problem(str(path), f"has no test {unknown[0]!r}, which the results have"))
        plan = self.plan
        plan.files.append(path)
        (self._set,) = loaded.sets
        plan.facts["sets"] = {self._set: len(self._rows)}
        plan.missing = [name for name in plan.missing if name not in _IN_TESTSET]

    def cases(self) -> Iterator[ImportedCase]:
        """Yield the samples in the order of the file, each with all its variants."""
        for row in self._rows.values():
            for variant in self.plan.subjects:
                if variant in row:
                    yield self._case(row[variant])

    def _case(self, sample: SampleResult) -> ImportedCase:
        test = self._tests.get(str(sample.sample_id)) or TestCase(sample.sample_id)
        data: dict[str, Any] = {"gold": fingerprint(test.expectations())} if self._tests else {}
        data["checks"] = []
        if sample.verdict in (PASSED, FAILED):
            passed = sample.must_have_pass
            check = {"path": "must_have", "kind": "must_have", "passed": passed, "why": sample.reason}
            data["checks"] = [{"of": "final", "step": "", **check}]
        score = verdict_score(UNPLACED, _SCORER, test, sample.verdict, sample.reason, data)
        output = TestOutput(outputs=sample.step_outputs, seconds=sample.execution_time)
        self._tallies[sample.variant].add(self._set, test, output, replace(score, index=self._count))
        self._count += 1
        scores = [score]
        if self._has_points and sample.verdict in (PASSED, FAILED):
            self._points[sample.variant].append(sample.overall_score)
            scores.append(points_score(test, sample.overall_score, sample.judge_feedback))
        failure = None
        if sample.verdict == ERRORED:
            failure = Failure("failed_step", sample.judge_feedback, ", ".join(sample.failed_steps))
        answer = Record(*UNPLACED, try_=1, kind="answer", part=test.key, data={"outputs": sample.step_outputs})
        return ImportedCase(
            key=group_key([test]),
            set=self._set,
            subject=sample.variant,
            label=test.key,
            tags=tuple(test.tags),
            failure=failure,
            records=[TestFields.record([TestFields.of(test)]), answer],
            scores=scores,
            seconds=sample.execution_time,
        )

    def report(self) -> Report:
        """Return the pass rate and the mean of the points, by variant. Steps have no numbers in these files."""
        report = build_report(self._tallies, [])
        for entry in report.entries:
            if self._has_points:
                entry.metrics.append(points_metric(self._points[entry.name]))
        return report


def _looks_like_prompt_lab(path: Path) -> bool:
    """Return whether the beginning of a file has a key of Prompt Lab. Other JSON files may be large."""
    try:
        with path.open("rb") as file:
            start = file.read(_SNIFFED_BYTES)
    except OSError as error:
        raise InputError(unreadable(path, error)) from None
    return any(mark in start for mark in _MARKS)


def _json_samples(path: Path, values: list[Any], place: str, default_variant: str) -> list[SampleResult]:
    samples = []
    for number, value in enumerate(values):
        named = value
        if isinstance(value, dict) and not value.get("variant"):
            named = {**value, "variant": default_variant}
        samples.append(convert_json(named, SampleResult, f"{path} {place}[{number}]"))
    return samples


def _csv_samples(path: Path) -> list[SampleResult] | None:
    """Return the samples of a CSV file; None if its columns are not Prompt Lab's."""
    samples: list[SampleResult] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            table = csv.DictReader(file)
            columns = table.fieldnames or []
            variants = [name.removeprefix(COMPARED) for name in columns if name.startswith(COMPARED)]
            if not has_prompt_lab_columns(columns):
                return None
            for row in table:
                where = f"{path}:{table.line_num}"
                if None in row or None in row.values():
                    raise InputError(Problem(where, f"expected {len(columns)} cells, as in the first line"))
                if variants:
                    samples += _compared_samples(row, variants, where)
                else:
                    samples.append(_csv_sample(row, row["variant"], "", where))
    except OSError as error:
        raise InputError(unreadable(path, error)) from None
    except UnicodeDecodeError as error:
        raise InputError(Problem(str(path), f"expected UTF-8; byte {error.start:,} is not UTF-8")) from None
    except csv.Error as error:
        raise InputError(Problem(str(path), f"is not CSV: {error}")) from None
    return samples


def _compared_samples(row: Mapping[str, str], variants: list[str], where: str) -> Iterator[SampleResult]:
    for variant in variants:
        if row.get(f"judge_feedback__{variant}") != _NOT_FOUND:
            yield _csv_sample(row, variant, f"__{variant}", where)


def _csv_sample(row: Mapping[str, str], variant: str, ending: str, where: str) -> SampleResult:
    """Return the sample of a row. In the file of a comparison, the columns of a variant end with its name."""
    points = "score" if ending else POINTS
    passed = row["must_have" + ending if ending else "must_have_pass"]
    outputs = f"output{ending}__"
    if passed not in ("0", "1", "True", "False"):
        raise InputError(Problem(where, f"expected 0 or 1 for must_have, found {passed!r}"))
    try:
        value = {
            "sample_id": row["id"],
            "variant": variant or BASELINE,
            "must_have_pass": passed in ("1", "True"),
            "overall_score": float(row.get(points + ending) or 0.0),
            "rule_violations": [name for name in (row.get("rule_violations" + ending) or "").split(",") if name],
            "judge_feedback": row.get("judge_feedback" + ending) or "",
            "execution_time": float(row.get("execution_time") or 0.0),
            "step_outputs": {
                name.removeprefix(outputs): text for name, text in row.items() if name.startswith(outputs)
            },
        }
    except ValueError as error:
        raise InputError(Problem(where, f"expected a number: {error}")) from None
    return convert_json(value, SampleResult, where)


def _seconds(created_at: Any) -> float | None:
    try:
        return datetime.fromisoformat(created_at).timestamp() if isinstance(created_at, str) else None
    except (ValueError, OverflowError):
        return None


def find_pipeline_results(path: Path) -> ImportedRun | None:
    """Return the results in `results.jsonl`, in a folder with it, or in a result file of Prompt Lab."""
    return find_results(path) or find_prompt_lab_results(path)
