"""The labelled set that ships with the package: made by a program, in two languages, of all six kinds."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from benchmarks.labelled.chinese import CHINESE
from benchmarks.labelled.domain import Language
from benchmarks.labelled.english import ENGLISH
from benchmarks.labelled.figures import PAGE, page_with_table
from benchmarks.labelled.kinds import labelled_questions

import assay
from assay.core.judges import BUILT_IN
from assay.scoring.judge import Judge
from assay.scoring.questions import KINDS
from assay.store.calibrations import find_calibration, list_calibrations
from assay.suites.calibration.labels import read_labels
from assay.suites.calibration.suite import CONSTRUCTED

from support.labels import answer, write

ROWS: list[dict[str, Any]] = [json.loads(line) for line in CONSTRUCTED.read_text("utf-8").splitlines()]


def labels_of(row: dict[str, Any]) -> list[str]:
    """The labels of a row, one or several."""
    labels: list[str] = row.get("labels") or [row["label"]]
    return labels


def test_the_program_makes_the_shipped_file() -> None:
    """Byte for byte; `make labels` writes it."""
    made = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in labelled_questions())
    assert made.encode() == CONSTRUCTED.read_bytes()


def test_every_kind_has_enough_labels_in_both_languages() -> None:
    """At least 300, a third of them Chinese, and at least a fifth of each label."""
    counts: Counter[str] = Counter()
    chinese: Counter[str] = Counter()
    by_label: dict[str, Counter[str]] = defaultdict(Counter)
    for row in ROWS:
        counts[row["kind"]] += len(labels_of(row))
        chinese[row["kind"]] += len(labels_of(row)) * row["cluster"].startswith("zh-")
        by_label[row["kind"]].update(labels_of(row))
    assert set(counts) == set(KINDS)
    for kind, count in counts.items():
        assert count >= 300
        assert chinese[kind] * 3 >= count
        if kind != "answer":
            assert min(by_label[kind].values()) * 5 >= count, (kind, by_label[kind])
    assert by_label["answer"]["Correct"] * 3 >= counts["answer"]


def test_every_row_is_read_and_none_is_there_twice() -> None:
    """The reader takes all of them, and no two ask the same."""
    file = read_labels(CONSTRUCTED, {})
    assert (len(file.rows), file.all_left_out) == (len(ROWS), Counter())
    assert len({row.question for row in file.rows}) == len(ROWS)


def test_a_construction_has_one_label() -> None:
    """The label follows from the construction. Rows of several items mix them."""
    labels: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in ROWS:
        labels[row["kind"], row["category"]] |= set(labels_of(row))
    mixed = {category for (_, category), found in labels.items() if len(found) > 1}
    assert mixed == {"several items"}


@pytest.mark.parametrize("language", [ENGLISH, CHINESE])
def test_sentences_are_varied(language: Language) -> None:
    """Many domains, several frames each; every frame has the person, and frames of facts have the value."""
    assert len(language.domains) >= 12
    for domain in language.domains:
        assert min(len(domain.statements), len(domain.values)) >= 5
        for frame in (*domain.statements, *domain.asides, *domain.past, *domain.negations, *domain.changes):
            assert {"{n}", "{v}"} <= set(re.findall(r"\{\w\}", frame)), frame
        for frame in domain.changes:
            assert "{o}" in frame
        forms = [form for value in domain.values for form in value.forms]
        assert len(forms) == len(set(forms))


def test_a_covered_point_has_its_value_among_the_memories() -> None:
    """A point of one item that is covered: some memory has the person and a form of the value."""
    languages = {language.code: language for language in (ENGLISH, CHINESE)}
    for row in ROWS:
        if row["kind"] != "recall" or row["labels"] != ["covered"]:
            continue
        code, _, name = row["cluster"].partition("-")
        (domain,) = [each for each in languages[code].domains if each.name == name]
        (point,) = row["points"]
        value = max(
            (value for value in domain.values if value.forms[0].lower() in point.lower()),
            key=lambda value: len(value.forms[0]),
        )
        person = next(each for each in languages[code].names if each in point)
        holds = [
            memory
            for memory in row["memories"]
            if person in memory and any(form.lower() in memory.lower() for form in value.forms)
        ]
        assert holds, row


def test_built_in_calibrates_all_kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One entry each, and the verdicts that the shipped figures of the judge are made of."""
    monkeypatch.chdir(tmp_path)
    run = assay.run(assay.spec("calibration", labels=BUILT_IN, judge="offline", output_dir="out"))
    assert run.exit_code == 0
    assert run.report is not None
    judges = [judge for entry in run.report.entries for judge in entry.judges]
    assert [judge.kind for judge in judges] == ["answer", *(kind for kind in KINDS if kind != "answer")]
    assert all(judge.calibration is not None and judge.calibration.constructed for judge in judges)
    found = [judge.calibration.verdicts for judge in judges if judge.calibration is not None]
    shipped = [each.verdicts for each in list_calibrations() if each.constructed]
    assert shipped[len(found) :] == found, "run make calibrate-offline"


def test_the_page_has_the_shipped_figures() -> None:
    """`make calibrate-offline` writes them."""
    page = PAGE.read_text("utf-8")
    assert page_with_table(page) == page, "run make calibrate-offline"


def test_labels_of_people_come_before_the_constructed_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In whichever order they are calibrated. Both stay."""
    monkeypatch.chdir(tmp_path)
    labels = write(Path("own.jsonl"), [answer(n, right=n % 2 == 0) for n in range(6)])
    judge = Judge("offline")
    for name in (labels, BUILT_IN, labels):
        assay.run(assay.spec("calibration", labels=name, judge="offline", output_dir="out"))
        found = find_calibration("offline", judge.fingerprint("answer"))
        assert found is not None
        assert found.labels == "own.jsonl"
    update = find_calibration("offline", judge.fingerprint("update"), "update")
    assert update is not None
    assert update.constructed
