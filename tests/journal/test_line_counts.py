"""Readers of whole files need to know whether every line counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.core.types import ASK, End, Record, Score
from assay.journal.index import RunIndex
from assay.journal.journal import Journal
from assay.journal.line_types import RECORDS, SCORES

HEAD = (0, "key", "set", "m")


def end(stage: str = ASK, tried: int = 1) -> End:
    return End(*HEAD, stage, tried, "ok", [])


def record(part: str, tried: int = 1) -> Record:
    return Record(*HEAD, tried, "answer", part, "text")


def score(scorer: str, part: str) -> Score:
    return Score(*HEAD, scorer, "passed", part, value=1.0)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """Case 0 with three records, of which one was written before its end, and two scores of one scorer."""
    journal = Journal(tmp_path, ["a@1"], [])
    first = end()
    first.lines.extend(journal.write_records([record("1")])[0])
    journal.end_case(first, [record("2"), record("3")])
    journal.end_scoring(end("a@1"), [score("a@1", "1"), score("a@1", "2")])
    return journal


def check(journal: Journal, *, records: bool, scores: bool) -> None:
    """The index of the writer and one that is read from the files say the same."""
    for index in (journal.index, RunIndex.of_run(journal.folder)):
        assert index.every_line_counts(RECORDS, [ASK]) is records
        assert index.every_line_counts(SCORES, ["a@1"]) is scores


def test_every_line_of_one_try_with_one_scoring_counts(journal: Journal) -> None:
    check(journal, records=True, scores=True)


def test_a_later_try_replaces_records_and_scores(journal: Journal) -> None:
    journal.end_case(end(tried=2), [record("1", 2)])
    check(journal, records=False, scores=False)


def test_a_record_of_a_try_without_an_end_does_not_count(journal: Journal) -> None:
    journal.write_records([record("1", 2)])
    check(journal, records=False, scores=True)


def test_the_scores_of_another_scorer_do_not_count(journal: Journal) -> None:
    journal.end_scoring(end("a@2"), [score("a@2", "1")])
    check(journal, records=True, scores=False)


def test_a_case_without_lines_has_an_end_of_its_own(journal: Journal) -> None:
    journal.end_case(End(1, "other", "set", "m", ASK, 1, "ok", []))
    check(journal, records=True, scores=True)
