"""Tasks by name: which files are found, which one wins, and the message for an unknown name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import InputError, UsageError
from assay.core.file_check import CheckOptions
from assay.core.suite import files_of
from assay.runner.api import spec
from assay.suites.task.catalog import TaskFolder
from assay.suites.task.suite import TaskSuite

from support.suite_files import problems_in
from support.task_project import TaskProject, docs_of

BASE = "doc_to_text: '{{q}}'\ndoc_to_target: '{{a}}'\ndataset_path: json\ntest_split: test\n"
_opened: list[str] = []
_watching: list[bool] = []
sys.addaudithook(lambda event, values: _opened.append(str(values[0])) if event == "open" and _watching else None)


@contextmanager
def opened() -> Iterator[set[str]]:
    """The names of all YAML files that are opened meanwhile."""
    result: set[str] = set()
    _opened.clear()
    _watching.append(True)
    try:
        yield result
    finally:
        _watching.clear()
        result.update(Path(name).name for name in _opened if name.endswith(".yaml"))


def written(lab: TaskProject, file: str, head: str) -> None:
    """A task whose head is written as given."""
    lab.write(file, f"{head}\n{BASE}dataset_kwargs: {{data_files: {{test: {lab.folder}/docs.jsonl}}}}\n")
    lab.data("docs.jsonl", docs_of("x=x"))


def names(lab: TaskProject, *asked: str, **options: Any) -> list[str]:
    """The tasks that are run for these names."""
    result = lab.run(*asked, **{"include_path": ["tasks"], **options})
    return list(result.file["configs"])


def package(lab: TaskProject, monkeypatch: pytest.MonkeyPatch) -> str:
    """An installed lm_eval, which fails if it is imported; the folder of its tasks."""
    lab.write("site/lm_eval/__init__.py", "raise RuntimeError('this is not to be imported')\n")
    monkeypatch.syspath_prepend(str(lab.folder / "site"))
    return "site/lm_eval/tasks"


@pytest.mark.parametrize(
    "head",
    [
        "task: named",
        'task: "named"',
        "task: 'named'",
        '"task": named',
        "'task': \"named\"",
        "task : named   # the name",
        "# a comment first\ntask: named",
    ],
)
def test_a_task_is_found_by_name_in_every_yaml_form(lab: TaskProject, head: str) -> None:
    """Quotes, spaces and comments make no difference; the file may have another name."""
    written(lab, "tasks/deep/other.yaml", head)
    assert names(lab, "named") == ["named"]


@pytest.mark.parametrize(
    "tags",
    [
        "tag: both",
        "tag: 'both'",
        "tag: [some, both]",
        'tag: ["some", "both"]',
        "tag:\n  - some\n  - both",
        "tag:\n- some\n- 'both'  # comment",
        "tag: # comment\n  - both",
        "tag:\n  # a comment of its own line\n  - both",
        "tag:\n\n  - both",
        "tag: [some,\n  both]",
        "tag: [\n  some,\n  both,\n]",
        '"tag": both',
    ],
)
def test_a_tag_selects_its_tasks_in_every_yaml_form(lab: TaskProject, tags: str) -> None:
    """Scalar, list on one line, list over lines; the tasks come sorted by name."""
    written(lab, "tasks/1.yaml", f"task: second\n{tags}")
    written(lab, "tasks/2.yaml", "task: first\ntag: both")
    written(lab, "tasks/3.yaml", "task: without\ntag: some")
    result = lab.run("both", include_path=["tasks"])
    assert list(result.results) == ["first", "second"]


def test_tags_and_names_come_from_included_files(lab: TaskProject) -> None:
    """A file without a tag or a name of its own has that of the included file."""
    written(lab, "tasks/base.yaml", "tag: shared")
    lab.write("tasks/one.yaml", "include: base.yaml\ntask: one\n")
    lab.write("tasks/two.yaml", "task: two\ninclude: [base.yaml]\ntag: own\n")
    lab.write("tasks/named.txt", "task: three\n")
    lab.write("tasks/three.yml", "include:\n  - base.yaml\n  - named.txt\n")
    assert names(lab, "shared") == ["one", "three"]
    assert names(lab, "own") == ["two"]
    assert names(lab, "three") == ["three"]


def test_of_several_included_files_the_last_tag_counts(lab: TaskProject) -> None:
    """As when the files are merged."""
    written(lab, "tasks/base.yaml", "tag: early")
    lab.write("tasks/more.yaml", "tag: late\n")
    lab.write("tasks/one.yaml", "include: [base.yaml, more.yaml]\ntask: one\n")
    assert names(lab, "late") == ["one"]
    with pytest.raises(UsageError, match="there is no task named 'early'"):
        lab.run("early", include_path=["tasks"])


def test_an_indented_task_key_is_not_a_name(lab: TaskProject) -> None:
    """Only unindented keys count."""
    written(lab, "tasks/one.yaml", "task: one\ndescription: |\n  task: two\n  tag: three")
    assert names(lab, "one") == ["one"]
    with pytest.raises(UsageError, match="there is no task named 'two'"):
        lab.run("two", include_path=["tasks"])


def test_a_duplicate_name_is_refused_only_when_it_is_selected(lab: TaskProject) -> None:
    """The message names both files."""
    written(lab, "tasks/a.yaml", "task: twice")
    written(lab, "tasks/b.yaml", "task: twice")
    written(lab, "tasks/c.yaml", "task: once")
    assert names(lab, "once") == ["once"]
    with pytest.raises(UsageError, match=r"two files define 'twice': tasks/a.yaml and tasks/b.yaml"):
        lab.run("twice", include_path=["tasks"])


def test_a_pattern_selects_every_name_it_matches(lab: TaskProject) -> None:
    """`sub_*` and `sub_[ab]` select by name, sorted; a pattern without a match is an error."""
    for name in ("sub_b", "sub_a", "sub_c", "other"):
        written(lab, f"tasks/{name}.yaml", f"task: {name}")
    assert list(lab.run("sub_*", include_path=["tasks"]).results) == ["sub_a", "sub_b", "sub_c"]
    assert names(lab, "sub_[ab]") == ["sub_a", "sub_b"]
    assert names(lab, "?ther") == ["other"]
    with pytest.raises(UsageError, match=r"no task matches 'none_\*'"):
        lab.run("none_*", include_path=["tasks"])


def test_a_task_selected_by_tag_and_by_name_runs_once(lab: TaskProject) -> None:
    """A pattern may match both."""
    written(lab, "tasks/1.yaml", "task: sub_a\ntag: sub_all")
    written(lab, "tasks/2.yaml", "task: sub_b\ntag: sub_all")
    assert list(lab.run("sub_*", include_path=["tasks"]).results) == ["sub_a", "sub_b"]
    assert list(lab.run("sub_b", "sub_all", include_path=["tasks"]).results) == ["sub_b", "sub_a"]


def test_an_unknown_name_gets_suggestions(lab: TaskProject) -> None:
    """Names, groups and tags are suggested."""
    written(lab, "tasks/a.yaml", "task: arithmetic\ntag: sums")
    with pytest.raises(UsageError, match="no task named 'arithmetik'; did you mean 'arithmetic'"):
        lab.run("arithmetik", include_path=["tasks"])
    with pytest.raises(UsageError, match="did you mean 'sums'"):
        lab.run("sum", include_path=["tasks"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("numbr_7", r"there is no task named 'numbr_7'; did you mean 'number_7' or .{10,40}\?$"),
        ("ber_42", r"there is no task named 'ber_42'; did you mean 'number_42'\?$"),
        ("quiz", r"there is no task named 'quiz', and none of the 60 known names is similar; .* --list.*"),
    ],
)
def test_among_many_names_only_near_ones_are_listed(lab: TaskProject, name: str, message: str) -> None:
    """lm_eval has 14,000 names."""
    for number in range(60):
        lab.write(f"tasks/{number}.yaml", f"task: number_{number}\n")
    with pytest.raises(UsageError, match=message):
        lab.run(name, include_path=["tasks"])


def test_a_name_without_any_folder_gets_a_hint(lab: TaskProject) -> None:
    """The hint names --include-path and the package lm_eval."""
    with pytest.raises(UsageError, match=r"there is no YAML file 'named' .*--include-path.*lm_eval"):
        lab.run("named")


def test_a_missing_include_path_is_refused(lab: TaskProject) -> None:
    """A mistyped folder is not an empty one."""
    with pytest.raises(UsageError, match="--include-path 'tsks' is not a folder"):
        lab.run("named", include_path=["tsks"])


def test_tasks_of_an_installed_package_are_found_without_importing_it(
    lab: TaskProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package's folder is read; its code is not run."""
    tasks = package(lab, monkeypatch)
    written(lab, f"{tasks}/maths/named.yaml", "task: named")
    assert names(lab, "named", include_path=[]) == ["named"]


