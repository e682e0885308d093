"""The pages of runs, rows and cases, as the server sends them."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

import assay
from assay.core.report import Entry, Interval, Metric, Report
from assay.core.types import Usage
from assay.store.notes import change_notes
from assay.view.open_runs import OpenRuns
from assay.view.site import SITE
from store.test_open_run import working_on

from servers.loopback import LoopbackServer
from servers.reasoning_model import reasoning_model
from support.runs import Made, passed, run_of
from support.web import Page, view_of

Visit = Callable[[TestClient[Any, Any]], Awaitable[None]]
RUN = "results/assay/many"


def visit(root: Path, look: Visit) -> None:
    """Open the pages of a folder and look at them."""

    async def both() -> None:
        async with view_of(root) as client:
            await look(client)

    asyncio.run(both())


async def text_of(client: TestClient[Any, Any], address: str, status: int = 200, **headers: str) -> str:
    response = await client.get(address, headers={name.replace("_", "-"): value for name, value in headers.items()})
    assert response.status == status, address
    return await response.text()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 120 cases in three groups, every third one wrong, the last one without an answer."""
    folder = tmp_path_factory.mktemp("pages")
    made = Made(folder / RUN, model="vendor/model-7")
    for number in range(119):
        tag = ("red", "green", "blue")[number % 3]
        made.case(
            f"case-{number:03}",
            [passed(number % 3 != 0)],
            seconds=number / 10,
            usage=Usage(5, number),
            calls=1,
            label=f"question {number}",
            tags=(tag,),
        )
    made.case("case-119", status="infra_error", label="question 119")
    metric = Metric(
        name="passed",
        value=79 / 119,
        numerator=79,
        denominator=119,
        interval=Interval(0.57, 0.74),
        left_out={"infra_error": 1},
    )
    missing = Metric(name="judged", value=None, denominator=0, reason="no judge was named")
    made.finish(report=Report(entries=[Entry(name="m", metrics=[metric, missing])]))
    change_notes(made.folder, text="the first try", add_tags=["baseline"])
    return folder


def test_the_list_of_runs_has_state_score_denominator_and_notes(root: Path) -> None:
    async def look(client: TestClient[Any, Any]) -> None:
        page = Page(await text_of(client, "/"))
        words = " ".join(page.text.split())
        for expected in (
            "vendor/model-7",
            "finished",
            "0.664",
            "0.57 to 0.74, n=119",
            "the first try",
            "baseline",
        ):
            assert expected in words
        assert f"/run/{RUN}" in page.links()
        assert "1 run" in words
        assert "No run matches" in await text_of(client, "/?q=nothing-like-it")
        assert "vendor/model-7" in await text_of(client, "/?q=MODEL-7&state=finished&tag=baseline&sort=score")

    visit(root, look)


def test_an_empty_folder_says_what_to_type_first(tmp_path: Path) -> None:
    async def look(client: TestClient[Any, Any]) -> None:
        assert "assay task task.yaml --model local/smollm2" in await text_of(client, "/")

    visit(tmp_path, look)


def test_the_page_of_a_run_has_its_numbers_with_denominators_and_what_was_left_out(root: Path) -> None:
    async def look(client: TestClient[Any, Any]) -> None:
        words = " ".join(Page(await text_of(client, f"/run/{RUN}")).text.split())
        assert "0.664 0.570 to 0.740 79 of 119 left out: 1 infra_error" in words
        # A value that was not measured is a dash, never 0.
        assert "judged– – 0 no judge was named" in words
        assert "1–50 of 120 rows" in words
        assert "median 5.85" in words

    visit(root, look)


def test_rows_are_paged_sorted_and_filtered_by_the_address(root: Path) -> None:
    async def look(client: TestClient[Any, Any]) -> None:
        async def names(query: str) -> list[str]:
            source = await text_of(client, f"/run/{RUN}{query}")
            return re.findall(r"question (\d+)</bdi></a>", source)

        assert await names("?page=3") == [str(number) for number in range(100, 120)]
        assert (await names("?sort=seconds&desc=1"))[:3] == ["118", "117", "116"]
        assert (await names("?tag=red&failed=1"))[:3] == ["0", "3", "6"]
        assert await names("?status=infra_error") == ["119"]
        assert await names("?slower=11.65") == ["117", "118"]
        assert await names("?failed=1&tag=green") == []
        assert "last page is 3" in await text_of(client, f"/run/{RUN}?page=4", status=400)
        assert "there is no page 0" in await text_of(client, f"/run/{RUN}?page=0", status=400)
        assert "Expected `int`" in await text_of(client, f"/run/{RUN}?page=x", status=400)
        assert "there is no column named" in await text_of(client, f"/run/{RUN}?sort=size", status=400)
        assert "there is no tag named" in await text_of(client, f"/run/{RUN}?tag=pink", status=400)

    visit(root, look)


