"""Status, metadata and traces of a memory's items: from its code to the files, and back from the files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import assay

from servers.loopback import LoopbackServer, chat
from support.commands import typed
from support.memory_samples import Samples, entry_of, lines, sample

MEMORY = """
from msgspec.structs import replace
from assay.core.memory import SearchHit, MemoryItem

class Own:
    def __init__(self, context):
        self.held = []

    def reset(self):
        self.held = []

    def add(self, messages):
        self.held += [
            MemoryItem(each.id, each.text, sources=(each.id,), metadata=METADATA) for each in messages
        ]

    def search(self, query, k):
        return [SearchHit(item, 0.5, TRACE) for item in self.held if item.status == "active"][:k]

    def items(self):
        return list(self.held)

    def end_session(self):
        # Only the newest two items are used.
        self.held = [replace(item, status="superseded") for item in self.held[:-2]] + self.held[-2:]
"""


def given(folder: Path, metadata: str = '{"trust": 0.5}', trace: str = '{"words": ["pet"]}') -> Samples:
    """Samples with `own.py`, a memory with these values."""
    code = MEMORY.replace("METADATA", metadata).replace("TRACE", trace)
    (folder / "own.py").write_text(code)
    return Samples(folder)


def run_own(samples: Samples) -> assay.Run:
    """Evaluate the memory."""
    return samples.run(baseline=[f"{samples.folder}/own.py:Own"], top_k=1)


def test_items_that_are_not_active_stay_in_the_snapshot(tmp_path: Path) -> None:
    """The delta archives them once. Metadata and traces are in the files."""
    samples = given(tmp_path)
    run = run_own(samples)
    assert run.exit_code == 0
    first, second, third = lines(samples.out / "pipeline_sessions.jsonl")
    assert [(item["memory_id"], item["status"]) for item in second["memory_snapshot"]] == [
        ("0", "superseded"),
        ("1", "superseded"),
        ("2", "active"),
        ("3", "active"),
    ]
    assert [item["session_id"] for item in second["memory_snapshot"]] == ["S01", "S01", "S02", "S02"]
    assert {json.dumps(item["metadata"]) for item in first["memory_snapshot"]} == {'{"trust": 0.5}'}
    changes = [(each["op"], each["raw_backend_id"], each["linked_previous"]) for each in second["memory_delta"]]
    assert changes == [("archive", "0", []), ("archive", "1", []), ("add", "2", []), ("add", "3", [])]
    assert [each["op"] for each in third["memory_delta"]] == ["archive", "archive", "add", "add"]
    trace = lines(samples.out / "pipeline_qa.jsonl")[0]["retrieval"]["raw_trace"]
    assert trace == {"baseline": "own", "items": [{"memory_id": "0", "trace": {"words": ["pet"]}}]}


def test_the_files_are_read_back_with_the_same_numbers(tmp_path: Path) -> None:
    """By --eval-only, and by `assay import`, whose export has the same lines."""
    samples = given(tmp_path)
    values = {metric.name: metric.value for metric in entry_of(run_own(samples), "own").metrics}
    rows = lines(samples.out / "session_records.jsonl")
    again = samples.run(eval_only=True, fresh=True, dataset="", model="", baseline=[])
    assert {metric.name: metric.value for metric in entry_of(again, "own").metrics} == values
    assert lines(samples.out / "session_records.jsonl") == rows
    assert typed("import", str(samples.out), "--output-dir", str(tmp_path / "imported")) == 0
    (folder,) = (path.parent for path in (tmp_path / "imported").rglob("run.json"))
    assert typed("export", str(folder), "--to", "memory-eval", "--output", str(tmp_path / "copy")) == 0
    assert lines(tmp_path / "copy" / "session_records.jsonl") == rows


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (
            {"metadata": '{"at": object}'},
            "own.items: [TypeError] metadata.at is <class 'object'>, of type type",
        ),
        ({"metadata": "{1: 2}"}, "own.items: [TypeError] a key of metadata must be a text, not 1"),
        ({"metadata": '[("a", 1)]'}, "own.items: [TypeError] metadata is a dict of JSON values by name"),
        ({"metadata": '{"x": [1, float("nan")]}'}, "own.items: [TypeError] metadata.x[1] is nan"),
        (
            {"metadata": f'{{"x": {"[" * 20}{"]" * 20}}}'},
            "own.items: [TypeError] metadata is nested more than 20 levels deep",
        ),
    ],
)
def test_metadata_that_is_no_json_fails_the_sample(tmp_path: Path, values: dict[str, str], told: str) -> None:
    """The message names the memory, the method and the value."""
    run = run_own(given(tmp_path, **values))
    ((failure,),) = [examples.shown for examples in entry_of(run, "own").examples]
    assert told in failure.reason


def test_a_trace_that_is_no_json_fails_its_question(tmp_path: Path) -> None:
    samples = given(tmp_path, trace='{"at": {1, 2}}')
    assert run_own(samples).exit_code == 1
    rows = lines(samples.out / "pipeline_qa.jsonl")
    error = rows[0]["retrieval"]["raw_trace"]["error"]
    assert error.startswith("own.search: [TypeError] trace.at is {1, 2}, of type set that JSON does not have")


def test_a_refused_answer_has_its_error_in_the_files(tmp_path: Path) -> None:
    """Beside the items that were found. An import does not take it for a failed search."""

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        if "Question: how is pet2x1" in str(body["messages"]):
            return 400, {"error": {"message": "no such question", "code": "content_filter"}}
        return 200, chat('{"answer": "Rex", "citations": []}')

    samples = Samples(tmp_path, sample("s1", 2))
    with LoopbackServer(answer) as server:
        run = samples.run(model="openai/m", base_url=server.url, judge="offline", concurrency=1)
    answered, refused = (row["retrieval"] for row in lines(samples.out / "pipeline_qa.jsonl"))
    assert answered["raw_trace"] == {"baseline": "bm25"}
    assert "no such question" in refused["raw_trace"]["error"]
    assert refused["raw_trace"]["failed"] == "answer"
    assert refused["items"]
    assert entry_of(run).counts["errors"] == 1
    imported = assay.import_results(samples.out, f"{tmp_path}/imported")
    assert "failed_searches" not in entry_of(imported).counts
