"""Blind labelling in the pages: what is hidden, what is saved, undo, two people, and the agreement at the end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from aiohttp.test_utils import TestClient

from assay.core.judges import Calibration
from assay.store.calibrations import save_calibration
from assay.store.judge_agreement import judge_pairs
from assay.store.labels import choose_answers, read_labels
from assay.store.open_run import OpenRun
from assay.view.guard import Guard
from assay.view.pages import label
from assay.view.pages.label import LabelQuery

from support.runs import Made, passed, run_of
from support.web import Page, visit

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
RUN = "assay/one"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A run of four answers. The score accepts two of them."""
    made = Made(tmp_path / RUN, model="vendor/secret-model")
    for number in range(4):
        made.case(f"c{number}", [passed(number < 2)], label=f"question {number}", subject="secret-model")
    made.finish()
    return tmp_path


def words(source: str) -> str:
    """The text of a page in one line, with a space between any two elements."""
    return " ".join(Page(re.sub("<(?!/?bdi)", " <", source)).text.split())


class Person:
    """Somebody who labels in a browser without a script."""

    def __init__(self, client: TestClient[Any, Any], guard: Guard, by: str, run: str = RUN) -> None:
        self.client, self.guard = client, guard
        self.address = f"/label/{run}?" + urlencode({"by": by})
        self.source = ""

    async def look(self) -> str:
        """The text of the page."""
        response = await self.client.get(self.address)
        self.source = await response.text()
        assert response.status == 200
        return words(self.source)

    async def press(self, label: str) -> str:
        """Press a button of the page. Returns the text of the next page."""
        fields = {
            each["name"]: each["value"]
            for tag, each in Page(self.source).elements
            if tag == "input" and each.get("type") == "hidden"
        }
        response = await self.client.post(
            self.address, data=urlencode({**fields, "label": label}), headers=FORM, allow_redirects=False
        )
        assert response.status == 303
        self.address = response.headers["Location"]
        return await self.look()


def answer_of(text: str) -> str:
    (found,) = set(re.findall(r"text of (c\d)", text))
    return str(found)


def test_answers_are_labelled_without_their_score_and_the_agreement_comes_last(root: Path) -> None:
    async def act(client: TestClient[Any, Any], guard: Guard) -> None:
        ann = Person(client, guard, "ann")
        text = await ann.look()
        seen = []
        for number in range(4):
            assert f"{number} of 4 labelled" in text
            # Neither the score nor the model nor the subject is on the page, or in its source.
            assert "secret" not in ann.source
            assert "agree" not in text
            assert "failed" not in ann.source
            seen.append(answer_of(text))
            text = await ann.press("right")
        assert len(set(seen)) == 4
        assert "All 4 answers labelled" in text
        assert "You and passed agree 2 of 4" in text
        assert "Right for the score, wrong for you 0 of 0" in text
        assert "Wrong for the score, right for you 2 of 4" in text
        assert f"assay judge calibrate --judge NAME --labels {root / RUN}" in text
        assert [label.label for label in read_labels(root / RUN)] == [True] * 4

    visit(root, act)


def test_skip_undo_and_two_people(root: Path) -> None:
    async def act(client: TestClient[Any, Any], guard: Guard) -> None:
        ann, bob = Person(client, guard, "ann"), Person(client, guard, "bob")
        first = answer_of(await ann.look())
        second = answer_of(await ann.press("skip"))
        assert second != first
        third = answer_of(await ann.press("wrong"))
        assert answer_of(await ann.press("undo")) == second
        assert read_labels(root / RUN) == []
        assert answer_of(await ann.press("right")) == third
        # Another person sees the same order, and nothing of ann's labels.
        text = await bob.look()
        assert "0 of 4 labelled" in text
        assert answer_of(text) == first
        await bob.press("right")
        # bob has labelled since, so ann's label is no longer the last line: it stays.
        await ann.press("undo")
        assert [(label.by, label.case) for label in read_labels(root / RUN)] == [
            ("ann", second),
            ("bob", first),
        ]
        await ann.press("right")
        text = await ann.press("right")
        assert "1 answer without a label" in text
        assert "agree " not in text
        ann.address = re.sub(r"&at=\d+", "", ann.address)
        assert answer_of(await ann.look()) == first

    visit(root, act)


