"""Search in texts and the file of `assay report`, in a real browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from assay.store.runs import run_folders
from assay.view.report import report_html
from view.hostile import write_hostile_run

from browser.conftest import screenshot
from browser.test_pages import expect_no_sideways_scroll, run_address, violations

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


def test_a_search_on_the_page_of_a_run_leads_to_the_case_with_the_text(
    page: Page, address: str, examples: Path
) -> None:
    from playwright.sync_api import expect

    page.goto(run_address(address, examples, "task"))
    page.keyboard.press("/")
    page.keyboard.type("bakery")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Searched everything")).to_be_visible()
    # The steps before the last one are hidden.
    expect(page.locator(".searched:visible")).to_have_count(1)
    assert re.search(r"/search/.*\?q=bakery", page.url)
    assert violations(page) == []
    expect_no_sideways_scroll(page)
    screenshot(page, "search")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="JSON", exact=True)).to_be_visible()
    expect(page.get_by_text("The bakery opens").first).to_be_visible()


@pytest.mark.parametrize("look", ["phone", "dark"])
def test_search_and_report_need_no_script(
    browser: Browser, address: str, examples: Path, look: str, tmp_path: Path
) -> None:
    """On a phone and in dark colours, with hostile texts in the report."""
    from playwright.sync_api import expect

    context = browser.new_context(
        java_script_enabled=look != "phone",  # axe needs it
        viewport={"width": 360 if look == "phone" else 1280, "height": 800},
        color_scheme="dark" if look == "dark" else "light",
    )
    page = context.new_page()
    page.goto(run_address(address, examples, "task", "search") + "?q=bakery")
    expect(page.locator(".hit mark").first).to_be_visible()
    runs = [str(next(iter(run_folders(examples / name)))) for name in ("memory", "pipeline")]
    file = tmp_path / "examples.html"
    file.write_text(report_html(runs, cases=50))
    page.goto(file.as_uri())
    expect(page.get_by_role("heading", name="Numbers").first).to_be_visible()
    screenshot(page, f"report-examples-{look}")
    if look == "dark":
        expect_no_sideways_scroll(page)
        assert violations(page) == []
    else:
        # A report of 2 MB: a picture of it, or a look of axe, takes a minute.
        file.write_text(report_html([str(write_hostile_run(tmp_path / "run"))], cases=3))
        page.goto(file.as_uri())
        expect(page.get_by_role("heading", name="Numbers").first).to_be_visible()
    context.close()
