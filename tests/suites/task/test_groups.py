"""Groups: their members, their overrides of members, and their numbers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import InputError, UsageError
from assay.suites.task.suite import TaskSuite

from support.suite_files import problems_in
from support.task_project import Fn, TaskProject, TaskResult, docs_of

MEAN: list[dict[str, Any]] = [{"metric": "exact_match"}]
TWO = docs_of("1=1", "2=0")
THREE = docs_of("1=1", "2=0", "3=0")


@pytest.fixture
def pair(lab: TaskProject) -> TaskProject:
    """Two tasks: one of two documents, half of them right, and one of three with one right."""
    lab.task("tasks/two.yaml", TWO)
    lab.task("tasks/three.yaml", THREE)
    return lab


def run(lab: TaskProject, *names: str, **options: Any) -> TaskResult:
    return lab.run(*(names or ("g",)), include_path=["tasks"], **options)


def test_a_group_runs_its_tasks_in_order(pair: TaskProject) -> None:
    """Members are tasks by name; without aggregate_metric_list a group has no number."""
    pair.group("tasks/g.yaml", task=["three", "two"])
    result = run(pair)
    assert list(result.results) == ["three", "two", "g"]
    assert result.results["g"] == {"alias": "g", "name": "g"}
    assert result.file["group_subtasks"] == {"g": ["three", "two"]}
    assert "groups" not in result.file


def test_the_mean_is_weighted_by_size(pair: TaskProject) -> None:
    """Every document counts the same; the error is that of the pooled documents."""
    pair.group("tasks/g.yaml", task=["two", "three"], aggregate_metric_list=MEAN)
    result = run(pair)
    entry = result.results["g"]
    assert entry["exact_match,none"] == pytest.approx(2 / 5)
    assert entry["exact_match_stderr,none"] == pytest.approx(math.sqrt((0.5 + 2 / 3) / 3 / 5))
    assert (entry["sample_len"], entry["sample_count"]) == (5, {"exact_match,none": 5})
    assert result.file["groups"] == {"g": entry}


@pytest.mark.parametrize(
    ("listed", "shown", "message"),
    [
        (
            {"metric": "acc"},
            ("acc", ""),
            "no task of the group has the metric 'acc'; they have exact_match",
        ),
        (
            {"metric": "exact_match", "filter_list": ["none", "nome"]},
            ("exact_match", "nome"),
            "no task of the group has the metric 'exact_match' with the filter 'nome'; did you mean 'none'?",
        ),
        (
            {"metric": Fn("utils.score"), "aggregation": "mean"},
            ("!function utils.score", ""),
            "no task of the group has the metric '!function utils.score'; write the metric's name, score",
        ),
    ],
)
def test_a_metric_that_no_task_has_is_named_by_check_and_run(
    pair: TaskProject, listed: dict[str, Any], shown: tuple[str, str], message: str
) -> None:
    """The harness only logs it. The file has no number for it; the report has a row without a value."""
    pair.group("tasks/g.yaml", task=["two", "three"], aggregate_metric_list=[*MEAN, listed])
    where = "tasks/g.yaml:7 aggregate_metric_list.1"
    (notice,) = TaskSuite(pair.spec("g", include_path=["tasks"])).notices
    assert notice == f"{where}: {message}"
    for path in ("tasks/g.yaml", "tasks"):
        (problem,) = [each for each in problems_in(Path(path)) if each.level != "note"]
        assert (problem.level, problem.message) == ("warning", message)
    result = run(pair)
    assert list(result.results["g"]) == [
        *("alias", "name", "sample_len", "exact_match,none", "exact_match_stderr,none", "sample_count")
    ]
    value, missing = result.entry("g").metrics
    assert (value.value, missing.value, missing.name, missing.filter) == (2 / 5, None, *shown)
    assert missing.reason == message.partition(";")[0]
    assert result.run.exit_code == 0


def test_metrics_that_only_the_tasks_python_knows_are_missed_after_the_run(pair: TaskProject) -> None:
    """Before it, any name may come."""
    pair.write("tasks/utils.py", "def score(doc, results):\n    return {'right': 1.0}\n")
    pair.task("tasks/two.yaml", TWO, process_results=Fn("utils.score"))
    listed = [{"metric": "right"}, {"metric": "wrong"}]
    pair.group("tasks/g.yaml", task=["two", "three"], aggregate_metric_list=listed)
    assert TaskSuite(pair.spec("g", include_path=["tasks"])).notices == []
    right, wrong = run(pair).entry("g").metrics
    assert (right.value, wrong.value) == (1.0, None)
    assert wrong.reason == "no task of the group has the metric 'wrong'"


def test_an_unweighted_mean_counts_every_task_the_same(pair: TaskProject) -> None:
    """`weight_by_size: false`."""
    listed = [{"metric": "exact_match", "weight_by_size": False}]
    pair.group("tasks/g.yaml", task=["two", "three"], aggregate_metric_list=listed)
    entry = run(pair).results["g"]
    assert entry["exact_match,none"] == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert entry["exact_match_stderr,none"] == pytest.approx(math.sqrt(1 / 4 + 1 / 9) / 2)


def test_a_group_has_no_stderr_if_a_member_has_none(pair: TaskProject) -> None:
    """A task of one document has no spread."""
    pair.task("tasks/one.yaml", docs_of("1=1"))
    pair.group("tasks/g.yaml", task=["two", "one"], aggregate_metric_list=MEAN)
    result = run(pair)
    assert result.results["g"]["exact_match,none"] == pytest.approx(2 / 3)
    assert result.results["g"]["exact_match_stderr,none"] == "N/A"
    assert result.metric("exact_match", "g").interval is None


def filtered(lab: TaskProject) -> None:
    """A third task, with two filters: one reads a digit, one nothing."""
    chains = [
        {
            "name": name,
            "filter": [{"function": "regex", "regex_pattern": pattern}, {"function": "take_first"}],
        }
        for name, pattern in (("none", "(x)"), ("digit", r"(\d)"))
    ]
    lab.task("tasks/four.yaml", docs_of("1=1", "2=2"), filter_list=chains)


def test_filters_are_found_in_the_tasks(pair: TaskProject) -> None:
    """Sorted by name; a task that lacks a filter does not weigh in it."""
    filtered(pair)
    pair.group("tasks/g.yaml", task=["two", "four"], aggregate_metric_list=MEAN)
    entry = run(pair).results["g"]
    keys = [key for key in entry if key.startswith("exact_match,")]
    assert keys == ["exact_match,digit", "exact_match,none"]
    assert (entry["exact_match,digit"], entry["exact_match,none"]) == (1.0, 0.25)
    assert entry["sample_count"] == {"exact_match,digit": 2, "exact_match,none": 4}
    assert entry["sample_len"] == 4


@pytest.mark.parametrize("filters", ["digit", ["digit"], ["digit", "nobody"]])
def test_filters_may_be_chosen(pair: TaskProject, filters: Any) -> None:
    """One by name or a list; a filter that no task has gives no number."""
    filtered(pair)
    listed = [{"metric": "exact_match", "filter_list": filters}]
    pair.group("tasks/g.yaml", task=["two", "four"], aggregate_metric_list=listed)
    entry = run(pair).results["g"]
    assert [key for key in entry if key.startswith("exact_match,")] == ["exact_match,digit"]


def test_a_group_in_a_group(pair: TaskProject) -> None:
    """The outer mean is over all tasks below; inner groups come before outer ones in results."""
    pair.group("tasks/inner.yaml", task=["three"], aggregate_metric_list=MEAN, group_alias="Inside")
    pair.group("tasks/g.yaml", task=["two", "inner"], aggregate_metric_list=MEAN, metadata={"version": 2.0})
    result = run(pair)
    assert list(result.results) == ["two", "three", "inner", "g"]
    assert list(result.file["groups"]) == ["inner", "g"]
    assert result.results["inner"]["alias"] == "Inside"
    assert result.results["g"]["exact_match,none"] == pytest.approx(2 / 5)
    assert result.results["inner"]["exact_match,none"] == pytest.approx(1 / 3)
    assert result.file["group_subtasks"] == {"g": ["two", "inner"], "inner": ["three"]}
    assert result.file["versions"] == {"g": "2.0", "inner": "N/A", "three": "Yaml", "two": "Yaml"}


def test_a_group_written_inside_another_has_both_names(pair: TaskProject) -> None:
    """`outer::inner`; its settings apply to its own tasks only."""
    inner = {"group": "inner", "task": ["three"], "description": "in ", "aggregate_metric_list": MEAN}
    pair.group("tasks/g.yaml", task=["two", inner])
    result = run(pair)
    assert result.file["group_subtasks"] == {"g": ["two", "g::inner"], "g::inner": ["three"]}
    assert list(result.file["groups"]) == ["g::inner"]
    assert result.prompts("three")[0] == "in 1"
    assert result.prompts("two")[0] == "1"


def test_a_member_group_may_have_overrides(pair: TaskProject) -> None:
    """It keeps its name, members and numbers; the overrides apply to its tasks."""
    pair.group("tasks/inner.yaml", task=["three"], aggregate_metric_list=MEAN, description="old ")
    pair.group("tasks/g.yaml", task=["two", {"group": "inner", "description": "new "}])
    result = run(pair)
    assert result.prompts("three")[0] == "new 1"
    assert result.file["group_subtasks"] == {"g": ["two", "inner"], "inner": ["three"]}
    assert list(result.file["groups"]) == ["inner"]
    assert run(pair, "inner").prompts("three")[0] == "old 1"


def test_a_member_task_may_have_overrides(pair: TaskProject) -> None:
    """`task: name` with other keys: they win over the task's settings, for this member."""
    pair.group("tasks/g.yaml", task=["two", {"task": "three", "description": "changed ", "task_alias": "3"}])
    result = run(pair)
    assert (result.prompts("three")[0], result.prompts("two")[0]) == ("changed 1", "1")
    assert result.results["three"]["alias"] == "3"


