"""Data and configuration files with random changes: each reader returns rows or options, or one of our errors."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

import assay
from assay.cli.suite_command import read_config
from assay.core.errors import InputError
from assay.core.spec import build, parse_pairs
from assay.runner import api
from assay.suites import BUILT_IN, find_options
from assay.suites.evaluate.rows import read_rows
from assay.suites.memory.eval.sample_files import load_samples
from assay.suites.task.dataset.formats import FORMATS

from suites.memory.eval.test_worldmemarena import sample
from support.fuzz import accept, fuzzed, pick
from support.mutation import ODD_VALUES, mutated, mutated_text

ROWS: list[dict[str, Any]] = [
    {"q": "one plus one", "n": 2, "x": 0.5, "ok": True, "d": "2020-01-01", "tags": ["a", "b"]},
    {"q": 'two, "three"\nfour', "n": -7, "x": None, "ok": False, "d": "2021-12-31", "tags": []},
    {"q": "字", "n": 2**40, "x": 1e300, "ok": None, "d": None, "tags": ["c"]},
]
TABLE = pa.table(
    {
        **{name: [row[name] for row in ROWS] for name in ROWS[0]},
        "when": pa.array([0, 1, None], pa.timestamp("us", "UTC")),
        "day": pa.array([0, 19_000, None], pa.date32()),
        "struct": [{"a": 1, "b": ["x"]}, None, {"a": 2, "b": []}],
        "word": pa.array(["x", "y", "x"]).dictionary_encode(),
    }
)
# Values without a JSON form. They are a table of their own, because a table with them is refused as a whole.
BYTES = pa.table({"q": ["one", "two"], "n": [1, 2], "bytes": [b"\x00\xff", None]})


def _arrow(open_writer: Callable[..., Any], table: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with open_writer(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _parquet(table: Any) -> bytes:
    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink)
    return bytes(sink.getvalue())


class DataFile(NamedTuple):
    """A file that is read with these options of its format."""

    content: bytes
    options: dict[str, Any]


CSV = b'q,n,x,ok,d\n"one, ""two""",2,0.5,True,2020-01-01\nthree,-7,,False,NA\n"four\nfive",12,1e9,,\n'
TSV = CSV.replace(b",", b"\t")
LINES = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)
LIST = json.dumps(ROWS).encode()
COLUMNS = {name: [row[name] for row in ROWS] for name in ROWS[0]}
TEXT = "one plus one\n\ntwo\r\n\r\n字\u2028x".encode()
PARQUET = _parquet(TABLE)
DATA: dict[str, list[DataFile]] = {
    "json": [
        DataFile(LINES, {}),
        DataFile(LIST, {}),
        DataFile(json.dumps({"data": ROWS}).encode(), {"field": "data"}),
        DataFile(json.dumps({"data": COLUMNS}).encode(), {"field": "data"}),
    ],
    "csv": [
        DataFile(CSV, {}),
        DataFile(TSV, {"sep": "\t"}),
        DataFile(b"q,n\none,1\n", {"quoting": 3, "encoding": "latin-1"}),
        DataFile(b"about\none,1\n", {"names": ["q", "n"], "skiprows": 1}),
    ],
    "text": [
        DataFile(TEXT, options)
        for options in ({}, {"sample_by": "paragraph"}, {"sample_by": "document"}, {"keep_linebreaks": True})
    ],
    "arrow": [DataFile(_arrow(ipc.new_stream, TABLE), {}), DataFile(_arrow(ipc.new_file, TABLE), {})],
    "parquet": [DataFile(PARQUET, {})],
}
ODD_OPTIONS: dict[str, list[dict[str, Any]]] = {
    "json": [{"field": "data"}, {"field": "nothing"}],
    "csv": [
        *({"sep": "\t"}, {"names": ["a", "b"]}, {"quoting": 3}, {"skiprows": 10**12}, {"sep": "::"}),
        *({"encoding": "nope"}, {"quotechar": ""}, {"header": 5}, {"quoting": 99}, {"escapechar": "ab"}),
        *({"names": []}, {"skiprows": -1}),
    ],
    "text": [{"encoding": "nope"}],
}
PACKERS: list[Callable[[bytes], bytes]] = [gzip.compress, bz2.compress, lzma.compress]
README = b"""---
configs:
- config_name: default
  default: true
  data_files:
  - split: train
    path: train.jsonl
  - {split: test, path: "more-*.jsonl"}
---
# Rows
"""
SPLITS = ["test", "train", "train[:1]", "test+train"]
TASK = "task: t\ndataset_path: {kind}\ndataset_kwargs: {kwargs}\ntest_split: {split}\n"
TASK += "doc_to_text: '{{{{{question}}}}}'\ndoc_to_target: '{{{{{target}}}}}'\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is also the working directory, with a model in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text("async def answer(prompt, params):\n    return 'x'\n")
    return tmp_path


