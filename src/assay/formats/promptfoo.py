"""Reads results of promptfoo for `assay import`: what `promptfoo eval -o` writes as JSON, JSON lines or YAML.

A test with one provider and one prompt is a case. The subject is the provider, with the prompt where there are several.
The row is `vars`, so the same test has the same key for every subject and in every file.

    pass             1 or 0: promptfoo's own verdict on the test
    score            promptfoo's weighted score of the test
    NAME             a named metric (`namedScores`), or the type of an assertion without a name

A provider's error is no answer: it is left out and counted, where promptfoo counts it as not passed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct, field

from assay.core.errors import InputError, Problem, unreadable
from assay.core.imported import UNPLACED, ImportedCase, ImportedRun, ImportPlan, imported_scorer
from assay.core.report import Entry, Report
from assay.core.types import ASK, Call, Failure, Record, Request, Response, Score, Usage
from assay.files.excerpt import cut_end
from assay.files.read import BY_PROGRAMS, convert_json, decode_json, json_lines, line_at, read_json
from assay.files.yaml_files import read_yaml
from assay.formats.imported_rows import CaseValues, ImportedRows, RowCase
from assay.suites.evaluate.scorers import RIGHT_WRONG

FORMAT = "promptfoo"
_SCORER = imported_scorer(FORMAT)
_SET = "tests"
_ERROR = 2  # `failureReason` of a provider's error
_SNIFFED_BYTES = 4096
# How an output file begins, and how the summary inside it begins, which some programs store alone.
_OUTPUT_FILE = re.compile(rb'(\xef\xbb\xbf)?\s*\{\s*("evalId"\s*:|"results"\s*:\s*\{\s*"version"\s*:)')
_SUMMARY = re.compile(rb'(\xef\xbb\xbf)?\s*\{\s*"version"\s*:\s*\d+\s*,\s*"(timestamp|results)"\s*:')
_MAX_LABEL = 40  # characters of a prompt in the name of a subject: a prompt without a label is named by its text
# Variables that promptfoo adds itself, with another value in each run.
_OWN_VARS = ("sessionId", "_conversation")


class PromptfooProvider(Struct, kw_only=True):
    """The provider of a result. Old files have its name only."""

    id: str = ""
    label: str | None = None


class PromptfooPrompt(Struct, kw_only=True):
    """The prompt of a result, rendered with the variables of the test."""

    raw: Any = ""
    label: str | None = None


class PromptfooTest(Struct, kw_only=True):
    """The test of a result."""

    description: str | None = None
    metadata: dict[str, Any] | None = None


class PromptfooTokens(Struct, kw_only=True):
    """`tokenUsage`."""

    prompt: float | None = None
    completion: float | None = None


class PromptfooResponse(Struct, kw_only=True):
    """The reply of a provider."""

    output: Any = None
    error: str | None = None
    cost: float | None = None
    tokens: PromptfooTokens | None = field(default=None, name="tokenUsage")
    finish: str | None = field(default=None, name="finishReason")


class PromptfooGrade(Struct, kw_only=True):
    """The verdict on a test, or on one of its assertions."""

    passed: bool | None = field(default=None, name="pass")
    score: float | None = None
    reason: str | None = None
    components: list[PromptfooGrade | None] | None = field(default=None, name="componentResults")
    assertion: dict[str, Any] | None = None


class PromptfooResult(Struct, kw_only=True):
    """One result. Only `success` is in every version."""

    success: bool
    score: float | None = None
    prompt_index: int = field(default=0, name="promptIdx")
    test_index: int | None = field(default=None, name="testIdx")
    description: str | None = None
    test: PromptfooTest | None = field(default=None, name="testCase")
    provider: PromptfooProvider | str | None = None
    prompt: PromptfooPrompt | str | None = None
    vars: dict[str, Any] | None = None
    response: PromptfooResponse | None = None
    error: str | None = None
    failure_reason: int | None = field(default=None, name="failureReason")
    milliseconds: float | None = field(default=None, name="latencyMs")
    grade: PromptfooGrade | None = field(default=None, name="gradingResult")
    named_scores: dict[str, float | None] | None = field(default=None, name="namedScores")
    cost: float | None = None
    tokens: PromptfooTokens | None = field(default=None, name="tokenUsage")

    @property
    def is_error(self) -> bool:
        """Whether the provider failed. A failed assertion has a text in `error` too, but also a grade."""
        if self.failure_reason is not None:
            return self.failure_reason == _ERROR
        return bool(self.error) and self.grade is None and not self.success


class _Place(NamedTuple):
    """Where a result stands: its test and prompt, its place in the file, and its subject."""

    test: int
    prompt: int
    place: int
    subject: tuple[str, str, int]


def read_promptfoo(path: Path) -> ImportedRun | None:
    """Return the results in a file of promptfoo; None for any other file."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            head = file.read(_SNIFFED_BYTES)
    except OSError as error:
        raise InputError(unreadable(path, error)) from None
    if path.suffix == ".jsonl":
        first_line = head.partition(b"\n")[0]
        if b'"success"' in first_line or (b'"promptIdx"' in first_line and b'"testIdx"' in first_line):
            return PromptfooRun(path, _LineResults(path))
        return None
    is_yaml = path.suffix in (".yaml", ".yml")
    if is_yaml and b"evalId:" in head and b"results:" in head:
        return _whole_run(path, read_yaml(path))
    if path.suffix == ".json" and (_OUTPUT_FILE.match(head) or _SUMMARY.match(head)):
        return _whole_run(path, read_json(path))
    return None


