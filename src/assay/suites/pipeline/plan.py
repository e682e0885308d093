"""A pipeline run, resolved: which tests run through which variants, how they are judged, what is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from assay.core.code import imported_sha256
from assay.core.connect import CHAT
from assay.core.errors import UsageError
from assay.core.hashing import fingerprint
from assay.core.judges import JudgeInfo
from assay.core.protocols import Outcome, Reader, RunFacts
from assay.core.schema import refuse
from assay.core.spec import RunSpec
from assay.core.types import Case
from assay.scoring.judges.rubric import RubricJudge
from assay.solvers.code import OwnCode, Sandbox
from assay.solvers.steps.pipeline import Pipeline, StepsInputs, TestInputs
from assay.solvers.steps.solver import StepsSolver
from assay.store.judges import require_kappa, rubric_judge
from assay.suites.pipeline.builder import CodeRunners, PipelineBuilder, StepModels, code_folder
from assay.suites.pipeline.evaluation import Evaluation
from assay.suites.pipeline.options import PipelineOptions
from assay.suites.pipeline.pipeline_file import ALL, BASELINE, PipelineFile
from assay.suites.pipeline.preflight import Preflight
from assay.suites.pipeline.scorer import METRIC, PipelineScorer
from assay.suites.pipeline.testset.testsets import CaseGroup, CaseSelection, Testsets
from assay.suites.pipeline.writing import Results

_WORKERS = 4


class PipelinePlan:
    """Cases are tests, or tests that depend on each other; the variants of a test stand side by side."""

    def __init__(self, spec: RunSpec) -> None:
        options = spec.options
        assert isinstance(options, PipelineOptions)
        if not options.pipeline:
            raise UsageError("no pipeline is named: assay pipeline FILE.yaml --testset TESTS.jsonl")
        if spec.votes > 1:
            raise UsageError("--votes: the judge of a pipeline is asked once; leave it out")
        self._spec = spec
        self._options = options
        self.file = PipelineFile(Path(options.pipeline))
        self.variants = chosen(self.file, options.variant)
        foreign = Sandbox() if options.allow_code else None
        self._runners = CodeRunners(OwnCode(_WORKERS, code_folder(self.file)), foreign)
        self._build()
        self._look()
        self._score()

    def _build(self) -> None:
        """Every variant's pipeline; raises with all problems of the file."""
        models = StepModels(self._spec.model)
        builders = {name: PipelineBuilder(self.file, name, models, self._runners) for name in self.variants}
        self.pipelines = {name: builder.build() for name, builder in builders.items()}
        self._rules = builders[self.variants[0]].rules()
        refuse(self.file.problems, self.file.path)
        self.roles = dict(models.roles)
        self.needs = frozenset({CHAT}) if models.roles else frozenset[str]()
        self.notices = (*models.notices, *(str(problem) for problem in dict.fromkeys(self.file.problems)))
        self.solver = StepsSolver(self.pipelines)
        self.ask: dict[str, Any] = {
            "steps": {name: builder.values for name, builder in builders.items()},
            "outputs": {name: _said(pipeline) for name, pipeline in self.pipelines.items()},
            "optional": sorted(self.pipelines[self.variants[0]].optional),
        }
        codes = [step.get("code") for builder in builders.values() for step in builder.values]
        texts = [code for code in codes if isinstance(code, str)]
        if imports := imported_sha256(texts, code_folder(self.file)):
            self.ask["imports"] = imports

    def _look(self) -> None:
        """Read and check every test once; raises with all problems of all files."""
        options = self._options
        preflight = Preflight(allow_code=options.allow_code, judge=bool(self._spec.judge))
        self.testsets = Testsets(
            options.testset or [default_testset(self.file)],
            CaseSelection(
                *(frozenset(one) for one in (options.include_tags, options.exclude_tags, options.ids))
            ),
            self.file.declared,
            self.file.known_steps,
            self._spec.limit,
            preflight.check,
        )
        loaded = self.testsets.load()
        self.total = len(loaded.groups) * len(self.variants)
        warnings = [str(note) for note in loaded.notes if note.level == "warning"]
        self.notices = (*self.notices, *preflight.notices(), *warnings)
        self.ask["tests"] = [loaded.asked, list(loaded.sets)]
        self.score: dict[str, Any] = {"tests": loaded.gold, "target": self.file.target}
        self._judge = RubricJudge() if preflight.needs_judge else None

    def _score(self) -> None:
        judge, named = self._judge, self._spec.judge
        self.judge: JudgeInfo | None = None
        if judge is not None:
            assert named is not None
            self.roles["judge"] = named
            self.judge = self._trusted(judge, named)
            self.score["judge"] = self.judge.fingerprint
        self.score["outputs"] = self.file.outputs
        evaluations = {name: Evaluation(pipeline, self._rules) for name, pipeline in self.pipelines.items()}
        scorer = f"pipeline@{fingerprint([self.score, named if judge else None])}"
        self.scorer = PipelineScorer(scorer, evaluations, judge)
        self.scorers = [self.scorer]
        self.passed = self.scorer.passed

    def _trusted(self, judge: RubricJudge, named: str) -> JudgeInfo:
        """The judge decides whether tests pass: refused where it is not known to be good enough for that."""
        identity = rubric_judge(named, judge.fingerprint, [METRIC])
        if self._options.min_kappa is not None:
            require_kappa(identity, self._options.min_kappa)
        return identity

    def prepare(self, facts: dict[str, Any] | None) -> dict[str, Any]:
        """The tests were looked at to know which run this is."""
        return {"sets": self.testsets.load().sets, "variants": self.variants}

    def load(self, skip: Callable[[int], bool]) -> Iterator[Case]:
        """Test after test, each in every variant."""
        count = len(self.variants)
        for group in self.testsets.load().groups:
            for place, variant in enumerate(self.variants):
                if not skip(group.index * count + place):
                    yield case_of(group, variant, group.index * count + place)

    def finish(self, reader: Reader, facts: RunFacts) -> Outcome:
        """The numbers, and the four files in the run's own folder."""
        return Results(self, reader, facts.folder).write(Path(self._spec.output_dir) / self.file.id)

    async def close(self) -> None:
        """End the processes in which code ran."""
        await self._runners.own.close()
        if self._runners.foreign is not None:
            await self._runners.foreign.close()


def _said(pipeline: Pipeline) -> list[list[str]]:
    """Which outputs an answer holds. Their rules are no part of it: an edited rule only grades anew."""
    return [[output.key, output.source.text] for output in pipeline.outputs]


def chosen(file: PipelineFile, named: list[str]) -> list[str]:
    """The variants to run, each once; `all` are those of the file, the baseline first."""
    every = list(file.variants) if ALL in named else []
    others = [name for name in named if name != ALL]
    return list(dict.fromkeys([*every, *others])) or [BASELINE]


def default_testset(file: PipelineFile) -> str:
    """The testset that the pipeline names, beside it or in `testsets/`."""
    name = file.default_testset
    if name is None:
        raise UsageError(f"{file.path} names no default_testset; give one with --testset")
    beside = file.path.parent
    for folder in (beside, beside / "testsets", beside.parent / "testsets", Path()):
        if (folder / name).exists():
            return str(folder / name)
    raise UsageError(
        f"{file.yaml.where('default_testset')}: there is no testset {name!r} beside the pipeline"
    )


def case_of(group: CaseGroup, variant: str, index: int) -> Case:
    """A group of tests as the engine schedules it: inputs for the steps, the tests themselves for scorers."""
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
    label = group.cases[-1].key
    return Case(index, group.key, group.set, variant, label, StepsInputs(variant, tests), group.cases)
