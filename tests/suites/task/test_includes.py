"""Files that include others: which value wins, and the place in messages."""

from __future__ import annotations

import pytest

from assay.core.errors import InputError

from support.task_project import TaskProject, docs_of

BASE = """\
task: base
dataset_path: json
dataset_kwargs: {data_files: {test: docs.jsonl}}
test_split: test
doc_to_text: "base {{q}}"
doc_to_target: "{{a}}"
"""


@pytest.fixture
def base(lab: TaskProject) -> TaskProject:
    """A file to include, with its data."""
    lab.write("base.yaml", BASE)
    lab.data("docs.jsonl", docs_of("x=x"))
    return lab


def test_own_keys_win_wherever_the_include_stands(base: TaskProject) -> None:
    """An include after the keys changes nothing."""
    base.write("t.yaml", "task: t\ndoc_to_text: 'own {{q}}'\ninclude: base.yaml\n")
    assert base.run().prompts() == ["own x"]


def test_of_several_includes_the_later_wins(base: TaskProject) -> None:
    """In the order they are listed; whole values are replaced, not merged."""
    base.write("first.yaml", "doc_to_text: 'first {{q}}'\ndescription: 'first '\n")
    base.write("second.yaml", "doc_to_text: 'second {{q}}'\n")
    base.write("t.yaml", "include: [base.yaml, first.yaml, second.yaml]\ntask: t\n")
    assert base.run().prompts() == ["first second x"]


def test_mappings_are_replaced_whole(base: TaskProject) -> None:
    """`generation_kwargs` of the file are all there are."""
    base.write("more.yaml", "include: base.yaml\ngeneration_kwargs: {until: [a], temperature: 1, top_p: 0.5}\n")
    base.write("t.yaml", "include: more.yaml\ntask: t\ngeneration_kwargs: {until: [b]}\n")
    assert base.run().rows()[0]["arguments"]["gen_args_0"]["arg_1"] == {"until": ["b"]}


def test_includes_are_relative_to_the_file_that_has_them(base: TaskProject) -> None:
    """Through folders, one step after the other."""
    base.write("deep/middle.yaml", "include: ../base.yaml\ndescription: 'middle '\n")
    base.write("deep/down/t.yaml", "include: ../middle.yaml\ntask: t\n")
    assert base.run("deep/down/t.yaml").prompts() == ["middle base x"]


def test_a_file_may_be_included_twice(base: TaskProject) -> None:
    """This is not a cycle."""
    base.write("left.yaml", "include: base.yaml\ndescription: 'left '\n")
    base.write("right.yaml", "include: base.yaml\n")
    base.write("t.yaml", "include: [left.yaml, right.yaml]\ntask: t\n")
    assert base.run().prompts() == ["left base x"]


def test_task_list_has_no_effect(base: TaskProject) -> None:
    """In the file or in an included one; results do not show it."""
    base.write("more.yaml", "include: base.yaml\ntask_list: [a, b]\n")
    base.write("t.yaml", "include: more.yaml\ntask: t\n")
    base.write("own.yaml", "include: base.yaml\ntask: own\ntask_list: [c]\n")
    result = base.run("t.yaml", "own.yaml")
    assert not any("task_list" in config for config in result.file["configs"].values())


@pytest.mark.parametrize("middle", ["t.yaml", "other.yaml"])
def test_a_file_that_includes_itself_is_refused(base: TaskProject, middle: str) -> None:
    """Directly, or through another file."""
    base.write("other.yaml", "include: t.yaml\n")
    base.write("t.yaml", f"task: t\ninclude: {middle}\n")
    with pytest.raises(InputError, match="t.yaml: this file includes itself"):
        base.run()


def test_a_missing_include_is_reported_with_its_line(base: TaskProject) -> None:
    """In the file that includes it."""
    base.write("more.yaml", "description: ''\ninclude: [base.yaml, nowhere.yaml]\n")
    base.write("t.yaml", "include: more.yaml\ntask: t\n")
    with pytest.raises(InputError, match="more.yaml:2: there is no file 'nowhere.yaml' to include"):
        base.run()


def test_a_problem_points_to_the_file_that_has_the_key(base: TaskProject) -> None:
    """All problems at once, each where it is written."""
    base.write("more.yaml", "include: base.yaml\n\nrepeats: 0\nmetric_lists: []\n")
    base.write("t.yaml", "include: more.yaml\ntask: t\nnum_fewshot: many\n")
    with pytest.raises(InputError) as caught:
        base.run()
    repeats, listed, shots = sorted(str(problem) for problem in caught.value.problems)
    assert repeats == "more.yaml:3 repeats: expected at least 1, found 0"
    assert listed.startswith("more.yaml:4 metric_lists: there is no task key named 'metric_lists'; did you mean")
    assert shots == "t.yaml:3 num_fewshot: expected a whole number, found 'many'"


def test_a_problem_deep_inside_a_key_has_its_own_line(base: TaskProject) -> None:
    """The line of the entry, not that of the list."""
    base.write("more.yaml", "include: base.yaml\nmetric_list:\n  - metric: exact_match\n  - metric: exact\n")
    base.write("t.yaml", "include: more.yaml\ntask: t\n")
    with pytest.raises(InputError, match=r"more.yaml:4 metric_list.1: there is no metric named 'exact'"):
        base.run()


def test_a_missing_key_is_reported_for_the_task_file(base: TaskProject) -> None:
    """Not for the files it includes."""
    base.write("half.yaml", "dataset_path: json\n")
    base.write("t.yaml", "include: half.yaml\ntask: t\n")
    with pytest.raises(InputError) as caught:
        base.run()
    assert [str(problem) for problem in caught.value.problems] == [
        "t.yaml:1: the key 'doc_to_text' is missing",
        "t.yaml:1: the key 'doc_to_target' is missing",
    ]
