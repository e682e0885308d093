"""lm-evaluation-harness: the same task file as assay's, and its own command line."""

from __future__ import annotations

import json
from typing import ClassVar

from benchmarks import tasks
from benchmarks.peers.peer import Command, Outcome, Peer, Work

_OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
}


class LmEval(Peer):
    """Answers are kept in a cache only with `--use_cache`; samples are written at the end."""

    name: ClassVar[str] = "lm-eval"
    title: ClassVar[str] = "lm-eval"
    how: ClassVar[str] = (
        "`lm_eval run --model local-chat-completions --tasks qa --include_path . --apply_chat_template --log_samples`; "
        "with `--use_cache` where it is killed"
    )
    telemetry: ClassVar[str] = "`HF_HUB_DISABLE_TELEMETRY=1`, `HF_HUB_OFFLINE=1`, `HF_DATASETS_OFFLINE=1`"
    continues: ClassVar[str] = "the same command with `--use_cache`"
    no_viewer: ClassVar[str] = "no viewer"

    def start(self, work: Work) -> Command:
        """A task file and flags."""
        task = tasks.task(work.folder / "qa.yaml", work.data)
        model = f"model=fake,base_url={work.url}/chat/completions,num_concurrent={work.at_once}"
        flags = ["--model", "local-chat-completions", "--model_args", model, "--tasks", task.stem]
        flags += ["--include_path", str(work.folder), "--apply_chat_template", "--log_samples"]
        flags += ["--output_path", str(work.output)]
        if work.killed:
            flags += ["--use_cache", str(work.folder / "cache")]
        return self.python("-m", "lm_eval", "run", *flags, **_OFFLINE)

    def outcome(self, work: Work) -> Outcome:
        """The samples file has one line a sample."""
        samples = [json.loads(line) for path in work.output.glob("*/samples_*.jsonl") for line in path.open()]
        found = tasks.accuracies(work.output) if samples else []
        return Outcome(len(samples), 0, found[0] if found else None)
