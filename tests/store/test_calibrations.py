"""Calibrations of judges are saved and found again, and --min-kappa refuses weak judges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.core.errors import UsageError
from assay.core.judges import LIMITED, NOT_JUDGED, RUBRIC, Calibration, JudgeInfo
from assay.scoring.agreement import JudgedRow, agreement
from assay.scoring.judge import Judge
from assay.scoring.questions import KINDS
from assay.store import calibrations
from assay.store.calibrations import (
    describe_calibration,
    find_calibration,
    save_calibration,
    write_calibrations,
)
from assay.store.judges import (
    calibration_of,
    judge_info,
    kappa_problem,
    require_kappa,
    rubric_judge_info,
    with_calibration,
)


def calibration(right: int = 9, differing: int = 1, **changes: Any) -> Calibration:
    """A judge that accepts so many of ten right answers, and rejects all of ten wrong ones."""
    rows = [JudgedRow(label=True, verdict=True)] * right + [JudgedRow(label=True, verdict=False)] * differing
    rows += [JudgedRow(label=False, verdict=False)] * 10
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
    assert save_calibration(made) == ""
    assert find_calibration("openai/m", "p1") == made
    assert [
        find_calibration("openai/n", "p1"),
        find_calibration("openai/m", "p2"),
        find_calibration("openai/m", "p1", RUBRIC),
    ] == [None] * 3
    assert [path.parent for path in data_folder.rglob("*.json")] == [data_folder / "calibrations"]


def test_the_newest_counts() -> None:
    """One file a judge."""
    save_calibration(calibration())
    save_calibration(calibration(5, 5))
    stored = find_calibration("openai/m", "p1")
    assert stored is not None
    assert stored.overall.kappa == pytest.approx(0.5)


def test_names_of_judges_never_leave_the_folder(data_folder: Path) -> None:
    """A judge may be called anything, and two that look alike are still two."""
    one, other = calibration(judge="openai/../../x y"), calibration(judge="openai/..-..-x y")
    save_calibration(one)
    save_calibration(other)
    assert find_calibration("openai/../../x y", "p1") == one
    assert find_calibration("openai/..-..-x y", "p1") == other
    assert len(list((data_folder / "calibrations").iterdir())) == 2


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"judge": "openai/m"}'])
def test_a_damaged_file_is_as_good_as_none(content: bytes, data_folder: Path) -> None:
    """A damaged file is skipped with a warning that names it."""
    save_calibration(calibration())
    (path,) = data_folder.rglob("*.json")
    path.write_bytes(content)
    warnings: list[str] = []
    assert find_calibration("openai/m", "p1", warn=warnings.append) is None
    assert len(warnings) == 1
    assert str(path) in warnings[0]
    assert find_calibration("openai/m", "p1") is None


def test_numbers_that_cannot_be_are_damage(data_folder: Path) -> None:
    """A kappa above 1 was written by nobody here."""
    save_calibration(calibration())
    (path,) = data_folder.rglob("*.json")
    value = msgspec.json.decode(path.read_bytes())
    value["overall"]["kappa"] = 1.5
    path.write_bytes(msgspec.json.encode(value))
    assert find_calibration("openai/m", "p1") is None


def test_a_file_of_another_judge_is_not_taken(data_folder: Path) -> None:
    """Whoever renames a file changes nothing."""
    save_calibration(calibration())
    (path,) = data_folder.rglob("*.json")
    write_calibrations(path, [calibration(judge="openai/better")])
    assert find_calibration("openai/m", "p1") is None


def test_ones_own_come_before_those_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the package are found by what they say, whatever their file is called."""
    monkeypatch.setattr(calibrations, "SHIPPED", tmp_path / "calibrated")
    shipped, own = calibration(judge="offline"), calibration(5, 5, judge="offline")
    write_calibrations(tmp_path / "calibrated" / "any.json", [shipped])
    assert find_calibration("offline", "p1") == shipped
    save_calibration(own)
    assert find_calibration("offline", "p1") == own


