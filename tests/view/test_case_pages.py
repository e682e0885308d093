"""The pages of cases, comparisons and memories, on real runs of the suites."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

import assay
from assay.core.case_details import UNREADABLE_VOTES
from assay.runner import api

from servers.judging import JudgingServer
from support import view_runs
from support.judged_samples import JudgedSamples, reply
from support.runs import Made, passed
from support.web import Page, view_of

Visit = Callable[[TestClient[Any, Any]], Awaitable[None]]


class Runs:
    """The runs of the module, as addresses name them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.before = self._name(view_runs.task_run(root / "before"))
        self.after = self._name(view_runs.task_run(root / "after", shift=1))
        self.pipeline = self._name(view_runs.pipeline_run(root / "pipeline"))
        self.talks = self._name(view_runs.memory_test_run(root / "talks"))
        self.samples = self._name(view_runs.memory_eval_run(root / "samples"))

    def _name(self, run: assay.Run) -> str:
        return str(run.folder.relative_to(self.root))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("view-runs"))


def words_of(root: Path, *addresses: str, status: int = 200) -> list[str]:
    """Return the texts of pages, with single spaces, also between cells that stand in one line of the source."""
    return [words_in(each) for each in sources_of(root, *addresses, status=status)]


def words_in(source: str) -> str:
    """Return the text of a page with single spaces."""
    return " ".join(Page(re.sub("(</t[dh]>|</option>|</d[dt]>)", r" \1", source)).text.split())


def sources_of(root: Path, *addresses: str, status: int = 200) -> list[str]:
    """Return the HTML of pages."""

    async def ask() -> list[str]:
        sources = []
        async with view_of(root) as client:
            for address in addresses:
                response = await client.get(address)
                assert response.status == status, address
                sources.append(await response.text())
        return sources

    return asyncio.run(ask())


def test_a_prompt_is_shown_once_with_how_often_each_reply_came(runs: Runs) -> None:
    (words,) = words_of(runs.root, f"/case/2/{runs.before}")
    assert "Prompt 1 sent 3 times" in words
    assert "2 of 3 replies" in words
    assert "1 of 3 replies" in words
    assert words.count("Q2: which number?") >= 1
    # The counts of the answers as the filters read them.
    assert "as read by first, voteAnswer Times Share 2 2 of 3 3 1 of 3" in words


def test_few_shot_examples_are_folded_before_the_question(runs: Runs) -> None:
    (source,) = sources_of(runs.root, f"/case/2/{runs.before}")
    (example,) = re.findall(r'<details class="shot">(.*?)</details>', source, re.DOTALL)
    assert re.search(r"Q\d: which number\? \d", words_in(example))
    assert "Q2: which number?" not in words_in(example)
    question = source.partition('<details class="shot">')[2].partition("</details>")[2]
    assert re.search(r"<bdi>question</bdi>.*?<pre dir=\"auto\">Q2: which number\?</pre>", question, re.DOTALL)


def test_expected_and_found_are_shown_with_their_differing_words(tmp_path: Path) -> None:
    made = Made(tmp_path / "assay" / "words")
    score = {**passed(0), "expected": "text of parcel", "data": {"answer": "text of k"}}
    made.case("k", [score])
    made.finish()
    (source,) = sources_of(tmp_path, "/case/0/assay/words")
    assert "text of <del>parcel</del><ins>k</ins>" in source


def test_steps_have_prompts_and_outputs_and_the_first_wrong_one_is_marked(runs: Runs) -> None:
    source, passed_source = sources_of(runs.root, f"/case/2/{runs.pipeline}", f"/case/0/{runs.pipeline}")
    words = " ".join(Page(source).text.split())
    assert "lima" in words
    assert words.count("first step that went wrong") == 1
    # The first step is open, with what it got beside what it gave.
    first = re.search(r'<li class="step first-wrong">\s*<details open>(.*?)</details>', source, re.DOTALL)
    assert first is not None
    assert "weigh" in first.group(1)
    assert "Parcel weighs 172 kg" in first.group(1)
    assert "It weighs 172 kg" in first.group(1)
    assert "It weighs <del>25 </del><ins>172 </ins>kg" in source
    assert "1 of 1 check did not pass" in words
    assert "first step that went wrong" not in passed_source


