"""A real Chromium, a real server, and runs of all five examples."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from benchmarks.peers.browser import CHROMIUM_FLAGS

from support.commands import environment
from support.web import serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

ROOT = Path(__file__).parents[2]
SCREENSHOTS = ROOT / "browser-out"
CHROMIUM = shutil.which("chromium")
# The commands of the README, with recorded replies instead of a model.
EXAMPLES = {
    "task": "task examples/task/quickstart.yaml --model script/tests/golden/readme/task.jsonl",
    "pipeline": "pipeline examples/pipeline/quickstart.yaml "
    "--model script/tests/golden/pipeline/quickstart_replies.jsonl",
    "hop": "hop examples/hop/FactCheck facts.jsonl --settings tests/golden/hop/settings.yaml",
    "memory": "memory test --data examples/memory/talks.json --memory bm25,STMemory --no-answer",
    "eval": "memory eval --dataset examples/memory-eval --sample-id june,mira --baseline bm25,STMemory "
    "--model script/tests/golden/readme/memory_eval.jsonl",
}


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Debian's Chromium. Skips if `make browser` has not installed it, except where ASSAY_BROWSER says "required".

    It ends with this folder: Playwright runs an event loop in this thread, in which no other test could run one.
    """
    try:
        from playwright.sync_api import expect, sync_playwright
    except ImportError:
        sync_playwright = None
    if sync_playwright is None or CHROMIUM is None:
        if os.environ.get("ASSAY_BROWSER") == "required":
            pytest.fail("there is no browser: run `make browser`")
        pytest.skip("there is no browser; `make browser` installs one")
    expect.set_options(timeout=20_000)  # the default of five seconds is soon over on a busy machine
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """One context per module: a new one takes half a second."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(20_000)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page that fails its test for any error of a script and for anything that the page's policy refused."""
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    page.on("dialog", lambda dialog: problems.append(dialog.message))
    yield page
    page.close()
    # A page that was refused on purpose is an error of the console too.
    assert [problem for problem in problems if "Failed to load resource" not in problem] == []


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of each of the five examples. Made once for all processes of a test session."""
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "browser-examples"
    with root.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists():
            running = [
                subprocess.Popen(
                    [
                        sys.executable,
                        "-m",
                        "assay",
                        *command.split(),
                        "--output-dir",
                        str(root / name),
                        "--quiet",
                    ],
                    cwd=ROOT,
                    env=environment(),
                )
                for name, command in EXAMPLES.items()
            ]
            codes = [process.wait() for process in running]
            assert codes == [0, 1, 0, 0, 0]  # two tests of the pipeline fail on purpose
    return root


@pytest.fixture(scope="package")
def address(examples: Path) -> Iterator[str]:
    """The address of a server of the examples."""
    with serving(examples) as view:
        yield view.address


def screenshot(page: Page, name: str) -> None:
    """Keep a picture of the whole page for people, if ASSAY_SCREENSHOTS is set. A long page takes half a second."""
    if not os.environ.get("ASSAY_SCREENSHOTS"):
        return
    SCREENSHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{re.sub(r'[^a-z0-9-]+', '-', name)}.png", full_page=True)
