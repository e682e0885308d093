"""What is remembered about judges, and who may decide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.core.errors import UsageError
from assay.core.judges import LIMITED, NOT_JUDGED, RUBRIC, Calibration
from assay.scoring.agreement import JudgedRow, agreement
from assay.scoring.panel import Panel
from assay.store import calibrations
from assay.store.calibrations import describe_calibration, find_calibration, remember, write
from assay.store.judges import (
    about,
    calibration_of,
    judges_in,
    panel_judge,
    require_kappa,
    rubric_judge,
    why_too_weak,
)


def calibration(right: int = 9, differing: int = 1, **changes: Any) -> Calibration:
    """A judge that accepts so many of ten right answers, and rejects all of ten wrong ones."""
    rows = [JudgedRow(label=True, accepted=True)] * right + [
        JudgedRow(label=True, accepted=False)
    ] * differing
    rows += [JudgedRow(label=False, accepted=False)] * 10
    values: dict[str, Any] = {
        "judge": "openai/m",
        "kind": "answer",
        "fingerprint": "p1",
        "votes": 1,
        "labels": "talks.jsonl",
        "labels_sha256": "0",
        "overall": agreement(rows),
    }
    return Calibration(**{**values, **changes})


def test_a_calibration_is_of_name_prompt_and_kind(data_folder: Path) -> None:
    """Another judge, prompt or kind of matter has none."""
    made = calibration()
    assert remember(made) == ""
    assert find_calibration("openai/m", "p1") == made
    assert [
        find_calibration("openai/n", "p1"),
        find_calibration("openai/m", "p2"),
        find_calibration("openai/m", "p1", RUBRIC),
    ] == [None] * 3
    assert [path.parent for path in data_folder.rglob("*.json")] == [data_folder / "calibrations"]


def test_the_newest_counts() -> None:
    """One file a judge."""
    remember(calibration())
    remember(calibration(5, 5))
    found = find_calibration("openai/m", "p1")
    assert found is not None
    assert found.overall.kappa == pytest.approx(0.5)


def test_names_of_judges_never_leave_the_folder(data_folder: Path) -> None:
    """A judge may be called anything, and two that look alike are still two."""
    one, other = calibration(judge="openai/../../x y"), calibration(judge="openai/..-..-x y")
    remember(one)
    remember(other)
    assert find_calibration("openai/../../x y", "p1") == one
    assert find_calibration("openai/..-..-x y", "p1") == other
    assert len(list((data_folder / "calibrations").iterdir())) == 2


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"judge": "openai/m"}'])
def test_a_damaged_file_is_as_good_as_none(content: bytes, data_folder: Path) -> None:
    """It is told with its place, and nothing stops."""
    remember(calibration())
    (path,) = data_folder.rglob("*.json")
    path.write_bytes(content)
    told: list[str] = []
    assert find_calibration("openai/m", "p1", tell=told.append) is None
    assert len(told) == 1
    assert str(path) in told[0]
    assert find_calibration("openai/m", "p1") is None


def test_numbers_that_cannot_be_are_damage(data_folder: Path) -> None:
    """A kappa above 1 was written by nobody here."""
    remember(calibration())
    (path,) = data_folder.rglob("*.json")
    value = msgspec.json.decode(path.read_bytes())
    value["overall"]["kappa"] = 1.5
    path.write_bytes(msgspec.json.encode(value))
    assert find_calibration("openai/m", "p1") is None


def test_a_file_of_another_judge_is_not_taken(data_folder: Path) -> None:
    """Whoever renames a file changes nothing."""
    remember(calibration())
    (path,) = data_folder.rglob("*.json")
    write(path, calibration(judge="openai/better"))
    assert find_calibration("openai/m", "p1") is None


def test_ones_own_come_before_those_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the package are found by what they say, whatever their file is called."""
    monkeypatch.setattr(calibrations, "SHIPPED", tmp_path / "calibrated")
    shipped, own = calibration(judge="offline"), calibration(5, 5, judge="offline")
    write(tmp_path / "calibrated" / "any.json", shipped)
    assert find_calibration("offline", "p1") == shipped
    remember(own)
    assert find_calibration("offline", "p1") == own


def test_what_comes_with_the_package_can_be_read() -> None:
    """Every file is whole, of the judge as it is now, and of enough labels to speak of."""
    paths = list(calibrations.SHIPPED.glob("*.json"))
    assert paths
    for path in paths:
        found = msgspec.json.decode(path.read_bytes(), type=Calibration)
        assert found.is_of("offline", Panel("offline").fingerprint("answer"), "answer")
        assert (found.overall.n > 100, found.labels) == (True, Path(found.labels).name)


