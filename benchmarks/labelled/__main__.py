"""`python -m benchmarks.labelled`: writes the constructed labels into the package."""

from __future__ import annotations

import json

from assay.suites.calibration.suite import CONSTRUCTED
from benchmarks.labelled.kinds import labelled_questions

if __name__ == "__main__":
    lines = [json.dumps(row, ensure_ascii=False) for row in labelled_questions()]
    CONSTRUCTED.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines):,} rows in {CONSTRUCTED}")
