"""Makes runnable steps of a pipeline file, one pipeline a variant; everything wrong is found at once."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from assay.core.errors import InputError, UsageError
from assay.core.expressions import Expression, ExpressionProblem
from assay.core.findings import Findings, Key
from assay.core.templates import Template, TemplateProblem
from assay.scoring.expectations import Rule, rule_of, rule_problems
from assay.solvers.code import Code, CodeRunner
from assay.solvers.steps.aggregate_step import SETTINGS, AggregateSettings, AggregateStep, settings_problems
from assay.solvers.steps.batch import BATCH_ITEMS, Batch, batch_problems
from assay.solvers.steps.code_step import DEFAULT_TIMEOUT, CodeStep
from assay.solvers.steps.hop_step import HopStep, hop_step
from assay.solvers.steps.pipeline import AGGREGATE, CODE, HOP, Pipeline, PipelineOutput, Step, ValuePath
from assay.solvers.steps.prompt_step import Parser, PromptStep, parser
from assay.solvers.steps.runner import StepRunner
from assay.suites.hop.target import find_target
from assay.suites.pipeline.file.graph import Graph, key_of
from assay.suites.pipeline.file.models import MAIN, Models
from assay.suites.pipeline.file.reading import NOTES, PipelineFile

_COMMON = ("id", "type", "input_mapping", "output_key", "depends_on", "required", "timeout", "retry")
_BATCH = ("batch_mode", "batch_size", "concurrent", "max_workers", "with_item")
_CODE = ("code", "language", "env_vars")
_OWN = {
    "prompt": (
        *("template", "system", "model", "params", "output_parser", "parser"),
        *("agent", "flow", "defaults"),
    ),
    "code": _CODE,
    "aggregate": (*_CODE, *SETTINGS, "aggregation_strategy", "output"),
    "hop": ("target", "model"),
}
STEP_KEYS = frozenset((*_COMMON, *_BATCH)).union(*_OWN.values())
"""What a step of a file may say, of whatever type."""


class Runners(NamedTuple):
    """Where code runs: the pipeline's own, and that of tests, if it may run."""

    own: CodeRunner
    foreign: CodeRunner | None


