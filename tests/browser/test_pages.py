"""The pages in a real browser: every example, light, dark, on a phone, without a script, by keys, and accessible."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from assay.store.runs import run_folders
from view.hostile import write_hostile_run

from browser.conftest import EXAMPLES, screenshot
from support.runs import Made, passed
from support.web import serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


def run_address(address: str, root: Path, example: str, page: str = "run") -> str:
    (folder,) = run_folders(root / example)
    return f"{address}/{page}/{folder.relative_to(root)}"


def expect_no_sideways_scroll(page: Page) -> None:
    """The page is as wide as the window; only tables scroll, in their own box."""
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), page.url


# Contrast takes three quarters of the time of all rules. A page has the same elements in every look, and a narrow
# window does not change colours, so each look is checked for what it changes.
_RULES: dict[str, dict[str, object]] = {
    "dark": {"runOnly": {"type": "rule", "values": ["color-contrast"]}},
    "phone": {"rules": {"color-contrast": {"enabled": False}}},
    "zoom": {"rules": {"color-contrast": {"enabled": False}}},
}


def violations(page: Page, look: str = "light") -> list[str]:
    """What the rules of accessibility say against the page in a look that was checked in light too."""
    from axe_playwright_python.sync_playwright import Axe

    # Without resultTypes, axe also describes every element that breaks no rule.
    options = {"resultTypes": ["violations"], **_RULES.get(look, {})}
    found = Axe().run(page, options=options).response["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found]


@pytest.mark.parametrize("example", EXAMPLES)
def test_run_and_case_of_every_example_can_be_read_and_are_accessible(
    page: Page, address: str, examples: Path, example: str
) -> None:
    from playwright.sync_api import expect

    page.goto(run_address(address, examples, example))
    expect(page.get_by_role("heading", name="Numbers")).to_be_visible()
    expect(page.locator("#rows a.row").first).to_be_visible()
    expect_no_sideways_scroll(page)
    expect_charts_in_their_places(page)
    assert violations(page) == []
    screenshot(page, f"run-{example}")
    page.locator("#rows a.row").first.click()
    expect(page.get_by_role("heading", name="JSON", exact=True)).to_be_visible()
    expect_no_sideways_scroll(page)
    assert violations(page) == []
    screenshot(page, f"case-{example}")
    page.goto(page.url.partition("?")[0])  # all of the case, not only the part that the row is
    expect_charts_in_their_places(page)


def expect_charts_in_their_places(page: Page) -> None:
    """Every chart is inside the element that it stands in: a rule of the style sheet for another element moves it."""
    outside = page.evaluate(
        """() => [...document.querySelectorAll("main svg")].filter((chart) => {
          const inner = chart.getBoundingClientRect(), outer = chart.parentElement.getBoundingClientRect();
          return inner.width && (inner.left < outer.left - 1 || inner.top < outer.top - 1
            || inner.bottom > outer.bottom + 1);
        }).map((chart) => chart.outerHTML.slice(0, 80))"""
    )
    assert outside == []


def test_the_list_of_runs_leads_to_a_run_and_back(page: Page, address: str) -> None:
    from playwright.sync_api import expect

    page.goto(address)
    expect(page.locator("a.row")).to_have_count(len(EXAMPLES))
    assert violations(page) == []
    screenshot(page, "runs")
    page.get_by_label("Suite").select_option("hop")
    expect(page.locator("a.row")).to_have_count(1)
    assert page.url.endswith("?suite=hop")
    page.locator("a.row").click()
    expect(page.get_by_role("heading", name="Numbers")).to_be_visible()
    page.go_back()
    expect(page.locator("a.row")).to_have_count(1)
    page.go_back()
    expect(page.locator("a.row")).to_have_count(len(EXAMPLES))


@pytest.mark.parametrize("look", ["dark", "phone", "zoom"])
def test_every_look_is_accessible_and_needs_no_sideways_scroll(
    browser: Browser, address: str, examples: Path, look: str
) -> None:
    """Dark colours, the size of a phone, and a window as narrow as 200 % zoom makes it."""
    width = {"dark": 1280, "phone": 360, "zoom": 640}[look]
    context = browser.new_context(
        viewport={"width": width, "height": 780}, color_scheme="dark" if look == "dark" else "light"
    )
    page = context.new_page()
    for name, place in {
        "runs": address,
        "run": run_address(address, examples, "pipeline"),
        "case": run_address(address, examples, "memory", "case/0"),
        "error": f"{address}/run/nothing",
    }.items():
        page.goto(place)
        expect_no_sideways_scroll(page)
        # No other test looks at the page of an error.
        assert violations(page, "light" if name == "error" else look) == []
        screenshot(page, f"{name}-{look}")
    context.close()


def test_all_of_it_works_without_a_script(browser: Browser, address: str, examples: Path) -> None:
    from playwright.sync_api import expect

    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    page.get_by_label("Search").fill("quickstart.yaml")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("a.row")).to_have_count(2)
    page.goto(run_address(address, examples, "task"))
    page.get_by_label("not ok").check()
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#rows tr.failed").first).to_be_visible()
    assert "failed=1" in page.url
    page.get_by_role("link", name="Time").click()
    assert "sort=seconds" in page.url
    page.locator("#rows a.row").first.click()
    expect(page.get_by_role("heading", name="Prompts and replies")).to_be_visible()
    expect(page.get_by_role("button", name="Copy")).to_have_count(0)
    screenshot(page, "case-without-script")
    context.close()


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 130 rows, one before it in which every fifth row was the other way round, and a hostile one."""
    root = tmp_path_factory.mktemp("many")
    before, made = Made(root / "assay" / "before"), Made(root / "assay" / "many")
    for number in range(130):
        is_right = number % 4 > 0
        before.case(f"c{number}", [passed(is_right != (number % 5 == 0))])
        made.case(f"c{number}", [passed(is_right)], seconds=number / 7, label=f"row {number}")
    before.finish()
    made.finish()
    write_hostile_run(root / "assay" / "hostile")
    return root


