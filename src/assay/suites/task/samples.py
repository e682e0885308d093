"""Writes `samples_*.jsonl`: one row for each filter and document, all documents of a filter together.

Rows are what `json.dumps(row, ensure_ascii=False)` gives for the harness's row. Every document is read and
hashed once: rows of later filters wait in files of their own and are appended at the end.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from json import JSONEncoder
from json.encoder import encode_basestring
from pathlib import Path
from typing import IO, Any, NamedTuple

from assay.core.types import Case, End, Record, Score
from assay.suites.task.prompts import messages_json

dumps = JSONEncoder(ensure_ascii=False, default=str).encode


class Scored(NamedTuple):
    """A case with everything the journal has of it."""

    case: Case
    end: End
    records: list[Record]
    scores: list[Score]


class SamplesWriter:
    """One task's samples file, written under a temporary name until `close`."""

    def __init__(self, path: Path, filters: list[str]) -> None:
        self._path = path
        self._filters = filters
        self._stack = ExitStack()
        self._files: list[IO[str]] = [self._open(f"{at}.tmp") for at in range(len(filters))]
        self._hashes = self._open("hashes.tmp")

    def _open(self, suffix: str) -> IO[str]:
        path = self._path.with_name(f".{self._path.name}.{suffix}")
        self._stack.callback(path.unlink, missing_ok=True)
        return self._stack.enter_context(path.open("w+", encoding="utf-8", newline="\n"))

    def write(self, doc_id: int, arguments: str, item: Scored) -> None:
        """The rows of one document."""
        head, hashes = _head(doc_id, arguments, item)
        self._hashes.write("".join(hashes))
        tail = ', "doc_hash": "{}", "prompt_hash": "{}", "target_hash": "{}"'.format(*hashes)
        for file, name in zip(self._files, self._filters, strict=True):
            scores = [score for score in item.scores if score.part == name]
            file.write(f"{head}{_middle(name, scores)}{tail}{_values(scores, item.end)}}}\n")

    def close(self) -> str:
        """Put the filters' rows together, rename into place; returns the task's hash."""
        with self._stack:
            digest = self._task_hash()
            first, *others = self._files
            for file in others:
                file.seek(0)
                shutil.copyfileobj(file, first)
            first.flush()
            Path(first.name).replace(self._path)
        return digest

    def abandon(self) -> None:
        """Leave nothing behind."""
        self._stack.close()

    def _task_hash(self) -> str:
        """SHA-256 over the hashes of all rows in file order, so each filter counts every document."""
        digest = hashlib.sha256()
        for _ in self._filters:
            self._hashes.seek(0)
            while chunk := self._hashes.read(1 << 16):
                digest.update(chunk.encode())
        return digest.hexdigest()


def _head(doc_id: int, arguments: str, item: Scored) -> tuple[str, tuple[str, str, str]]:
    gold = item.case.gold
    target = str(gold.target)
    replies = item.records[0].data if item.records else [[]]
    head = (
        f'{{"doc_id": {doc_id}, "doc": {dumps(gold.doc)}, "target": {encode_basestring(target)}, '
        f'"arguments": {arguments}, "resps": {dumps(leaves(replies))}, "filtered_resps": '
    )
    hashes = (_sha(indented(gold.doc)), _sha(prompt_text(item.case)), _sha(target))
    return head, hashes


def prompt_text(case: Case) -> str:
    """The text whose hash stands in the row: the prompt, or the messages as JSON."""
    request = case.inputs.requests[0]
    return request.prompt if request.messages is None else messages_json(request.messages)


def arguments_json(case: Case, generation: str, *, chat: bool) -> str:
    """The `arguments` of a row; in chat form `arg_0` is a list around the messages' JSON."""
    text = encode_basestring(prompt_text(case))
    first = f"[{text}]" if chat else text
    return f'{{"gen_args_0": {{"arg_0": {first}, "arg_1": {generation}}}}}'


def _middle(name: str, scores: list[Score]) -> str:
    filtered: list[Any] = next(
        (score.data["filtered"] for score in scores if score.data and "filtered" in score.data), []
    )
    metrics = [score.metric for score in scores if score.status == "scored"]
    return f'{dumps(leaves(filtered))}, "filter": {encode_basestring(name)}, "metrics": {dumps(metrics)}'


def _values(scores: list[Score], end: End) -> str:
    parts = [
        f", {encode_basestring(s.metric)}: {dumps(sample_value(s))}" for s in scores if s.status == "scored"
    ]
    if end.failure:
        parts.append(f', "error": {encode_basestring(f"{end.failure.kind}: {end.failure.message}")}')
    elif invalid := [score.reason for score in scores if score.status == "invalid"]:
        parts.append(f', "error": {encode_basestring(invalid[0])}')
    return "".join(parts)


def sample_value(score: Score) -> Any:
    """A score as rows show it: the number, or the pair that only all documents together give a number."""
    if score.value is None and score.data:
        return score.data.get("value")
    return score.value


def leaves(value: Any) -> Any:
    """Every leaf as text, as the harness writes replies."""
    if isinstance(value, (list, tuple)):
        return [leaves(item) for item in value]
    return value if isinstance(value, str) else str(value)


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def indented(value: Any, pad: str = "\n") -> str:
    """`json.dumps(value, indent=2, ensure_ascii=False)`, whose own encoder is four times slower."""
    if isinstance(value, str):
        return encode_basestring(value)
    deeper = pad + "  "
    if isinstance(value, dict) and value:
        items = [f"{encode_basestring(str(key))}: {indented(item, deeper)}" for key, item in value.items()]
        return "{" + deeper + ("," + deeper).join(items) + pad + "}"
    if isinstance(value, (list, tuple)) and value:
        return "[" + deeper + ("," + deeper).join([indented(item, deeper) for item in value]) + pad + "]"
    return dumps(value)


def in_order(cases: Iterator[Case], reader: Any, scorer: str) -> Iterator[Scored]:
    """Every ended case with its records and scores, in data order."""
    for case in cases:
        end = reader.end(case.index)
        if end is not None:
            yield Scored(case, end, reader.records(case.index), reader.scores(case.index, scorer))
