"""Takes the pictures of `assay view` for the README and docs/view.md: `make screenshots`.

Runs four examples into a temporary folder, opens the pages in Chromium, and writes
docs/pictures/view-*.png with a palette of 256 colours.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parents[2]
PICTURES = Path(__file__).parent
# The commands of the README. The embedded model answers in half a minute; a hop function would take it minutes.
RUNS = {
    "task": "task examples/task/quickstart.yaml --model local/smollm2",
    "pipeline": "pipeline examples/pipeline/quickstart.yaml --model local/smollm2",
    "hop": "hop examples/hop/FactCheck facts.jsonl --settings tests/golden/hop/settings.yaml",
    "memory": "memory test --data examples/memory/talks.json --memory bm25,STMemory --no-answer",
}
PHONE = (390, 780)
DESKTOP = (1280, 800)


class Shot(NamedTuple):
    """A picture: the page, by a run and what to click there, and how the browser shows it."""

    name: str
    run: str = ""
    click: str = ""
    """A selector. The page of the run is left by a click on it."""
    dark: bool = False
    size: tuple[int, int] = DESKTOP


SHOTS = (
    Shot("view-runs"),
    Shot("view-run", run="memory"),
    Shot("view-case", run="pipeline", click="tr.failed a.row"),
    Shot("view-dark", run="task", dark=True),
    Shot("view-phone", run="pipeline", size=PHONE),
)


def main() -> None:
    """Make the runs and take all pictures."""
    with tempfile.TemporaryDirectory(prefix="assay-pictures-") as name, sync_playwright() as playwright:
        folder = Path(name) / "results"
        for run, command in RUNS.items():
            words = [*command.split(), "--output-dir", str(folder / run)]
            subprocess.run(  # noqa: S603 - our own commands
                [sys.executable, "-m", "assay", *words], cwd=ROOT, check=False, stdout=subprocess.DEVNULL
            )
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        with _view(folder) as address:
            for shot in SHOTS:
                path = PICTURES / f"{shot.name}.png"
                path.write_bytes(with_palette(_take(browser, address, shot)))
                sys.stdout.write(f"{path.relative_to(ROOT)} {path.stat().st_size / 1000:.0f} KB\n")
        browser.close()


@contextmanager
def _view(folder: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "assay", "view", str(folder), "--port", "0"]
    # The head of a page has the folder that is served: ~/results.
    environment = {**os.environ, "HOME": str(folder.parent)}
    with subprocess.Popen(  # noqa: S603 - our own command
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def _take(browser: Browser, address: str, shot: Shot) -> bytes:
    width, height = shot.size
    page: Page = browser.new_page(
        viewport={"width": width, "height": height}, color_scheme="dark" if shot.dark else "light"
    )
    page.goto(address)
    if shot.run:
        link = page.locator(f"a.row[href*='/run/{shot.run}/']").first
        page.goto(address.rstrip("/") + re.sub(r"\?.*", "", link.get_attribute("href") or ""))
    if shot.click:
        page.locator(shot.click).first.click()
        page.wait_for_load_state("load")
    picture = page.screenshot(animations="disabled")
    page.close()
    return picture


def with_palette(png: bytes) -> bytes:
    """Return a PNG with 256 colours, a third of the size."""
    small = io.BytesIO()
    # Without dithering: it would put dots into areas of one colour.
    picture = Image.open(io.BytesIO(png)).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    picture.save(small, "PNG", optimize=True)
    return small.getvalue()


if __name__ == "__main__":
    main()
