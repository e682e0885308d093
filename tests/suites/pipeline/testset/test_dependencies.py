"""`depends_on`: groups of cases in the order of their ties."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.core.errors import InputError
from assay.suites.pipeline.testset.testsets import CaseGroup, CaseSelection, Testsets


def groups(tmp_path: Path, *lines: str, ids: tuple[str, ...] = ()) -> list[CaseGroup]:
    """The groups of `id: needs needs` lines, numbered in their order."""
    path = tmp_path / "a_b.jsonl"
    with path.open("w") as file:
        for line in lines:
            name, _, needs = line.partition(":")
            wanted = str(needs.split()).replace("'", '"')
            more = ', "parameters": {"k": [1, 2]}' if name.endswith("*") else ""
            file.write(f'{{"id": "{name.rstrip("*")}",\n  "depends_on": {wanted}{more}}}\n')
    sets = Testsets([str(path)], CaseSelection.of(ids=ids))
    found = sets.load().groups
    assert [group.index for group in found] == list(range(len(found)))
    assert sum(len(group.cases) for group in found) == sets.load().tests
    return found


def order(found: list[CaseGroup]) -> list[str]:
    """Each group's ids, joined."""
    return [" ".join(case.key for case in group.cases) for group in found]


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
def test_tied_cases_form_a_group_at_the_place_of_the_first(
    tmp_path: Path, lines: list[str], wanted: list[str]
) -> None:
    """Dependencies first, otherwise as in the file."""
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
def test_a_dependency_is_brought_along(
    tmp_path: Path, ids: tuple[str, ...], wanted: list[str], brought: list[list[str]]
) -> None:
    """It is noted as such; what only depends on a selected case stays away."""
    found = groups(tmp_path, "x", "a", "b: a", "c: b", ids=ids)
    assert order(found) == wanted
    assert [group.unselected for group in found] == brought


def test_what_ties_two_cases_must_be_there(tmp_path: Path) -> None:
    """Cases that only a left out case ties together are on their own."""
    assert order(groups(tmp_path, "a", "b", "c: a b", ids=("a", "b"))) == ["a", "b"]


def test_a_tie_to_an_expanded_case_means_all_of_it(tmp_path: Path) -> None:
    """And the group says which cases another one waits for."""
    (found,) = groups(tmp_path, "p*", "q: p")
    assert order([found]) == ["p[k=1] p[k=2] q"]
    assert [found.waits_for(case) for case in found.cases] == [[], [], ["p[k=1]", "p[k=2]"]]


def test_a_tie_to_one_expansion_waits_for_that_one(tmp_path: Path) -> None:
    """All of them still stand in the group, since they are one record."""
    (found,) = groups(tmp_path, "p*", "q: p[k=2]")
    assert found.waits_for(found.cases[-1]) == ["p[k=2]"]
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
def test_a_cycle_or_an_unknown_id_is_an_error(
    tmp_path: Path, lines: list[str], where: str, message: str
) -> None:
    """With the line of the key and the names."""
    with pytest.raises(InputError, match=message) as caught:
        groups(tmp_path, *lines)
    (problem,) = caught.value.problems
    assert f"{where}$.depends_on" in problem.where


def test_no_cycle_hides_another(tmp_path: Path) -> None:
    """Each is told, and unknown ids too."""
    with pytest.raises(InputError) as caught:
        groups(tmp_path, "a: b", "b: a", "c: d", "d: c", "e: z")
    assert len(caught.value.problems) == 3


def test_another_fault_does_not_hide_a_tie(tmp_path: Path) -> None:
    """A record with a wrong field is still asked whom it depends on, and may be depended on."""
    path = tmp_path / "a_b.jsonl"
    path.write_text('{"id": "a", "tags": 5, "depends_on": "z"}\n{"id": "b", "depends_on": ["a"]}\n')
    with pytest.raises(InputError) as caught:
        Testsets([str(path)]).load()
    assert [problem.where.partition(" ")[2] for problem in caught.value.problems] == [
        "$.tags",
        "$.depends_on",
    ]


def test_a_declared_input_of_that_name_is_no_tie(tmp_path: Path) -> None:
    """In a v1 record."""
    path = tmp_path / "a_b.jsonl"
    path.write_text('{"id": "a", "depends_on": "z"}\n{"id": "b"}\n')
    found = Testsets([str(path)], declared=frozenset({"depends_on"})).load().groups
    assert [case.inputs for group in found for case in group.cases] == [{"depends_on": "z"}, {}]


def test_a_long_chain_is_no_trouble(tmp_path: Path) -> None:
    """Five thousand cases, each waiting for the next one."""
    (found,) = groups(tmp_path, *(f"n{at}: n{at + 1}" for at in range(5000)), "n5000")
    assert [case.key for case in found.cases] == [f"n{at}" for at in range(5000, -1, -1)]


@pytest.mark.parametrize(("limit", "tests"), [(1, 2), (2, 3), (3, 5), (4, 6)])
def test_a_limit_counts_groups_and_their_tests(tmp_path: Path, limit: int, tests: int) -> None:
    """A group counts once, however many cases it has."""
    groups(tmp_path, "a", "b: a", "c", "d", "e: d", "f")
    sets = Testsets([str(tmp_path / "a_b.jsonl")], limit=limit)
    assert (len(sets.load().groups), sets.load().tests) == (limit, tests)


def test_members_are_read_from_anywhere(tmp_path: Path) -> None:
    """Several on a line, over several lines, behind a BOM."""
    path = tmp_path / "a_b.jsonl"
    path.write_text(
        '\ufeff{"id": "a", "x": 1} {"id": "b", "depends_on": "c"} {"id":\n"c", "depends_on": "a"}\r\n{"id": "d"}'
    )
    found = Testsets([str(path)]).load().groups
    assert order(found) == ["a c b", "d"]
    assert [case.line for case in found[0].cases] == [1, 1, 1]
    assert found[0].cases[0].inputs == {"x": 1}
