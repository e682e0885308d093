"""`assay view` on a run of a million cases, while another run is running and is watched live."""

from __future__ import annotations

import http.client
import random
import shutil
import statistics
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from benchmarks import tasks
from benchmarks.figures import Figure
from benchmarks.measure import REPOSITORY, environment, python

if TYPE_CHECKING:
    from collections.abc import Iterator

_LATENCY, _AT_ONCE = 0.05, 32
_PER_SECOND = 20
_RUNS = 1000
_CLICKS = 40
_STATIC = REPOSITORY / "src" / "assay" / "view" / "static"
# Milliseconds from a click until the new rows are painted: two frames after they are in the page.
_CLICK = """
(link) => new Promise((done) => {
  const before = document.getElementById("rows");
  const begin = performance.now();
  new MutationObserver((_, observer) => {
    if (document.getElementById("rows") === before) return;
    observer.disconnect();
    requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - begin)));
  }).observe(document.body, { childList: true, subtree: true });
  link.click();
})
"""


def view(folder: Path, count: int, seconds: int) -> Iterator[Figure]:
    """Pages of a run of `count` cases at 20 requests a second, clicks in a browser, and a folder of many runs."""
    yield Figure("script of the pages", (_STATIC / "assay.js").stat().st_size / 1000, 70.0, "KB")
    env, log = environment(uvloop=True), folder / "log"
    made = python("-m", "benchmarks.journal_run", folder / "big", "--cases", count, env=env, log=log)
    run = Path(made.output.strip()).relative_to(folder)
    with _running_run(folder) as running, _Server(folder) as server:
        server.ready(f"/run/{run}")
        cpu, wall = _ask_pages(server, run, running, count, seconds)
        note = f"median {_quantile(cpu, 0.5):.1f} ms; p95 of the wall clock {_quantile(wall, 0.95):.0f} ms"
        yield Figure(f"server CPU of a page, p95 of {len(cpu):,}", _quantile(cpu, 0.95), 50.0, "ms", note)
        yield from _clicks(server, run)
        yield Figure("peak memory of the server", server.peak_memory(), 150.0, "MB")
    yield from _many_runs(folder)


class _Server:
    """`assay view` in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "assay", "view", str(self._folder), "--port", "0"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, env=environment(uvloop=True), stdout=pipe, text=True)
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()
        self._connection = self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._process.terminate()
        self._process.wait()

    def connect(self) -> http.client.HTTPConnection:
        """A connection of its own, for a stream."""
        return http.client.HTTPConnection(self.address.removeprefix("http://").strip("/"), timeout=60)

    def get(self, path: str, fragment: str = "") -> int:
        """The status of a page that was read to its end."""
        self._connection.request("GET", path, headers={"Assay-Fragment": fragment} if fragment else {})
        response = self._connection.getresponse()
        response.read()
        return response.status

    def ready(self, path: str) -> None:
        """Wait until the index of a large run is built."""
        while (status := self.get(path)) == 202:
            time.sleep(0.2)
        if status != 200:
            raise SystemExit(f"{path}: status {status}")

    def cpu(self) -> float:
        """CPU seconds of all threads so far. This file counts nanoseconds, others ticks of 10 ms."""
        files = Path(f"/proc/{self._process.pid}/task").glob("*/schedstat")
        return sum(int(file.read_text().split()[0]) for file in files) / 1e9

    def peak_memory(self) -> float:
        """Megabytes."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        (peak,) = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
        return int(peak) * 1024 / 1e6


