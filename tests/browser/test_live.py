"""A running run is watched to its end without a reload by the person."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from browser.conftest import screenshot
from conftest import write_docs
from support.commands import environment
from support.web import serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

# Answers the first questions at once, and the last ones when the file `go` appears.
MODEL = """\
import asyncio
from pathlib import Path


async def answer(prompt, params):
    text = prompt if isinstance(prompt, str) else prompt[-1]["content"]
    n = int(text.rsplit("Q: ", 1)[1].split("+")[0])
    while n >= 4 and not Path(__file__).with_name("go").exists():
        await asyncio.sleep(0.05)
    return str(2 * n)
"""


def test_a_run_is_watched_live_to_its_end(page: Page, sums: Path) -> None:
    from playwright.sync_api import expect

    (sums / "model.py").write_text(MODEL)
    write_docs(sums / "sums.jsonl", [{"question": f"{n}+{n}?", "answer": str(2 * n)} for n in range(8)])
    words = ["task", "sums.yaml", "--model", "python/model.py:answer", "--quiet", "--output-dir", "out"]
    command = [sys.executable, "-m", "assay", *words]
    with (
        subprocess.Popen(command, cwd=sums, env=environment(), stdout=subprocess.DEVNULL) as run,
        serving(sums) as view,
    ):
        try:
            page.goto(view.address)
            while not page.locator("a.row").count():
                page.reload()
            expect(page.locator("td .progress")).to_contain_text("4 of 8")
            screenshot(page, "runs-live")
            page.locator("a.row").click()
            expect(page.locator(".progress")).to_contain_text("4 of 8")
            expect(page.locator(".progress")).to_contain_text("exact_match")
            expect(page.locator(".progress")).to_contain_text("4 calls")
            expect(page.locator(".facts")).not_to_contain_text("Cases")
            page.get_by_role("link", name="show the rows that have ended since").click()
            expect(page.locator("#rows a.row")).to_have_count(4)
            screenshot(page, "run-live")
            (sums / "go").touch()
            expect(page.locator("h1 .badge")).to_have_text("finished")
            expect(page.get_by_role("heading", name="Numbers")).to_be_visible()
            expect(page.locator("#rows a.row")).to_have_count(8)
            assert run.wait(20) == 0
        finally:
            run.kill()