def test_what_comes_with_the_package_can_be_read() -> None:
    """Votes on answers, and all kinds on the constructed set. Each is of the judge as it is now, and of many labels."""
    judge = Judge("offline")
    shipped = calibrations.list_calibrations()
    for stored in shipped:
        assert stored.is_of("offline", judge.fingerprint(stored.kind), stored.kind)
        assert (stored.overall.n > 100, stored.labels) == (True, Path(stored.labels).name)
    sources = {(stored.kind, stored.constructed) for stored in shipped}
    assert sources == {("answer", False), *((kind, True) for kind in KINDS)}
    votes = find_calibration("offline", judge.fingerprint("answer"))
    assert votes is not None
    assert not votes.constructed


def test_a_part_is_not_remembered(data_folder: Path) -> None:
    """Rows that were not judged, or that --limit cut off, might have changed the picture."""
    for why in (NOT_JUDGED, LIMITED):
        assert why in save_calibration(calibration(left_out={why: 3}))
    assert save_calibration(calibration(left_out={"without a label": 3})) == ""
    assert len(list(data_folder.rglob("*.json"))) == 1


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the variable that sets another folder."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("ASSAY_DATA", str(tmp_path / "file"))
    assert "ASSAY_DATA" in save_calibration(calibration())
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
    row = JudgedRow(label=True, verdict=True)
    assert " on 1 label of talks.jsonl" in describe_calibration(calibration(overall=agreement([row])))
    assert "no kappa" in describe_calibration(calibration(overall=agreement([JudgedRow(label=True, verdict=True)])))
    nothing = agreement([JudgedRow(label=True, verdict=None)] * 3)
    assert "not calibrated: the judge gave no valid verdict on" in describe_calibration(calibration(overall=nothing))


def test_a_judge_has_the_newest_calibration_of_its_kind() -> None:
    """A calibration that is saved later replaces the shipped one; it says nothing about other kinds."""
    judge = Judge("offline")
    answers = judge_info(judge, ["judge"])
    evidence = judge_info(judge, ["evidence"], "evidence")
    before = with_calibration(evidence).calibration
    saved = calibration(judge="offline", fingerprint=judge.fingerprint("answer"))
    save_calibration(saved)
    assert calibration_of(answers) == saved
    assert calibration_of(evidence) == before != saved
    assert with_calibration(answers).calibration == saved


def test_a_deleted_calibration_is_still_in_the_report(data_folder: Path) -> None:
    """A run that was made elsewhere shows the calibration of that machine."""
    save_calibration(calibration(kind=RUBRIC))
    judge = with_calibration(rubric_judge_info("openai/m", "p1", ["passed"]))
    for path in data_folder.rglob("*.json"):
        path.unlink()
    read_again = msgspec.json.decode(msgspec.json.encode(judge), type=JudgeInfo)
    assert calibration_of(read_again) == calibration(kind=RUBRIC)


def test_floors() -> None:
    """Unknown and below are refused, with judge, kappa and floor; equal is enough."""
    half = calibration(5, 5)
    assert half.overall.kappa is not None
    judge = rubric_judge_info("openai/m", "p1", ["passed"])
    assert kappa_problem(judge, half, half.overall.kappa) == ""
    assert "not calibrated for rubrics" in kappa_problem(judge, None, -1)
    why = kappa_problem(judge, half, 0.7)
    assert all(part in why for part in ("openai/m", "kappa 0.50", "at least 0.7", "talks.jsonl"))
    without = calibration(overall=agreement([]))
    assert "no kappa" in kappa_problem(judge, without, -1)


def test_a_refusal_says_what_to_do(data_folder: Path) -> None:
    """The command that measures the judge, and the damaged file if that is why it is unknown."""
    identity = rubric_judge_info("openai/m", "p1", ["passed"])
    save_calibration(calibration(kind=RUBRIC))
    require_kappa([identity], 0.8)
    (path,) = data_folder.rglob("*.json")
    path.write_text("{")
    with pytest.raises(UsageError, match="assay judge calibrate --judge openai/m --labels FILE") as raised:
        require_kappa([identity], 0.8)
    assert str(path) in str(raised.value)
