"""`assay check` for pipelines, testsets, and Prompt Lab's agents and flows.

A testset is checked against its pipeline: the one that is named, else the one whose `default_testset` it is, else the
only one that lies beside it. `PipelineNeeds` finds what a run would trip over: missing inputs, outputs that no step
has, items without a batch, names in conditions that nothing has.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from assay.core.errors import InputError, Problem, UsageError
from assay.core.file_check import NOT_RUN, CheckOptions, FileCheck, contents, did_you_mean, nearest
from assay.files.json_objects import FileObject
from assay.files.paths import path_from_here
from assay.files.schema import ValueSource
from assay.files.yaml_files import YAML_SUFFIXES
from assay.language.conditions import Expression, ExpressionProblem
from assay.suites.pipeline.agent_check import check_agent, check_flow
from assay.suites.pipeline.builder import CodeRunners, PipelineBuilder, template_names
from assay.suites.pipeline.code import ProcessRunner, entry_problem
from assay.suites.pipeline.pipeline_file import PipelineFile, default_testset
from assay.suites.pipeline.preflight import Preflight, judge_agent_notices
from assay.suites.pipeline.project import (
    Agent,
    is_agent,
    is_flow,
    missing_testset,
    pipeline_folders,
    yaml_keys,
)
from assay.suites.pipeline.step_models import StepModels
from assay.suites.pipeline.steps.batch import BATCH_ITEMS
from assay.suites.pipeline.steps.pipeline import AGGREGATE, Pipeline
from assay.suites.pipeline.template_check import unprovided_variables
from assay.suites.pipeline.testset.case import TestCase
from assay.suites.pipeline.testset.scan import in_file_order, scan_file
from assay.suites.pipeline.testset.validation import BESIDE, FIELDS, expectation, is_gold, is_v2
from assay.usercode.definitions import model_file_problem

_PIPELINE_KIND, _TESTSET_KIND = "pipeline", "testset (pipeline)"
_AGENT_KIND, _FLOW_KIND = "agent of Prompt Lab (pipeline)", "flow of Prompt Lab (pipeline)"
# Names that a condition may use besides the inputs of its test.
_CONDITION_NAMES = ("inputs", "tags", "variant")
# Top-level keys of a record, and the usual names of a single input and expectation.
_RECORD_KEYS = [*FIELDS, *sorted(BESIDE), "expected", "expected_output"]
# Folders may have thousands of YAML_SUFFIXES files of other programs. The pipeline of a testset is among few.
_MOST_CANDIDATES = 100


def is_pipeline(path: Path) -> bool:
    """Return whether a file is YAML_SUFFIXES with a list `steps`."""
    return isinstance(yaml_keys(path).get("steps"), list)


def examine(path: Path, options: CheckOptions) -> FileCheck:
    """Return the check of a pipeline with all its variants, a testset, an agent or a flow."""
    if path.suffix not in YAML_SUFFIXES:
        return _examine_testset(path, options)
    if is_agent(path):
        return _examine_agent(path)
    if not is_pipeline(path) and is_flow(path):
        return FileCheck(kind=_FLOW_KIND, problems=check_flow(path))
    return _examine_pipeline(path, options)


def _examine_agent(path: Path) -> FileCheck:
    keys = yaml_keys(path)
    flows = keys.get("flows")
    count = len(flows) if isinstance(flows, list) else 0
    return FileCheck(
        kind=_AGENT_KIND,
        contents=contents({"flow": count}),
        problems=check_agent(path),
        notes=judge_agent_notices([Agent(path.parent).judge_agent_keys()]) if keys else [],
    )


def _examine_pipeline(path: Path, options: CheckOptions) -> FileCheck:
    """Check all variants of a pipeline. Each problem is reported once."""
    try:
        file = PipelineFile(path)
        builders = _builders(file, imports=options.run_code)
        for variant, builder in zip(file.variants, builders, strict=True):
            builder.build()
            file.problems += unprovided_variables(file, variant, builder.values)
            file.problems += [Problem(code.name, message) for code in builder.codes if (message := entry_problem(code))]
            for step in builder.values:
                if problem := model_file_problem(str(step.get("model") or ""), path):
                    file.add(("steps", step["at"], "model"), problem)
        builders[0].rules()
        testset = file.default_testset
        if testset is not None and (message := missing_testset(testset, path, file.id)):
            file.add(("default_testset",), message, "warning")  # a run may name another one
    except InputError as error:
        return FileCheck(kind=_PIPELINE_KIND, problems=error.problems)
    notes = judge_agent_notices(agent.judge_agent_keys() for agent in builders[0].agents().values())
    has_functions = any(step["type"] == "hop" for step in file.steps)
    return FileCheck(
        kind=_PIPELINE_KIND,
        contents=contents({"step": len(file.steps), "variant": len(file.variants)}),
        problems=list(dict.fromkeys(file.problems)),
        notes=[*notes, NOT_RUN] if has_functions and not options.run_code else notes,
    )


def _builders(file: PipelineFile, *, imports: bool) -> list[PipelineBuilder]:
    runners = CodeRunners(ProcessRunner(1), None)
    return [PipelineBuilder(file, name, StepModels(""), runners, imports=imports) for name in file.variants]


# Testsets


def _examine_testset(path: Path, options: CheckOptions) -> FileCheck:
    """Check a testset, against its pipeline if that is known."""
    notes: list[str] = []
    pipeline = options.beside
    if pipeline is None:
        pipeline = pipeline_of(path)
        notes.append(
            f"checked for the pipeline {pipeline}; for another one: --pipeline FILE"
            if pipeline
            else "checked without a pipeline; --pipeline FILE also finds missing inputs and unknown outputs"
        )
    needs = None
    declared: frozenset[str] = frozenset()
    steps: frozenset[str] | None = None
    if pipeline is not None:
        try:
            file = PipelineFile(pipeline)
            declared, steps = file.declared, file.known_steps
            needs = PipelineNeeds(file)
        except InputError as error:
            return FileCheck(kind=_TESTSET_KIND, problems=error.problems)
    # Whether code is allowed and a judge is named is up to the run, so neither is a problem of the file.
    preflight = Preflight(
        allow_code=True,
        judge=True,
        pipelines=needs.pipelines if needs else None,
        inputs=declared,
        model_problem=lambda model: model_file_problem(model, path),
    )
    problems: list[Problem] = []
    scanned = scan_file(path, problems, declared, steps)
    versions: set[str] = set()
    for record in scanned.records:
        versions.add("v2" if is_v2(record.record.value) else "v1")
        if record.case is None:
            continue
        preflight.check(record.case, record.record, problems)
        if needs is not None:
            problems += needs.problems(record.case, record.record)
        else:
            problems += _doubts(record.case, record.record)
    notes += [*preflight.code_notices(), *judge_agent_notices([preflight.judge_agent_keys()])]
    form = " and ".join(sorted(versions))
    return FileCheck(
        kind=f"testset {form} (pipeline)" if form else _TESTSET_KIND,
        contents=contents({"test": len(scanned.records)}),
        problems=in_file_order(path, problems),
        notes=notes,
    )


def pipeline_of(testset: Path) -> Path | None:
    """Return the pipeline that names a testset as its default, else the only pipeline beside it; None if unclear."""
    files = _pipelines_beside(testset)
    candidates = [file for file in files if _names_testset(file, testset)] or files
    return path_from_here(candidates[0]) if len(candidates) == 1 else None


def is_default_testset(path: Path) -> bool:
    """Return whether a pipeline beside a `.jsonl` file names it as its `default_testset`."""
    if path.suffix != ".jsonl" or not path.is_file():
        return False
    return any(_names_testset(file, path) for file in _pipelines_beside(path))


def _pipelines_beside(testset: Path) -> list[Path]:
    return [
        file
        for folder in pipeline_folders(testset)
        if folder.is_dir()
        for file in islice(
            (file for file in sorted(folder.iterdir()) if file.suffix in YAML_SUFFIXES), _MOST_CANDIDATES
        )
        if is_pipeline(file)
    ]


def _names_testset(pipeline: Path, testset: Path) -> bool:
    try:
        path = Path(default_testset(PipelineFile(pipeline)))
        return path.resolve() == testset.resolve() or path.resolve() in testset.resolve().parents
    except (InputError, UsageError):
        return False


class PipelineNeeds:
    """What a pipeline needs of a test and can give it. `problems` yields what a run of the test would trip over."""

    def __init__(self, file: PipelineFile) -> None:
        self._file = file
        builders = zip(file.variants, _builders(file, imports=False), strict=True)
        self.pipelines: dict[str, Pipeline] = {name: builder.build() for name, builder in builders}
        self._required = [field.name for field in file.inputs if field.required]
        self._outputs = sorted({output.key for each in self.pipelines.values() for output in each.outputs})
        self._takes_items = any(_takes_items(pipeline) for pipeline in self.pipelines.values()) or any(
            BATCH_ITEMS in template_names(str(step.get("template", "")), str(step.get("system", "")))
            or step["type"] in ("code", "hop")
            for step in file.steps
        )

    def problems(self, test: TestCase, record: FileObject) -> Iterator[Problem]:
        """Yield the problems of one test. Errors would stop or falsify a run; the rest are warnings."""
        names = _given_names(test)
        for name in self._required:
            if name not in names:
                yield record.problem((), f"the input {name!r} is missing; the pipeline requires it")
        yield from self._unknown_keys(test, record)
        if test.should_evaluate_final():
            yield from self._unknown_outputs(test, record)
        if test.batch_items is not None and not self._takes_items:
            message = "no step of the pipeline reads them: none has batch_mode, and none aggregates"
            yield record.problem((BATCH_ITEMS,), message)
        known = sorted({*names, *self._file.declared, *_CONDITION_NAMES})
        yield from _unknown_condition_names(test, known, record, "error")

    def _unknown_keys(self, test: TestCase, record: FileObject) -> Iterator[Problem]:
        """Yield inputs that the pipeline does not declare. A pipeline that declares none takes any."""
        if not self._file.declared:
            yield from _misspelled_keys(test, record)
            return
        explicit = test.raw_data.get("inputs")
        for name in test.inputs:
            if name in self._file.declared:
                continue
            in_inputs = isinstance(explicit, dict) and name in explicit
            path = ("inputs", name) if in_inputs else (name,)
            names = sorted(self._file.declared) if in_inputs else [*sorted(self._file.declared), *_RECORD_KEYS]
            near = nearest(name, names)
            if near:
                yield record.problem(path, f"is no input of the pipeline; did you mean {near!r}?")
            else:
                listed = ", ".join(sorted(self._file.declared))
                yield record.problem(path, f"is no input of the pipeline; it has {listed}", "warning")

    def _unknown_outputs(self, test: TestCase, record: FileObject) -> Iterator[Problem]:
        ignored = test.evaluation_config.get("ignore_fields") or ()
        explicit = test.raw_data.get("expected_outputs")
        for name in test.expected_outputs:
            if name in self._outputs or name == "output" or name in ignored:
                continue
            in_outputs = isinstance(explicit, dict) and name in explicit
            path = ("expected_outputs", name) if in_outputs else (f"expected_{name}",)
            hint = did_you_mean(name, [*self._outputs, "output"])
            yield record.problem(path, f"the pipeline has no output {name!r}{hint}")


def _takes_items(pipeline: Pipeline) -> bool:
    return any(
        step.batch is not None
        or step.kind == AGGREGATE
        or any(source.root == BATCH_ITEMS for source in step.sources.values())
        for step in pipeline.steps
    )


def _given_names(test: TestCase) -> set[str]:
    """Return the names of all values that a test gives to steps: inputs, parameters, step inputs, keys of its items."""
    names = {*test.inputs, *(test.parameters or ())}
    for values in test.step_inputs.values():
        names.update(values)
    items = [set(item) for item in test.batch_items or ()]
    return names | set[str].intersection(*items) if items else names


def _doubts(test: TestCase, record: FileObject) -> Iterator[Problem]:
    """Yield what is probably a mistake of a test whose pipeline is not known."""
    yield from _misspelled_keys(test, record)
    known = sorted({*_given_names(test), *_CONDITION_NAMES})
    yield from _unknown_condition_names(test, known, record, "warning")


def _misspelled_keys(test: TestCase, record: FileObject) -> Iterator[Problem]:
    """Yield a warning for each top-level key that is nearly a key of the format.

    Any key may be the name of an input. A text under `input` is one in a v1 record; an object there, or `input` beside
    keys of v2, is nearly always meant as `inputs`.
    """
    raw = test.raw_data
    for key, value in raw.items():
        name = expectation(key)
        if key in _RECORD_KEYS or (is_gold(key) and name is None):
            continue
        # `expected_mood` is the expectation of `mood`, and no misspelled `expected`.
        near = nearest(key, [name for name in _RECORD_KEYS if name != "expected"])
        if not near or (name is None and not is_v2(raw) and not isinstance(value, (dict, list))):
            continue
        use = f"the expectation of an output {name!r}" if name is not None else "an input"
        yield record.problem((key,), f"is read as {use}; did you mean {near!r}?", "warning")


def _unknown_condition_names(test: TestCase, known: list[str], source: ValueSource, level: str) -> Iterator[Problem]:
    if not test.conditions:
        return
    try:
        condition = Expression(test.conditions)
    except ExpressionProblem:
        return  # already reported
    names = set(condition.names)
    # `inputs.language` is the input `language`.
    names |= {field for owner, field in condition.fields if owner == "inputs"}
    for name in sorted(names - set(known)):
        message = f"the name {name!r} has no value in this test{did_you_mean(name, known)}"
        yield source.problem(("conditions",), message, level)