def test_every_link_of_a_page_of_rows_keeps_the_other_filters(root: Path) -> None:
    async def look(client: TestClient[Any, Any]) -> None:
        page = Page(await text_of(client, f"/run/{RUN}?tag=red&failed=1&sort=seconds"))
        tables = [link for link in page.links() if link.startswith("?") and "failed" in link]
        assert tables
        assert all("tag=red" in link for link in tables)
        rows = [link for link in page.links() if link.startswith("/case/")]
        assert rows[0] == f"/case/0/{RUN}?failed=1&tag=red&sort=seconds"
        assert len(rows) == 40
        for link in tables:
            await text_of(client, f"/run/{RUN}{link}")

    visit(root, look)


def test_the_script_gets_the_table_of_rows_alone(root: Path) -> None:
    async def look(client: TestClient[Any, Any]) -> None:
        fragment = await text_of(client, f"/run/{RUN}?failed=1", Assay_Fragment="rows")
        assert fragment.lstrip().startswith('<section id="rows"')
        assert "<html" not in fragment
        whole = await text_of(client, f"/run/{RUN}?failed=1")
        assert fragment.strip() in whole
        runs = await text_of(client, "/", Assay_Fragment="rows")
        assert runs.lstrip().startswith('<section id="rows"')

    visit(root, look)


def test_a_case_leads_to_the_next_one_of_the_same_selection(root: Path) -> None:
    async def look(client: TestClient[Any, Any]) -> None:
        source = await text_of(client, f"/case/3/{RUN}?failed=1")
        assert f'rel="next" href="/case/6/{RUN}?failed=1"' in source
        assert f'rel="prev" href="/case/0/{RUN}?failed=1"' in source
        assert "text of case-003" in source
        last = await text_of(client, f"/case/119/{RUN}")
        assert 'rel="next"' not in last
        assert "timeout" in last
        assert "has no case 999" in await text_of(client, f"/case/999/{RUN}", status=400)
        raw = json.loads(await text_of(client, f"/raw/3/{RUN}"))
        assert raw["scores"][0]["value"] == 0.0

    visit(root, look)


def test_a_long_text_is_cut_and_shown_whole_on_demand(tmp_path: Path) -> None:
    made = Made(tmp_path / "assay" / "long")
    made.case("k", [{**passed(1), "reason": "", "data": {"id": "words\n" * 5000}}])
    made.finish()

    async def look(client: TestClient[Any, Any]) -> None:
        source = await text_of(client, "/case/0/assay/long")
        (link,) = set(re.findall(r'href="(\?whole=text-\d+)#', source))
        assert len(source) < 20_000
        assert len(await text_of(client, f"/case/0/assay/long{link}")) > 20_000

    visit(tmp_path, look)


def test_a_damaged_run_is_listed_and_its_page_says_what_is_wrong(tmp_path: Path) -> None:
    folder = run_of(tmp_path / "assay" / "hurt", {"a": True, "b": True})
    run_of(tmp_path / "assay" / "well", {"a": True})
    content = (folder / "scores.jsonl").read_bytes()
    (folder / "scores.jsonl").write_bytes(content[:-40])

    async def look(client: TestClient[Any, Any]) -> None:
        assert "damaged" in await text_of(client, "/")
        assert "lines are missing" in await text_of(client, "/run/assay/hurt", status=409)
        await text_of(client, "/run/assay/well")

    visit(tmp_path, look)


def test_another_run_in_the_same_folder_is_shown_instead_of_the_old_one(tmp_path: Path) -> None:
    folder = run_of(tmp_path / RUN, {"a": True}, model="vendor/old")

    async def look(client: TestClient[Any, Any]) -> None:
        assert "vendor/old" in await text_of(client, f"/run/{RUN}")
        shutil.rmtree(folder)
        run_of(folder, {"b": True, "c": False}, model="vendor/new")
        text = await text_of(client, f"/run/{RUN}")
        assert ("vendor/old" in text, "vendor/new" in text) == (False, True)
        assert "/case/1/" in text

    visit(tmp_path, look)


