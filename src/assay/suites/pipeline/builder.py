"""Builds the runnable pipeline of one variant from a pipeline file.

    builder = PipelineBuilder(file, "baseline", StepModels(spec.model), CodeRunners(runner, sandbox))
    pipeline = builder.build()
    refuse(file.problems, file.path)

Problems are not raised but added to `file.problems`, so that `refuse` reports all of them at once. A step with
a problem gets a placeholder, such as an empty template; it never runs.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, TemplateError, meta

from assay.core.errors import InputError, MissingExtra, Problem, UsageError, unknown
from assay.core.params import secret_problem
from assay.core.suite import MAIN
from assay.files.schema import KeyPath, convert
from assay.language.conditions import Expression, ExpressionProblem
from assay.language.templates import Template, TemplateProblem
from assay.scoring.expectations import Rule, rule_of, rule_problems
from assay.suites.hop.target import find_target, target_problem
from assay.suites.pipeline.code import Code, CodeRunner, Language, javascript_problem, language_problem
from assay.suites.pipeline.pipeline_file import READER_KEYS, PipelineFile, output_key
from assay.suites.pipeline.project import Agent, agent_home
from assay.suites.pipeline.step_keys import (
    KEYS_BY_TYPE,
    AggregateKeys,
    CodeKeys,
    HopKeys,
    OutputKeys,
    PromptKeys,
    StepKeys,
)
from assay.suites.pipeline.step_models import StepModels
from assay.suites.pipeline.steps.aggregate_step import SETTINGS, AggregateSettings, AggregateStep, settings_problems
from assay.suites.pipeline.steps.batch import BATCH_ITEMS, Batch, batch_problems
from assay.suites.pipeline.steps.code_step import DEFAULT_TIMEOUT, CodeStep
from assay.suites.pipeline.steps.hop_step import HopStep, hop_step
from assay.suites.pipeline.steps.pipeline import CODE, Pipeline, PipelineOutput, Step, ValuePath
from assay.suites.pipeline.steps.prompt_step import Parser, PromptStep, parser
from assay.suites.pipeline.steps.runner import StepRunner

_BATCH_KEYS = ("batch_size", "concurrent", "max_workers", "with_item")
# The setting that an aggregation strategy requires in the file. `custom` is not listed, because its code may
# come from the test.
_NEEDED_SETTING = {"stats": "fields", "filter": "condition", "group": "group_by"}
_parse_template = Environment(autoescape=False).parse  # noqa: S701 - only to read names, nothing is rendered


class CodeRunners(NamedTuple):
    """Runners of code: `runner` for code in the pipeline file, `sandbox` for code in a testset.

    `sandbox` is None without --allow-code.
    """

    runner: CodeRunner
    sandbox: CodeRunner | None


class PipelineBuilder:
    """Builds the pipeline of one variant. Problems are added to the file's list.

    `values` are the steps with the variant's overrides applied. They are part of the run's identity. With `imports`
    False no function of a hop step is imported, and the pipeline cannot run.
    """

    def __init__(
        self,
        file: PipelineFile,
        variant: str,
        models: StepModels,
        runners: CodeRunners,
        *,
        imports: bool = True,
    ) -> None:
        self._file = file
        self._imports = imports
        self._models = models
        self._runners = runners
        self.values = file.variant(variant)
        self.codes: list[Code] = []
        """The code of the steps, without code that is not Python or JavaScript. `build` fills it."""
        self._target = ""
        # The step that produces an output. The output may be named by its key or by the id of the step.
        self._producers = {output_key(step): step["id"] for step in self.values}
        self._producers |= {step["id"]: step["id"] for step in self.values}

    def build(self) -> Pipeline:
        """Build all steps, sorted so that each comes after the steps it needs."""
        steps = [self._step(step) for step in self.values]
        ordered = self._in_order(steps)
        target = self._target = self._file.target or (ordered[-1].id if ordered else "")
        optional = frozenset(field.name for field in self._file.inputs if not field.required)
        outputs = self._outputs(ordered, target)
        return Pipeline(steps=ordered, outputs=outputs, target=target, optional=optional)

    def rules(self) -> list[Rule]:
        """Return the rules of the outputs and of the target step's agent, which apply to every test.

        Call `build` first: it finds the target.
        """
        all_rules: list[Rule] = []
        for position, output in enumerate(self._file.outputs):
            rules = output.get("rules") if isinstance(output, dict) else None
            if not rules:
                continue
            problems = rule_problems(rules)
            for path, message in problems:
                self._add(("outputs", position, "rules"), f"{path}: {message}")
            if not problems and isinstance(output.get("key"), str):
                all_rules += [rule_of({**rule, "target": output["key"]}) for rule in rules]
        return [*all_rules, *self._agent_rules()]

    def agents(self) -> dict[str, Agent]:
        """Return the agents of the steps, by step id. Agents that do not exist are already reported."""
        agents: dict[str, Agent] = {}
        for step in self.values:
            if isinstance(step.get("agent"), str) and "flow" in step:
                with suppress(InputError):
                    agents[step["id"]] = Agent(agent_home(self._file.path.resolve().parent, step["agent"]))
        return agents

    def _agent_rules(self) -> list[Rule]:
        """Return the rules of the target step's agent. They apply to the step's output, as in Prompt Lab."""
        target = self._target
        agent = self.agents().get(target)
        if agent is None or not agent.rules():
            return []
        problems = rule_problems(agent.rules())
        for path, message in problems:
            where = agent.yaml.where("evaluation", "rules")
            self._file.problems.append(Problem(where, f"evaluation.rules{path}: {message}"))
        if problems:
            return []
        # An output of the pipeline has its own name. `output` means the output of the target step.
        key = next(output_key(step) for step in self.values if step["id"] == target)
        names = [output.get("key") if isinstance(output, dict) else output for output in self._file.outputs]
        name = key if not names or key in names else "output"
        return [rule_of({**rule, "target": name}) for rule in agent.rules()]

    def _add(self, path: KeyPath, message: str, level: str = "error") -> None:
        self._file.add(path, message, level)

    def _step(self, step: dict[str, Any]) -> Step:
        key_path: KeyPath = ("steps", step["at"])
        file_keys = {key: value for key, value in step.items() if key not in READER_KEYS}
        # The keys of an unknown type cannot be checked. The reader has already reported the type.
        kind = KEYS_BY_TYPE.get(step["type"])
        keys: Any = PromptKeys()
        if kind is not None:
            keys = convert(file_keys, kind, self._file.yaml, self._file.problems, key_path) or kind()
        sources = self._sources(keys.input_mapping or {}, key_path)
        runner = self._runner(step, keys, key_path)
        timeout = None
        if keys.timeout is not None and not runner.enforces_timeout:
            timeout = float(keys.timeout)
        return Step(
            id=step["id"],
            kind=step["type"],
            output_key=output_key(step),
            runner=runner,
            sources=sources,
            after=self._after(step, sources, keys.depends_on or [], key_path),
            required=keys.required is not False,
            timeout=timeout,
            retry=keys.retry or 0,
            batch=self._batch(step, keys, key_path),
        )

    def _runner(self, step: dict[str, Any], keys: Any, key_path: KeyPath) -> StepRunner:
        timeout = float(keys.timeout) if keys.timeout is not None else None
        if isinstance(keys, AggregateKeys):
            return self._aggregate(step, keys, key_path, timeout or DEFAULT_TIMEOUT)
        if isinstance(keys, HopKeys):
            return self._hop(step, keys, key_path, timeout)
        if isinstance(keys, CodeKeys):
            return CodeStep(
                code=self._code(step, keys, key_path) or Code("", ""),
                runner=self._runners.runner,
                sandbox=self._runners.sandbox,
                timeout=timeout or DEFAULT_TIMEOUT,
            )
        return self._prompt(step, keys, key_path, timeout)

    def _hop(self, step: dict[str, Any], keys: HopKeys, key_path: KeyPath, timeout: float | None) -> HopStep:
        """Build a step that calls a user's function. If neither the step nor --model names a model, it gets none."""
        role = self._models.role(keys.model) if keys.model or self._models.main else MAIN
        target = keys.target
        if not target:
            self._add(key_path, "a hop step needs a target, such as FILE.py:function")
            return hop_step(dict, role, frozenset(), timeout)
        beside = self._file.path.parent / target
        # Paths are relative to the pipeline file. Anything else is the name of a module.
        if beside.is_dir() or ".py:" in target:
            target = str(beside)
        if not self._imports:
            if problem := target_problem(target):
                self._add((*key_path, "target"), problem)
            return hop_step(dict, role, frozenset(), timeout)
        try:
            hop_target = find_target(target, self._file.path)
        except (InputError, UsageError) as error:
            self._add((*key_path, "target"), str(error))
            return hop_step(dict, role, frozenset(), timeout)
        # `step` is an item of `self.values`, so a changed function changes the run's identity.
        step["code_identity"] = hop_target.code_identity
        inputs = frozenset(hop_target.contract.inputs) if hop_target.contract else frozenset[str]()
        return hop_step(hop_target.function, role, inputs, timeout)

    def _prompt(self, step: dict[str, Any], keys: PromptKeys, key_path: KeyPath, timeout: float | None) -> PromptStep:
        template, system = step.get("template"), step.get("system")
        if not isinstance(template, str):
            self._add(key_path, "a prompt step needs a template, or an agent and a flow")
            template = ""
        if problem := secret_problem(keys.params or {}):
            self._add((*key_path, "params"), problem)
        return PromptStep(
            role=self._models.role(keys.model),
            template=self._template(template, (*key_path, "template")),
            system=self._template(str(system), (*key_path, "system")) if system else None,
            parse=self._parser(step, key_path),
            params=keys.params or {},
            defaults=keys.defaults or {},
            timeout=timeout,
            variables=frozenset(
                {
                    *template_names(template, str(system or "")),
                    *map(str, keys.defaults or ()),
                    *map(str, keys.input_mapping or ()),
                    *self._file.declared,
                }
            ),
            find_role=self._models.role,
        )

    def _template(self, text: str, key_path: KeyPath) -> Template:
        try:
            return Template(text)
        except TemplateProblem as problem:
            self._add(key_path, str(problem))
            return Template("")

    def _parser(self, step: dict[str, Any], key_path: KeyPath) -> Parser:
        key = "output_parser" if "output_parser" in step else "parser"
        try:
            return parser(step.get(key))
        except ValueError as error:
            self._add((*key_path, key), str(error))
            return str.strip

    def _aggregate(self, step: dict[str, Any], keys: AggregateKeys, key_path: KeyPath, timeout: float) -> AggregateStep:
        values = {key: step[key] for key in SETTINGS if key in step}
        # Prompt Lab's name for `strategy`.
        if "aggregation_strategy" in step:
            values.setdefault("strategy", step["aggregation_strategy"])
        problems = list(settings_problems(values))
        for problem in problems:
            self._add(key_path, problem)
        settings = AggregateSettings() if problems else AggregateSettings(**values)
        needed = _NEEDED_SETTING.get(settings.strategy)
        if needed is not None and not values.get(needed):
            self._add(key_path, f"the strategy `{settings.strategy}` needs `{needed}`")
        if settings.condition:
            try:
                Expression(settings.condition)
            except ExpressionProblem as problem:
                self._add((*key_path, "condition"), str(problem))
        shape: dict[str, ValuePath] = {}
        for key, path in (keys.output or {}).items():
            # The path is relative to the result: `[0]` is an item of it, `mean` a key.
            text = f"result{path}" if str(path).startswith("[") else f"result.{path}"
            try:
                shape[str(key)] = ValuePath(text)
            except ValueError as error:
                self._add((*key_path, "output", key), str(error))
        return AggregateStep(
            settings=settings,
            items=self._items_name(step, keys),
            shape=shape,
            code=self._code(step, keys, key_path) if settings.strategy == "custom" else None,
            language=step_language(step),
            runner=self._runners.runner,
            sandbox=self._runners.sandbox,
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

    def _code(self, step: dict[str, Any], keys: CodeKeys, key_path: KeyPath) -> Code | None:
        if problem := language_problem(step.get("language")):
            self._add((*key_path, "language"), problem)
            return None
        language = step_language(step)
        if keys.env_vars:
            reader = "code reads the environment" if language == "python" else "JavaScript has no environment"
            self._add((*key_path, "env_vars"), f"they are not passed on; {reader}", "warning")
        if not isinstance(step.get("code"), str):
            if step["type"] == CODE:
                self._add(key_path, "a code step needs code or code_file")
            return None
        code = self._located_code(step, key_path, language)
        try:
            if language == "python":
                compile(code.source, code.name, "exec")
            elif syntax_error := javascript_problem(code.source):
                self._add_syntax_error(code, key_path, *syntax_error)
                return code
            self.codes.append(code)
        except SyntaxError as error:
            self._add_syntax_error(code, key_path, error.lineno, f"it is not Python: {error.msg}")
        except (ValueError, RecursionError, MemoryError) as error:
            self._add((*key_path, "code"), f"it is not Python: {error or 'nested too deeply'}")
        except MissingExtra as error:
            self._add((*key_path, "language"), str(error))
        return code

    def _located_code(self, step: dict[str, Any], key_path: KeyPath, language: Language) -> Code:
        """Return the code of a step with its place: in its own file, or in the pipeline file."""
        source, yaml = step["code"], self._file.yaml
        if name := step.get("code_name"):
            path = self._file.find_code_file(name)
            return Code(source, str(name), language, str(name), path=str(path.absolute()) if path else "")
        in_file = yaml.value["steps"][step["at"]]
        key = "code" if "code" in in_file else "aggregation_code"
        code = Code(source, yaml.where(*key_path, key), language)
        first_line = yaml.text_lines.get((*key_path, key))
        # A variant may replace the code of the step.
        if first_line is None or in_file.get(key) != source:
            return code
        return code._replace(file=str(yaml.path), first_line=first_line)

    def _add_syntax_error(self, code: Code, key_path: KeyPath, line: int | None, message: str) -> None:
        if not code.file:
            self._add((*key_path, "code"), f"line {line}: {message}" if line else message)
            return
        # A file of its own has no keys.
        keys = "" if code.file == code.name else ".".join(map(str, (*key_path, "code"))) + ": "
        self._file.problems.append(Problem(code.place(line), f"{keys}{message}"))

    def _batch(self, step: dict[str, Any], keys: StepKeys, key_path: KeyPath) -> Batch | None:
        values = {key: step[key] for key in _BATCH_KEYS if key in step}
        problems = list(batch_problems(values))
        for problem in problems:
            self._add(key_path, problem)
        return Batch(**values) if keys.batch_mode and not problems else None

    def _sources(self, mapping: dict[Any, Any], key_path: KeyPath) -> dict[str, ValuePath]:
        """Return the value paths of a step's `input_mapping`, by input name."""
        sources: dict[str, ValuePath] = {}
        for name, text in mapping.items():
            source = self._source(text, (*key_path, "input_mapping", name))
            if source is not None:
                sources[str(name)] = source
        return sources

    def _source(self, text: Any, key_path: KeyPath) -> ValuePath | None:
        """Return a value path. It must start with an output, an input, `inputs` or `batch_items`."""
        try:
            source = ValuePath(str(text))
        except ValueError as error:
            self._add(key_path, str(error))
            return None
        declared = self._file.declared
        roots = {*self._producers, *declared, BATCH_ITEMS, "inputs"}
        # If the file declares no inputs, any name may be an input of the tests.
        if declared and source.root not in roots:
            self._add(key_path, unknown("input or output", source.root, sorted(roots)))
            return None
        return source

    def _after(
        self, step: dict[str, Any], sources: dict[str, ValuePath], depends_on: list[Any], key_path: KeyPath
    ) -> frozenset[str]:
        """Return the ids of the steps that must end before this one.

        They come from `input_mapping` and `depends_on`. Without a mapping, a prompt waits for the steps that its
        template names; other steps wait for all steps above, because they get all outputs.
        """
        producers = self._producers
        after = {producers[source.root] for source in sources.values() if source.root in producers}
        if not sources and step["type"] == "prompt":
            names = template_names(str(step.get("template", "")), str(step.get("system", "")))
            after |= {producers[name] for name in names if name in producers} - {step["id"]}
        elif not sources:
            after |= {other["id"] for other in self.values[: self.values.index(step)]}
        for other in depends_on:
            if isinstance(other, str) and other in producers:
                after.add(producers[other])
            else:
                ids = [each["id"] for each in self.values]
                self._add((*key_path, "depends_on"), unknown("step", str(other), ids))
        return frozenset(after)

    def _in_order(self, steps: list[Step]) -> list[Step]:
        """Return the steps in file order, except that a step comes after those it waits for.

        Steps that wait for each other are reported as a problem and returned in file order.
        """
        done: set[str] = set()
        ordered: list[Step] = []
        waiting = list(steps)
        while waiting:
            ready = next((step for step in waiting if step.after <= done), None)
            if ready is None:
                cycle = _find_cycle({step.id: step.after for step in waiting})
                position = next(step["at"] for step in self.values if step["id"] == cycle[0])
                self._add(("steps", position), f"steps wait for each other: {' → '.join(cycle)}")
                return steps
            waiting.remove(ready)
            ordered.append(ready)
            done.add(ready.id)
        return ordered

    def _outputs(self, steps: list[Step], target: str) -> list[PipelineOutput]:
        """Return the declared outputs. If the file declares none, the target step's output is the only one."""
        outputs: list[PipelineOutput] = []
        for position, item in enumerate(self._file.outputs):
            key_path: KeyPath = ("outputs", position)
            entry = {"key": item} if isinstance(item, str) else item
            if not isinstance(entry, dict) or not isinstance(entry.get("key"), str):
                self._add(key_path, "an output is a key, or {key, label, from}")
                continue
            convert(entry, OutputKeys, self._file.yaml, self._file.problems, key_path)
            source = self._source(entry.get("from") or entry["key"], key_path)
            if source is not None and source.root not in self._producers:
                self._add(key_path, f"no step has the output {source.root!r}")
            elif source is not None:
                outputs.append(PipelineOutput(entry["key"], source, self._producers[source.root]))
        # A file with problems does not run, so it needs no default output.
        if self._file.outputs or self._file.problems:
            return outputs
        return [
            PipelineOutput(step.output_key, ValuePath(step.output_key), step.id) for step in steps if step.id == target
        ]


def template_names(*templates: str) -> set[str]:
    """Return the variables of templates. A template that does not compile is ignored: `_template` reports it."""
    names: set[str] = set()
    for template in templates:
        try:
            names |= meta.find_undeclared_variables(_parse_template(template))
        except TemplateError:
            continue
    return names


def step_language(step: dict[str, Any]) -> Language:
    """Return the language of a step's code. The language of a prompt, and an unknown one, is `python`."""
    return "javascript" if step.get("language") == "javascript" else "python"


def code_folder(file: PipelineFile) -> Path:
    """Return the folder from which code in the pipeline file can import modules."""
    return file.path.resolve().parent


def _find_cycle(waiting: dict[str, frozenset[str]]) -> list[str]:
    """Return the ids of steps that wait for each other, with the first id repeated at the end."""
    path = [min(waiting)]
    while True:
        following = min(other for other in waiting[path[-1]] if other in waiting)
        if following in path:
            return [*path[path.index(following) :], following]
        path.append(following)
