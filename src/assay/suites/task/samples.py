"""Writes the samples file, `samples_*.jsonl`: all documents of the first filter, then of the second, and so on.

    with SamplesWriter(path, ["none"], generation_kwargs) as writer:
        writer.write(document_number, inputs, gold, end, records, scores)
        task_hash = writer.close()

Rows are byte for byte those of the harness, which writes `json.dumps(row, ensure_ascii=False)`. Documents
come one by one, so each filter's rows go to a temporary file of its own; `close` puts these files together.
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

from assay.core.types import End, Record, Request, Score
from assay.solvers.prompt import PromptInputs
from assay.suites.task.outputs import TaskGold
from assay.suites.task.prompts import messages_json

_dumps = JSONEncoder(ensure_ascii=False, default=str).encode


class SamplesWriter:
    """Writes one task's samples file. If the `with` block ends without `close`, no file is left."""

    def __init__(self, path: Path, filters: list[str], generation: dict[str, Any] | None) -> None:
        self._path = path
        self._filters = filters
        self._generation = compact(generation)
        self._stack = ExitStack()
        self._files = [self._open(f"{position}.tmp") for position in range(len(filters))]
        self._hashes = self._open("hashes.tmp")

    def _open(self, suffix: str) -> IO[str]:
        path = self._path.with_name(f".{self._path.name}.{suffix}")
        self._stack.callback(path.unlink, missing_ok=True)
        return self._stack.enter_context(path.open("w+", encoding="utf-8", newline="\n"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def write(
        self,
        number: int,
        inputs: PromptInputs,
        gold: TaskGold,
        end: End,
        records: list[Record],
        scores: list[Score],
    ) -> None:
        """Write the rows of one document, one for each filter. `number` is its index in the data set."""
        doc, target, prompt = gold.doc, str(gold.target), prompt_text(inputs.requests)
        replies = compact(text_leaves(records[0].data)) if records else "[[]]"
        arguments = [
            f'"gen_args_{position}": {self._arguments(request)}'
            for position, request in enumerate(inputs.requests)
        ]
        head = (
            f'{{"doc_id": {number}, "doc": {compact(doc)}, "target": {quoted(target)}, '
            f'"arguments": {{{", ".join(arguments)}}}, "resps": {replies}, "filtered_resps": '
        )
        doc_hash, prompt_hash, target_hash = _sha(indented(doc)), _sha(prompt), _sha(target)
        # For the task's hash, which covers the hashes of all rows.
        self._hashes.write(doc_hash + prompt_hash + target_hash)
        hashes = f', "doc_hash": "{doc_hash}", "prompt_hash": "{prompt_hash}", "target_hash": "{target_hash}"'
        for name, file in zip(self._filters, self._files, strict=True):
            filter_scores = [score for score in scores if score.part == name]
            # The first score of a filter carries the filtered answers for all metrics.
            data = filter_scores[0].data if filter_scores else None
            filtered = compact(text_leaves(data["filtered"])) if data and "filtered" in data else "[]"
            metrics = ", ".join([quoted(score.metric) for score in filter_scores if score.status == "scored"])
            file.write(
                f'{head}{filtered}, "filter": {quoted(name)}, "metrics": [{metrics}]'
                f"{hashes}{_metric_values(filter_scores, end)}}}\n"
            )

    def _arguments(self, request: Request) -> str:
        """Return a request as the harness writes it. For chat, `arg_0` is a list with the messages as JSON text."""
        if request.messages is not None:
            first, second = f"[{quoted(messages_json(request.messages))}]", self._generation
        elif request.continuation is None:
            first, second = quoted(request.prompt or ""), self._generation
        elif request.prompt is None:
            return f'{{"arg_0": {quoted(request.continuation)}}}'
        else:
            first, second = quoted(request.prompt), quoted(request.continuation)
        return f'{{"arg_0": {first}, "arg_1": {second}}}'

    def close(self) -> str:
        """Join the temporary files, rename the result to its final name, and return the task's hash."""
        # The hash covers all rows in file order. Each filter has a row for every document, so the hashes of
        # the documents are hashed once per filter.
        digest = hashlib.sha256()
        for _ in self._filters:
            self._hashes.seek(0)
            while chunk := self._hashes.read(1 << 16):
                digest.update(chunk.encode())
        first, *others = self._files
        for file in others:
            file.seek(0)
            shutil.copyfileobj(file, first)
        first.flush()
        # Without fsync, a power cut could leave a file with the final name but without its content.
        os.fsync(first.fileno())
        Path(first.name).replace(self._path)
        return digest.hexdigest()


def prompt_text(requests: list[Request]) -> str:
    """Return the text that `prompt_hash` covers: the first request's prompt, or its messages as JSON."""
    if not requests:
        return ""
    request = requests[0]
    if request.messages is not None:
        return messages_json(request.messages)
    return (request.continuation if request.prompt is None else request.prompt) or ""


def _metric_values(scores: list[Score], end: End) -> str:
    """Return the JSON of a key for each metric, and of `error` for a document that failed or was not scored."""
    parts = [f", {quoted(s.metric)}: {compact(sample_value(s))}" for s in scores if s.status == "scored"]
    if end.failure:
        parts.append(f', "error": {quoted(f"{end.failure.kind}: {end.failure.message}")}')
    else:
        for score in scores:
            if score.status == "invalid":
                parts.append(f', "error": {quoted(score.reason)}')
                break
    return "".join(parts)


def sample_value(score: Score) -> Any:
    """Return the metric's own return value, which may be an integer, a pair or any other JSON value."""
    if score.data and "value" in score.data:
        return score.data["value"]
    return nan if score.value is None else score.value


def text_leaves(value: Any) -> Any:
    """Convert every leaf of nested lists to text, as the harness does with replies."""
    if isinstance(value, list):
        return [item if type(item) is str else text_leaves(item) for item in value]
    return value if isinstance(value, str) else str(value)


# JSON is written by hand because the standard encoder takes four times as long for the small values of rows.


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _scalar(value: Any) -> str:
    kind = type(value)
    if kind is int:
        return str(value)
    return repr(value) if kind is float and isfinite(value) else _dumps(value)


def compact(value: Any) -> str:
    """Return `json.dumps(value, ensure_ascii=False)`."""
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
    """Return `json.dumps(value, indent=2, ensure_ascii=False)`."""
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
