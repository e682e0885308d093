"""Broken and hostile files get a sentence with their place. They take neither much time nor much memory."""

from __future__ import annotations

import gzip
import json
import os
import resource
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import pytest

import assay
from assay.core.errors import InputError, UsageError

DEEP = b"[" * 1_000_000
HEADER = {
    "version": 2,
    "status": "success",
    "eval": {"task": "t", "model": "m", "created": "2026-01-01T00:00:00+00:00"},
}
SAMPLE = {"id": 1, "epoch": 1, "input": "1+1", "target": "2", "scores": {"match": {"value": "C"}}}
ROW = {
    "doc_id": 0,
    "doc": {"q": 1},
    "target": "x",
    "arguments": {},
    "resps": [["a"]],
    "filtered_resps": ["a"],
    "acc": 1.0,
}
RESULT = {
    "success": True,
    "score": 1,
    "promptIdx": 0,
    "testIdx": 0,
    "vars": {"q": "1"},
    "provider": {"id": "p"},
}


def text(name: str, content: bytes | str) -> Callable[[Path], Path]:
    """A builder of one file with this content."""

    def build(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return build


def value(name: str, content: Any) -> Callable[[Path], Path]:
    """A builder of one JSON file."""
    return text(name, json.dumps(content))


def lines(name: str, *items: Any) -> Callable[[Path], Path]:
    """A builder of one JSON lines file. An item of bytes is written as it is."""
    return text(name, b"\n".join(item if isinstance(item, bytes) else json.dumps(item).encode() for item in items))


def promptfoo(name: str, results: Any) -> Callable[[Path], Path]:
    return value(name, {"evalId": "e", "results": {"version": 3, "results": results}})


def archive(change: Callable[[bytes], bytes] = bytes, **members: Any) -> Callable[[Path], Path]:
    """A builder of a `.eval` archive, whose bytes `change` may damage. `__` in a name is a slash."""

    def build(folder: Path) -> Path:
        path = folder / "log.eval"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
            for name, content in members.items():
                data = content if isinstance(content, bytes) else json.dumps(content).encode()
                target.writestr(name.replace("__", "/") + ".json", data)
        path.write_bytes(change(path.read_bytes()))
        return path

    return build


def directory_field(offset: int, size: str, new: int) -> Callable[[bytes], bytes]:
    """A change of one field of the last entry in the archive's directory."""

    def change(data: bytes) -> bytes:
        place = data.rindex(b"PK\x01\x02") + offset
        return data[:place] + struct.pack(size, new) + data[place + struct.calcsize(size) :]

    return change


def flip(data: bytes) -> bytes:
    """Damage the content of the first member."""
    place = data.index(b"header.json") + len(b"header.json") + 3
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]


def overlapping(folder: Path) -> Path:
    """A bomb of thousands of members that all are the same few bytes."""
    path = folder / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr("header.json", json.dumps(HEADER))
        target.writestr("samples/1_epoch_1.json", b" " * 1_000_000)
        member = target.filelist[-1]
        for number in range(2000):
            copy = zipfile.ZipInfo(f"samples/{number}_epoch_2.json")
            for field in (
                "compress_type",
                "CRC",
                "compress_size",
                "file_size",
                "header_offset",
                "external_attr",
            ):
                setattr(copy, field, getattr(member, field))
            target.filelist.append(copy)
    return path


def zeros(folder: Path) -> Path:
    """A bomb of 300 megabytes of zeros in 1.3 megabytes."""
    path = folder / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as target:
        target.writestr("header.json", json.dumps(HEADER))
        with target.open("samples/1_epoch_1.json", "w") as member:
            for _ in range(300):
                member.write(bytes(1_000_000))
    return path


def two_results(folder: Path) -> Path:
    for name in ("results_a_2026-01-01T00-00-00.json", "results_b_2026-01-01T00-00-01.json"):
        (folder / name).write_text("{}")
    return folder


def link_loop(folder: Path) -> Path:
    (folder / "a.json").symlink_to(folder / "b.json")
    (folder / "b.json").symlink_to(folder / "a.json")
    return folder / "a.json"


def dangling(folder: Path) -> Path:
    (folder / "a.json").symlink_to(folder / "nowhere.json")
    return folder / "a.json"


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "results_x.json")
    return folder / "results_x.json"


def unreadable(folder: Path) -> Path:
    path = value("results_x.json", {})(folder)
    path.chmod(0)
    return path


def empty_folder(folder: Path) -> Path:
    return folder


