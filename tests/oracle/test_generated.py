"""Generated task files: assay writes what lm-evaluation-harness writes, run against the same endpoint."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from oracle.comparing import differences
from oracle.endpoint import Endpoint
from oracle.generation import generation_cases
from oracle.harness import Harness, run_ours
from oracle.invented import Case
from oracle.likelihood import likelihood_cases
from oracle.quirky import quirky_cases

EXAMPLES = int(os.environ.get("ORACLE_EXAMPLES", "60"))
repeatable = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


class Lab:
    """Runs a case by both and compares."""

    def __init__(self, folder: Path, endpoint: Endpoint, harness: Harness) -> None:
        self._folder = folder
        self._endpoint = endpoint
        self._harness = harness

    def check(self, case: Case) -> None:
        """A difference is a failure."""
        shutil.rmtree(self._folder, ignore_errors=True)
        case.write(self._folder)
        self._endpoint.reset()
        theirs = self._harness.evaluate(self._folder, case.names, case.settings, self._endpoint.url)
        self._endpoint.reset()
        ours = run_ours(self._folder, case.names, case.settings, self._endpoint.url)
        found = differences(ours, theirs, list(case.tasks))
        told = "\n".join(f"{place}\n  ours   {one!r}\n  theirs {other!r}" for place, one, other in found)
        assert not found, f"{told}\n{yaml.safe_dump(case.tasks | case.groups, allow_unicode=True)}\n{case.settings}"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, endpoint: Endpoint, harness: Harness) -> Lab:
    return Lab(tmp_path_factory.mktemp("lab") / "case", endpoint, harness)


@given(case=generation_cases())
@repeatable
def test_generation_tasks_come_out_the_same(lab: Lab, case: Case) -> None:
    """Prompts, replies, filtered replies, scores, hashes and statistics of generate_until tasks."""
    lab.check(case)


@given(case=likelihood_cases())
@repeatable
def test_likelihood_tasks_come_out_the_same(lab: Lab, case: Case) -> None:
    """The same of multiple_choice, loglikelihood and loglikelihood_rolling, with the endpoint's tokenizer."""
    lab.check(case)


@given(case=quirky_cases())
@repeatable
def test_quirks_come_out_the_same(lab: Lab, case: Case) -> None:
    """With --lm-eval-quirks the same holds where the harness errs: leaked examples, lost stops and letters."""
    lab.check(case)
