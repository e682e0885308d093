"""The result of a run while another start works on it: what summary.json says at each moment."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from assay.journal.earlier_result import EarlierResult
from assay.journal.run_files import Summary, read_summary, time_finished, write_summary
from assay.journal.spending import CallCounts, Spending

from support.engine_run import EchoModel
from support.word_run import WordRun

OTHER = "another0scoring0"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return WordRun(tmp_path).start(EchoModel()).folder


def summary(run: Path) -> Summary:
    found = read_summary(run)
    assert found is not None
    return found


def begun(run: Path, score: str = OTHER, *, asks_nothing: bool = True, has_all_lines: bool = True) -> EarlierResult:
    earlier = EarlierResult(run)
    earlier.begin(score, asks_nothing=asks_nothing, has_all_lines=has_all_lines)
    return earlier


def test_a_new_run_has_no_earlier_result(tmp_path: Path) -> None:
    earlier = EarlierResult(tmp_path)
    earlier.begin(OTHER, asks_nothing=False, has_all_lines=True)
    assert (earlier.summary, earlier.can_be_restored, list(tmp_path.iterdir())) == (None, False, [])


def test_while_only_scores_are_replaced_the_earlier_scoring_is_the_result(run: Path) -> None:
    before, written = summary(run), time_finished(run)
    begun(run)
    now = summary(run)
    assert (now.state, now.score, now.scoring_again) == ("finished", before.score, True)
    assert (now.files, time_finished(run)) == (before.files, written)


def test_while_files_are_replaced_the_copies_are_the_result(run: Path) -> None:
    before = summary(run)
    begun(run).begin_files()
    now = summary(run)
    assert (now.state, now.scoring_again) == ("finished", True)
    assert now.files != before.files
    assert [Path(file).read_text() for file in now.files] == ["2 of 2\n"]


@pytest.mark.parametrize(
    "begin",
    [
        {"asks_nothing": False},
        {"has_all_lines": False},
        {"score": None},
    ],
    ids=["asks", "lines lost", "same score"],
)
def test_every_other_start_ends_the_result_at_once(run: Path, begin: dict[str, object]) -> None:
    score = OTHER if begin.get("score", OTHER) else summary(run).score
    begun(
        run,
        score,
        asks_nothing=bool(begin.get("asks_nothing", True)),
        has_all_lines=bool(begin.get("has_all_lines", True)),
    )
    assert (summary(run).state, summary(run).scoring_again) == ("unfinished", False)


def test_lines_that_are_lost_on_the_way_end_the_result(run: Path) -> None:
    begun(run).lose_lines()
    assert (summary(run).state, summary(run).scoring_again) == ("unfinished", False)


@pytest.mark.parametrize("is_same_score", [True, False])
def test_a_result_that_was_not_replaced_is_restored_with_what_the_start_has_spent(
    run: Path, is_same_score: bool
) -> None:
    before, written = summary(run), time_finished(run)
    earlier = begun(run, before.score if is_same_score else OTHER)
    assert earlier.can_be_restored
    earlier.restore(Spending(calls=7, cost=0.5))
    assert summary(run) == replace(before, spent=CallCounts(calls=7), cost=0.5)
    assert time_finished(run) == written


@pytest.mark.parametrize("score", [None, OTHER], ids=["same score", "other score"])
@pytest.mark.parametrize("is_found_later", [True, False])
def test_with_lost_lines_the_earlier_numbers_do_not_come_back(
    run: Path, score: str | None, is_found_later: bool
) -> None:
    """A start that cannot ask the lost cases again must not leave a run that looks finished."""
    earlier = begun(run, score or summary(run).score, has_all_lines=is_found_later)
    if is_found_later:
        earlier.lose_lines()
    earlier.restore(Spending())
    assert (earlier.can_be_restored, summary(run).state) == (False, "unfinished")


def test_with_new_replies_the_earlier_numbers_do_not_come_back(run: Path) -> None:
    earlier = begun(run, asks_nothing=False)
    earlier.restore(Spending())
    assert (earlier.can_be_restored, summary(run).state) == (False, "unfinished")


def test_a_result_whose_files_are_being_replaced_without_copies_does_not_come_back(run: Path) -> None:
    earlier = begun(run, summary(run).score)
    assert earlier.can_be_restored
    earlier.begin_files()
    earlier.restore(Spending())
    assert (earlier.can_be_restored, summary(run).state) == (False, "unfinished")


def test_a_run_that_was_not_finished_is_not_made_so(run: Path) -> None:
    write_summary(run, replace(summary(run), state="stopped"))
    earlier = begun(run, summary(run).score)
    earlier.restore(Spending())
    assert (earlier.can_be_restored, summary(run).state) == (False, "unfinished")