def test_every_data_format_has_files_to_change() -> None:
    """A new format of task data fails here until the test below has a file of it."""
    assert set(DATA) == set(FORMATS)


def plan(folder: Path, kind: str, kwargs: dict[str, Any], split: str) -> Callable[[], object]:
    """Return what plans the run of a task over the data: all rows are read, and the first prompt is made."""
    question, target = ("text", "text") if kind == "text" else ("q", "n")
    (folder / "t.yaml").write_text(
        TASK.format(kind=kind, kwargs=json.dumps(kwargs), split=split, question=question, target=target)
    )
    spec = assay.spec(
        "task", tasks=[str(folder / "t.yaml")], model=f"python/{folder}/model.py:answer", output_dir="out"
    )
    return lambda: api.overview(spec)


def plan_file(folder: Path, kind: str, content: bytes, options: dict[str, Any]) -> Callable[[], object]:
    """Write a data file, and return what plans a run over it."""
    (folder / "rows").write_bytes(content)
    return plan(folder, kind, {"data_files": {"test": "rows"}, **options}, "test")


@pytest.mark.parametrize("pack", [bytes, *PACKERS])
def test_all_task_data_is_read_when_unchanged(place: Path, pack: Callable[[bytes], bytes]) -> None:
    """Changes of a file that is refused anyway would test nothing. Parquet and Arrow files are never packed."""
    for kind, files in DATA.items():
        if pack is bytes or kind not in ("arrow", "parquet"):
            for content, options in files:
                plan_file(place, kind, pack(content), options)()


@pytest.mark.parametrize(("kind", "content"), [("arrow", _arrow(ipc.new_file, BYTES)), ("parquet", _parquet(BYTES))])
def test_task_data_with_bytes_is_refused(place: Path, kind: str, content: bytes) -> None:
    with pytest.raises(InputError, match="a value is of type bytes, expected text"):
        plan_file(place, kind, content, {})()


@fuzzed(150)
def test_task_data_in_every_format_is_read_or_refused(place: Path, random: Random) -> None:
    """Plain or compressed, with the options of its format."""
    kind = random.choice(list(DATA))
    content, options = random.choice(DATA[kind])
    if random.random() < 0.15:
        options = random.choice(ODD_OPTIONS.get(kind, [{}]))
    content = mutated(random, content)
    if random.random() < 0.2:
        content = random.choice(PACKERS)(content)
        content = mutated(random, content) if random.random() < 0.5 else content
    accept(plan_file(place, kind, content, options))