def test_a_part_is_not_remembered(data_folder: Path) -> None:
    """Rows that were not judged, or that --limit cut off, might have changed the picture."""
    for why in (NOT_JUDGED, LIMITED):
        assert why in remember(calibration(left_out={why: 3}))
    assert remember(calibration(left_out={"without a label": 3})) == ""
    assert len(list(data_folder.rglob("*.json"))) == 1


def test_a_folder_that_cannot_be_written_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told, with the variable that names another one."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("ASSAY_DATA", str(tmp_path / "file"))
    assert "ASSAY_DATA" in remember(calibration())
    assert find_calibration("openai/m", "p1") is None


def test_where_it_is_kept(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ASSAY_DATA, else the standard's variable, else the standard's folder."""
    monkeypatch.setenv("XDG_DATA_HOME", "/x")
    monkeypatch.setenv("HOME", "/home/h")
    assert calibrations.calibration_folder() == data_folder / "calibrations"
    monkeypatch.delenv("ASSAY_DATA")
    assert calibrations.calibration_folder() == Path("/x/assay/calibrations")
    monkeypatch.delenv("XDG_DATA_HOME")
    assert calibrations.calibration_folder() == Path("/home/h/.local/share/assay/calibrations")


def test_one_line_for_people() -> None:
    """Kappa with its interval, AUC, how many labels of which file, and their base rate."""
    line = describe_calibration(calibration())
    assert line.startswith("calibrated: kappa 0.90 (0.")
    assert line.endswith("AUC 0.95 on 20 labels of talks.jsonl (base rate 0.50)")
    assert describe_calibration(None) == "not calibrated"
    assert "no kappa" in describe_calibration(
        calibration(overall=agreement([JudgedRow(label=True, accepted=True)]))
    )
    nothing = agreement([JudgedRow(label=True, accepted=None)] * 3)
    assert "no kappa (not one verdict can be read) on 0 labels" in describe_calibration(
        calibration(overall=nothing)
    )
    assert describe_calibration(calibration(overall=nothing)).endswith(", 3 without a verdict")


def test_results_name_their_judge() -> None:
    """Once, with all its metrics, and with what is known of it now rather than then."""
    panel = Panel("offline")
    results: dict[str, Any] = {
        "bm25": {"metrics": [], **about(panel_judge(panel, ["judge"]))},
        "dense": {"metrics": [], **about(panel_judge(panel, ["evidence"], "evidence"))},
        "none": {"metrics": [], **about(panel_judge(panel, ["judge", "more"]))},
        "odd": "no mapping",
    }
    judges = judges_in(results)
    assert [(judge.name, judge.kind, list(judge.metrics)) for judge in judges] == [
        ("offline", "answer", ["judge", "more"]),
        ("offline", "evidence", ["evidence"]),
    ]
    assert [list(judge.metrics) for judge in judges_in(results, "bm25")] == [["judge"]]
    own = calibration(judge="offline", fingerprint=panel.fingerprint("answer"))
    remember(own)
    assert calibration_of(judges[0]) == own
    assert calibration_of(judges[1]) is None
    assert about(panel_judge(panel, ["judge"]))["judge"]["calibration"]["labels"] == "talks.jsonl"


def test_a_calibration_that_is_forgotten_still_stands_in_the_results(data_folder: Path) -> None:
    """A run that was made elsewhere tells what was known there."""
    identity = rubric_judge("openai/m", "p1", ["passed"])
    remember(calibration(kind=RUBRIC))
    results = {"baseline": about(identity)}
    for path in data_folder.rglob("*.json"):
        path.unlink()
    (judge,) = judges_in(results)
    assert calibration_of(judge) == calibration(kind=RUBRIC)


def test_floors() -> None:
    """Unknown and below are refused, with judge, kappa and floor; equal is enough."""
    half = calibration(5, 5)
    assert half.overall.kappa is not None
    assert why_too_weak("openai/m", half, half.overall.kappa) == ""
    assert "not calibrated" in why_too_weak("openai/m", None, -1)
    why = why_too_weak("openai/m", half, 0.7)
    assert all(part in why for part in ("openai/m", "kappa 0.50", "at least 0.7", "talks.jsonl"))
    without = calibration(overall=agreement([]))
    assert "no kappa" in why_too_weak("openai/m", without, -1)


def test_a_refusal_says_what_to_do(data_folder: Path) -> None:
    """The command that measures the judge, and the damaged file if that is why it is unknown."""
    identity = rubric_judge("openai/m", "p1", ["passed"])
    remember(calibration(kind=RUBRIC))
    require_kappa(identity, 0.8)
    (path,) = data_folder.rglob("*.json")
    path.write_text("{")
    with pytest.raises(UsageError, match="assay judge calibrate --judge openai/m --labels FILE") as raised:
        require_kappa(identity, 0.8)
    assert str(path) in str(raised.value)
