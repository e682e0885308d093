"""Cases, comparisons and memories in a real browser: accessible in every look, by keys, and without a script."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from assay.store.runs import run_folders

from browser.conftest import screenshot
from browser.test_pages import expect_no_sideways_scroll, violations
from support.runs import Made, passed
from support.web import serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


# Three columns. The third one is the base again.
MEMORIES = ("bm25", "STMemory", "bm25")


def places(address: str, root: Path) -> dict[str, str]:
    """The addresses of the pages on the runs of the examples."""
    names = {}
    for example in ("task", "pipeline", "hop", "memory", "eval"):
        (folder,) = run_folders(root / example)
        names[example] = str(folder.relative_to(root))
    paths = {
        "case-steps": f"/case/3/{names['pipeline']}",
        "case-questions": f"/case/0/{names['memory']}",
        "question-life": f"/case/0/{names['memory']}?part=7",
        "question-evidence": f"/case/0/{names['eval']}?part=after_S03/1",
        "held": f"/held/0/{names['eval']}?session=S03",
        "memory-curves": f"/memory/{names['memory']}?category=2",
        "memory-dimensions": f"/memory/{names['eval']}",
        "compare-subjects": f"/compare?run={names['hop']}",
        "compare-memories": f"/compare?run={names['memory']}",
        "compare-case": f"/compare/case?run={names['hop']}&at=0",
        "compare-three": "/compare?" + "&".join([f"run={names['memory']}@{each}" for each in MEMORIES]),
        "compare-three-case": "/compare/case?at=0&" + "&".join([f"run={names['memory']}@{each}" for each in MEMORIES]),
        "compare-refused": f"/compare?run={names['task']}&run={names['hop']}",
    }
    return {name: f"{address}{path}" for name, path in paths.items()}


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_every_page_is_accessible_and_needs_no_sideways_scroll(
    browser: Browser, address: str, examples: Path, look: str
) -> None:
    width = 360 if look == "phone" else 1280
    context = browser.new_context(
        viewport={"width": width, "height": 780}, color_scheme="dark" if look == "dark" else "light"
    )
    page = context.new_page()
    for name, place in places(address, examples).items():
        page.goto(place)
        expect_no_sideways_scroll(page)
        assert violations(page, look) == [], name
        screenshot(page, f"{name}-{look}")
    context.close()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of two runs with sixty cases, of which the second one has thirty worse."""
    root = tmp_path_factory.mktemp("pair")
    for name in ("before", "now"):
        made = Made(root / "assay" / name)
        for number in range(60):
            made.case(f"c{number}", [passed(name == "before" or number % 2)], label=f"row {number}")
        made.finish()
    with serving(root) as view:
        yield view.address


def test_runs_are_picked_compared_and_their_cases_walked_by_keys(page: Page, pair: str) -> None:
    from playwright.sync_api import expect

    page.goto(pair)
    for box in page.get_by_role("checkbox").all():
        box.check()
    page.get_by_role("button", name="Compare the chosen runs").click()
    expect(page.get_by_role("heading", name="Numbers")).to_be_visible()
    status = page.locator("#rows [role=status]")
    expect(status).to_contain_text("1–25 of 30 cases")
    page.evaluate("window.notLoadedAgain = true")
    page.keyboard.press("PageDown")
    expect(status).to_contain_text("26–30 of 30 cases")
    page.get_by_label("Show").select_option("all")
    expect(status).to_contain_text("1–25 of 60 cases")
    assert page.evaluate("window.notLoadedAgain")
    page.go_back()
    expect(status).to_contain_text("26–30 of 30 cases")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("row 50")
    page.keyboard.press("j")
    expect(page.get_by_role("heading", level=1)).to_have_text("row 52")
    page.keyboard.press("k")
    expect(page.get_by_role("heading", level=1)).to_have_text("row 50")
    page.keyboard.press("u")
    expect(status).to_contain_text("26–30 of 30 cases")


def test_the_cases_of_three_subjects_are_filtered_and_opened_by_keys(page: Page, address: str, examples: Path) -> None:
    from playwright.sync_api import expect

    page.goto(places(address, examples)["compare-three"])
    status = page.locator("#rows [role=status]")
    shown = status.inner_text()
    page.locator("select[name=only]").select_option("2")
    expect(status).to_contain_text("No case")  # C is the base itself
    page.go_back()
    expect(status).to_have_text(shown)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("columnheader", name="A, base")).to_be_visible()
    expect(page.get_by_role("columnheader", name="C", exact=True)).to_be_visible()
    page.keyboard.press("u")
    expect(status).to_have_text(shown)


def test_a_comparison_and_a_memory_page_work_without_a_script(
    browser: Browser, address: str, examples: Path, pair: str
) -> None:
    from playwright.sync_api import expect

    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(pair)
    for box in page.get_by_role("checkbox").all():
        box.check()
    page.get_by_role("button", name="Compare the chosen runs").click()
    page.get_by_label("Show").select_option("worse")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#rows [role=status]")).to_contain_text("30")
    page.goto(places(address, examples)["memory-curves"])
    page.get_by_label("Category").select_option("")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("svg.lines:visible")).to_have_count(1)
    context.close()