def test_a_test_is_reached_from_its_row_and_leads_to_the_next_row(runs: Runs) -> None:
    (table,) = sources_of(runs.root, f"/run/{runs.pipeline}?failed=1")
    rows = [link for link in Page(table).links() if link.startswith("/case/")]
    assert rows == [f"/case/{index}/{runs.pipeline}?failed=1&part=lima" for index in (2, 3)]
    (source,) = sources_of(runs.root, rows[0])
    assert f'rel="next" href="/case/3/{runs.pipeline}?failed=1&amp;part=lima"' in source
    assert 'rel="prev"' not in source


def test_rows_of_memories_have_the_question_and_the_answer_as_texts(runs: Runs) -> None:
    talks, samples = words_of(runs.root, f"/run/{runs.talks}", f"/run/{runs.samples}")
    # Only the last test has the text of a question in its scores.
    assert "who likes fruit1 a 1/1 bm25 ok 1.000" in talks
    assert "who likes fruit1 a 2/1 bm25 ok 1.000" in talks
    assert "– Bob likes fruit4 who likes" in talks
    assert "how is pet1x1 of s1 called? s1 probe_1/1 bm25 ok" in samples
    assert "– my pet1x1 of s1 is called Rex1x1 how is" in samples
    assert "– items: 2 added buy soap1 now" in samples


def test_the_life_of_a_question_shows_every_memory_with_evidence_beside_retrieved_items(runs: Runs) -> None:
    case, life, early = words_of(
        runs.root,
        f"/case/0/{runs.talks}",
        f"/case/0/{runs.talks}?part=1",
        f"/case/0/{runs.talks}?part=1/1",  # the row of the first test
    )
    assert "who likes fruit1" in case
    assert "✓ right in test 2" in life
    assert "✗ wrong in test 2" in life  # the other memory has only the newest message
    assert "bm25 2 tests asked it, right in 2" in life
    assert "STMemory open 2 tests asked it, right in 0" in life
    assert "D1:1 found Ann: Bob likes fruit1" in life
    assert "D1:1 missed" in life
    assert "in test 1" in early
    (missing,) = words_of(runs.root, f"/case/0/{runs.talks}?part=99", status=400)
    assert "has no part '99'" in missing


def test_every_row_of_a_run_leads_to_a_page(runs: Runs) -> None:
    names = (runs.before, runs.pipeline, runs.talks, runs.samples)
    for table in sources_of(runs.root, *(f"/run/{name}" for name in names)):
        rows = [link for link in Page(table).links() if link.startswith("/case/")]
        assert rows
        sources_of(runs.root, *rows)


def test_a_session_and_a_point_of_a_sample_have_pages_of_their_own(runs: Runs) -> None:
    case = f"/case/0/{runs.samples}"

    session, point = words_of(runs.root, f"{case}?part=S01", f"{case}?part=S01/mp_S01_9")

    assert "recall of S01 covered 1.000" in session
    assert "S02" not in session.partition("JSON of the journal")[0]
    assert "buy soap1 now failed" in point
    assert "interference of S01/mp_S01_9 memorized 0.000" in point
    assert "correctness" not in point
    (missing,) = words_of(runs.root, f"{case}?part=S99", status=400)
    assert "has no part 'S99'" in missing


def test_a_question_of_a_sample_shows_cited_items_and_covered_evidence(runs: Runs) -> None:
    (words,) = words_of(runs.root, f"/case/0/{runs.samples}?part=probe_1/1")
    assert "how is pet1x1 of s1 called?" in words
    assert "Evidence: 1 piece" in words
    assert "cited" in words


