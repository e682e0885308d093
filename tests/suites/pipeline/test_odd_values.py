"""Any value at any place of a pipeline file is valid or a problem with its place, never a traceback."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from assay.suites.pipeline.suite import PipelineSuite

from support.pipeline_project import PipelineProject
from support.suite_files import problems_of
from support.task_project import as_yaml

WHOLE: dict[str, Any] = {
    "id": "p",
    "name": "n",
    "default_testset": "t.jsonl",
    "inputs": ["text", {"name": "more", "required": False}],
    "steps": [
        {
            "id": "one",
            "type": "prompt",
            "template": "{{ text }}",
            "system": "s",
            "model": "m",
            "params": {"temperature": 0},
            "defaults": {"a": 1},
            "output_parser": {"type": "regex", "pattern": "(a)", "group": 1},
            "output_key": "first",
            "input_mapping": {"text": "inputs.text"},
            "batch_mode": True,
            "batch_size": 2,
            "concurrent": True,
            "max_workers": 2,
            "with_item": True,
            "required": True,
            "timeout": 5,
            "retry": 1,
        },
        {
            "id": "two",
            "type": "code",
            "code_config": {"language": "python", "code": "x = 1"},
            "depends_on": ["one"],
        },
        {"id": "three", "type": "code", "code_file": "x.py"},
        {"id": "flow", "agent": "a", "flow": "f"},
        {
            "id": "sum",
            "strategy": "stats",
            "fields": ["n"],
            "condition": "n > 1",
            "group_by": "n",
            "summary_fields": ["total_count"],
            "score_field": "n",
            "separator": ",",
            "include_distribution": True,
            "output": {"mean": "fields.n.mean"},
            "input_mapping": {"items": "first"},
        },
    ],
    "outputs": ["first", {"key": "mean", "label": "l", "from": "sum.mean", "rules": [{"kind": "non_empty"}]}],
    "baseline": {"name": "b", "steps": {"one": {"template": "x"}}},
    "variants": {"v": {"description": "d", "overrides": {"one": {"model": "x"}}}},
    "evaluation_target": "sum",
}
ODD: list[Any] = [5, "a..b", [None], {"a": {"b": []}}]


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a value, the value itself aside."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield (*at, key)
        yield from places(item, (*at, key))


def changed(at: tuple[Any, ...], odd: Any) -> dict[str, Any]:
    """The whole file with one value in another's place."""
    result = copy.deepcopy(WHOLE)
    inside: Any = result
    for key in at[:-1]:
        inside = inside[key]
    inside[at[-1]] = odd
    return result


@pytest.mark.parametrize("at", list(places(WHOLE)), ids=lambda at: ".".join(map(str, at)))
def test_an_odd_value_gives_no_traceback(lab: PipelineProject, at: tuple[Any, ...]) -> None:
    """Every problem has its place."""
    for odd in ODD:
        lab.write("p.yaml", as_yaml(changed(at, odd)))
        for problem in problems_of(PipelineSuite, lab.folder / "p.yaml"):
            assert "p.yaml" in problem.where, (at, odd)
            assert problem.message
