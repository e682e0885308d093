"""Counts the tests of a variant for the report: verdicts by testset and tag, a table of steps, the worst tests."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from heapq import heappush, heapreplace
from typing import Any

from msgspec import UNSET

from assay.core.judges import JudgeInfo
from assay.core.report import (
    AnswerCount,
    Cell,
    Difference,
    Entry,
    Example,
    Examples,
    Metric,
    Report,
    Slice,
    Table,
)
from assay.core.types import Score
from assay.scoring.metric_builders import proportion_metric
from assay.scoring.statistics import percentile
from assay.suites.pipeline.output_checks import TestOutput
from assay.suites.pipeline.scorer import ERRORED, FAILED, INVALID, NOT_EVALUATED, PASSED, SKIPPED, VERDICTS
from assay.suites.pipeline.testset.case import TestCase

NO_ANSWER = "no_answer"

# The report shows this many failed tests. All of them are in the result files.
_MOST_EXAMPLES = 10
_STEP_COLUMNS = [
    *("step", "ok", "failed", "skipped", "wrong first", "p50 s", "p95 s", "calls", "tokens in", "out"),
]


def build_report(tallies: Mapping[str, VariantTally], judges: list[JudgeInfo]) -> Report:
    """Return the report of a run. It has not passed if a test failed or errored; None if a verdict is missing."""
    counts: Counter[str] = Counter()
    for tally in tallies.values():
        counts += tally.counts
    answered = _answered(counts)
    ran = answered.total
    tests = f"{ran:,} {'test' if ran == 1 else 'tests'}"
    passed: bool | None = True
    why = ""
    if counts[FAILED] or counts[ERRORED]:
        passed = False
        bad = {name: counts[name] for name in (FAILED, ERRORED) if counts[name]}
        why = f"{' and '.join(f'{count:,} {name}' for name, count in bad.items())} of {tests}"
    elif counts[INVALID]:
        passed = None
        why = f"Undecided: there is no valid verdict in {counts[INVALID]:,} of {tests}"
    elif counts and not ran:
        passed = False
        first = next((tally.first_skipped for tally in tallies.values() if tally.first_skipped), "")
        why = f"No test ran: {counts.total():,} skipped{f'; the first: {first}' if first else ''}"
    return Report(
        entries=[tally.entry(name, judges) for name, tally in tallies.items()],
        entry_word="variant",
        passed=passed,
        why=why,
        answered=answered,
        # A testset without expectations asks for outputs only.
        wants_scores=counts[NOT_EVALUATED] < ran,
        notices=_notices(sum(tally.without_tokens for tally in tallies.values())),
    )


def _answered(counts: Counter[str]) -> AnswerCount:
    ran = counts.total() - counts[SKIPPED]
    return AnswerCount(ran - counts[ERRORED] - counts[NO_ANSWER], ran, "test", verdict=ERRORED)


def _notices(without_tokens: int) -> list[str]:
    if not without_tokens:
        return []
    tests = f"{without_tokens:,} {'test' if without_tokens == 1 else 'tests'}"
    return [f"max_tokens was not checked in {tests}: the endpoint reports no tokens"]


class VariantTally:
    """The numbers of one variant."""

    def __init__(self, steps: list[str]) -> None:
        self.counts: Counter[str] = Counter()
        self.sets: dict[str, Counter[str]] = defaultdict(Counter)
        self._tags: dict[str, Counter[str]] = defaultdict(Counter)
        self._steps = {step: StepTally() for step in steps}
        self._worst: list[tuple[float, int, Example]] = []
        self._failures = 0
        self.without_tokens = 0
        """Tests with a limit of tokens whose tokens are not known."""
        self.first_skipped = ""
        """File and line of the first test that was skipped, and why."""

    def add(self, set_name: str, test: TestCase, output: TestOutput, score: Score | None) -> None:
        """Add one test. A test without a score counts as `no_answer`."""
        data = score.data if score else {}
        result = data.get("verdict", NO_ANSWER)
        self.counts[result] += 1
        self.sets[set_name][result] += 1
        if output.skipped and not self.first_skipped:
            self.first_skipped = f"{test.where}: {output.skipped}" if test.where else output.skipped
        for tag in dict.fromkeys(test.tags):
            self._tags[tag][result] += 1
        for step, step_data in output.steps.items():
            self._steps[step].add(step_data)
        self.without_tokens += output.tokens is None and _limits_tokens(test)
        first_wrong = data.get("first_wrong")
        if first_wrong and first_wrong["step"] in self._steps:
            self._steps[first_wrong["step"]].first_wrong += 1
        if result in (FAILED, ERRORED) and score is not None:
            self._add_example(set_name, test, score)

    def entry(self, variant: str, judges: list[JudgeInfo]) -> Entry:
        """Return the variant's part of the report."""
        slices = [_slice("set", name, counts) for name, counts in self.sets.items()]
        slices += [_slice("tag", name, counts) for name, counts in sorted(self._tags.items())]
        worst = sorted(self._worst, key=lambda item: item[:2], reverse=True)
        examples = Examples(title="failed tests", total=self._failures, shown=[example for _, _, example in worst])
        return Entry(
            name=variant,
            subject=variant,
            metrics=[_pass_rate(self.counts)],
            counts=_nonzero_counts(self.counts),
            slices=slices,
            tables=[self._step_table()] if self._steps else [],
            examples=[examples] if self._failures else [],
            judges=judges,
            answered=_answered(self.counts),
        )

    def _add_example(self, set_name: str, test: TestCase, score: Score) -> None:
        """Keep a failed test if it is among the worst: those with the largest share of failed checks.

        Tests with an error rank above all others. Among equal tests the first ones are kept.
        """
        checks = score.data.get("checks", ())
        failed_checks = sum(check.get("passed") is False for check in checks)
        share = 2.0 if score.data["verdict"] == ERRORED else failed_checks / max(1, len(checks))
        self._failures += 1
        # `_worst` is a heap with the best of the worst tests first.
        rank = (share, -self._failures)
        if len(self._worst) == _MOST_EXAMPLES and rank < self._worst[0][:2]:
            return
        first_wrong = score.data.get("first_wrong") or {}
        verdict = score.data["verdict"]
        if first_wrong.get("step"):
            verdict += f" at step {first_wrong['step']}"
        if checks:
            verdict += f", {failed_checks} of {len(checks)} checks failed"
        example = Example(
            label=f"{set_name}/{test.id}",
            index=score.index,
            part=test.key,
            verdict=verdict,
            reason=score.reason,
        )
        if "expected" in first_wrong or "actual" in first_wrong:
            difference = Difference(
                path=first_wrong["path"],
                expected=first_wrong.get("expected", UNSET),
                actual=first_wrong.get("actual", UNSET),
                why=first_wrong.get("why", ""),
            )
            example.differences = [difference]
        elif first_wrong.get("why"):
            example.reason = first_wrong["why"]
        if len(self._worst) < _MOST_EXAMPLES:
            heappush(self._worst, (*rank, example))
        else:
            heapreplace(self._worst, (*rank, example))

    def _step_table(self) -> Table:
        notes = []
        for name, step in self._steps.items():
            if step.failed_items:
                notes.append(f"{name}: {step.failed_items:,} of {step.items:,} items failed")
            if step.stopped_calls:
                calls = f"{step.stopped_calls:,} call{'s' if step.stopped_calls != 1 else ''}"
                notes.append(f"{name}: a timeout stopped {calls}, not counted in `calls`")
        rows = [step.row(name) for name, step in self._steps.items()]
        return Table(name="steps", columns=_STEP_COLUMNS, rows=rows, note="\n".join(notes))


