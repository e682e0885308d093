"""Three or more runs or subjects on one page, and comparisons of large runs in a process of their own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import assay
from assay.core.errors import AssayError, UsageError
from assay.store.comparison.case_pages import PairSelection
from assay.store.comparison.case_table import TableSelection
from assay.view.open_comparisons import OpenComparisons, RunChoice
from view.test_case_pages import sources_of, words_in, words_of

from support import view_runs
from support.runs import Made, passed
from support.web import Page

RUNS = "run=assay/a&run=assay/b&run=assay/c"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs of thirty cases. Run b has every third case wrong, run c only the first one."""
    root = tmp_path_factory.mktemp("several")
    for name, wrong in (("a", set()), ("b", set(range(0, 30, 3))), ("c", {0})):
        made = Made(root / "assay" / name)
        for number in range(30 if name != "c" else 29):
            answer = f"it is {number}" if number not in wrong else f"it is {number + 1}"
            score = {**passed(number not in wrong, answer=answer), "expected": f"it is {number}"}
            made.case(f"k{number}", [score], label=f"row {number}")
        made.finish()
    return root


def test_three_runs_have_one_row_a_case_with_a_cell_for_each(root: Path) -> None:
    page, everything, only, case = sources_of(
        root,
        f"/compare?{RUNS}",
        f"/compare?{RUNS}&show=all&page=2",
        f"/compare?{RUNS}&only=2",
        f"/compare/case?{RUNS}&at=0",
    )
    # The form sends the runs along, also without a script.
    runs = [field["value"] for tag, field in Page(page).elements if tag == "input" and field["name"] == "run"]
    assert runs == ["assay/a", "assay/b", "assay/c"]
    words = words_in(page)
    compared = assay.compare(root / "assay" / "a", root / "assay" / "b").comparisons[0].rows[0]
    assert compared.interval is not None
    interval = f"{compared.interval[0]:+.3f} to {compared.interval[1]:+.3f}"
    assert f"0.667, {compared.difference:+.3f} ({interval})" in words
    assert "1–10 of 10 cases" in words
    assert "only what flipped (10)" in words
    assert "row 0 it is 0 1.000 it is 0 0.000 worse it is 1 0.000 worse it is 1" in words
    assert "row 3 it is 3 1.000 it is 3 0.000 worse it is 4 1.000 it is 3" in words
    assert "it is <ins>1</ins>" in page
    last = words_in(everything)
    assert "26–30 of 30 cases" in last
    assert "row 29 it is 29 1.000 it is 29 1.000 it is 29 not in this run" in last
    assert "1–1 of 1 case" in words_in(only)
    sides = words_in(case)
    assert "A, base a B b C c" in sides
    assert "passed 1 0 differs 0 differs" in sides
    assert "Next case" in sides


def test_an_empty_reply_is_said_to_be_empty(tmp_path: Path) -> None:
    for name in "ab":
        made = Made(tmp_path / "assay" / name)
        score = {**passed(name == "a", answer="it is 1" if name == "a" else ""), "expected": "it is 1"}
        made.case("k", [score], label="row 1")
        made.finish()
    (words,) = words_of(tmp_path, "/compare?run=assay/a&run=assay/b")
    assert "row 1 1.000 → 0.000 worse it is 1 it is 1 (empty)" in words


def test_each_run_leads_to_its_comparison_with_the_base_alone(root: Path) -> None:
    (page,) = sources_of(root, f"/compare?{RUNS}")
    alone = [link for link in Page(page).links() if link.startswith("/compare?") and "assay%2Fa%40m" in link]
    assert len(alone) == 2
    first, second = words_of(root, *alone)
    assert "1–10 of 10 cases" in first
    assert "only in base (1)" in second


def test_texts_are_beside_each_other_with_their_differences_from_the_base(tmp_path: Path) -> None:
    for number, name in enumerate("abc"):
        view_runs.task_run(tmp_path / name, shift=number)
    runs = "&".join(f"run={path.parent.relative_to(tmp_path)}" for path in sorted(tmp_path.rglob("run.json")))
    (case,) = sources_of(tmp_path, f"/compare/case?{runs}&at=0")
    assert "the answer is <del>1</del><ins>2</ins>" in case
    assert "the answer is <del>1</del><ins>3</ins>" in case
    assert "<summary><bdi>prompt 1</bdi></summary>" in case


def test_functions_of_one_evaluation_are_compared_from_its_page(tmp_path: Path) -> None:
    rows = [{"n": number, "twice": str(2 * number)} for number in range(4)]
    answers = {
        "double": lambda n: str(2 * n),
        "square": lambda n: str(n * n),
        "zero": lambda n: "0",
    }
    run = assay.evaluate(rows, answer=answers, score=[assay.exact_match("twice")], name="sums", output_dir=tmp_path)
    name = run.folder.relative_to(tmp_path)
    (source,) = sources_of(tmp_path, f"/run/{name}")
    assert f"/compare?run={name}" in Page(source).links()
    (words,) = words_of(tmp_path, f"/compare?run={name}")
    assert "A double B square C zero" in words
    assert "1–3 of 3 cases" in words  # only 0 is right for all of them


def test_a_value_that_does_not_exist_is_refused(root: Path) -> None:
    wrong = ("only=3", "row=1", "show=only_base", "page=9", "pair=2")
    words_of(root, *(f"/compare?{RUNS}&{each}" for each in wrong), status=409)
    words_of(root, f"/compare/case?{RUNS}&at=99", f"/compare/case?{RUNS}", status=400)


def test_a_process_gives_the_same_answers_as_a_thread_and_can_be_killed(root: Path) -> None:
    choices = [RunChoice(root / "assay" / name, "") for name in "abc"]

    async def ask() -> None:
        here, there = OpenComparisons(), OpenComparisons(max_columns=0)
        try:
            for each in (TableSelection(), TableSelection(only=1, show="all", first=7, count=2)):
                assert await there.table(choices, each) == await here.table(choices, each)
            assert await there.overview(choices) == await here.overview(choices)
            assert await there.page(choices, PairSelection(pair=1)) == await here.page(choices, PairSelection(pair=1))
            for selection in (PairSelection(), TableSelection()):
                assert await there.cases(choices, selection) == await here.cases(choices, selection)
            assert await there.find(choices, 3, "") == await here.find(choices, 3, "")
            rows = await there.flipped(choices)
            assert rows.worse.case.tolist() == list(range(0, 30, 3))
            assert rows.pack() == (await here.flipped(choices)).pack()
            assert await there.flipped(choices) is rows
            with pytest.raises(UsageError, match="there is no row 5"):
                await there.table(choices, TableSelection(row=5))
            # Another comparison takes the place of this process. Both can be asked again.
            two = await there.overview(choices[:2])
            assert len(two.result.comparisons) == 1
            (slot,) = there._slots.values()
            process = slot._process._process  # type: ignore[union-attr]
            process.kill()
            with pytest.raises(AssayError, match="load the page again"):
                await there.overview(choices[:2])
            await process.wait()
            assert await there.overview(choices[:2]) == two
        finally:
            await here.close()
            await there.close()

    asyncio.run(ask())
