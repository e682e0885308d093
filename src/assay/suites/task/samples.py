"""Writes the samples file, `samples_*.jsonl`: all documents of the first filter, then of the second, and so on.

    with SamplesWriter(path, ["none"], generation_kwargs) as writer:
        writer.write(document_number, inputs, gold, end, records, scores)
        task_hash = writer.close()

Rows are byte for byte those of the harness, which writes `json.dumps(row, ensure_ascii=False)`. Documents
come one by one, so each filter's rows go to a temporary file of its own; `close` puts these files together.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection
from contextlib import ExitStack
from hashlib import sha256
from math import nan
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import msgspec

from assay.core.types import End, Record, Request, Score
from assay.files.write import open_new
from assay.suites.task.prompts import messages_json
from assay.suites.task.requests import TaskGold
from assay.suites.toolkit.prompt import PromptInputs

_encode = msgspec.json.Encoder().encode
# Of each temporary file. Python's own buffer holds ten rows.
_BUFFER_BYTES = 1 << 16
_PLAIN = frozenset({str, int, bool, type(None)})


class SamplesWriter:
    """Writes one task's samples file. If the `with` block ends without `close`, no file is left."""

    def __init__(self, path: Path, filters: list[str], generation: dict[str, Any] | None) -> None:
        self._path = path
        self._generation = generation
        self._is_plain = is_plain(generation)
        self._stack = ExitStack()
        # The name of each filter, with the file of its rows.
        self._files = [(name, self._open(str(position))) for position, name in enumerate(filters)]
        self._hashes = self._open("hashes")

    def _temporary(self, part: str) -> Path:
        return self._path.with_name(f".{self._path.name}.{part}.tmp")

    def _open(self, part: str) -> IO[bytes]:
        path = self._temporary(part)
        self._stack.callback(path.unlink, missing_ok=True)
        return self._stack.enter_context(open_new(path, _BUFFER_BYTES))

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
        dump = dump_plain if self._is_plain and is_plain(doc) else dump_any
        doc_hash = sha256(dump(doc, 2)).hexdigest()
        prompt_hash = sha256(prompt.encode()).hexdigest()
        target_hash = sha256(target.encode()).hexdigest()
        # For the task's hash, which covers the hashes of all rows.
        self._hashes.write(f"{doc_hash}{prompt_hash}{target_hash}".encode())
        arguments = {}
        for position, request in enumerate(inputs.requests):
            arguments[f"gen_args_{position}"] = self._arguments(request)
        replies = text_leaves(records[0].data) if records else [[]]
        for name, file in self._files:
            metrics: list[str] = []
            row: dict[str, Any] = {
                "doc_id": number,
                "doc": doc,
                "target": target,
                "arguments": arguments,
                "resps": replies,
                "filtered_resps": [],
                "filter": name,
                "metrics": metrics,
                "doc_hash": doc_hash,
                "prompt_hash": prompt_hash,
                "target_hash": target_hash,
            }
            is_first = True
            reason: str | None = None
            for score in scores:
                if score.part != name:
                    continue
                # The first score of a filter carries the filtered answers for all metrics.
                if is_first and score.data and "filtered" in score.data:
                    row["filtered_resps"] = text_leaves(score.data["filtered"])
                is_first = False
                if score.status == "scored":
                    metrics.append(score.metric)
                    row[score.metric] = value = sample_value(score)
                    if not is_plain(value):
                        dump = dump_any
                elif score.status == "invalid" and reason is None:
                    reason = score.reason
            if end.failure:
                reason = f"{end.failure.kind}: {end.failure.message}"
            if reason:
                row["error"] = reason
            file.write(dump(row) + b"\n")

    def _arguments(self, request: Request) -> dict[str, Any]:
        """Return a request as the harness writes it. For chat, `arg_0` is a list with the messages as JSON text."""
        if request.messages is not None:
            return {"arg_0": [messages_json(request.messages)], "arg_1": self._generation}
        if request.continuation is None:
            return {"arg_0": request.prompt or "", "arg_1": self._generation}
        if request.prompt is None:
            return {"arg_0": request.continuation}
        return {"arg_0": request.prompt, "arg_1": request.continuation}

    def close(self) -> str:
        """Join the temporary files, rename the result to its final name, and return the task's hash."""
        # The hash covers all rows in file order. Each filter has a row for every document, so the hashes of
        # the documents are hashed once per filter.
        digest = sha256()
        for _ in self._files:
            self._hashes.seek(0)
            while chunk := self._hashes.read(1 << 16):
                digest.update(chunk)
        (_, first), *others = self._files
        for _, file in others:
            file.seek(0)
            shutil.copyfileobj(file, first)
        first.flush()
        # Without fsync, a power cut could leave a file with the final name but without its content.
        os.fsync(first.fileno())
        self._temporary("0").replace(self._path)
        return digest.hexdigest()


def prompt_text(requests: list[Request]) -> str:
    """Return the text that `prompt_hash` covers: the first request's prompt, or its messages as JSON."""
    if not requests:
        return ""
    request = requests[0]
    if request.messages is not None:
        return messages_json(request.messages)
    return (request.continuation if request.prompt is None else request.prompt) or ""


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


def dump_any(value: Any, indent: int | None = None) -> bytes:
    """Return `json.dumps(value, indent=indent, ensure_ascii=False)`. Types that JSON lacks become texts."""
    return json.dumps(value, indent=indent, ensure_ascii=False, default=str).encode()


def dump_plain(value: Any, indent: int | None = None) -> bytes:
    """Return what `dump_any` returns for a plain value, in a fifth of the time."""
    # An indent of 0 means one line here, with a space after each comma and colon.
    return msgspec.json.format(_encode(value), indent=indent or 0)


def is_plain(value: Any) -> bool:
    """Return whether msgspec writes a value as `json.dumps` does: a JSON value without very large and small floats."""
    kind = type(value)
    if kind is dict:
        values: Collection[Any] = value.values()
    elif kind is list:
        values = value
    else:
        # Python writes other floats with an exponent, such as 1e-05 and 1e+16, which msgspec spells differently.
        return kind in _PLAIN or (kind is float and (1e-4 <= abs(value) < 1e16 or value == 0))
    return _PLAIN.issuperset(map(type, values)) or all(map(is_plain, values))