YAML_HEAD = "evalId: e\nresults:\n"
BOMB = YAML_HEAD + "".join(
    f"  a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10 if level else ['x'] * 10)}]\n" for level in range(12)
)
FILES: dict[str, tuple[Callable[[Path], Path], str]] = {
    # Any file
    "missing file": (lambda folder: folder / "nothing.json", "there is no such file"),
    "empty file": (text("results_x.json", b""), "is empty"),
    "picture": (
        text("plot.png", b"\x89PNG\r\n\x1a\n" + bytes(range(256))),
        "has no results that assay can read",
    ),
    "table": (text("data.csv", "a,b\n1,2\n"), "has no results that assay can read"),
    "other JSON": (value("package.json", {"name": "x"}), "has no results that assay can read"),
    "empty folder": (empty_folder, "has no results that assay can read"),
    "links in a circle": (link_loop, "cannot be read: "),
    "link to nothing": (dangling, "there is no such file"),
    "named pipe": (pipe, "is a named pipe, not a file"),
    # lm-eval
    "results in UTF-16": (
        text("results_x.json", json.dumps({"results": {}}).encode("utf-16")),
        "this is UTF-16; save the file as UTF-8",
    ),
    "results in gzip": (text("results_x.json", gzip.compress(b"{}")), "found gzip"),
    "results of bytes": (text("results_x.json", b'{"results": "\xff\xfe"}'), "UTF-8"),
    "results cut off": (text("results_x.json", '{"results": {"t": {"acc,none": 0.'), "is not JSON"),
    "results a million levels deep": (text("results_x.json", DEEP), "is nested more than"),
    "results a million levels deep, closed": (
        text("results_x.json", b'{"results": ' + DEEP + b"]" * 1_000_000 + b"}"),
        "is nested more than",
    ),
    "results as a list": (value("results_x.json", [1]), "Expected `object`"),
    "results without tasks": (value("results_x.json", {"results": {}}), "`results` is empty"),
    "results of groups only": (
        value("results_x.json", {"results": {"g": {}}, "groups": {"g": {}}}),
        "has groups only",
    ),
    "number in place of a task": (value("results_x.json", {"results": {"t": 5}}), "Expected `object`"),
    "two results files": (two_results, "has 2 results files"),
    "samples with a broken line": (
        lines("samples_t.jsonl", ROW, b'{"doc_id": 1,'),
        "samples_t.jsonl:2: is not JSON",
    ),
    "samples with a document twice": (lines("samples_t.jsonl", ROW, ROW), "two rows of doc_id 0"),
    "samples with a huge number": (
        lines("samples_t.jsonl", {**ROW, "doc_id": 10**30}),
        "samples_t.jsonl:1: ",
    ),
    "samples numbered by text": (lines("samples_t.jsonl", {**ROW, "doc_id": "a"}), "Expected `int`"),
    "samples whose filters differ": (
        lines("samples_t.jsonl", ROW, {**ROW, "filter": "x", "doc_id": 7}),
        "every filter needs one row for each document",
    ),
    "samples of blank lines": (text("samples_t.jsonl", "\n\n\n"), "has no samples"),
    "samples with a deep document": (
        lines("samples_t.jsonl", b'{"doc_id": 0, "doc": ' + b"[" * 500 + b"]" * 500 + b"}"),
        "is nested more than",
    ),
    # Inspect
    "log that is text": (text("log.eval", "hello"), "is no complete zip archive"),
    "log cut off": (archive(lambda data: data[:-40], header=HEADER), "is no complete zip archive"),
    "log with a flipped byte": (archive(flip, header=HEADER), "header.json: is damaged"),
    "log without a header": (archive(other={}), "has neither header.json nor"),
    "log without its task": (archive(header={"version": 2}), "missing required field `eval`"),
    "log whose task is a text": (archive(header={"eval": "x"}), "Expected `object`, got `str`"),
    "log that is encrypted": (archive(directory_field(8, "<H", 1), header=HEADER), "is encrypted"),
    "log in an unknown compression": (
        archive(directory_field(10, "<H", 97), header=HEADER),
        "cannot be unpacked",
    ),
    "log that is not in zstd as it says": (
        archive(directory_field(10, "<H", 93), header=HEADER),
        "header.json: is damaged",
    ),
    "member of a gigabyte": (archive(directory_field(24, "<I", 1 << 30), header=HEADER), "log.eval"),
    "member that is larger than it says": (
        archive(directory_field(24, "<I", 10), header=HEADER),
        "header.json: is ",
    ),
    "members on top of each other": (overlapping, "overlap"),
    "sample whose id is a list": (archive(header=HEADER, samples__1_epoch_1={"id": []}), "`$.id`"),
    "sample a million levels deep": (archive(header=HEADER, samples__1_epoch_1=DEEP), "is nested more than"),
    "sample cut off": (archive(header=HEADER, samples__1_epoch_1=b'{"id": 1'), "1_epoch_1.json: is not JSON"),
    "JSON log with a sample twice": (
        value("log.json", {**HEADER, "samples": [SAMPLE, SAMPLE]}),
        "is the second",
    ),
    "JSON log with a number as a sample": (
        value("log.json", {**HEADER, "samples": [5]}),
        "samples[0]: Expected",
    ),
    # promptfoo
    "output without results": (value("out.json", {"evalId": "e"}), "has no list of results"),
    "output with no result": (promptfoo("out.json", []), "has no results"),
    "output with a result that is a text": (promptfoo("out.json", ["x"]), "results[0]: Expected"),
    "output without verdicts": (promptfoo("out.json", [{"score": 1}]), "missing required field `success`"),
    "output with a number that is too large": (
        text("out.json", '{"evalId": "e", "results": {"results": [{"success": true, "score": 1e999}]}}'),
        "out.json: ",
    ),
    "lines with a broken one": (lines("out.jsonl", RESULT, b"{"), "out.jsonl:2: is not JSON"),
    "YAML whose aliases unfold": (text("out.yaml", BOMB), "has more than 5,000,000 values"),
    "YAML that contains itself": (text("out.yaml", YAML_HEAD + "  a: &a\n    - *a\n"), "out.yaml: "),
    "YAML that is deep": (text("out.yaml", YAML_HEAD + "  a: " + "[" * 100_000), "out.yaml: "),
    "YAML that is none": (text("out.yaml", YAML_HEAD + "\t- x: [\n"), "is not YAML"),
    "YAML with an object of Python": (
        text("out.yaml", YAML_HEAD + "  x: !!python/object/apply:os.system ['true']\n"),
        "is not YAML",
    ),
}
if os.geteuid():
    FILES["file without permission"] = (unreadable, "cannot be read: Permission denied")


