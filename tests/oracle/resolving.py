"""Checks a folder of tasks as `assay check` does, in a process of its own: prints what was found as JSON.

It tells the CPU it took, and which Python files of the folder were imported, which should be none.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from assay.core.file_check import CheckOptions
from assay.runner.check import check_path


def main() -> None:
    """`python resolving.py FOLDER`."""
    root = Path(sys.argv[1])
    checks = list(check_path(root, CheckOptions()))
    problems = [list(problem) for each in checks for problem in each.check.problems]
    problems += [[str(root), each.check.contents, "note"] for each in checks if "tasks" in each.check.kind]
    files = [getattr(module, "__file__", None) or "" for module in sys.modules.values()]
    imported = [file for file in files if file.startswith(str(root))]
    print(json.dumps({"cpu": time.process_time(), "problems": problems, "imported": imported}))  # noqa: T201


if __name__ == "__main__":
    main()
