"""Writes runs of the memory test as SAGE's files with assay's `summary.json`, for `assay export`.

A native run has written these files itself, so they are copied. Those of an imported run are made from its journal and
its report.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec

from assay.core.exported import ExportedRun, Exporter
from assay.core.report import Entry, Metric, Point
from assay.core.suite_pages import StoredCase
from assay.core.types import Failure
from assay.files.write import write_json
from assay.formats.sage.file import ImportedConversation
from assay.formats.sage.results import IMPORTED
from assay.scoring.purpose_table import NAME as USAGE_TABLE, purpose_numbers_of
from assay.store.category_curves import BY_AGE, OF_TESTS
from assay.store.runs import changed_file_message
from assay.suites.memory.conversation import AnswerRecord, read_answers
from assay.suites.memory.test.conversation import ConversationQuestion
from assay.suites.memory.test.scorers import JUDGED
from assay.suites.memory.test.sink import SUMMARY, QuestionResult, time_stamp

_SUITE = "memory-test"


class SageExporter(Exporter):
    """Writes DATASET/TIME/0000.json, in a folder for each memory if there are several."""

    def refusal(self, run: ExportedRun) -> str:
        """Refuse runs of other suites, and a native run whose files are gone or were overwritten."""
        if run.about.suite != _SUITE:
            return "the format has conversations with tests, which only runs of `assay memory test` have"
        return "" if run.about.imported is not None else changed_file_message(run.about.folder)

    def loses(self, run: ExportedRun) -> list[str]:
        """Return what the files have no place for."""
        lost = ["requests and replies", "how intervals were computed"]
        if run.about.imported is None:
            lost += ["tokens of each answer", "messages behind retrieved items"]
        if any(metric.name == JUDGED for _, metric in run.report.metrics()):
            lost.append("the judge's verdict on each answer")
        return lost

    def write(self, run: ExportedRun, target: Path) -> list[Path]:
        """Copy the run's own files, or write new ones."""
        several = len(run.report.entries) > 1
        if run.about.imported is None:
            copies = []
            for path in run.about.files:
                # MEMORY/DATASET/TIME/0000.json; without MEMORY if the run has one memory.
                copy = target.joinpath(*path.absolute().parts[-4 if several else -3 :])
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
                copies.append(copy)
            return copies
        dataset = str(run.about.facts["dataset"])
        folders = {
            entry.name: (target / entry.name if several else target) / dataset / time_stamp(run.about.started)
            for entry in run.report.entries
        }
        files: list[Path] = []
        failures: dict[str, list[dict[str, str]]] = {name: [] for name in folders}
        for folder in folders.values():
            folder.mkdir(parents=True)
        for case in run.cases(calls=False):
            subject, failure = case.end.subject, case.end.failure
            if failure is not None:
                failures[subject].append(_failure(case, failure))
                continue
            (record,) = [record for record in case.records if record.kind == IMPORTED]
            conversation = msgspec.convert(record.data, ImportedConversation)
            name = str(conversation.experiment_info.task_id) or case.end.label
            files.append(write_json(folders[subject] / f"{name}.json", _document(conversation, case)))
        for entry in run.report.entries:
            summary = {
                "run": run.about.folder.name,
                "dataset": dataset,
                "memory": entry.name,
                "model": run.model,
            }
            summary |= _summary(entry) | {"failures": failures[entry.name]}
            files.append(write_json(folders[entry.name] / SUMMARY, summary))
        return files


def _failure(case: StoredCase, failure: Failure) -> dict[str, str]:
    # The number of the conversation was in no file, so its id stands in its place.
    return {"task_id": case.end.label, "sample_id": case.end.label, "reason": failure.message}


