"""`assay check` on what belongs to HOP, and which suite is asked about which file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from assay.cli.main import main
from assay.core.file_check import CheckOptions
from assay.runner.check import recognise

from support.hop_batch import as_lines, numbered
from support.suite_files import problems_in

META = {"_type": "meta", "profile": "a"}
OBSERVED = {"type": "run_end", "run_id": "r", "timestamp": 1.0, "duration": 1.0, "status": "OK"}
FLAT = {"id": 1, "n": 1, "hop_result": "{}", "inputs": {}}
VIEW = {"input": {"n": 1}, "error": "late"}
CONTRACT = "---\nname: Double\ninputs: {n: int}\noutputs: {answer: int}\n---\n"
SETTINGS = "llms: {one: {model: script/r.jsonl}}\nprofiles: {fast: {run: one}}\n"


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """A task folder without a fault."""
    folder = tmp_path / "Double"
    for name in ("Hoplet", "TestCases"):
        (folder / name).mkdir(parents=True)
    (folder / "Hoplet" / "Hop.py").write_text("raise SystemExit('imported')\ndef hop_double(n): ...\n")
    (folder / "Hoplet" / "metainfo.md").write_text(CONTRACT)
    (folder / "settings.yaml").write_text(SETTINGS)
    (tmp_path / "r.jsonl").write_text('{"text": "4"}\n')
    (folder / "TestCases" / "rows.jsonl").write_text(as_lines(numbered(2)))
    return folder


def told(path: Path) -> list[tuple[str, str]]:
    """Place and level of every problem, the place as it stands in the folder."""
    found = problems_in(path)
    base = str(path if path.is_dir() else path.parent)
    return [(problem.where.removeprefix(f"{base}/"), problem.level) for problem in found]


@pytest.mark.parametrize("name", ["metainfo.md", "contract.yaml", "Hop.py"])
def test_a_pipe_or_device_in_place_of_a_file_of_the_task_is_refused(task: Path, name: str) -> None:
    """Reading one would wait for ever, and ignoring it would hide that the task has no contract."""
    path = task / "Hoplet" / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    assert told(task)[0] == (f"Hoplet/{name}", "error")
    path.unlink()
    path.symlink_to("/dev/zero")
    assert told(task)[0] == (f"Hoplet/{name}", "error")


def suite_of(tmp_path: Path, record: Any, name: str = "f.jsonl") -> str:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(record if isinstance(record, str) else json.dumps(record))
    match = recognise(path, CheckOptions())
    assert match is not None
    return match.name


@pytest.mark.parametrize("record", [META, OBSERVED, FLAT, VIEW, ["OK", "{}"], {"id": 1, "tag": "t", "q": 1}])
def test_lines_of_hop_are_known_by_the_first_one(tmp_path: Path, record: Any) -> None:
    """Meta, observer, both wrappers, a pair, and a row with a tag; results win over keys of testsets."""
    assert suite_of(tmp_path, record) == "hop"


@pytest.mark.parametrize(
    ("record", "suite"),
    [
        ({"id": 1, "tag": "t", "expected_output": "x"}, "hop"),
        ({"id": 1, "tag": "t", "expected_outputs": {}}, "pipeline"),
        ({"id": 1, "tag": "t", "inputs": {}}, "pipeline"),
        ({"id": 1, "expected_output": "x"}, "pipeline"),
        ({"id": 1, "tag": "t", "tags": ["t"], "expected_output": "x"}, "pipeline"),
        ({"id": 1, "tag": ["t"], "q": 1}, "task"),
        ({"id": 1, "tag": "t", "tags": [], "q": 1}, "task"),
        ({"id": 1, "input": {"q": 1}}, "task"),
        ({"id": 1, "type": "step", "q": 1}, "task"),
        ('{"id": 1,\n "inputs": {}}', "pipeline"),
        ("nonsense", "task"),
        ("", "task"),
    ],
)
def test_other_lines_go_where_they_belong(tmp_path: Path, record: Any, suite: str) -> None:
    """Keys of testsets come before a tag, a tag before the rest."""
    assert suite_of(tmp_path, record) == suite


def test_the_folder_may_tell(tmp_path: Path, task: Path) -> None:
    """Rows in a task's TestCases need no tag; below `testsets` a tag makes no row."""
    assert suite_of(tmp_path, {"n": 1}, "Double/TestCases/f.jsonl") == "hop"
    assert suite_of(tmp_path, {"n": 1}, "Other/TestCases/f.jsonl") == "task"
    assert suite_of(tmp_path, {"id": 1, "tag": "t"}, "testsets/f.jsonl") == "pipeline"