def test_members_win_over_groups_and_outer_groups_over_inner_ones(pair: TaskProject) -> None:
    """Task < inner group < outer group < the entry that names the task."""
    pair.task("tasks/two.yaml", TWO, description="task ")
    pair.task("tasks/four.yaml", TWO, description="task ")
    members = ["two", {"task": "three", "description": "entry "}]
    pair.group("tasks/inner.yaml", task=members, description="inner ", target_delimiter="|")
    pair.group("tasks/g.yaml", task=["inner", "four"], description="outer ", doc_to_target="1")
    result = run(pair)
    assert [result.prompts(task)[0] for task in ("two", "three", "four")] == ["outer 1", "entry 1", "outer 1"]
    assert {result.file["configs"][task]["doc_to_target"] for task in ("two", "three", "four")} == {"1"}
    assert run(pair, "inner").prompts("two")[0] == "inner 1"
    assert result.file["configs"]["four"]["target_delimiter"] == " "
    assert result.file["configs"]["two"]["target_delimiter"] == "|"


@pytest.mark.parametrize("member", ["both", {"task": "both", "description": "tag "}])
def test_a_tag_as_a_member_means_its_tasks(pair: TaskProject, member: Any) -> None:
    """They are the group's members, sorted by name, each with the changes of the entry."""
    pair.task("tasks/two.yaml", TWO, tag="both")
    pair.task("tasks/three.yaml", THREE, tag=["both"])
    pair.group("tasks/g.yaml", task=[member])
    result = run(pair)
    assert result.file["group_subtasks"] == {"g": ["three", "two"]}
    assert result.prompts("two")[0] == ("1" if member == "both" else "tag 1")


