"""A file of a run that is nested deeper than a decoder can follow is named, or left out, as any other damaged file."""

from __future__ import annotations

from pathlib import Path

import pytest

import assay
from assay.core.errors import AssayError
from assay.journal.run_files import FILES
from assay.runner import api
from assay.store.calibrations import calibration_folder, list_calibrations
from assay.store.check import check_run
from assay.store.labels import FILE as LABELS, read_labels
from assay.store.notes import FILE as NOTES, read_notes
from assay.store.runs import states

from support.runs import run_of

DEEP = b'{"unknown": ' + b"[" * 100_000


@pytest.mark.parametrize("name", [*FILES, "run.json", "summary.json", "lock", NOTES, LABELS])
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "line"])
def test_a_deep_file_of_a_run_raises_no_exception_of_python(tmp_path: Path, name: str, *, whole: bool) -> None:
    folder = run_of(tmp_path / "runs" / "one", {"a": True, "b": False})
    other = run_of(tmp_path / "runs" / "two", {"a": True, "b": True})
    path = folder / name
    path.write_bytes(DEEP if whole or not path.exists() else path.read_bytes() + DEEP + b"\n")
    names = []
    for read in (
        lambda: list(states(tmp_path / "runs")),
        lambda: check_run(folder),
        lambda: list(assay.load(folder).cases()),
        lambda: read_labels(folder),
        lambda: read_notes(folder),
        lambda: api.compare(folder, other),
    ):
        try:
            read()
        except AssayError as error:
            names.append(name in str(error))
    assert all(names)


def test_a_deep_calibration_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_DATA", str(tmp_path))
    calibration_folder().mkdir(parents=True)
    (calibration_folder() / "mine.json").write_bytes(DEEP)
    warnings: list[str] = []
    list_calibrations(warnings.append)
    assert len(warnings) == 1
    assert "mine.json" in warnings[0]
