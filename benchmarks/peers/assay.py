"""assay itself, from this repository: `assay task`, with the same task file as lm-evaluation-harness."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, ClassVar

from benchmarks import tasks
from benchmarks.measure import REPOSITORY
from benchmarks.peers.peer import Command, Outcome, Peer, Viewer, Work

if TYPE_CHECKING:
    from playwright.sync_api import Page


class Assay(Peer):
    """The program of this repository, in the environment that measures."""

    name: ClassVar[str] = "assay"
    title: ClassVar[str] = "assay"
    how: ClassVar[str] = "`assay task qa.yaml --model openai/fake --base-url URL --apply-chat-template --concurrency N`"
    telemetry: ClassVar[str] = "none"
    continues: ClassVar[str] = "the same command"

    @property
    def version(self) -> str:
        """The commit of this repository."""
        command = ["git", "-C", str(REPOSITORY), "rev-parse", "--short", "HEAD"]
        found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        return f"commit {found}" if found else "unknown commit"

    def install(self) -> None:
        """It runs in the environment of the benchmarks."""

    def start(self, work: Work) -> Command:
        """A task file and flags."""
        task = tasks.task(work.folder / "qa.yaml", work.data)
        flags = ["--model", "openai/fake", "--base-url", work.url, "--apply-chat-template"]
        flags += ["--concurrency", str(work.at_once), "--output-path", str(work.output)]
        return self._assay("task", str(task), *flags)

    def outcome(self, work: Work) -> Outcome:
        """The results file says how many samples were scored, and the report names the ones left out."""
        (path,) = work.output.glob("*/results_*.json")
        scored = json.loads(path.read_text(encoding="utf-8"))["results"]["qa"]["sample_len"]
        (accuracy,) = tasks.accuracies(work.output)
        return Outcome(scored, work.count - scored, accuracy)

    def viewer(self, work: Work, port: int) -> Viewer:
        """`assay view` of the output folder."""
        command = self._assay("view", str(work.output), "--port", str(port))
        return Viewer(command, f"http://127.0.0.1:{port}/")

    def open_failed(self, page: Page, wrong: int) -> str:
        """The run, then its rows that are not ok."""
        page.locator("table tbody a").first.click()
        page.get_by_text("not ok", exact=True).click()
        page.get_by_text(f"of {wrong:,} rows").wait_for()
        return "the run, *not ok*"

    def _assay(self, *arguments: str) -> Command:
        return Command([sys.executable, "-m", "assay", *arguments], {"PYTHONPATH": str(REPOSITORY / "src")})
