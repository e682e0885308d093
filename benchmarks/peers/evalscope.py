"""EvalScope: a benchmark of 20 lines, because its own QA benchmark has no exact match, and its dashboard."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, ClassVar

from benchmarks.peers.peer import KEY, Command, Outcome, Peer, Viewer, Work

if TYPE_CHECKING:
    from playwright.sync_api import Page

_SCRIPT = """\
import sys
from evalscope import TaskConfig, run_task
from evalscope.api.benchmark import BenchmarkMeta, DefaultDataAdapter
from evalscope.api.dataset import Sample
from evalscope.api.registry import register_benchmark


@register_benchmark(
    BenchmarkMeta(
        name="qa",
        pretty_name="QA",
        description="Questions with one right answer.",
        dataset_id={folder!r},
        subset_list=["questions"],
        metric_list=["acc"],
        few_shot_num=0,
        train_split=None,
        eval_split="test",
        prompt_template="{{question}}",
    )
)
class Qa(DefaultDataAdapter):
    def load_from_disk(self, **kwargs):
        return super().load_from_disk(use_local_loader=True)

    def record_to_sample(self, record):
        return Sample(input=record["question"], target=record["answer"])


run_task(
    TaskConfig(
        model="fake",
        api_url={url!r},
        api_key={key!r},
        eval_type="openai_api",
        datasets=["qa"],
        dataset_args={{"qa": {{"local_path": {folder!r}}}}},
        eval_batch_size={at_once},
        generation_config={{"temperature": 0, "max_tokens": 16}},
        work_dir={output!r},
        no_timestamp=True,
        use_cache={output!r} if "continue" in sys.argv else None,
    )
)
"""
_OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}


class Evalscope(Peer):
    """Answers and reviews are appended to JSONL files."""

    name: ClassVar[str] = "evalscope"
    title: ClassVar[str] = "EvalScope"
    how: ClassVar[str] = (
        "`run_task(TaskConfig(…, eval_batch_size=N))` in a script that registers a benchmark of 20 lines"
    )
    telemetry: ClassVar[str] = "none of its own; `HF_HUB_DISABLE_TELEMETRY=1`"
    continues: ClassVar[str] = "`use_cache` with the folder of the killed run"

    def start(self, work: Work) -> Command:
        """A script with the benchmark and the settings."""
        script = work.folder / "qa.py"
        values = {"url": work.url, "key": KEY, "at_once": work.at_once, "output": str(work.output)}
        script.write_text(_SCRIPT.format(folder=str(work.folder), **values), encoding="utf-8")
        return self.python(script, **_OFFLINE)

    def proceed(self, work: Work) -> list[Command]:
        """The same script with the cache."""
        return [self.python(work.folder / "qa.py", "continue", **_OFFLINE)]

    def outcome(self, work: Work) -> Outcome:
        """The report has the accuracy and the number of samples behind it."""
        (report,) = work.output.glob("reports/*/qa.json")
        (metric,) = json.loads(report.read_text(encoding="utf-8"))["metrics"]
        return Outcome(metric["num"], 0, metric["score"])

    def viewer(self, work: Work, port: int) -> Viewer:
        """`evalscope service` of the output folder."""
        flags = ["--host", "127.0.0.1", "--port", str(port), "--outputs", str(work.folder)]
        command = Command([str(self.folder / "bin" / "evalscope"), "service", *flags], _OFFLINE)
        return Viewer(command, f"http://127.0.0.1:{port}/")

    def open_failed(self, page: Page, wrong: int) -> str:
        """The model, its latest run, the predictions, and those below the threshold, one on each page."""
        page.get_by_text("fake", exact=True).first.click()
        page.get_by_text("Open latest run").click()
        page.get_by_role("tab", name="Predictions").click()
        page.get_by_role("button", name="Below filter").click()
        page.get_by_text(f"Sample 1 / {wrong}").wait_for()
        return "the model, *Open latest run*, *Predictions*, *Below filter*; one case a page"