def _whole_run(path: Path, value: Any) -> ImportedRun | None:
    """Return the run of a file that is one object: an output file with `results`, or a summary alone."""
    if not isinstance(value, dict):
        raise InputError(Problem(str(path), "expected an object with results of promptfoo"))
    summary = value.get("results")
    if isinstance(summary, list):
        value, summary = {"results": value}, value
    if not isinstance(summary, dict) or not isinstance(summary.get("results"), list):
        raise InputError(Problem(str(path), "has no list of results under `results.results`"))
    return PromptfooRun(path, _ListedResults(path, summary["results"]), value)


class _ListedResults:
    """Results in memory."""

    def __init__(self, path: Path, items: list[Any]) -> None:
        self._items = [
            convert_json(item, PromptfooResult, f"{path}: results[{number}]") for number, item in enumerate(items)
        ]

    def scan(self) -> Iterator[tuple[int, PromptfooResult]]:
        yield from enumerate(self._items)

    def read(self, places: Sequence[int]) -> Iterator[PromptfooResult]:
        for place in places:
            yield self._items[place]


class _LineResults:
    """Results in the lines of a file. The place of a result is the byte at which its line begins."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def scan(self) -> Iterator[tuple[int, PromptfooResult]]:
        for line in json_lines(self._path, BY_PROGRAMS):
            where = f"{self._path}:{line.number}"
            yield line.offset, convert_json(decode_json(line.raw, where), PromptfooResult, where)

    def read(self, places: Sequence[int]) -> Iterator[PromptfooResult]:
        with self._path.open("rb") as file:
            for place in places:
                where = f"{self._path} byte {place}"
                raw = line_at(file, place, BY_PROGRAMS)
                yield convert_json(decode_json(raw, where), PromptfooResult, where)


class PromptfooRun(ImportedRows):
    """The results of one file."""

    def __init__(
        self, path: Path, results: _ListedResults | _LineResults, output: dict[str, Any] | None = None
    ) -> None:
        self._results = results
        places = []
        for number, (place, result) in enumerate(results.scan()):
            # A file of version 2 has its results in order and no numbers.
            test = number if result.test_index is None else result.test_index
            subject = (*_provider_and_prompt(result), result.prompt_index)
            places.append(_Place(test, result.prompt_index, place, subject))
        if not places:
            raise InputError(Problem(str(path), "has no results"))
        self._places = sorted(places)
        self._subjects = _subject_names([place.subject for place in self._places])
        self._values: dict[str, dict[str, CaseValues]] = {name: {} for name in self._subjects.values()}
        self._counts: dict[str, Counter[str]] = {name: Counter() for name in self._subjects.values()}
        output = output or {}
        config, metadata = output.get("config"), output.get("metadata")
        description = config.get("description") if isinstance(config, dict) else None
        version = metadata.get("promptfooVersion") if isinstance(metadata, dict) else None
        summary = output.get("results")
        timestamp = summary.get("timestamp") if isinstance(summary, dict) else None
        super().__init__(
            ImportPlan(
                format=FORMAT,
                name=str(description or FORMAT),
                suite="evaluate",
                files=[path],
                total=len(places),
                model=", ".join(self._subjects.values()),
                subjects=list(self._subjects.values()),
                scorers=[_SCORER],
                started=_seconds(timestamp),
                producer=f"promptfoo {version}" if version else "promptfoo",
                missing=["which variables are gold"],
            ),
            gold=[],
        )

    def row_cases(self) -> Iterator[RowCase]:
        """Yield a case for each result: first all subjects of the first test."""
        results = self._results.read([place.place for place in self._places])
        for place, result in zip(self._places, results, strict=True):
            yield self._case(result, place.test, self._subjects[place.subject])

    def _case(self, result: PromptfooResult, test: int, subject: str) -> RowCase:
        row = _plain({name: value for name, value in (result.vars or {}).items() if name not in _OWN_VARS})
        metadata = (result.test.metadata if result.test else None) or {}
        failure = None
        if result.is_error:
            failure = Failure("provider_error", result.error or "the provider failed")
        scores = [] if failure else list(_scores(result))
        text = _output_text(result)
        case = ImportedCase(
            key=self.key(row, subject),
            set=_SET,
            subject=subject,
            label=result.description or (result.test.description if result.test else None) or str(test + 1),
            tags=tuple(f"{name}={value}" for name, value in metadata.items() if isinstance(value, (str, int, bool))),
            failure=failure,
            records=[] if text is None else [Record(*UNPLACED, try_=1, kind="answer", data=text)],
            scores=scores,
            calls=[_call(result, failure)],
            usage=_usage(result),
            seconds=(result.milliseconds or 0.0) / 1000,
        )
        self._counts[subject]["error" if failure else "ok"] += 1
        for score in scores:
            if score.value is not None:
                self._values[subject].setdefault(score.metric, CaseValues()).add(score.value, score.data)
        return RowCase(case, row)

    def report(self) -> Report:
        """Return an entry for each subject. The numbers of a subject are over its tests with an answer."""
        entries = []
        for subject, values in self._values.items():
            counts = self._counts[subject]
            left_out = {"error": counts["error"]} if counts["error"] else {}
            metrics = [each.metric(name, left_out=left_out) for name, each in values.items()]
            entries.append(
                Entry(
                    name=subject,
                    subject=subject,
                    metrics=metrics,
                    counts={"ok": counts["ok"], "infra_error": counts["error"]},
                )
            )
        return Report(entries=entries, entry_word="subject")


def _provider_and_prompt(result: PromptfooResult) -> tuple[str, str]:
    provider = result.provider
    if isinstance(provider, PromptfooProvider):
        provider = provider.label or provider.id
    prompt = result.prompt.label if isinstance(result.prompt, PromptfooPrompt) else result.prompt
    return provider or "provider", prompt or ""


def _subject_names(subjects: list[tuple[str, str, int]]) -> dict[tuple[str, str, int], str]:
    """Return the name of each subject: its provider, with the prompt if a provider has several."""
    distinct = list(dict.fromkeys(subjects))
    prompts = {prompt for _, prompt, _ in distinct}
    names: dict[tuple[str, str, int], str] = {}
    for provider, prompt, index in distinct:
        label = " ".join(prompt.split())
        label = label if len(label) <= _MAX_LABEL else cut_end(label, _MAX_LABEL - 1)
        name = f"{provider} · {label}" if len(prompts) > 1 and label else provider
        base, number = name, 2
        while name in names.values():
            name, number = f"{base} {number}", number + 1
        names[provider, prompt, index] = name
    return names


def _scores(result: PromptfooResult) -> Iterator[Score]:
    grade = result.grade or PromptfooGrade()
    reason = grade.reason or ""
    yield _score("pass", float(result.success), reason, right_wrong=True)
    if result.score is not None:
        yield _score("score", result.score, "")
    named = result.named_scores or {}
    reasons: dict[str, list[str]] = {}
    taken = Counter({"pass": 1, "score": 1, **dict.fromkeys(named, 1)})
    for part in filter(None, grade.components or ()):
        assertion = part.assertion or {}
        name = assertion.get("metric")
        if name in named:
            reasons.setdefault(str(name), []).append(part.reason or "")
            continue
        name = str(name or assertion.get("type") or "assertion")
        taken[name] += 1
        if taken[name] > 1:
            name = f"{name} {taken[name]}"
        value = part.score if part.score is not None else None if part.passed is None else float(part.passed)
        # The score of an assertion that can only pass or fail repeats its outcome.
        right_wrong = part.passed is not None and value == float(part.passed)
        yield _score(name, value, part.reason or "", assertion.get("value"), right_wrong=right_wrong)
    for name, value in named.items():
        yield _score(name, value, "\n".join(reasons.get(name, ())))


def _score(metric: str, value: float | None, reason: str, expected: Any = None, *, right_wrong: bool = False) -> Score:
    number = value if value is not None and isfinite(value) else None
    return Score(
        *UNPLACED,
        scorer=_SCORER,
        metric=metric,
        status="scored" if number is not None else "not_applicable",
        value=number,
        reason=reason,
        data={RIGHT_WRONG: True} if right_wrong else None,
        expected=_plain(expected),
    )


def _output_text(result: PromptfooResult) -> str | None:
    output = result.response.output if result.response else None
    if output is None:
        return None
    return output if isinstance(output, str) else json.dumps(_plain(output), ensure_ascii=False)


def _usage(result: PromptfooResult) -> Usage | None:
    tokens = (result.response.tokens if result.response else None) or result.tokens
    counts = [tokens.prompt or 0.0, tokens.completion or 0.0] if tokens is not None else []
    # promptfoo writes zeros where the provider counted nothing.
    if not any(counts) or not all(map(isfinite, counts)):
        return None
    return Usage(*map(int, counts))


def _call(result: PromptfooResult, failure: Failure | None) -> Call:
    raw = result.prompt.raw if isinstance(result.prompt, PromptfooPrompt) else result.prompt or ""
    text = raw if isinstance(raw, str) else json.dumps(_plain(raw), ensure_ascii=False)
    provider = result.provider.id if isinstance(result.provider, PromptfooProvider) else result.provider
    request = Request(model=provider or "provider", **_prompt(text))
    response = None
    if failure is None:
        cost = result.cost if result.cost is not None else result.response.cost if result.response else None
        response = Response(
            _output_text(result) or "",
            finish=result.response.finish if result.response else None,
            usage=_usage(result),
            cost=cost if cost is not None and isfinite(cost) else None,
        )
    return Call(
        *UNPLACED,
        stage=ASK,
        try_=1,
        hash="",
        n=0,
        request=request,
        response=response,
        failure=failure,
        seconds=(result.milliseconds or 0.0) / 1000,
    )


def _prompt(text: str) -> dict[str, Any]:
    """Return the fields of a request: messages if the prompt is a JSON list of them, else a text."""
    if text.lstrip().startswith("["):
        try:
            messages = json.loads(text)
        except (ValueError, RecursionError):
            return {"prompt": text}
        if messages and all(isinstance(item, dict) and "role" in item for item in messages):
            return {"messages": _plain(messages)}
    return {"prompt": text}


def _plain(value: Any) -> Any:
    """Return a value without NaN and infinity, which the journal cannot hold."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _seconds(text: Any) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (TypeError, ValueError, OverflowError, OSError):
        return None
