"""`assay check` for task files and data files: every problem with its place, and rows that are equal."""

from __future__ import annotations

from pathlib import Path

from assay.core.errors import InputError, Problem, UsageError
from assay.core.hashing import row_key
from assay.core.spec import build
from assay.suites.task.data.docs import Docs
from assay.suites.task.options import TaskOptions
from assay.suites.task.plan import Task

_DATA = {".jsonl": "json", ".json": "json", ".ndjson": "json", ".csv": "csv", ".parquet": "parquet"}
_MOST_DOCS = 100


def check_file(path: Path) -> list[Problem]:
    """The problems of one file; duplicates are warnings."""
    if not path.is_file():
        raise UsageError(f"there is no file {str(path)!r}")
    if path.suffix in (".yaml", ".yml"):
        return check_task(path)
    kind = _DATA.get(path.suffix)
    if kind is None:
        raise UsageError(f"{path}: expected a task file (.yaml) or data ({', '.join(_DATA)})")
    return check_docs(Docs(kind, [path]))


def check_task(path: Path) -> list[Problem]:
    """The task, its data, and every document's prompt and target."""
    spec = build("task", TaskOptions, {"tasks": [str(path)], "model": "check/check"})
    try:
        task = Task(path, spec)
        problems = check_docs(task.docs)
        if any(problem.level == "error" for problem in problems):
            return problems
        task.prepare(None)
    except InputError as error:
        return error.problems
    bad = [
        Problem(case.failure.where, case.failure.message)
        for case in task.load(lambda _: False)
        if case.failure
    ]
    if len(bad) > _MOST_DOCS:
        bad = [
            *bad[:_MOST_DOCS],
            Problem(str(path), f"and {len(bad) - _MOST_DOCS} more documents like these"),
        ]
    return problems + bad


def check_docs(docs: Docs) -> list[Problem]:
    """Rows that are no rows, an empty file, and rows that are equal to an earlier one."""
    try:
        facts = docs.look()
    except InputError as error:
        return error.problems
    if not facts.total:
        return [Problem(str(docs.files[0]), "the data set is empty")]
    return _duplicates(docs) if facts.twins else []


def _duplicates(docs: Docs) -> list[Problem]:
    twins = docs.twins()
    first: dict[str, str] = {}
    found = []
    for doc in docs.rows():
        key = row_key(doc.raw)
        if twins.name(key) != key:
            found.append(Problem(doc.where, f"this document is the same as {first[key]}", "warning"))
        elif twins.repeats(key):
            first[key] = doc.where
    return found
