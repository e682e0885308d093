"""An imported run has no secret of the environment, like a run of assay, and other users cannot read its files."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from support.commands import run_here

SECRET = "sk-0f8fad5b9cb1"
STEP = {"status": "ok", "output": f"it is {SECRET}", "calls": 1, "seconds": 0.5}
FILES: dict[str, tuple[str, Any]] = {
    "pipeline": (
        "results.jsonl",
        {
            "id": "a",
            "set": f"set of {SECRET}",
            "variant": "baseline",
            "tags": [f"of {SECRET}"],
            "result": "failed",
            "reason": f"expected {SECRET}",
            "inputs": {"text": SECRET},
            "step_inputs": {},
            "batch_items": None,
            "steps": {"one": STEP},
            "outputs": {"one": SECRET},
            "checks": [],
            "first_wrong": None,
            "seconds": 0.5,
        },
    ),
    "hop": (
        "r.jsonl",
        {
            "id": 1,
            "tag": f"of {SECRET}",
            "q": SECRET,
            "hop_result": json.dumps({"a": SECRET}),
            "profile": "p",
        },
    ),
    "promptfoo": (
        "out.json",
        {
            "evalId": "e",
            "results": {
                "version": 3,
                "results": [
                    {
                        "success": False,
                        "score": 0,
                        "error": f"no {SECRET}",
                        "promptIdx": 0,
                        "testIdx": 0,
                        "vars": {"q": SECRET},
                        "provider": {"id": f"provider of {SECRET}"},
                        "response": {"output": SECRET},
                    }
                ],
            },
        },
    ),
}


@pytest.mark.parametrize("format_name", FILES)
def test_no_file_of_an_imported_run_has_a_secret_or_can_be_read_by_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_name: str
) -> None:
    name, value = FILES[format_name]
    (tmp_path / name).write_text(json.dumps(value) + "\n")
    monkeypatch.setenv("MY_API_KEY", SECRET)
    done = run_here(["import", name, "--output-dir", "out"], tmp_path)
    assert done.returncode == 0, done.stderr
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    texts = {path.name: path.read_text() for path in files}
    assert [name for name, text in texts.items() if SECRET in text] == []
    assert "[redacted]" in texts["records.jsonl"]
    assert [path for path in files if stat.S_IMODE(path.stat().st_mode) & 0o007] == []
