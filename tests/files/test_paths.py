"""Names and paths of files: which can exist, and what becomes of one that is too long."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.files.paths import can_exist, fitting_name


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("results/run", True),
        ("a" * 255, True),
        ("a" * 256, False),
        (f"folder/{'a' * 256}/file", False),
        ("é" * 128, False),  # 256 bytes
        ("a/" * 2050, False),
        ("x\0y", False),
    ],
)
def test_a_path_can_exist_if_the_file_system_takes_its_names(path: str, expected: bool) -> None:
    assert can_exist(path) is expected
    assert can_exist(Path(path)) is expected


def test_a_name_that_fits_stays_and_a_longer_one_is_cut(tmp_path: Path) -> None:
    assert fitting_name("a" * 255) == "a" * 255
    long, other = fitting_name("é" * 200), fitting_name("é" * 201)
    assert long != other
    assert len(long.encode()) <= 255
    assert len(fitting_name("é" * 200, 200).encode()) <= 200
    (tmp_path / long).touch()