def _document(conversation: ImportedConversation, case: StoredCase) -> dict[str, Any]:
    """Return the content of the file of one conversation."""
    tests: list[dict[str, Any]] = [
        {
            "test_index": number,
            "question_range": {"start": 1, "end": 0},
            "dialogs_inserted_count": after,
            "questions": [],
        }
        for number, after in enumerate(conversation.tests, 1)
    ]
    for _, answer in read_answers(case.records):
        test = tests[answer.test - 1]
        test["questions"].append(_question(conversation, answer))
        test["question_range"]["end"] += 1
    return {
        "experiment_info": msgspec.to_builtins(conversation.experiment_info),
        "dataset_statistics": conversation.dataset_statistics,
        "test_summary": {"total_tests": len(tests), "test_threshold": conversation.test_threshold},
        "test_results": tests,
    }


def _question(conversation: ImportedConversation, answer: AnswerRecord) -> dict[str, Any]:
    question = conversation.questions[answer.question - 1]
    seconds = {"search_seconds": answer.search_seconds, "answer_seconds": answer.answer_seconds}
    timings = {name: value for name, value in seconds.items() if value}
    value = QuestionResult(
        question_index=answer.question,
        question=ConversationQuestion(
            text=question.question_text,
            reference=question.reference_answer,
            metadata=question.metadata,
            source_index=question.source_index or 0,
        ),
        predicted_answer=answer.answer,
        error=answer.error,
        retrieved=[hit[0] for hit in answer.hits] if conversation.retrieved else None,
        timings=timings or None,
    ).to_json()
    if question.source_index is None:
        del value["source_index"]
    return value


# summary.json from the report


def _summary(entry: Entry) -> dict[str, Any]:
    """Return the numbers of a report's entry in the form of `MemoryTally.summary`."""
    counts = dict(entry.counts)
    counts["answers"] = counts.pop("asked", 0)
    curves = {curve.name: curve for curve in entry.curves}
    metric = next((name for name in curves if not name.endswith((OF_TESTS, BY_AGE))), "")
    points = [{"dialogs_inserted": each.x, metric: _number(each.metric)} for each in _points(curves, metric)]
    # Without its own curve, the conversations have equally many tests, and both curves are equal.
    own = f"{metric}{OF_TESTS}" if f"{metric}{OF_TESTS}" in curves else metric
    tests = [{"dialogs_inserted": each.x, metric: _number(each.metric)} for each in _points(curves, own)]
    usage = next((table for table in entry.tables if table.name == USAGE_TABLE), None)
    summary: dict[str, Any] = {
        "alias": entry.title,
        "reference": entry.reference,
        "metrics": [{"metric": each.name} | _number(each) for each in entry.metrics],
        "counts": counts,
        "categories": {each.name: {metric.name: _number(metric) for metric in each.metrics} for each in entry.slices},
        "category_labels": {each.name: each.label for each in entry.slices if each.label},
        "tests": tests,
        "curve": points,
        "retention": {"points": [_aged(each, metric) for each in _points(curves, f"{metric}{BY_AGE}")]},
        "size": _size(entry),
        "stages": msgspec.to_builtins(purpose_numbers_of(usage) if usage else {}),
    }
    for judge in entry.judges:
        summary["judge"] = msgspec.to_builtins(judge)
    return summary


def _points(curves: dict[str, Any], name: str) -> list[Any]:
    return curves[name].points if name in curves else []


def _aged(point: Point, metric: str) -> dict[str, Any]:
    low, high = point.span or (point.x, point.x)
    return {"age_from": low, "age_to": high, "age": point.x, metric: _number(point.metric)}


def _size(entry: Entry) -> dict[str, Any] | None:
    """Return the sizes in the report's table, which are rounded."""
    for table in entry.tables:
        if table.name == "size" and table.rows:
            names = ("conversations", "items", "characters", "tokens")
            return dict(zip(names, table.rows[0], strict=True))
    return None


def _number(metric: Metric) -> dict[str, Any]:
    return {
        "value": metric.value,
        "n": metric.denominator,
        "clusters": metric.clusters,
        "stderr": metric.stderr,
        "interval": metric.interval,
        **metric.left_out,
    }
