"""Writes the samples file, `samples_*.jsonl`: one row for each filter and document, filter by filter.

    with SamplesWriter(path, ["none"], generation_kwargs) as writer:
        writer.write(document_number, inputs, gold, end, records, scores)
        task_hash = writer.close()

Rows equal what `json.dumps(row, ensure_ascii=False)` gives for the harness's row, byte for byte. Every
document is read and hashed once: rows of later filters wait in files of their own and are appended at the end.
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
    """One task's samples file, under a temporary name until `close`. Leaving without it leaves nothing."""

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
        """Write the rows of one document, one for each filter. `number` is its place in the data set."""
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
        self._hashes.write(doc_hash + prompt_hash + target_hash)
        hashes = f', "doc_hash": "{doc_hash}", "prompt_hash": "{prompt_hash}", "target_hash": "{target_hash}"'
        for name, file in zip(self._filters, self._files, strict=True):
            own = [score for score in scores if score.part == name]
            data = own[0].data if own else None
            filtered = compact(text_leaves(data["filtered"])) if data and "filtered" in data else "[]"
            metrics = ", ".join([quoted(score.metric) for score in own if score.status == "scored"])
            file.write(
                f'{head}{filtered}, "filter": {quoted(name)}, "metrics": [{metrics}]'
                f"{hashes}{_metric_values(own, end)}}}\n"
            )

    def _arguments(self, request: Request) -> str:
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
        """Put the filters' rows together and rename the file into place. Returns the task's hash."""
        # SHA-256 over the hashes of all rows in file order, so each filter counts every document.
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
        # The name must not outlive the content in a power cut.
        os.fsync(first.fileno())
        Path(first.name).replace(self._path)
        return digest.hexdigest()


def prompt_text(requests: list[Request]) -> str:
    """The text whose hash stands in the row: the first prompt, or the messages as JSON."""
    if not requests:
        return ""
    request = requests[0]
    if request.messages is not None:
        return messages_json(request.messages)
    return (request.continuation if request.prompt is None else request.prompt) or ""


def _metric_values(scores: list[Score], end: End) -> str:
    """A key for each metric, and `error` for a document that failed or could not be scored."""
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
    """A score as rows show it: what the metric returned, which may be a whole number, a pair or anything."""
    if score.data and "value" in score.data:
        return score.data["value"]
    return nan if score.value is None else score.value


def text_leaves(value: Any) -> Any:
    """Every leaf as text, as the harness writes replies."""
    if isinstance(value, list):
        return [item if type(item) is str else text_leaves(item) for item in value]
    return value if isinstance(value, str) else str(value)


# JSON by hand: the standard encoder takes four times as long for the small values that rows are made of.


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