def test_a_task_written_inside_a_group_has_both_names(pair: TaskProject) -> None:
    """The task has no file of its own."""
    inline = {
        "task": "inline",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": "two.jsonl"}},
        "test_split": "test",
        "doc_to_text": "inline {{q}}",
        "doc_to_target": "inline {{a}}",
    }
    pair.group("tasks/g.yaml", task=[inline, "three"], aggregate_metric_list=MEAN)
    result = run(pair)
    assert list(result.results) == ["g::inline", "three", "g"]
    assert result.results["g::inline"]["exact_match,none"] == 0.5
    assert result.prompts("g__inline") == ["inline 1", "inline 2"]
    assert result.file["configs"]["g::inline"]["metadata"]["config_source"] == "inline"


def test_a_problem_of_a_task_inside_a_group_points_into_the_groups_file(pair: TaskProject) -> None:
    """To the line of the key in the entry."""
    pair.write("tasks/g.yaml", "group: g\ntask:\n  - two\n  - task: three\n    repeats: 0\n")
    with pytest.raises(InputError, match=r"tasks/g.yaml:5 repeats: expected at least 1, found 0"):
        run(pair)


def test_an_unknown_member_is_reported_with_its_line(pair: TaskProject) -> None:
    """And with similar names."""
    pair.write("tasks/g.yaml", "group: g\ntask:\n  - two\n  - tree\n")
    with pytest.raises(InputError, match=r"g.yaml:4 task: there is no task named 'tree'; did you mean 'three'"):
        run(pair)


