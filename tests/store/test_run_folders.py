"""Which run folders are found below a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.store.runs import run_folders

from support.runs import run_of


def found(root: Path) -> list[str]:
    return [str(folder.relative_to(root)) for folder in run_folders(root)]


def test_runs_are_found_at_any_usual_depth_and_sorted_by_name(tmp_path: Path) -> None:
    deep = "year/team/project/model/task/results/assay/2026-01-02-b"
    for name in (deep, "assay/2026-01-01-a", "results/assay/2026-01-03-c"):
        run_of(tmp_path / name, {"a": True})
    assert found(tmp_path) == ["assay/2026-01-01-a", deep, "results/assay/2026-01-03-c"]


def test_a_project_that_is_called_assay_is_searched_as_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "assay"
    run_of(project / "results" / "assay" / "one", {"a": True})
    assert found(project) == found(tmp_path / "assay") == ["results/assay/one"]
    monkeypatch.chdir(project)
    assert list(run_folders(Path())) == [Path("results/assay/one")]
    monkeypatch.chdir(project / "results" / "assay")
    assert list(run_folders(Path())) == [Path("one")]


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    run_of(tmp_path / "disk" / "assay" / "one", {"a": True})
    project = tmp_path / "project"
    project.mkdir()
    (project / "results").symlink_to(tmp_path / "disk")
    (project / "circle").symlink_to(project)
    (project / "broken").symlink_to(tmp_path / "nothing")
    assert found(project) == ["results/assay/one"]


def test_hidden_folders_and_those_of_programs_are_left_out(tmp_path: Path) -> None:
    for name in (".venv", "node_modules", "web/node_modules"):
        run_of(tmp_path / name / "assay" / "one", {"a": True})
    assert found(tmp_path) == []
    assert found(tmp_path / ".venv") == ["assay/one"]
