"""`assay gate`, typed: exit codes, and where the summary goes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.core.report import Entry, Interval, Metric, Report

from support.pipeline_project import typed
from support.runs import Made, passed

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def run(tmp_path: Path) -> str:
    """A run whose report says 0.75."""
    made = Made(tmp_path / "r")
    made.case("a", [passed(1)])
    metric = Metric(name="passed", value=0.75, denominator=400, interval=Interval(0.7, 0.8))
    return str(made.finish(report=Report(entries=[Entry(name="m", subject="m", metrics=[metric])])))


def test_the_exit_code_is_the_verdict(run: str, capsys: Captured) -> None:
    for threshold, code, word in ((0.6, 0, "PASS"), (0.9, 1, "FAIL"), (0.75, 4, "INCONCLUSIVE")):
        found, out, _ = typed(capsys, "gate", run, "--require", f"passed >= {threshold}")
        assert (found, out.split()[0]) == (code, word)


def test_markdown_is_printed_or_written_to_a_file(run: str, tmp_path: Path, capsys: Captured) -> None:
    """As a flag it prints, as in `assay show` and `compare`. With a file, the table is printed all the same."""
    words = ("gate", run, "--require", "passed >= 0.6")
    _, printed, _ = typed(capsys, *words, "--markdown")
    assert printed.startswith("### assay gate: pass")
    assert typed(capsys, *words, "--markdown", "-").out == printed
    file = tmp_path / "summary.md"
    _, out, _ = typed(capsys, *words, "--markdown", str(file))
    assert out.startswith("PASS")
    assert file.read_text() == printed


def test_json_and_markdown_cannot_both_be_printed(run: str, tmp_path: Path, capsys: Captured) -> None:
    words = ("gate", run, "--require", "passed >= 0.6", "--json")
    code, _, err = typed(capsys, *words, "--markdown")
    assert (code, "Pass a file: --markdown FILE" in err) == (2, True)
    code, out, _ = typed(capsys, *words, "--markdown", str(tmp_path / "s.md"))
    assert (code, json.loads(out)["verdict"]) == (0, "pass")


def test_documents_replace_their_like_and_no_other_file(
    run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """`assay gate`, `assay report` and `assay compare --html` write over their own earlier files."""
    monkeypatch.chdir(tmp_path)
    gate = ("gate", run, "--require", "passed >= 0.6")
    commands = [
        (*gate, "--markdown", "summary.md"),
        (*gate, "--junit", "gate.xml"),
        ("report", run, "-o", "report.html"),
        ("compare", run, run, "--html", "comparison.html"),
    ]
    inputs = {"greet.yaml": "steps: []\n", "README.md": "### greet\n", "m.py": "x = 1\n", "t.jsonl": "{}\n"}
    for name, text in inputs.items():
        Path(name).write_text(text)
    for words in commands:
        for _ in range(2):
            done = typed(capsys, *words)
            assert done.code == 0, done.err
        for name, text in inputs.items():
            code, _, err = typed(capsys, *words[:-1], name)
            assert (code, Path(name).read_text()) == (2, text)
            assert f"{name} exists and is not an earlier output of this command" in err
