"""The cases of a run: every row with every subject, their indexes and keys, and what the journal has about them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import StopRun
from assay.core.report import Report
from assay.core.shard import Shard
from assay.core.spec import RunSpec, SuiteOptions
from assay.core.suite import CaseContent, ListedRows, Outcome, Results, Row, Rows, RunFacts, Suite
from assay.core.types import ASK, Case, End, Failure, Record, Score
from assay.engine.cases import Cases
from assay.journal.journal import Journal

SCORER = "scorer@1"


class PairSuite(Suite[SuiteOptions, str]):
    """Every letter of a text is a row. `left_out` are pairs of a letter and a subject that are no case."""

    name = "pairs"
    Options = SuiteOptions

    def __init__(self, letters: str, subjects: Sequence[str], left_out: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(RunSpec(suite="pairs", options=SuiteOptions()))
        self.letters = ListedRows(list(letters), key=lambda letter: letter, set="letters")
        self.names = subjects
        self.left_out = left_out
        self.built: list[str] = []

    def ask_identity(self) -> dict[str, Any]:
        return {}

    def rows(self, facts: dict[str, Any] | None = None) -> Rows[str]:
        return self.letters

    def subjects(self) -> Sequence[str]:
        return self.names

    def has(self, row: Row[str], subject: str) -> bool:
        return (row.data, subject) not in self.left_out

    def total(self, rows: Rows[str]) -> int:
        return super().total(rows) - len(self.left_out)

    def case(self, row: Row[str], subject: str) -> CaseContent:
        self.built.append(f"{row.data}/{subject}")
        return CaseContent(inputs=f"{row.data}/{subject}", gold=row.data.upper(), label=f"row {row.data}")

    def finish(self, results: Results[str], run: RunFacts) -> Outcome:
        return Outcome(Report())


def cases_of(suite: PairSuite, shard: Shard | None = None) -> Cases:
    return Cases(suite, suite.rows(), shard)


def placed(cases: Iterable[Case]) -> list[tuple[int, str]]:
    return [(case.index, case.inputs) for case in cases]


def test_every_row_runs_with_every_subject_row_by_row() -> None:
    """All cases of a row have its key, by which runs are compared. Equal rows are told apart by a number."""
    cases = cases_of(PairSuite("aba", ["x", "y"]))
    assert (cases.total, cases.slots) == (6, 6)
    loaded = list(cases.load(None, 1))
    names = [(0, "a/x"), (1, "a/y"), (2, "b/x"), (3, "b/y"), (4, "a/x"), (5, "a/y")]
    assert placed(loaded) == names
    first, second, third, fourth, again, _ = loaded
    assert first.key == second.key != third.key == fourth.key
    assert again.key == f"{first.key}~2"
    assert (second.set, second.subject, second.label, second.gold) == ("letters", "y", "row a", "A")


def test_a_pair_that_is_left_out_keeps_its_index_so_that_the_others_have_theirs() -> None:
    cases = cases_of(PairSuite("ab", ["x", "y"], left_out=[("a", "y")]))
    assert (cases.total, cases.slots) == (3, 4)
    assert placed(cases.load(None, 1)) == [(0, "a/x"), (2, "b/x"), (3, "b/y")]


@pytest.mark.parametrize(
    ("subjects", "done", "left"),
    [("x", {1}, [(0, "a/x"), (2, "c/x")]), ("xy", {0, 2, 3}, [(1, "a/y"), (4, "c/x"), (5, "c/y")])],
    ids=["one subject", "two subjects"],
)
def test_cases_that_are_done_are_not_built(subjects: str, done: set[int], left: list[tuple[int, str]]) -> None:
    suite = PairSuite("abc", list(subjects))
    assert placed(cases_of(suite).load(done.__contains__, 1)) == left
    assert suite.built == [name for _, name in left]


@pytest.mark.parametrize(("open_cases", "built"), [(1, 8), (40, 20), (1_000, 32)])
def test_few_cases_are_built_before_the_loop_starts_them(open_cases: int, built: int) -> None:
    """A case of a memory suite may have megabytes."""
    suite = PairSuite("a" * 100, ["x"])
    next(cases_of(suite).load(None, open_cases))
    assert len(suite.built) == built


def test_a_shard_has_every_nth_row_with_all_its_subjects_and_the_indexes_of_the_whole_run() -> None:
    suite = PairSuite("abcde", ["x", "y"], left_out=[("d", "x")])
    cases = cases_of(suite, Shard(2, 2))
    assert cases.part == "shard 2 of 2: 3 of 9 cases"
    assert (cases.total, cases.slots) == (3, 10)
    assert placed(cases.load(None, 1)) == [(2, "b/x"), (3, "b/y"), (7, "d/y")]
    assert placed(cases.load({2}.__contains__, 1)) == [(3, "b/y"), (7, "d/y")]
    assert cases_of(suite).part == ""


def write(folder: Path, cases: Sequence[tuple[Case, Failure | None]]) -> Journal:
    """A journal in which these cases have ended, each with a record and a score."""
    journal = Journal(folder, [SCORER], [])
    for case, failure in cases:
        status = failure.status if failure else "ok"
        record = Record(*case.head, 1, "answer", data=case.inputs)
        journal.end_case(End(*case.head, ASK, 1, status, [], failure), [record])
        score = Score(*case.head, SCORER, "exact", value=1.0)
        journal.end_scoring(End(*case.head, SCORER, 1, "ok", []), [score])
    return journal


def test_results_come_in_data_order_and_a_case_that_has_not_ended_has_none(tmp_path: Path) -> None:
    suite = PairSuite("ab", ["x", "y"])
    cases = cases_of(suite)
    loaded = list(cases.load(None, 1))
    journal = write(tmp_path, [(loaded[3], None), (loaded[0], None), (loaded[1], None)])
    results = cases.results(journal.reader, [SCORER])
    assert [(each.index, each.subject, [record.data for record in each.records]) for each in results] == [
        (0, "x", ["a/x"]),
        (1, "y", ["a/y"]),
        (2, "x", []),
        (3, "y", ["b/y"]),
    ]
    of_x = list(results.of("x"))
    assert [each.end is not None for each in of_x] == [True, False]
    assert [[score.value for score in each.scores] for each in of_x] == [[1.0], []]
    journal.close()


def test_failures_of_a_subject_are_counted_by_message_and_those_of_endpoints_are_not(tmp_path: Path) -> None:
    """Cases that an endpoint failed run again."""
    cases = cases_of(PairSuite("ab", ["x", "y"]))
    bug, timeout = Failure("user_code", "KeyError: 'gone'"), Failure("timeout", "no reply")
    journal = write(tmp_path, list(zip(cases.load(None, 1), [bug, bug, bug, timeout], strict=True)))
    results = cases.results(journal.reader, [SCORER])
    assert len(list(results)) == 4
    assert len(list(results.of("x"))) == 2  # a suite may read results twice
    assert [(error.message, error.count) for error in results.errors()] == [("KeyError: 'gone'", 3)]
    assert [(error.message, error.count) for error in results.errors(subject="x")] == [("KeyError: 'gone'", 2)]
    journal.close()


def test_results_of_rows_that_changed_since_are_refused(tmp_path: Path) -> None:
    journal = write(tmp_path, [(case, None) for case in cases_of(PairSuite("ab", ["x"])).load(None, 1)])
    results = cases_of(PairSuite("ac", ["x"])).results(journal.reader, [SCORER])
    with pytest.raises(StopRun, match=r"the data changed while the run went on: letters .* is another document now"):
        list(results)
    journal.close()
