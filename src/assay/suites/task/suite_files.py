"""The files of tasks: recognised, checked and described; results of lm-evaluation-harness."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from assay.core.file_check import CheckOptions, FileCheck
from assay.core.suite_files import Match, SuiteFiles
from assay.files.json_schema import FileSchema
from assay.suites.task.check import examine, has_rows, looks_like_task_file, may_be_task_file
from assay.suites.task.file_schema import file_schemas


class TaskFiles(SuiteFiles):
    """The files of tasks: recognised, checked and described; results of lm-evaluation-harness."""

    reader = "assay.formats.lm_eval.results:find_results"
    writer = "assay.formats.lm_eval.export:LmEvalExporter"

    def recognises(self, path: Path) -> Match:
        """Recognise a task file by its keys. A folder of YAML files and a file of rows may belong to any suite."""
        if looks_like_task_file(path):
            return Match.LIKELY
        return Match.MAYBE if path.is_dir() or may_be_task_file(path) or has_rows(path) else Match.NO

    def examine(self, path: Path, options: CheckOptions) -> FileCheck:
        """Return the check of a task file, a folder of task files, or a data file."""
        return examine(path, options)

    def schemas(self) -> Sequence[FileSchema]:

        return file_schemas()
