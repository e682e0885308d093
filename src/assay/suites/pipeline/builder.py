"""Makes a runnable pipeline of a pipeline file, one for each variant; everything wrong is found at once.

builder = PipelineBuilder(file, "baseline", StepModels(spec.model), CodeRunners(own, foreign))
pipeline = builder.build()
refuse(file.problems, file.path)
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NamedTuple

from jinja2 import Environment, TemplateError, meta
from msgspec import Meta, Struct, field

from assay.core import registry
from assay.core.errors import InputError, UsageError
from assay.core.expressions import Expression, ExpressionProblem
from assay.core.registry import unknown
from assay.core.schema import KeyPath, convert
from assay.core.templates import Template, TemplateProblem
from assay.scoring.expectations import Rule, rule_of, rule_problems
from assay.solvers.code import Code, CodeRunner
from assay.solvers.steps.aggregate_step import SETTINGS, AggregateSettings, AggregateStep, settings_problems
from assay.solvers.steps.batch import BATCH_ITEMS, Batch, batch_problems
from assay.solvers.steps.code_step import DEFAULT_TIMEOUT, CodeStep
from assay.solvers.steps.hop_step import HopStep, hop_step
from assay.solvers.steps.pipeline import CODE, Pipeline, PipelineOutput, Step, ValuePath
from assay.solvers.steps.prompt_step import Parser, PromptStep, parser
from assay.solvers.steps.runner import StepRunner
from assay.suites.hop.target import find_target
from assay.suites.pipeline.pipeline_file import READER_KEYS, PipelineFile, output_key

MAIN = "main"

_BATCH_KEYS = ("batch_size", "concurrent", "max_workers", "with_item")
# Providers that know many models by name: a step may then name one without its provider.
_PROVIDERS_OF_MANY = ("openai", "openai-completions")
# What a strategy cannot do without. A test may give it, but only `custom` may lack its code in the file.
_NEEDED_SETTING = {"stats": "fields", "filter": "condition", "group": "group_by"}
_parse_template = Environment(autoescape=False).parse  # noqa: S701 - only to read names, nothing is rendered

_SECONDS = "seconds, more than 0"
_LARGEST = 1.7e308  # finite: a timeout of .inf is a mistake
_Timeout = (
    Annotated[int, Meta(gt=0, description=_SECONDS)]
    | Annotated[float, Meta(gt=0, le=_LARGEST, description=_SECONDS)]
)
_Count = Annotated[int, Meta(ge=0, description="a whole number from 0 on")]
_Mapping = dict[Any, Any]


class StepKeys(Struct, forbid_unknown_fields=True):
    """The keys that every step may have."""

    id: Any = None
    type: Any = None
    input_mapping: _Mapping | None = None
    output_key: Any = None
    depends_on: list[Any] | None = None
    required: bool | None = None
    timeout: _Timeout | None = None
    retry: _Count | None = None
    batch_mode: bool | None = None
    batch_size: Any = None
    concurrent: Any = None
    max_workers: Any = None
    with_item: Any = None


class PromptKeys(StepKeys):
    """The keys of a prompt step."""

    template: Any = None
    system: Any = None
    model: str | None = None
    params: _Mapping | None = None
    output_parser: Any = None
    parser: Any = None
    agent: Any = None
    flow: Any = None
    defaults: _Mapping | None = None


class CodeKeys(StepKeys):
    """The keys of a code step."""

    code: Any = None
    language: Any = None
    env_vars: Any = None


class AggregateKeys(CodeKeys):
    """The keys of an aggregate step."""

    strategy: Any = None
    separator: Any = None
    fields: Any = None
    condition: Any = None
    group_by: Any = None
    summary_fields: Any = None
    score_field: Any = None
    include_distribution: Any = None
    aggregation_strategy: Any = None
    output: _Mapping | None = None


class HopKeys(StepKeys):
    """The keys of a hop step."""

    target: str | None = None
    model: str | None = None


class OutputKeys(Struct, forbid_unknown_fields=True):
    """The keys of an output."""

    key: Any = None
    label: Any = None
    rules: Any = None
    from_: Any = field(name="from", default=None)


KEYS_BY_TYPE: dict[str, type[StepKeys]] = {
    "prompt": PromptKeys,
    "code": CodeKeys,
    "aggregate": AggregateKeys,
    "hop": HopKeys,
}
STEP_KEYS = frozenset(key for keys in KEYS_BY_TYPE.values() for key in keys.__struct_fields__)
"""What a step of a file may say, of whatever type."""


class CodeRunners(NamedTuple):
    """Where code runs: the pipeline's own, and that of tests, if it may run."""

    own: CodeRunner
    foreign: CodeRunner | None