def test_what_a_memory_held_after_each_session_and_what_changed(runs: Runs) -> None:
    last, first, changed = words_of(
        runs.root,
        f"/held/0/{runs.samples}",
        f"/held/0/{runs.samples}?session=S01",
        f"/held/0/{runs.samples}?session=S02&show=changed",
    )
    assert "Items after S03" in last
    assert "Rex3x1" in last
    assert "Rex2x1" not in first
    assert "added" in changed
    assert "Rex1x1" not in changed
    assert "STMemory" in last
    (wrong,) = words_of(runs.root, f"/held/0/{runs.samples}?session=S99", status=400)
    assert "there is no session named 'S99'" in wrong
    (other,) = words_of(runs.root, f"/held/0/{runs.pipeline}")
    assert "does not say what the memory held" in other


def test_the_memory_page_has_curves_by_category_and_the_dimensions(runs: Runs) -> None:
    curves, category, dimensions, both = words_of(
        runs.root,
        f"/memory/{runs.talks}",
        f"/memory/{runs.talks}?category=plain",
        f"/memory/{runs.samples}",
        f"/memory/{runs.talks}?with={runs.samples}",
    )
    assert "judged right, test by test" in curves
    assert "messages inserted bm25 STMemory" in curves
    assert "memory stage operations calls seconds" in curves
    assert "score against cost" in curves
    # All questions of this file are in one category, so its curve is the whole one.
    values = re.compile(r"The values of the curves(.*)Stages and costs")
    found = values.search(curves), values.search(category)
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].group(1) == found[1].group(1)
    for title in ("memory recall", "update handling", "interference rejection", "evidence coverage"):
        assert title in dimensions
    assert "of 3 sessions" in dimensions
    assert "memory recall" in both
    assert "judged right" in both
    (wrong,) = words_of(runs.root, f"/memory/{runs.talks}?category=none", status=400)
    assert "there is no category named 'none'" in wrong


def test_a_comparison_shows_numbers_and_pages_only_what_changed(runs: Runs) -> None:
    pair = f"run={runs.before}&run={runs.after}"
    worse, better, case = words_of(
        runs.root,
        f"/compare?{pair}&show=worse",
        f"/compare?{pair}&show=better",
        f"/compare/case?{pair}&show=worse&at=0",
    )
    expected = api.compare(str(runs.root / runs.before), str(runs.root / runs.after)).comparisons[0].rows[0]
    assert (expected.losses, expected.wins) == (4, 0)
    assert expected.interval is not None
    assert f"{expected.difference:+.3f} {expected.interval[0]:+.3f} to {expected.interval[1]:+.3f} 8 0, 4" in worse
    assert "1–4 of 4 cases" in worse
    assert "worse (4)" in worse
    assert "1.000 → 0.000 worse" in worse
    assert "No case" in better
    assert "Texts that differ" in case
    assert "basethe answer is 1 newthe answer is 2" in case
    assert "Next case" in case


def test_runs_that_cannot_be_compared_get_a_sentence(runs: Runs) -> None:
    other, single = words_of(
        runs.root,
        f"/compare?run={runs.before}&run={runs.pipeline}",
        f"/compare?run={runs.before}",
        status=409,
    )
    assert "only runs of one suite can be compared" in other
    assert f"{runs.root}/" not in other  # runs are named by their path below DIR
    assert "has only one subject" in single
    (none,) = words_of(runs.root, "/compare")
    assert "Choose two or more runs" in none
    words_of(runs.root, "/compare?run=nowhere", "/compare?run=../../etc&run=.", status=404)
    words_of(runs.root, f"/compare?run={runs.before}&run={runs.after}&pair=7", status=409)


def test_subjects_of_a_run_are_compared_and_its_page_leads_there(runs: Runs) -> None:
    run, compared, named = sources_of(
        runs.root,
        f"/run/{runs.pipeline}",
        f"/compare?run={runs.pipeline}",
        f"/compare?run={runs.pipeline}@baseline&run={runs.pipeline}@terse&show=all",
    )
    assert f"/compare?run={runs.pipeline}" in Page(run).links()
    assert "terse" in compared
    assert "1–2 of 2 cases" in " ".join(Page(named).text.split())


