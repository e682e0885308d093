"""Holds what a test gave against what it expects, step by step, without asking anybody."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from assay.core.types import Record
from assay.scoring.expectations import (
    MISSING,
    Check,
    Rule,
    apply_rules,
    as_text,
    compare,
    matching_of,
    rule_of,
)
from assay.solvers.steps.pipeline import Pipeline, Step
from assay.suites.pipeline.testset.case import TestCase

FINAL, AGGREGATION, INTERMEDIATE, PERFORMANCE, RULES = (
    "final",
    "aggregation",
    "intermediate",
    "performance",
    "rules",
)
REFERENCE_RUBRIC = (
    "The text says what the reference says, in whatever words; nothing of it is missing or wrong."
)


class Finding(NamedTuple):
    """One check, what it is of, and the step whose output it looks at."""

    of: str
    step: str
    check: Check
    reference: str | None = None


class Given(Struct):
    """What one test gave, read from its records."""

    steps: dict[str, dict[str, Any]] = {}
    outputs: dict[str, Any] = {}
    missing: dict[str, str] = {}
    skipped: str = ""
    answered: bool = False
    seconds: float = 0.0
    tokens: int = 0


def given(records: Iterable[Record], test: str) -> Given:
    """The records of a test. A case may hold several tests; each has its own parts."""
    found = Given(steps={}, outputs={}, missing={})
    for record in records:
        of, _, step = record.part.rpartition("/")  # a test's id may hold a slash, a step's does not
        if record.kind in ("step", "aggregation") and of == test:
            found.steps[step] = record.data
            found.seconds += record.data.get("seconds", 0.0)
            found.tokens += sum(record.data.get("tokens", ()))
        elif record.part == test and record.kind == "answer":
            found.answered = True
            found.outputs = record.data["outputs"]
            found.missing = record.data.get("missing", {})
        elif record.part == test and record.kind == "skipped":
            found.skipped = record.data["why"]
    return found


def by_test(records: list[Record], tests: list[TestCase]) -> dict[str, list[Record]]:
    """Each test's records, in one pass: thousands of tests may hang on one and be a single case."""
    if len(tests) == 1:
        return {tests[0].key: records}
    found: dict[str, list[Record]] = {test.key: [] for test in tests}
    for record in records:
        of_step = record.kind in ("step", "aggregation")
        test = record.part.rpartition("/")[0] if of_step else record.part
        if test in found:
            found[test].append(record)
    return found


