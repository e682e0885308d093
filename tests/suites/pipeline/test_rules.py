"""Rules of outputs, and invalid settings of tests, in a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import InputError

PIPELINE = """
inputs: [INPUTS]
steps:
  - {id: double, type: code, code: "def transform(n): return n * 2"}
outputs:
  - {key: double, rules: [{kind: allowed_values, values: [VALUES]}]}
"""


def run(folder: Path, values: str, *tests: dict[str, Any], inputs: str = "n") -> assay.Run:
    """The pipeline over these tests, with these allowed values and inputs."""
    (folder / "double.yaml").write_text(PIPELINE.replace("VALUES", values).replace("INPUTS", inputs))
    (folder / "double_basic.jsonl").write_text("".join(json.dumps(test) + "\n" for test in tests))
    spec = assay.spec(
        "pipeline",
        pipeline=str(folder / "double.yaml"),
        testset=[str(folder / "double_basic.jsonl")],
        output_dir=str(folder / "out"),
    )
    return assay.run(spec)


def records(folder: Path) -> list[dict[str, Any]]:
    """The lines of results.jsonl."""
    return [json.loads(line) for line in (folder / "out/double/results.jsonl").read_text().splitlines()]


def test_a_rule_applies_to_the_only_output(tmp_path: Path) -> None:
    """It has its own name there, although tests may call it `output`."""
    done = run(tmp_path, "4", {"id": 1, "n": 2}, {"id": 2, "n": 3, "expected_output": 6})
    assert done.exit_code == 1
    first, second = records(tmp_path)
    assert first["result"] == "passed"
    assert (second["result"], second["first_wrong"]["actual"]) == ("failed", 6)


def test_another_rule_is_scored_without_requests(tmp_path: Path) -> None:
    """Rules do not affect requests."""
    before = run(tmp_path, "4", {"id": 1, "n": 3})
    after = run(tmp_path, "4, 6", {"id": 1, "n": 3})
    assert (before.exit_code, after.exit_code) == (1, 0)
    assert after.folder == before.folder


def test_a_missing_value_has_no_key_in_first_wrong(tmp_path: Path) -> None:
    """Neither in the file nor in the journal."""
    run(tmp_path, "4", {"id": 1, "n": 2, "expected_other": 1})
    wrong = records(tmp_path)[0]["first_wrong"]
    assert (wrong["path"], wrong["expected"]) == ("other", 1)
    assert "actual" not in wrong


def test_a_condition_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """Before the run, with its place."""
    with pytest.raises(InputError, match=r"double_basic\.jsonl:1 \$\.conditions: column"):
        run(tmp_path, "4", {"id": 1, "n": 2, "conditions": "n >"})
    assert not (tmp_path / "out").exists()


def test_a_performance_baseline_can_fail(tmp_path: Path) -> None:
    """More seconds or tokens than allowed are a failed check with both numbers."""
    limits = {"max_seconds": 0, "max_tokens": 0, "steps": {"double": {"max_seconds": 60}}}
    run(tmp_path, "4", {"id": 1, "n": 2, "performance_baseline": limits})
    (record,) = records(tmp_path)
    result = {(check["kind"], check["path"]): check for check in record["checks"] if "max_" in check["kind"]}
    assert {key: check["passed"] for key, check in result.items()} == {
        ("max_seconds", "max_seconds"): False,
        ("max_tokens", "max_tokens"): True,
        ("max_seconds", "double.max_seconds"): True,
    }
    seconds = result["max_seconds", "max_seconds"]
    assert (seconds["expected"], record["result"]) == (0, "failed")
    assert seconds["actual"] == pytest.approx(record["seconds"])


def test_making_an_input_optional_starts_a_new_run(tmp_path: Path) -> None:
    """It changes the prompts, so the old run is not shown again."""
    before = run(tmp_path, "4", {"id": 1})
    after = run(tmp_path, "4", {"id": 1}, inputs="{name: n, required: false}")
    assert after.folder != before.folder
