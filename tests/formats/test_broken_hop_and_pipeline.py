"""Broken and hostile result files of HOP and of pipelines: a sentence with the place, and no run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.pipeline_project import typed

FLAT = {
    "id": 1,
    "tag": "t",
    "q": "2+2?",
    "expected_answer": 4,
    "hop_result": '{"answer": 4}',
    "hop_stats": {"retry_count": 0, "execution_path": [], "status": "OK"},
    "profile": "p",
}
VIEW = {"input": {"id": 1, "q": "2+2?"}, "result": '{"answer": 4}'}
META = {"_type": "meta", "profile": "p", "run_llm": "m", "timestamp": "2026-02-19T10:30:00"}
STEP = {"status": "ok", "output": "a", "calls": 1, "tokens": [3, 2], "seconds": 0.5}
TEST = {
    "id": "a",
    "set": "s",
    "variant": "baseline",
    "tags": ["x"],
    "result": "passed",
    "reason": "",
    "inputs": {"text": "a"},
    "step_inputs": {},
    "batch_items": None,
    "steps": {"one": STEP},
    "outputs": {"one": "a"},
    "checks": [],
    "first_wrong": None,
    "seconds": 0.5,
}
SAMPLE = {"sample_id": "s", "variant": "v", "overall_score": 1.0, "must_have_pass": True}
DEEP = "[" * 5000 + "]" * 5000
CSV = "id,variant,overall_score,must_have_pass\n"


def lines(*values: Any) -> bytes:
    """JSON lines; bytes are lines already."""
    raw = [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]
    return b"\n".join(raw) + b"\n"


BROKEN: dict[str, tuple[str, bytes, str]] = {
    # HOP
    "a torn last line": ("r.jsonl", lines(FLAT, FLAT | {"id": 2})[:-30], r"r\.jsonl:2: is not JSON"),
    "a torn only line": ("r.jsonl", lines(FLAT)[:-30], r"r\.jsonl:1: is not JSON"),
    "binary after a row": ("r.jsonl", lines(FLAT, b"\x00\xff\xfe\x80"), r"r\.jsonl:2: "),
    "UTF-16": ("r.jsonl", json.dumps(FLAT).encode("utf-16"), r"r\.jsonl:1: this is UTF-16"),
    "a deep row": (
        "r.jsonl",
        lines(json.dumps(FLAT | {"q": 0}).replace('"q": 0', f'"q": {DEEP}').encode()),
        r"r\.jsonl:1: is nested more than 100",
    ),
    "a deep result": ("r.jsonl", lines(FLAT | {"hop_result": DEEP}), r"r\.jsonl:1 .*hop_result: is nested"),
    "a row in 150 wrappers": (
        "r.jsonl",
        lines(FLAT, json.loads('{"input":' * 150 + "{}" + ',"result":""}' * 150)),
        r"r\.jsonl:2: is nested more than 100",
    ),
    "a scalar": ("r.jsonl", lines(META, 7), r"r\.jsonl:2: expected an object with `hop_result`"),
    "a row without a result": ("r.jsonl", lines(FLAT, {"id": 2, "q": "?"}), r"r\.jsonl:2: has no result"),
    "only meta lines": ("r.jsonl", lines(META, META), r"r\.jsonl: has no result rows, only meta lines"),
    "one id, other inputs": (
        "r.jsonl",
        lines(META, FLAT, FLAT | {"q": "3+3?", "profile": "b"}),
        r"r\.jsonl:3: line 2 has the same id '1' with other inputs",
    ),
    "an id that is the number of another row": (
        "r.jsonl",
        lines({"input": {"q": "?"}, "result": "{}"}, VIEW),
        r"r\.jsonl:2: line 1 has the same id '1' with other inputs; a row without an id has its number",
    ),
    "one row twice": (
        "r.jsonl",
        lines(VIEW, VIEW),
        r"r\.jsonl:2: line 1 has a result of the same row and profile",
    ),
    "an id that is a list": (
        "r.jsonl",
        lines(FLAT | {"id": [1]}),
        r"r\.jsonl:1 \$\.id: expected a whole number",
    ),
    "a meta line as input": (
        "r.jsonl",
        lines(FLAT, {"input": META, "result": "{}"}),
        r"r\.jsonl:2: its `input` is a meta line",
    ),
    "the log of an observer": (
        "observer.jsonl",
        lines({"type": "run_start", "run_id": "1", "timestamp": 1.0, "hoplet": "h", "input": {}}),
        r"observer\.jsonl: is the log of an observer; import the result file",
    ),
    "HOP rows, then a pipeline's": ("r.jsonl", lines(FLAT, TEST), r"r\.jsonl:2: has no result"),
    # Pipelines
    "a torn test": ("results.jsonl", lines(TEST, TEST | {"id": "b"})[:-20], r"results\.jsonl:2: is not JSON"),
    "a pipeline's rows, then HOP's": (
        "results.jsonl",
        lines(TEST, FLAT),
        r"results\.jsonl:2: .*missing.*result",
    ),
    "an unknown verdict": ("results.jsonl", lines(TEST | {"result": "great"}), r"results\.jsonl:1: .*great"),
    "steps as a list": ("results.jsonl", lines(TEST | {"steps": [STEP]}), r"results\.jsonl:1: .*\$\.steps"),
    "tokens without output": (
        "results.jsonl",
        lines(TEST | {"steps": {"one": STEP | {"tokens": [3]}}}),
        r"results\.jsonl:1: .*\$\.steps.*tokens",
    ),
    "NaN seconds": (
        "results.jsonl",
        lines(TEST | {"steps": {"one": STEP | {"seconds": float("nan")}}}),
        r"results\.jsonl:1: .*\$\.steps.*seconds",
    ),
    "one test twice": (
        "results.jsonl",
        lines(TEST, TEST | {"id": "b"}, TEST),
        r"results\.jsonl:3: line 1 has the test 'a' with the variant 'baseline' too",
    ),
    "a check without a path": ("results.jsonl", lines(TEST | {"checks": [{"passed": True}]}), r"\$\.checks"),
    # Prompt Lab
    "a snapshot without samples": (
        "a.json",
        json.dumps({"entity_type": "pipeline", "evaluation_results": []}).encode(),
        r"a\.json: has no samples",
    ),
    "a torn snapshot": (
        "a.json",
        json.dumps({"entity_type": "pipeline", "evaluation_results": [SAMPLE]}).encode()[:-5],
        r"a\.json: is not JSON",
    ),
    "a sample without a verdict": (
        "a.json",
        json.dumps({"entity_type": "agent", "evaluation_results": [SAMPLE, {"sample_id": "t"}]}).encode(),
        r"a\.json \$\.evaluation_results\[1\]: .*must_have_pass",
    ),
    "one sample twice": (
        "a.json",
        json.dumps([SAMPLE, SAMPLE]).encode(),
        r"a\.json: has the sample 's' twice with the variant 'v'",
    ),
    "a CSV row with too few cells": (
        "a.csv",
        f"{CSV}s,v,1.0,1\nt,v\n".encode(),
        r"a\.csv:3: expected 4 cells",
    ),
    "a CSV verdict that is a word": ("a.csv", f"{CSV}s,v,1.0,yes\n".encode(), r"a\.csv:2: expected 0 or 1"),
    "a CSV score that is a word": ("a.csv", f"{CSV}s,v,good,1\n".encode(), r"a\.csv:2: expected a number"),
    "a CSV score that is NaN": ("a.csv", f"{CSV}s,v,nan,1\n".encode(), r"a\.csv:2: .*overall_score"),
    "a CSV file that is binary": ("a.csv", CSV.encode() + b"\xff\xfe,v,1,1\n", r"a\.csv: expected UTF-8"),
    "another CSV file": ("a.csv", b"name,age\nAda,36\n", r"has no results that assay can read"),
}


@pytest.mark.parametrize(("name", "content", "sentence"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_gives_a_sentence_and_no_run(
    name: str, content: bytes, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    command = typed(capsys, "import", str(path), "--output-dir", str(tmp_path / "out"))
    assert command.code == 2
    assert re.search(sentence, command.err), command.err
    assert "Traceback" not in command.err
    assert len(command.err) < 1000
    assert not list((tmp_path / "out").rglob("run.json"))


@pytest.mark.parametrize(
    "row",
    [
        FLAT | {"hop_stats": "OK"},
        FLAT | {"hop_stats": {"status": 7, "execution_path": {"a": 1}, "retry_count": "many"}},
        FLAT | {"hop_stats": {"status": "OK", "execution_path": [{"step": {}, "op": None, "duration": "long"}]}},
        FLAT | {"hop_result": {"answer": 4}},
        FLAT | {"hop_result": '{"answer": NaN}'},
        FLAT | {"hop_result": "not JSON at all"},
        FLAT | {"hop_result": '{"cut": '},
        FLAT | {"hop_result": None, "hop_stats": None},
        FLAT | {"tag": ["a", "b"], "difficulty": 3, "profile": 7},
        FLAT | {"expected_answer": float("nan")},
        FLAT | {"q": 10**40, "hop_result": json.dumps({"answer": 10**40})},
        FLAT | {"q": "\ud800"},
        FLAT | {"id": "9" * 5000},
    ],
    ids=lambda row: json.dumps(row)[-60:],
)
def test_odd_values_are_imported(row: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Other tools write them. `assay show` reads the run."""
    path = tmp_path / "r.jsonl"
    path.write_bytes(lines(row))
    command = typed(capsys, "import", str(path), "--output-dir", str(tmp_path / "out"))
    assert (command.code, command.err.count("Traceback")) == (0, 0)
    shown = typed(capsys, "show", str(tmp_path / "out"), "0")
    assert (shown.code, shown.err) == (0, "")
    export = typed(capsys, "export", str(tmp_path / "out"), "--to", "hop", "--output", str(tmp_path / "task"))
    assert export.code == 0
