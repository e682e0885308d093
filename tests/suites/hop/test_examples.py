"""What stands in examples/hop runs offline: on replies as they were, and on the embedded model."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from conftest import Assay

ROOT = Path(__file__).parents[3]
EXAMPLE = "examples/hop/FactCheck"


def results(folder: Path) -> list[dict[str, Any]]:
    """The lines of the only result file."""
    (path,) = folder.glob("facts_*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_example_has_twenty_rows_over_five_tags_and_two_profiles(tmp_path: Path, assay_in: Assay) -> None:
    """Each row stands once a profile, with what was known of it and a result as the contract says."""
    flags = ["--settings", "tests/golden/hop/settings.yaml", "--output-dir", str(tmp_path)]
    done = assay_in("hop", EXAMPLE, "facts.jsonl", *flags, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    lines = results(tmp_path)
    assert [line["profile"] for line in lines if line.get("_type") == "meta"] == ["greedy", "drawn"]
    rows = [line for line in lines if "_type" not in line]
    assert Counter((row["id"], row["profile"]) for row in rows) == Counter(
        (number, profile) for number in range(1, 21) for profile in ("greedy", "drawn")
    )
    assert len({row["tag"] for row in rows}) == 5
    for row in rows:
        found, [step] = json.loads(row["hop_result"]), row["hop_stats"]["execution_path"]
        if step["status"] == "OK":
            assert [type(found[name]) for name in ("found", "supported", "score")] == [str, bool, int]
        else:
            assert (found[0], type(found[1])) == ("FAIL", str)


def test_the_examples_numbers_are_those_of_its_recorded_replies(tmp_path: Path, assay_in: Assay) -> None:
    """More answers with the likeliest words than with drawn ones, and a verifier's reason in the report."""
    flags = ["--settings", "tests/golden/hop/settings.yaml", "--output-dir", str(tmp_path)]
    done = assay_in("hop", EXAMPLE, "facts.jsonl", *flags, cwd=ROOT)
    lines = [line.split() for line in done.stdout.splitlines()]
    bare = [[cell for cell in line if not cell.startswith("(0.")] for line in lines]
    assert ["metric", "greedy", "drawn"] in lines
    assert ["right", "of", "all", "0.600", "12/20", "0.350", "7/20"] in bare
    assert ["right", "of", "completed", "0.923", "12/13", "1.000", "7/7"] in bare
    assert ["completed", "0.650", "13/20", "0.350", "7/20"] in bare
    assert ["total", "20", "20"] in lines
    assert ["errors", "0", "0"] in lines
    assert "FAIL: the context does not say resides" in done.stdout


def test_a_batch_over_the_examples_own_output_asks_the_same(tmp_path: Path, assay_in: Assay) -> None:
    """Its rows are the same, so the results are as well, and nothing is nested."""
    flags = ["--settings", "tests/golden/hop/settings.yaml", "--output-dir"]
    assay_in("hop", EXAMPLE, "facts.jsonl", *flags, str(tmp_path / "one"), cwd=ROOT)
    (first,) = (tmp_path / "one").glob("facts_*.jsonl")
    again = tmp_path / "facts.jsonl"
    again.write_bytes(first.read_bytes())
    done = assay_in("hop", EXAMPLE, str(again), *flags, str(tmp_path / "two"), cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert results(tmp_path / "two")[1:21] == results(tmp_path / "one")[1:21]


def test_the_example_runs_on_the_embedded_model(tmp_path: Path, assay_in: Assay, weights: Path) -> None:
    """With its own settings: a row, both profiles, no error."""
    flags = ["--limit", "1", "--output-dir", str(tmp_path)]
    done = assay_in("hop", EXAMPLE, "facts.jsonl", *flags, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    rows = [line for line in results(tmp_path) if "_type" not in line]
    assert [row["hop_stats"]["status"] for row in rows] == ["OK"] * 2
