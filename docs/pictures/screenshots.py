"""Takes the pictures of `assay view` for the README and docs/view.md: `make screenshots`.

Runs four examples into a temporary folder, opens the pages in Chromium, and writes
docs/pictures/view-*.png with a palette of 256 colours.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
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
    with subprocess.Popen(  # noqa: S603 - our own command
        command, cwd=folder, stdout=subprocess.PIPE, text=True
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
    """Return a PNG with the 256 most frequent colours, a third of the size. Other colours become the nearest one."""
    width, height, pixels = _read_png(png)
    codes = pixels.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
    colours, places, counts = np.unique(codes, return_inverse=True, return_counts=True)
    channels = np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=1).astype(np.int32)
    palette = channels[np.argsort(counts)[::-1][:256]]
    nearest = np.empty(len(channels), np.uint8)
    for start in range(0, len(channels), 4096):
        some = channels[start : start + 4096, None, :] - palette[None, :, :]
        nearest[start : start + 4096] = (some**2).sum(axis=2).argmin(axis=1)
    rows = np.zeros((height, width + 1), np.uint8)  # the first byte of a row says that it is not filtered
    rows[:, 1:] = nearest[places.reshape(-1)].reshape(height, width)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = [(b"IHDR", header), (b"PLTE", palette.astype(np.uint8).tobytes())]
    parts += [(b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _read_png(png: bytes) -> tuple[int, int, NDArray[Any]]:
    """Return width, height and the red, green and blue of every pixel of a picture as Chromium writes it."""
    at, packed = 8, b""
    width = height = channels = 0
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        kind, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", data[:10])
            assert (depth, colour) in ((8, 2), (8, 6)), "not a picture of eight bits a channel"
            channels = 3 if colour == 2 else 4
        elif kind == b"IDAT":
            packed += data
        at += size + 12
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + width * channels)
    before = np.zeros((width, channels), np.int32)
    pixels = np.empty((height, width, channels), np.uint8)
    for number, row in enumerate(rows):
        kind_of_filter, values = int(row[0]), row[1:].reshape(width, channels).astype(np.int32)
        if kind_of_filter == 1:
            values = np.cumsum(values, axis=0)
        elif kind_of_filter == 2:
            values = values + before
        elif kind_of_filter:
            values = _unfiltered(kind_of_filter, values, before)
        before = values & 255
        pixels[number] = before
    return width, height, pixels[:, :, :3].reshape(-1, 3)


def _unfiltered(kind: int, values: NDArray[Any], above: NDArray[Any]) -> NDArray[Any]:
    """Undo the filters 3 (mean of left and above) and 4 (Paeth), pixel by pixel."""
    result = np.zeros_like(values)
    left = corner = np.zeros(values.shape[1], values.dtype)
    for place, value in enumerate(values):
        up = above[place]
        if kind == 3:
            guess = (left + up) // 2
        else:
            estimate = left + up - corner
            distances = np.abs(np.stack([estimate - left, estimate - up, estimate - corner]))
            guess = np.choose(distances.argmin(axis=0), [left, up, corner])
        left = result[place] = (value + guess) & 255
        corner = up
    return result


if __name__ == "__main__":
    main()