class Evaluation:
    """The checks of one pipeline. `rules` are those its outputs have in the file."""

    def __init__(self, pipeline: Pipeline, rules: list[Rule]) -> None:
        self._pipeline = pipeline
        self._rules = rules
        self._steps = {step.id: step for step in pipeline.steps}
        self._by_key = {step.output_key: step for step in pipeline.steps}
        self._of_output = {output.key: output.step for output in pipeline.outputs}

    def findings(self, test: TestCase, found: Given) -> list[Finding]:
        """Every check, in the order of the document: steps, aggregation, final output, then the rest."""
        config = test.evaluation_config
        checks: list[Finding] = []
        if config.get("evaluate_intermediate", False):
            checks += self._intermediate(test, found)
        if test.expected_aggregation is not None and config.get("evaluate_aggregation", True):
            checks += self._aggregation(test, found)
        if config.get("evaluate_final", True):
            checks += self._final(test, found)
        checks += self._by_rules(test, found)
        checks += self._performance(test, found)
        return checks

    def _intermediate(self, test: TestCase, found: Given) -> Iterator[Finding]:
        matching = matching_of(test.evaluation_config)
        for name, expected in test.intermediate_expectations.items():
            step = self._steps.get(name) or self._by_key.get(name)
            if step is None:
                why = f"the pipeline has no step {name!r}; it has: {', '.join(self._steps)}"
                yield Finding(INTERMEDIATE, name, _absent(name, expected, why))
                continue
            actual, why = _output(found, step)
            for check in compare(expected, actual, matching):
                yield Finding(INTERMEDIATE, step.id, _explained(check, why))

    def _aggregation(self, test: TestCase, found: Given) -> Iterator[Finding]:
        step, expected = self._pipeline.aggregate, test.expected_aggregation
        if step is None:
            actual, why, name = self._whole(found), "", self._pipeline.target
        else:
            (actual, why), name = _output(found, step), step.id
        for check in compare(expected, actual, matching_of(test.evaluation_config)):
            yield Finding(AGGREGATION, name, _explained(check, why))

    def _whole(self, found: Given) -> Any:
        """The final output: what the one step gives, if that is all of it, else all outputs by name."""
        outputs = self._pipeline.outputs
        if len(outputs) == 1 and not outputs[0].source.path:
            return found.outputs.get(outputs[0].key, MISSING)
        return found.outputs

    def _final(self, test: TestCase, found: Given) -> Iterator[Finding]:
        """Keys that the document names `output` mean the pipeline's one output, whatever its name."""
        expected = test.expected_outputs
        if test.reference is not None:
            yield self._by_reference(as_text(test.reference), found)
        if not expected:
            return
        outputs = self._with_the_output(expected, found)
        for check in compare(expected, outputs, matching_of(test.evaluation_config)):
            step, why = self._maker(_root(check.path), found)
            yield Finding(FINAL, step, _explained(check, why))

    def _maker(self, key: str, found: Given) -> tuple[str, str]:
        """The step that makes an output, and why there is none; `output` may be another one's name."""
        if key == "output" and key not in self._of_output:
            if len(self._of_output) > 1:
                return self._pipeline.target, _output(found, self._steps[self._pipeline.target])[1]
            key = next(iter(self._of_output))
        return self._of_output.get(key) or self._pipeline.target, found.missing.get(key, "")

    def _by_reference(self, reference: str, found: Given) -> Finding:
        step = self._steps[self._pipeline.target]
        actual, why = _output(found, step)
        check = Check(path="", kind="judge", expected=REFERENCE_RUBRIC, actual=actual, passed=None)
        return Finding(FINAL, step.id, _absent("", reference, why) if actual is MISSING else check, reference)

    def _with_the_output(self, expected: dict[str, Any], found: Given) -> dict[str, Any]:
        if "output" not in expected or "output" in self._of_output:
            return found.outputs
        keys = list(self._of_output)
        if len(keys) == 1:
            rest = {key: value for key, value in found.outputs.items() if key != keys[0]}
            return {**rest, "output": found.outputs[keys[0]]} if keys[0] in found.outputs else rest
        actual, _ = _output(found, self._steps[self._pipeline.target])
        return found.outputs if actual is MISSING else {**found.outputs, "output": actual}

    def _by_rules(self, test: TestCase, found: Given) -> Iterator[Finding]:
        own = [rule_of(rule) for rule in test.evaluation_config.get("rules", ())]
        if not own and not self._rules:
            return
        outputs = {**self._with_the_output({"output": None}, found), **found.outputs}
        for check in apply_rules([*self._rules, *own], outputs):
            yield Finding(RULES, self._maker(_root(check.path), found)[0], check)

    def _performance(self, test: TestCase, found: Given) -> Iterator[Finding]:
        """`performance_baseline`: no more seconds or tokens than this, of the test or of a step."""
        baseline = test.performance_baseline or {}
        yield from _limits(baseline, "", found.seconds, found.tokens)
        for name, limits in (baseline.get("steps") or {}).items():
            step = self._steps.get(name) or self._by_key.get(name)
            said = found.steps.get(step.id, {}) if step else {}
            if step is not None and said.get("status") != "skipped":
                tokens = sum(said.get("tokens", ()))
                yield from _limits(limits, step.id, said.get("seconds", 0.0), tokens)
            else:
                why = (
                    "it did not run"
                    if step
                    else f"the pipeline has no such step; it has: {', '.join(self._steps)}"
                )
                yield Finding(PERFORMANCE, name, _absent(name, limits, why))

    def first_wrong(self, found: Given, findings: list[Finding]) -> dict[str, Any] | None:
        """The first step, in the order of the pipeline, that failed or whose output is not as expected."""
        for step in self._pipeline.steps:
            said = found.steps.get(step.id, {})
            if said.get("status") == "failed":
                return {"step": step.id, "path": "", "why": said["error"]}
            for finding in findings:
                if finding.step == step.id and finding.check.passed is False:
                    return _named(finding)
        wrong = next((finding for finding in findings if finding.check.passed is False), None)
        return _named(wrong) if wrong else None

    def errored(self, found: Given) -> str:
        """The required step that has no output, with the reason; empty if all have one."""
        required = [step for step in self._pipeline.steps if step.required]
        for status in ("failed", "skipped"):
            for step in required:
                if found.steps.get(step.id, {}).get("status") == status:
                    return f"step {step.id}: {found.steps[step.id].get('error', '')}"
        return ""


def _output(found: Given, step: Step) -> tuple[Any, str]:
    """A step's output; where it has none, why."""
    said = found.steps.get(step.id, {})
    if said.get("status") == "ok":
        return said.get("output"), ""
    return MISSING, f"the step {step.id} has no output: {said.get('error', 'it did not run')}"


def _absent(path: str, expected: Any, why: str) -> Check:
    return Check(path=path, kind="missing", expected=expected, actual=None, passed=False, why=why)


def _explained(check: Check, why: str) -> Check:
    """A missing value has a reason: the step that should have made it."""
    return replace(check, why=why) if why and check.passed is False and check.kind == "missing" else check


def _root(path: str) -> str:
    return path.partition(".")[0].partition("[")[0]


def _named(finding: Finding) -> dict[str, Any]:
    """What is not there has no key, as in the check itself."""
    check = finding.check
    values = {"expected": check.expected, "actual": check.actual}
    there = {name: value for name, value in values.items() if value is not MISSING}
    return {"step": finding.step, "path": check.path, **there, "why": check.why}


def _limits(limits: dict[str, Any], step: str, seconds: float, tokens: int) -> Iterator[Finding]:
    for kind, actual in (("max_seconds", seconds), ("max_tokens", tokens)):
        if kind in limits:
            most = limits[kind]
            why = "" if actual <= most else f"{actual:g} is more than {most:g}"
            check = Check(path=step, kind=kind, passed=not why, expected=most, actual=actual, why=why)
            yield Finding(PERFORMANCE, step, check)