@pytest.mark.parametrize("member", [5, ["two"], {"tasks": "two"}])
def test_a_member_of_another_shape_is_refused(pair: TaskProject, member: Any) -> None:
    """A name or a mapping with `task` or `group`."""
    pair.group("tasks/g.yaml", task=["two", member])
    with pytest.raises(InputError, match=r"g.yaml:\d task: expected a name, or a mapping with 'task' or 'group'"):
        run(pair)


def test_a_group_that_contains_itself_is_refused(pair: TaskProject) -> None:
    """The message lists the files of the cycle."""
    pair.group("tasks/g.yaml", task=["two", "g"])
    with pytest.raises(InputError, match=r"g.yaml:2 task: this group contains itself: tasks/g.yaml in tasks/g"):
        run(pair)


def test_groups_that_contain_each_other_are_refused(pair: TaskProject) -> None:
    """Also with overrides, and with groups in between."""
    pair.group("tasks/g.yaml", task=["two", "h"])
    pair.group("tasks/h.yaml", task=[{"group": "g", "description": ""}])
    with pytest.raises(InputError, match="contains itself: tasks/g.yaml in tasks/h.yaml in tasks/g.yaml"):
        run(pair)


@pytest.mark.parametrize("text", ["group: g\n", "group: g\ntask: []\n", "group: g\ntask:\n"])
def test_a_group_without_tasks_is_refused(pair: TaskProject, text: str) -> None:
    """There is nothing to run."""
    pair.write("tasks/g.yaml", text)
    with pytest.raises(InputError, match="g.yaml:1 group: the group 'g' has no tasks"):
        run(pair)


def test_a_group_named_by_path_finds_members_beside_it(pair: TaskProject) -> None:
    """No --include-path is needed for tasks in its folder; those of --include-path win."""
    pair.group("tasks/g.yaml", task=["two", "three"], aggregate_metric_list=MEAN)
    assert pair.run("tasks/g.yaml").results["g"]["exact_match,none"] == pytest.approx(2 / 5)
    pair.task("mine/two.yaml", docs_of("1=1", "2=2"))
    result = pair.run("tasks/g.yaml", include_path=["mine"])
    assert result.results["g"]["exact_match,none"] == pytest.approx(3 / 5)


