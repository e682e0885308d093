"""The search in the texts of a run, as the server sends it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from assay.core.errors import AssayError
from assay.core.types import ASK, Call, End, Record, Request, Response
from assay.journal.journal import Journal
from assay.journal.lines import JournalFile
from assay.journal.run_files import FILES
from assay.store.search import PLACES, Hit, search
from assay.view.search_process import SearchProcess, SearchQuery
from view.hostile import STRINGS, write_hostile_run
from view.test_hostile import check

from support.runs import Made
from support.web import Page, view_of

RUN = "results/assay/one"
CASES = 130


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 130 cases. Every reply has the word tower; one has Eiffel, one has Chinese."""
    folder = tmp_path_factory.mktemp("search")
    made = Made(folder / RUN)
    for name in FILES:
        (made.folder / name).unlink(missing_ok=True)
        (made.folder / name).touch()
    journal = Journal(made.folder, ["suite@1"], [])
    for number in range(CASES):
        head = (number, f"case-{number}", "s", "m")
        extra = {70: "the Eiffel tower", 71: "東京タワー tower"}.get(number, "a Tower")
        request = Request(model="m", prompt=f"What is number {number}?")
        journal.call(Call(*head, ASK, 1, f"hash {number}", 0, request, Response(f"{number}: {extra}")))
        end = End(*head, ASK, 1, "ok", [], label=f"question {number}")
        journal.end_case(end, [Record(*head, 1, "answer", "", extra)])
    journal.close()
    made.write_info(total=CASES)
    return folder


def visit(root: Path, look: Callable[[TestClient[Any, Any]], Awaitable[None]]) -> None:
    async def both() -> None:
        async with view_of(root) as client:
            await look(client)

    asyncio.run(both())


async def source_of(client: TestClient[Any, Any], address: str, status: int = 200) -> str:
    response = await client.get(address)
    assert response.status == status, address
    return await response.text()


def test_hits_are_links_to_their_cases_with_the_text_marked(root: Path) -> None:
    async def look(client: TestClient[Any, Any]) -> None:
        source = await source_of(client, f"/search/{RUN}?q=eiffel&place=reply")
        check(source, "search")
        assert f'href="/case/70/{RUN}"' in source
        assert "<mark>Eiffel</mark>" in source
        words = " ".join(Page(source).text.split())
        assert "question 70 reply 70: the Eiffel tower" in words
        assert "Searched everything: 1 hit." in words
        assert "<mark>東京</mark>" in await source_of(client, f"/search/{RUN}?q=東京&place=reply")
        assert "Searched everything: 0 hits." in await source_of(client, f"/search/{RUN}?q=nowhere")

    visit(root, look)


def test_a_full_page_of_hits_leads_to_the_next_ones_until_all_were_shown(root: Path) -> None:
    async def look(client: TestClient[Any, Any]) -> None:
        address, shown = f"/search/{RUN}?q=tower&place=reply", []
        for _ in range(3):
            source = await source_of(client, address)
            shown.append(re.findall(r'class="row" href="/case/(\d+)/', source))
            address = f"/search/{RUN}" + "".join(re.findall(r'rel="next" href="([^"]+)"', source)).replace("&amp;", "&")
        assert [len(page) for page in shown] == [50, 50, 30]
        assert [int(index) for page in shown for index in page] == list(range(CASES))
        assert "Searched everything: 130 hits." in source
        assert address == f"/search/{RUN}", "the last page has no next one"

    visit(root, look)


def test_the_page_of_a_run_has_the_search_form_with_every_place(root: Path) -> None:
    async def look(client: TestClient[Any, Any]) -> None:
        for address in (f"/run/{RUN}", f"/search/{RUN}"):
            page = Page(await source_of(client, address))
            (form,) = [each for tag, each in page.elements if tag == "form" and each.get("role") == "search"]
            assert form["action"] == f"/search/{RUN}"
            options = {each["value"] for tag, each in page.elements if tag == "option"}
            assert set(PLACES) <= options
        head = await client.head(f"/search/{RUN}?q=tower")
        assert (head.status, await head.text()) == (200, "")

    visit(root, look)


def test_addresses_that_are_wrong_are_refused_with_a_sentence(root: Path) -> None:
    async def look(client: TestClient[Any, Any]) -> None:
        for query, message in (
            ("q=x&place=nowhere", "there is no place named"),
            ("q=x&after=reply", "position that is not valid"),
            ("q=x&after=nowhere-7", "position that is not valid"),
            ("q=x&first=one", "Expected `int`"),
            ("q=" + "x" * 1001, "at most 1,000 characters"),
        ):
            assert message in await source_of(client, f"/search/{RUN}?{query}", status=400)
        await source_of(client, "/search/results/assay/none?q=x", status=404)
        # A position in the middle of a line, or behind the end, is a position all the same.
        for after in ("reply-1", "reply-999999999", "score-5"):
            assert "Searched everything" in await source_of(client, f"/search/{RUN}?q=x&after={after}")

    visit(root, look)


def test_no_text_becomes_markup_in_hits(tmp_path: Path) -> None:
    write_hostile_run(tmp_path / RUN)

    async def look(client: TestClient[Any, Any]) -> None:
        for text in ("alert", "evil", "a", "<", STRINGS[0], STRINGS[42], STRINGS[44], STRINGS[45]):
            response = await client.get(f"/search/{RUN}", params={"q": text, "place": "record"})
            source = await response.text()
            assert 'class="hit"' in source, text
            check(source, text)

    visit(tmp_path, look)


def test_leaving_the_page_ends_the_search(root: Path) -> None:
    """Also where the process has found more than the pipe to the server holds."""

    async def look(client: TestClient[Any, Any]) -> None:
        app = client.app
        assert app is not None
        for _ in range(3):
            response = await client.get(f"/search/{RUN}?q=tower")
            await response.content.readany()
            response.close()
        # All three have left, so a search need not wait for one of them.
        assert "Searched everything: 1 hit." in await source_of(client, f"/search/{RUN}?q=eiffel&place=reply")

    visit(root, look)


def test_a_search_that_ends_early_does_not_wait_for_its_process(tmp_path: Path) -> None:
    """The process finds far more than the buffers between it and the server hold."""
    records = JournalFile(tmp_path / "records.jsonl", run="5f0c")
    for index in range(20_000):
        records.add(Record(index, "key", "set", "m", 1, "answer", data="tower " * 40))
    records.write()
    records.close()

    async def ask() -> None:
        query = SearchQuery(folder=str(tmp_path), text="tower", places=("record",))
        async with asyncio.timeout(60), SearchProcess(query) as process:
            async for found in process:
                assert isinstance(found, Hit)
                # The process goes on writing while nobody reads.
                await asyncio.sleep(0.5)
                break

    asyncio.run(ask())


def test_an_error_of_the_search_is_an_error_here() -> None:
    async def ask() -> None:
        async with SearchProcess(SearchQuery(folder="/", text="x", places=("nowhere",))) as process:
            with pytest.raises(AssayError, match="there is no place named"):
                async for _ in process:
                    pass

    asyncio.run(ask())


def test_a_search_goes_on_behind_a_hit(root: Path) -> None:
    folder = root / RUN
    everything = list(search(folder, "tower"))
    assert len(everything) == 2 * CASES
    for place in (0, 1, 70, CASES - 1, CASES, 2 * CASES - 1):
        hit = everything[place]
        shares: list[float] = []
        rest = list(search(folder, "tower", progress=shares.append, after=(hit.place, hit.offset)))
        assert rest == everything[place + 1 :]
        assert shares == sorted(shares)
        assert all(0 < share <= 1 for share in shares)
