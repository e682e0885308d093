"""assay's Dataset behaves like that of Hugging Face, for the methods that task files use."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.core.errors import InputError
from assay.suites.task.dataset import hf_dataset as ours
from assay.suites.task.dataset.documents import Documents
from assay.suites.task.dataset.hf_dataset import Dataset

from support.data_cases import OPERATIONS, ROWS

GOLDEN = Path(__file__).parents[3] / "golden" / "datasets"
STORED = json.loads((GOLDEN / "operations.json").read_text())


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_give_what_datasets_gives(name: str) -> None:
    """The same values, types and order as the stored results of the real package."""
    assert json.dumps(OPERATIONS[name](ours)) == json.dumps(STORED[name])


def test_values_become_plain() -> None:
    """Scalars and arrays of numpy are numbers and lists; points in time are text."""
    row = {"a": np.int64(3), "b": np.array([1.5, 2]), "c": np.float32(0.5), "d": datetime(2020, 1, 1)}  # noqa: DTZ001
    assert list(Dataset.from_list([row])) == [{"a": 3, "b": [1.5, 2.0], "c": 0.5, "d": "2020-01-01 00:00:00"}]


def test_a_value_without_a_json_form_is_refused() -> None:
    """Bytes are not JSON."""
    with pytest.raises(InputError, match="row 1: a value is of type bytes, expected text, numbers"):
        Dataset.from_list([{"a": 1}, {"a": b"x"}])


def test_a_shuffle_without_a_seed_follows_numpy() -> None:
    """The order repeats with numpy's own seed, and the next one differs."""
    orders = []
    for _ in range(2):
        np.random.seed(5)  # noqa: NPY002
        data = Dataset.from_dict({"a": list(range(20))})
        orders.append((data.shuffle()["a"], data.shuffle()["a"]))
    assert orders[0] == orders[1]
    assert orders[0][0] != orders[0][1]


def test_sorting_puts_rows_without_a_value_last() -> None:
    """In both directions; `null_placement` puts them first."""
    data = Dataset.from_dict({"a": [2, None, 1]})
    assert data.sort("a")["a"] == [1, 2, None]
    assert data.sort("a", reverse=True)["a"] == [2, 1, None]
    assert data.sort("a", null_placement="at_start")["a"] == [None, 1, 2]


WRONG: list[tuple[Any, type[Exception], str]] = [
    (lambda d: d["zz"], ValueError, "there is no column 'zz'; there are a, b, c"),
    (lambda d: d[3], IndexError, "there is no row 3; there are 3"),
    (lambda d: d.select([5]), IndexError, "there is no row 5; there are 3"),
    (lambda d: d.remove_columns("zz"), ValueError, "there is no column 'zz'"),
    (lambda d: d.rename_column("a", "b"), ValueError, "two columns would have one name"),
    (lambda d: d.add_column("n", [1]), ValueError, "expected 3 values for the column 'n', found 1"),
    (lambda d: d.map(lambda _: [1]), TypeError, "must return a mapping or None, it returned list"),
    (lambda d: d.map(lambda _: {}, nonsense=1), TypeError, "unexpected keyword argument 'nonsense'"),
    (
        lambda d: d.map(lambda _: {"z": [1]}, batched=True),
        ValueError,
        "columns of a batch have different lengths",
    ),
    (
        lambda d: d.push_to_hub("x"),
        AttributeError,
        "assay's Dataset has no attribute 'push_to_hub'; it has add_column",
    ),
    (lambda _: Dataset.from_dict({"a": [1], "b": []}), ValueError, "columns have different lengths"),
    (lambda d: d.train_test_split(test_size=9), ValueError, "3 rows cannot be split into -6 and 9"),
]


@pytest.mark.parametrize(("use", "kind", "message"), WRONG)
def test_wrong_use_is_explained(use: Any, kind: type[Exception], message: str) -> None:
    """The same kinds of exception as the real package raises, in plain words."""
    with pytest.raises(kind, match=message):
        use(Dataset.from_list(ROWS))


def test_a_data_set_of_a_file_has_its_types(tmp_path: Path) -> None:
    """Functions see what the prompts see: floats in a column with floats, null where a key is missing."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"a":1}\n{"a":0.5,"b":"x"}\n')
    data = Dataset.of(Documents("json", [path]))
    assert json.dumps(list(data)) == '[{"a": 1.0, "b": null}, {"a": 0.5, "b": "x"}]'
    assert data.features == {"a": "float", "b": "str"}


def test_a_function_that_changes_its_row_does_not_change_the_data() -> None:
    """The next reader gets the original row."""
    data = Dataset.from_list(ROWS)
    data[0]["a"] = 99
    next(iter(data))["c"].append(5)
    assert data[0] == ROWS[0]
