"""`assay pipeline`: runs multi-step pipelines on testsets, in the file formats of Prompt Lab."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from assay.core.case_details import CaseDetails
from assay.core.code import imported_sha256
from assay.core.connect import CHAT, Role
from assay.core.errors import InputError, Problem, UsageError
from assay.core.exported import Exporter
from assay.core.hashing import fingerprint
from assay.core.imported import ImportedRun
from assay.core.json_schema import FileSchema
from assay.core.judges import JudgeInfo
from assay.core.schema import refuse
from assay.core.spec import RunSpec
from assay.core.suite import (
    MAIN,
    CaseContent,
    CaseResult,
    CaseView,
    GradedAnswer,
    Match,
    Outcome,
    Overview,
    PlannedCalls,
    Results,
    Row,
    Rows,
    RunFacts,
    Section,
    Suite,
    as_text,
    graded_answers,
)
from assay.core.types import Case, Record, Score
from assay.core.yamlfile import load_yaml
from assay.scoring.judges.rubric import RubricJudge
from assay.solvers.code import ProcessRunner, Sandbox
from assay.solvers.steps.batch import BATCH_ITEMS
from assay.solvers.steps.hop_step import HopStep
from assay.solvers.steps.pipeline import Step, StepsInputs, TestInputs
from assay.solvers.steps.prompt_step import PromptStep
from assay.solvers.steps.solver import StepsSolver
from assay.store.judges import require_kappa, rubric_judge, with_calibration
from assay.suites.pipeline.builder import CodeRunners, PipelineBuilder, StepModels, code_folder
from assay.suites.pipeline.case_page import test_details
from assay.suites.pipeline.evaluation import Evaluation, read_output, records_by_test
from assay.suites.pipeline.file_schema import file_schemas
from assay.suites.pipeline.options import PipelineOptions, split_names
from assay.suites.pipeline.pipeline_export import PipelineExporter
from assay.suites.pipeline.pipeline_file import ALL, BASELINE, PipelineFile
from assay.suites.pipeline.pipeline_results import find_results
from assay.suites.pipeline.preflight import Preflight
from assay.suites.pipeline.prompt_lab_results import find_prompt_lab_results
from assay.suites.pipeline.result_files import JunitFile, ResultFiles, TestResult
from assay.suites.pipeline.scorer import METRIC, PipelineScorer
from assay.suites.pipeline.tally import VariantTally, build_report
from assay.suites.pipeline.testset.scan import check_testset, is_testset
from assay.suites.pipeline.testset.testsets import CaseGroup, CaseSelection, LoadedTests, Testsets

JUDGE = "judge"

# Worker processes for the code steps of the pipeline.
_CODE_WORKERS = 4
# English text has about four characters per token.
_CHARACTERS_A_TOKEN = 4
# `assay show` cuts a step's output and a failed check's values to this many characters.
_LONGEST_OUTPUT = 4000
_LONGEST_DIFFERENCE = 300
_YAML = (".yaml", ".yml")


class GroupRows:
    """The rows of a run: groups of tests. With several variants, each variant runs every group."""

    def __init__(self, loaded: LoadedTests, facts: dict[str, Any]) -> None:
        self._groups = loaded.groups
        self.count = len(loaded.groups)
        self.facts = facts

    def iterate(self, skip: Callable[[int], bool] | None = None) -> Iterator[Row[CaseGroup]]:
        """Yield the groups in the order of the testsets. `skip` takes the index of a group."""
        for group in self._groups:
            if skip is None or not skip(group.index):
                yield Row(group.index, group.key, group.set, group)


class PipelineSuite(Suite[PipelineOptions, CaseGroup]):
    """The suite of `assay pipeline`: runs every test with every variant of a pipeline.

    A row is a test, or several tests that depend on each other; a subject is a variant. Each test has one score,
    whose `part` is the test's id.
    """

    name: ClassVar[str] = "pipeline"
    Options: ClassVar[type[PipelineOptions]] = PipelineOptions
    parts: ClassVar[Any] = "rows"
    case_word: ClassVar[str] = "test"

    @classmethod
    def resolve(cls, spec: RunSpec) -> RunSpec:
        """Split options that are written `a,b` into lists."""
        options = spec.options
        assert isinstance(options, PipelineOptions)
        changes = {
            "variant": split_names(options.variant),
            "include_tags": split_names(options.include_tags),
            "exclude_tags": split_names(options.exclude_tags),
            "ids": split_names(options.ids),
        }
        return replace(spec, options=replace(options, **changes))

    def __init__(self, spec: RunSpec) -> None:
        super().__init__(spec)
        if not self.options.pipeline:
            raise UsageError("no pipeline given; use: assay pipeline FILE.yaml --testset TESTS.jsonl")
        if spec.votes > 1:
            raise UsageError("--votes does not apply to pipelines: the judge is asked once. Remove --votes")
        self.file = PipelineFile(Path(self.options.pipeline))
        self.variants = _select_variants(self.file, self.options.variant)
        sandbox = Sandbox() if self.options.allow_code else None
        runners = CodeRunners(ProcessRunner(_CODE_WORKERS, code_folder(self.file)), sandbox)
        models = StepModels(spec.model)
        builders = {name: PipelineBuilder(self.file, name, models, runners) for name in self.variants}
        self.pipelines = {name: builder.build() for name, builder in builders.items()}
        rules = builders[self.variants[0]].rules()
        refuse(self.file.problems, self.file.path)
        self._step_values = {name: builder.values for name, builder in builders.items()}
        self._evaluations = {name: Evaluation(built, rules) for name, built in self.pipelines.items()}
        self._file_notices = [*models.notices, *map(str, dict.fromkeys(self.file.problems))]
        self.solver = StepsSolver(self.pipelines, [runner for runner in runners if runner is not None])
        self.roles = {
            role: Role(model=model, params=spec.gen_kwargs if role == MAIN else {}, needs=frozenset({CHAT}))
            for role, model in models.roles.items()
        }
        if spec.judge is not None:
            self.roles[JUDGE] = Role(
                model=spec.judge, params=spec.judge_kwargs, needs=frozenset({CHAT}), mark="score"
            )

    # Identity of the run

    def ask_identity(self) -> dict[str, Any]:
        """Return the steps and outputs. Rules of outputs belong to the score identity."""
        identity: dict[str, Any] = {
            "steps": self._step_values,
            "outputs": {
                name: [[output.key, output.source.text] for output in pipeline.outputs]
                for name, pipeline in self.pipelines.items()
            },
            "optional": sorted(self.pipelines[self.variants[0]].optional),
        }
        codes = [step.get("code") for steps in self._step_values.values() for step in steps]
        texts = [code for code in codes if isinstance(code, str)]
        imports = imported_sha256(texts, code_folder(self.file))
        if imports:
            identity["imports"] = imports
        return identity

    def data_identity(self) -> Any:
        """Return the fingerprint of the tests' inputs, and the names of the testsets."""
        return [self._tests.inputs_fingerprint, list(self._tests.sets)]

    def score_identity(self) -> Any:
        """Return the tests' expectations, the rules of outputs, and the judge if one is needed."""
        _ = self._tests  # loading the tests sets `_score_parts`
        return self._score_parts

    @cached_property
    def _preflight(self) -> Preflight:
        return Preflight(allow_code=self.options.allow_code, judge=self.spec.judge is not None)

    @cached_property
    def _tests(self) -> LoadedTests:
        """All tests, read and checked on first use. Raises InputError with the problems of all files."""
        options = self.options
        testsets = Testsets(
            options.testset or [default_testset(self.file)],
            CaseSelection.of(options.include_tags, options.exclude_tags, options.ids),
            self.file.declared,
            self.file.known_steps,
            self.spec.limit,
            self._preflight.check,
        )
        loaded = testsets.load()
        warnings = [str(note) for note in loaded.notes if note.level == "warning"]
        self.notices = (*self._file_notices, *self._preflight.notices(), *warnings)
        self._make_scorer(loaded)
        return loaded

    def _make_scorer(self, loaded: LoadedTests) -> None:
        """Create the scorer. Its id contains the expectations, so that a changed one is scored again."""
        parts: dict[str, Any] = {"tests": loaded.gold_fingerprint, "target": self.file.target}
        judge = RubricJudge(self.spec.judge_kwargs) if self._preflight.needs_judge else None
        self._judge: JudgeInfo | None = None
        if judge is not None:
            assert self.spec.judge is not None
            self._judge = rubric_judge(self.spec.judge, judge.fingerprint, [METRIC])
            if self.options.min_kappa is not None:
                require_kappa(self._judge, self.options.min_kappa)
            parts["judge"] = self._judge.fingerprint
        parts["outputs"] = self.file.outputs
        self._score_parts = parts
        model = self.spec.judge if judge is not None else None
        self._scorer = PipelineScorer(f"pipeline@{fingerprint([parts, model])}", self._evaluations, judge)
        self.scorers = [self._scorer]

    # Cases

    def rows(self, facts: dict[str, Any] | None = None) -> GroupRows:
        """Return the groups of all testsets."""
        return GroupRows(self._tests, {"sets": self._tests.sets, "variants": self.variants})

    def subjects(self) -> Sequence[str]:
        """Return the variants."""
        return self.variants

    def case(self, row: Row[CaseGroup], subject: str) -> CaseContent:
        """Return the inputs of a group's tests for the steps, and the tests with expectations for the scorer."""
        group = row.data
        tests = [
            TestInputs(
                id=test.key,
                inputs=test.inputs,
                step_inputs=test.step_inputs,
                batch_items=test.batch_items,
                tags=test.tags,
                condition=test.conditions or "",
                depends_on=group.waits_for(test),
            )
            for test in group.cases
        ]
        # In a group of several tests, each test's score has the tags of that test.
        tags = tuple(group.cases[0].tags) if len(group.cases) == 1 else ()
        return CaseContent(StepsInputs(subject, tests), group.cases, label=group.cases[-1].key, tags=tags)

    async def passed(self, case: Case, records: Sequence[Record], part: str) -> bool:
        """Return whether tests that depend on this one may run: no error, and no failed check without a judge."""
        return self._scorer.passed(case, records, part)

    # Results

    def finish(self, results: Results[CaseGroup], run: RunFacts) -> Outcome:
        """Count the verdicts and write the three result files into the run's folder."""
        outputs = {output.key: None for built in self.pipelines.values() for output in built.outputs}
        files = ResultFiles(run.folder, list(outputs), self.variants)
        junit = JunitFile(run.folder, self.file.id, self.variants)
        tallies = {
            name: VariantTally([step.id for step in built.steps]) for name, built in self.pipelines.items()
        }
        # The cases of one row (one per variant) are adjacent. The CSV file needs them together.
        for _, cases in groupby(results, key=lambda result: result.row.number):
            for test_results in zip(*map(_test_results, cases), strict=True):
                files.write(test_results)
                for result in test_results:
                    tallies[result.variant].add(result.set, result.test, result.output, result.score)
                    junit.add(result)
        files.close()
        junit.close({name: tally.sets for name, tally in tallies.items()})
        judges = [with_calibration(self._judge)] if self._judge else []
        return Outcome(
            build_report(tallies, judges),
            [*files.paths, junit.path],
            Path(self.spec.output_dir) / self.file.id,
        )

    def overview(self, rows: Rows[CaseGroup]) -> Overview:
        """Return the planned calls of each step that calls a model, for `--dry-run`.

        Input tokens do not include the replies of earlier steps, which are unknown. Output tokens are
        `max_tokens` per call, if the step sets it.
        """
        tests = self._tests.tests
        sets = ", ".join(f"{name} ({count:,})" for name, count in self._tests.sets.items())
        facts = {
            "pipeline": self.file.name,
            "variants": ", ".join(self.variants),
            "testsets": sets,
            "tests": f"{tests:,}",
            "cases": f"{self.total(rows):,}",
        }
        calls = [
            self._planned_calls(variant, step)
            for variant, built in self.pipelines.items()
            for step in built.steps
            if isinstance(step.runner, (PromptStep, HopStep))
        ]
        if self._preflight.needs_judge:
            judged = self._preflight.judged_checks * len(self.variants)
            calls.append(PlannedCalls(what="judge", model=self.spec.judge or "", calls=judged))
        return Overview(facts=facts, calls=calls)

    def _planned_calls(self, variant: str, step: Step) -> PlannedCalls:
        what = f"step {step.id}" if len(self.variants) == 1 else f"step {step.id} of {variant}"
        runner = step.runner
        assert isinstance(runner, (PromptStep, HopStep))
        model = self.roles[runner.role].model if runner.role in self.roles else ""
        if isinstance(runner, HopStep):
            # The number of calls is unknown: a function may call a model any number of times.
            return PlannedCalls(what=what, model=model)
        calls = characters = 0
        fixed = len(runner.template.source) + (len(runner.system.source) if runner.system else 0)
        for group in self._tests.groups:
            for test in group.cases:
                items = 1
                if step.batch is not None:
                    mapped_elsewhere = any(path.root != BATCH_ITEMS for path in step.sources.values())
                    if test.batch_items is None or mapped_elsewhere:
                        # The number of items is unknown: the batch is the output of an earlier step.
                        return PlannedCalls(what=what, model=model)
                    items = len(test.batch_items)
                calls += items
                characters += items * fixed + len(msgspec.json.encode([test.inputs, test.batch_items]))
        max_tokens = runner.params.get("max_tokens") or runner.params.get("max_completion_tokens")
        return PlannedCalls(
            what=what,
            model=model,
            calls=calls,
            input_tokens=characters // _CHARACTERS_A_TOKEN,
            output_tokens=calls * max_tokens if isinstance(max_tokens, int) else None,
        )

    # `assay check` and `assay show`

    @classmethod
    def recognises(cls, path: Path) -> Match:
        """Recognise a pipeline by its list of steps, and a testset by its folder or its keys."""
        if is_pipeline(path):
            return Match.SURE
        return Match.LIKELY if is_testset(path) else Match.NO

    @classmethod
    def check(cls, path: Path, beside: Path | None = None) -> list[Problem]:
        """Return every problem of a pipeline with all its variants, or of a testset.

        With the pipeline file `beside`, a testset is also checked against the pipeline's inputs and steps.
        """
        if path.suffix in _YAML:
            return _check_pipeline(path)
        # Whether code is allowed and a judge is named is up to the run, so neither is a problem of the file.
        preflight = Preflight(allow_code=True, judge=True)
        if beside is None:
            return check_testset(path, check=preflight.check)
        try:
            file = PipelineFile(beside)
        except InputError as error:
            return error.problems
        return check_testset(path, file.known_steps, file.declared, preflight.check)

    @classmethod
    def read_results(cls, path: Path) -> ImportedRun | None:
        """Return the results in `results.jsonl`, in a folder with it, or in a result file of Prompt Lab."""
        return find_results(path) or find_prompt_lab_results(path)

    @classmethod
    def exporter(cls) -> Exporter | None:
        """Return the exporter of `results.jsonl`."""
        return PipelineExporter()

    @classmethod
    def file_schemas(cls) -> Sequence[FileSchema]:
        """Return the schemas of the files of this format."""
        return file_schemas()

    @classmethod
    def sections(cls, case: CaseView) -> Sequence[Section]:
        """Return the output of each step in the order in which the steps ended, then the checks of each test."""
        sections: list[Section] = []
        for record in case.records:
            if record.kind in ("step", "aggregation"):
                result = record.data
                seconds = result.get("seconds", 0.0)
                text = result.get("error") or json.dumps(result.get("output"), ensure_ascii=False)
                heading = f"{record.kind} {record.part}: {result['status']} ({seconds:.3f} s)"
                sections.append(Section(heading=heading, text=text, max_chars=_LONGEST_OUTPUT))
            elif record.kind == "skipped":
                sections.append(Section(heading=f"{record.part}: skipped, {record.data['why']}"))
        for score in case.scores:
            sections += _score_sections(score)
        return sections

    @classmethod
    def details(cls, case: CaseView) -> CaseDetails:
        """Return the tests of a case with their steps and checks."""
        return test_details(case)

    @classmethod
    def graded_answers(cls, case: CaseView) -> Sequence[GradedAnswer]:
        """Return the outputs of each test, and as the metric `judge` every text that a judge read with its rubric."""
        answers = graded_answers(case)
        for score in case.scores:
            for number, check in enumerate((score.data or {}).get("checks", [])):
                if check["kind"] == JUDGE:
                    answers.append(
                        GradedAnswer(
                            metric=JUDGE,
                            part=f"{score.part}/{number}",
                            rubric=as_text(check.get("expected", "")),
                            response=as_text(check.get("actual", "")),
                            category=score.tags[0] if score.tags else "",
                            cluster=score.part,
                            accepted=check["passed"],
                        )
                    )
        return answers


