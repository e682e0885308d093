"""Calibration files: how well each judge agrees with labels.

A calibration belongs to one model, prompt, set of parameters and kind of question.

`assay judge calibrate` writes a small JSON file per judge and kind to the user's data folder and replaces an earlier
one. The package ships files for the judge `offline`. A file has one calibration, or a list of several. A file that
cannot be read is skipped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec

from assay import scoring
from assay.core.hashing import fingerprint as fingerprint_of
from assay.core.judges import ANSWER, Agreement, Calibration
from assay.files.write import own_temporary

SHIPPED = Path(scoring.__file__).with_name("calibrations")
CONSTRUCTED = "constructed-"
"""Begins the names of the user's calibrations on the constructed set."""
Warn = Callable[[str], object]
_File = Calibration | Annotated[list[Calibration], msgspec.Meta(min_length=1)]


def find_calibration(judge: str, fingerprint: str, kind: str = ANSWER, warn: Warn | None = None) -> Calibration | None:
    """Return the user's calibration of this judge, else one that ships with the package, else None.

    Labels of people or votes come before the constructed set. A damaged file is skipped. `warn` is called with a
    message about it.
    """
    found = [
        calibration
        for path in _candidates(_file_name(judge, fingerprint, kind))
        for calibration in _read_file(path, warn, "Calibrate again, or remove it.")
        if calibration.is_of(judge, fingerprint, kind)
    ]
    return min(found, key=lambda calibration: calibration.constructed, default=None)


def list_calibrations(warn: Warn | None = None) -> list[Calibration]:
    """Return all calibrations of the user, then those that ship with the package. `warn` is told of damaged files."""
    files = [path for folder in (calibration_folder(), SHIPPED) for path in sorted(folder.glob("*.json"))]
    return [calibration for path in files for calibration in _read_file(path, warn)]


def _read_file(path: Path, warn: Warn | None, advice: str = "") -> list[Calibration]:
    """Return the calibrations of a file, one or a list. A missing file has none; so has a damaged one."""
    try:
        content = msgspec.json.decode(path.read_bytes(), type=_File)
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError, msgspec.DecodeError, RecursionError) as error:
        if warn:
            warn(f"Skipped {path}: it is not a calibration file ({error}). {advice}".rstrip())
        return []
    return content if isinstance(content, list) else [content]


def save_calibration(calibration: Calibration) -> str:
    """Save a calibration to the data folder. Returns "", or the reason why it was not saved.

    It replaces an earlier calibration of the same judge and kind. One on the constructed set does not replace one on
    labels of people or votes. An incomplete calibration is not saved, because
    all later reports would show its numbers for the judge.
    """
    if missing := calibration.reasons_incomplete:
        return f"The calibration is not saved, because it leaves out rows ({', '.join(missing)})."
    name = _file_name(calibration.judge, calibration.fingerprint, calibration.kind)
    path = calibration_folder() / (f"{CONSTRUCTED}{name}" if calibration.constructed else name)
    try:
        write_calibrations(path, [calibration])
    except OSError as error:
        return f"The calibration is not saved: {path}: {error.strerror}. Set ASSAY_DATA to another folder."
    return ""


def write_calibrations(path: Path, calibrations: Sequence[Calibration]) -> Path:
    """Write calibrations atomically: readers see either the old file or the new one. Several become a list."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = msgspec.json.encode(calibrations[0] if len(calibrations) == 1 else calibrations)
    # Two processes may calibrate the same judge at once, so each has a temporary file of its own.
    temporary = own_temporary(path)
    try:
        temporary.write_bytes(msgspec.json.format(content, indent=2) + b"\n")
        temporary.replace(path)
    except OSError:
        with suppress(OSError):  # the first error has the cause
            temporary.unlink(missing_ok=True)
        raise
    return path


def calibration_folder() -> Path:
    """Return the folder of the user's calibrations: in $ASSAY_DATA, else in the XDG data folder."""
    if data := os.environ.get("ASSAY_DATA"):
        return Path(data) / "calibrations"
    data_home = os.environ.get("XDG_DATA_HOME")
    root = Path(data_home) if data_home else Path.home() / ".local" / "share"
    return root / "assay" / "calibrations"


def _candidates(name: str) -> Iterator[Path]:
    yield calibration_folder() / name
    yield calibration_folder() / f"{CONSTRUCTED}{name}"
    # Shipped files have readable names without a hash. The caller checks the content of each.
    yield from sorted(SHIPPED.glob("*.json"))


def _file_name(judge: str, fingerprint: str, kind: str) -> str:
    """Return a file name that contains the judge's name, for people, and a hash that makes it unique."""
    readable = "".join(char if char.isalnum() or char in "-._" else "-" for char in judge).strip(".")[:60]
    return f"{readable}-{kind}-{fingerprint_of([judge, kind, fingerprint])}.json"


def describe_calibration(calibration: Calibration | None) -> str:
    """Return a line such as `calibrated: kappa 0.78 (0.74–0.82), AUC 0.93 on 1,540 labels of FILE`."""
    if calibration is None:
        return "not calibrated"
    overall = calibration.overall
    if not overall.n:
        name = "the constructed set" if calibration.constructed else calibration.labels
        return f"not calibrated: the judge gave no valid verdict on {name}"
    auc = "" if overall.auc is None else f", AUC {overall.auc:.2f}"
    rate = "" if overall.base_rate is None else f" (base rate {overall.base_rate:.2f})"
    invalid = f", {overall.invalid:,} without a verdict" if overall.invalid else ""
    labels = describe_labels(calibration)
    return f"calibrated: {describe_kappa(overall)}{auc} on {labels}{rate}{invalid}"


def describe_labels(calibration: Calibration) -> str:
    """Return `1,540 labels of FILE`, or `320 labels of the constructed set`."""
    name = "the constructed set" if calibration.constructed else calibration.labels
    count = calibration.overall.n
    return f"{count:,} {'label' if count == 1 else 'labels'} of {name}"


def describe_kappa(agreement: Agreement) -> str:
    """Return `kappa 0.78 (0.74–0.82)`, or `no kappa` with the reason."""
    if agreement.kappa is None:
        reason = "labels and verdicts are all alike" if agreement.n else "not one verdict can be read"
        return f"no kappa ({reason})"
    interval = ""
    if agreement.interval:
        interval = f" ({agreement.interval[0]:.2f}–{agreement.interval[1]:.2f})"
    return f"kappa {agreement.kappa:.2f}{interval}"
