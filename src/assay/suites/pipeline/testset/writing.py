"""Testsets out: one compact v2 record a line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from assay.core.errors import UsageError
from assay.suites.pipeline.testset.case import TestCase
from assay.suites.pipeline.testset.loader import checked

_encode = msgspec.json.Encoder().encode


def v2_line(case: TestCase) -> bytes:
    """One case as a line."""
    return _encode(case.to_dict()) + b"\n"


def write_v2(cases: Iterable[TestCase], path: Path) -> None:
    """Write a testset that loads to equal cases, with the folders above it. It is whole or not there."""
    beside = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("wb") as file:
            file.writelines(map(v2_line, cases))
        beside.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def converted(path: Path, output: Path | None = None) -> bytes:
    """A file's cases as v2: written to `output`, else returned. Refused with every error of the file."""
    cases = checked(path)
    if output is None:
        return b"".join(map(v2_line, cases))
    write_v2(cases, output)
    return b""
