"""lm-evaluation-harness in a process that lives on: reads one job a line, answers one line a job.

It must be a process of its own: the harness prints, warns, and changes random seeds of the whole process.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

os.environ |= {"HF_DATASETS_OFFLINE": "1", "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
os.environ |= {"TQDM_DISABLE": "1", "OPENAI_API_KEY": "oracle-key"}

from lm_eval.evaluator import simple_evaluate
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager


def evaluate(job: dict[str, Any]) -> Any:
    """A run as the harness's command line makes it, files and all."""
    manager = TaskManager(include_path=job["folder"], include_defaults=False, metadata=dict(job["model_args"]))
    tracker = EvaluationTracker(output_path=job["output"])
    results = simple_evaluate(
        model=job["model"],
        model_args=job["model_args"],
        tasks=job["tasks"],
        task_manager=manager,
        evaluation_tracker=tracker,
        batch_size=1,
        confirm_run_unsafe_code=True,
        **job["options"],
    )
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples)
    for name in results["configs"]:
        tracker.save_results_samples(task_name=name, samples=samples[name])


def index(_job: dict[str, Any]) -> Any:
    """Read the names of all tasks inside the installed package; how much CPU that took."""
    before = time.process_time()
    manager = TaskManager()
    used = time.process_time() - before
    return {"cpu": used, "tasks": len(manager.all_tasks), "subtasks": len(manager.all_subtasks)}


def prompts(job: dict[str, Any]) -> Any:
    """The first document's requests of each task of a folder, or why there are none."""
    manager = TaskManager(include_path=job["folder"], include_defaults=False)
    return {name: _first_prompt(manager, name) for name in job["tasks"]}


def _first_prompt(manager: TaskManager, name: str) -> Any:
    try:
        (task,) = manager.load([name])["tasks"].values()
        if task.get_config("num_fewshot") is None:
            task.set_config(key="num_fewshot", value=0)
        task.set_fewshot_seed(seed=1234)
        task.build_all_requests(limit=1, rank=0, world_size=1)
        return {"arguments": [list(request.args) for request in task.instances]}
    except Exception:  # noqa: BLE001 - one task's trouble is that task's answer
        return {"error": traceback.format_exc()}


JOBS = {"evaluate": evaluate, "index": index, "prompts": prompts}


def main() -> None:
    """Standard output is the way back; what the harness prints goes to standard error."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as back:
        os.dup2(2, 1)
        for line in sys.stdin:
            job = json.loads(line)
            try:
                reply = {"value": JOBS[job["do"]](job)}
            except BaseException:  # noqa: BLE001 - the harness ends some mistakes with SystemExit
                reply = {"error": traceback.format_exc()}
            print(json.dumps(reply), file=back, flush=True)


if __name__ == "__main__":
    sys.path.remove(str(Path(__file__).parent))  # names of ours must not hide packages
    main()