def test_the_first_index_of_a_large_run_is_built_by_another_process(root: Path) -> None:
    """Until it is ready, the page says so and loads itself again."""

    async def look(client: TestClient[Any, Any]) -> None:
        app = client.app
        assert app is not None
        app[SITE].runs = OpenRuns(max_unread=0)
        source = await text_of(client, f"/run/{RUN}", status=202)
        assert 'http-equiv="refresh"' in source
        while (await client.get(f"/run/{RUN}")).status == 202:  # noqa: ASYNC110 - as the browser does
            await asyncio.sleep(0.05)
        assert "0.664" in await text_of(client, f"/run/{RUN}")

    visit(root, look)


def test_progress_of_a_running_run_is_streamed_until_its_end(tmp_path: Path) -> None:
    made = Made(tmp_path / "assay" / "live")
    made.case("a", [passed(1)])
    made.write_info(total=3)

    async def look(client: TestClient[Any, Any]) -> None:
        with working_on(made.folder):
            source = await text_of(client, "/run/assay/live")
            assert 'data-live="/live?run=assay/live"' in source
            assert "1 of 3" in Page(source).text
            listed = await text_of(client, "/")
            assert 'data-live="/live?run=assay/live"' in listed
            assert "1 of 3" in Page(listed).text
            stream = await client.get("/live?run=assay/live")
            assert stream.headers["Content-Type"].startswith("text/event-stream")
            first = await stream.content.readuntil(b"\n\n")
            ((element, html),) = json.loads(first.removeprefix(b"data: ")).items()
            assert f'id="{element}"' in source
            assert "1 of 3" in Page(html).text
            made.case("b", [passed(0)])
            second = await stream.content.readuntil(b"\n\n")
            assert "2 of 3" in Page(json.loads(second.removeprefix(b"data: "))[element]).text
            made.case("c", [passed(0)])
            made.finish()
        rest = await stream.content.read()
        assert b"event: over" in rest

    visit(tmp_path, look)


def test_the_fields_of_the_list_of_runs_are_replaced_with_it(root: Path) -> None:
    """A choice after a sort keeps the sort, and after Back the fields say what the list shows."""

    async def look(client: TestClient[Any, Any]) -> None:
        source = await text_of(client, "/?q=MODEL&sort=score&asc=1", Assay_Fragment="rows")
        fields = {each["name"]: each["value"] for tag, each in Page(source).elements if tag == "input"}
        assert (fields["q"], fields["sort"], fields["asc"]) == ("MODEL", "score", "1")
        whole = await text_of(client, "/")
        assert whole.index('id="rows"') < whole.index('role="search"')
        assert whole.count('role="search"') == 1

    visit(root, look)


def test_runs_have_a_cost_if_an_endpoint_reported_one(tmp_path: Path) -> None:
    for name, prices in (("cheap", (0.001, 0.002)), ("dear", (1.5, 2.0)), ("local", (None,))):
        made = Made(tmp_path / "assay" / name, suite="made" if name == "local" else "paid")
        for number, price in enumerate(prices):
            made.case(f"c{number}", [passed(1)], price=price)
        made.finish()

    async def look(client: TestClient[Any, Any]) -> None:
        source = await text_of(client, "/?sort=cost")
        assert re.findall(r'href="/run/assay/(\w+)"', source) == ["dear", "cheap", "local"]
        words = " ".join(Page(source).text.split())
        assert "Cost ↓" in words
        assert "3.50" in words
        assert "$0.003" in words
        assert "Cost" not in Page(await text_of(client, "/?suite=made")).text

    visit(tmp_path, look)


def test_the_page_of_a_run_says_how_requests_were_adapted_and_counts_reasoning(tmp_path: Path) -> None:
    with LoopbackServer(reasoning_model(lambda body: "4")) as server:
        run = assay.evaluate(
            [{"question": "2+2?", "answer": "4"}],
            model="openai/o9",
            base_url=server.url,
            gen_kwargs={"temperature": 0},
            score=assay.exact_match("answer"),
            target="answer",
            output_dir=tmp_path,
            quiet=True,
        )

    async def look(client: TestClient[Any, Any]) -> None:
        text = " ".join(Page(await text_of(client, f"/run/assay/{run.folder.name}")).text.split())
        assert re.search("Requests adapted ?no temperature, no seed", text)
        assert "7 in, 2 out (1 reasoning)" in text

    visit(tmp_path, look)
