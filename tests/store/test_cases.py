"""Finding one case of a run by the names that people use."""

from __future__ import annotations

import gc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import UsageError
from assay.store.cases import RunCases

from support.runs import Made, passed


@pytest.fixture
def cases(tmp_path: Path) -> RunCases:
    """Rows of two sets; the last case is a group of two tests."""
    run = Made(tmp_path / "run")
    run.case("abc1", [passed(1)], within="one", label="first", tags=("easy",))
    run.case("abd2", [passed(0)], within="one", label="second")
    run.case("abc1", [passed(1)], within="two", label="first")
    parts: list[dict[str, Any]] = [passed(1, "test-a"), {**passed(0, "p2"), "label": "test-b"}]
    run.case("f00d", parts, within="two", label="test-b")
    return RunCases(run.finish())


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("0", 0),
        ("2", 2),
        ("@2", 2),
        ("abd2", 1),
        ("abd", 1),
        ("two/abc1", 2),
        ("two/ab", 2),
        ("second", 1),
        ("row second", 1),
        ("row second with m", 1),
        ("second with m", 1),
        ("two/first", 2),
        ("test-a", 3),
        ("two/test-b", 3),
        ("p2", 3),
        ("f", 3),
    ],
)
def test_a_case_is_found_by_place_key_label_part_or_beginning_of_its_key(
    cases: RunCases, name: str, index: int
) -> None:
    """Each alone, or after the name of its set."""
    assert cases.find(name).end.index == index


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "first",
            r"'first' matches 2 cases\. Pass the position of one: @0 \(one/abc1, m\), @2 \(two/abc1, m\)",
        ),
        ("abc1", "'abc1' matches 2 cases"),
        ("ab", "'ab' matches 3 cases"),
        ("zzz", r" has no case 'zzz'\. Pass the id of a case in the data, its position as @4"),
        ("99", " has no case '99'"),
        ("@99", " has no case '@99'"),
        ("three/first", " has no case 'three/first'"),
    ],
)
def test_a_name_of_no_case_or_of_several_is_refused(cases: RunCases, name: str, message: str) -> None:
    """Those that it could mean are named."""
    with pytest.raises(UsageError, match=message):
        cases.find(name)


def test_ends_have_labels_and_tags(cases: RunCases) -> None:
    """They are read without records and scores."""
    ends = list(cases.ends())
    assert [end.label for end in ends] == ["first", "second", "first", "test-b"]
    assert [end.tags for end in ends] == [("easy",), (), (), ()]


def test_a_case_failed_if_it_has_no_answer_or_a_score_of_0(tmp_path: Path) -> None:
    """An interim score of 0 does not count."""
    run = Made(tmp_path / "run")
    run.case("right", [passed(1), {**passed(0, "t1"), "interim": True}])
    run.case("wrong", [passed(0)])
    run.case("invalid", [passed(None, status="invalid")])
    run.case("none", status="infra_error")
    assert [case.failed for case in RunCases(run.finish())] == [False, True, True, True]


def test_a_number_is_an_id_before_it_is_a_position(tmp_path: Path) -> None:
    """The position has a sign of its own. An id of several cases is refused, also if one has it as its position."""
    run = Made(tmp_path / "run")
    for number, (subject, label) in enumerate([("a", "2"), ("b", "2"), ("a", "0"), ("b", "9"), ("a", "4"), ("b", "4")]):
        run.case(f"k{number}", [passed(1)], subject=subject, label=label)
    cases = RunCases(run.finish())
    numbers = {name: cases.find(name).end.index for name in ("0", "@0", "9", "1", "@1", "@4", "row 2 with b")}
    assert numbers == {"0": 2, "@0": 0, "9": 3, "1": 1, "@1": 1, "@4": 4, "row 2 with b": 1}
    for name, choices in (("2", "@0 .*, @1 "), ("4", "@4 .*, @5 ")):
        with pytest.raises(UsageError, match=rf"'{name}' matches 2 cases\. Pass the position of one: {choices}"):
            cases.find(name)


def test_reading_the_cases_of_a_run_again_and_again_leaves_no_file_open(tmp_path: Path) -> None:
    """As a notebook does, which closes nothing."""
    run = Made(tmp_path / "run")
    run.case("abc1", [passed(1)])
    folder = run.finish()

    def open_files() -> list[Path]:
        found = []
        for link in Path("/proc/self/fd").iterdir():
            with suppress(FileNotFoundError):  # another thread has closed it
                found.append(link.readlink())
        return [path for path in found if folder in path.parents]

    for _ in range(3):
        assert [case.failed for case in RunCases(folder)] == [False]
    gc.collect()
    assert open_files() == []
