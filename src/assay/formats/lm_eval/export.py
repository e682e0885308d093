"""Writes runs in the format of lm-evaluation-harness: `results_*.json` with `samples_*.jsonl`, for `assay export`.

A run of the task suite has written these files itself, so they are copied. Of any other run, imported ones too, the
files are made from the journal and the report: a data set becomes a task, a case a document, and every subject gets
a folder of its own, because a results file has one model.
"""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

import assay
from assay.core.exported import CasePart, ExportedRun, Exporter, case_parts, interim_loss
from assay.core.imported import UNPLACED
from assay.core.report import Entry, Metric
from assay.core.suite_pages import StoredCase
from assay.core.types import ASK, Record
from assay.files.paths import fitting_name
from assay.files.write import write_whole
from assay.formats.lm_eval.results import DOCUMENT, FORMAT
from assay.suites.task.catalog import sanitise, task_file_part
from assay.suites.task.filters import NO_FILTER
from assay.suites.task.requests import TaskGold
from assay.suites.task.samples import SamplesWriter
from assay.suites.toolkit.prompt import PromptInputs


class LmEvalExporter(Exporter):
    """Writes a folder for each subject, with a results file and a samples file for each data set."""

    def refusal(self, run: ExportedRun) -> str:
        """Refuse a run of the task suite whose files are gone: the journal has no documents to write them from."""
        gone = [str(path) for path in run.about.files if not path.is_file()] if _is_native(run) else []
        if not gone:
            return ""
        return f"its result file {gone[0]} is gone. Repeat the command of the run, which writes it again"

    def loses(self, run: ExportedRun) -> list[str]:
        """Return what the harness's files have no place for. A run of the task suite loses the calls only."""
        if _is_native(run):
            return ["times and tokens of each call"]
        if _is_from_harness(run):
            # The harness's own files had neither reasons nor times of single calls.
            return ["the environment and the seeds of the other program"]
        lost = ["times and tokens of each call", "intervals", "reasons of scores"]
        entries = run.report.entries
        if any(entry.slices for entry in entries):
            lost.append("numbers by tag")
        if any(entry.tables or entry.curves or entry.examples for entry in entries):
            lost.append("tables, curves and failed cases of the report")
        if any(entry.judges for entry in entries):
            lost.append("the judge and its calls")
        if run.about.score_parts == "rows":
            lost.append("which rows belong to one case: intervals of the exported file are too narrow")
        return lost + interim_loss(run)

    def write(self, run: ExportedRun, target: Path) -> list[Path]:
        """Copy the run's own files, or write new ones."""
        if not _is_native(run):
            return _HarnessFiles(run, target).write()
        copies = []
        for path in run.about.files:
            copy = target / path.parent.name / path.name
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, copy)
            copies.append(copy)
        return copies


def _is_native(run: ExportedRun) -> bool:
    return run.about.suite == "task" and run.about.imported is None


def _is_from_harness(run: ExportedRun) -> bool:
    return run.about.imported is not None and run.about.imported.format == FORMAT


class _Task(NamedTuple):
    """One task of the results file: a data set of one subject."""

    subject: str
    name: str