@pytest.mark.parametrize(
    ("name", "text", "suite"),
    [
        ("s.yaml", SETTINGS, "hop"),
        ("settings.yaml", "defaults: {}", "hop"),
        ("c.yaml", "outputs: {answer: int}", "hop"),
        ("contract.yaml", "name: x", "hop"),
        ("metainfo.md", CONTRACT, "hop"),
        ("p.yaml", "inputs: [q]\noutputs: [a]\nsteps: []", "pipeline"),
        ("t.yaml", "task: t\noutputs: x", "task"),
        ("t.yaml", "a: [", "task"),
    ],
)
def test_yaml_is_known_by_its_keys(tmp_path: Path, name: str, text: str, suite: str) -> None:
    assert suite_of(tmp_path, text, name) == suite


def test_a_task_without_a_fault_is_fine(task: Path) -> None:
    """Its code is parsed and not imported; what a batch has written there is passed over."""
    (task / "TestCases" / "old.jsonl").write_text(as_lines([META, {"id": 1, "m": 1, "hop_result": "{}"}]))
    (task / "TestCases" / "observer.jsonl").write_text(as_lines([OBSERVED]))
    assert told(task) == []
    assert told(task / "Hoplet") == []


def test_every_fault_of_a_task_is_told(task: Path) -> None:
    """Code, contract, settings and rows in one go."""
    (task / "Hoplet" / "Hop.py").write_text("x = 1\ndef hop(:\n")
    (task / "Hoplet" / "metainfo.md").write_text("---\nname: a\nouputs: {}\n---\n")
    (task / "settings.yaml").write_text("llms:\n  one: {model: m, protocol: x}\nprofiles: {a: {run: two}}\n")
    (task / "TestCases" / "rows.jsonl").write_text(as_lines([{"id": 1, "tag": "t", "n": 1}, {"id": 1.5}]))
    assert told(task) == [
        ("Hoplet/Hop.py:2", "error"),
        ("Hoplet/metainfo.md:3", "error"),
        ("settings.yaml:2", "warning"),
        ("settings.yaml:3", "error"),
        ("TestCases/rows.jsonl:2 $.id", "error"),
        ("TestCases/rows.jsonl:2", "error"),
    ]


def test_a_task_without_code_is_told(task: Path) -> None:
    (task / "Hoplet" / "Hop.py").unlink()
    assert told(task) == [("Hoplet/Hop.py", "error")]


def test_rows_are_seen_with_the_contract_of_their_task(task: Path) -> None:
    """As a batch would refuse them; a wrong contract is told in its own file."""
    rows = task / "TestCases" / "rows.jsonl"
    rows.write_text(as_lines([{"id": 1, "tag": "t", "n": "one"}]))
    assert [problem.message for problem in problems_in(rows)] == ['the contract requires int, found "one"']
    (task / "Hoplet" / "metainfo.md").write_text("---\ninputs: {n: intt}\n---\n")
    assert [problem.where.rpartition("/")[2] for problem in problems_in(rows)] == ["metainfo.md:2"]


