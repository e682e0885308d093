"""Reads logs of Inspect for `assay import`: a sample with all its epochs is a case, an epoch is a repeat.

The numbers of the report are those of the log. `accuracy` or `mean` of a scorer has the scorer's name, so that it
belongs to the scores of the cases; other numbers are named `scorer.metric`, and `grouped` metrics become slices. The
score of a case is the value after Inspect's reducer of epochs. With several reducers, each is a part, as filters are.
A sample that ended with an error has no score and is left out, as in Inspect.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from math import isfinite
from pathlib import Path
from typing import Any

from assay.core.imported import UNPLACED, ImportedCase, ImportedRun, ImportPlan, imported_scorer
from assay.core.report import Entry, Metric, Report, Slice
from assay.core.types import ASK, Call, Failure, Record, Request, Response, Score, ScoreStatus, Usage
from assay.files.excerpt import cut_end
from assay.formats.imported_rows import CaseValues, ImportedRows, RowCase
from assay.formats.inspect.log import InspectLog, InspectMetric, InspectSample, InspectScore, InspectScorer, open_log
from assay.suites.evaluate.scorers import RIGHT_WRONG

FORMAT = "inspect"
SAMPLE_ERROR = "sample_error"
"""The kind of the failure of a sample that ended with an error."""
_SCORER = imported_scorer(FORMAT)
_ATTACHMENT = "attachment://"
_MEAN = "mean"
_ACCURACY = "accuracy"
"""The share of right answers, whatever values say right and wrong."""
# What a scorer's number is called in Inspect if it is the number of the scorer.
_MAIN_METRICS = (_ACCURACY, "mean")
_SPREADS = ("stderr", "std", "var")
_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
# Scores that failed because of the scorer. Other scores without a value are not applicable.
_SCORER_FAILED = ("grader_failed", "scoring_failed")
_MAX_TRACEBACK = 20_000


def read_inspect(path: Path) -> ImportedRun | None:
    """Return the results in a `.eval` archive or a JSON log of Inspect; None for any other file."""
    log = open_log(path)
    return InspectRun(log) if log is not None else None


class InspectRun(ImportedRows):
    """The results of one log."""

    def __init__(self, log: InspectLog) -> None:
        self._log = log
        header = log.header
        self._results = header.results.scores if header.results else []
        self._subject = header.eval.model
        reducers = list(dict.fromkeys(score.reducer or _MEAN for score in self._results))
        self._several = len(reducers) > 1
        self._reducers = reducers or [_MEAN]
        self._reduced: dict[tuple[str, str], dict[str, Any]] = {}
        for reduction in header.reductions or ():
            values = {str(sample.sample_id): sample.value for sample in reduction.samples}
            self._reduced[reduction.scorer, reduction.reducer or _MEAN] = values
        self._values: dict[tuple[str, str], CaseValues] = {}
        self._names: set[str] = set()
        self._group_sizes: Counter[tuple[str, str]] = Counter()
        self._tag_keys = list(
            dict.fromkeys(
                str(metric.params["group_key"])
                for score in self._results
                for metric in score.metrics.values()
                if metric.params and metric.params.get("group_key")
            )
        )
        started, ended = _seconds(header.stats.started_at), _seconds(header.stats.completed_at)
        # `assay export` writes its own name.
        packages = header.eval.packages
        producers = [f"{name} {packages[name]}" for name in ("inspect_ai", "assay") if name in packages]
        super().__init__(
            ImportPlan(
                format=FORMAT,
                name=header.eval.task,
                suite="evaluate",
                files=[log.path],
                total=len(log.sample_ids),
                model=self._subject,
                subjects=[self._subject],
                scorers=[_SCORER],
                score_parts="filters" if self._several else "none",
                started=_seconds(header.eval.created) or started,
                seconds=ended - started if started and ended else 0.0,
                producer=producers[0] if producers else "inspect_ai",
                missing=self._missing(),
            ),
            gold=["target"],
        )

    def _missing(self) -> list[str]:
        header, missing = self._log.header, []
        planned = header.eval.dataset.sample_ids
        if not self._log.sample_ids:
            missing.append("the samples: the log was written without them")
        elif planned and len(planned) > len(self._log.sample_ids):
            missing.append(f"{len(planned) - len(self._log.sample_ids):,} of {len(planned):,} samples")
        if header.results is None:
            missing.append("the results: every number is computed from the samples")
        return missing

    def close(self) -> None:
        self._log.close()

    # Cases

    def row_cases(self) -> Iterator[RowCase]:
        """Yield a case for each sample."""
        for epochs in self._log.samples():
            yield self._case(epochs)

    def _case(self, epochs: list[InspectSample]) -> RowCase:
        first = epochs[0]
        inputs: dict[str, Any] = {"input": _input(first)}
        if first.choices:
            inputs["choices"] = first.choices
        row = {"id": first.id, **inputs, "target": first.target, "metadata": first.metadata or {}}
        scores = self._scores(epochs)
        case = ImportedCase(
            key=self.key(inputs, self._subject),
            set=self._log.header.eval.task,
            subject=self._subject,
            label=str(first.id),
            tags=self._tags(first),
            failure=None if scores else _failure(epochs),
            records=[record for epoch in epochs for record in _records(epoch, len(epochs) > 1)],
            scores=scores,
            calls=[call for epoch in epochs for call in _calls(epoch, self._subject)],
            usage=_usage(epochs),
            seconds=sum(epoch.total_time or 0.0 for epoch in epochs),
        )
        for score in scores:
            if score.value is not None:
                self._values.setdefault((score.metric, score.part), CaseValues()).add(score.value, score.data)
        return RowCase(case, row)

    def _tags(self, sample: InspectSample) -> tuple[str, ...]:
        """Return the values by which the log groups its metrics."""
        metadata = sample.metadata or {}
        present = [(key, metadata[key]) for key in self._tag_keys if metadata.get(key) is not None]
        self._group_sizes.update((key, str(value)) for key, value in present)
        several = len(self._tag_keys) > 1
        return tuple(f"{key}={value}" if several else str(value) for key, value in present)

    def _scores(self, epochs: list[InspectSample]) -> list[Score]:
        by_metric: dict[str, list[tuple[InspectScore, Any]]] = {}
        for epoch in epochs:
            named = epoch.scores or ({"score": epoch.score} if epoch.score else {})
            self._names.update(name for name, score in named.items() if not isinstance(score.value, dict))
            for name, score in named.items():
                if isinstance(score.value, dict):
                    for key, value in score.value.items():
                        by_metric.setdefault(f"{name}.{key}", []).append((score, value))
                else:
                    by_metric.setdefault(name, []).append((score, score.value))
        scores = []
        for metric, values in by_metric.items():
            scores += [self._score(metric, reducer, values, epochs) for reducer in self._reducers]
        return scores

    def _score(
        self, metric: str, reducer: str, values: list[tuple[InspectScore, Any]], epochs: list[InspectSample]
    ) -> Score:
        sample = epochs[0]
        numbers = [value_to_float(value) for _, value in values]
        value = self._reduced_value(metric, reducer, str(sample.id), [n for n in numbers if n is not None])
        reasons = [score.explanation or score.reason or "" for score, _ in values]
        failed = [score.reason for score, _ in values if score.reason in _SCORER_FAILED]
        status: ScoreStatus = "scored"
        if value is None:
            status = "invalid" if failed else "not_applicable"
        data: dict[str, Any] = {"value": values[0][1]} if isinstance(values[0][1], (str, list)) else {}
        if all(_is_right_wrong(value) for _, value in values):
            data[RIGHT_WRONG] = True
        if values[0][0].answer is not None:
            data["answer"] = values[0][0].answer
        if len(values) > 1:
            data["repeats"] = numbers
        # Inspect may score a sample although a limit or an error ended it.
        ended = [_limit_text(each) for each in epochs if each.limit is not None]
        ended += [each.error.message for each in epochs if each.error is not None]
        if ended:
            data["ended_by"] = ended
        return Score(
            *UNPLACED,
            scorer=_SCORER,
            metric=metric,
            part=reducer if self._several else "",
            status=status,
            value=value,
            reason=next(filter(None, reasons), "" if status == "scored" else "no score"),
            data=_plain(data) or None,
            expected=sample.target,
        )

    def _reduced_value(self, metric: str, reducer: str, sample: str, numbers: list[float]) -> float | None:
        """Return the value of a sample after its epochs: as the log has it, else their mean."""
        for name, key in ((metric, ""), tuple(metric.partition(".")[::2])):
            if sample in (reduced := self._reduced.get((name, reducer), {})):
                value = reduced[sample]
                if isinstance(value, dict):
                    return value_to_float(value.get(key)) if key else None
                return value_to_float(value)
        return sum(numbers) / len(numbers) if numbers and reducer == _MEAN else None

    # Numbers

    def report(self) -> Report:
        """Return one entry for the model, with the numbers of the log."""
        header = self._log.header
        entry = Entry(name=self._subject, subject=self._subject)
        notices = []
        if header.status != "success":
            message = f": {header.error.message}" if header.error else ""
            notices.append(cut_end(f"the log has the status {header.status!r}{message}", 500))
        slices: dict[tuple[str, str], Slice] = {}
        for result in self._results:
            self._add_result(entry, slices, result, notices)
        named = {(metric.name, metric.filter) for metric in entry.metrics}
        for (name, part), values in self._values.items():
            if (name, part) not in named:
                entry.metrics.append(values.metric(name))
        entry.slices = list(slices.values())
        return Report(entries=[entry], entry_word="model", notices=notices)

    def _add_result(
        self, entry: Entry, slices: dict[tuple[str, str], Slice], result: InspectScorer, notices: list[str]
    ) -> None:
        """Add the numbers of one scorer and reducer."""
        part = (result.reducer or _MEAN) if self._several else ""
        name = result.name
        if result.scorer and result.name != result.scorer and result.name not in self._names:
            name = f"{result.scorer}.{result.name}"
        values = self._values.get((name, part), CaseValues())
        left_out: Counter[str] = Counter()
        if result.unscored_samples:
            left_out["unscored"] = result.unscored_samples
        count = len(values.values) if result.scored_samples is None else result.scored_samples
        without = len(self._log.sample_ids) - count - left_out["unscored"]
        if without > 0:
            left_out["error"] = without
        common: dict[str, Any] = {"filter": part, "denominator": count, "left_out": dict(+left_out)}
        plain = {key: metric for key, metric in result.metrics.items() if not _is_grouped(metric)}
        main = next((key for key in _MAIN_METRICS if key in plain), None) or next(
            (key for key in plain if not key.endswith(_SPREADS)), None
        )
        errors = [metric.value for key, metric in plain.items() if key.endswith("stderr")]
        if main is not None:
            if main == _ACCURACY:
                values.right_wrong = True
            number = plain[main].value
            entry.metrics.append(
                values.file_metric(name, number, errors[0] if errors else None, aggregation=main, **common)
            )
            if main in _MAIN_METRICS and values.values and number is not None and not values.agree(number):
                mean = sum(values.values) / len(values.values)
                notices.append(
                    f"the log has {name} {main} {number:g}, its samples give {mean:g}; the report has the log's"
                )
        for key, metric in result.metrics.items():
            if _is_grouped(metric):
                by = str((metric.params or {}).get("group_key"))
                if part in ("", self._reducers[0]):
                    # A slice has one number for each metric: that of the first reducer.
                    group = slices.setdefault((by, metric.name), Slice(by=by, name=metric.name))
                    size = self._group_sizes[by, metric.name]
                    group.metrics.append(Metric(name=name, value=_finite(metric.value), denominator=size))
            elif key != main and not key.endswith("stderr"):
                value = _finite(metric.value)
                entry.metrics.append(
                    Metric(name=f"{name}.{key}", value=value, aggregation=key, higher_is_better=None, **common)
                )


def _is_grouped(metric: InspectMetric) -> bool:
    # `all` is the number over all groups.
    return bool(metric.params and metric.params.get("group_key")) and metric.name != "all"


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


def _is_right_wrong(value: Any) -> bool:
    """Return True for a score that says right or wrong, not a number."""
    if isinstance(value, str):
        return value in _LETTERS or value.lower() in _WORDS
    return isinstance(value, bool)


def value_to_float(value: Any) -> float | None:
    """Return the number of a score as Inspect counts it: C is 1, P a half, I and N are 0; None for no number."""
    if isinstance(value, str):
        number = _LETTERS.get(value, _WORDS.get(value.lower()))
        if number is not None:
            return number
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, (bool, int, float)):
        try:
            return _finite(float(value))
        except OverflowError:
            return None
    return None


def _plain(value: Any) -> Any:
    """Return a value without NaN and infinity, which the journal cannot hold."""
    if isinstance(value, float):
        return _finite(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


# One epoch of a sample


def _failure(epochs: list[InspectSample]) -> Failure | None:
    for epoch in epochs:
        if epoch.error is not None:
            return Failure(
                SAMPLE_ERROR,
                epoch.error.message or "the sample ended with an error",
                traceback=cut_end(epoch.error.traceback, _MAX_TRACEBACK),
            )
    for epoch in epochs:
        if epoch.limit is not None:
            return Failure("limit", _limit_text(epoch))
    return None


def _limit_text(epoch: InspectSample) -> str:
    assert epoch.limit is not None
    return f"the {epoch.limit.type} limit of {epoch.limit.limit:g}" if epoch.limit.limit else epoch.limit.type


def _records(epoch: InspectSample, several: bool) -> Iterator[Record]:
    part = str(epoch.epoch) if several else ""
    if epoch.output is not None and (epoch.output.get("choices") or epoch.output.get("completion")):
        yield Record(*UNPLACED, try_=1, kind="answer", part=part, data=_reply(epoch.output, epoch).text)


def _usage(epochs: list[InspectSample]) -> Usage | None:
    used = [usage for epoch in epochs for usage in (epoch.model_usage or {}).values()]
    if not used:
        return None
    return Usage(sum(usage.input_tokens for usage in used), sum(usage.output_tokens for usage in used))


def _calls(epoch: InspectSample, model: str) -> Iterator[Call]:
    """Yield the calls of the models, those of the scorers under the stage of the scorer."""
    events = epoch.events if epoch.events is not None else (epoch.transcript or {}).get("events") or []
    stage, scorer_spans = ASK, set[str]()
    found = False
    for event in events:
        kind = event.get("event")
        if kind in ("span_begin", "step"):
            # Logs before 2025-05 have steps, which begin and end, in place of spans.
            begins = kind == "span_begin" or event.get("action") == "begin"
            if event.get("type") in ("scorer", "scorers"):
                stage = _SCORER if begins else ASK
                scorer_spans.add(str(event.get("id")))
        elif kind == "span_end" and str(event.get("id")) in scorer_spans:
            scorer_spans.discard(str(event.get("id")))
            stage = _SCORER if scorer_spans else ASK
        elif kind == "model":
            found = True
            yield _call(event, epoch, model, stage)
    if not found and epoch.messages:
        yield from _call_of_messages(epoch, model)


def _call(event: dict[str, Any], epoch: InspectSample, model: str, stage: str) -> Call:
    pool = (epoch.events_data or {}).get("messages")
    pool = pool if isinstance(pool, list) else []
    inputs, references = event.get("input"), event.get("input_refs")
    messages = list(inputs) if isinstance(inputs, list) else []
    for reference in references if isinstance(references, list) else ():
        # The half-open range of messages in the pool.
        if isinstance(reference, list) and [type(end) for end in reference] == [int, int]:
            messages += pool[reference[0] : reference[1]]
    config = event.get("config")
    params = {key: value for key, value in config.items() if value is not None} if isinstance(config, dict) else {}
    request = Request(
        model=str(event.get("model") or model), messages=_messages(messages, epoch), params=_plain(params)
    )
    output = event.get("output")
    seconds = event.get("working_time")
    if event.get("error"):
        failed = Failure("model_error", str(event["error"]))
        return Call(*UNPLACED, stage=stage, try_=1, hash="", n=0, request=request, failure=failed)
    return Call(
        *UNPLACED,
        stage=stage,
        try_=1,
        hash="",
        n=0,
        request=request,
        response=_reply(output if isinstance(output, dict) else {}, epoch),
        seconds=seconds if isinstance(seconds, (int, float)) else 0.0,
    )


def _call_of_messages(epoch: InspectSample, model: str) -> Iterator[Call]:
    """Yield the last reply, with all messages before it as the request, for a log without events."""
    messages = epoch.messages or []
    places = [place for place, message in enumerate(messages) if message.get("role") == "assistant"]
    if places:
        request = Request(model=model, messages=_messages(messages[: places[-1]], epoch))
        response = Response(_text(messages[places[-1]].get("content"), epoch))
        yield Call(*UNPLACED, stage=ASK, try_=1, hash="", n=0, request=request, response=response)


def _reply(output: dict[str, Any], epoch: InspectSample) -> Response:
    choices = output.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    content = message.get("content")
    usage = output.get("usage")
    tokens = None
    if isinstance(usage, dict) and isinstance(usage.get("input_tokens"), int):
        tokens = Usage(usage["input_tokens"], usage.get("output_tokens") or 0)
    calls = message.get("tool_calls")
    cost = usage.get("total_cost") if isinstance(usage, dict) else None
    return Response(
        _text(content if content is not None else output.get("completion"), epoch),
        finish=choice.get("stop_reason"),
        usage=tokens,
        data={"tool_calls": _plain(calls)} if calls else None,
        reasoning=_reasoning(content, epoch),
        cost=cost if isinstance(cost, float) else None,
    )


def _messages(messages: list[Any], epoch: InspectSample) -> list[dict[str, Any]]:
    """Return messages with role, text and tool calls. Their random ids are left out, so that equal ones are equal."""
    plain = []
    for message in messages:
        if not isinstance(message, dict):
            continue
        kept: dict[str, Any] = {
            "role": str(message.get("role")),
            "content": _text(message.get("content"), epoch),
        }
        if message.get("tool_calls"):
            kept["tool_calls"] = [
                {"function": call.get("function"), "arguments": _plain(call.get("arguments"))}
                for call in message["tool_calls"]
                if isinstance(call, dict)
            ]
        plain.append(kept)
    return plain


def _input(sample: InspectSample) -> Any:
    """Return the input of a sample: a text, or messages."""
    if isinstance(sample.input, list):
        return _messages(sample.input, sample)
    return _text(sample.input, sample)


def _text(content: Any, sample: InspectSample) -> str:
    """Return the text of a message. Pictures and other media are named in brackets."""
    if isinstance(content, list):
        parts = []
        for item in content:
            kind = item.get("type") if isinstance(item, dict) else None
            if kind == "text":
                parts.append(_text(item.get("text"), sample))
            elif kind != "reasoning":
                parts.append(f"[{kind or 'content'}]")
        return "\n".join(parts)
    if isinstance(content, str):
        if content.startswith(_ATTACHMENT):
            attached = _attachments(sample).get(content.removeprefix(_ATTACHMENT))
            return attached if isinstance(attached, str) else content
        return content
    return "" if content is None else json.dumps(_plain(content), ensure_ascii=False)


def _reasoning(content: Any, sample: InspectSample) -> str:
    if not isinstance(content, list):
        return ""
    items = [item for item in content if isinstance(item, dict) and item.get("type") == "reasoning"]
    return "\n".join(_text(item.get("reasoning"), sample) for item in items)


def _attachments(sample: InspectSample) -> dict[str, Any]:
    # Logs of 2024 had them under `transcript`.
    return sample.attachments or (sample.transcript or {}).get("content") or {}


def _seconds(text: str) -> float | None:
    """Return a time as seconds since 1970; None if the text is no time."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
