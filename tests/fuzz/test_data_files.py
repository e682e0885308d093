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
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyarrow import ipc

import assay
from assay import api
from assay.cli.suite_command import read_config
from assay.core.spec import build, parse_pairs
from assay.suites import BUILT_IN, find_options
from assay.suites.evaluate.rows import read_rows
from assay.suites.memory_eval.sample_files import load_samples
from assay.suites.task.dataset.formats import FORMATS

from suites.memory_eval.test_worldmemarena import sample
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
        "bytes": [b"\x00\xff", b"", None],
        "word": pa.array(["x", "y", "x"]).dictionary_encode(),
    }
)


def _arrow(open_writer: Callable[..., Any]) -> bytes:
    sink = pa.BufferOutputStream()
    with open_writer(sink, TABLE.schema) as writer:
        writer.write_table(TABLE)
    return bytes(sink.getvalue())


def _parquet() -> bytes:
    with TemporaryDirectory() as folder, duckdb.connect() as database:
        database.register("rows", TABLE.drop_columns("word"))
        database.execute(f"copy rows to '{folder}/rows.parquet' (format parquet)")
        return Path(folder, "rows.parquet").read_bytes()


CSV = b'q,n,x,ok,d\n"one, ""two""",2,0.5,True,2020-01-01\nthree,-7,,False,NA\n"four\nfive",12,1e9,,\n'
LINES = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)
TEXT = "one plus one\n\ntwo\r\n\r\n字\u2028x".encode()
DATA: dict[str, list[bytes]] = {
    "json": [LINES, json.dumps(ROWS).encode(), json.dumps({"data": {"rows": ROWS}}).encode()],
    "csv": [CSV, CSV.replace(b",", b"\t")],
    "text": [TEXT],
    "arrow": [_arrow(ipc.new_stream), _arrow(ipc.new_file)],
    "parquet": [_parquet()],
}
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "json": [{}, {}, {"field": "data"}, {"field": "nothing"}],
    "csv": [
        *({}, {}, {}, {"sep": "\t"}, {"names": ["a", "b"]}, {"quoting": 3}, {"encoding": "latin-1"}),
        *({"skiprows": 1}, {"skiprows": 10**12}, {"sep": "::"}, {"encoding": "nope"}, {"quotechar": ""}),
        *({"header": 5}, {"quoting": 99}, {"escapechar": "ab"}, {"names": []}, {"skiprows": -1}),
    ],
    "text": [
        {},
        {"sample_by": "paragraph"},
        {"sample_by": "document"},
        {"keep_linebreaks": True},
        {"encoding": "nope"},
    ],
}
PACKERS: list[Callable[[bytes], bytes]] = [gzip.compress, bz2.compress, lzma.compress]
README = b"""---
configs:
- config_name: default
  default: true
  data_files:
  - split: train
    path: train.jsonl
  - {split: test, path: "*.csv"}
---
# Rows
"""
TASK = "task: t\ndataset_path: {kind}\ndataset_kwargs: {kwargs}\ntest_split: {split}\n"
TASK += "doc_to_text: '{{{{q}}}}'\ndoc_to_target: '{{{{n}}}}'\n"


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
    (folder / "t.yaml").write_text(TASK.format(kind=kind, kwargs=json.dumps(kwargs), split=split))
    spec = assay.spec(
        "task", tasks=[str(folder / "t.yaml")], model=f"python/{folder}/model.py:answer", output_dir="out"
    )
    return lambda: api.overview(spec)


@fuzzed(150)
def test_task_data_in_every_format_is_read_or_refused(place: Path, random: Random) -> None:
    """Plain or compressed, with the options of its format."""
    kind = random.choice(list(DATA))
    content = mutated(random, random.choice(DATA[kind]))
    if random.random() < 0.2:
        content = random.choice(PACKERS)(content)
        content = mutated(random, content) if random.random() < 0.5 else content
    (place / "rows").write_bytes(content)
    options = random.choice(OPTIONS.get(kind, [{}]))
    accept(plan(place, kind, {"data_files": {"test": "rows"}, **options}, "test"))


@fuzzed(25)
def test_a_folder_of_data_with_a_readme_is_read_or_refused(place: Path, random: Random) -> None:
    folder = place / "folder"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "README.md").write_bytes(
        mutated(random, README) if random.random() < 0.3 else changed_head(random)
    )
    (folder / "train.jsonl").write_bytes(LINES)
    (folder / "test.csv").write_bytes(CSV)
    split = random.choice(["test", "train", "train[:1]", "test+train"])
    accept(plan(place, str(folder), {}, split))


def changed_head(random: Random) -> bytes:
    """A README whose YAML is changed between its lines."""
    _, head, rest = README.split(b"---\n")
    return b"---\n" + mutated(random, head).rstrip(b"\n") + b"\n---\n" + rest


@fuzzed(40)
def test_rows_of_a_python_program_are_read_or_refused(place: Path, random: Random) -> None:
    kind = random.choice(["json", "csv", "parquet"])
    suffix = random.choice(
        {"json": [".json", ".jsonl"], "csv": [".csv", ".tsv"], "parquet": [".parquet"]}[kind]
    )
    path = place / f"rows{suffix}"
    path.write_bytes(mutated(random, random.choice(DATA[kind])))
    accept(lambda: read_rows(path))


@fuzzed(25)
def test_worldmemarena_samples_are_loaded_or_refused(place: Path, random: Random) -> None:
    """Its layout: one file for each sample, in folders by kind."""
    root = place / "arena"
    shutil.rmtree(root, ignore_errors=True)
    for name in ("kim", "lee"):
        (root / name).mkdir(parents=True)
        (root / name / f"{name}.json").write_bytes(json.dumps(sample(name)).encode())
    path = root / "kim" / "kim.json"
    path.write_bytes(mutated(random, path.read_bytes()))
    accept(lambda: load_samples(root))


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
    "memory-test": {"data": "d.json", "memory": ["bm25"], "memory-args": {"k": 5}, "segments": 3},
    "memory-eval": {"dataset": "d", "baseline": "bm25", "judge": "offline", "top_k": 4},
    "calibration": {"labels": "built-in", "judge": "offline", "min_kappa": 0.5},
}


def test_every_command_has_a_configuration_to_change() -> None:
    assert set(CONFIGS) == {name for name, about in BUILT_IN.items() if about.command}


@fuzzed(80)
def test_a_configuration_file_gives_options_or_a_sentence(place: Path, random: Random) -> None:
    """What `--config` reads, for every suite that has a command."""
    suite = random.choice(list(CONFIGS))
    path = place / "config.yaml"
    path.write_bytes(mutated(random, json.dumps(CONFIGS[suite]).encode()))
    options = find_options(suite)

    def read() -> None:
        values = options.translate_values(read_config(options, path), lambda _: None)
        build(suite, options, values, str(path))

    accept(read)


PAIRS = ["a=1,b=x", 'stop=["a","b"],t=0.5', '{"a": [1, {"b": null}]}', "k='it''s',n={'a': (1, 2)}", "a=1e999"]


@fuzzed(80)
def test_pairs_of_an_option_are_read_or_refused(random: Random) -> None:
    """What `--model-args` and similar flags take: `a=1,b=x`, or an object of JSON."""
    text = mutated_text(random, random.choice(PAIRS))
    if random.random() < 0.3:
        text = f"a={pick(random, ODD_VALUES, ['(' * 300, '[' * 100_000, '-' * 5000 + '1', '9' * 5000])}"
    accept(lambda: parse_pairs(text))
