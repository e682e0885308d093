"""Checks each test before the run starts: invalid expectations, settings of steps, code without permission."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from assay.core.errors import Problem, UsageError
from assay.core.params import check_params
from assay.files.schema import KeyPath, ValueSource, convert
from assay.scoring.expectations import expectation_problems, rule_problems
from assay.suites.pipeline.code import language_problem
from assay.suites.pipeline.steps.pipeline import Pipeline
from assay.suites.pipeline.steps.prompt_step import PromptSettings, PromptStep
from assay.suites.pipeline.testset.case import TestCase

_MODEL_KEYS = ("model", "model_override")
_JUDGE_AGENT_KEYS = ("must_have", "nice_to_have", "judge_agent_id")


class Preflight:
    """Checks tests one by one. Records whether a judge is needed, for how many checks, and whether JavaScript is.

    Code without --allow-code and an expectation `judge:…` without --judge are errors. Code of a test is in the language
    of its step, unless the test names one. With `pipelines`, the variants of the pipeline, the settings of prompt steps
    are checked too. `inputs` are the names that the pipeline declares. `model_problem` returns why a model cannot be
    reached, or "".
    """

    def __init__(
        self,
        *,
        allow_code: bool,
        judge: bool,
        javascript_steps: Collection[str] = (),
        pipelines: Mapping[str, Pipeline] | None = None,
        inputs: Collection[str] = (),
        model_problem: Callable[[str], str] | None = None,
    ) -> None:
        self._allow_code = allow_code
        self._judge = judge
        self._javascript_steps = javascript_steps
        self._pipelines = list((pipelines or {}).values())
        self._model_problem = model_problem
        steps = (step for pipeline in self._pipelines for step in pipeline.steps)
        prompts = (step.runner for step in steps if isinstance(step.runner, PromptStep))
        self._names_read = frozenset(inputs).union(*(prompt.variables for prompt in prompts))
        self.needs_judge = False
        self.needs_javascript = False
        # The number of judge calls per variant, for the estimate of --dry-run.
        self.judged_checks = 0
        # Numbers of tests with expectations that this run does not evaluate.
        self._without_judge = self._without_steps = 0
        # Tests with keys for Prompt Lab's judge agent: how many, the keys, and the place of the first test.
        self._for_judge_agent = 0
        self._judge_agent_keys: dict[str, None] = {}
        self._first_for_judge_agent = ""
        # Tests with code, or with a model that is a Python function, by their place.
        self._with_code: dict[str, None] = {}

    def check(self, test: TestCase, source: ValueSource, problems: list[Problem]) -> None:
        """Append the problems of a test whose types are already checked."""
        expected: dict[str, Any] = {
            "expected_outputs": test.expected_outputs,
            "expected_aggregation": test.expected_aggregation,
            "intermediate_expectations": test.intermediate_expectations,
        }
        for name, value in expected.items():
            if value:
                for path, message in expectation_problems(value):
                    problems.append(source.problem((name, path) if path else (name,), message))
        rules = test.evaluation_config.get("rules")
        if rules:
            for path, message in rule_problems(rules):
                problems.append(source.problem(("evaluation_config", f"rules{path}"), message))
        for place in test.code_paths():
            self._with_code[test.where] = None
            if not self._allow_code:
                message = f"{place} is code; code in a testset needs --allow-code"
                problems.append(source.problem((), message))
        self._check_languages(test, source, problems)
        if test.step_inputs:
            self._check_settings(test, source, problems)
        judged = _count_judged(list(expected.values()))
        self.judged_checks += judged
        if judged:
            self.needs_judge = True
            if not self._judge:
                message = "the expectation judge:… needs a judge; pass --judge PROVIDER/NAME"
                problems.append(source.problem((), message))
        if keys := _judge_agent_keys(test.raw_data, self._names_read):
            self._for_judge_agent += 1
            self._judge_agent_keys.update(dict.fromkeys(keys))
            self._first_for_judge_agent = self._first_for_judge_agent or test.where
        if test.intermediate_expectations and not test.should_evaluate_intermediate():
            self._without_steps += 1
        if test.reference is not None and self._judge:
            self.needs_judge = True
            self.judged_checks += 1
        elif test.reference is not None:
            self._without_judge += 1

    def _check_languages(self, test: TestCase, source: ValueSource, problems: list[Problem]) -> None:
        for step, values in test.step_inputs.items():
            if "code" not in values and "aggregation_code" not in values:
                continue
            # Without code, `language` is an input of the step.
            language = values.get("language")
            if problem := language_problem(language):
                problems.append(source.problem(("step_inputs", step, "language"), problem))
            elif language == "javascript" or (language is None and step in self._javascript_steps):
                self.needs_javascript = True

    def _check_settings(self, test: TestCase, source: ValueSource, problems: list[Problem]) -> None:
        """Check the model, timeout and parameters that the test sets for prompt steps, in every variant."""
        for pipeline in self._pipelines:
            for step in pipeline.steps:
                if not isinstance(step.runner, PromptStep):
                    continue
                for name in dict.fromkeys((step.output_key, step.id)):
                    settings = step.runner.settings_in(test.step_inputs.get(name) or {})
                    if not settings:
                        continue
                    path: KeyPath = ("step_inputs", name)
                    if convert(settings, PromptSettings, source, problems, path) is None:
                        continue
                    models = (settings.get(key) for key in _MODEL_KEYS)
                    if any(isinstance(model, str) and model.startswith("python/") for model in models):
                        self._with_code[test.where] = None
                    for key, message in self._setting_problems(settings):
                        problems.append(source.problem((*path, key), message))

    def _setting_problems(self, settings: dict[str, Any]) -> Iterator[tuple[str, str]]:
        params = settings.get("params")
        if isinstance(params, dict):
            if "headers" in params:
                # They may name environment variables, and testsets come from others.
                yield "params", "a test must not set headers; put them into the pipeline or --gen-kwargs"
            else:
                try:
                    check_params(params, "step_inputs")
                except UsageError as error:
                    yield "params", str(error).removeprefix("step_inputs: ")
        for key in _MODEL_KEYS:
            name = settings.get(key)
            if not isinstance(name, str):
                continue
            if name.startswith("python/") and not self._allow_code:
                yield key, "this model is a Python function; code that a testset names needs --allow-code"
            elif problem := self._model_problem(name) if self._model_problem else "":
                yield key, problem

    def code_notices(self) -> Iterator[str]:
        """Yield a sentence about tests that a run without --allow-code refuses, if there are any."""
        if self._with_code:
            tests = f"{_tests(len(self._with_code))} (the first: {next(iter(self._with_code))})"
            yield f"a run needs --allow-code: code, or a Python function as model, in {tests}"

    def judge_agent_keys(self) -> str:
        """Name the keys of the tests that only Prompt Lab's judge agent uses. Empty if there is none."""
        if not self._for_judge_agent:
            return ""
        keys = ", ".join(self._judge_agent_keys)
        first = f" (the first: {self._first_for_judge_agent})" if self._first_for_judge_agent else ""
        return f"{keys} of {_tests(self._for_judge_agent)}{first}"

    def notices(self) -> Iterator[str]:
        """Yield sentences about expectations that this run does not evaluate."""
        if self._without_steps:
            yield (
                f"not evaluated: intermediate_expectations of {_tests(self._without_steps)}; "
                "set evaluate_intermediate: true in evaluation_config to evaluate them"
            )
        if self._without_judge:
            yield (
                f"not evaluated: the reference text `expected` of {_tests(self._without_judge)}; "
                "pass --judge PROVIDER/NAME to evaluate it"
            )


