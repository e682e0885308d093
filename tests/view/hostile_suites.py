"""Runs of suites whose every record and score has a hostile text, for the pages that know what suites record."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from assay.core.report import Curve, Entry, Metric, Point, Report, Slice
from assay.core.types import ASK, End, Record, Score
from assay.journal.journal import Journal
from assay.journal.run_files import FILES, RunInfo, Summary, write_info, write_summary
from assay.journal.spending import CallCounts
from view.hostile import SCORER, STRINGS


def write_hostile_suite(folder: Path, suite: str) -> Path:
    """Write a run of `memory-eval`, `memory-test` or `pipeline`. Case N has the Nth text in every field of the suite."""
    folder.mkdir(parents=True)
    for name in FILES:
        (folder / name).touch()
    journal = Journal(folder, [SCORER], [])
    for number, text in enumerate(STRINGS):
        head = (number, text, text, text)
        records, scores = _SUITES[suite](text)
        end = End(*head, ASK, 1, "ok", [], label=text, seconds=0.1)
        journal.end_case(end, [Record(*head, 1, kind, part, data) for kind, part, data in records])
        told = [
            Score(
                *head,
                SCORER,
                metric,
                part,
                value=0.0,
                reason=text,
                data=data,
                expected=text,
                label=text,
                tags=(text,),
            )
            for metric, part, data in scores
        ]
        journal.end_scoring(End(*head, SCORER, 1, "ok", []), told)
    journal.close()
    info = RunInfo(
        suite=suite,
        ask="a",
        started=1_700_000_000.0,
        version="0",
        total=len(STRINGS),
        command=[],
        spec={"model": STRINGS[0]},
        parts={},
        facts={},
        score_parts="rows",
    )
    write_info(folder, info)
    metric = Metric(name="recall", label=STRINGS[0], value=0.5, denominator=4, unit=STRINGS[3])
    entries = [
        Entry(
            name=text,
            subject=text,
            metrics=[metric],
            slices=[Slice(by="category", name=each, label=each) for each in STRINGS],
            curves=[Curve(name=each, x=each, title=each, points=[Point(4.0, metric)]) for each in STRINGS],
        )
        for text in STRINGS[:3]
    ]
    summary = Summary(
        state="finished",
        score="1",
        scorers=[SCORER],
        total=len(STRINGS),
        ok=len(STRINGS),
        subject_error=0,
        infra_error=0,
        exit_code=0,
        seconds=1.0,
        spent=CallCounts(),
        this_start={},
        files=[],
        report=Report(entries=entries),
    )
    write_summary(folder, summary)
    return folder


Lines = list[tuple[str, str, Any]]


def _memory_eval(text: str) -> tuple[Lines, Lines]:
    item = {"op": "add", "id": text, "text": text, "session": text}
    update = {"op": "update", "id": text, "text": f"{text} again", "session": text, "linked": [text]}
    answer = {"found": [[text, 0.5]], "cited": [0], "answer": text, "search_seconds": 0.0}
    part = f"{text}/1"
    records = [
        ("session", text, {"delta": [item]}),
        ("session", f"{text}~", {"delta": [update]}),
        ("answer", part, answer),
    ]
    data = {
        "answer": text,
        "type": text,
        "difficulty": text,
        "labels": [text],
        "evidence": [text],
        "votes": [[text, 2]],
    }
    metrics = ("f1", "answer", "evidence", "retrieved_evidence")
    return records, [*((metric, part, data) for metric in metrics), ("recall", text, {"labels": [text]})]


def _memory_test(text: str) -> tuple[Lines, Lines]:
    parts = ("1/1", "2/1")
    answers = [{"test": test, "question": 1, "answer": text, "hits": [[text, text]], "error": None} for test in (1, 2)]
    data = {"category": text, "label": text, "evidence": [text]}
    scores = [(metric, part, data) for part in parts for metric in ("judged", "evidence_recall")]
    return [("answer", part, answer) for part, answer in zip(parts, answers, strict=True)], scores


def _pipeline(text: str) -> tuple[Lines, Lines]:
    step = {"status": text, "output": text, "error": text, "seconds": 0.05}
    check = {
        "of": text,
        "step": text,
        "path": text,
        "kind": text,
        "passed": False,
        "expected": text,
        "actual": text,
        "why": text,
    }
    data = {"verdict": text, "checks": [check], "first_wrong": {"step": text}}
    return [("step", f"{text}/{text}", step), ("answer", text, {"outputs": {text: text}})], [("passed", text, data)]


_SUITES: dict[str, Callable[[str], tuple[Lines, Lines]]] = {
    "memory-eval": _memory_eval,
    "memory-test": _memory_test,
    "pipeline": _pipeline,
}
