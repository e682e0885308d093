"""The files of HOP batch tests: recognised, checked and described; HOP's results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from assay.core.file_check import CheckOptions, FileCheck
from assay.core.suite_files import Match, SuiteFiles
from assay.files.json_schema import FileSchema
from assay.suites.hop import check
from assay.suites.hop.file_schema import file_schemas


class HopFiles(SuiteFiles):
    """The files of HOP batch tests: recognised, checked and described; HOP's results."""

    reader = "assay.formats.hop.results:find_results"
    writer = "assay.formats.hop.export:HopExporter"

    def recognises(self, path: Path) -> Match:
        """Return SURE for a task folder, its files and result files, LIKELY for rows with a tag.

        Rows with a tag may also belong to another suite.
        """
        if check.is_hop(path):
            return Match.SURE
        return Match.LIKELY if check.has_rows(path) else Match.NO

    def examine(self, path: Path, options: CheckOptions) -> FileCheck:
        """Return the check of a task folder, a contract, settings, rows, a result file or a log. No code is run."""
        return check.examine(path)

    def schemas(self) -> Sequence[FileSchema]:
        return file_schemas()
