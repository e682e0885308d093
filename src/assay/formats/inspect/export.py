"""Writes any run as JSON logs of Inspect, for `assay export RUN --to inspect`, so that `inspect view` opens it.

A log has one task and one model, so every set with every subject gets a file of its own. A case is a sample, an answer
with a number as its part is an epoch. Where a case has several questions or tests, each is a sample.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec
from msgspec.structs import replace

import assay
from assay.core.exported import ExportedRun, Exporter, case_parts, interim_loss
from assay.core.hashing import fingerprint
from assay.core.report import Entry, Metric
from assay.core.suite_pages import StoredCase
from assay.core.types import ASK, Call, Record, Request, Score
from assay.formats.inspect.results import SAMPLE_ERROR
from assay.suites.evaluate.scorers import RIGHT_WRONG

_encode = msgspec.json.Encoder().encode
_MEAN = "mean"


class _Log(NamedTuple):
    """One log: a data set of one subject."""

    set: str
    subject: str


class InspectExporter(Exporter):
    """Writes a folder with a JSON log for each set and subject."""

    def loses(self, run: ExportedRun) -> list[str]:
        """Return what a log of Inspect has no place for."""
        lost = ["intervals"]
        entries = run.report.entries
        if any(metric.left_out for _, metric in run.report.metrics()):
            lost.append("why cases were left out of a number")
        if any(entry.tables or entry.curves or entry.examples for entry in entries):
            lost.append("tables, curves and failed cases of the report")
        if any(entry.slices for entry in entries):
            lost.append("numbers by tag")
        if run.about.suite != "evaluate":
            lost.append("records that are no answers, such as steps and retrieved items")
        if run.about.score_parts == "rows":
            lost.append("which rows belong to one case: intervals of the exported file are too narrow")
        return lost + interim_loss(run)

    def write(self, run: ExportedRun, target: Path) -> list[Path]:
        """Write the logs. The samples go to their files one by one; results and reductions follow them."""
        logs: dict[_Log, _LogFile] = {}
        try:
            for case in run.cases():
                name = _Log(case.end.set, case.end.subject)
                if name not in logs:
                    logs[name] = _LogFile(run, name, target / _file_name(run, name, len(logs)))
                logs[name].add(case)
            sets = Counter(log.subject for log in logs)
            return [log.finish(only_set=sets[name.subject] == 1) for name, log in logs.items()]
        finally:
            for log in logs.values():
                log.file.close()


def _file_name(run: ExportedRun, log: _Log, number: int) -> str:
    when = datetime.fromtimestamp(run.about.started, UTC).strftime("%Y-%m-%dT%H-%M-%S")
    task = re.sub(r"[^\w.-]+", "-", log.set or run.about.suite)
    return f"{when}-00-00_{task}_{_id(run, log, number)}.json"


def _id(run: ExportedRun, *parts: Any) -> str:
    return fingerprint([str(run.about.folder.name), *map(str, parts)])


class _LogFile:
    """One log that is being written."""

    def __init__(self, run: ExportedRun, name: _Log, path: Path) -> None:
        self._run = run
        self._name = name
        self._path = path
        self._samples = 0
        self._ids: dict[str, int] = {}
        self._reduced: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self.file: IO[bytes] = path.open("wb")
        header = {
            "version": 2,
            "status": "success",
            "eval": self._spec(),
            "plan": {"name": "plan", "steps": []},
        }
        self.file.write(_encode(header)[:-1] + b',"samples":[')

    def _spec(self) -> dict[str, Any]:
        run, name = self._run, self._name
        return {
            "eval_id": _id(run, name, "eval"),
            "run_id": _id(run, "run"),
            "created": _time(run.about.started),
            "task": name.set or run.about.suite,
            "task_id": _id(run, name, "task"),
            "task_version": 0,
            "task_attribs": {},
            "task_args": {},
            "dataset": {"name": name.set, "shuffled": False},
            "model": name.subject,
            "model_generate_config": {},
            "model_args": {},
            "config": {},
            "packages": {"assay": assay.__version__},
            "metadata": {"assay_run": run.about.folder.name, "suite": run.about.suite},
        }

    def add(self, case: StoredCase) -> None:
        """Write the samples of a case."""
        if self._run.about.score_parts == "rows":
            for part, scores, answers in case_parts(case):
                self._add_sample(case, part, answers, scores)
        else:
            answers = [record for record in case.records if record.kind == "answer"]
            self._add_sample(case, "", answers, case.scores)

    def _add_sample(self, case: StoredCase, part: str, answers: list[Record], scores: list[Score]) -> None:
        name = "/".join(filter(None, (case.end.label or case.end.case, part)))
        self._ids[name] = self._ids.get(name, 0) + 1
        if self._ids[name] > 1:
            name = f"{name}~{self._ids[name]}"
        for score in scores:
            reducer = score.part if self._run.about.score_parts == "filters" else ""
            value = score.value if score.status == "scored" else None
            self._reduced.setdefault((score.metric, reducer), []).append(
                {"sample_id": name, "value": float("nan") if value is None else value}
            )
        epochs = max([1 if part else len(answers), 1, *(len(_repeats(score)) for score in scores)])
        for epoch in range(1, epochs + 1):
            answer = answers[epoch - 1 : epoch] if epochs > 1 and not part else answers[:1]
            sample = self._sample(case, name, epoch, answer[0] if answer else None, scores)
            self.file.write((b"," if self._samples else b"") + _dumps(sample))
            self._samples += 1

    def _sample(
        self, case: StoredCase, name: str, epoch: int, answer: Record | None, scores: list[Score]
    ) -> dict[str, Any]:
        row = dict(case.row or {})
        calls = _with_requests([call for call in case.calls if call.stage == ASK])
        expected = next((score.expected for score in scores if score.expected is not None), "")
        is_target = isinstance(expected, str) or (
            isinstance(expected, list) and all(isinstance(each, str) for each in expected)
        )
        # A run that was imported from Inspect has the sample's own metadata in its row.
        metadata = row["metadata"] if isinstance(row.get("metadata"), dict) else row
        inputs = row.get("input", _messages(calls[0]) if calls else "")
        usage = case.end.usage
        text = _answer_text(answer.data) if answer is not None else ""
        sample: dict[str, Any] = {
            "id": name,
            "epoch": epoch,
            "input": inputs if isinstance(inputs, (str, list)) else _text(inputs),
            "target": expected if is_target else _text(expected),
            "messages": _messages(calls[-1]) if calls else [],
            "output": _output(self._name.subject, text) if answer is not None else {"choices": []},
            "scores": {},
            "metadata": {**metadata, "tags": list(case.end.tags)} if case.end.tags else metadata,
            "store": {},
            # Which epoch a call belongs to is not known, so the first one has all of them.
            "events": [_event(call) for call in calls] if epoch == 1 else [],
            "model_usage": {},
            "total_time": (case.end.seconds or None) if epoch == 1 else None,
            "uuid": _id(self._run, self._name, name, epoch),
            "attachments": {},
        }
        if row.get("choices"):
            sample["choices"] = row["choices"]
        if usage is not None and epoch == 1:
            total = usage.input + usage.output
            sample["model_usage"] = {
                self._name.subject: {
                    "input_tokens": usage.input,
                    "output_tokens": usage.output,
                    "total_tokens": total,
                }
            }
        if case.end.failure is not None and not scores:
            failure = case.end.failure
            sample["error"] = {
                "message": failure.message if failure.kind == SAMPLE_ERROR else f"{failure.kind}: {failure.message}",
                "traceback": failure.traceback,
                "traceback_ansi": failure.traceback,
            }
        for score in scores:
            repeats = _repeats(score)
            value = repeats[epoch - 1] if epoch <= len(repeats) else score.value
            if value in (0.0, 1.0) and isinstance(score.data, dict) and RIGHT_WRONG in score.data:
                value = bool(value)  # whoever reads the log sees that it is right or wrong, and no number
            if score.metric not in sample["scores"]:
                sample["scores"][score.metric] = {
                    "value": float("nan") if value is None else value,
                    "answer": text,
                    "explanation": score.reason or None,
                }
        return sample

    def finish(self, *, only_set: bool) -> Path:
        """Write results and reductions, and close the file.

        Numbers over all sets belong to this log only if it has the subject's only set.
        """
        about = self._run.about
        entries = [
            entry
            for entry in self._run.report.entries
            if self._name.subject in (entry.subject, entry.name)
            and not entry.members
            and (entry.set == self._name.set or (only_set and not entry.set))
        ]
        scores = [score for entry in entries for score in _results(entry)]
        rest = {
            "results": {
                "total_samples": self._samples,
                "completed_samples": self._samples,
                "scores": scores,
            },
            "stats": {
                "started_at": _time(about.started),
                "completed_at": _time(about.started + about.seconds),
                "model_usage": {},
            },
            "reductions": [
                {"scorer": metric, "reducer": reducer or None, "samples": values}
                for (metric, reducer), values in self._reduced.items()
            ],
        }
        self.file.write(b"]," + _dumps(rest)[1:])
        self.file.close()
        return self._path


def _results(entry: Entry) -> Iterator[dict[str, Any]]:
    """Yield the numbers of an entry. A number that was not measured is left out."""
    for metric in entry.metrics:
        if metric.value is None:
            continue
        yield {
            "name": metric.name,
            "scorer": metric.name,
            "reducer": metric.filter or None,
            "scored_samples": metric.denominator,
            "unscored_samples": metric.left_out.get("unscored", 0),
            "params": {},
            "metrics": _numbers(metric),
        }


def _numbers(metric: Metric) -> dict[str, Any]:
    # `mean` is the number of a scorer that Inspect's own metrics call so; `accuracy` stays.
    name = metric.aggregation if metric.aggregation == "accuracy" else _MEAN
    numbers: dict[str, Any] = {name: {"name": name, "value": metric.value, "params": {}}}
    if metric.stderr is not None:
        numbers["stderr"] = {"name": "stderr", "value": metric.stderr, "params": {}}
    return numbers


def _repeats(score: Score) -> list[float | None]:
    repeats = score.data.get("repeats") if isinstance(score.data, dict) else None
    return repeats if isinstance(repeats, list) else []


def _with_requests(calls: list[Call]) -> list[Call]:
    """Return the calls with their requests. In the journal only the first of equal requests has one."""
    requests = {call.hash: call.request for call in calls if call.request is not None}
    return [replace(call, request=requests[call.hash]) for call in calls if call.hash in requests]


def _messages(call: Call) -> list[dict[str, Any]]:
    """Return the messages of a request as role and text."""
    messages = [] if call.request is None else _request_messages(call.request)
    return [{"role": str(each.get("role")), "content": _text(each.get("content"))} for each in messages]


def _request_messages(request: Request) -> list[dict[str, Any]]:
    if request.messages is not None:
        return request.messages
    return [{"role": "user", "content": request.prompt or request.continuation or ""}]


def _event(call: Call) -> dict[str, Any]:
    assert call.request is not None
    response = call.response
    output = _output(call.request.model, response.text if response else "")
    if response is not None and response.usage is not None:
        tokens = response.usage
        output["usage"] = {
            "input_tokens": tokens.input,
            "output_tokens": tokens.output,
            "total_tokens": tokens.input + tokens.output,
        }
    if response is not None and response.finish in ("stop", "max_tokens", "content_filter", "tool_calls"):
        output["choices"][0]["stop_reason"] = response.finish
    event: dict[str, Any] = {
        "event": "model",
        "timestamp": _time(0.0),
        "working_start": 0.0,
        "model": call.request.model,
        "input": _messages(call),
        "tools": [],
        "tool_choice": "auto",
        "config": {},
        "output": output,
        "working_time": call.seconds,
    }
    if call.failure is not None:
        event["error"] = f"{call.failure.kind}: {call.failure.message}"
    return event


def _output(model: str, text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, "source": "generate"}
    return {"model": model, "choices": [{"message": message, "stop_reason": "stop"}], "completion": text}


def _answer_text(answer: Any) -> str:
    while isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]  # a task with one request and one repeat has its reply in two lists
    return _text(answer)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def _dumps(value: Any) -> bytes:
    # msgspec refuses NaN, which Inspect writes for a score without a value.
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
