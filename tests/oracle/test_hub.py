"""Data sets through the real `datasets`: by name from its cache, and folders as it sees them. No network."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import InputError
from assay.suites.task.dataset.source import DataSource, load_with_datasets, spool_loaded_rows

pytestmark = pytest.mark.filterwarnings("default")  # those of other people's packages
LAYOUTS = [
    ["x.jsonl"],
    ["a.jsonl", "sub/b.jsonl"],
    ["train.jsonl", "my-test.jsonl", "dev_0.jsonl"],
    ["test/1.jsonl", "train/2.jsonl", "train/3.jsonl"],
    ["data/train/1.jsonl", "data/eval/2.jsonl"],
    ["data/fr-00000-of-00002.jsonl", "data/fr-00001-of-00002.jsonl", "data/test-00000-of-00001.jsonl"],
    ["test.jsonl", "latest.jsonl", ".hidden/train.jsonl", "__pycache__/train.jsonl", "code.py"],
    ["testing.jsonl", "valid.2.jsonl", "training set.jsonl"],
    ["validation.csv", "test.csv"],
    ["test.tsv"],
]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The real package, with an empty cache and no network."""
    home = tmp_path_factory.mktemp("cache")
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HOME": str(home)}
    return pytest.importorskip("datasets", reason="needs the package datasets: make oracle")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def source(path: str, name: str | None = None, **options: Any) -> DataSource:
    return DataSource(path, name, options, Path(), lambda *keys: f"task.yaml: {'.'.join(keys)}")


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def rows(found: DataSource, split: str) -> list[Any]:
    docs = found.open(split)
    docs.scan()
    return list(docs.values())


@pytest.mark.parametrize("files", LAYOUTS)
def test_a_folder_has_the_splits_datasets_finds(files: list[str], library: Any, here: Path) -> None:
    """The same splits in the same order, with the same rows."""
    for number, name in enumerate(files):
        put(here / "set" / name, f"a\n{number}\n" if name.endswith("sv") else f'{{"a":{number}}}\n')
    theirs = {str(split): list(data) for split, data in library.load_dataset("./set").items()}
    found = source("set")
    assert {split: rows(found, split) for split in found.splits()} == theirs
    assert found.splits() == list(theirs)


def test_options_we_do_not_know_are_left_to_datasets(library: Any, here: Path) -> None:
    """`nrows` is pandas' own. The rows are documents like any, and their content is their identity."""
    put(here / "x.csv", "a,b\n1,\n2,x\n3,y\n")
    found = source("csv", data_files={"test": "x.csv"}, nrows=2)
    docs = found.open("test")
    assert docs.scan().total == 2
    assert list(docs.values()) == [{"a": 1, "b": None}, {"a": 2, "b": "x"}]
    assert [doc.where for doc in docs.rows()] == ["csv:test document 0", "csv:test document 1"]
    assert docs.identity() == source("csv", data_files={"test": "x.csv"}, nrows=2).open("test").identity()
    with pytest.raises(InputError, match="there is no split 'dev'; there are test"):
        found.open("dev")


def test_a_name_is_found_in_the_cache(library: Any, here: Path) -> None:
    """Offline, a data set that was fetched before is read; parts of its splits too."""
    put(here / "toy/test.jsonl", '{"q":"one"}\n{"q":"two"}\n')
    made = Path(library.load_dataset("./toy")["test"].cache_files[0]["filename"]).parent
    cache = Path(library.config.HF_DATASETS_CACHE)
    shutil.copytree(made, cache / "acme___toy" / "default" / made.parent.name / made.name)
    found = source("acme/toy")
    assert found.splits() == ["test"]
    assert rows(found, "test") == [{"q": "one"}, {"q": "two"}]
    assert rows(found, "test[1:]") == [{"q": "two"}]


@pytest.mark.usefixtures("library", "here")
def test_offline_and_not_in_the_cache_is_said() -> None:
    """With the switch that forbids the download."""
    with pytest.raises(InputError) as caught:
        source("acme/nothing").splits()
    said = "task.yaml: dataset_path: the data set 'acme/nothing' is not in the cache, and HF_HUB_OFFLINE is set"
    assert str(caught.value).startswith(said)


@pytest.mark.usefixtures("library", "here")
def test_nothing_is_told_to_anybody() -> None:
    """Telemetry is off before the package is imported."""
    with pytest.raises(InputError):
        load_with_datasets("acme/nothing", None, {}, "task.yaml:1")
    assert os.environ["HF_HUB_DISABLE_TELEMETRY"] == "1"
    assert os.environ["HF_UPDATE_DOWNLOAD_COUNTS"] == "0"


def test_values_of_datasets_are_documents(library: Any) -> None:
    """Times are text as samples files show them; pictures and other bytes are refused with their place."""
    from datetime import datetime

    data = library.Dataset.from_list([{"t": datetime(2020, 1, 1), "n": [1, 2]}])  # noqa: DTZ001
    docs = spool_loaded_rows(data, "acme/toy", "main", "test")
    docs.scan()
    assert list(docs.values()) == [{"t": "2020-01-01 00:00:00", "n": [1, 2]}]
    with pytest.raises(InputError, match="acme/toy:main:test document 0: a value is of type bytes"):
        spool_loaded_rows(library.Dataset.from_list([{"b": b"x"}]), "acme/toy", "main", "test")
