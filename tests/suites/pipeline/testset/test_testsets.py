"""Several files as one sequence of groups: names, selection, parameters, limits, fingerprints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay import TestCase, TestsetLoader
from assay.core.errors import InputError, UsageError
from assay.suites.pipeline.testset.testsets import CaseGroup, CaseSelection, Testsets


def write(path: Path, *records: dict[str, Any]) -> str:
    """A compact testset."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
    return str(path)


def ids(groups: list[CaseGroup]) -> list[list[str]]:
    """The ids of every group."""
    return [[case.key for case in group.cases] for group in groups]


def three(tmp_path: Path) -> str:
    """Cases a, b, c with tags."""
    return write(
        tmp_path / "a_b.jsonl",
        {"id": "a", "tags": ["x"], "inputs": {"n": 1}},
        {"id": "b", "tags": ["x", "y"], "inputs": {"n": 2}},
        {"id": "c", "inputs": {"n": 3}},
    )


def test_groups_come_in_order_of_the_files(tmp_path: Path) -> None:
    """Indexes count over all files."""
    names = [three(tmp_path), write(tmp_path / "c_d.jsonl", {"id": "a"})]
    sets = Testsets(names)
    groups = sets.load().groups
    assert [(group.index, group.set) for group in groups] == [(0, "a_b"), (1, "a_b"), (2, "a_b"), (3, "c_d")]
    assert len(sets.load().groups) == 4
    assert sets.load().sets == {"a_b": 3, "c_d": 1}
    assert groups[2].cases[0].where == f"{names[0]}:3"


def test_files_globs_and_folders_name_testsets(tmp_path: Path) -> None:
    """Each file once, a folder with all below it; clashing stems get their path."""
    for name in ("unit/a_b", "deep/er/a_b", "unit/c_d"):
        write(tmp_path / f"{name}.jsonl", {"id": 1})
    (tmp_path / "unit" / "notes.txt").write_text("no testset")
    assert list(Testsets([str(tmp_path)]).files) == ["deep/er/a_b", "unit/a_b", "c_d"]
    named = [str(tmp_path / "unit" / "c*.jsonl"), str(tmp_path / "unit")]
    assert list(Testsets(named).files) == ["c_d", "a_b"]
    for wrong in ("nothing.jsonl", "no*.jsonl"):
        with pytest.raises(UsageError, match="there is no testset"):
            Testsets([str(tmp_path / wrong)])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no .jsonl file below"):
        Testsets([str(tmp_path / "empty")])


def test_files_of_one_stem_in_nested_folders_get_different_names(tmp_path: Path) -> None:
    """The common folder is that of the upper file."""
    write(tmp_path / "a_b.jsonl", {"id": 1})
    write(tmp_path / "x" / "a_b.jsonl", {"id": 1})
    assert list(Testsets([str(tmp_path)]).files) == ["a_b", "x/a_b"]


@pytest.mark.parametrize(
    ("files", "sets"),
    [
        (("a.jsonl", "a.txt", "b.jsonl"), ["a.jsonl", "a.txt", "b"]),
        (("a.jsonl", "a.txt", "a.jsonl.old"), ["a.jsonl", "a.txt", "a.jsonl.old"]),
    ],
)
def test_files_that_differ_in_their_ending_are_all_read(
    tmp_path: Path, files: tuple[str, ...], sets: list[str]
) -> None:
    """Each has its own name."""
    names = [write(tmp_path / name, {"id": 1}) for name in files]
    assert list(Testsets(names).load().sets) == sets


def test_links_of_one_name_are_two_files(tmp_path: Path) -> None:
    """A link has its own name, not that of its target."""
    for place in ("x", "y"):
        write(tmp_path / f"real_{place}.jsonl", {"id": place})
        (tmp_path / place).mkdir()
        (tmp_path / place / "t.jsonl").symlink_to(tmp_path / f"real_{place}.jsonl")
    assert list(Testsets([str(tmp_path / "x"), str(tmp_path / "y")]).files) == ["x/t", "y/t"]


def test_folders_are_no_testsets(tmp_path: Path) -> None:
    """Neither by a pattern nor below a folder; an empty name is not the working directory."""
    (tmp_path / "d.jsonl").mkdir()
    for name in (str(tmp_path / "d*"), str(tmp_path), ""):
        with pytest.raises(UsageError, match=r"there is no|is empty"):
            Testsets([name])


def test_errors_of_all_files_come_at_once(tmp_path: Path) -> None:
    """Warnings and advice are notes."""
    names = [write(tmp_path / f"{name}_a.jsonl", {"inputs": {}}, {"id": 1, "tags": "t"}) for name in "ab"]
    with pytest.raises(InputError) as caught:
        Testsets(names).load()
    assert [problem.where for problem in caught.value.problems] == [f"{name}:1" for name in names]
    fine = write(tmp_path / "fine.jsonl", {"id": 1, "tags": "t"})
    assert [note.level for note in Testsets([fine]).load().notes] == ["advice", "warning"]