class StepModels:
    """Gives each step the role of its model: what --model names, or a model that the step names itself."""

    def __init__(self, main: str) -> None:
        self.main = main
        self._providers = set(registry.names("model"))
        self.roles: dict[str, str] = {}
        self.notices: list[str] = []

    def role(self, name: str | None) -> str:
        """Return the role of a step's model. A bare name is another model of the main one's provider."""
        full = self._full_name(name) if name else self.main
        role = MAIN if full == self.main else full
        self.roles.setdefault(role, full)
        return role

    def _full_name(self, name: str) -> str:
        if "/" in name and name.partition("/")[0] in self._providers:
            return name
        provider = self.main.partition("/")[0]
        if provider in _PROVIDERS_OF_MANY:
            return f"{provider}/{name}"
        notice = f"{self.main or 'no model'} answers in place of {name!r}, which has no provider"
        if notice not in self.notices:
            self.notices.append(notice)
        return self.main


class PipelineBuilder:
    """Builds the pipeline of one variant; problems go to the file's list.

    `values` are the steps as this variant has them. They make the run's identity.
    """

    def __init__(self, file: PipelineFile, variant: str, models: StepModels, runners: CodeRunners) -> None:
        self._file = file
        self._models = models
        self._runners = runners
        self.values = file.variant(variant)
        # Which step makes the output that a path begins with: by output key and by id.
        self._makers = {output_key(step): step["id"] for step in self.values}
        self._makers |= {step["id"]: step["id"] for step in self.values}

    def build(self) -> Pipeline:
        """Build all steps, in an order in which each stands after what it needs."""
        steps = [self._step(step) for step in self.values]
        ordered = self._in_order(steps)
        target = self._file.target or (ordered[-1].id if ordered else "")
        optional = frozenset(field.name for field in self._file.inputs if not field.required)
        outputs = self._outputs(ordered, target)
        return Pipeline(steps=ordered, outputs=outputs, target=target, optional=optional)

    def rules(self) -> list[Rule]:
        """Return what the pipeline's outputs must keep to in every test."""
        found: list[Rule] = []
        for place, output in enumerate(self._file.outputs):
            rules = output.get("rules") if isinstance(output, dict) else None
            if not rules:
                continue
            problems = rule_problems(rules)
            for path, message in problems:
                self._add(("outputs", place, "rules"), f"{path}: {message}")
            if not problems and isinstance(output.get("key"), str):
                found += [rule_of({**rule, "target": output["key"]}) for rule in rules]
        return found

    def _add(self, path: KeyPath, message: str, level: str = "error") -> None:
        self._file.add(path, message, level)

    def _step(self, step: dict[str, Any]) -> Step:
        at: KeyPath = ("steps", step["at"])
        own = {key: value for key, value in step.items() if key not in READER_KEYS}
        # With a wrong type nobody knows the step's keys; the type alone is the mistake then.
        kind = KEYS_BY_TYPE.get(step["type"])
        keys: Any = PromptKeys()
        if kind is not None:
            keys = convert(own, kind, self._file.yaml, self._file.problems, at) or kind()
        sources = self._sources(keys.input_mapping or {}, at)
        runner = self._runner(step, keys, at)
        timeout = None
        if keys.timeout is not None and not runner.enforces_timeout:
            timeout = float(keys.timeout)
        return Step(
            id=step["id"],
            kind=step["type"],
            output_key=output_key(step),
            runner=runner,
            sources=sources,
            after=self._after(step, sources, keys.depends_on or [], at),
            required=keys.required is not False,
            timeout=timeout,
            retry=keys.retry or 0,
            batch=self._batch(step, keys, at),
        )

    def _runner(self, step: dict[str, Any], keys: Any, at: KeyPath) -> StepRunner:
        timeout = float(keys.timeout) if keys.timeout is not None else None
        if isinstance(keys, AggregateKeys):
            return self._aggregate(step, keys, at, timeout or DEFAULT_TIMEOUT)
        if isinstance(keys, HopKeys):
            return self._hop(step, keys, at, timeout)
        if isinstance(keys, CodeKeys):
            return CodeStep(
                code=self._code(step, keys, at) or Code("", ""),
                runner=self._runners.own,
                sandbox=self._runners.foreign,
                timeout=timeout or DEFAULT_TIMEOUT,
            )
        return self._prompt(step, keys, at)

    def _hop(self, step: dict[str, Any], keys: HopKeys, at: KeyPath, timeout: float | None) -> HopStep:
        """A function and its code. Without --model it may ask no model."""
        role = self._models.role(keys.model) if keys.model or self._models.main else MAIN
        target = keys.target
        if not target:
            self._add(at, "a hop needs a target: FILE.py:function")
            return hop_step(dict, role, frozenset(), timeout)
        beside = self._file.path.parent / target
        if beside.is_dir() or ".py:" in target:  # else it is the name of a module
            target = str(beside)
        try:
            found = find_target(target, self._file.path)
        except (InputError, UsageError) as error:
            self._add((*at, "target"), str(error))
            return hop_step(dict, role, frozenset(), timeout)
        step["code_identity"] = found.code_identity
        inputs = frozenset(found.contract.inputs) if found.contract else frozenset[str]()
        return hop_step(found.function, role, inputs, timeout)

    def _prompt(self, step: dict[str, Any], keys: PromptKeys, at: KeyPath) -> PromptStep:
        template, system = step.get("template"), step.get("system")
        if not isinstance(template, str):
            self._add(at, "a prompt needs a template, or an agent and a flow")
            template = ""
        return PromptStep(
            role=self._models.role(keys.model),
            template=self._template(template, (*at, "template")),
            system=self._template(str(system), (*at, "system")) if system else None,
            parse=self._parser(step, at),
            params=keys.params or {},
            defaults=keys.defaults or {},
        )

    def _template(self, text: str, at: KeyPath) -> Template:
        try:
            return Template(text)
        except TemplateProblem as problem:
            self._add(at, str(problem))
            return Template("")

    def _parser(self, step: dict[str, Any], at: KeyPath) -> Parser:
        key = "output_parser" if "output_parser" in step else "parser"
        try:
            return parser(step.get(key))
        except ValueError as error:
            self._add((*at, key), str(error))
            return str.strip

    def _aggregate(
        self, step: dict[str, Any], keys: AggregateKeys, at: KeyPath, timeout: float
    ) -> AggregateStep:
        own = {key: step[key] for key in SETTINGS if key in step}
        if "aggregation_strategy" in step:
            own.setdefault("strategy", step["aggregation_strategy"])
        problems = list(settings_problems(own))
        for problem in problems:
            self._add(at, problem)
        settings = AggregateSettings() if problems else AggregateSettings(**own)
        needed = _NEEDED_SETTING.get(settings.strategy)
        if needed is not None and not own.get(needed):
            self._add(at, f"the strategy `{settings.strategy}` needs `{needed}`")
        if settings.condition:
            try:
                Expression(settings.condition)
            except ExpressionProblem as problem:
                self._add((*at, "condition"), str(problem))
        shape: dict[str, ValuePath] = {}
        for key, path in (keys.output or {}).items():
            # `[0]` picks an item of the result, `mean` a key of it.
            text = f"result{path}" if str(path).startswith("[") else f"result.{path}"
            try:
                shape[str(key)] = ValuePath(text)
            except ValueError as error:
                self._add((*at, "output", key), str(error))
        return AggregateStep(
            settings=settings,
            items=self._items_name(step, keys),
            shape=shape,
            code=self._code(step, keys, at) if settings.strategy == "custom" else None,
            runner=self._runners.own,
            sandbox=self._runners.foreign,
            timeout=timeout,
        )

    def _items_name(self, step: dict[str, Any], keys: AggregateKeys) -> str:
        """Return the name of the list to aggregate: `items`, or the only name that is mapped.

        Without a mapping it is the output of the nearest batch step above, else the test's batch items.
        """
        names = list(keys.input_mapping or {})
        if "items" in names:
            return "items"
        if names:
            return str(names[0])
        above = self.values[: self.values.index(step)]
        batches = [other for other in above if other.get("batch_mode")]
        return output_key(batches[-1]) if batches else BATCH_ITEMS

    def _code(self, step: dict[str, Any], keys: CodeKeys, at: KeyPath) -> Code | None:
        if keys.env_vars:
            message = "they are not passed on; code reads the environment"
            self._add((*at, "env_vars"), message, "warning")
        if step.get("language", "python") != "python":
            self._add((*at, "language"), f"only python runs here, not {step['language']!r}")
            return None
        if not isinstance(step.get("code"), str):
            if step["type"] == CODE:
                self._add(at, "a code step needs code or code_file")
            return None
        name = str(step.get("code_name") or self._file.yaml.where(*at, "code"))
        try:
            compile(step["code"], name, "exec")
        except SyntaxError as error:
            self._add((*at, "code"), f"line {error.lineno}: {error.msg}")
        return Code(step["code"], name)

    def _batch(self, step: dict[str, Any], keys: StepKeys, at: KeyPath) -> Batch | None:
        own = {key: step[key] for key in _BATCH_KEYS if key in step}
        problems = list(batch_problems(own))
        for problem in problems:
            self._add(at, problem)
        return Batch(**own) if keys.batch_mode and not problems else None

    def _sources(self, mapping: _Mapping, at: KeyPath) -> dict[str, ValuePath]:
        """Return where a step takes its mapped values from."""
        sources: dict[str, ValuePath] = {}
        for name, text in mapping.items():
            source = self._source(text, (*at, "input_mapping", name))
            if source is not None:
                sources[str(name)] = source
        return sources

    def _source(self, text: Any, at: KeyPath) -> ValuePath | None:
        """A path begins at an output, an input or the batch items."""
        try:
            source = ValuePath(str(text))
        except ValueError as error:
            self._add(at, str(error))
            return None
        declared = self._file.declared
        roots = {*self._makers, *declared, BATCH_ITEMS, "inputs"}
        # A file that declares no inputs may use any name: tests say which there are.
        if declared and source.root not in roots:
            self._add(at, unknown("input or output", source.root, sorted(roots)))
            return None
        return source

    def _after(
        self, step: dict[str, Any], sources: dict[str, ValuePath], depends_on: list[Any], at: KeyPath
    ) -> frozenset[str]:
        """Return the ids of the steps that must have ended: by mapping, by template names, by `depends_on`.

        A step without a mapping waits for what its prompt names; code and aggregates see all steps above.
        """
        after = {self._makers[source.root] for source in sources.values() if source.root in self._makers}
        if not sources and step["type"] == "prompt":
            names = template_names(str(step.get("template", "")), str(step.get("system", "")))
            after |= {self._makers[name] for name in names if name in self._makers} - {step["id"]}
        elif not sources:
            after |= {other["id"] for other in self.values[: self.values.index(step)]}
        for other in depends_on:
            if isinstance(other, str) and other in self._makers:
                after.add(self._makers[other])
            else:
                ids = [each["id"] for each in self.values]
                self._add((*at, "depends_on"), unknown("step", str(other), ids))
        return frozenset(after)

    def _in_order(self, steps: list[Step]) -> list[Step]:
        """File order, except that no step stands before one it waits for. A circle is named and left as is."""
        done: set[str] = set()
        ordered: list[Step] = []
        waiting = list(steps)
        while waiting:
            ready = next((step for step in waiting if step.after <= done), None)
            if ready is None:
                circle = _circle({step.id: step.after for step in waiting})
                place = next(step["at"] for step in self.values if step["id"] == circle[0])
                self._add(("steps", place), f"steps wait for each other: {' → '.join(circle)}")
                return steps
            waiting.remove(ready)
            ordered.append(ready)
            done.add(ready.id)
        return ordered

    def _outputs(self, steps: list[Step], target: str) -> list[PipelineOutput]:
        """Return the declared outputs; where there are none, what the evaluated step gives."""
        outputs: list[PipelineOutput] = []
        for place, item in enumerate(self._file.outputs):
            at: KeyPath = ("outputs", place)
            entry = {"key": item} if isinstance(item, str) else item
            if not isinstance(entry, dict) or not isinstance(entry.get("key"), str):
                self._add(at, "an output is a key, or {key, label, from}")
                continue
            convert(entry, OutputKeys, self._file.yaml, self._file.problems, at)
            source = self._source(entry.get("from") or entry["key"], at)
            if source is not None and source.root not in self._makers:
                self._add(at, f"no step has the output {source.root!r}")
            elif source is not None:
                outputs.append(PipelineOutput(entry["key"], source, self._makers[source.root]))
        if self._file.outputs or self._file.problems:  # with mistakes in it nothing runs
            return outputs
        return [
            PipelineOutput(step.output_key, ValuePath(step.output_key), step.id)
            for step in steps
            if step.id == target
        ]


def template_names(*templates: str) -> set[str]:
    """Return the variables of templates. One that does not compile is reported elsewhere."""
    names: set[str] = set()
    for template in templates:
        try:
            names |= meta.find_undeclared_variables(_parse_template(template))
        except TemplateError:
            continue
    return names


def code_folder(file: PipelineFile) -> Path:
    """Return the folder that the pipeline's own code may import from."""
    return file.path.resolve().parent


def _circle(waiting: dict[str, frozenset[str]]) -> list[str]:
    """Return one way around, from a step back to itself."""
    path = [min(waiting)]
    while True:
        following = min(other for other in waiting[path[-1]] if other in waiting)
        if following in path:
            return [*path[path.index(following) :], following]
        path.append(following)
