"""Builds the prompts of a task and says how many there were: `python benchmarks/lm_eval_prompts.py TASK`."""

from __future__ import annotations

import sys

import assay
from assay.core import registry


def main() -> None:
    spec = assay.spec("task", tasks=[sys.argv[1]], model="openai/fake", base_url="http://127.0.0.1:1/v1")
    plan = registry.find("suite", "task").plan(spec)
    plan.prepare(None)
    print(sum(1 for case in plan.load(lambda _: False) if case.failure is None))


if __name__ == "__main__":
    main()