@pytest.mark.parametrize("name", FILES)
def test_file_gets_a_sentence_and_leaves_nothing_behind(name: str, tmp_path: Path) -> None:
    build, sentence = FILES[name]
    folder = tmp_path / "files"
    folder.mkdir()
    path = build(folder)
    with pytest.raises((InputError, UsageError)) as raised:
        assay.import_results(path, str(tmp_path / "out"))
    message = str(raised.value)
    assert sentence in message
    assert str(folder) in message
    assert len(message) < 1000
    assert [file for file in (tmp_path / "out").rglob("*") if file.is_file() and file.name != "lock"] == []


def test_there_are_at_least_forty_files() -> None:
    assert len(FILES) >= 40


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    resource.setrlimit(resource.RLIMIT_CPU, (30, 30))


@pytest.mark.parametrize(
    ("build", "sentence"),
    [(zeros, "which is not read"), FILES["YAML whose aliases unfold"]],
    ids=["zip", "yaml"],
)
def test_bomb_is_refused_within_a_gigabyte_of_memory(
    build: Callable[[Path], Path], sentence: str, tmp_path: Path
) -> None:
    command = [
        sys.executable,
        "-m",
        "assay",
        "import",
        str(build(tmp_path)),
        "--output-dir",
        str(tmp_path / "out"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=limit_memory)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


GOLDEN = Path(__file__).parents[1] / "golden"
SOURCES = [
    GOLDEN / "inspect" / "tools.json",
    GOLDEN / "inspect" / "errors-0.3.100.json",
    GOLDEN / "promptfoo" / "out.json",
    *sorted((GOLDEN / "lm_eval" / "out" / "b_em").glob("*/results_*.json")),
]
ODD_VALUES: list[Any] = [None, True, -1, 1e308, 10**40, float("nan"), "", "x", [], {}, [[]], {"a": None}]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name[:12])
def test_file_with_other_values_at_random_places_is_read_or_gets_a_sentence(source: Path, tmp_path: Path) -> None:
    random = Random(source.name)
    outcomes = set()
    for number in range(20):
        changed = json.loads(source.read_bytes())
        for _ in range(3):
            put_odd_value(changed, random)
        path = tmp_path / str(number) / source.name
        path.parent.mkdir()
        path.write_text(json.dumps(changed))
        try:
            list(assay.import_results(path, str(tmp_path / "out")).cases())
            outcomes.add("read")
        except (InputError, UsageError) as error:
            outcomes.add("refused" if str(path.parent) in str(error) else str(error))
    assert outcomes == {"read", "refused"}


def put_odd_value(value: Any, random: Random) -> None:
    """Replace or remove one value, at any depth."""
    while True:
        key = random.choice(list(value) if isinstance(value, dict) else range(len(value)))
        if isinstance(value[key], (dict, list)) and value[key] and random.random() < 0.8:
            value = value[key]
            continue
        if isinstance(value, dict) and random.random() < 0.3:
            del value[key]
        else:
            value[key] = deepcopy(random.choice(ODD_VALUES))
        return


def test_odd_values_are_read(tmp_path: Path) -> None:
    """A byte order mark, NaN, infinity, half a surrogate pair and a number without end are values of real files."""
    sample = json.dumps({**SAMPLE, "metadata": {"x": float("nan"), "y": "\ud800"}, "total_time": 1.5})
    log = json.dumps({**HEADER, "samples": []})[:-2] + sample + "]}"
    path = tmp_path / "log.json"
    path.write_bytes(b"\xef\xbb\xbf" + log.encode())
    run = assay.import_results(path, str(tmp_path / "out"))
    assert run["match"].value == 1.0


def test_names_that_lead_outside_are_only_names(tmp_path: Path) -> None:
    members: dict[str, Any] = {"samples__..__..__..__escaped_epoch_1": {**SAMPLE, "id": "../../../escaped"}}
    path = archive(bytes, header=HEADER, **members)(tmp_path)
    run = assay.import_results(path, str(tmp_path / "deep" / "er" / "out"))
    assert [case.label for case in run.cases()] == ["../../../escaped"]
    assert list(tmp_path.rglob("*escaped*")) == []