def test_the_users_folder_wins_over_the_package(lab: TaskProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task of the same name in --include-path is the one that runs."""
    tasks = package(lab, monkeypatch)
    written(lab, f"{tasks}/named.yaml", "task: named\ntask_alias: theirs")
    written(lab, "tasks/mine.yaml", "task: named\ntask_alias: mine")
    assert lab.run("named", include_path=["tasks"]).results["named"]["alias"] == "mine"
    assert lab.run("named").results["named"]["alias"] == "theirs"


def test_a_duplicate_name_in_the_package_uses_the_first_file(lab: TaskProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Users cannot rename files of a package."""
    tasks = package(lab, monkeypatch)
    written(lab, f"{tasks}/b.yaml", "task: named\ntask_alias: second")
    written(lab, f"{tasks}/a.yaml", "task: named\ntask_alias: first")
    assert lab.run("named").results["named"]["alias"] == "first"


def test_only_needed_files_of_the_package_are_read(lab: TaskProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task whose file has its name is read alone, with what it includes."""
    tasks = package(lab, monkeypatch)
    for name in ("one", "two", "three"):
        lab.write(f"{tasks}/{name}.yaml", f"include: _base.yaml\ntask: {name}\n")
    written(lab, f"{tasks}/_base.yaml", "tag: all")
    with opened() as files:
        lab.run("two")
    assert files - {"prices.yaml"} == {"two.yaml", "_base.yaml"}


def test_a_task_named_by_path_reads_no_other_file(lab: TaskProject) -> None:
    """Neither its neighbours nor the folders of --include-path."""
    written(lab, "tasks/one.yaml", "task: one")
    written(lab, "tasks/two.yaml", "task: two")
    with opened() as files:
        lab.run("tasks/one.yaml", include_path=["tasks"])
    assert files - {"prices.yaml"} == {"one.yaml"}


def test_a_missing_file_is_reported_by_its_path(lab: TaskProject) -> None:
    """A name that ends in .yaml is never a task's name."""
    with pytest.raises(UsageError, match="there is no task file 'nowhere.yaml'"):
        lab.run("nowhere.yaml")


def test_listing_shows_tasks_groups_and_tags(lab: TaskProject) -> None:
    """Every name with its kind and its file; a tag with its tasks."""
    written(lab, "tasks/a.yaml", "task: a\ntag: t")
    written(lab, "tasks/b.yaml", "task: b\ntag: [t]")
    lab.write("tasks/g.yaml", "group: g\ntask: [a, b]\ntag: [t]\n")
    sections = TaskSuite.instead_of_run(spec("task", listing=True, include_path=["tasks"]))
    assert isinstance(sections, list)
    assert sections[0].table.rows == [
        ["task", "a", "tasks/a.yaml"],
        ["task", "b", "tasks/b.yaml"],
        ["group", "g", "tasks/g.yaml"],
        ["tag", "t", "a, b"],
    ]


def test_folders_of_notebooks_and_caches_are_ignored(lab: TaskProject) -> None:
    """`.ipynb_checkpoints` contains copies with the same names."""
    written(lab, "tasks/a.yaml", "task: a")
    written(lab, "tasks/.ipynb_checkpoints/a-checkpoint.yaml", "task: a")
    assert names(lab, "a") == ["a"]


def test_a_file_with_a_byte_order_mark_has_its_name(lab: TaskProject) -> None:
    """Editors on Windows write one."""
    written(lab, "tasks/a.yaml", "\ufefftask: a")
    assert names(lab, "a") == ["a"]


def test_lines_that_end_as_on_windows_make_no_difference(lab: TaskProject) -> None:
    """Names and tags have no carriage return."""
    written(lab, "tasks/a.yaml", "task: a\ntag:\n  - t")
    path = lab.folder / "tasks" / "a.yaml"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert names(lab, "t") == ["a"]


def test_searching_files_that_include_themselves_ends(lab: TaskProject) -> None:
    """Running such a file reports the problem."""
    lab.write("tasks/a.yaml", "include: b.yaml\ntag: x\n")
    lab.write("tasks/b.yaml", "include: a.yaml\n")
    written(lab, "tasks/c.yaml", "task: c")
    assert names(lab, "c") == ["c"]
    assert TaskFolder(Path("tasks"), strict=True).names().keys() == {"c"}
    with pytest.raises(InputError, match="includes itself"):
        lab.run("tasks/a.yaml")


def test_a_class_task_is_named_and_refused(lab: TaskProject) -> None:
    """A task that is a Python class is found by name and refused with its line."""
    lab.write("tasks/a.yaml", "task: a\nclass: !function task.Squad\n")
    with pytest.raises(InputError, match=r"a.yaml:2 class: tasks written as a Python class are not supported"):
        lab.run("a", include_path=["tasks"])


def test_check_of_a_folder_warns_about_duplicate_names(lab: TaskProject) -> None:
    """The rest of the folder is checked too."""
    written(lab, "tasks/a.yaml", "task: twice")
    written(lab, "tasks/b.yaml", "task: twice")
    written(lab, "tasks/c.yaml", "task: once")
    problems = problems_in(Path("tasks"))
    assert [(p.level, p.where) for p in problems] == [("warning", "tasks/b.yaml")]
    assert "tasks/a.yaml has the name 'twice' too" in problems[0].message
    assert "3 of 3 files are fine" in files_of(TaskSuite).examine(Path("tasks"), CheckOptions()).contents
