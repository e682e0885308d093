"""Inspect: a task of ten lines, its command line, and its viewer."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, ClassVar

from benchmarks.peers.peer import KEY, Command, Outcome, Peer, Viewer, Work

if TYPE_CHECKING:
    from playwright.sync_api import Page

_TASK = """\
from inspect_ai import Task, task
from inspect_ai.dataset import FieldSpec, json_dataset
from inspect_ai.scorer import exact
from inspect_ai.solver import generate


@task
def qa():
    fields = FieldSpec(input="question", target="answer", id="id")
    return Task(dataset=json_dataset("questions.jsonl", fields), solver=generate(), scorer=exact())
"""
# The newest log is the whole result: a continued run copies what an earlier log has.
_READ = """\
import json, sys
from inspect_ai.log import list_eval_logs, read_eval_log, read_eval_log_sample_summaries
log = read_eval_log(list_eval_logs(sys.argv[1])[0], header_only=True)
summaries = read_eval_log_sample_summaries(log.location)
metrics = log.results.scores[0].metrics if log.results and log.results.scores else {}
print(json.dumps({
    "scored": sum(bool(one.scores) and one.error is None for one in summaries),
    "errors": sum(one.error is not None for one in summaries),
    "accuracy": metrics["mean"].value if "mean" in metrics else None,
}))
"""


class InspectAi(Peer):
    """Samples go into a zip file in groups, and into a database beside it at once."""

    name: ClassVar[str] = "inspect"
    title: ClassVar[str] = "Inspect"
    how: ClassVar[str] = (
        "`inspect eval qa.py --model openai-api/fake/fake --max-connections N --max-retries 3 --display none`; "
        "a task of ten lines; without `--max-retries` it never gives up"
    )
    telemetry: ClassVar[str] = "none"
    continues: ClassVar[str] = "`inspect log recover`, then `inspect eval-retry`"

    def start(self, work: Work) -> Command:
        """A task file and flags."""
        task = work.folder / "qa.py"
        task.write_text(_TASK, encoding="utf-8")
        flags = [
            "--model",
            "openai-api/fake/fake",
            "--max-connections",
            str(work.at_once),
            "--max-retries",
            "5",
        ]
        flags += ["--temperature", "0", "--max-tokens", "16"]
        return self._inspect(work, "eval", task.name, *flags)

    def proceed(self, work: Work) -> list[Command]:
        """Join the log with the database of the killed process, then run what is missing."""
        (log,) = work.output.glob("*.eval")
        recover = self._inspect(work, "log", "recover", str(log), "--overwrite")
        return [recover, self._inspect(work, "eval-retry", str(log), "--max-connections", str(work.at_once))]

    def outcome(self, work: Work) -> Outcome:
        """Inspect's own reader knows its zip file."""
        command = [str(self.folder / "bin" / "python"), "-c", _READ, str(work.output)]
        env = self.environment(work)
        found = json.loads(subprocess.run(command, env=env, capture_output=True, check=True).stdout)
        return Outcome(found["scored"], found["errors"], found["accuracy"])

    def viewer(self, work: Work, port: int) -> Viewer:
        """`inspect view` of the log folder."""
        flags = ["--log-dir", str(work.output), "--host", "127.0.0.1", "--port", str(port)]
        command = Command([str(self.folder / "bin" / "inspect"), "view", "start", *flags], {})
        return Viewer(command, f"http://127.0.0.1:{port}/")

    def open_failed(self, page: Page, wrong: int) -> str:
        """A single log opens by itself; then a filter on the score. The number of rows is for screen readers only."""
        page.locator(".cm-content").first.click()
        page.keyboard.type('exact == "I"')
        page.get_by_text(f"{wrong} rows", exact=True).wait_for(state="attached")
        return 'type the filter `exact == "I"`'

    def _inspect(self, work: Work, *arguments: str) -> Command:
        variables = {"FAKE_API_KEY": KEY, "FAKE_BASE_URL": work.url}
        flags = ["--log-dir", str(work.output), "--display", "none"]
        return Command([str(self.folder / "bin" / "inspect"), *arguments, *flags], variables)
