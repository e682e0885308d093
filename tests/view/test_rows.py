"""The table of rows on the page of a run: choice of columns, and the filters by value, flaky and flipped."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from assay.core.types import Usage
from view.test_pages import text_of, visit

from support.runs import Made, passed
from support.web import Page

NEW, OLD, TALKS = "assay/new", "assay/old", "assay/talks"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of twelve cases, every fourth of which flipped, and one whose rows are questions."""
    folder = tmp_path_factory.mktemp("rows")
    old, new = Made(folder / OLD, model="older"), Made(folder / NEW)
    for number in range(12):
        was_right = number % 2 == 0
        is_right = was_right if number % 4 else not was_right
        old.case(f"case-{number}", [passed(was_right)])
        new.case(
            f"case-{number}",
            [
                {**passed(is_right), "expected": f"wanted {number}", "reason": f"because of {number}"},
                {"metric": "length", "value": number / 10, "data": {"repeats": [0, number % 3]}},
            ],
            seconds=number / 2,
            usage=Usage(number, 2 * number),
            calls=2,
            label=f"question {number}",
            tags=(f"topic:{number % 3}",),
            price=number / 1000,
        )
    new.case("case-12", status="infra_error", label="question 12")
    old.finish()
    new.finish()
    talks = Made(folder / TALKS, suite="memory-test")
    for number in range(3):
        talks.case(
            f"talk-{number}",
            [passed(question % 2, f"t1/q{question}", votes=[["right", 3]], stable=True) for question in range(4)],
            seconds=10.0 * (number + 1),
        )
    talks.finish(parts="rows")
    again = Made(folder / "assay" / "talks-before", suite="memory-test")
    for number in range(3):
        again.case(f"talk-{number}", [passed(question == 3, f"t1/q{question}") for question in range(4)])
    again.finish(parts="rows")
    return folder


async def numbers(client: TestClient[Any, Any], query: str, run: str = NEW) -> list[int]:
    source = await text_of(client, f"/run/{run}{query}", Assay_Fragment="rows")
    return [int(number) for number in re.findall(r"question (\d+)</bdi></a>", source)]


def heads(source: str) -> list[str]:
    table = source[source.index("<thead>") : source.index("</thead>")]
    return [Page(head).text.strip() for head in re.findall(r"<th .*?</th>", table, re.DOTALL)]


def test_a_person_chooses_the_columns_and_every_link_keeps_them(root: Path) -> None:
    async def look(client: TestClient[Any, Any]) -> None:
        page = await text_of(client, f"/run/{NEW}")
        assert heads(page[page.index('id="rows"') :]) == [
            *("Row ↑", "Status", "passed", "length", "Time", "Output tokens", "Answer")
        ]
        chosen = "?columns=cost&columns=tags&columns=expected&columns=reason&columns=tries&columns=index"
        source = await text_of(client, f"/run/{NEW}{chosen}", Assay_Fragment="rows")
        assert heads(source) == ["Row ↑", "Position", "Tries", "Cost", "Tags", "Expected", "Reason"]
        cells = " ".join(Page(source).text.split())
        assert "question 3 3 1 $0.003 topic:0 wanted 3 because of 3" in cells
        # The last case has no call, so its price was not measured. Nor has it a score.
        assert "question 12 12 1 – – – –" in cells
        links = [link for link in Page(source).links() if "sort=" in link or link.startswith("/case/")]
        assert links
        assert all("columns=cost&columns=tags" in link for link in links)
        assert "Default" in Page(source).text
        assert (
            "there is no column named 'size'"
            in Page(await text_of(client, f"/run/{NEW}?columns=size", status=400)).text
        )

    visit(root, look)


def test_the_form_of_columns_works_without_a_script_and_keeps_the_filters(root: Path) -> None:
    async def look(client: TestClient[Any, Any]) -> None:
        source = await text_of(client, f"/run/{NEW}?failed=1&sort=length", Assay_Fragment="rows")
        form = Page(source[source.index('<form method="get" class="columns"') :])
        fields = [attributes for tag, attributes in form.elements if tag == "input"]
        hidden = {each["name"]: each["value"] for each in fields if each["type"] == "hidden"}
        assert hidden == {"failed": "1", "sort": "length"}
        ticked = [each["value"] for each in fields if "checked" in each]
        assert ticked == ["status", "passed", "length", "seconds", "output", "answer"]

    visit(root, look)


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("?value=length&least=0.9", [9, 10, 11]),
        ("?value=length&most=0.2", [0, 1, 2]),
        ("?value=length&least=0.3&most=0.3", [3]),
        ("?value=length&least=0.3&most=0.6", [3, 4, 5, 6]),
        ("?value=length&least=0.3&below=0.6", [3, 4, 5]),
        ("?value=length", list(range(12))),
        ("?value=seconds&most=0.5", [0, 1, 12]),
        ("?value=seconds&least=1e300", []),
        ("?value=cost&least=0.011", [11]),
        ("?value=output&least=20&failed=1", [11]),
        ("?least=0.9", list(range(13))),  # no column is chosen yet
        ("?value=length&least=5", []),
    ],
)
def test_rows_are_filtered_by_the_value_of_a_metric_or_another_number(root: Path, query: str, rows: list[int]) -> None:
    async def look(client: TestClient[Any, Any]) -> None:
        assert await numbers(client, query) == rows

    visit(root, look)


