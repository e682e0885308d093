"""Calibration files: how well each judge agrees with labels, tied to its model, prompt and parameters.

`assay judge calibrate` writes them as small JSON files to the user's data folder, the newest one of each judge. Some
for the judge `offline` come with the package. A file that cannot be read is skipped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from assay import scoring
from assay.core.hashing import fingerprint as fingerprint_of
from assay.core.judges import ANSWER, Agreement, Calibration

SHIPPED = Path(scoring.__file__).with_name("calibrations")
Tell = Callable[[str], object]


def find_calibration(
    judge: str, fingerprint: str, kind: str = ANSWER, tell: Tell | None = None
) -> Calibration | None:
    """The user's own calibration of this judge, else one that comes with the package.

    `tell` is called with a sentence about a damaged file; such a file is skipped.
    """
    for path in _candidates(_file_name(judge, fingerprint, kind)):
        try:
            calibration = msgspec.json.decode(path.read_bytes(), type=Calibration)
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
            if tell:
                tell(f"{path} is no calibration and is passed over ({error}); calibrate again, or remove it")
            continue
        if calibration.is_of(judge, fingerprint, kind):
            return calibration
    return None


def remember(calibration: Calibration) -> str:
    """Keep a calibration in place of an earlier one of the same judge. Returns why it is not kept, if so.

    Only a complete calibration is kept: it speaks for the judge from now on.
    """
    if missing := calibration.parts_missing:
        return f"not remembered: rows are left out ({', '.join(missing)})"
    path = calibration_folder() / _file_name(calibration.judge, calibration.fingerprint, calibration.kind)
    try:
        write(path, calibration)
    except OSError as error:
        return f"not remembered: {path}: {error.strerror}; ASSAY_DATA names another folder"
    return ""


def write(path: Path, calibration: Calibration) -> Path:
    """Write a calibration. Readers see the old file or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Two processes may calibrate the same judge at once, so each has a temporary name of its own.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(msgspec.json.format(msgspec.json.encode(calibration), indent=2) + b"\n")
    temporary.replace(path)
    return path


def calibration_folder() -> Path:
    """Where calibrations are kept: below ASSAY_DATA, else in the data folder of the XDG standard."""
    if data := os.environ.get("ASSAY_DATA"):
        return Path(data) / "calibrations"
    shared = os.environ.get("XDG_DATA_HOME")
    root = Path(shared) if shared else Path.home() / ".local" / "share"
    return root / "assay" / "calibrations"


def _candidates(name: str) -> Iterator[Path]:
    yield calibration_folder() / name
    yield from sorted(SHIPPED.glob("*.json"))


def _file_name(judge: str, fingerprint: str, kind: str) -> str:
    """The judge's name as far as a file name can have it, and a hash that tells it from any other judge."""
    readable = "".join(char if char.isalnum() or char in "-._" else "-" for char in judge).strip(".")[:60]
    return f"{readable}-{kind}-{fingerprint_of([judge, kind, fingerprint])}.json"


def describe_calibration(calibration: Calibration | None) -> str:
    """One line for people: `calibrated: kappa 0.78 (0.74–0.82), AUC 0.93 on 1,540 labels of FILE`."""
    if calibration is None:
        return "not calibrated"
    overall = calibration.overall
    auc = "" if overall.auc is None else f", AUC {overall.auc:.2f}"
    rate = "" if overall.base_rate is None else f" (base rate {overall.base_rate:.2f})"
    invalid = f", {overall.invalid:,} without a verdict" if overall.invalid else ""
    labels = f"{overall.n:,} labels of {calibration.labels}"
    return f"calibrated: {describe_kappa(overall)}{auc} on {labels}{rate}{invalid}"


def describe_kappa(agreement: Agreement) -> str:
    """`kappa 0.78 (0.74–0.82)`, or why there is none."""
    if agreement.kappa is None:
        reason = "labels and verdicts are all alike" if agreement.n else "not one verdict can be read"
        return f"no kappa ({reason})"
    interval = ""
    if agreement.interval:
        interval = f" ({agreement.interval[0]:.2f}–{agreement.interval[1]:.2f})"
    return f"kappa {agreement.kappa:.2f}{interval}"
