"""The five tabs of a HOP task in a real browser: a function with feedback, a batch, files, numbers, and every look."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browser.conftest import screenshot
from browser.test_pages import expect_no_sideways_scroll, violations
from support.hop_task import row, write_lines, write_task
from support.web import serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TABS = ("run", "batch", "history", "stats", "perf")


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A task with inputs, results in both forms, and a log."""
    folder = write_task(tmp_path_factory.mktemp("hop") / "Verify", rows="plain raise wait plain")
    errors = [
        {"kind": "number", "severity": "high", "text": "200 statt 120"},
        {"kind": "风格", "severity": "low"},
    ]
    result = {"score": 4, "supported": True, "confidence": 0.5, "errors": errors, "answer": "نعم، صحيح"}
    lines = [
        {"_type": "meta", "profile": "fast", "run_llm": "Kimi-K2", "run_params": {"temperature": 0.1}},
        {**row(1), "hop_result": json.dumps(result), "hop_stats": {"status": "OK"}, "profile": "fast"},
        {"input": row(2), "result": json.dumps({"score": 2, "supported": False})},
        {"input": row(3), "error": "timeout"},
        {"note": "another record"},
    ]
    write_lines(folder / "TestCases" / "results.jsonl", lines)
    step = {
        "type": "step",
        "run_id": "r",
        "timestamp": 1.0,
        "step": 1,
        "op": "hop_get",
        "task": "t",
        "status": "OK",
    }
    end = {"type": "run_end", "run_id": "r", "timestamp": 2.0, "duration": 1.25, "status": "OK"}
    write_lines(folder / "TestCases" / "observer.jsonl", [{**step, "duration": 1.0, "retry_count": 1}, end])
    yield folder
    (folder / "gate").touch()  # functions that still wait end


@pytest.fixture(scope="module")
def hop_address(task: Path) -> Iterator[str]:
    with serving(task.parent) as view:
        yield f"{view.address}/hop"


def places(address: str) -> dict[str, str]:
    """Every page of the task."""
    tabs = {tab: f"{address}/{tab}/Verify" for tab in TABS}
    return {"tasks": address, **tabs, "file": f"{tabs['history']}?file=results.jsonl"}


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_every_tab_is_accessible_in_every_look(browser: Browser, hop_address: str, look: str) -> None:
    context = browser.new_context(
        viewport={"width": 360 if look == "phone" else 1280, "height": 780},
        color_scheme="dark" if look == "dark" else "light",
    )
    page = context.new_page()
    for name, place in places(hop_address).items():
        page.goto(place)
        expect_no_sideways_scroll(page)
        assert violations(page, look) == [], place
        screenshot(page, f"hop-{name}-{look}")
    context.close()


def test_a_function_gets_feedback_until_it_has_a_result(page: Page, hop_address: str) -> None:
    from playwright.sync_api import expect

    page.goto(f"{hop_address}/run/Verify")
    page.get_by_role("link", name="Fill example").click()
    expect(page.get_by_label("Claim")).to_have_value("The sky is blue.")
    page.get_by_label("mode").select_option(label="ask")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_text("Which year?", exact=True)).to_be_visible()
    # An error of the page is a strip that goes by itself.
    page.get_by_role("button", name="Send feedback").click()
    expect(page.get_by_role("alert")).to_have_text("Write the feedback first.")
    for answer in ("in 2019", "公司 A"):
        page.get_by_label("Feedback").fill(answer)
        page.get_by_role("button", name="Send feedback").click()
    expect(page.get_by_role("img", name="5 GOOD")).to_be_visible()
    expect(page.get_by_label("Claim")).to_have_value("The sky is blue.")
    assert violations(page) == []
    screenshot(page, "hop-result")


def test_the_strip_of_an_error_goes_after_eight_seconds(page: Page, hop_address: str) -> None:
    from playwright.sync_api import expect

    page.goto(f"{hop_address}/history/Verify?file=gone")
    strip = page.get_by_role("alert")
    expect(strip).to_be_visible()
    assert violations(page) == []
    screenshot(page, "hop-strip")
    expect(strip).to_be_hidden(timeout=20_000)


def test_a_batch_is_started_watched_stopped_and_continued(page: Page, hop_address: str, task: Path) -> None:
    from playwright.sync_api import expect

    page.goto(f"{hop_address}/batch/Verify")
    expect(page.get_by_label("File")).to_have_value("rows.jsonl")
    page.get_by_role("button", name="Start Batch").click()
    progress = page.locator("#batch-progress")
    expect(progress).to_contain_text("3/4 (75%) 1 errors")
    expect(page.get_by_role("button", name="Start Batch")).to_be_disabled()
    screenshot(page, "hop-batch-running")
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("button", name="Stop at once").click()
    # The page loads itself again when the process has ended.
    page.get_by_role("button", name="Continue").wait_for()
    assert violations(page) == []
    (task / "gate").touch()
    page.get_by_role("button", name="Continue").click()
    expect(progress).to_contain_text("4/4 (100%) 1 errors -- Done: rows_")
    page.locator("main a", has_text="rows_").first.click()
    expect(page.get_by_text("Row 4")).to_be_visible()


def test_everything_works_without_a_script(browser: Browser, hop_address: str) -> None:
    from playwright.sync_api import expect

    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{hop_address}/run/Verify?example=1")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_text("checked: The sky is blue.").first).to_be_visible(timeout=20_000)
    page.get_by_role("link", name="History").click()
    page.get_by_role("link", name="results.jsonl").click()
    expect(page.get_by_text("Row 2")).to_be_visible()
    page.get_by_role("link", name="Stats").click()
    page.get_by_label("Profile").select_option("fast")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("results of fast")).to_be_visible()
    context.close()