def write_folder(folder: Path, readme: bytes) -> None:
    """Write a folder of data whose README says which files belong to which split."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "README.md").write_bytes(readme)
    (folder / "train.jsonl").write_bytes(LINES)
    (folder / "more-1.jsonl").write_bytes(LINES)


@pytest.mark.parametrize("split", SPLITS)
def test_a_folder_of_data_with_a_readme_is_read_when_unchanged(place: Path, split: str) -> None:
    write_folder(place / "folder", README)
    plan(place, str(place / "folder"), {}, split)()


@fuzzed(25)
def test_a_folder_of_data_with_a_readme_is_read_or_refused(place: Path, random: Random) -> None:
    readme = mutated(random, README) if random.random() < 0.3 else changed_head(random)
    write_folder(place / "folder", readme)
    accept(plan(place, str(place / "folder"), {}, random.choice(SPLITS)))


def changed_head(random: Random) -> bytes:
    """A README whose YAML is changed between its lines."""
    _, head, rest = README.split(b"---\n")
    return b"---\n" + mutated(random, head).rstrip(b"\n") + b"\n---\n" + rest


ROW_FILES: dict[str, list[bytes]] = {
    ".json": [LINES, LIST],
    ".jsonl": [LINES],
    ".csv": [CSV],
    ".tsv": [TSV],
    ".parquet": [PARQUET],
}


def test_all_rows_of_a_python_program_are_read_when_unchanged(place: Path) -> None:
    for suffix, contents in ROW_FILES.items():
        path = place / f"rows{suffix}"
        for content in contents:
            path.write_bytes(content)
            assert len(read_rows(path)[0]) == len(ROWS), path


@fuzzed(40)
def test_rows_of_a_python_program_are_read_or_refused(place: Path, random: Random) -> None:
    suffix = random.choice(list(ROW_FILES))
    path = place / f"rows{suffix}"
    path.write_bytes(mutated(random, random.choice(ROW_FILES[suffix])))
    accept(lambda: read_rows(path))


def write_arena(root: Path) -> Path:
    """Write samples of WorldMemArena: one file for each, in folders by kind. Returns the first file."""
    shutil.rmtree(root, ignore_errors=True)
    for name in ("kim", "lee"):
        (root / name).mkdir(parents=True)
        (root / name / f"{name}.json").write_bytes(json.dumps(sample(name)).encode())
    return root / "kim" / "kim.json"


def test_worldmemarena_samples_are_loaded_when_unchanged(place: Path) -> None:
    write_arena(place / "arena")
    assert len(load_samples(place / "arena")) == 2


@fuzzed(25)
def test_worldmemarena_samples_are_loaded_or_refused(place: Path, random: Random) -> None:
    path = write_arena(place / "arena")
    path.write_bytes(mutated(random, path.read_bytes()))
    accept(lambda: load_samples(place / "arena"))


CONFIGS: dict[str, dict[str, Any]] = {
    "task": {
        "tasks": "a.yaml,b.yaml",
        "model": "openai/m",
        "num_fewshot": 2,
        "gen_kwargs": "a=1",
        "limit": 0.5,
    },
    "pipeline": {"pipeline": "p.yaml", "testset": ["t.jsonl"], "variant": "all", "judge": "offline"},
    "hop": {"target": "Tasks/X", "data": "d.jsonl", "concurrency": 3},
    "memory-test": {"data": "d.json", "memory": ["bm25"], "memory_args": {"k": 5}, "segments": 3},
    "memory-eval": {"dataset": "d", "baseline": "bm25", "judge": "offline", "top_k": 4},
    "calibration": {"labels": "built-in", "judge": "offline", "min_kappa": 0.5},
}


def test_every_command_has_a_configuration_to_change() -> None:
    assert set(CONFIGS) == {name for name, about in BUILT_IN.items() if about.command}


def read_options(path: Path, suite: str, content: bytes) -> Callable[[], object]:
    """Write a configuration file, and return what reads it as `--config` does."""
    path.write_bytes(content)
    options = find_options(suite)
    return lambda: build(
        suite, options, options.translate_values(read_config(options, path), lambda _: None), str(path)
    )


@pytest.mark.parametrize("suite", CONFIGS)
def test_every_configuration_file_is_read_when_unchanged(place: Path, suite: str) -> None:
    read_options(place / "config.yaml", suite, json.dumps(CONFIGS[suite]).encode())()


@fuzzed(80)
def test_a_configuration_file_gives_options_or_a_sentence(place: Path, random: Random) -> None:
    suite = random.choice(list(CONFIGS))
    accept(read_options(place / "config.yaml", suite, mutated(random, json.dumps(CONFIGS[suite]).encode())))


PAIRS = ["a=1,b=x", 'stop=["a","b"],t=0.5', '{"a": [1, {"b": null}]}', "k='it''s',n={'a': (1, 2)}", "a=1e999"]


@pytest.mark.parametrize("text", PAIRS)
def test_all_pairs_of_an_option_are_read_when_unchanged(text: str) -> None:
    assert parse_pairs(text)


@fuzzed(80)
def test_pairs_of_an_option_are_read_or_refused(random: Random) -> None:
    """What `--model-args` and similar flags take: `a=1,b=x`, or an object of JSON."""
    text = mutated_text(random, random.choice(PAIRS))
    if random.random() < 0.3:
        text = f"a={pick(random, ODD_VALUES, ['(' * 300, '[' * 100_000, '-' * 5000 + '1', '9' * 5000])}"
    accept(lambda: parse_pairs(text))