@pytest.mark.parametrize(
    ("include", "exclude", "wanted", "left"),
    [
        ((), (), (), "abc"),
        (("x",), (), (), "ab"),
        (("x", "z"), ("y",), (), "a"),
        ((), ("x",), (), "c"),
        (("X", "y"), (), (), "b"),
        ((), (), ("c", "a"), "ac"),
        (("x",), (), ("b", "c"), "b"),
    ],
)
def test_tags_and_ids_select(
    tmp_path: Path, include: tuple[str, ...], exclude: tuple[str, ...], wanted: tuple[str, ...], left: str
) -> None:
    """At least one included tag, no excluded tag, and one of the ids; case-sensitive."""
    sets = Testsets([three(tmp_path)], CaseSelection.of(include, exclude, wanted))
    assert ids(sets.load().groups) == [[key] for key in left]
    assert sets.load().tests == len(left)
    if not wanted:
        cases = TestsetLoader.load_testset(tmp_path / "a_b.jsonl")
        assert [case.id for case in TestsetLoader.filter_by_tags(cases, include, exclude)] == list(left)


def test_an_id_that_no_file_has_is_refused(tmp_path: Path) -> None:
    """With similar ids; ids are compared as text."""
    name = write(tmp_path / "a_b.jsonl", {"id": "case_one"}, {"id": 7})
    assert ids(Testsets([name], CaseSelection.of(ids=[7])).load().groups) == [["7"]]
    with pytest.raises(UsageError, match="no case named 'case_on'; did you mean 'case_one'?"):
        Testsets([name], CaseSelection.of(ids=["case_on", "7"])).load()


def test_an_empty_selection_is_refused(tmp_path: Path) -> None:
    """A run without cases would look like a pass."""
    with pytest.raises(UsageError, match="no test case matches the selection: --include-tags q"):
        Testsets([three(tmp_path)], CaseSelection.of(["q"])).load()


@pytest.mark.parametrize(("limit", "kept"), [(None, "abcd"), (2, "abd"), (0.5, "abd"), (0.1, "ad"), (9, "abcd")])
def test_the_limit_is_for_each_set(tmp_path: Path, limit: float | None, kept: str) -> None:
    """A count, or below 1 a share rounded up."""
    sets = Testsets([three(tmp_path), write(tmp_path / "c_d.jsonl", {"id": "d"})], limit=limit)
    groups = sets.load().groups
    assert ids(groups) == [[key] for key in kept]
    assert [group.index for group in groups] == list(range(len(kept)))
    assert len(sets.load().groups) == len(kept)


def test_parameters_stand_for_every_combination(tmp_path: Path) -> None:
    """In written order, the last list fastest; values replace inputs."""
    record = {
        "id": "p",
        "tags": ["t"],
        "inputs": {"lang": "fr", "text": "hi"},
        "parameters": {"lang": ["en", "de"], "n": [1, True, None]},
        "expected_output": "ok",
    }
    cases = [group.cases[0] for group in Testsets([write(tmp_path / "a_b.jsonl", record)]).load().groups]
    assert [case.id for case in cases] == [
        f"p[lang={lang},n={n}]" for lang in ("en", "de") for n in ("1", "true", "null")
    ]
    assert cases[4].inputs == {"lang": "de", "text": "hi", "n": True}
    assert {case.origin for case in cases} == {"p"}
    assert all(case.parameters is None and case.expected_outputs == {"output": "ok"} for case in cases)
    assert TestCase.from_dict(cases[0].to_dict()) == cases[0]


def test_expanded_ids_can_be_selected(tmp_path: Path) -> None:
    """One of them, or all by the id in the file."""
    name = write(tmp_path / "a_b.jsonl", {"id": "p", "parameters": {"k": [1, 2, 3]}}, {"id": "q"})
    assert ids(Testsets([name], CaseSelection.of(ids=["p[k=2]"])).load().groups) == [["p[k=2]"]]
    assert len(Testsets([name], CaseSelection.of(ids=["p"])).load().groups) == 3
    with pytest.raises(UsageError, match="did you mean 'p"):
        Testsets([name], CaseSelection.of(ids=["p[k=4]"])).load()


@pytest.mark.parametrize(
    "records",
    [
        [{"id": "p", "parameters": {"k": [1, "1"]}}],
        [{"id": "p[k=1]", "inputs": {}}, {"id": "p", "parameters": {"k": [1, 2]}}],
    ],
)
def test_expanded_ids_are_unique_too(tmp_path: Path, records: list[dict[str, Any]]) -> None:
    """Among each other and against ids in the file."""
    with pytest.raises(InputError, match=r"duplicate id 'p\[k=1\]', first used on"):
        Testsets([write(tmp_path / "a_b.jsonl", *records)]).load()


BASE: dict[str, Any] = {
    "id": "a",
    "tags": ["t"],
    "inputs": {"x": 1, "y": 2},
    "step_inputs": {"s": {"k": 1}},
    "batch_items": [{"i": 1}],
    "conditions": "x > 0",
    "parameters": {"z": [1]},
    "expected_outputs": {"o": 1},
    "expected_aggregation": {"n": 1},
    "intermediate_expectations": {"s": 1},
    "evaluation_config": {"tolerance": 0.1},
    "performance_baseline": {"max_seconds": 1},
    "expected": "reference",
    "metadata": {"author": "me"},
}