def test_a_file_of_rows_is_checked(tmp_path: Path) -> None:
    """What a batch would refuse or say of it."""
    path = tmp_path / "r.jsonl"
    path.write_text(as_lines(numbered(2)))
    assert problems_in(path) == []
    path.write_text(as_lines([{"tag": "t", "n": 1}, {"id": 2, "n": 1}]))
    assert told(path) == [("r.jsonl:1 $.id", "warning"), ("r.jsonl:2 $.tag", "warning")]
    path.write_text(as_lines([{"id": 1, "tag": "t", "n": 1}, {"id": 1, "tag": "t", "n": 2}]))
    assert told(path) == [("r.jsonl:2 $.id", "error")]


@pytest.mark.parametrize("record", [META, OBSERVED, ["OK", "{}"]])
def test_a_log_without_a_row_is_no_fault(tmp_path: Path, record: Any) -> None:
    """Results without a row cannot be run, and are told so; a log is what it should be."""
    (tmp_path / "o.jsonl").write_text(as_lines([record]))
    assert told(tmp_path / "o.jsonl") == ([] if record is OBSERVED else [("o.jsonl", "warning")])
    (tmp_path / "o.jsonl").write_text(as_lines([record, "nonsense"]))
    assert told(tmp_path / "o.jsonl") == [("o.jsonl:2", "error")]


def test_a_contract_in_prose_is_told(tmp_path: Path) -> None:
    (tmp_path / "metainfo.md").write_text("# Double\n\nIt doubles.\n")
    assert told(tmp_path / "metainfo.md") == [("metainfo.md", "warning")]


TABLE = "## Inputs\n| field | type |\n|---|---|\n| n | int |\n"


def test_an_expectation_of_no_output_is_told_although_a_type_has_a_range(task: Path) -> None:
    (task / "Hoplet" / "metainfo.md").write_text(
        f'{TABLE}## 输出契约\n```json\n{{"score": "int 1-5", "why": "string"}}\n```\n'
    )
    row = {"id": 1, "tag": "t", "n": 1, "expected_score": 3, "expected_scor": 3}
    (task / "TestCases" / "rows.jsonl").write_text(as_lines([row]))
    assert told(task) == [
        ("Hoplet/metainfo.md:4", "note"),
        ("Hoplet/metainfo.md:7", "note"),
        ("TestCases/rows.jsonl:1 $.expected_scor", "warning"),
    ]


def test_a_section_of_the_contract_that_is_not_read_is_a_warning(task: Path) -> None:
    """Also if nothing else of the file is a contract."""
    path = task / "Hoplet" / "metainfo.md"
    path.write_text(f'{TABLE}## Outputs\n```json\n{{"score": 3}}\n```\n')
    assert told(task) == [("Hoplet/metainfo.md:5", "warning"), ("Hoplet/metainfo.md:4", "note")]
    path.write_text('## Outputs\n```json\n{"score": 3}\n```\n')
    assert told(task) == [("Hoplet/metainfo.md:1", "warning")]
    assert told(path) == [("metainfo.md:1", "warning")]


@pytest.mark.parametrize(("row", "levels"), [({"user": {"name": "A"}}, []), ({"n": 1}, ["error"])])
def test_a_row_has_an_object_if_the_contract_has_only_its_parts(
    task: Path, row: dict[str, Any], levels: list[str]
) -> None:
    (task / "Hoplet" / "metainfo.md").write_text(TABLE.replace("| n | int |", "| user.name | string |"))
    rows = task / "TestCases" / "rows.jsonl"
    rows.write_text(as_lines([{"id": 1, "tag": "t", **row}]))
    assert [level for _, level in told(rows)] == levels


def test_the_command(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that is fine; a file of settings with a fault, and exit code 1."""
    (task / "bad.yaml").write_text("llms: {one: {model: m, api_key: abc}}\nprofiles: {fast: {run: one}}\n")
    with pytest.raises(SystemExit) as left:
        main(["check", str(task), str(task / "bad.yaml")])
    out = capsys.readouterr().out.splitlines()
    assert left.value.code == 1
    assert out[0] == f"{task}: task folder (hop): 1 file, 2 rows in TestCases: fine"
    assert "remove the API key from this file" in out[1]
    assert out[-1].endswith("bad.yaml: settings (hop): 1 error, 0 warnings")