@pytest.fixture(scope="module")
def many_address(many: Path) -> Iterator[str]:
    with serving(many) as view:
        yield view.address


def test_rows_are_filtered_sorted_and_paged_in_place(page: Page, many_address: str) -> None:
    """The script replaces the table; the address and the back button follow."""
    from playwright.sync_api import expect

    page.goto(f"{many_address}/run/assay/many")
    page.evaluate("window.notLoadedAgain = true")
    status = page.locator("#rows [role=status]")
    page.get_by_role("link", name="Next").click()
    expect(status).to_contain_text("51–100 of 130")
    page.get_by_label("not ok").check()
    expect(status).to_contain_text("1–33 of 33 rows, 130 in the run")
    page.get_by_role("link", name="Time").click()
    expect(page.locator("#rows a.row").first).to_have_text("row 128")
    assert page.url.endswith("?failed=1&sort=seconds&desc=1")
    page.go_back()
    expect(page.locator("#rows a.row").first).to_have_text("row 0")
    page.go_back()
    expect(status).to_contain_text("51–100 of 130")
    assert page.evaluate("window.notLoadedAgain")


def test_the_fields_of_the_list_of_runs_follow_the_address(page: Page, many_address: str) -> None:
    from playwright.sync_api import expect

    page.goto(many_address)
    page.evaluate("window.notLoadedAgain = true")
    search, status = page.get_by_role("searchbox"), page.locator("#rows [role=status]")
    search.fill("many")
    page.keyboard.press("Enter")
    expect(status).to_have_text("1 run")
    # The keyboard is where it was: behind the text.
    expect(search).to_be_focused()
    page.keyboard.type("x")
    expect(search).to_have_value("manyx")
    page.go_back()
    expect(status).to_have_text("3 runs")
    expect(search).to_have_value("")
    page.get_by_role("link", name="Score").click()
    expect(page.locator("th[aria-sort]")).to_contain_text("Score")
    search.fill("many")
    page.keyboard.press("Enter")
    expect(status).to_have_text("1 run")
    expect(page.locator("th[aria-sort]")).to_contain_text("Score")
    assert page.url.endswith("/?q=many&sort=score")
    assert page.evaluate("window.notLoadedAgain")


