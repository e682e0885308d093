"""The table of a report for a paper or a pull request: every number with its denominator, and no text that runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from assay.core.report import Entry, Interval, Metric, Report
from assay.store.render.latex import escape, report_latex
from assay.store.render.markdown import report_markdown

from support.hop_batch import Batch
from support.memory_samples import Samples
from support.memory_talks import Talks
from support.pipeline_project import typed

REPORT = Report(
    entry_word="model",
    entries=[
        Entry(
            name="small",
            metrics=[
                Metric(
                    name="acc",
                    filter="strict",
                    value=0.8125,
                    numerator=13,
                    denominator=16,
                    interval=Interval(0.57, 0.93),
                    left_out={"infra_error": 2},
                ),
                Metric(name="loss", value=-0.5, denominator=16, higher_is_better=False, warning="only 2 clusters"),
            ],
        ),
        Entry(name="large", metrics=[Metric(name="acc", value=None, denominator=0, reason="nothing was asked")]),
    ],
)
FACTS = ("0.8125", "0.5700", "0.9300", "13/16", "2 infra error", "only 2 clusters", "nothing was asked")

# What a reader of LaTeX makes of the escapes.
_COMMANDS = {
    r"\textbackslash{}": "\\",
    r"\textasciitilde{}": "~",
    r"\textasciicircum{}": "^",
    r"\textless{}": "<",
    r"\textgreater{}": ">",
    r"\textbar{}": "|",
    r"{\char34}": '"',
    r"{\char96}": "`",
    **{f"\\{char}": char for char in "&%$#_{}"},
}
_TOKEN = re.compile("|".join(map(re.escape, sorted(_COMMANDS, key=len, reverse=True))))


def printed(latex: str) -> str:
    """What LaTeX prints of an escaped text. Fails for a character that it would obey."""
    text, place = "", 0
    for token in _TOKEN.finditer(latex):
        text += _plain(latex[place : token.start()]) + _COMMANDS[token[0]]
        place = token.end()
    return text + _plain(latex[place:])


def _plain(text: str) -> str:
    text = re.sub(r"\{([\[\]*]?)\}", r"\1", text)
    assert not set(text) & set('\\{}$&#^_~%<>|"`'), text
    return text


def test_every_character_is_escaped_for_latex() -> None:
    text = "".join(map(chr, range(33, 127))) + r" -- --- ''x'' ?` !` \input{/etc/passwd} \\[1cm] \\* %x"
    assert printed(escape(text)) == text
    assert not re.search(r"--|''|\?`|!`|\\\\", escape(text))
    assert escape("a\nb\tc \x1b[2J") == "a b c ?{[}2J"
    assert escape("0.74 – 0.88 ↓") == r"0.74 -- 0.88 $\downarrow$"


def test_latex_has_every_number_with_its_denominator() -> None:
    text = report_latex(REPORT, "model & data")
    for fact in FACTS:
        assert fact in text
    lines = text.splitlines()
    assert lines.count(r"\toprule") == lines.count(r"\midrule") == lines.count(r"\bottomrule") == 1
    assert r"\caption{model \& data}" in lines
    assert r"\begin{tabular}{llrllr}" not in lines
    rows = [line for line in lines if line.endswith(r" \\")]
    assert {line.count(" & ") for line in rows} == {5}
    assert "$-0.5000$" in rows[2]
    # "Not measured" is a dash, never a number.
    assert re.fullmatch(r"large & acc & -- & .*", rows[3])


def test_a_script_that_pdflatex_does_not_know_is_announced() -> None:
    report = Report(entries=[Entry(name="模型", metrics=[Metric(name="acc", value=1.0, denominator=1)])])
    assert "XeLaTeX" in report_latex(report).splitlines()[1]
    assert "XeLaTeX" not in report_latex(REPORT)


def test_markdown_has_every_number_with_its_denominator() -> None:
    text = report_markdown({"": REPORT})
    for fact in FACTS:
        assert fact in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 2 + 3
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {7}


@pytest.mark.parametrize("suite", ["hop", "memory-test", "memory-eval"])
def test_the_report_of_every_suite_can_be_printed(
    suite: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The documents have a row for each metric of the report."""
    if suite == "hop":
        run = Batch(tmp_path).run()
    elif suite == "memory-test":
        run = Talks(tmp_path).run()
    else:
        run = Samples(tmp_path).run()
    assert run.report is not None
    count = sum(len(entry.metrics) for entry in run.report.entries)
    code, out, _ = typed(capsys, "show", str(run.folder), "--markdown")
    assert (code, sum(line.startswith("| ") for line in out.splitlines())) == (0, count + 2)
    assert run.folder.name in out.splitlines()[0]
    code, out, _ = typed(capsys, "show", str(run.folder), "--latex")
    assert (code, sum(line.endswith(r" \\") for line in out.splitlines())) == (0, count + 1)