def is_pipeline(path: Path) -> bool:
    """Return whether a file is YAML with a list `steps`."""
    if path.suffix not in _YAML or not path.is_file():
        return False
    try:
        return isinstance(load_yaml(path).value.get("steps"), list)
    except InputError:
        return False


def default_testset(file: PipelineFile) -> str:
    """Return the path of the pipeline's `default_testset`, in its folder or in a folder `testsets`."""
    name = file.default_testset
    if name is None:
        raise UsageError(f"{file.path} has no default_testset; pass --testset")
    beside = file.path.parent
    for folder in (beside, beside / "testsets", beside.parent / "testsets", Path()):
        if (folder / name).exists():
            return str(folder / name)
    raise UsageError(
        f"{file.yaml.where('default_testset')}: there is no testset {name!r} in the pipeline's folder"
    )


def _select_variants(file: PipelineFile, names: list[str]) -> list[str]:
    """Return the variants to run, each once. `all` means those of the file, with the baseline first."""
    selected = list(file.variants) if ALL in names else []
    selected += [name for name in names if name != ALL]
    return list(dict.fromkeys(selected)) or [BASELINE]


def _check_pipeline(path: Path) -> list[Problem]:
    """Return the problems of a pipeline file over all its variants, each once."""
    try:
        file = PipelineFile(path)
        runners = CodeRunners(ProcessRunner(1), None)
        builders = [PipelineBuilder(file, name, StepModels(""), runners) for name in file.variants]
        for builder in builders:
            builder.build()
        builders[0].rules()
    except InputError as error:
        return error.problems
    return list(dict.fromkeys(file.problems))