def test_columns_are_chosen_and_rows_filtered_by_value_and_by_what_flipped(page: Page, many_address: str) -> None:
    from playwright.sync_api import expect

    page.goto(f"{many_address}/run/assay/many")
    status, heads = page.locator("#rows [role=status]"), page.locator("#rows thead")
    page.get_by_text("Columns", exact=True).click()
    columns = page.get_by_role("form", name="Columns of the table")
    columns.get_by_label("Calls").focus()
    page.keyboard.press("Space")
    expect(heads).to_contain_text("Calls")
    # The choice stays open, and the keyboard is where it was.
    expect(columns.get_by_label("Calls")).to_be_focused()
    columns.get_by_label("Answer").uncheck()
    expect(heads).not_to_contain_text("Answer")
    assert violations(page) == []
    page.locator("select[name=value]").select_option("seconds")
    page.get_by_label("from", exact=True).fill("10")
    page.keyboard.press("Enter")
    expect(status).to_contain_text("1–50 of 60 rows")
    page.get_by_role("link", name="Flipped against a run").click()
    page.get_by_label("Flipped against").select_option("assay/before")
    expect(status).to_contain_text("1–12 of 12 rows")
    page.get_by_label("and here").select_option("worse")
    expect(status).to_contain_text("1–3 of 3 rows")
    expect(page.locator("#rows tbody")).to_contain_text("a score wrong here")
    expect(heads).to_contain_text("Calls")
    expect_no_sideways_scroll(page)
    assert violations(page) == []
    screenshot(page, "rows-flipped")
    page.get_by_role("link", name="compare").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("row 80")
    page.goto(f"{many_address}/run/assay/many")
    page.locator("svg.histogram a").last.click()
    expect(page.get_by_label("from", exact=True)).to_have_value("18")
    expect(status).to_contain_text("1–4 of 4 rows")


def test_rows_and_cases_are_walked_by_keys(page: Page, many_address: str) -> None:
    from playwright.sync_api import expect

    page.goto(f"{many_address}/run/assay/many?failed=1")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("j")
    expect(page.locator("a.row:focus")).to_have_text("row 4")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("row 4")
    page.keyboard.press("j")
    expect(page.get_by_role("heading", level=1)).to_contain_text("row 8")
    page.keyboard.press("k")
    expect(page.get_by_role("heading", level=1)).to_contain_text("row 4")
    page.keyboard.press("u")
    expect(page.locator("#rows [role=status]")).to_contain_text("33 rows")
    page.goto(f"{many_address}/run/assay/many")
    page.keyboard.press("PageDown")
    expect(page.locator("#rows [role=status]")).to_contain_text("51–100")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.get_by_role("heading", level=1).click()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    screenshot(page, "keys")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_hostile_texts_run_nothing_and_load_nothing(page: Page, many_address: str) -> None:
    """The page fixture fails for any dialog, script error or refusal by the policy."""
    from playwright.sync_api import expect

    foreign: list[str] = []
    page.on(
        "request",
        lambda request: None if request.url.startswith(many_address) else foreign.append(request.url),
    )
    page.goto(f"{many_address}/run/assay/hostile")
    expect(page.locator("#rows a.row")).to_have_count(50)
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true })")
    expect_no_sideways_scroll(page)
    for number in (0, 3, 6, 42, 46):
        page.goto(f"{many_address}/case/{number}/assay/hostile")
        expect(page.get_by_role("heading", name="JSON", exact=True)).to_be_visible()
        expect_no_sideways_scroll(page)
    screenshot(page, "case-hostile")
    page.goto(f"{many_address}/?q=<script>alert(1)</script>")
    expect(page.get_by_label("Search")).to_have_value("<script>alert(1)</script>")
    assert foreign == []


def test_an_empty_folder_says_what_to_type(page: Page, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    with serving(tmp_path) as view:
        page.goto(view.address)
        expect(page.get_by_text("assay models pull smollm2").first).to_be_visible()
        assert violations(page) == []
        screenshot(page, "empty")
