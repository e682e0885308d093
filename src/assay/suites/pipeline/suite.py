"""`assay pipeline`: runs multi-step pipelines on testsets, in the file formats of Prompt Lab."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

from msgspec.structs import replace

from assay.core.errors import UsageError, unknown
from assay.core.hashing import fingerprint
from assay.core.judges import JudgeInfo
from assay.core.roles import CHAT, Role
from assay.core.spec import RunSpec
from assay.core.suite import (
    MAIN,
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
from assay.core.types import Case, Record
from assay.files.schema import refuse
from assay.scoring.judges.rubric import RubricJudge
from assay.store.judges import require_kappa, rubric_judge_info, with_calibration
from assay.suites.pipeline.builder import CodeRunners, PipelineBuilder, code_folder, step_language
from assay.suites.pipeline.code import JavaScriptRunner, ProcessRunner, RunnerByLanguage, Sandbox, require_engine
from assay.suites.pipeline.options import PipelineOptions, split_names
from assay.suites.pipeline.output_checks import OutputChecker, read_output, records_by_test
from assay.suites.pipeline.pipeline_file import ALL, BASELINE, PipelineFile, default_testset, output_key
from assay.suites.pipeline.planned_calls import planned_calls
from assay.suites.pipeline.preflight import Preflight, judge_agent_notices
from assay.suites.pipeline.project import agent_pipeline, find_pipeline, find_testset
from assay.suites.pipeline.result_files import (
    JUDGE,
    JunitFile,
    PromptLabCsv,
    ResultFiles,
    TestResult,
    check_outfile,
)
from assay.suites.pipeline.scorer import METRIC, PipelineScorer
from assay.suites.pipeline.step_models import StepModels
from assay.suites.pipeline.steps.pipeline import StepsInputs, TestInputs
from assay.suites.pipeline.steps.prompt_step import PromptStep
from assay.suites.pipeline.steps.solver import StepsSolver
from assay.suites.pipeline.tally import VariantTally, build_report
from assay.suites.pipeline.testset.testsets import CaseGroup, CaseSelection, LoadedTests, Testsets
from assay.usercode.code_hash import imported_sha256

# Worker processes for the code steps of the pipeline.
_CODE_WORKERS = 4
# Most seconds of one call of a testset's JavaScript. The sandbox for Python has the same limit.
_TEST_SECONDS = 10


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
    files = "assay.suites.pipeline.suite_files:PipelineFiles"
    pages = "assay.suites.pipeline.suite_pages:PipelinePages"
    Options: ClassVar[type[PipelineOptions]] = PipelineOptions
    parts: ClassVar[Any] = "rows"
    case_word: ClassVar[str] = "test"

    @classmethod
    def resolve(cls, spec: RunSpec) -> RunSpec:
        """Find the pipeline of an id, and split options that are written `a,b` into lists."""
        options = spec.options
        assert isinstance(options, PipelineOptions)
        changes: dict[str, Any] = {
            "pipeline": str(find_pipeline(options.pipeline)) if options.pipeline else "",
            "variant": split_names(options.variant),
            "flows": split_names(options.flows),
            "include_tags": split_names(options.include_tags),
            "exclude_tags": split_names(options.exclude_tags),
            "ids": split_names(options.ids),
        }
        return replace(spec, options=replace(options, **changes))

    def __init__(self, spec: RunSpec) -> None:
        super().__init__(spec)
        _check_subject(self.options)
        if self.options.outfile:
            check_outfile(Path(self.options.outfile))
        if spec.votes > 1:
            raise UsageError("--votes does not apply to pipelines: the judge is asked once. Remove --votes")
        if self.options.agent:
            pipeline = agent_pipeline(self.options.agent)
            self.file = PipelineFile(pipeline.path, pipeline)
            self.variants = _select_flows(self.file, list(pipeline.value["variants"]), self.options.flows)
        else:
            self.file = PipelineFile(Path(self.options.pipeline))
            self.variants = _select_variants(self.file, self.options.variant)
        python = ProcessRunner(_CODE_WORKERS, code_folder(self.file))
        runner = RunnerByLanguage(python, JavaScriptRunner(_CODE_WORKERS))
        sandbox = (
            RunnerByLanguage(Sandbox(), JavaScriptRunner(seconds=_TEST_SECONDS)) if self.options.allow_code else None
        )
        runners = CodeRunners(runner, sandbox)
        self._models = models = StepModels(spec.model)
        builders = {name: PipelineBuilder(self.file, name, models, runners) for name in self.variants}
        self.pipelines = {name: builder.build() for name, builder in builders.items()}
        rules = builders[self.variants[0]].rules()
        self._agents = builders[self.variants[0]].agents()
        refuse(self.file.problems, self.file.path)
        self._step_values = {name: builder.values for name, builder in builders.items()}
        self._checkers = {name: OutputChecker(built, rules) for name, built in self.pipelines.items()}
        self._file_notices = [*models.notices, *map(str, dict.fromkeys(self.file.problems))]
        self.solver = StepsSolver(self.pipelines, [runner for runner in runners if runner is not None])
        roles = {
            role: Role(model=model, params=spec.gen_kwargs if role == MAIN else {}, needs=frozenset({CHAT}))
            for role, model in models.roles.items()
        }
        if spec.judge is not None:
            roles[JUDGE] = Role(model=spec.judge, params=spec.judge_kwargs, needs=frozenset({CHAT}), mark="score")
        # The tests may name further models, which are connected before the first request.
        self.roles = {**roles, **self._roles_of_tests(self._tests, roles)}

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
        steps = [step for steps in self._step_values.values() for step in steps]
        python = [step.get("code") for step in steps if step.get("language") != "javascript"]
        texts = [code for code in python if isinstance(code, str)]
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
        javascript = {
            name
            for steps in self._step_values.values()
            for step in steps
            if step_language(step) == "javascript"
            for name in (step["id"], output_key(step))
        }
        return Preflight(
            allow_code=self.options.allow_code,
            judge=self.spec.judge is not None,
            javascript_steps=javascript,
            pipelines=self.pipelines,
            inputs=self.file.declared,
            model_problem=self._models.problem,
        )

    @cached_property
    def _tests(self) -> LoadedTests:
        """All tests, read and checked on first use. Raises InputError with the problems of all files."""
        options = self.options
        names = [
            name if Path(name).exists() else find_testset(name, self.file.path, self.file.id)
            for name in options.testset
        ]
        testsets = Testsets(
            names or [default_testset(self.file)],
            CaseSelection.of(options.include_tags, options.exclude_tags, options.ids),
            self.file.declared,
            self.file.known_steps,
            self.spec.limit,
            self._preflight.check,
        )
        loaded = testsets.load()
        if self._preflight.needs_javascript:
            require_engine()
        warnings = [str(note) for note in loaded.notes if note.level == "warning"]
        self.notices = (
            *self._file_notices,
            *self._judge_agent_notices(),
            *self._preflight.notices(),
            *warnings,
        )
        self._make_scorer(loaded)
        return loaded

    def _judge_agent_notices(self) -> list[str]:
        """Return the notice about what only Prompt Lab's judge agent reads. Agents have it in many projects."""
        agents = self._agents.values() if self.spec.judge is not None else ()
        keys = [agent.judge_agent_keys() for agent in agents]
        return judge_agent_notices([self._preflight.judge_agent_keys(), *keys])

    def _roles_of_tests(self, loaded: LoadedTests, known: Mapping[str, Role]) -> dict[str, Role]:
        """Return a role for each further model that a test names in `step_inputs`."""
        roles: dict[str, Role] = {}
        for test in (test for group in loaded.groups for test in group.cases if test.step_inputs):
            for step in (step for pipeline in self.pipelines.values() for step in pipeline.steps):
                settings = step.inputs_in(test.step_inputs)
                if not settings or not isinstance(step.runner, PromptStep):
                    continue
                runner = step.runner.with_settings(settings)
                assert isinstance(runner, PromptStep)
                if runner.role not in known and runner.role not in roles:
                    roles[runner.role] = Role(
                        model=self._models.roles[runner.role],
                        params=self.spec.gen_kwargs if runner.role == MAIN else {},
                        needs=frozenset({CHAT}),
                        where=f"{test.where} $.step_inputs.{step.id}.model",
                    )
        self.notices = tuple(dict.fromkeys((*self._models.notices, *self.notices)))
        return roles

    def _make_scorer(self, loaded: LoadedTests) -> None:
        """Create the scorer. Its id contains the expectations, so that a changed one is scored again."""
        parts: dict[str, Any] = {"tests": loaded.gold_fingerprint, "target": self.file.target}
        judge = RubricJudge(self.spec.judge_kwargs) if self._preflight.needs_judge else None
        self._judge: JudgeInfo | None = None
        if judge is not None:
            assert self.spec.judge is not None
            self._judge = rubric_judge_info(self.spec.judge, judge.fingerprint, [METRIC])
            if self.options.min_kappa is not None:
                require_kappa([self._judge], self.options.min_kappa)
            parts["judge"] = self._judge.fingerprint
        parts["outputs"] = self.file.outputs
        agent = self._agents.get(self.pipelines[self.variants[0]].target)
        if agent is not None and agent.rules():
            parts["agent_rules"] = agent.rules()
        self._score_parts = parts
        model = self.spec.judge if judge is not None else None
        self._scorer = PipelineScorer(f"pipeline@{fingerprint([parts, model])}", self._checkers, judge)
        self.scorers = [self._scorer]

    # Cases

    def rows(self, facts: dict[str, Any] | None = None) -> GroupRows:
        """Return the groups of all testsets."""
        return GroupRows(self._tests, {"sets": self._tests.sets, "variants": self.variants})

    def subjects(self) -> Sequence[str]:
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
        return await self._scorer.passed(case, records, part)

    # Results

    def finish(self, results: Results[CaseGroup], run: RunFacts) -> Outcome:
        """Count the verdicts and write the three result files into the run's folder."""
        outputs = {output.key: None for built in self.pipelines.values() for output in built.outputs}
        files = ResultFiles(run.folder, list(outputs), self.variants)
        junit = JunitFile(run.folder, self.file.id, self.variants)
        outfile = PromptLabCsv(Path(self.options.outfile), list(outputs)) if self.options.outfile else None
        tallies = {name: VariantTally([step.id for step in built.steps]) for name, built in self.pipelines.items()}
        with closing(files), closing(outfile) if outfile else nullcontext():
            # The cases of one row (one per variant) are adjacent. The CSV file needs them together.
            for _, cases in groupby(results, key=lambda result: result.row.number):
                for test_results in zip(*map(_test_results, cases), strict=True):
                    files.write(test_results)
                    for result in test_results:
                        tallies[result.variant].add(result.set, result.test, result.output, result.score)
                        junit.add(result)
                        if outfile is not None:
                            outfile.write(result)
        junit.close({name: tally.sets for name, tally in tallies.items()})
        judges = [with_calibration(self._judge)] if self._judge else []
        return Outcome(
            build_report(tallies, judges),
            [*files.paths, junit.path, *([outfile.path] if outfile else [])],
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
        models = {name: role.model for name, role in self.roles.items()}
        all_tests = [test for group in self._tests.groups for test in group.cases]
        calls: list[PlannedCalls] = []
        for variant, built in self.pipelines.items():
            for step in built.steps:
                what = f"step {step.id}" if len(self.variants) == 1 else f"step {step.id} of {variant}"
                calls += planned_calls(step, what, all_tests, models)
        if self._preflight.needs_judge:
            judged = self._preflight.judged_checks * len(self.variants)
            calls.append(PlannedCalls(what="judge", model=self.spec.judge or "", calls=judged))
        return Overview(facts=facts, calls=calls)

    # `assay check` and `assay show`


def _check_subject(options: PipelineOptions) -> None:
    """Raise UsageError unless the options name a pipeline, or an agent with flows."""
    if options.agent and options.pipeline:
        raise UsageError(f"--agent {options.agent} and {options.pipeline}: pass one of them")
    if options.agent and options.variant:
        raise UsageError("an agent has flows instead of variants; pass --flows, not --variant")
    if options.flows and not options.agent:
        raise UsageError("--flows are those of an agent; pass --agent NAME, or --variant for a pipeline")
    if not options.agent and not options.pipeline:
        raise UsageError("no pipeline given; use: assay pipeline FILE.yaml --testset TESTS.jsonl")


def _select_variants(file: PipelineFile, names: list[str]) -> list[str]:
    """Return the variants to run, each once. `all` means those of the file, with the baseline first."""
    selected = list(file.variants) if ALL in names else []
    selected += [name for name in names if name != ALL]
    return list(dict.fromkeys(selected)) or [BASELINE]


def _select_flows(file: PipelineFile, flows: list[str], names: list[str]) -> list[str]:
    """Return the flows of an agent to run, each once. Without names they are all of its flows."""
    for name in names:
        if name not in flows and name != ALL:
            raise UsageError(f"{file.path}: {unknown('flow', name, flows)}")
    return flows if ALL in names else list(dict.fromkeys(names)) or flows


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