def digests(tmp_path: Path, *records: dict[str, Any]) -> tuple[str, str]:
    """Return both fingerprints of a testset of these records."""
    look = Testsets([write(tmp_path / "a_b.jsonl", *records)]).load()
    return look.inputs_fingerprint, look.gold_fingerprint


@pytest.mark.parametrize(
    "change",
    [
        {"id": "b"},
        {"tags": ["u"]},
        {"inputs": {"x": 1, "y": 3}},
        {"step_inputs": {}},
        {"batch_items": []},
        {"conditions": "x > 1"},
        {"parameters": {"z": [1, 2]}},
        {"depends_on": "other"},
        {"custom": 1},
    ],
)
def test_the_inputs_fingerprint_covers_everything_that_affects_replies(tmp_path: Path, change: dict[str, Any]) -> None:
    """Such a change leaves the fingerprint of the expectations alone."""
    other = {"id": "other"}
    before, after = digests(tmp_path, BASE, other), digests(tmp_path, BASE | change, other)
    assert before[0] != after[0]
    assert before[1] == after[1]


@pytest.mark.parametrize(
    "change",
    [
        {"expected_outputs": {"o": 2}},
        {"expected_output": 2},
        {"expected_aggregation": None},
        {"intermediate_expectations": {}},
        {"evaluation_config": {}},
        {"performance_baseline": None},
        {"expected": "another"},
    ],
)
def test_expectations_have_a_fingerprint_of_their_own(tmp_path: Path, change: dict[str, Any]) -> None:
    """A changed expectation changes neither the other fingerprint nor a group's key."""
    before, after = digests(tmp_path, BASE), digests(tmp_path, BASE | change)
    assert before[0] == after[0]
    assert before[1] != after[1]
    keys = {Testsets([write(tmp_path / "a_b.jsonl", it)]).load().groups[0].key for it in (BASE, BASE | change)}
    assert len(keys) == 1


def test_fingerprints_depend_on_order_and_not_on_layout(tmp_path: Path) -> None:
    """The order of cases counts; the order of keys, spaces and v1 do not."""
    one, two = {"id": 1, "x": 1}, {"id": 2, "x": 1}
    assert digests(tmp_path, one, two)[0] != digests(tmp_path, two, one)[0]
    shuffled = dict(reversed(BASE.items())) | {"inputs": {"y": 2, "x": 1}}
    assert digests(tmp_path, BASE) == digests(tmp_path, shuffled)
    (tmp_path / "c_d.jsonl").write_text('// c\n{"id":\n1, "inputs": {"x": 1}}')
    look = Testsets([str(tmp_path / "c_d.jsonl")]).load()
    assert digests(tmp_path, one) == (look.inputs_fingerprint, look.gold_fingerprint)


def test_only_selected_cases_count(tmp_path: Path) -> None:
    """A change of an unselected case changes nothing."""

    def asked(value: int) -> str:
        name = write(tmp_path / "a_b.jsonl", {"id": "a"}, {"id": "b", "x": value})
        return Testsets([name], CaseSelection.of(ids=["a"])).load().inputs_fingerprint

    assert asked(1) == asked(2)


def test_unselected_dependencies_count(tmp_path: Path) -> None:
    """They run, so a change changes the fingerprints."""

    def look(record: dict[str, Any]) -> tuple[str, str]:
        name = write(tmp_path / "a_b.jsonl", {"id": "a", "depends_on": "b"}, {"id": "b", **record})
        result = Testsets([name], CaseSelection.of(ids=["a"])).load()
        return result.inputs_fingerprint, result.gold_fingerprint

    assert look({"x": 1})[0] != look({"x": 2})[0]
    assert look({"expected": 1})[1] != look({"expected": 2})[1]


@pytest.mark.parametrize("change", [{"id": "b"}, {"tags": []}, {"inputs": {}}, {"batch_items": None}])
def test_the_key_of_a_group_depends_on_its_inputs(tmp_path: Path, change: dict[str, Any]) -> None:
    """Id, inputs, step inputs and batch items change it; a tag does not."""
    one, two = (Testsets([write(tmp_path / "a_b.jsonl", it)]).load().groups[0] for it in (BASE, BASE | change))
    assert (one.key == two.key) == ("tags" in change)


def test_tags_affect_the_inputs_fingerprint_only_with_a_condition(tmp_path: Path) -> None:
    """Tagging another test starts no new run."""

    def asked(tag: str, **more: Any) -> str:
        record = {"id": "a", "inputs": {"x": 1}, "tags": [tag], **more}
        return Testsets([write(tmp_path / "a_b.jsonl", record)]).load().inputs_fingerprint

    assert asked("s") == asked("t")
    assert asked("s", step_inputs={}) == asked("t", step_inputs={})
    assert asked("s", conditions='"s" in tags') != asked("t", conditions='"s" in tags')