def test_a_second_key_for_the_same_answer_changes_nothing(root: Path) -> None:
    async def act(client: TestClient[Any, Any], guard: Guard) -> None:
        ann = Person(client, guard, "ann")
        await ann.look()
        old = ann.source
        await ann.press("right")
        ann.source = old
        await ann.press("wrong")
        assert [label.label for label in read_labels(root / RUN)] == [True]

    visit(root, act)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"sample": "0"}, "between 1 and 1,000"),
        ({"sample": "x"}, "Expected `int`"),
        ({"metric": "nothing"}, "there is no metric"),
        ({"by": "a" * 61}, "at most 60 characters"),
        ({"by": "a\u202eb"}, "can be seen"),
    ],
)
def test_a_wrong_address_is_explained(root: Path, query: dict[str, str], message: str) -> None:
    async def act(client: TestClient[Any, Any], _: Guard) -> None:
        response = await client.get(f"/label/{RUN}?" + urlencode({"by": "ann", **query}))
        assert response.status == 400
        assert message in Page(await response.text()).text

    visit(root, act)


def test_a_label_needs_the_token_and_an_answer_of_the_queue(root: Path) -> None:
    async def act(client: TestClient[Any, Any], guard: Guard) -> None:
        values = {"label": "right", "key": "0" * 16}
        place = f"/label/{RUN}?by=ann"
        assert (await client.post(place, data=urlencode(values), headers=FORM)).status == 403
        body = urlencode({**values, "token": guard.page_token})
        response = await client.post(place, data=body, headers=FORM)
        assert response.status == 400
        assert "have changed" in await response.text()
        assert read_labels(root / RUN) == []

    visit(root, act)