def _test_results(result: CaseResult[CaseGroup]) -> list[TestResult]:
    """Return the result of each test of a case."""
    group = result.row.data
    scores = {score.part: score for score in result.scores}
    records = records_by_test(result.records, group.cases)
    return [
        TestResult(
            group.set,
            result.subject,
            test,
            read_output(records[test.key], test.key),
            result.end,
            scores.get(test.key),
            group.waits_for(test),
        )
        for test in group.cases
    ]


def _score_sections(score: Score) -> Iterator[Section]:
    """Yield a test's verdict and its checks. A check that did not pass has the expected and the actual value."""
    status = "" if score.status == "scored" else f" ({score.status})"
    yield Section(heading=f"{score.part}: {score.data['verdict']}{status}", text=score.reason)
    for check in score.data.get("checks", ()):
        sign = {True: "✓", False: "✗", None: "?"}[check.get("passed")]
        names = [str(check[key]) for key in ("of", "step", "path") if check.get(key)]
        yield Section(text=" ".join([sign, *names]), indent=1)
        if check.get("passed") is True:
            continue
        lines = [f"{check.get('path') or 'output'}: {check.get('why', '')}"]
        for mark, side in (("-", "expected"), ("+", "actual")):
            value = json.dumps(check[side], ensure_ascii=False) if side in check else "(nothing)"
            lines.append(f"{mark} {value}")
        for line in lines:
            yield Section(text=line, indent=2, max_chars=_LONGEST_DIFFERENCE)
