"""Tests that depend on each other are one case; each has its own records and its own dependencies."""

from __future__ import annotations

import pytest

from assay.core.errors import InputError
from assay.core.types import Record
from assay.suites.pipeline.output_checks import read_output, records_by_test
from assay.suites.pipeline.testset.case import TestCase
from assay.suites.pipeline.testset.testsets import CaseGroup

from support.pipeline_project import PipelineProject, case, says


def _record(kind: str, part: str) -> Record:
    data = {"outputs": {"of": part}} if kind == "answer" else {"status": "ok", "output": part}
    return Record(0, "k", "set", "baseline", 1, kind, part, data=data)


def test_records_go_to_the_test_that_made_them() -> None:
    """Also if the id of one test starts with that of another and a slash."""
    parts = ("a/one", "a/two", "a/b/one", "a/b/two")
    records = [_record("step", part) for part in parts] + [_record("answer", "a"), _record("answer", "a/b")]
    result = records_by_test(records, [TestCase("a"), TestCase("a/b")])
    assert list(read_output(result["a"], "a").steps) == ["one", "two"]
    assert list(read_output(result["a/b"], "a/b").steps) == ["one", "two"]
    assert read_output(result["a"], "a").outputs == {"of": "a"}
    assert read_output(result["a/b"], "a/b").outputs == {"of": "a/b"}


def test_a_record_of_an_unknown_test_is_ignored() -> None:
    """The other records are still read."""
    result = records_by_test([_record("step", "x/one"), _record("step", "")], [TestCase("a"), TestCase("b")])
    assert result == {"a": [], "b": []}


def test_a_test_waits_for_those_it_names_in_the_order_of_the_group() -> None:
    """By id, or by the id before parameters were expanded; each once."""
    first, second = TestCase("p[k=1]", origin="p"), TestCase("p[k=2]", origin="p")
    other = TestCase("q")
    last = TestCase("r", raw_data={"id": "r", "inputs": {}, "depends_on": ["q", "p", "p[k=2]"]})
    group = CaseGroup(0, "set", "key", [first, second, other, last])
    assert group.waits_for(last) == ["p[k=1]", "p[k=2]", "q"]
    assert group.waits_for(other) == []


def test_an_unselected_dependency_is_checked_too(lab: PipelineProject) -> None:
    """Its judge is called, and problems are found before the run."""
    lab.pipeline(says("one"))
    rubric = case("a", expected_outputs={"one": "judge:It greets."})
    lab.tests(rubric, case("b", depends_on=["a"], expected_outputs={"one": "hello"}))
    judge = lab.script({"text": '{"reason": "it does", "passed": true}'})
    assert lab.run(ids=["b"], judge=judge).verdicts == {"a": "passed", "b": "passed"}
    with pytest.raises(InputError, match="--judge"):
        lab.run(ids=["b"])
    coded = case("a", step_inputs={"one": {"code": "x"}}, expected_outputs={"one": "regex:("})
    lab.tests(coded, case("b", depends_on=["a"]))
    with pytest.raises(InputError, match="--allow-code") as refused:
        lab.run(ids=["b"])
    assert "is not a regular expression" in str(refused.value)
