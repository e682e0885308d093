"""lm-evaluation-harness in a process that lives on: one job a line, one answer a line."""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any

os.environ |= {"TQDM_DISABLE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}

from lm_eval.evaluator import simple_evaluate
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager


def evaluate(job: dict[str, Any]) -> None:
    """A run as the harness's command line makes it, files and all."""
    tracker = EvaluationTracker(output_path=job["output"])
    results = simple_evaluate(
        model="hf",
        model_args={"pretrained": job["model"], **job["model_args"]},
        tasks=job["tasks"],
        task_manager=TaskManager(include_path=job["folder"], include_defaults=False),
        evaluation_tracker=tracker,
        batch_size=job["batch_size"],
        device="cpu",
        **job["options"],
    )
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples)
    for name in results["configs"]:
        tracker.save_results_samples(task_name=name, samples=samples[name])


def main() -> None:
    """Standard output is the way back; what the harness prints goes to standard error."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as back:
        os.dup2(2, 1)
        for line in sys.stdin:
            try:
                evaluate(json.loads(line))
                reply = {}
            except BaseException:  # noqa: BLE001 - the harness ends some mistakes with SystemExit
                reply = {"error": traceback.format_exc()}
            print(json.dumps(reply), file=back, flush=True)


if __name__ == "__main__":
    main()