class _HarnessFiles:
    """The files of one run that are made from its journal and its report."""

    def __init__(self, run: ExportedRun, target: Path) -> None:
        self._run = run
        self._target = target
        self._parts = run.about.score_parts
        self._when = time.strftime("%Y-%m-%dT%H-%M-%S", time.localtime(run.about.started))
        # The filters of each task, from a first pass: a samples file has all rows of the first filter first.
        self._filters: dict[_Task, list[str]] = {}
        for case in run.cases(calls=False):
            filters = self._filters.setdefault(_Task(case.end.subject, case.end.set), [])
            if self._parts == "filters":
                filters += [part for part in dict.fromkeys(s.part for s in case.scores) if part not in filters]
        self._sizes: Counter[_Task] = Counter()

    def write(self) -> list[Path]:
        """Write all files and return their paths."""
        files = []
        with ExitStack() as stack:
            writers: dict[_Task, SamplesWriter] = {}
            for case in self._run.cases():
                task = _Task(case.end.subject, case.end.set)
                if task not in writers:
                    path = self._folder(task.subject) / f"samples_{task_file_part(task.name)}_{self._when}.jsonl"
                    generation = next((call.request.shown_params for call in case.calls if call.request), None)
                    names = self._filters[task] or [NO_FILTER]
                    writers[task] = stack.enter_context(SamplesWriter(path, names, generation))
                    files.append(path)
                self._write_case(writers[task], task, case)
            for writer in writers.values():
                writer.close()
        subjects = dict.fromkeys(task.subject for task in self._filters)
        # A results file without samples has no case.
        for subject in subjects or dict.fromkeys(entry.subject for entry in self._run.report.entries):
            path = self._folder(subject) / f"results_{self._when}.json"
            content = json.dumps(self._results(subject), indent=2, ensure_ascii=False)
            files.append(write_whole(path, content.encode("utf-8", "replace")))
        return files

    def _folder(self, subject: str) -> Path:
        folder = self._target / fitting_name(sanitise(subject.partition("/")[2] or subject or "model"))
        folder.mkdir(exist_ok=True)
        return folder

    def _write_case(self, writer: SamplesWriter, task: _Task, case: StoredCase) -> None:
        requests = [call.request for call in case.calls if call.request is not None and call.stage == ASK]
        inputs = PromptInputs(requests)
        if _is_from_harness(self._run):
            # Every case of an imported harness run begins with its document.
            content = case.records[0].data
            assert case.records[0].kind == DOCUMENT
            gold = TaskGold(content["doc"], content["target"])
            answers = [record for record in case.records if record.kind == "answer"]
            writer.write(int(case.end.label), inputs, gold, case.end, answers, case.scores)
            return
        for part, scores, answers in self._documents(case):
            document = case.row or {"id": case.end.label or case.end.case}
            if part:
                document = {**document, "part": part}
            expected = next((score.expected for score in scores if score.expected is not None), "")
            gold = TaskGold(document, expected if isinstance(expected, str) else json.dumps(expected))
            texts = [_text(answer.data) for answer in answers]
            replies = [Record(*UNPLACED, try_=1, kind="answer", data=[texts])] if texts else []
            named = {score.metric: score for score in reversed(scores)}
            filtered = {"filtered": texts}
            placed = [
                replace(score, part=score.part if self._parts == "filters" else NO_FILTER, data=filtered)
                for score in reversed(named.values())
            ]
            writer.write(self._sizes[task], inputs, gold, case.end, replies, placed)
            self._sizes[task] += 1

    def _documents(self, case: StoredCase) -> list[CasePart]:
        """Return the documents of a case with their scores and answers: its parts, or the case as a whole."""
        if self._parts == "rows":
            return case_parts(case)
        answers = [record for record in case.records if record.kind == "answer"]
        return [CasePart("", case.scores, answers)]

    def _results(self, subject: str) -> dict[str, Any]:
        """Return the content of a subject's results file, with the keys of the harness."""
        harness = _is_from_harness(self._run)
        tasks = [task.name for task in self._filters if task.subject == subject]
        results: dict[str, Any] = {}
        groups: dict[str, Any] = {}
        members: dict[str, list[str]] = {}
        configs: dict[str, Any] = dict(self._run.about.facts.get("configs", {})) if harness else {}
        directions: dict[str, Any] = {}
        sizes: dict[str, Any] = {}
        for entry in self._run.report.entries:
            if subject not in (entry.subject, entry.name):
                continue
            numbers = _numbers(entry)
            name = entry.set or (entry.name if entry.members or len(tasks) != 1 else tasks[0])
            results[name] = numbers
            if entry.members or (not entry.set and len(tasks) > 1):
                groups[name] = numbers
                members[name] = entry.members or tasks
                continue
            declared = [_declaration(metric) for metric in entry.metrics]
            configs.setdefault(name, {"task": name, "metric_list": declared})
            directions[name] = {metric.name: metric.higher_is_better for metric in entry.metrics}
            size = max((metric.denominator for metric in entry.metrics), default=0)
            sizes[name] = {"original": size, "effective": size}
        for name in tasks:
            results.setdefault(name, {"alias": name})
            configs.setdefault(name, {"task": name, "metric_list": []})
        provider, _, model = subject.rpartition("/") if "/" not in subject else subject.partition("/")
        return {
            "results": results,
            **({"groups": groups} if groups else {}),
            "group_subtasks": members,
            "configs": configs,
            "higher_is_better": directions,
            "n-samples": sizes,
            "date": self._run.about.started,
            "lm_eval_version": f"assay {assay.__version__}",
            "model_source": provider,
            "model_name": model,
            "model_name_sanitized": sanitise(model),
            "total_evaluation_time_seconds": str(self._run.about.seconds),
        }


def _numbers(entry: Entry) -> dict[str, Any]:
    numbers: dict[str, Any] = {"alias": entry.alias or entry.name}
    counts: dict[str, int] = {}
    for metric in entry.metrics:
        part = metric.filter or NO_FILTER
        numbers[f"{metric.name},{part}"] = "N/A" if metric.value is None else metric.value
        numbers[f"{metric.name}_stderr,{part}"] = "N/A" if metric.stderr is None else metric.stderr
        counts[f"{metric.name},{part}"] = metric.denominator
    return {**numbers, "sample_count": counts}


def _declaration(metric: Metric) -> dict[str, Any]:
    return {
        "metric": metric.name,
        "aggregation": metric.aggregation,
        "higher_is_better": metric.higher_is_better,
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
