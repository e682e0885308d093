"""Answers are labelled blindly in a real browser, with one key each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from browser.conftest import screenshot
from browser.test_pages import expect_no_sideways_scroll, violations
from support.runs import Made, passed
from support.web import serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

RUN = "assay/talks"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("label")
    made = Made(root / RUN, scorer="judge@first")
    for number in range(4):
        made.case(f"c{number}", [passed(number < 2)], label=f"问题 {number}")
    made.scorer = "judge@second"
    made.score_again([passed(number < 3) for number in range(4)])
    made.finish()
    with serving(root) as view:
        yield view.address


def press(page: Page, key: str) -> None:
    """Press a key once the script listens: it shows the button of the keys then."""
    from playwright.sync_api import expect

    expect(page.get_by_role("button", name="Keys")).to_be_visible()
    page.keyboard.press(key)


def test_answers_are_labelled_with_one_key_each(page: Page, address: str) -> None:
    from playwright.sync_api import expect

    page.goto(f"{address}/run/{RUN}")
    page.get_by_role("link", name="Judges and labels").click()
    screenshot(page, "judges-run")
    assert violations(page) == []
    page.get_by_role("link", name="Label answers").click()
    assert violations(page) == []
    screenshot(page, "label-setup")
    page.get_by_label("Your name").fill("安娜")
    page.get_by_role("button", name="Begin").click()
    status = page.get_by_role("status")
    expect(status).to_have_text("0 of 4 labelled")
    assert violations(page) == []
    screenshot(page, "label")
    press(page, "y")
    expect(status).to_have_text("1 of 4 labelled")
    press(page, "n")
    expect(status).to_have_text("2 of 4 labelled")
    press(page, "u")
    expect(status).to_have_text("1 of 4 labelled")
    press(page, "s")
    expect(page).to_have_url(re.compile("at=2"))
    press(page, "y")
    expect(status).to_have_text("2 of 4 labelled")
    press(page, "y")
    expect(page.get_by_role("heading", level=1)).to_have_text("1 answer without a label")
    expect(page.get_by_text("Kappa")).to_have_count(0)
    page.get_by_role("link", name="Show it again").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Is the answer right?")
    press(page, "n")
    expect(page.get_by_role("heading", level=1)).to_have_text("All 4 answers labelled")
    expect(page.get_by_text("Kappa", exact=True)).to_be_visible()
    expect(page.get_by_text("assay judge calibrate")).to_be_visible()
    assert violations(page) == []
    screenshot(page, "label-end")


@pytest.mark.parametrize("look", ["dark", "phone", "without-script"])
def test_judges_and_labels_are_accessible_in_every_look(browser: Browser, address: str, look: str) -> None:
    from playwright.sync_api import expect

    context = browser.new_context(
        viewport={"width": 360 if look == "phone" else 1280, "height": 780},
        color_scheme="dark" if look == "dark" else "light",
        java_script_enabled=look != "without-script",
    )
    page = context.new_page()
    for name, place in {
        "judges": "/judges",
        "judges-run": f"/judges/{RUN}",
        "label-setup": f"/label/{RUN}",
        "label": f"/label/{RUN}?by={look}",
    }.items():
        page.goto(address + place)
        if look != "without-script":
            expect_no_sideways_scroll(page)
            # The test above has the other pages in light.
            assert violations(page, "light" if name == "judges" else look) == []
        screenshot(page, f"{name}-{look}")
    page.get_by_role("button", name="Wrong").click()
    expect(page.get_by_role("status")).to_have_text("1 of 4 labelled")
    context.close()