def test_unknown_keys_of_an_aggregate_are_refused(pair: TaskProject) -> None:
    """All of them, each with its line."""
    pair.write(
        "tasks/g.yaml",
        "group: g\ntask: [two]\naggregate_metric_list:\n"
        "  - metric: exact_match\n    weigth_by_size: true\n"
        "  - aggregation: mean\n"
        "  - {metric: exact_match, aggregation: median}\n",
    )
    with pytest.raises(InputError) as caught:
        run(pair)
    texts = [str(problem) for problem in caught.value.problems]
    assert [text.partition(":")[2].partition(" ")[0] for text in texts] == ["4", "6", "7"]
    assert "did you mean 'weight_by_size'" in texts[0]
    assert "expected a mapping with the key 'metric'" in texts[1]
    assert "expected 'mean', the only aggregation of groups, found 'median'" in texts[2]


def test_a_metric_no_member_has_gives_no_number(pair: TaskProject) -> None:
    """The group is in the results without it."""
    pair.group("tasks/g.yaml", task=["two"], aggregate_metric_list=[{"metric": "acc"}])
    result = run(pair)
    assert result.results["g"] == {"alias": "g", "name": "g", "sample_len": 2}
    assert run(pair, predict_only=True).entry("g").metrics == [], "no metric was asked for"


def test_a_member_without_a_number_is_left_out_of_the_group_mean(pair: TaskProject) -> None:
    """A task's own aggregation may return anything."""
    pair.write("tasks/utils.py", "def listed(values):\n    return list(values)\n")
    metric = {"metric": "exact_match", "aggregation": Fn("utils.listed")}
    pair.task("tasks/four.yaml", TWO, metric_list=[metric])
    pair.group("tasks/g.yaml", task=["two", "four"], aggregate_metric_list=MEAN)
    result = run(pair)
    assert result.results["four"]["exact_match,none"] == [1.0, 0.0]
    assert result.results["g"]["exact_match,none"] == 0.5
    assert result.results["g"]["sample_count"] == {"exact_match,none": 2}


def test_metadata_of_a_group_is_a_mapping(pair: TaskProject) -> None:
    """Another type is reported with its line."""
    pair.group("tasks/g.yaml", task=["two"], metadata="v1")
    with pytest.raises(InputError, match=r"g.yaml:4 metadata: expected a mapping, found 'v1'"):
        run(pair)


def test_examples_and_directions_of_a_group_are_those_its_members_agree_on(pair: TaskProject) -> None:
    """`n-shot` only where all agree; `higher_is_better` is null where they do not."""
    lower = {"metric": "exact_match", "higher_is_better": False}
    for name in ("shot1", "shot2"):
        pair.task(f"tasks/{name}.yaml", TWO, metric_list=[lower], num_fewshot=1, fewshot_split="test")
    pair.group("tasks/none.yaml", task=["two"])
    pair.group("tasks/one.yaml", task=["shot1"])
    pair.group("tasks/mixed.yaml", task=["three", "shot2"])
    file = run(pair, "none", "one", "mixed").file
    shots = {"none": 0, "one": 1, "shot1": 1, "shot2": 1, "three": 0, "two": 0}
    assert file["n-shot"] == shots
    higher = {name: file["higher_is_better"][name]["exact_match"] for name in ("none", "one", "mixed")}
    assert higher == {"none": True, "one": False, "mixed": None}


def test_a_task_in_two_of_the_named_groups_is_refused(pair: TaskProject) -> None:
    """Both would write to the same samples file."""
    pair.group("tasks/g.yaml", task=["two", "three"])
    pair.group("tasks/h.yaml", task=["two"])
    with pytest.raises(UsageError, match="two tasks are named 'two': in g and in h"):
        run(pair, "g", "h")
    with pytest.raises(UsageError, match="two tasks are named 'two': in g and in two"):
        run(pair, "g", "two")


