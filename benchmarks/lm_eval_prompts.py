"""Builds the prompts of a task and says how many there were: `python benchmarks/lm_eval_prompts.py TASK`."""

from __future__ import annotations

import sys

import assay
from assay.suites.task.suite import TaskSuite


def main() -> None:
    spec = assay.spec("task", tasks=[sys.argv[1]], model="openai/fake", base_url="http://127.0.0.1:1/v1")
    suite = TaskSuite(spec)
    cases = (suite.case(row, spec.model) for row in suite.rows().iterate())
    print(sum(1 for case in cases if case.failure is None))


if __name__ == "__main__":
    main()
