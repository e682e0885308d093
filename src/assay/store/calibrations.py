"""What is known about judges: how well each agrees with labels, tied to its model, prompt and parameters.

Results of `assay judge calibrate` are kept as small JSON files in the user's data folder, the newest of each
judge; some for the judge `offline` come with the package. A file that cannot be read is as good as none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from assay import scoring
from assay.core.hashing import fingerprint as fingerprint_of
from assay.core.judges import ANSWER, Agreement, Calibration

UNKNOWN = "not calibrated"
SHIPPED = Path(scoring.__file__).with_name("calibrations")
Tell = Callable[[str], object]


def folder() -> Path:
    """Where calibrations are kept: below ASSAY_DATA, else the place the desktop standard names."""
    if own := os.environ.get("ASSAY_DATA"):
        return Path(own) / "calibrations"
    shared = os.environ.get("XDG_DATA_HOME")
    return (Path(shared) if shared else Path.home() / ".local" / "share") / "assay" / "calibrations"


def remember(calibration: Calibration) -> str:
    """Keep it in place of an earlier one of the same judge; why that is not done, if it is not.

    Only what was judged to its end speaks for the judge from now on.
    """
    if missing := calibration.parts_missing:
        return f"not remembered: rows are left out ({', '.join(missing)})"
    path = folder() / _name(calibration.judge, calibration.fingerprint, calibration.kind)
    try:
        write(path, calibration)
    except OSError as error:
        return f"not remembered: {path}: {error.strerror}; ASSAY_DATA names another folder"
    return ""


def write(path: Path, calibration: Calibration) -> Path:
    """The file appears whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(msgspec.json.format(msgspec.json.encode(calibration), indent=2) + b"\n")
    temporary.replace(path)
    return path


def known(judge: str, fingerprint: str, kind: str = ANSWER, tell: Tell | None = None) -> Calibration | None:
    """The user's own calibration of this judge, else one that comes with the package.

    `tell` hears of a file that is damaged; such a file is passed over.
    """
    for path in _candidates(_name(judge, fingerprint, kind)):
        try:
            found = msgspec.json.decode(path.read_bytes(), type=Calibration)
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
            if tell:
                tell(f"{path} is no calibration and is passed over ({error}); calibrate again, or remove it")
            continue
        if found.is_of(judge, fingerprint, kind):
            return found
    return None


def _candidates(name: str) -> Iterator[Path]:
    yield folder() / name
    yield from sorted(SHIPPED.glob("*.json"))


def _name(judge: str, fingerprint: str, kind: str) -> str:
    """Readable where it can be: a judge's name may hold anything."""
    readable = "".join(char if char.isalnum() or char in "-._" else "-" for char in judge).strip(".")[:60]
    return f"{readable}-{kind}-{fingerprint_of([judge, kind, fingerprint])}.json"


def shown(calibration: Calibration | None) -> str:
    """One line for people."""
    if calibration is None:
        return UNKNOWN
    found = calibration.overall
    auc = "" if found.auc is None else f", AUC {found.auc:.2f}"
    rate = "" if found.base_rate is None else f" (base rate {found.base_rate:.2f})"
    none = f", {found.invalid:,} without a verdict" if found.invalid else ""
    return f"calibrated: {kappa_of(found)}{auc} on {found.n:,} labels of {calibration.labels}{rate}{none}"


def kappa_of(found: Agreement) -> str:
    """`kappa 0.78 (0.74–0.82)`."""
    if found.kappa is None:
        why = "labels and verdicts are all alike" if found.n else "not one verdict can be read"
        return f"no kappa ({why})"
    low_high = f" ({found.interval[0]:.2f}–{found.interval[1]:.2f})" if found.interval else ""
    return f"kappa {found.kappa:.2f}{low_high}"