class StepTally:
    """The numbers of one step over all tests."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.seconds = array("d")
        self.calls = self.stopped_calls = 0
        # None until an endpoint reports tokens.
        self.input_tokens: int | None = None
        self.output_tokens: int | None = None
        self.items = self.failed_items = self.first_wrong = 0

    def add(self, result: dict[str, Any]) -> None:
        """Add the step's record of one test."""
        self.counts[result["status"]] += 1
        if result["status"] != "skipped":
            self.seconds.append(result.get("seconds", 0.0))
        self.calls += result.get("calls", 0)
        self.stopped_calls += result.get("stopped_calls", 0)
        if tokens := result.get("tokens"):
            self.input_tokens = (self.input_tokens or 0) + tokens[0]
            self.output_tokens = (self.output_tokens or 0) + tokens[1]
        self.items += result.get("items") or 0
        self.failed_items += len(result.get("failed_items", ()))

    def row(self, name: str) -> list[Cell]:
        """Return the step's row in the table of steps. Seconds are the median and the 95th percentile."""
        ordered: Sequence[float] = sorted(self.seconds)
        return [
            name,
            self.counts["ok"],
            self.counts["failed"],
            self.counts["skipped"],
            self.first_wrong,
            percentile(ordered, 0.5),
            percentile(ordered, 0.95),
            # Whether a call that was stopped had been sent is not known.
            None if self.stopped_calls and not self.calls else self.calls,
            self.input_tokens,
            self.output_tokens,
        ]


def _slice(by: str, name: str, counts: Counter[str]) -> Slice:
    return Slice(by=by, name=name, metrics=[_pass_rate(counts)], counts=_nonzero_counts(counts))


def _pass_rate(counts: Counter[str]) -> Metric:
    """Return passed tests / (passed + failed + errored tests). The others are counted as left out."""
    evaluated = (PASSED, FAILED, ERRORED)
    left_out = {
        name.replace("_", " "): count for name, count in _nonzero_counts(counts).items() if name not in evaluated
    }
    total = sum(counts[name] for name in evaluated)
    return proportion_metric("pass_rate", counts[PASSED], total, label="pass rate", unit="test", left_out=left_out)


def _nonzero_counts(counts: Counter[str]) -> dict[str, int]:
    return {name: counts[name] for name in (*VERDICTS, NO_ANSWER) if counts[name]}


def _limits_tokens(test: TestCase) -> bool:
    baseline = test.performance_baseline or {}
    steps = baseline.get("steps") or {}
    return "max_tokens" in baseline or any("max_tokens" in limits for limits in steps.values())
