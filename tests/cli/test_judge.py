"""`assay judge calibrate`, typed; and judges wherever their scores are shown or decide."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.core.judges import RUBRIC, JudgeInfo
from assay.core.report import Entry, Report
from assay.scoring.judge import Judge
from assay.scoring.judges.rubric import RubricJudge
from assay.store import calibrations
from assay.store.calibrations import find_calibration
from assay.store.judges import judge_info, rubric_judge_info

from servers.loopback import LoopbackServer
from support.labels import answer, even, text, write
from support.pipeline_project import COMMAND, PipelineProject, case, says, typed
from support.runs import Made

JUDGE = "openai/judge"
ROWS = [answer(n, right=n < 5, category="one" if n % 2 else "two") for n in range(9)]
ROWS += [answer(9, right=True, label=False), answer(10, right=True, label=None)]
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory; no judge in the environment, and none that comes with the package."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(calibrations, "SHIPPED", tmp_path / "none")
    for name in ("OPENAI_API_KEY", "OPENAI_MODEL", "JUDGE_MODEL", "OPENAI_MODEL_JUDGE", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    """A judge of rubrics."""
    with LoopbackServer(even) as running:
        yield running


def calibrate(capsys: Captured, *words: str) -> tuple[int, str, str]:
    """The command over ten labelled rows, and one without a label."""
    labels = write(Path("labels.jsonl"), ROWS)
    return typed(capsys, "judge", "calibrate", "--labels", labels, "--output-dir", "out", *words)


def test_a_table_worth_looking_at(capsys: Captured) -> None:
    """Overall and by category, what each said how often, what was left out, and the line that is remembered."""
    code, out, err = calibrate(capsys)
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    for row in (["base", "rate", "0.500", "10"], ["accuracy", "0.900", "10"], ["AUC", "0.900", "10"]):
        assert row in lines
    assert ["balanced", "accuracy", "0.900", "10"] in lines
    assert any(line[:2] == ["kappa", "0.800"] and line[-1] == "10" for line in lines)
    assert ["false", "accepts", "↓", "0.200", "1/5"] in lines
    assert [(line[0], line[3]) for line in lines if line and line[0] in ("one", "two")] == [
        ("one", "4"),
        ("two", "5"),
    ]
    assert "label: wrong              1              4" in out
    assert "left out: 1 row, without a label" in out
    assert "interval of kappa: " in out
    assert "calibrated: kappa 0.80 (" in out
    assert "disagreements.jsonl" in out


def test_a_floor_is_told_with_a_sentence(capsys: Captured) -> None:
    """Exit code 1, and the judge, its kappa and the floor; a quiet run says only that."""
    code, _, err = calibrate(capsys, "--min-kappa", "0.9")
    assert code == 1
    assert "judge offline has kappa 0.80" in err
    assert "at least 0.9" in err
    assert calibrate(capsys, "--min-kappa", "0.9", "--quiet")[:2] == (1, "")
    assert calibrate(capsys, "--min-kappa", "0.8")[0] == 0
    code, _, err = calibrate(capsys, "--min-kappa", "2")
    assert (code, "--min-kappa 2:" in err) == (2, True)


def test_the_newest_command_is_what_is_remembered(capsys: Captured, data_folder: Path) -> None:
    """Also one whose run was finished before; and a file that it is saved to."""
    calibrate(capsys)
    name = ("offline", Judge("offline").fingerprint("answer"))
    made = find_calibration(*name)
    for path in data_folder.rglob("*.json"):
        path.unlink()
    code, out, _ = calibrate(capsys, "--save", "kept/offline.json")
    assert (code, "no requests sent" in out) == (0, True)
    assert made is not None
    assert find_calibration(*name) == made
    assert json.loads(Path("kept/offline.json").read_text())["overall"]["n"] == 10
    Path("file").touch()
    code, _, err = calibrate(capsys, "--save", "file/offline.json")
    assert (code, "file/offline.json cannot be written" in err) == (2, True)


def test_it_is_shown_again(capsys: Captured) -> None:
    """`assay show` has the same table, `assay runs` its kappa."""
    calibrate(capsys)
    assert "label: wrong              1              4" in typed(capsys, "show", "out").out
    assert "labels kappa 0.8000" in typed(capsys, "runs").out
    one = typed(capsys, "show", "out", "0").out
    assert ("boat number 0" in one, "accepted: 1" in one) == (True, True)


def test_bad_labels_are_told_with_their_lines(capsys: Captured) -> None:
    """All of them, and nothing is written."""
    labels = write(Path("bad.jsonl"), [answer(1, right=True, label="?"), {"response": "x", "label": 1}])
    code, _, err = typed(capsys, "judge", "calibrate", "--labels", labels, "--output-dir", "out")
    assert code == 2
    assert err.splitlines()[0].startswith("bad.jsonl:1 $.label: '?' is not a label")
    assert "bad.jsonl:2: the row has no question" in err
    assert not Path("out").exists()


def test_a_model_is_no_judge(capsys: Captured) -> None:
    """Who writes --model means --judge; to calibrate `offline` in its place would mislead."""
    code, _, err = calibrate(capsys, "--model", "openai/judge", "--base-url", "http://127.0.0.1:9/v1")
    assert (code, "--judge, not --model" in err) == (2, True)


def test_help_has_examples(capsys: Captured) -> None:
    out = typed(capsys, "judge", "calibrate", "--help").out
    assert "assay judge calibrate --labels answers_with_votes.json" in out
    assert "--min-kappa" in out


def judged_pipeline(folder: Path) -> None:
    """A pipeline whose only test needs a judge, and a model that counts."""
    lab = PipelineProject(folder)
    lab.pipeline(says("one", "number 4"))
    lab.tests(case(expected_outputs={"one": "judge:It is even."}))


def run_pipeline(capsys: Captured, server: LoopbackServer, *words: str) -> tuple[int, str, str]:
    return typed(capsys, *COMMAND, "--judge", JUDGE, "--base-url", server.url, *words)


def calibrate_rubric(capsys: Captured, server: LoopbackServer, wrong: int) -> None:
    """So many of ten labels say otherwise than the judge."""
    rows = [text(n, label=(n % 2 == 0) != (n < wrong)) for n in range(10)]
    command = ("judge", "calibrate", "--judge", JUDGE, "--base-url", server.url, "--output-dir", "cal")
    assert typed(capsys, *command, "--labels", write(Path("texts.jsonl"), rows)).code == 0
    server.bodies.clear()


def test_a_pipeline_refuses_a_judge_that_is_not_good_enough(
    folder: Path, capsys: Captured, server: LoopbackServer
) -> None:
    """Unknown or below the floor: exit code 2 before the first call. Without a floor it is only told."""
    judged_pipeline(folder)
    code, _, err = run_pipeline(capsys, server, "--min-kappa", "0.7")
    assert (code, server.bodies) == (2, [])
    assert "openai/judge is not calibrated" in err
    assert "assay judge calibrate --judge openai/judge" in err
    calibrate_rubric(capsys, server, wrong=3)
    code, _, err = run_pipeline(capsys, server, "--min-kappa", "0.7")
    assert (code, server.bodies) == (2, [])
    assert "kappa 0.40" in err
    assert "at least 0.7" in err
    assert not Path("out").exists()
    code, out, _ = run_pipeline(capsys, server)
    assert (code, len(server.bodies)) == (0, 1)
    assert "judge openai/judge (passed): calibrated: kappa 0.40" in out
    assert run_pipeline(capsys, server, "--min-kappa", "0.4")[0] == 0


def test_a_judge_that_was_edited_is_another_judge(folder: Path, capsys: Captured) -> None:
    """A function of the user: its calibration is that of what the file held, and so are its verdicts."""
    judged_pipeline(folder)
    source = folder / "judging.py"
    source.write_text(
        "def judge(messages, params):\n"
        "    number = int(messages[-1]['content'].rpartition('number ')[2].split()[0])\n"
        "    return '{\"passed\": %s}' % ('false' if number % 2 else 'true')\n"
    )
    named = ("--judge", "python/judging.py:judge")
    rows = [text(n, label=n % 2 == 0) for n in range(10)]
    labels = write(Path("texts.jsonl"), rows)
    assert typed(capsys, "judge", "calibrate", *named, "--labels", labels, "--output-dir", "cal").code == 0
    floor = ("--min-kappa", "0.9")
    assert typed(capsys, *COMMAND, *named, *floor).code == 0
    source.write_text(source.read_text().replace("% ('false'", "% ('true' if False else 'false'"))
    code, _, err = typed(capsys, *COMMAND, *named, *floor)
    assert (code, "is not calibrated" in err) == (2, True)
    assert typed(capsys, *COMMAND, *named).code == 0
    source.write_text(source.read_text().replace("else 'true')", "else 'false')"))
    assert typed(capsys, *COMMAND, *named).code == 1


def test_a_pipeline_without_a_judges_check_needs_none(folder: Path, capsys: Captured) -> None:
    """A floor is no reason to refuse what no judge decides."""
    lab = PipelineProject(folder)
    lab.pipeline(says("one", "4"))
    lab.tests(case(expected_outputs={"one": "4"}))
    code, out, _ = typed(capsys, *COMMAND, "--min-kappa", "0.9")
    assert (code, "calibrated" in out) == (0, False)


def test_a_later_calibration_is_shown_for_earlier_runs(folder: Path, capsys: Captured, server: LoopbackServer) -> None:
    """`assay show` looks it up again; a damaged file is told and stops nothing."""
    judged_pipeline(folder)
    run_pipeline(capsys, server)
    assert "judge openai/judge (passed): not calibrated" in typed(capsys, "show", "out").out
    calibrate_rubric(capsys, server, wrong=0)
    assert "judge openai/judge (passed): calibrated: kappa 1.00" in typed(capsys, "show", "out").out
    (path,) = calibrations.calibration_folder().glob("*.json")
    path.write_text("{")
    shown = typed(capsys, "show", "out")
    assert (shown.code, "not calibrated" in shown.out, str(path) in shown.err) == (0, True, True)


def made_run(name: str, values: dict[str, float], *judges: JudgeInfo) -> str:
    """A run whose scores these judges gave."""
    run = Made(Path(name) / "assay" / f"{name}-made-0")
    for key, value in values.items():
        run.case(key, [{"metric": "passed", "value": value}], subject="m")
    return str(run.finish(report=Report(entries=[Entry(name="m", judges=list(judges))])))


def test_a_comparison_is_not_decided_by_a_judge_below_the_floor(capsys: Captured, server: LoopbackServer) -> None:
    """Unknown or below: exit code 2 with judge, kappa and floor, whether something got worse or not."""
    fingerprint = RubricJudge().fingerprint
    judge = rubric_judge_info(JUDGE, fingerprint, ["passed"])
    base = made_run("base", {"a": 1.0, "b": 1.0}, judge)
    worse, same = (
        made_run("worse", {"a": 1.0, "b": 0.0}, judge),
        made_run("same", {"a": 1.0, "b": 1.0}, judge),
    )
    gate = ("--fail-on-regression", "--min-kappa", "0.7")
    for new in (worse, same):
        code, out, err = typed(capsys, "compare", base, new, *gate)
        assert (code, "openai/judge is not calibrated" in err) == (2, True)
        assert "judge openai/judge (passed): not calibrated" in out
    calibrate_rubric(capsys, server, wrong=3)
    assert find_calibration(JUDGE, fingerprint, RUBRIC) is not None
    code, _, err = typed(capsys, "compare", base, worse, *gate)
    assert code == 2
    assert err.startswith("passed cannot decide here: judge openai/judge has kappa 0.40")
    assert err.count("cannot decide") == 1
    low = ("--fail-on-regression", "--min-kappa", "0.4")
    assert [typed(capsys, "compare", base, new, *low).code for new in (worse, same)] == [1, 0]
    assert typed(capsys, "compare", base, worse, "--fail-on-regression").code == 1


def test_numbers_without_a_judge_decide_as_ever(capsys: Captured) -> None:
    """Only metrics that the judge gave are refused; a floor without a gate is a slip."""
    judge = judge_info(Judge("offline"), ["answer_correct"])
    base, worse = made_run("base", {"a": 1.0}, judge), made_run("worse", {"a": 0.0})
    gate = ("--fail-on-regression", "--min-kappa", "0.7")
    assert typed(capsys, "compare", base, worse, *gate).code == 1
    code, _, err = typed(capsys, "compare", base, worse, "--min-kappa", "0.7")
    assert (code, "--fail-on-regression" in err) == (2, True)


def test_the_command_that_calibrates_has_the_votes(capsys: Captured) -> None:
    """Without them it would measure another judge, and the next refusal would be the same."""
    judge = judge_info(Judge(JUDGE, 3), ["passed"])
    runs = [made_run(name, {"1": 1.0}, judge) for name in ("base", "new")]
    code, _, err = typed(capsys, "compare", *runs, "--fail-on-regression", "--min-kappa", "0.7")
    assert (code, f"calibrate --judge {JUDGE} --votes 3 --labels FILE" in err) == (2, True)


def test_a_comparison_as_json_names_the_judges(capsys: Captured) -> None:
    """With what is known of each."""
    judge = judge_info(Judge("offline"), ["passed"])
    base, new = made_run("base", {"a": 1.0}, judge), made_run("new", {"a": 1.0}, judge)
    found = json.loads(typed(capsys, "compare", base, new, "--json").out)
    (one,) = found["comparisons"][0]["new"]["judges"]
    assert (one["name"], one["metrics"], one["calibration"]) == ("offline", ["passed"], None)
