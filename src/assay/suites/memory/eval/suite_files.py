"""The files of samples: recognised, checked and described; the five result files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from assay.core.file_check import CheckOptions, FileCheck
from assay.core.suite_files import Match, SuiteFiles
from assay.files.json_schema import FileSchema
from assay.suites.memory.eval.file_schema import file_schemas
from assay.suites.memory.eval.sample_files import examine_samples, has_samples


class MemoryEvalFiles(SuiteFiles):
    """The files of samples: recognised, checked and described; the five result files."""

    reader = "assay.formats.eval_framework.results:find_results"
    writer = "assay.formats.eval_framework.export:EvalExporter"

    def recognises(self, path: Path) -> Match:
        """Return SURE if the first sample of the file or folder has the keys of a sample."""
        return Match.SURE if has_samples(path) else Match.NO

    def examine(self, path: Path, options: CheckOptions) -> FileCheck:
        """Return the check of a file or folder of samples."""
        return examine_samples(path)

    def schemas(self) -> Sequence[FileSchema]:
        return file_schemas()