def test_a_task_in_two_inner_groups_runs_once(pair: TaskProject) -> None:
    """It counts once in the outer mean, and in each inner one."""
    pair.group("tasks/left.yaml", task=["two"], aggregate_metric_list=MEAN)
    pair.group("tasks/right.yaml", task=["two", "three"], aggregate_metric_list=MEAN)
    pair.group("tasks/g.yaml", task=["left", "right"], aggregate_metric_list=MEAN)
    result = run(pair)
    assert result.run.info.total == 5
    assert result.results["g"]["exact_match,none"] == pytest.approx(2 / 5)
    assert result.results["left"]["exact_match,none"] == 0.5


def test_with_samples_a_group_covers_only_the_selected_tasks(pair: TaskProject) -> None:
    """The group's number is the mean of these."""
    pair.group("tasks/g.yaml", task=["two", "three"], aggregate_metric_list=MEAN)
    result = run(pair, samples={"three": [0, 2]})
    assert result.results["three"]["sample_len"] == 2
    assert result.results["g"]["exact_match,none"] == 0.5
    assert result.results["g"]["sample_len"] == 2


def test_the_summary_has_groups_with_denominator_and_interval(pair: TaskProject) -> None:
    """What the screen shows of a group says how many documents it is made of."""
    pair.group("tasks/g.yaml", task=["two", "three"], aggregate_metric_list=MEAN)
    metric = run(pair).metric("exact_match", "g")
    assert (metric.denominator, metric.aggregation, metric.filter) == (5, "mean of tasks", "none")
    assert metric.interval is not None
    low, high = metric.interval
    assert low < 0.4 < high


def test_a_group_without_a_right_answer_has_an_interval_with_a_width(lab: TaskProject) -> None:
    """0 of 6: the standard error of the harness is 0, the interval is Wilson's."""
    for name in ("two", "three"):
        lab.task(f"tasks/{name}.yaml", docs_of("1=0", "2=0", "3=0"))
    lab.group("tasks/g.yaml", task=["two", "three"], aggregate_metric_list=MEAN)
    result = run(lab)
    assert result.results["g"]["exact_match_stderr,none"] == 0
    metric = result.metric("exact_match", "g")
    assert metric.interval == pytest.approx((0.0, 0.3903), abs=1e-4)
    assert (metric.value, metric.denominator, metric.interval_method) == (0.0, 6, "wilson")


def test_a_group_without_a_score_has_the_errors_of_its_own_tasks(lab: TaskProject) -> None:
    code = "".join(f"def {name}(doc, replies):\n    raise ValueError('{name}')\n" for name in ("one", "other"))
    lab.write("tasks/fails.py", code)
    for name in ("one", "other"):
        lab.task(f"tasks/{name}.yaml", TWO, process_results=Fn(f"fails.{name}"))
        lab.group(f"tasks/g_{name}.yaml", task=[name], aggregate_metric_list=MEAN)
    report = run(lab, "g_one", "g_other").run.report
    assert report is not None
    errors = {entry.name: [error.message for error in entry.errors] for entry in report.entries}
    assert (errors["g_one"], errors["g_other"]) == (["ValueError: one"], ["ValueError: other"])


def test_a_group_name_with_nul_is_refused(pair: TaskProject) -> None:
    pair.group("tasks/g.yaml", task=["two"], group="g\0")
    with pytest.raises(InputError, match="group: a name cannot have the character NUL"):
        pair.run("tasks/g.yaml")


def test_a_weight_that_is_no_truth_counts_as_in_the_harness_with_a_warning(pair: TaskProject) -> None:
    """A group of the harness itself has `weight_by_size: truez`."""
    metric = {"metric": "exact_match", "weight_by_size": "maybe"}
    pair.group("tasks/g.yaml", task=["two", "three"], aggregate_metric_list=[metric])
    message = "weight_by_size: expected true or false, found 'maybe', which counts as true"
    for path in ("tasks/g.yaml", "tasks"):
        warnings = [problem for problem in problems_in(pair.folder / path) if problem.level == "warning"]
        assert [message in problem.message for problem in warnings] == [True]
    assert run(pair).results["g"]["exact_match,none"] == pytest.approx(2 / 5)