def test_a_large_run_is_sampled_by_its_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the drawn cases are read. The same seed draws the same ones."""
    run = run_of(tmp_path / RUN, {f"c{number}": number % 2 == 0 for number in range(60)})
    first = choose_answers(run, max_cases=10).places
    assert len(first) == 10
    assert first == choose_answers(run, max_cases=10).places
    assert first != choose_answers(run, max_cases=10, seed=1).places
    balanced = choose_answers(run, max_cases=30, sample=8, balance=True).places
    assert sorted(bool(place.accepted) for place in balanced) == [False] * 4 + [True] * 4
    monkeypatch.setattr(label, "MAX_CASES", 12)

    async def act(client: TestClient[Any, Any], guard: Guard) -> None:
        assert "0 of 12 labelled" in await Person(client, guard, "ann").look()
        setup = await (await client.get(f"/label/{RUN}")).text()
        assert "The run is large" in setup

    visit(tmp_path, act)


def test_the_judges_page_has_calibrations_and_runs_with_labels(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from assay.scoring.agreement import JudgedRow, agreement

    monkeypatch.setenv("ASSAY_DATA", str(tmp_path_factory.mktemp("data")))
    rows = [JudgedRow(number < 30, number % 10 < 7, None, "dates") for number in range(40)]
    overall = agreement(rows)
    calibration = Calibration(
        judge="openai/strict",
        kind="answer",
        fingerprint="f",
        votes=3,
        labels="ours.jsonl",
        labels_sha256="0",
        overall=overall,
        categories={"dates": overall},
    )
    assert save_calibration(calibration) == ""

    async def act(client: TestClient[Any, Any], guard: Guard) -> None:
        ann = Person(client, guard, "ann")
        await ann.look()
        await ann.press("right")
        text = words(await (await client.get("/judges")).text())
        assert "openai/strict 3 votes answer ours.jsonl" in text
        assert "7 of 10" in text  # wrongly accepted
        assert "offline" in text  # ships with the package
        assert "ann 1" in text
        text = words(await (await client.get(f"/judges/{RUN}")).text())
        assert "Person Answers ann 1" in text
        assert "assay judge calibrate" in text

    visit(root, act)


def test_two_judges_of_one_run_are_compared_answer_by_answer(tmp_path: Path) -> None:
    made = Made(tmp_path / RUN, scorer="judge@first")
    for number in range(10):
        made.case(f"c{number}", [passed(number < 6)])
    made.scorer = "judge@second"
    made.score_again([passed(number < 4 or number == 9) for number in range(10)])
    made.finish()
    (pair,) = judge_pairs(OpenRun(tmp_path / RUN))
    assert (pair.agreement.n, pair.metric) == (10, "passed")
    assert round((pair.agreement.accuracy or 0) * 10) == 7
    assert (pair.agreement.false_accepts.count, pair.agreement.false_rejects.count) == (1, 2)

    async def act(client: TestClient[Any, Any], _: Guard) -> None:
        text = words(await (await client.get(f"/judges/{RUN}")).text())
        assert "7 of 10" in text
        assert "judge@second" in text

    visit(tmp_path, act)


def test_the_address_of_labelling_is_short_and_complete() -> None:
    query = LabelQuery.parse({"by": " ann ", "sample": "20", "balance": "1", "unknown": "x"})
    assert query.address(at=3) == "?by=ann&sample=20&balance=1&at=3"


def test_undo_after_a_skip_goes_back_to_the_skipped_answer_and_keeps_all_labels(root: Path) -> None:
    async def act(client: TestClient[Any, Any], guard: Guard) -> None:
        ann = Person(client, guard, "ann")
        first = answer_of(await ann.look())
        second = answer_of(await ann.press("right"))
        third = answer_of(await ann.press("skip"))
        assert answer_of(await ann.press("undo")) == second
        assert [label.case for label in read_labels(root / RUN)] == [first]
        # Steps are taken back one by one, labels and skips in their order.
        await ann.press("skip")
        fourth = answer_of(await ann.press("wrong"))
        await ann.press("skip")
        assert answer_of(await ann.press("undo")) == fourth
        assert answer_of(await ann.press("undo")) == third
        assert answer_of(await ann.press("undo")) == second
        assert [label.case for label in read_labels(root / RUN)] == [first]
        assert answer_of(await ann.press("undo")) == first
        assert read_labels(root / RUN) == []

    visit(root, act)


def test_an_answer_that_is_skipped_first_can_be_shown_again(root: Path) -> None:
    async def act(client: TestClient[Any, Any], guard: Guard) -> None:
        ann = Person(client, guard, "ann")
        first = answer_of(await ann.look())
        assert 'value="undo"' not in ann.source
        await ann.press("skip")
        assert 'value="undo"' in ann.source
        assert answer_of(await ann.press("undo")) == first

    visit(root, act)


def test_an_answer_with_two_filters_is_labelled_once_and_compared_with_the_chosen_one(tmp_path: Path) -> None:
    made = Made(tmp_path / RUN, suite="task")
    for number in range(4):
        made.case(f"c{number}", [passed(number < 1, "strict"), passed(number < 3, "flexible")])
    made.finish(parts="filters")

    async def act(client: TestClient[Any, Any], guard: Guard) -> None:
        setup = Page(await (await client.get(f"/label/{RUN}")).text())
        offered = [each["value"] for tag, each in setup.elements if tag == "option"]
        assert offered == ["", "passed,flexible", "passed,strict"]
        ann = Person(client, guard, "ann")
        text = await ann.look()
        assert "0 of 4 labelled" in text
        for _ in range(4):
            text = await ann.press("right")
        assert "You and passed,strict agree 1 of 4" in text
        # The same labels are compared with the other filter: the answers are the same.
        ann.address = f"/label/{RUN}?by=ann&metric=passed%2Cflexible"
        assert "You and passed,flexible agree 3 of 4" in await ann.look()
        assert len(read_labels(tmp_path / RUN)) == 4

    visit(tmp_path, act)
