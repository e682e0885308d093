"""The five examples of the repository as short runs at a fake endpoint, or on recorded replies.

run = run_example("hop", tmp_path / "out", server, "--shard", "1/3")
"""

from __future__ import annotations

from pathlib import Path

import assay

from servers.fake_openai import FakeOpenAI
from support.commands import run_here

ROOT = Path(__file__).parents[2]
EXAMPLES = {
    "task": ("task", "examples/task/quickstart.yaml"),
    "pipeline": (
        *("pipeline", "examples/pipeline/reviews.yaml"),
        *("--model", "script/examples/pipeline/replies/reviews.jsonl"),
    ),
    "hop": ("hop", "examples/hop/FactCheck", "facts.jsonl", "--settings", "tests/golden/hop/settings.yaml"),
    "memory test": (
        *("memory", "test", "--data", "examples/memory/talks.json"),
        *("--memory", "bm25,STMemory", "--no-answer"),
    ),
    "memory eval": (
        *("memory", "eval", "--dataset", "examples/memory-eval", "--sample-id", "june,mira,ravi"),
        *("--baseline", "bm25,STMemory", "--judge", "offline"),
    ),
}
# Two of them have recorded replies.
_ASKED = ("task", "memory test", "memory eval")
_WRAP = {"memory eval": '{"answer": "%s", "citations": [1]}'}


def run_example(example: str, output: Path, server: FakeOpenAI, *flags: str) -> assay.Run:
    """Run an example in this process, and return the run."""
    server.behave(wrap=_WRAP.get(example, ""))
    model = ("--model", "openai/fake", "--base-url", server.url) if example in _ASKED else ()
    done = run_here([*EXAMPLES[example], *model, "--quiet", "--output-dir", str(output), *flags], ROOT)
    assert done.returncode in (0, 1), done.stderr
    return assay.load(output)