def test_runs_are_picked_for_a_comparison_by_check_boxes(runs: Runs) -> None:
    (source,) = sources_of(runs.root, "/")
    boxes = [each for tag, each in Page(source).elements if tag == "input" and each.get("name") == "run"]
    assert {box["value"] for box in boxes} >= {runs.before, runs.after}
    assert all(box["aria-label"] for box in boxes)

    async def follow() -> str:
        async with view_of(runs.root) as client:
            address = f"/compare?order=started&run={runs.after}&run={runs.before}"
            response = await client.get(address, allow_redirects=False)
            assert response.status == 303
            return response.headers["Location"]

    # The older run is the base, however the list is sorted.
    assert asyncio.run(follow()) == f"/compare?run={runs.before}&run={runs.after}"


def test_cases_on_one_side_only_are_listed(tmp_path: Path) -> None:
    for name, keys in (("one", ("a", "b", "c")), ("two", ("b", "c", "d"))):
        made = Made(tmp_path / "assay" / name)
        for key in keys:
            made.case(key, [passed(name == "one")], label=f"label {key}")
        made.finish()
    pair = "run=assay/one&run=assay/two"
    base, new, case = words_of(
        tmp_path,
        f"/compare?{pair}&show=only_base",
        f"/compare?{pair}&show=only_new",
        f"/compare/case?{pair}&show=only_new&at=0",
    )
    assert "label a" in base
    assert "label d" in new
    assert "does not have it" in case
    assert "Base has no such text." in case


def test_a_comparison_is_made_again_when_a_run_was_scored_again(tmp_path: Path) -> None:
    made = {}
    for name in ("one", "two"):
        made[name] = Made(tmp_path / "assay" / name)
        made[name].case("a", [passed(1)])
        made[name].finish()

    async def look() -> None:
        async with view_of(tmp_path) as client:
            address = "/compare?run=assay/one&run=assay/two&show=all"
            before = await (await client.get(address)).text()
            assert "1.000 → 1.000" in " ".join(Page(before).text.split())
            again = Made(tmp_path / "new", scorer="suite@1")
            again.case("a", [passed(0)])
            again.finish()
            for file in (tmp_path / "new").iterdir():
                file.replace(tmp_path / "assay" / "two" / file.name)
            after = await (await client.get(address)).text()
            assert "1.000 → 0.000" in " ".join(Page(after).text.split())

    asyncio.run(look())


def test_the_votes_on_a_case_of_memory_eval_stand_side_by_side(tmp_path: Path) -> None:
    """A vote on a session has a label for each point, and no count."""
    with JudgingServer(other=reply) as server:
        run = JudgedSamples(tmp_path / "samples", server).run(votes=3)
    case = f"/case/0/{run.folder.relative_to(tmp_path)}"

    page, question = words_of(tmp_path, case, f"{case}?part=probe_1/1")

    assert "correctness of S01 correct, irrelevant 0.500 correct, irrelevant × 3" in page
    assert "answer of probe_1/1: Correct Correct × 3" in question


def test_votes_that_no_filter_writes_are_a_sentence_on_the_page(tmp_path: Path) -> None:
    made = Made(tmp_path / "assay" / "run", suite="task")
    made.case(
        "a",
        [passed(1, "first", filtered=["7"], votes={"7": 3}), passed(1, "judge", label="Correct", votes=4)],
    )
    made.finish()

    (page,) = words_of(tmp_path, "/case/0/assay/run")

    assert page.count(UNREADABLE_VOTES) >= 2


def test_a_stray_file_of_rows_is_named_on_the_page(tmp_path: Path) -> None:
    """Only an evaluation from Python stores its rows in the run folder."""
    made = Made(tmp_path / "assay" / "run", suite="task")
    made.case("a", [passed(1)])
    (made.finish() / "rows.jsonl").write_text('{"question": "?"}\n')

    (page,) = words_of(tmp_path, "/case/0/assay/run", status=409)

    assert "rows.jsonl: the file is none of this run, which stores no rows. Remove it" in page