class Builder:
    """Builds the pipeline of one variant; problems go to the file's findings."""

    def __init__(self, file: PipelineFile, variant: str, models: Models, runners: Runners) -> None:
        self._file = file
        self._found: Findings = file.found
        self._models = models
        self._runners = runners
        self.values = file.variant(variant)
        self._graph = Graph(self.values, file.declared, file.found)

    def build(self) -> Pipeline:
        """All steps, in an order in which each stands after what it needs."""
        steps = [self._step(step) for step in self.values]
        before = len(self._found.problems)
        self._graph.check_cycles({step.id: step.after for step in steps})
        if len(self._found.problems) == before:
            steps = _ordered(steps)
        target = self._file.target or (steps[-1].id if steps else "")
        optional = frozenset(field.name for field in self._file.inputs if not field.required)
        return Pipeline(steps=steps, outputs=self._outputs(steps, target), target=target, optional=optional)

    def rules(self) -> list[Rule]:
        """What the pipeline's outputs must keep to in every test."""
        found: list[Rule] = []
        for at, output in enumerate(self._file.outputs):
            rules = output.get("rules") if isinstance(output, dict) else None
            problems = rule_problems(rules) if rules else []
            for path, message in problems:
                self._found.add(("outputs", at, "rules"), f"{path}: {message}")
            if rules and not problems and isinstance(output.get("key"), str):
                found += [rule_of({**rule, "target": output["key"]}) for rule in rules]
        return found

    def _step(self, step: dict[str, Any]) -> Step:
        at, found = ("steps", step["at"]), self._found
        if step["type"] in _OWN:  # else its type is the mistake, and nobody knows its keys
            said = {key: value for key, value in step.items() if key not in NOTES}
            found.known(said, (*_COMMON, *_BATCH, *_OWN[step["type"]]), at)
        sources = self._graph.sources(step)
        timeout = found.typed(step, "timeout", (int, float), at)
        if timeout is not None and not 0 < timeout < inf:
            found.add((*at, "timeout"), f"expected seconds, more than 0, found {timeout!r}")
        runner: StepRunner = self._runner(step, at, float(timeout) if timeout else None)
        return Step(
            id=step["id"],
            kind=step["type"],
            output_key=key_of(step),
            runner=runner,
            sources=sources,
            after=self._graph.after(step, sources),
            required=found.typed(step, "required", bool, at) is not False,
            timeout=float(timeout) if timeout and not runner.limits_itself else None,
            retry=self._count(step, "retry", at),
            batch=self._batch(step, at),
        )

    def _runner(self, step: dict[str, Any], at: Key, told: float | None) -> StepRunner:
        timeout = told or DEFAULT_TIMEOUT
        if step["type"] == AGGREGATE:
            return self._aggregate(step, at, timeout)
        if step["type"] == HOP:
            return self._hop(step, at, told)
        if step["type"] == CODE:
            code = self._code(step, at) or Code("", "")
            return CodeStep(code=code, own=self._runners.own, foreign=self._runners.foreign, timeout=timeout)
        return self._prompt(step, at)

    def _hop(self, step: dict[str, Any], at: Key, timeout: float | None) -> HopStep:
        """A function, its code and that of its helpers; without --model it may ask nobody."""
        named = self._found.typed(step, "model", str, at)
        role = self._models.role(named) if named or self._models.main else MAIN
        target = self._found.typed(step, "target", str, at)
        if not target:
            self._found.add(at, "a hop needs a target: FILE.py:function")
            return hop_step(dict, role, frozenset(), timeout)
        beside = self._file.path.parent / target
        if beside.is_dir() or ".py:" in target:  # else a module, which stands nowhere
            target = str(beside)
        try:
            found = find_target(target, self._file.path)
        except (InputError, UsageError) as error:
            self._found.add((*at, "target"), str(error))
            return hop_step(dict, role, frozenset(), timeout)
        step["code_identity"] = found.code_identity
        inputs = frozenset(found.contract.inputs) if found.contract else frozenset[str]()
        return hop_step(found.function, role, inputs, timeout)

    def _prompt(self, step: dict[str, Any], at: Key) -> PromptStep:
        template = step.get("template")
        if not isinstance(template, str):
            self._found.add(at, "a prompt needs a template, or an agent and a flow")
            template = ""
        system = step.get("system")
        return PromptStep(
            role=self._models.role(self._found.typed(step, "model", str, at)),
            template=self._template(template, (*at, "template")),
            system=self._template(str(system), (*at, "system")) if system else None,
            parse=self._parser(step, at),
            params=self._found.typed(step, "params", dict, at) or {},
            defaults=self._found.typed(step, "defaults", dict, at) or {},
        )

    def _template(self, text: str, at: Key) -> Template:
        try:
            return Template(text)
        except TemplateProblem as problem:
            self._found.add(at, str(problem))
            return Template("")

    def _parser(self, step: dict[str, Any], at: Key) -> Parser:
        key = "output_parser" if "output_parser" in step else "parser"
        try:
            return parser(step.get(key))
        except ValueError as error:
            self._found.add((*at, key), str(error))
            return str.strip

    def _aggregate(self, step: dict[str, Any], at: Key, timeout: float) -> AggregateStep:
        given = {key: step[key] for key in SETTINGS if key in step}
        if "aggregation_strategy" in step:
            given.setdefault("strategy", step["aggregation_strategy"])
        for problem in settings_problems(given):
            self._found.add(at, problem)
            given = {}
        settings = AggregateSettings(**given)
        self._check_settings(settings, step, at)
        return AggregateStep(
            settings=settings,
            items=self._items(step),
            shape=self._shape(step, at),
            code=self._code(step, at) if settings.strategy == "custom" else None,
            own=self._runners.own,
            foreign=self._runners.foreign,
            timeout=timeout,
        )

    def _check_settings(self, settings: AggregateSettings, step: dict[str, Any], at: Key) -> None:
        """What a strategy cannot do without; a test may still give it, so `custom` may lack its code."""
        needed = {"stats": "fields", "filter": "condition", "group": "group_by"}.get(settings.strategy)
        if needed and not getattr(settings, needed):
            self._found.add(at, f"the strategy `{settings.strategy}` needs `{needed}`")
        if settings.condition:
            try:
                Expression(settings.condition)
            except ExpressionProblem as problem:
                self._found.add((*at, "condition"), str(problem))

    def _items(self, step: dict[str, Any]) -> str:
        """Under which name the list stands: `items`, or the only name that is mapped."""
        told = step.get("input_mapping")
        mapped = list(told) if isinstance(told, dict) else []
        if "items" in mapped or not mapped:
            return "items" if mapped else self._nearest(step)
        return str(mapped[0])

    def _nearest(self, step: dict[str, Any]) -> str:
        """Without a mapping: what the nearest batch step above gives, else the test's batch items."""
        above = self.values[: self.values.index(step)]
        batches = [other for other in above if other.get("batch_mode")]
        return key_of(batches[-1]) if batches else BATCH_ITEMS

    def _shape(self, step: dict[str, Any], at: Key) -> dict[str, ValuePath]:
        shape = self._found.typed(step, "output", dict, at) or {}
        found = {}
        for key, path in shape.items():
            try:
                found[str(key)] = ValuePath(
                    f"result{path}" if str(path).startswith("[") else f"result.{path}"
                )
            except ValueError as error:
                self._found.add((*at, "output", key), str(error))
        return found

    def _code(self, step: dict[str, Any], at: Key) -> Code | None:
        if step.get("env_vars"):
            self._found.add(
                (*at, "env_vars"), "they are not passed on; code reads the environment", "warning"
            )
        if step.get("language", "python") != "python":
            self._found.add((*at, "language"), f"only python runs here, not {step['language']!r}")
            return None
        if not isinstance(step.get("code"), str):
            if step["type"] == CODE:
                self._found.add(at, "a code step needs code or code_file")
            return None
        name = step.get("code_name") or self._file.yaml.where(*at, "code")
        try:
            compile(step["code"], str(name), "exec")
        except SyntaxError as error:
            self._found.add((*at, "code"), f"line {error.lineno}: {error.msg}")
        return Code(step["code"], str(name))

    def _batch(self, step: dict[str, Any], at: Key) -> Batch | None:
        given = {key: step[key] for key in _BATCH[1:] if key in step}
        wanted = self._found.typed(step, "batch_mode", bool, at)
        problems = list(batch_problems(given))
        for problem in problems:
            self._found.add(at, problem)
        return Batch(**given) if wanted and not problems else None

    def _count(self, step: dict[str, Any], key: str, at: Key) -> int:
        found = self._found.typed(step, key, int, at) or 0
        if found < 0:
            self._found.add((*at, key), "expected a whole number from 0 on")
        return max(0, int(found))

    def _outputs(self, steps: list[Step], target: str) -> list[PipelineOutput]:
        """The declared ones; where there are none, what the evaluated step gives."""
        outputs = []
        for at, given in enumerate(self._file.outputs):
            entry = {"key": given} if isinstance(given, str) else given
            if not isinstance(entry, dict) or not isinstance(entry.get("key"), str):
                self._found.add(("outputs", at), "an output is a key, or {key, label, from}")
                continue
            self._found.known(entry, ("key", "label", "from", "rules"), ("outputs", at))
            source = self._graph.source(entry.get("from") or entry["key"], ("outputs", at))
            if source and source.root not in self._graph.owner:
                self._found.add(("outputs", at), f"no step has the output {source.root!r}")
            elif source:
                outputs.append(PipelineOutput(entry["key"], source, self._graph.owner[source.root]))
        if self._file.outputs or self._found.problems:  # with mistakes in it nothing runs
            return outputs
        found = [step for step in steps if step.id == target]
        return [PipelineOutput(step.output_key, ValuePath(step.output_key), step.id) for step in found]


def _ordered(steps: list[Step]) -> list[Step]:
    """File order, except that no step stands before one it waits for."""
    done: set[str] = set()
    found: list[Step] = []
    while len(found) < len(steps):
        step = next(step for step in steps if step.id not in done and step.after <= done)
        found.append(step)
        done.add(step.id)
    return found


def folder_of(file: PipelineFile) -> Path:
    """Where the pipeline's own code may import from."""
    return file.path.resolve().parent
