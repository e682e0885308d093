"""The files of conversations: recognised, checked and described; SAGE's results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from assay.core.file_check import CheckOptions, FileCheck
from assay.core.suite_files import Match, SuiteFiles
from assay.files.json_schema import FileSchema
from assay.suites.memory.test.file_schema import file_schemas
from assay.suites.memory.test.loaders import examine, recognise_dataset


class MemoryTestFiles(SuiteFiles):
    """The files of conversations: recognised, checked and described; SAGE's results."""

    reader = "assay.formats.sage.results:find_results"
    writer = "assay.formats.sage.export:SageExporter"

    def recognises(self, path: Path) -> Match:
        """Return SURE if the first conversation of the file has two keys of a known data set."""
        return Match.SURE if recognise_dataset(path) else Match.NO

    def examine(self, path: Path, options: CheckOptions) -> FileCheck:
        """Return the check of a file of conversations."""
        return examine(path)

    def schemas(self) -> Sequence[FileSchema]:
        return file_schemas()
