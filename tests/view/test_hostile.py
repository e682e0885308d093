"""No text of a model, a data file or an address becomes markup, on any page."""

from __future__ import annotations

import asyncio
import re
from html import escape
from itertools import chain
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from assay.view.hop.site import HOP
from assay.view.server import ROUTES
from assay.view.site import FRAGMENT, SITE
from assay.view.text import visible
from view.hostile import STRINGS, write_hostile_run, write_hostile_task
from view.hostile_suites import write_hostile_suite

from support.web import Page, view_of

TAGS = frozenset(
    [
        "em",
        "textarea",
        "legend",
        "fieldset",
        "datalist",
        "a",
        "article",
        "b",
        "bdi",
        "body",
        "button",
        "caption",
        "circle",
        "code",
        "dd",
        "del",
        "details",
        "dialog",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "form",
        "h1",
        "h2",
        "h3",
        "head",
        "header",
        "html",
        "img",
        "input",
        "ins",
        "kbd",
        "label",
        "li",
        "line",
        "link",
        "main",
        "mark",
        "meta",
        "nav",
        "noscript",
        "ol",
        "option",
        "p",
        "polyline",
        "polygon",
        "pre",
        "progress",
        "rect",
        "script",
        "section",
        "select",
        "span",
        "summary",
        "svg",
        "table",
        "tbody",
        "td",
        "text",
        "textarea",
        "th",
        "thead",
        "time",
        "title",
        "tr",
        "ul",
    ]
)
ATTRIBUTES = frozenset(
    [
        "required",
        "data-key",
        "data-once",
        "spellcheck",
        "rows",
        "maxlength",
        "list",
        "inputmode",
        "for",
        "autocomplete",
        "action",
        "alt",
        "charset",
        "checked",
        "disabled",
        "dominant-baseline",
        "for",
        "preserveaspectratio",
        "rows",
        "spellcheck",
        "transform",
        "class",
        "colspan",
        "content",
        "cx",
        "cy",
        "data-copy",
        "data-into",
        "data-live",
        "data-open",
        "data-quiet",
        "data-search",
        "dir",
        "height",
        "hidden",
        "href",
        "http-equiv",
        "id",
        "lang",
        "max",
        "maxlength",
        "method",
        "min",
        "name",
        "open",
        "placeholder",
        "points",
        "r",
        "rel",
        "role",
        "rx",
        "scope",
        "selected",
        "src",
        "step",
        "stroke-dasharray",
        "tabindex",
        "text-anchor",
        "title",
        "type",
        "value",
        "viewbox",
        "width",
        "x",
        "x1",
        "x2",
        "y",
        "y1",
        "y2",
        "defer",
    ]
)
# Characters that change how their neighbours are shown, without being seen themselves.
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
TASK = "Tasks/Hostile"
NAMES, OTHER = "results/assay/hostile", "results/assay/other"
EVAL, TEST, PIPELINE = "results/assay/eval", "results/assay/test", "results/assay/pipeline"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    write_hostile_run(folder / NAMES)
    write_hostile_task(folder / TASK)
    write_hostile_run(folder / OTHER, value=1.0)
    for name, suite in ((EVAL, "memory-eval"), (TEST, "memory-test"), (PIPELINE, "pipeline")):
        write_hostile_suite(folder / name, suite)
    return folder


