"""Writes `samples_*.jsonl`: one row for each filter and document, all documents of a filter together.

Rows are what `json.dumps(row, ensure_ascii=False)` gives for the harness's row. Every document is read and
hashed once: rows of later filters wait in files of their own and are appended at the end.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import ExitStack
from json import JSONEncoder
from json.encoder import encode_basestring as quoted
from math import isfinite, nan
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from assay.core.types import Case, End, Record, Request, Score
from assay.suites.task.prompts import messages_json

_dumps = JSONEncoder(ensure_ascii=False, default=str).encode


class SamplesWriter:
    """One task's samples file, under a temporary name until `close`; leaving without it leaves nothing."""

    def __init__(self, path: Path, filters: list[str], generation: dict[str, Any] | None) -> None:
        self._path = path
        self._filters = filters
        self._generation = compact(generation)
        self._stack = ExitStack()
        self._files: list[IO[str]] = [self._open(f"{at}.tmp") for at in range(len(filters))]
        self._hashes = self._open("hashes.tmp")

    def _open(self, suffix: str) -> IO[str]:
        path = self._path.with_name(f".{self._path.name}.{suffix}")
        self._stack.callback(path.unlink, missing_ok=True)
        return self._stack.enter_context(path.open("w+", encoding="utf-8", newline="\n"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._stack.close()

    def write(self, case: Case, end: End, records: list[Record], scores: list[Score]) -> None:
        """The rows of one document."""
        doc, target, prompt = case.gold.doc, str(case.gold.target), prompt_text(case)
        replies = compact(leaves(records[0].data)) if records else "[[]]"
        head = (
            f'{{"doc_id": {case.label}, "doc": {compact(doc)}, "target": {quoted(target)}, '
            f'"arguments": {self._arguments(case.inputs.requests)}, "resps": {replies}, "filtered_resps": '
        )
        hashes = (_sha(indented(doc)), _sha(prompt), _sha(target))
        self._hashes.write("".join(hashes))
        tail = f', "doc_hash": "{hashes[0]}", "prompt_hash": "{hashes[1]}", "target_hash": "{hashes[2]}"'
        for name, file in zip(self._filters, self._files, strict=True):
            own = [score for score in scores if score.part == name]
            file.write(f"{head}{_middle(name, own)}{tail}{_values(own, end)}}}\n")

    def _arguments(self, requests: list[Request]) -> str:
        return "{" + ", ".join([f'"gen_args_{at}": {self._call(r)}' for at, r in enumerate(requests)]) + "}"

    def _call(self, request: Request) -> str:
        """A request as the harness passes it. In chat form `arg_0` is a list around the messages' JSON."""
        if request.messages is not None:
            first, more = f"[{quoted(messages_json(request.messages))}]", self._generation
        elif request.continuation is None:
            first, more = quoted(request.prompt or ""), self._generation
        elif request.prompt is None:
            return f'{{"arg_0": {quoted(request.continuation)}}}'
        else:
            first, more = quoted(request.prompt), quoted(request.continuation)
        return f'{{"arg_0": {first}, "arg_1": {more}}}'

    def close(self) -> str:
        """Put the filters' rows together, rename into place; returns the task's hash."""
        digest = self._task_hash()
        first, *others = self._files
        for file in others:
            file.seek(0)
            shutil.copyfileobj(file, first)
        first.flush()
        os.fsync(first.fileno())  # the name must not outlive the content in a power cut
        Path(first.name).replace(self._path)
        return digest

    def _task_hash(self) -> str:
        """SHA-256 over the hashes of all rows in file order, so each filter counts every document."""
        digest = hashlib.sha256()
        for _ in self._filters:
            self._hashes.seek(0)
            while chunk := self._hashes.read(1 << 16):
                digest.update(chunk.encode())
        return digest.hexdigest()


def prompt_text(case: Case) -> str:
    """The text whose hash stands in the row: the prompt, or the messages as JSON."""
    if not case.inputs.requests:
        return ""
    request: Request = case.inputs.requests[0]
    if request.messages is not None:
        return messages_json(request.messages)
    return (request.continuation if request.prompt is None else request.prompt) or ""


def _middle(name: str, scores: list[Score]) -> str:
    data = scores[0].data if scores else None
    filtered = compact(leaves(data["filtered"])) if data and "filtered" in data else "[]"
    metrics = ", ".join([quoted(score.metric) for score in scores if score.status == "scored"])
    return f'{filtered}, "filter": {quoted(name)}, "metrics": [{metrics}]'


def _values(scores: list[Score], end: End) -> str:
    parts = [f", {quoted(s.metric)}: {compact(sample_value(s))}" for s in scores if s.status == "scored"]
    if end.failure:
        parts.append(f', "error": {quoted(f"{end.failure.kind}: {end.failure.message}")}')
    elif invalid := [score.reason for score in scores if score.status == "invalid"]:
        parts.append(f', "error": {quoted(invalid[0])}')
    return "".join(parts)


def sample_value(score: Score) -> Any:
    """A score as rows show it: what the metric gave, which may be a whole number, a pair or anything."""
    if score.data and "value" in score.data:
        return score.data["value"]
    return nan if score.value is None else score.value


def leaves(value: Any) -> Any:
    """Every leaf as text, as the harness writes replies."""
    if isinstance(value, list):
        return [item if type(item) is str else leaves(item) for item in value]
    return value if isinstance(value, str) else str(value)


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _scalar(value: Any) -> str:
    """Numbers by the hundred thousand: the encoder of the standard library costs four times as much."""
    kind = type(value)
    if kind is int:
        return str(value)
    return repr(value) if kind is float and isfinite(value) else _dumps(value)


def compact(value: Any) -> str:
    """`json.dumps(value, ensure_ascii=False)`, faster for the small values that rows are made of."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, dict):
        items = [
            f"{quoted(key)}: {quoted(item) if type(item) is str else compact(item)}"
            for key, item in value.items()
        ]
        return "{" + ", ".join(items) + "}"
    if isinstance(value, list):
        return "[" + ", ".join([quoted(item) if type(item) is str else compact(item) for item in value]) + "]"
    return _scalar(value)


def indented(value: Any, pad: str = "\n") -> str:
    """`json.dumps(value, indent=2, ensure_ascii=False)`, whose own encoder is four times slower."""
    if isinstance(value, str):
        return quoted(value)
    deeper = pad + "  "
    if isinstance(value, dict) and value:
        items = [
            f"{quoted(key)}: {quoted(item) if type(item) is str else indented(item, deeper)}"
            for key, item in value.items()
        ]
        return "{" + deeper + ("," + deeper).join(items) + pad + "}"
    if isinstance(value, list) and value:
        return "[" + deeper + ("," + deeper).join([indented(item, deeper) for item in value]) + pad + "]"
    return _scalar(value)