def judge_agent_notices(places: Iterable[str]) -> list[str]:
    """Return the one sentence about keys that only Prompt Lab's judge agent uses. `places` name them; "" is none."""
    keys = "; ".join(dict.fromkeys(filter(None, places)))
    if not keys:
        return []
    advice = 'write what a judge should decide into the tests, as expected_output: "judge:…"'
    return [f"not judged: {keys}. assay has no judge agents; {advice}"]


def _judge_agent_keys(record: Mapping[str, Any], names_read: Collection[str]) -> list[str]:
    """Return the keys of a test for Prompt Lab's judge agent. A key that the pipeline reads is an input."""
    keys = [key for key in _JUDGE_AGENT_KEYS if record.get(key) and key not in names_read]
    expectations = record.get("expectations")
    if isinstance(expectations, dict) and "expectations" not in names_read:
        keys += [f"expectations.{key}" for key in _JUDGE_AGENT_KEYS if expectations.get(key)]
    return keys


def _tests(count: int) -> str:
    return f"{count:,} test{'s' * (count != 1)}"


def _count_judged(value: Any) -> int:
    """Return the number of texts `judge:…` in an expectation."""
    if isinstance(value, str):
        return value.startswith("judge:")
    if isinstance(value, dict):
        return sum(map(_count_judged, value.values()))
    if isinstance(value, list):
        return sum(map(_count_judged, value))
    return 0
