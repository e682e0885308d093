"""Labels for questions about memories: their rows, and calibrations of several kinds in one run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import InputError
from assay.core.judges import Calibration, Share
from assay.scoring.judge import Judge
from assay.scoring.questions import (
    COVERED,
    KINDS,
    MISSED,
    CorrectnessQuestion,
    EvidenceQuestion,
    InterferenceQuestion,
    JudgeQuestion,
    RecallQuestion,
    UpdateQuestion,
    Verdict,
)
from assay.store.calibrations import find_calibration
from assay.suites.calibration.labels import TIED, UNLABELLED, read_labels

from servers.judging import JudgingServer
from support.labels import answer, write

JUDGE = "openai/judge"
RECALL: dict[str, Any] = {
    "kind": "recall",
    "points": ["Ada moved.", "Bob sings."],
    "memories": ["Ada moved."],
}
ROWS: dict[str, dict[str, Any]] = {
    "recall": RECALL | {"updates": [True, False], "labels": ["covered", "missed"]},
    "evidence": {"kind": "evidence", "evidence": ["Ada moved."], "memories": [], "label": "missed"},
    "correctness": {
        "kind": "correctness",
        "points": ["Ada moved."],
        "earlier_points": ["Bob sings."],
        "memories": ["Ada moved.", "Hi!"],
        "labels": ["correct", "Irrelevant "],
    },
    "update": {
        "kind": "update",
        "new": "Ada lives in Oslo.",
        "old": ["Ada lives in Rome."],
        "memories": ["Ada lives in Rome."],
        "label": "outdated",
    },
    "interference": {
        "kind": "interference",
        "content": "Buy soap.",
        "memories": ["Bob said: buy soap."],
        "label": {"ann": "memorized", "ben": "memorized", "cem": "rejected"},
    },
}
QUESTIONS: dict[str, JudgeQuestion] = {
    "recall": RecallQuestion(("Ada moved.", "Bob sings."), (True, False), ("Ada moved.",)),
    "evidence": EvidenceQuestion(("Ada moved.",), ()),
    "correctness": CorrectnessQuestion(("Ada moved.",), ("Bob sings.",), ("Ada moved.", "Hi!")),
    "update": UpdateQuestion("Ada lives in Oslo.", ("Ada lives in Rome.",), ("Ada lives in Rome.",)),
    "interference": InterferenceQuestion("Buy soap.", ("Bob said: buy soap.",)),
}
LABELS = {
    "recall": ("covered", "missed"),
    "evidence": ("missed",),
    "correctness": ("correct", "irrelevant"),
    "update": ("outdated",),
    "interference": ("memorized",),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, and no judge in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "OPENAI_MODEL", "JUDGE_MODEL", "OPENAI_MODEL_JUDGE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def calibrate(rows: list[dict[str, Any]], **options: Any) -> assay.Run:
    """A run over these rows."""
    labels = write(Path("labels.jsonl"), rows)
    return assay.run(assay.spec("calibration", labels=labels, output_dir="out", **options))


def by_kind(run: assay.Run) -> dict[str, Calibration]:
    """The calibrations of a run's report by kind, in order."""
    assert run.report is not None
    calibrations = [judge.calibration for entry in run.report.entries for judge in entry.judges]
    return {each.kind: each for each in calibrations if each is not None}


@pytest.mark.parametrize("kind", ROWS)
def test_every_kind_has_its_fields(kind: str) -> None:
    """In JSON lines and in a document; items of one question belong together for the interval."""
    file = read_labels(Path(write(Path("l.jsonl"), [ROWS[kind]])), {})
    Path("l.json").write_text(json.dumps({"rows": [ROWS[kind]]}))
    document = read_labels(Path("l.json"), {})
    for row in (*file.rows, *document.rows):
        assert (row.question, row.labels) == (QUESTIONS[kind], LABELS[kind])
        assert row.cluster == (row.place if len(row.labels) > 1 else None)
    assert (len(file.rows), len(document.rows)) == (1, 1)


