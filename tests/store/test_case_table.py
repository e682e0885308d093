"""Cases of three runs: one row a case, one cell a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.core.errors import UsageError
from assay.core.report import Entry, Metric, Report
from assay.store.comparison.case_pages import OpenComparison, PairSelection
from assay.store.comparison.case_table import NOT_IN_RUN, TableLine, TablePage, TableSelection

from support.runs import Made, passed

# By run and case: 1 is right, 0 wrong, None has an invalid verdict.
VALUES: dict[str, dict[str, int | None]] = {
    "a": {"k1": 1, "k2": 1, "k3": 0, "k4": 1},
    "b": {"k1": 1, "k2": 0, "k3": 1, "k4": None},
    "c": {"k4": 1, "k3": 0, "k2": 0, "new": 1},
}


def write_runs(folder: Path, report: Report | None = None) -> list[str]:
    names = []
    for name, values in VALUES.items():
        made = Made(folder / name)
        for key, value in values.items():
            score = passed(value, answer=f"{key} {value}", status="invalid" if value is None else "scored")
            made.case(key, [score], label=f"row {key}")
        names.append(str(made.finish(report=report)))
    return names


@pytest.fixture
def comparison(tmp_path: Path) -> OpenComparison:
    return OpenComparison(write_runs(tmp_path))


def cells(line: TableLine) -> list[tuple[float | None, str]]:
    return [(cell.flip.new.value if cell.flip else None, cell.change or cell.remark) for cell in line.cells]


def names(page: TablePage) -> list[str]:
    return [line.name for line in page.lines]


def test_a_row_has_a_cell_for_each_run_that_says_how_it_differs_from_the_base(
    comparison: OpenComparison,
) -> None:
    page = comparison.table(TableSelection(show="all"))
    assert {line.name: cells(line) for line in page.lines} == {
        "row k1": [(1.0, ""), (None, NOT_IN_RUN)],
        "row k2": [(0.0, "worse"), (0.0, "worse")],
        "row k3": [(1.0, "better"), (0.0, "")],
        "row k4": [(None, "invalid"), (1.0, "")],
    }
    # Cases are found by their content, wherever they stand in a run.
    line = page.lines[1]
    assert (line.base_index, [cell.index for cell in line.cells]) == (1, [1, 2])
    assert line.base.side is not None
    assert (line.base.side.value, line.base.side.answer) == (1.0, "k2 1")


def test_rows_are_chosen_by_what_changed_in_any_run_or_in_one(comparison: OpenComparison) -> None:
    page = comparison.table(TableSelection())
    assert (names(page), page.total) == (["row k2", "row k3"], 2)
    assert page.counts == {"changed": 2, "worse": 1, "better": 1, "all": 4, "left_out": 2}
    only = comparison.table(TableSelection(only=2))
    assert names(only) == ["row k2"]
    assert only.counts == {"changed": 1, "worse": 1, "better": 0, "all": 4, "left_out": 1}
    assert names(comparison.table(TableSelection(show="left_out"))) == ["row k1", "row k4"]
    assert names(comparison.table(TableSelection(show="all", first=1, count=2))) == ["row k2", "row k3"]
    for wrong in (TableSelection(row=1), TableSelection(only=3), TableSelection(group=1)):
        with pytest.raises(UsageError, match="there is no"):
            comparison.table(wrong)


def test_a_lower_value_is_better_where_the_report_says_so(tmp_path: Path) -> None:
    report = Report(
        entries=[Entry(name="set", metrics=[Metric(name="passed", value=0.5, denominator=4, higher_is_better=False)])]
    )
    page = OpenComparison(write_runs(tmp_path, report)).table(TableSelection())
    assert [cells(line) for line in page.lines] == [
        [(0.0, "better"), (0.0, "better")],
        [(1.0, "worse"), (0.0, "")],
    ]


def test_the_texts_of_a_case_are_those_of_all_runs(comparison: OpenComparison) -> None:
    cases = comparison.cases(TableSelection(show="all", first=0, count=1))
    assert (cases.name, cases.total, cases.scores) == ("row k1", 4, [["passed", "1", "1", ""]])
    assert [side and side.texts for side in cases.sides] == [{"answer": "text of k1"}] * 2 + [None]
    two = comparison.cases(PairSelection(pair=1, show="only_new", count=1))
    assert [side and side.index for side in two.sides] == [None, 3]
    with pytest.raises(UsageError, match="there is no case 9: 4 are shown"):
        comparison.cases(TableSelection(show="all", first=9, count=1))


def test_the_numbers_of_each_run_are_those_of_the_comparison_of_two(tmp_path: Path, comparison: OpenComparison) -> None:
    (group,) = comparison.overview.groups
    (row,) = group.rows
    assert (group.pairs, row.name, row.places) == ([0, 1], "set passed", [0, 0])
    for number, name in enumerate("bc"):
        two = OpenComparison([str(tmp_path / "a"), str(tmp_path / name)]).overview.result.comparisons[0]
        assert comparison.overview.result.comparisons[number].rows == two.rows
