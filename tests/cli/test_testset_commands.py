"""`assay check` and `assay convert` on testsets, as people type them."""

from __future__ import annotations

from pathlib import Path

from conftest import Assay

GOLDEN = Path(__file__).parents[1] / "golden" / "pipeline"
PIPELINE = "id: p\ninputs: [{name: text, required: false}, {name: description, required: false}]\nsteps:\n- {id: clean}\n- {id: judge}\n"


def test_errors_warnings_and_advice_stand_apart(assay_in: Assay) -> None:
    """Three groups with their counts; exit code 1 on errors."""
    done = assay_in("check", "thirty_faults.jsonl", cwd=GOLDEN)
    assert done.stdout == (GOLDEN / "thirty_faults.expected").read_text()
    assert done.returncode == 1


def test_a_testset_is_checked_against_its_pipeline(assay_in: Assay, tmp_path: Path) -> None:
    """Unknown steps are warnings, so the exit code stays 0; declared names may be inputs of v1 records."""
    (tmp_path / "p.yaml").write_text(PIPELINE)
    (tmp_path / "a_b.jsonl").write_text(
        '{"id": 1, "step_inputs": {"clean": {}, "wash": {}}}\n{"id": 2, "description": 5}'
    )
    done = assay_in("check", "a_b.jsonl", "--pipeline", "p.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    message = "the pipeline has no step 'wash'; it has clean, judge"
    assert done.stdout == (
        f"warnings (1)\n  a_b.jsonl:1 $.step_inputs.wash: {message}\n"
        "a_b.jsonl: testset v1 and v2 (pipeline): 2 tests: 0 errors, 1 warning\n"
    )


def test_advice_alone_is_told_and_fine(assay_in: Assay, tmp_path: Path) -> None:
    """Advice never fails a check; a file without any remark is fine."""
    (tmp_path / "plain.jsonl").write_text('{"id": 1, "inputs": {}}')
    (tmp_path / "a_b.jsonl").write_text('{"id": 1, "inputs": {}}')
    done = assay_in("check", "plain.jsonl", "a_b.jsonl", cwd=tmp_path)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "advice (1)"
    assert lines[2] == "plain.jsonl: testset v2 (pipeline): 1 test: 0 errors, 0 warnings, 1 advice"
    assert lines[4] == "a_b.jsonl: testset v2 (pipeline): 1 test: fine"


def test_data_of_tasks_is_checked_as_before(assay_in: Assay, tmp_path: Path) -> None:
    """A file of documents is no testset, even if documents have ids."""
    (tmp_path / "docs.jsonl").write_text('{"id": 1, "question": "q"}\n{"id": 1, "question": "q"}\n')
    done = assay_in("check", "docs.jsonl", cwd=tmp_path)
    assert "docs.jsonl:2: warning: this document is the same as" in done.stdout


def test_converting_prints_or_writes(assay_in: Assay, tmp_path: Path) -> None:
    """Compact v2 on standard output, or in the file that is named."""
    v1, wanted = "example_1_v1.jsonl", (GOLDEN / "spec" / "example_1_v2.jsonl").read_text()
    printed = assay_in("convert", v1, "--to", "v2", cwd=GOLDEN / "spec")
    assert printed.returncode == 0, printed.stderr
    assert printed.stdout == wanted.replace('": ', '":').replace(', "', ',"')
    out = tmp_path / "out.jsonl"
    written = assay_in("convert", v1, "--output", str(out), cwd=GOLDEN / "spec")
    assert written.stdout == f"wrote {out}\n"
    assert out.read_text() == printed.stdout


def test_a_wrong_testset_is_not_converted(assay_in: Assay, tmp_path: Path) -> None:
    """Its errors are told, the exit code is 2, and no file is left."""
    (tmp_path / "bad_one.jsonl").write_text('{"id": 1}\n{"inputs": {}}\n')
    done = assay_in("convert", "bad_one.jsonl", "--output", "out.jsonl", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "bad_one.jsonl:2: the id is missing; every case needs a unique id\n"
    assert not list(tmp_path.glob("out*"))
    (tmp_path / "good_one.jsonl").write_text('{"id": 1}\n')
    nowhere = assay_in("convert", "good_one.jsonl", "--output", "bad_one.jsonl/x.jsonl", cwd=tmp_path)
    assert nowhere.returncode == 2
    assert nowhere.stderr.startswith("cannot write bad_one.jsonl/x.jsonl: ")
