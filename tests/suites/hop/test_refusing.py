"""Batches that are refused before the first call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import AssayError, InputError, UsageError

from support.hop_batch import COUNTING, Batch, results_of


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"id": 1, "tag": "t", "m": 1}], "the contract requires this input"),
        ([{"id": 1, "tag": "t", "n": "one"}], "the contract requires int"),
        ([{"id": 1, "tag": "t", "n": 1}, {"id": 1, "tag": "t", "n": 2}], "id"),
        (['{"id": 1, "tag": "t", "n": 1}', "{half", '{"id": 2, "tag": "t", "n": 1}'], "not JSON"),
    ],
)
def test_bad_rows_are_told_before_the_first_call(tmp_path: Path, rows: list[Any], said: str) -> None:
    """With the line, and without a run: the function is not called."""
    batch = Batch(tmp_path, COUNTING, rows)
    batch.contract("name: c\nfunction: hop\ninputs: {n: int}")
    with pytest.raises(InputError, match=said) as error:
        batch.run()
    assert "rows.jsonl:" in str(error.value)
    assert not (tmp_path / "called").exists()
    assert not batch.out.exists()


@pytest.mark.parametrize("name", ["profile", "hop_result"])
def test_an_input_that_a_flat_row_would_write_over_is_refused(tmp_path: Path, name: str) -> None:
    """The view's form has a place for it, and rounds over it give the function the same."""
    code = "def hop(session, fields):\n    return {'got': fields}\n"
    batch = Batch(tmp_path, code, [{"id": 1, "tag": "t", name: "mine"}])
    batch.contract(f"name: c\nfunction: hop\ninputs: {{{name}: string}}")
    with pytest.raises(UsageError, match="--wrapper view"):
        batch.run()
    data = tmp_path / "rows.jsonl"
    for at in range(3):
        run = batch.run(wrapper="view", data=str(data), output_dir=f"{tmp_path}/{at}")
        assert json.loads(results_of(run)[0]["result"]) == {"got": {name: "mine"}}
        (data,) = run.files


def test_a_missing_key_is_told_before_the_first_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An llm at OpenAI's own endpoint for which the environment has no key."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    batch = Batch(tmp_path, COUNTING)
    (tmp_path / "settings.yaml").write_text("llms: {k: {model: gpt}}\nprofiles: {p: {run: k}}\n")
    with pytest.raises(AssayError, match="set HOP_KEY_K for"):
        batch.run()
    assert not (tmp_path / "called").exists()