def test_a_bar_of_a_distribution_leads_to_its_rows(root: Path) -> None:
    """The number of a bar is the number of rows behind it, also for values on an edge."""

    async def look(client: TestClient[Any, Any]) -> None:
        source = await text_of(client, f"/run/{NEW}")
        bars = re.findall(r'<a href="(\?value=[^"]+)#rows" tabindex="-1"><rect.*?: (\d+)</title>', source)
        assert {re.findall(r"value=(\w+)", link)[0] for link, _ in bars} == {*("seconds", "input", "output", "cost")}
        for link, count in bars:
            assert len(await numbers(client, link.replace("&amp;", "&"))) == int(count), link
        assert "median $0.0055" in source

    visit(root, look)


def test_a_run_without_prices_says_that_its_cost_was_not_measured(root: Path) -> None:
    async def look(client: TestClient[Any, Any]) -> None:
        words = " ".join(Page(await text_of(client, f"/run/{OLD}")).text.split())
        assert "Cost of a case: not measured, because no endpoint reported a price" in words
        assert 'value="cost"' not in await text_of(client, f"/run/{OLD}")

    visit(root, look)


def test_flaky_rows_have_repeats_or_votes_that_disagree(root: Path) -> None:
    async def look(client: TestClient[Any, Any]) -> None:
        assert await numbers(client, "?flaky=1") == [1, 2, 4, 5, 7, 8, 10, 11]
        assert 'name="flaky"' in await text_of(client, f"/run/{NEW}")
        # Three equal votes are repeats, too: no row of this run is flaky.
        talks = await text_of(client, f"/run/{TALKS}?flaky=1")
        assert "No row matches these filters" in talks
        # A run without repeats has no such choice.
        assert 'name="flaky"' not in await text_of(client, f"/run/{OLD}")
        assert "neither repeats nor votes" in await text_of(client, f"/run/{OLD}?flaky=1", status=400)

    visit(root, look)


def test_rows_that_flipped_against_another_run(root: Path) -> None:
    async def look(client: TestClient[Any, Any]) -> None:
        offer = await text_of(client, f"/run/{NEW}?bases=1")
        bases = re.findall(r'<option value="([^"]*)"', offer[offer.index('name="against"') :])
        assert bases == ["", OLD]  # of this suite, and not the run itself
        assert "older" in offer
        query = f"?against={OLD}"
        assert await numbers(client, query) == [0, 4, 8]
        assert await numbers(client, query + "&flip=worse") == [0, 4, 8]
        assert await numbers(client, query + "&flip=better") == []
        assert await numbers(client, f"{query}&value=length&least=0.4") == [4, 8]
        source = await text_of(client, f"/run/{NEW}{query}")
        assert Page(source).text.count("a score wrong here") == 3
        assert f'rel="next" href="/case/8/{NEW}?against=assay%2Fold"' in await text_of(client, f"/case/4/{NEW}{query}")
        (link,) = {link for link in Page(source).links() if "/compare/case?" in link and "case=4" in link}
        response = await client.get(link, allow_redirects=False)
        assert response.status == 303
        beside = await text_of(client, response.headers["Location"])
        assert "question 4" in beside
        assert "did not flip" in await text_of(client, link.replace("case=4", "case=5"), status=400)

    visit(root, look)


def test_questions_that_flipped_are_rows_of_their_own(root: Path) -> None:
    async def look(client: TestClient[Any, Any]) -> None:
        source = await text_of(client, f"/run/{TALKS}?against={TALKS}-before")
        rows = re.findall(r'class="row" href="/case/(\d)/[^"]*part=([^"]+)"', source)
        assert rows == [("0", "t1%2Fq1"), ("1", "t1%2Fq1"), ("2", "t1%2Fq1")]
        assert Page(source).text.count("a score right here") == 3
        link = next(link for link in Page(source).links() if "case=2" in link)
        assert "part=t1%2Fq1" in link
        assert (await client.get(link, allow_redirects=False)).status == 303

    visit(root, look)


def test_runs_that_cannot_be_compared_give_a_sentence_above_the_table(root: Path) -> None:
    async def look(client: TestClient[Any, Any]) -> None:
        source = await text_of(client, f"/run/{NEW}?against={TALKS}", status=409)
        assert "only runs of one suite can be compared" in source
        assert str(root) not in Page(source[source.index('id="rows"') :]).text
        await text_of(client, f"/run/{NEW}?against=assay/nothing", status=404)
        await text_of(client, f"/run/{NEW}?flip=sideways", status=400)

    visit(root, look)


def test_the_time_of_a_conversation_counts_once_however_many_questions_it_has(root: Path) -> None:
    async def look(client: TestClient[Any, Any]) -> None:
        words = " ".join(Page(await text_of(client, f"/run/{TALKS}")).text.split())
        assert "Time of a case 3 cases" in words
        assert "median 20.00, p95 29.00, largest 30.00 s" in words
        assert "1–12 of 12 rows" in words
        assert "Case time" in words  # the column does not look like the time of a question

    visit(root, look)


def test_the_filter_by_status_has_the_words_of_the_column(root: Path) -> None:
    """Cases 0, 3, 4, 5 and so on have an answer that is wrong. They are not ok."""

    async def look(client: TestClient[Any, Any]) -> None:
        source = await text_of(client, f"/run/{NEW}", Assay_Fragment="rows")
        choices = source[source.index('<select name="status">') :].partition("</select>")[0]
        offered = re.findall(r'<option value="(\w+)"', choices)
        assert offered == ["ok", "failed", "subject_error", "infra_error"]
        shown = {}
        for status in offered:
            source = await text_of(client, f"/run/{NEW}?status={status}", Assay_Fragment="rows")
            badges = re.findall(r'<span class="badge (\w+)">', source)
            assert set(badges) <= {status}
            shown[status] = len(badges)
        assert shown == {"ok": 3, "failed": 9, "subject_error": 0, "infra_error": 1}
        assert "there is no status named" in await text_of(client, f"/run/{NEW}?status=bad", status=400)

    visit(root, look)