def addresses(text: str, number: int) -> dict[str, list[str]]:
    """The addresses of each route that show this text. A new page needs a line here."""
    query = urlencode({"q": text, "tag": text, "subject": text, "set": text})
    compared = urlencode({"run": [f"{NAMES}@{text}", f"{OTHER}@{text}"]}, doseq=True)
    three = urlencode({"run": [f"{name}@{text}" for name in (NAMES, OTHER, NAMES)]}, doseq=True)
    return {
        "/": [
            "/",
            "/?" + urlencode({"q": text}),
            "/?" + urlencode({"sort": text}),
            "/?" + urlencode({"page": text}),
        ],
        "/run/{run:.*}": [
            f"/run/{NAMES}?{query}",
            f"/run/{NAMES}?" + urlencode({"sort": text}),
            f"/run/{NAMES}?" + urlencode({"columns": text}),
            f"/run/{NAMES}?" + urlencode({"value": text, "least": text}),
            f"/run/{NAMES}?bases=1&" + urlencode({"against": text}),
            f"/run/{NAMES}?columns=tags&columns=expected&columns=reason&against={OTHER}&"
            + urlencode({"subject": text}),
            "/run/" + urlencode({"": text})[1:],
        ],
        r"/case/{index:\d+}/{run:.*}": [
            f"/case/{number}/{NAMES}",
            f"/case/{number}/{NAMES}?{query}&whole=text-1",
            f"/case/{number}/{EVAL}",
            f"/case/{number}/{EVAL}?" + urlencode({"part": f"{text}/1"}),
            f"/case/{number}/{TEST}",
            f"/case/{number}/{TEST}?" + urlencode({"part": "2/1", "test": text}),
            f"/case/{number}/{PIPELINE}",
            f"/case/{number}/{PIPELINE}?" + urlencode({"part": text}),
        ],
        "/compare": [
            f"/compare?{compared}&show=all",
            "/compare?" + urlencode({"run": text}),
            f"/compare?{compared}&" + urlencode({"show": text}),
            f"/compare?{three}&show=all",
        ],
        "/compare/case": [
            f"/compare/case?{compared}&show=all&at=0",
            f"/compare/case?{three}&show=all&at=0",
        ],
        "/memory/{run:.*}": [
            f"/memory/{EVAL}?" + urlencode({"curve": text}),
            f"/memory/{TEST}?" + urlencode({"category": text}),
            f"/memory/{TEST}?" + urlencode({"with": text}),
        ],
        r"/held/{index:\d+}/{run:.*}": [
            f"/held/{number}/{EVAL}",
            f"/held/{number}/{EVAL}?" + urlencode({"session": text}),
            f"/held/{number}/{EVAL}?" + urlencode({"show": text}),
        ],
        r"/raw/{index:\d+}/{run:.*}": [],  # JSON: see the test below
        "/start": ["/start"] if number == 0 else [],
        "/start/{suite}": [
            "/start/task?" + urlencode({"model": text, "tasks": text, "system_instruction": text, "samples": text}),
            "/start/" + quote(text, safe=""),
            "/start/pipeline?" + urlencode({"from": text}),
            f"/start/pipeline?from={PIPELINE}",
        ],
        "/starting/{id}": ["/starting/" + quote(text, safe="")],
        "/output/{run:.*}": [f"/output/{NAMES}"] if number == 0 else [],
        "/judges": ["/judges"] if number == 0 else [],
        "/judges/{run:.*}": [f"/judges/{NAMES}"] if number == 0 else [],
        "/label/{run:.*}": [
            f"/label/{NAMES}?" + urlencode({"by": "a", "metric": text}),
            f"/label/{NAMES}?" + urlencode({"by": text, "metric": text}),
            f"/label/{NAMES}?" + urlencode({"metric": text}),
        ],
        # Forms: see test_start.py.
        "/quickstart": [],
        "/stop/{run:.*}": [],
        "/continue/{run:.*}": [],
        "/notes/{run:.*}": [],
        # Each is a process of its own. `test_search.py` shows hits with all texts.
        "/search/{run:.*}": ["/search/" + urlencode({"": text})[1:]]
        + ([f"/search/{NAMES}?" + urlencode({"q": text})] if number % 8 == 0 else []),
        "/hop": ["/hop"] if number == 0 else [],
        "/hop/run/{task:.*}": [f"/hop/run/{TASK}?example=1&" + urlencode({"trial": text, "profile": text})],
        "/hop/batch/{task:.*}": [f"/hop/batch/{TASK}?" + urlencode({"file": text, "workers": text, "start": text})],
        "/hop/history/{task:.*}": [
            f"/hop/history/{TASK}?" + urlencode({"file": text}),
            *(
                f"/hop/history/{TASK}?file={file}.jsonl&page={number // 20 + 1}&whole=r{number + 1}-raw"
                for file in ("flat", "view", "other")
                if number % 20 == 0  # a page shows twenty records
            ),
        ],
        "/hop/stats/{task:.*}": [f"/hop/stats/{TASK}?" + urlencode({"profile": text})] if number % 8 == 0 else [],
        "/hop/perf/{task:.*}": [f"/hop/perf/{TASK}"] if number == 0 else [],
        "/hop/live/run/{task:.*}": ["/hop/live/run/" + quote(text, safe="")],
        "/hop/live/batch/{task:.*}": ["/hop/live/batch/" + quote(text, safe="")],
        "/live": ["/live?" + urlencode({"run": text})],
        "/static/{name}": [],
    }


