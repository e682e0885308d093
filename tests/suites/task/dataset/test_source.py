"""All ways of naming data, and the message for each way in which it is missing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import InputError, MissingExtra
from assay.suites.task.dataset.source import DataSource, datasets_installed

from support.fuzz import bounded


def where(*keys: str) -> str:
    return f"task.yaml: {'.'.join(keys)}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, and a folder for the task file in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks").mkdir()
    return tmp_path


def put(name: str, values: Iterable[int] = (1,)) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix in (".csv", ".tsv", ".txt"):
        path.write_text("".join(f"{value}\n" for value in ("a", *values)))
    else:
        path.write_text("".join(json.dumps({"a": value}) + "\n" for value in values))


def source(path: str, name: str | None = None, **options: Any) -> DataSource:
    return DataSource(path, name, options, Path("tasks"), where)


def values(result: DataSource, split: str) -> list[Any]:
    docs = result.open(split)
    docs.scan()
    return [row["a"] for row in docs.values()]


@pytest.mark.usefixtures("folder")
def test_files_are_found_from_here_and_beside_the_task() -> None:
    """Names, lists, patterns, and the list of splits that READMEs use."""
    put("d/1.jsonl", [1])
    put("d/2.jsonl", [2])
    put("tasks/own.jsonl", [3])
    assert values(source("json", data_files="d/*.jsonl"), "train") == [1, 2]
    both = source("json", data_files={"test": ["d/2.jsonl", "d/1.jsonl"], "dev": "own.jsonl"})
    assert both.splits() == ["test", "dev"]
    assert (values(both, "test"), values(both, "dev")) == ([2, 1], [3])
    assert values(source("json", data_files=[{"split": "x", "path": "own.jsonl"}]), "x") == [3]


@pytest.mark.usefixtures("folder")
def test_parts_of_splits_are_taken() -> None:
    """Slices by number and by share, and sums."""
    put("a.jsonl", range(10))
    put("b.jsonl", [90, 91])
    result = source("json", data_files={"train": "a.jsonl", "test": "b.jsonl"})
    assert values(result, "train[:2]") == [0, 1]
    assert values(result, "train[50%:80%]") == [5, 6, 7]
    assert values(result, "train[-1:] + test") == [9, 90, 91]
    assert result.open("train[:2]").identity() != result.open("train[2:4]").identity()
    with pytest.raises(InputError, match="there is no split 'dev'; there are train, test"):
        result.open("train+dev[:1]")


FOLDERS: list[tuple[list[str], dict[str, list[str]]]] = [
    (["x.jsonl"], {"train": ["x.jsonl"]}),
    (
        ["train.csv", "my-test.csv", "dev_0.csv"],
        {"train": ["train.csv"], "validation": ["dev_0.csv"], "test": ["my-test.csv"]},
    ),
    (
        ["test/1.csv", "train/2.csv", "train/3.csv"],
        {"train": ["train/2.csv", "train/3.csv"], "test": ["test/1.csv"]},
    ),
    (
        ["data/fr-00000-of-00002.jsonl", "data/fr-00001-of-00002.jsonl", "data/test-00000-of-00001.jsonl"],
        {
            "test": ["data/test-00000-of-00001.jsonl"],
            "fr": ["data/fr-00000-of-00002.jsonl", "data/fr-00001-of-00002.jsonl"],
        },
    ),
    (["test.jsonl", "latest.jsonl", "README.md", ".hidden/train.jsonl", "code.py"], {"test": ["test.jsonl"]}),
    (["test.tsv"], {"test": ["test.tsv"]}),
]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("files", "splits"), FOLDERS)
def test_a_folder_is_a_data_set(files: list[str], splits: dict[str, list[str]]) -> None:
    """Splits by the names of files or folders; the kind by their endings."""
    for name in files:
        put(f"set/{name}")
    result = source("set")
    assert {split: [str(path)[4:] for path in result.open(split).files] for split in result.splits()} == splits
    assert values(result, next(iter(splits))) != []


@pytest.mark.usefixtures("folder")
def test_the_readme_of_a_folder_configures_its_files() -> None:
    """Configurations have names, files and options."""
    put("set/en/q.csv", [5])
    put("set/fr/q.csv", [6])
    head = {
        "configs": [
            {"config_name": "en", "data_files": [{"split": "test", "path": "en/*.csv"}]},
            {"config_name": "fr", "data_dir": "fr", "skiprows": 1, "names": ["a"]},
        ]
    }
    Path("set/README.md").write_text(f"---\n{json.dumps(head)}\n---\n# A data set\n")
    assert values(source("set", "en"), "test") == [5]
    assert values(source("set", "fr"), "train") == [6]
    with pytest.raises(InputError, match="task.yaml: dataset_path: set dataset_name to one of en, fr"):
        source("set")
    with pytest.raises(InputError, match="task.yaml: dataset_name: set has no data set 'de'; it has en, fr"):
        source("set", "de")


ALIASES = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30))


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("a: [", "is not YAML: "),
        ("a: " + "[" * 3000, "is nested more than 100 levels deep"),
        ("a: 2024-13-45", "is not YAML: ValueError: month must be in 1..12"),
        ("a: " + "9" * 5000, "is not YAML: ValueError: Exceeds the limit"),
        (
            f"a0: &a0 [x, x]\n{ALIASES}configs: [{{data_files: *a29}}]",
            "has more than 5,000,000 values, counting those that aliases",
        ),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_readme_that_is_made_to_hurt_is_refused(head: str, message: str) -> None:
    put("set/q.csv", [5])
    Path("set/README.md").write_text(f"---\n{head}\n---\n# A data set\n")
    with bounded(), pytest.raises(InputError) as caught:
        source("set")
    assert str(caught.value).startswith(f"set/README.md between the lines ---: {message}")


@pytest.mark.usefixtures("folder")
def test_a_split_of_a_readme_that_is_no_name_is_refused() -> None:
    put("set/q.csv", [5])
    Path("set/README.md").write_text("---\nconfigs: [{data_files: [{split: [test], path: q.csv}]}]\n---\n")
    with pytest.raises(InputError, match=r"expected the name of a split, found \['test'\]"):
        source("set")


@pytest.mark.usefixtures("folder")
def test_other_parts_of_a_readme_may_have_dates_and_numbers_as_keys() -> None:
    put("set/q.csv", [5])
    head = "2024-01-01: {1: a, null: b}\nconfigs: [{data_files: q.csv}]"
    Path("set/README.md").write_text(f"---\n{head}\n---\n# A data set\n")
    assert values(source("set"), "train") == [5]


@pytest.mark.usefixtures("folder")
def test_data_dir_names_a_folder() -> None:
    """Files are looked for in it; without names, all that are there."""
    put("d/test.jsonl", [1])
    put("d/sub/x.jsonl", [2])
    assert values(source("json", data_dir="d"), "test") == [1]
    assert values(source("json", data_dir="d", data_files="sub/*"), "train") == [2]
    assert values(source("d", data_dir="sub"), "train") == [2]
    assert values(source("d", data_files={"dev": "sub/*.jsonl"}), "dev") == [2]


MISSING: list[tuple[str, str | None, dict[str, Any], str]] = [
    ("json", None, {}, "task.yaml: dataset_kwargs.data_files: expected data_files: a file, a list of files, or files by split"),
    ("json", None, {"data_files": 5}, "task.yaml: dataset_kwargs.data_files: expected data_files: a file, a list of files, or files by split"),
    ("json", None, {"data_files": {"test": 5}}, "task.yaml: dataset_kwargs.data_files: expected a file or a list of files, found 5"),
    ("json", None, {"data_files": {"test": "no.jsonl"}}, "task.yaml: dataset_kwargs.data_files: there is no data file 'no.jsonl'"),
    ("json", None, {"data_dir": "no"}, "task.yaml: dataset_kwargs.data_dir: there is no folder 'no'"),
    ("json", None, {"data_dir": "tasks"}, "task.yaml: dataset_kwargs.data_dir: there are no data files in tasks"),
    ("tasks", None, {}, "task.yaml: dataset_path: there are no data files in tasks (.parquet, .arrow, .jsonl, .json, .csv, .ndjson, .tsv, .txt)"),
    ("tasks", "sub", {}, "task.yaml: dataset_name: tasks has no data set 'sub': there is no such folder in it"),
    ("tasks", None, {"data_files": "x.csv"}, "task.yaml: dataset_kwargs.data_files: there is no data file 'x.csv' in tasks"),
    ("./no", None, {}, "task.yaml: dataset_path: there is no folder './no'"),
    ("a/b/c", None, {}, "task.yaml: dataset_path: there is no folder 'a/b/c'"),
    ("x.jsonl", None, {}, "task.yaml: dataset_path: 'x.jsonl' is a file: write dataset_path: json and name it in data_files"),
    ("saved", None, {}, "task.yaml: dataset_path: saved was written by save_to_disk; write it as Parquet or JSON (to_parquet, to_json)"),
    ("csv", None, {"data_files": "x.csv", "skiprows": "no"}, "task.yaml: dataset_kwargs: Expected `int | null`, got `str` - at `$.skiprows`"),
    ("text", None, {"data_files": "x.csv", "sample_by": "page"}, "task.yaml: dataset_kwargs.sample_by: expected line, paragraph or document, found 'page'"),
]  # fmt: skip


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("path", "name", "options", "message"), MISSING)
def test_missing_files_and_folders_are_reported_with_their_key(
    path: str, name: str | None, options: dict[str, Any], message: str
) -> None:
    """The message has the key of the task file."""
    put("x.jsonl")
    put("x.csv")
    put("saved/dataset_dict.json")
    with pytest.raises(InputError) as caught:
        source(path, name, **options)
    assert str(caught.value) == message


@pytest.mark.usefixtures("folder")
def test_an_unknown_split_is_reported_with_the_known_ones() -> None:
    """The message lists the splits."""
    put("set/test.jsonl")
    with pytest.raises(InputError, match="there is no split 'validation'; there are test"):
        source("set").open("validation")


@pytest.mark.usefixtures("folder")
@pytest.mark.skipif(datasets_installed(), reason="the extra hf is installed: nothing is missing")
def test_a_hub_data_set_needs_an_extra() -> None:
    """So do options that only `datasets` implements; the message has the key and the command."""
    put("x.csv")
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("openai/gsm8k", {}, "dataset_path: 'openai/gsm8k' is not a file format"),
        ("csv", {"data_files": "x.csv", "skipfooter": 1}, "dataset_kwargs.skipfooter: reading csv with this"),
        ("json", {"data_files": "hf://x/y.json"}, "dataset_kwargs.data_files: reading json with this"),
    ]
    for path, options, key in cases:
        with pytest.raises(MissingExtra, match=key) as caught:
            source(path, **options)
        assert str(caught.value).endswith("needs an optional package: pip install 'assay[hf]'")


@pytest.mark.usefixtures("folder")
def test_download_options_have_no_effect_on_files() -> None:
    """Existing task files carry such options."""
    put("x.jsonl", [4])
    result = source("json", data_files="x.jsonl", trust_remote_code=True, cache_dir="c", num_proc=2)
    assert values(result, "train") == [4]
