"""Files of labels: recognised, checked and described."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from assay.core.errors import InputError
from assay.core.file_check import CheckOptions, FileCheck, contents
from assay.core.suite_files import Match, SuiteFiles
from assay.files.json_schema import FileSchema
from assay.suites.calibration.file_schema import file_schemas
from assay.suites.calibration.labels import looks_like_labels, read_labels


class CalibrationFiles(SuiteFiles):
    """Files of labels: recognised, checked and described."""

    def recognises(self, path: Path) -> Match:
        """Return LIKELY if the first row has a response and a label that is a vote."""
        return Match.LIKELY if looks_like_labels(path) else Match.NO

    def examine(self, path: Path, options: CheckOptions) -> FileCheck:
        """Return the check of a file with labels. Fields must have their usual names."""
        kind = "labels (judge calibrate)"
        try:
            labels = read_labels(path, {})
        except InputError as error:
            return FileCheck(kind=kind, problems=error.problems)
        notes = [f"{count:,} labels left out: {reason}" for reason, count in labels.all_left_out.items()]
        kinds = Counter(row.kind for row in labels.rows)
        found = (
            {"labelled row": len(labels.rows)} if len(kinds) == 1 else {f"{kind} row": n for kind, n in kinds.items()}
        )
        return FileCheck(kind=kind, contents=contents(found), notes=notes)

    def schemas(self) -> Sequence[FileSchema]:
        return file_schemas()
