"""`depends_on`: groups of cases, dependencies first."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.core.errors import InputError
from assay.suites.pipeline.testset.testsets import CaseGroup, CaseSelection, Testsets


def groups(tmp_path: Path, *lines: str, ids: tuple[str, ...] = ()) -> list[CaseGroup]:
    """Return the groups of `id: needs needs` lines, numbered in their order."""
    path = tmp_path / "a_b.jsonl"
    with path.open("w") as file:
        for line in lines:
            name, _, needs = line.partition(":")
            wanted = str(needs.split()).replace("'", '"')
            more = ', "parameters": {"k": [1, 2]}' if name.endswith("*") else ""
            file.write(f'{{"id": "{name.rstrip("*")}",\n  "depends_on": {wanted}{more}}}\n')
    sets = Testsets([str(path)], CaseSelection.of(ids=ids))
    result = sets.load().groups
    assert [group.index for group in result] == list(range(len(result)))
    assert sum(len(group.cases) for group in result) == sets.load().tests
    return result


def order(result: list[CaseGroup]) -> list[str]:
    """Each group's ids, joined."""
    return [" ".join(case.key for case in group.cases) for group in result]


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (["a", "b", "c"], ["a", "b", "c"]),
        (["a", "b: a", "c"], ["a b", "c"]),
        (["a: c", "b", "c"], ["c a", "b"]),
        (["a", "b", "c: a", "d: b"], ["a c", "b d"]),
        (["a: b", "b: c", "c", "d", "e: d"], ["c b a", "d e"]),
        (["a", "b: a", "c: a", "d: c b"], ["a b c d"]),
        (["x", "a: c", "b", "c: b"], ["x", "b c a"]),
    ],
)
def test_dependent_cases_form_a_group_at_the_position_of_the_first(
    tmp_path: Path, lines: list[str], wanted: list[str]
) -> None:
    """Dependencies first, otherwise in file order."""
    assert order(groups(tmp_path, *lines)) == wanted


@pytest.mark.parametrize(
    ("ids", "wanted", "brought"),
    [
        (("b",), ["a b"], [["a"]]),
        (("c",), ["a b c"], [["a", "b"]]),
        (("a",), ["a"], [[]]),
        (("a", "b"), ["a b"], [[]]),
        (("x", "c"), ["x", "a b c"], [[], ["a", "b"]]),
    ],
)
def test_an_unselected_dependency_joins_the_group(
    tmp_path: Path, ids: tuple[str, ...], wanted: list[str], brought: list[list[str]]
) -> None:
    """It is marked as unselected; cases that depend on a selected one do not join."""
    result = groups(tmp_path, "x", "a", "b: a", "c: b", ids=ids)
    assert order(result) == wanted
    assert [group.unselected for group in result] == brought


def test_an_unselected_case_does_not_join_two_groups(tmp_path: Path) -> None:
    """Cases that only an unselected case connects stay separate."""
    assert order(groups(tmp_path, "a", "b", "c: a b", ids=("a", "b"))) == ["a", "b"]


def test_a_dependency_on_an_expanded_case_means_all_combinations(tmp_path: Path) -> None:
    """`waits_for` lists them."""
    (result,) = groups(tmp_path, "p*", "q: p")
    assert order([result]) == ["p[k=1] p[k=2] q"]
    assert [result.waits_for(case) for case in result.cases] == [[], [], ["p[k=1]", "p[k=2]"]]


def test_a_dependency_on_one_combination_waits_for_that_one(tmp_path: Path) -> None:
    """The group still contains all of them, because they are one record."""
    (result,) = groups(tmp_path, "p*", "q: p[k=2]")
    assert result.waits_for(result.cases[-1]) == ["p[k=2]"]
    assert order(groups(tmp_path, "p*", "q: p", ids=("q",))) == ["p[k=1] p[k=2] q"]
    assert order(groups(tmp_path, "p*: r", "r", ids=("p[k=2]",))) == ["r p[k=2]"]


@pytest.mark.parametrize(
    ("lines", "where", "message"),
    [
        (["a: a"], ":2 ", "wait for each other: a → a"),
        (["x", "a: b", "b: c", "c: a"], ":4 ", "wait for each other: a → b → c → a"),
        (["a", "b: z"], ":4 ", "there is no case 'z' in this file"),
    ],
)
def test_a_cycle_or_an_unknown_id_is_an_error(tmp_path: Path, lines: list[str], where: str, message: str) -> None:
    """With the line of the key and the ids."""
    with pytest.raises(InputError, match=message) as caught:
        groups(tmp_path, *lines)
    (problem,) = caught.value.problems
    assert f"{where}$.depends_on" in problem.where


def test_no_cycle_hides_another(tmp_path: Path) -> None:
    """All cycles and all unknown ids are reported."""
    with pytest.raises(InputError) as caught:
        groups(tmp_path, "a: b", "b: a", "c: d", "d: c", "e: z")
    assert len(caught.value.problems) == 3


def test_another_error_does_not_hide_a_dependency(tmp_path: Path) -> None:
    """A record with an invalid field still counts, in both directions."""
    path = tmp_path / "a_b.jsonl"
    path.write_text('{"id": "a", "tags": 5, "depends_on": "z"}\n{"id": "b", "depends_on": ["a"]}\n')
    with pytest.raises(InputError) as caught:
        Testsets([str(path)]).load()
    assert [problem.where.partition(" ")[2] for problem in caught.value.problems] == [
        "$.tags",
        "$.depends_on",
    ]


def test_a_declared_input_named_depends_on_is_no_dependency(tmp_path: Path) -> None:
    """In a v1 record."""
    path = tmp_path / "a_b.jsonl"
    path.write_text('{"id": "a", "depends_on": "z"}\n{"id": "b"}\n')
    result = Testsets([str(path)], declared=frozenset({"depends_on"})).load().groups
    assert [case.inputs for group in result for case in group.cases] == [{"depends_on": "z"}, {}]


def test_a_long_chain_does_not_exhaust_the_stack(tmp_path: Path) -> None:
    """Five thousand cases, each waiting for the next one."""
    (result,) = groups(tmp_path, *(f"n{at}: n{at + 1}" for at in range(5000)), "n5000")
    assert [case.key for case in result.cases] == [f"n{at}" for at in range(5000, -1, -1)]


@pytest.mark.parametrize(("limit", "tests"), [(1, 2), (2, 3), (3, 5), (4, 6)])
def test_a_limit_counts_groups_and_their_tests(tmp_path: Path, limit: int, tests: int) -> None:
    """A group counts once, however many cases it has."""
    groups(tmp_path, "a", "b: a", "c", "d", "e: d", "f")
    sets = Testsets([str(tmp_path / "a_b.jsonl")], limit=limit)
    assert (len(sets.load().groups), sets.load().tests) == (limit, tests)


def test_members_are_read_from_every_layout(tmp_path: Path) -> None:
    """Several on a line, over several lines, after a BOM."""
    path = tmp_path / "a_b.jsonl"
    path.write_text(
        '\ufeff{"id": "a", "x": 1} {"id": "b", "depends_on": "c"} {"id":\n"c", "depends_on": "a"}\r\n{"id": "d"}'
    )
    result = Testsets([str(path)]).load().groups
    assert order(result) == ["a c b", "d"]
    assert [case.line for case in result[0].cases] == [1, 1, 1]
    assert result[0].cases[0].inputs == {"x": 1}