def test_the_hostile_texts_are_shown_on_every_route() -> None:
    assert set(addresses("", 0)) == {path for _, path, _ in ROUTES}


@pytest.mark.parametrize("every", [24, 1])
def test_no_text_becomes_markup_on_any_page(root: Path, every: int) -> None:
    """Each page has only elements and attributes of our own templates, and no character that hides others.

    All texts in all addresses take two minutes. CI asks each address with every 24th text, `make test-long` with all.
    """

    async def look() -> None:
        async with view_of(root) as client:
            # The page of the run has all texts at once. It is long, so it is checked once; then only its rows.
            check(await (await client.get(f"/run/{NAMES}")).text(), "the page of the run")
            for number, text in enumerate(STRINGS):
                for position, place in enumerate(chain(*addresses(text, number).values())):
                    if (number + position) % every:
                        continue
                    if place.startswith((f"/run/{NAMES}?", "/memory/")) and number % 8:
                        continue  # its lists of choices have all texts each time
                    headers = {} if place.startswith("/compare") else {FRAGMENT: "rows"}
                    response = await client.get(place, headers=headers)
                    assert response.status in (200, 400, 404), place
                    check(await response.text(), place)

    asyncio.run(look())


def test_every_hostile_text_can_be_read_on_the_page_of_its_case(root: Path) -> None:
    async def look() -> None:
        async with view_of(root) as client:
            for number, text in enumerate(STRINGS):
                source = await (await client.get(f"/case/{number}/{NAMES}")).text()
                shown = Page(str(visible(text))).text
                # A browser makes one line break of carriage return and line feed.
                assert Page(source).text.count(shown) >= 8, text

    asyncio.run(look())


def test_no_result_of_a_hop_function_and_no_input_of_a_person_becomes_markup(root: Path) -> None:
    async def look() -> None:
        async with view_of(root) as client:
            assert client.app is not None
            token = client.app[SITE].guard.page_token
            inputs = {f"in-{number}": text for number, text in enumerate(STRINGS)}
            form = {"token": token, "do": "run", "profile": STRINGS[0], **inputs}
            response = await client.post(f"/hop/run/{TASK}", data=form, allow_redirects=False)
            assert response.status == 303
            (trial,) = client.app[HOP].trials._trials.values()
            await trial.wait()
            source = await (await client.get(response.headers["Location"])).text()
            check(source, "the result of a function")
            for text in STRINGS:
                assert Page(str(visible(text))).text in Page(source).text
            for text in STRINGS:
                form = {
                    "token": token,
                    "do": text,
                    "profile": text,
                    "file": text,
                    "workers": text,
                    "trial": text,
                }
                for tab in ("run", "batch"):
                    response = await client.post(f"/hop/{tab}/{TASK}", data=form)
                    assert response.status == 400
                    check(await response.text(), f"a form of {tab}")

    asyncio.run(look())


def test_the_json_of_a_case_cannot_be_taken_for_a_page(root: Path) -> None:
    async def look() -> None:
        async with view_of(root) as client:
            response = await client.get(f"/raw/0/{NAMES}")
            assert response.headers["Content-Type"] == "application/json; charset=utf-8"
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            assert (await response.json())["end"]["label"] == STRINGS[0]

    asyncio.run(look())


def test_invisible_characters_are_shown_by_their_code() -> None:
    assert "U+202E" in visible("a\u202eb")
    assert "U+001B" in visible("\x1b[31m")
    assert visible("new\nline\tand tab, 🏳️‍🌈, می‌خواهم") == "new\nline\tand tab, 🏳️‍🌈, می‌خواهم"
    assert visible("\ud800").encode() == (b'<span class="code-point" title="U+D800 CONTROL CHARACTER">U+D800</span>')
    assert visible("<b>") == escape("<b>")


def check(source: str, place: str) -> None:
    """Fail for anything that is not of our own templates."""
    page = Page(source)
    assert page.depth == 0, f"{place}: elements are not closed"
    for tag, attributes in page.elements:
        assert tag in TAGS, f"{place}: <{tag}>"
        for name, value in attributes.items():
            assert name in ATTRIBUTES or name.startswith("aria-"), f"{place}: {tag} {name}={value!r}"
            if name in ("href", "src", "action"):
                assert re.match(r"[/?#](?!/)", value), f"{place}: {tag} {name}={value!r}"
        if tag == "script":
            assert attributes["src"].startswith("/static/assay.js?"), place
    assert not UNSEEN.search(source), place
