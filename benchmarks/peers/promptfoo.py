"""promptfoo: a configuration file, its command line under a Node of its own, and its viewer."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from benchmarks.peers.peer import KEY, Command, Outcome, Peer, Viewer, Work

if TYPE_CHECKING:
    from playwright.sync_api import Page

_CONFIG = """\
description: qa
prompts: ["{{{{question}}}}"]
providers:
  - id: openai:chat:fake
    config: {{apiBaseUrl: {url}, apiKey: {key}, temperature: 0, max_tokens: 16}}
defaultTest:
  assert:
    - {{type: equals, value: "{{{{answer}}}}"}}
tests: file://tests.jsonl
"""
_QUIET = {
    "PROMPTFOO_DISABLE_TELEMETRY": "1",
    "PROMPTFOO_DISABLE_UPDATE": "1",
    "PROMPTFOO_DISABLE_REMOTE_GENERATION": "1",
    "PROMPTFOO_DISABLE_SHARING": "1",
}


class Promptfoo(Peer):
    """Rows go into a database as they finish. Every wrong answer is a failed test, so the usual exit code is 100."""

    name: ClassVar[str] = "promptfoo"
    title: ClassVar[str] = "promptfoo"
    how: ClassVar[str] = "`promptfoo eval -c promptfooconfig.yaml -j N --no-progress-bar --no-table`; Node 22 from npm"
    telemetry: ClassVar[str] = "`PROMPTFOO_DISABLE_TELEMETRY=1`, `PROMPTFOO_DISABLE_UPDATE=1`"
    continues: ClassVar[str] = "`promptfoo eval --resume`"

    def install(self) -> None:
        """An npm folder with promptfoo and the Node that it needs."""
        if shutil.which("npm") is None:
            raise SystemExit("promptfoo is installed by npm, which is not here: install Node.js with npm")
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "package.json").write_text('{"private": true}\n', encoding="utf-8")
        npm = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--save-exact"]
        subprocess.run([*npm, *self.packages()], cwd=self.folder, check=True)

    def start(self, work: Work) -> Command:
        """A configuration, the questions as its tests, and flags."""
        config = _CONFIG.format(url=work.url, key=KEY)
        (work.folder / "promptfooconfig.yaml").write_text(config, encoding="utf-8")
        with work.data.open(encoding="utf-8") as rows, (work.folder / "tests.jsonl").open("w") as tests:
            for row in map(json.loads, rows):
                tests.write(json.dumps({"vars": {"question": row["question"], "answer": row["answer"]}}) + "\n")
        return self._eval(work, "-c", "promptfooconfig.yaml", "-j", str(work.at_once))

    def proceed(self, work: Work) -> list[Command]:
        """The newest evaluation of the database."""
        return [self._eval(work, "--resume", "-j", str(work.at_once))]

    def outcome(self, work: Work) -> Outcome:
        """The table of results: a wrong answer has a failed assertion, a failed request has an error."""
        with closing(sqlite3.connect(work.output / "promptfoo.db")) as database:
            rows = database.execute("select success, failure_reason from eval_results").fetchall()
        errors = sum(reason == 2 for _, reason in rows)
        right = sum(success for success, _ in rows)
        return Outcome(len(rows) - errors, errors, right / len(rows) if rows else None)

    def log(self, work: Work) -> list[Path]:
        """The database; not the cache and the program's own log beside it."""
        return list(work.output.glob("promptfoo.db*"))

    def viewer(self, work: Work, port: int) -> Viewer:
        """`promptfoo view` of the database."""
        command = self._promptfoo(work, "view", "--port", str(port), "--no")
        return Viewer(command, f"http://127.0.0.1:{port}/eval")

    def open_failed(self, page: Page, wrong: int) -> str:
        """The newest evaluation opens by itself; then its failures: the second row is a right answer."""
        page.get_by_text("Row #2", exact=True).wait_for()
        page.get_by_text("Failures", exact=True).click()
        page.get_by_text("Row #2", exact=True).wait_for(state="hidden")
        page.get_by_text("Row #6", exact=True).wait_for()
        return "*Failures*"

    def _eval(self, work: Work, *arguments: str) -> Command:
        return self._promptfoo(work, "eval", *arguments, "--no-progress-bar", "--no-table", "--no-share")

    def _promptfoo(self, work: Work, *arguments: str) -> Command:
        modules = self.folder / "node_modules"
        program = modules / "promptfoo" / "dist" / "src" / "entrypoint.js"
        variables = _QUIET | {"PROMPTFOO_CONFIG_DIR": str(work.output)}
        return Command([str(modules / ".bin" / "node"), str(program), *arguments], variables)
