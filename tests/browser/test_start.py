"""A run is planned, started, stopped and continued in a real browser, and the forms look right everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browser.conftest import screenshot
from browser.test_pages import expect_no_sideways_scroll, violations
from support.waiting_task import waiting_task
from support.web import serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with waiting_task(tmp_path_factory.mktemp("start") / "work") as folder:
        yield folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with serving(folder) as view:
        yield view.address


def test_a_run_is_planned_started_stopped_and_continued(page: Page, address: str, folder: Path) -> None:
    from playwright.sync_api import expect

    page.goto(address)
    page.get_by_role("link", name="Start", exact=True).click()
    page.get_by_role("link", name="assay task").click()
    page.get_by_label("TASK").fill("sums.yaml")
    page.get_by_label("--model", exact=True).fill("python/model.py:answer")
    page.get_by_text("More options").click()
    page.get_by_label("--limit").fill("few")
    page.get_by_role("button", name="Show the plan").click()
    expect(page.get_by_role("alert")).to_contain_text("--limit takes a number, found 'few'")
    expect(page.get_by_label("--model", exact=True)).to_have_value("python/model.py:answer")
    assert violations(page) == []
    screenshot(page, "start-error")
    page.get_by_label("--limit").fill("6")
    page.get_by_role("button", name="Show the plan").click()
    expect(page.get_by_text("6 of 6 documents")).to_be_visible()
    assert violations(page) == []
    screenshot(page, "start-plan")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".progress")).to_contain_text("3 of 6")
    assert violations(page) == []
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("button", name="Stop now").click()
    expect(page.locator("h1 .badge")).to_have_text("stopped")
    screenshot(page, "run-stopped")
    (folder / "go").touch()
    page.get_by_role("button", name="Continue").click()
    expect(page.locator("h1 .badge")).to_have_text("finished")
    page.get_by_text("Write a note or a tag").click()
    page.get_by_role("textbox", name="Note").fill("从页面开始")
    page.get_by_role("button", name="Add").click()
    expect(page.locator(".note")).to_contain_text("从页面开始")
    page.get_by_role("link", name="Output", exact=True).click()
    expect(page.get_by_text("6 of 6 cases")).to_be_visible()
    assert violations(page) == []
    page.go_back()
    page.get_by_role("link", name="Start again with changes").click()
    expect(page.get_by_label("TASK")).to_have_value("sums.yaml")
    expect(page.get_by_label("--limit")).to_have_value("6")
    assert violations(page) == []
    screenshot(page, "start-again")
    page.get_by_label("--limit").fill("2")
    page.get_by_role("button", name="Show the plan").click()
    expect(page.get_by_text("2 of 6 documents")).to_be_visible()


@pytest.mark.parametrize("look", ["light", "dark", "phone", "without-script"])
def test_the_forms_are_accessible_in_every_look(browser: Browser, address: str, look: str) -> None:
    context = browser.new_context(
        viewport={"width": 360 if look == "phone" else 1280, "height": 780},
        color_scheme="dark" if look == "dark" else "light",
        java_script_enabled=look != "without-script",
    )
    page = context.new_page()
    for name, place in {"start": "/start", "start-form": "/start/memory-eval"}.items():
        page.goto(address + place)
        if look == "without-script":
            page.get_by_role("link", name="Start", exact=True).first.click()
        else:
            expect_no_sideways_scroll(page)
            assert violations(page, look) == []
        screenshot(page, f"{name}-{look}")
    context.close()