@pytest.mark.parametrize(
    ("row", "field", "message"),
    [
        ({"kind": "recal", "points": ["a"]}, "kind", "did you mean 'recall'"),
        (RECALL | {"labels": ["covered"]}, "labels", "a list of 2 labels, one for each of `points`; found 1"),
        (RECALL | {"labels": "covered"}, "labels", "found no list"),
        (RECALL | {"label": "covered"}, "labels", "found no list"),
        (
            RECALL | {"labels": ["covered", "Correct"]},
            "labels[1]",
            "'Correct' is not a label; write covered or",
        ),
        (
            RECALL | {"updates": [True], "labels": ["covered"] * 2},
            "updates",
            "a list of 2 times true or false",
        ),
        ({"kind": "update", "old": [], "memories": [], "label": "both"}, "new", "needs a text"),
        ({"kind": "evidence", "evidence": ["a"], "label": "covered"}, "memories", "needs a list of texts"),
        (ROWS["update"] | {"label": "missed"}, "label", "write updated or both or outdated"),
    ],
)
def test_wrong_rows_are_refused_with_their_place(row: dict[str, Any], field: str, message: str) -> None:
    """Before the first call, with the field."""
    with pytest.raises(InputError) as raised:
        read_labels(Path(write(Path("l.jsonl"), [row])), {})
    (problem,) = raised.value.problems
    assert problem.where == f"l.jsonl:1 $.{field}"
    assert message in problem.message


def test_items_without_a_label_are_left_out_and_counted() -> None:
    """null, and as many votes for one label as for another."""
    rows: list[dict[str, Any]] = [
        RECALL | {"labels": ["covered", None]},
        RECALL | {"labels": [["covered", "missed"], "missed"]},
        RECALL,
    ]
    file = read_labels(Path(write(Path("l.jsonl"), rows)), {})
    assert [row.labels for row in file.rows] == [("covered", None), (None, "missed")]
    assert file.left_out == {"recall": {UNLABELLED: 3, TIED: 1}}


def test_a_field_called_kind_in_a_labelled_answer_is_its_own_affair() -> None:
    """Data sets have such fields, with any content."""
    rows = [answer(1, right=True, kind="factoid"), answer(2, right=True, kind=["x"]), answer(3, right=True)]
    assert len(read_labels(Path(write(Path("l.jsonl"), rows)), {}).rows) == 3


def test_one_file_calibrates_several_kinds() -> None:
    """One entry each, answers first; each is stored for its kind alone, and in one file with --save."""
    rows = [answer(n, right=n % 2 == 0) for n in range(4)]
    rows += [
        {
            "kind": "recall",
            "points": [f"Ada has {n} boats"],
            "memories": [f"Ada has {n} boats"],
            "label": label,
        }
        for n, label in enumerate(["covered", "missed"])
    ]
    rows += [ROWS["update"]]
    run = calibrate(rows, save="saved.json")
    found = by_kind(run)
    assert run.exit_code == 0
    assert list(found) == ["answer", "recall", "update"]
    assert run.report is not None
    assert [entry.name for entry in run.report.entries] == ["answer", "recall", "update"]
    assert [found[kind].overall.n for kind in found] == [4, 2, 1]
    assert found["recall"].overall.false_accepts == Share(1, 1)
    assert found["recall"].verdicts == {"covered": {"covered": 1}, "missed": {"covered": 1}}
    judge = Judge("offline")
    for kind, calibration in found.items():
        assert find_calibration("offline", judge.fingerprint(kind), kind) == calibration
    saved = json.loads(Path("saved.json").read_text())
    assert saved == json.loads((run.folder / "calibration.json").read_text())
    assert [each["kind"] for each in saved] == list(found)
    assert run.report.entries[1].tables[0].rows == [["label: covered", 1, 0], ["label: missed", 1, 0]]