@contextmanager
def _running_run(folder: Path) -> Iterator[Path]:
    """A run that asks an endpoint of 50 ms, 32 requests at once, until the block ends."""
    sys.path.insert(0, str(REPOSITORY / "tests"))
    from servers.fake_openai import FakeOpenAI

    task = tasks.task(folder / "live.yaml", tasks.questions(folder / "live.jsonl", range(500_000)))
    with FakeOpenAI(latency=_LATENCY) as endpoint, (folder / "live.log").open("w") as log:
        command = ["task", task, "--model", "openai/fake", "--base-url", endpoint.url]
        command += ["--concurrency", _AT_ONCE, "--output-dir", folder / "live"]
        child = subprocess.Popen(
            [sys.executable, "-m", "assay", *map(str, command)],
            env=environment(uvloop=True),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            while not (found := list((folder / "live").glob("assay/[!.]*/records.jsonl"))):
                if child.poll() is not None:
                    raise SystemExit((folder / "live.log").read_text())
                time.sleep(0.1)
            yield found[0].parent.relative_to(folder)
        finally:
            child.kill()
            child.wait()


def _ask_pages(server: _Server, run: Path, running: Path, count: int, seconds: int) -> tuple[list[float], list[float]]:
    """Milliseconds of CPU and of the clock for each page, while a stream watches the running run."""
    threading.Thread(target=_watch, args=(server.connect(), running), daemon=True).start()
    draw = random.Random(1)
    last = max(1, count // 50)
    cpu, wall = [], []
    begin = time.monotonic()
    for number in range(seconds * _PER_SECOND):
        path, fragment = [
            ("/", ""),
            (f"/run/{run}", ""),
            (f"/run/{run}?page={draw.randint(1, last)}", "rows"),
            (f"/run/{run}?failed=1&page={draw.randint(1, max(1, last // 4))}", "rows"),
            (f"/run/{run}?sort=output&desc=1&page={draw.randint(1, last)}", "rows"),
            (f"/run/{run}?tag=category:{draw.randrange(20)}", "rows"),
            (f"/case/{draw.randrange(count)}/{run}", ""),
            (f"/case/{draw.randrange(count)}/{run}?failed=1", ""),
            (f"/run/{running}", ""),
            ("/static/assay.css", ""),
        ][number % 10]
        time.sleep(max(0.0, begin + number / _PER_SECOND - time.monotonic()))
        cpu_before, before = server.cpu(), time.monotonic()
        status = server.get(path, fragment)
        cpu.append((server.cpu() - cpu_before) * 1000)
        wall.append((time.monotonic() - before) * 1000)
        if status != 200:
            raise SystemExit(f"{path}: status {status}")
    return cpu, wall


def _watch(connection: http.client.HTTPConnection, running: Path) -> None:
    """Read the live progress of a run, as its open page does."""
    try:
        connection.request("GET", f"/live?run={running}")
        response = connection.getresponse()
        while response.readline():
            pass
    except OSError:
        return  # the server has ended


def _clicks(server: _Server, run: Path) -> Iterator[Figure]:
    """Clicks through the pages of the table in a browser, where there is one."""
    chromium = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if chromium is None:
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.goto(f"{server.address}run/{run}")
        taken = [page.locator("#rows a[rel=next]").evaluate(_CLICK) for _ in range(_CLICKS)]
        browser.close()
    note = f"p95 {_quantile(taken, 0.95):.0f} ms"
    yield Figure(f"click to painted, median of {_CLICKS}", statistics.median(taken), 100.0, "ms", note)


def _many_runs(folder: Path) -> Iterator[Figure]:
    """The first page of a folder with many small runs."""
    env, log = environment(uvloop=True), folder / "log"
    made = python("-m", "benchmarks.journal_run", folder / "many", "--cases", 3, env=env, log=log)
    first = Path(made.output.strip())
    for number in range(2, _RUNS + 1):  # the first is number 1: its seed
        shutil.copytree(first, first.with_name(f"{first.name[:-4]}{number:04d}"))
    with _Server(folder / "many") as server:
        before = server.cpu()
        server.ready("/")
        opened = server.cpu() - before
        before = server.cpu()
        server.ready("/?sort=score&page=2")
        note = f"the next page {(server.cpu() - before) * 1000:.0f} ms"
    yield Figure(f"CPU to open a folder of {_RUNS:,} runs", opened, 1.0, "s", note)


def _quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]
