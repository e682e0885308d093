"""`process_docs` gets a data set and may return any iterable of rows, which become documents."""

from __future__ import annotations

import random
import sys
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.core.errors import InputError, MissingExtra
from assay.suites.task.dataset.documents import Documents, spool_rows
from assay.suites.task.dataset.hf_dataset import Dataset
from assay.suites.task.dataset.process_docs import datasets_stand_in, run_process_docs
from assay.suites.task.dataset.source import datasets_installed


@pytest.fixture
def docs(tmp_path: Path) -> Documents:
    path = tmp_path / "a.jsonl"
    path.write_text('{"q":"one","n":1}\n{"q":"two","n":2.5}\n{"q":"one","n":1}\n')
    return Documents("json", [path])


def run(docs: Documents, function: Any) -> Documents:
    result = run_process_docs(docs, function, where="task.yaml:3")
    result.scan()
    return result


WAYS = {
    "a data set": lambda data: data.map(lambda row: {"m": row["n"]}),
    "a list": lambda data: [{**row, "m": row["n"]} for row in data],
    "a generator": lambda data: ({**row, "m": row["n"]} for row in data),
}


@pytest.mark.parametrize("way", WAYS)
def test_process_docs_may_return_any_iterable_of_rows(way: str, docs: Documents) -> None:
    """Rows keep the types of their file; keys and equal rows are computed from their content."""
    result = run(docs, WAYS[way])
    assert [*result.values()][:2] == [{"q": "one", "n": 1.0, "m": 1.0}, {"q": "two", "n": 2.5, "m": 2.5}]
    assert (result.facts.total, result.facts.twins, result.facts.columns) == (3, 1, ["q", "n", "m"])
    unique_keys = result.unique_keys()
    keys = [unique_keys.of(result.key(doc, result.parse(doc))) for doc in result.rows()]
    assert keys[2] == f"{keys[0]}~2"


def test_documents_are_named_by_their_number(docs: Documents) -> None:
    """Messages name the data file and the number; skipped documents are not read."""
    result = run(docs, lambda data: data.filter(lambda row: row["q"] == "one"))
    (doc,) = result.rows(skip=lambda number: number == 0)
    assert doc.where == f"{docs.files[0]} document 1 after process_docs"
    assert (doc.number, result.files) == (1, docs.files)


def test_returning_the_data_set_changes_nothing(docs: Documents) -> None:
    """Values stay what they were, also after another look."""
    assert [*run(docs, lambda data: data).values()] == [*docs.values()]


def test_content_is_the_identity(docs: Documents) -> None:
    """Equal rows have the same identity, whichever way they were made; other rows have another."""
    ways = [run(docs, WAYS[way]).identity() for way in WAYS]
    assert ways[0] == ways[1] == ways[2]
    assert run(docs, lambda data: data.select([0])).identity() != ways[0]
    assert docs.identity() != ways[0]


def test_random_orders_repeat(docs: Documents) -> None:
    """Python's and numpy's random numbers begin anew for each call."""

    def shuffled(data: Dataset) -> Any:
        rows = [{"r": random.random(), "n": float(np.random.random()), **row} for row in data.shuffle()]  # noqa: NPY002
        random.shuffle(rows)
        return rows

    first, second = (run(docs, shuffled).identity() for _ in range(2))
    assert first == second


WRONG: list[tuple[Any, str]] = [
    (lambda _: 1 / 0, "task.yaml:3: <lambda>: ZeroDivisionError: division by zero"),
    (lambda data: data.map(lambda row: {"m": row["x"]}), "task.yaml:3: <lambda>: KeyError: 'x'"),
    (
        lambda _: None,
        "task.yaml:3: <lambda>: TypeError: expected a data set or a list of documents, found NoneType",
    ),
    (
        lambda data: data[0],
        "task.yaml:3: <lambda>: TypeError: expected a data set or a list of documents, found dict",
    ),
    (
        lambda _: [{"a": 1}, 5],
        "a.jsonl document 1 after process_docs: expected a document (a mapping), found int",
    ),
    (lambda _: [{1: 2}], "a.jsonl document 0 after process_docs: a key is 1, expected text"),
    (
        lambda _: [{"a": "\ud800"}],
        "a.jsonl document 0 after process_docs: 'utf-8' codec can't encode character",
    ),
    (lambda data: data.to_csv("x"), "AttributeError: assay's Dataset has no attribute 'to_csv'"),
]


@pytest.mark.parametrize(("function", "message"), WRONG)
def test_errors_of_process_docs_name_key_function_and_exception(function: Any, message: str, docs: Documents) -> None:
    """Or the number of a document that is not a mapping."""
    with pytest.raises(InputError) as caught:
        run_process_docs(docs, function, where="task.yaml:3")
    assert message in str(caught.value)


def test_many_rows_are_kept_in_a_file() -> None:
    """Rows beyond the write buffer come back by number, in any order."""
    docs = spool_rows(({"n": n, "text": "x" * 1000} for n in range(2000)), Path("made"), " row {}")
    assert docs.scan().total == 2000
    assert [docs.parse(docs.document(n))["n"] for n in (1999, 0, 1000)] == [1999, 0, 1000]
    assert next(docs.rows(skip=lambda number: number < 1500)).number == 1500


MODULE = """
import datasets
from datasets import Dataset, Features, Value, concatenate_datasets

def process(data: datasets.Dataset) -> Dataset:
    import datasets
    extra = datasets.Dataset.from_list([{"q": "three", "n": 3.0}])
    return concatenate_datasets([data.select([0]), extra])

def load(data):
    return datasets.load_dataset("json", data_files=FILE, split="train[1:2]")

def other(data):
    return datasets.get_dataset_config_names("x")
"""


@pytest.mark.skipif(datasets_installed(), reason="the extra hf is installed: the real package is imported")
def test_task_code_may_import_datasets_without_the_package(docs: Documents) -> None:
    """The common names exist while code is imported and runs; afterwards the stand-in is removed."""
    names: dict[str, Any] = {"FILE": str(docs.files[0])}
    with datasets_stand_in():
        exec(MODULE, names)
    assert "datasets" not in sys.modules
    assert [row["q"] for row in run(docs, names["process"]).values()] == ["one", "three"]
    assert [row["q"] for row in run(docs, names["load"]).values()] == ["two"]
    with pytest.raises(MissingExtra, match="'datasets.get_dataset_config_names', which a task's code uses"):
        run_process_docs(docs, names["other"], where="task.yaml:3")
    assert "datasets" not in sys.modules


def test_a_generator_without_an_end_is_read_as_far_as_the_run_needs_it(docs: Documents) -> None:
    """A list is read whole: the number of documents is a number of the results."""

    def endless(data: Any) -> Any:
        return ({"q": str(number)} for number in count())

    first = run_process_docs(docs, endless, where="t.yaml:9 process_docs", most=2)
    first.scan()
    assert [row["q"] for row in first.values()] == ["0", "1"]
    whole = run_process_docs(docs, lambda data: [{"q": "a"}] * 5, where="t.yaml:9 process_docs", most=2)
    whole.scan()
    assert whole.facts.total == 5