def test_a_model_is_asked_once_for_all_items_of_a_question() -> None:
    """Each item is a label of its own. A verdict that cannot be read leaves all of them out, counted."""

    def judge(question: JudgeQuestion) -> Verdict:
        assert isinstance(question, RecallQuestion)
        return Verdict(tuple(COVERED if "x" in point else MISSED for point in question.points))

    rows: list[dict[str, Any]] = [
        {"kind": "recall", "points": ["x1", "y1"], "memories": ["m"], "labels": ["covered", "covered"]},
        {"kind": "recall", "points": ["x2", "y2"], "memories": ["m"], "labels": ["covered", "missed"]},
        {"kind": "recall", "points": ["bad", "y3"], "memories": ["m"], "labels": ["covered", None]},
    ]
    spoil = lambda question, _: "prose" if "bad" in question.points else ""  # noqa: E731
    with JudgingServer(judge, spoil) as server:
        run = calibrate(rows, judge=JUDGE, base_url=server.url)
        assert calibrate(rows, judge=JUDGE, base_url=server.url).asked is False
    assert server.asked("recall") == 4
    overall = by_kind(run)["recall"].overall
    assert (overall.n, overall.invalid, overall.accuracy, overall.clusters) == (4, 1, 0.75, 2)
    assert by_kind(run)["recall"].verdicts == {
        "covered": {"covered": 2, "missed": 1, "invalid": 1},
        "missed": {"missed": 1},
    }
    lines = [json.loads(line) for line in (run.folder / "disagreements.jsonl").read_text().splitlines()]
    assert [(line["what"], line["item"]) for line in lines] == [
        ("covered judged as missed", 2),
        ("invalid", 1),
    ]
    assert lines[0]["points"] == ["x1", "y1"]


def test_labels_of_memories_never_reach_the_judge() -> None:
    """Neither do categories."""
    with JudgingServer() as server:
        calibrate([*ROWS.values()], judge=JUDGE, base_url=server.url)
        sent = json.dumps([body["messages"] for body in server.bodies])
    assert '"ann"' not in sent
    assert {question.kind for question in server.questions} == {*ROWS} - {"evidence"}


def test_each_kind_must_reach_the_minimum() -> None:
    """The reason names the kind."""
    rows = [*(answer(n, right=n % 2 == 0) for n in range(6)), ROWS["update"]]
    run = calibrate(rows, min_kappa=0.5)
    assert run.exit_code == 1
    assert run.report is not None
    assert run.report.why.startswith("Kappa of update is not defined")


def test_answers_with_three_labels_have_a_table_of_them() -> None:
    """Kappa is that of right and wrong; the table shows which wrong answers are confused."""
    rows = [
        answer(1, right=True, label="Correct"),
        answer(2, right=False, label="Omission"),
        answer(3, right=False, label="Hallucination"),
    ]
    result = by_kind(calibrate(rows))["answer"]
    assert result.overall.kappa == 1.0
    assert set(result.verdicts) == {"Correct", "Omission", "Hallucination"}


def test_kinds_have_the_same_columns() -> None:
    """Several kinds share one table, so a column does not name the label of one of them; the notes do."""
    run = calibrate([ROWS["recall"], ROWS["update"]])
    assert run.report is not None
    recall, update = run.report.entries
    labels = [[metric.label for metric in entry.metrics] for entry in (recall, update)]
    assert labels[0] == labels[1]
    assert {"false accepts", "false rejects"} <= set(labels[0])
    assert [entry.notes[0] for entry in (recall, update)] == [
        'accepted means: judged as "covered"',
        'accepted means: judged as "updated"',
    ]


def test_limits_count_for_the_kinds_that_they_cut() -> None:
    """A calibration is stored if its own kind is complete."""
    rows = [answer(n, right=n % 2 == 0) for n in range(4)] + [ROWS["recall"], ROWS["recall"] | {"id": 2}]
    found = by_kind(calibrate(rows, limit=5))
    assert (found["answer"].left_out, found["recall"].left_out) == ({}, {"beyond --limit": 2})
    judge = Judge("offline")
    assert find_calibration("offline", judge.fingerprint("answer")) == found["answer"]
    assert find_calibration("offline", judge.fingerprint("recall"), "recall") != found["recall"]


def test_every_kind_can_be_labelled() -> None:
    """The questions of a judge and the kinds of rows are the same."""
    assert {*ROWS, "answer"} == set(KINDS)
