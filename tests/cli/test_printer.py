"""The one printer of reports: tables, slices, curves, examples; a value that was not measured is a dash."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import assay
from assay.cli.footer import print_footer
from assay.cli.printer import print_overview, print_report, print_sections
from assay.core.judges import JudgeInfo
from assay.core.report import (
    Curve,
    Difference,
    Entry,
    Example,
    Examples,
    Interval,
    Metric,
    PairedMetric,
    PairedSubjects,
    Point,
    Report,
    Slice,
    Table,
)
from assay.core.suite import Overview, PlannedCalls
from assay.core.suite_pages import Section
from assay.store.render.tables import metric_cell

Show = Callable[..., list[list[str]]]


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Show:
    """What a report prints, in blocks of lines."""

    def show(report: Report, run: str = "") -> list[list[str]]:
        print_report(report, run)
        return [block.splitlines() for block in capsys.readouterr().out.split("\n\n") if block]

    return show


def share(name: str, right: float, of: int, **more: object) -> Metric:
    """A rate with what it rests on."""
    value = right / of if of else None
    return Metric(name=name, value=value, numerator=right, denominator=of, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("metric", "cell"),
    [
        (
            share("a", 29.2, 36, interval=(0.741, 0.88), left_out={"invalid": 1}),
            "0.811 (0.74–0.88) 29.2/36, 1 invalid",
        ),
        (share("a", 3, 4), "0.750 3/4"),
        (share("a", 0, 4), "0.000 0/4"),
        (share("a", 0, 0), "–"),
        (share("a", 0, 0, left_out={"not_judged": 2, "invalid": 0}), "–, 2 not judged"),
        (Metric(name="ppl", value=12.5, denominator=1540), "12.500 1,540"),
        (None, "–"),
    ],
)
def test_a_cell_says_what_a_number_rests_on(metric: Metric | None, cell: str) -> None:
    """A measured zero and a value that was not measured are told apart."""
    assert metric_cell(metric) == cell


def test_entries_go_down_where_there_are_as_many_as_metrics(shown: Show) -> None:
    """Counts stand beside the metrics; one that an entry lacks is 0, unless it counted nothing."""
    report = Report(
        entry_word="variant",
        entries=[
            Entry(name="baseline", metrics=[share("passed", 1, 2)], counts={"failed": 1, "no_answer": 1}),
            Entry(name="short", metrics=[share("passed", 0, 0)], counts={"failed": 2}),
            Entry(name="none"),
        ],
    )
    (table,) = shown(report)
    assert table[0].split() == ["variant", "passed", "failed", "no", "answer"]
    assert [line.split() for line in table[2:]] == [
        ["baseline", "0.500", "1/2", "1", "1"],
        ["short", "–", "2", "0"],
        ["none", "–", "–", "–"],
    ]


def test_metrics_go_down_where_there_are_more_of_them(shown: Show) -> None:
    """Then each entry is a column; less is better where there is an arrow."""
    metrics = [share("f1", 1, 2, label="token F1"), share("made_up", 1, 4, higher_is_better=False)]
    report = Report(entry_word="memory", entries=[Entry(name="bm25", metrics=metrics, counts={"asked": 4})])
    (table,) = shown(report)
    assert [line.split("  ")[0].strip() for line in table] == [
        "metric",
        table[1].split("  ")[0],
        "token F1",
        "made_up ↓",
        "asked",
    ]


def test_filters_give_the_long_table_and_members_stand_below_their_group(shown: Show) -> None:
    """A line for each filter and metric, with standard error and what was left out."""
    em = Metric(
        name="exact_match",
        filter="strict",
        value=0.5,
        denominator=4,
        stderr=0.25,
        interval=Interval(0.1, 0.9),
        left_out={"not_applicable": 1},
    )
    bare = Metric(name="exact_match", filter="strict", value=None, denominator=0, reason="it raised")
    report = Report(
        entry_word="task",
        entries=[
            Entry(name="maths", metrics=[em], members=["sums", "inner"]),
            Entry(name="sums", metrics=[em]),
            Entry(name="inner", metrics=[bare], members=["sums", "more"]),
            Entry(name="more", alias="More sums", metrics=[em]),
        ],
    )
    ((header, _, *lines, reason),) = shown(report)
    assert header.split() == [
        "task",
        "filter",
        "metric",
        "value",
        "stderr",
        "95%",
        "interval",
        "n",
        "left",
        "out",
    ]
    assert [line.split("  strict")[0].rstrip() for line in lines] == [
        "maths",
        "  sums",
        "  inner",
        "    More sums",
    ]
    assert lines[0].endswith("0.5000  0.2500  0.1000 – 0.9000  4  1 not applicable")
    assert lines[2].split()[-3:] == ["–", "–", "0"]
    assert reason == "inner exact_match,strict: it raised"


def test_slices_of_the_same_name_stand_together(shown: Show) -> None:
    """Tags have their sign, categories their label; a single set says nothing new; yardsticks have no slices."""

    def entry(name: str, right: int, *, reference: bool = False) -> Entry:
        slices = [
            Slice(by="set", name="tests", metrics=[share("passed", right, 9)]),
            Slice(by="tag", name="easy", metrics=[share("passed", right, 3)], counts={"failed": 3 - right}),
            Slice(by="category", name="1", label="one hop", metrics=[share("passed", right, 5)]),
        ]
        return Entry(name=name, metrics=[share("passed", right, 9)], slices=slices, reference=reference)

    report = Report(entries=[entry("a", 1), entry("b", 2), entry("oracle", 3, reference=True)])
    _, tags, categories = shown(report)
    assert [line.split() for line in (tags[0], *tags[2:])] == [
        ["tag", "subject", "passed", "failed"],
        ["#easy", "a", "0.333", "1/3", "2"],
        ["#easy", "b", "0.667", "2/3", "1"],
    ]
    assert categories[2].startswith("one hop (1)  a")


def test_curves_are_bars_with_their_ends(shown: Show) -> None:
    """A point without a value is a gap; pass@k and maj@k are numbers at powers of two and at the end."""

    def curve(name: str, values: list[float | None], **more: str) -> Curve:
        points = [
            Point(at, Metric(name="recall", value=value, denominator=5, filter=more.get("filter", "")))
            for at, value in enumerate(values, 1)
        ]
        return Curve(name=name, x="test", points=points, title=more.get("title", ""))

    memory = Entry(name="bm25", curves=[curve("recall", [0.2, None, 1.0], title="recall, test by test")])
    _, table = shown(Report(entry_word="memory", entries=[memory]))
    assert table[0].split("  ")[1] == "recall, test by test"
    assert re.fullmatch("bm25 +▂ █ +0.200 → 1.000", table[2])
    repeats = []
    for name in ("first", "vote"):
        repeats += [
            curve("pass@k", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], filter=name),
            curve("maj@k", [0.1] * 6, filter=name),
        ]
    _, lines = shown(Report(entries=[Entry(name="sums", curves=repeats)]))
    assert lines == [
        "sums, first and vote: recall of 5 cases",
        "  pass@1 0.1000 @2 0.2000 @4 0.4000 @6 0.6000",
        "  maj@1 0.1000 @2 0.1000 @4 0.1000 @6 0.1000",
    ]


def test_equal_tables_of_several_entries_become_one(shown: Show) -> None:
    """With the entry in front of each row, and each note below with its entry."""

    def steps(seconds: float | None, note: str = "") -> Table:
        return Table(
            name="steps",
            title="steps",
            columns=["step", "calls", "p50 s"],
            rows=[["a", 1200, seconds]],
            note=note,
        )

    entries = [
        Entry(name="x", tables=[steps(0.0004)]),
        Entry(name="y", tables=[steps(None, "1 of 3 failed")]),
    ]
    _, table = shown(Report(entries=entries))
    assert table[0] == "steps"
    assert [line.split() for line in (table[1], *table[3:])] == [
        ["subject", "step", "calls", "p50", "s"],
        ["x", "a", "1,200", "0.0004"],
        ["y", "a", "1,200", "–"],
        ["y:", "1", "of", "3", "failed"],
    ]
    alone = shown(Report(entries=entries[:1]))[1]
    assert alone[1].split() == ["step", "calls", "p50", "s"]


def test_hidden_examples_are_counted_with_a_hint(shown: Show) -> None:
    """Differences say what was expected and what came; nothing and null are told apart."""
    differences = [Difference(path="a.b", expected=None, why="wrong"), Difference(path="c", why="is missing")]
    first = Example(label="tests/bad", verdict="failed at step two", differences=differences)
    others = [Example(label=f"row {at}", reason="timeout") for at in range(12)]
    examples = Examples(title="18 tests failed", total=18, shown=[first, *others])
    lines = shown(Report(entries=[Entry(name="v", examples=[examples])]), "out")[1]
    assert lines[:7] == [
        "v: 18 tests failed",
        "✗ tests/bad failed at step two",
        "    a.b: wrong",
        "    - null",
        "    + (nothing)",
        "    c: is missing",
        "  row 0: timeout",
    ]
    assert lines[-1] == "  … 8 more. See all with: assay show out --failed --limit 18"
    assert len(lines) == 6 + 9 + 1


def test_pairs_of_files_are_shown(shown: Show) -> None:
    """`--analyse` has no run to compare: the report holds the pairs."""
    row = PairedMetric(
        set="", metric="correct", part="", higher_is_better=True, n=4, base=0.5, new=0.75, difference=0.25
    )
    report = Report(
        entries=[Entry(name="a"), Entry(name="b")], differences=[PairedSubjects(base="a", new="b", row=row)]
    )
    table = shown(report)[1]
    assert table[2].split()[:5] == ["a", "b", "0.5000", "0.7500", "+0.2500"]


def test_warnings_and_invalid_scores_are_told_once(
    shown: Show, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Metrics that share a warning share a line; who judged stands there with what is known of it."""
    monkeypatch.setenv("ASSAY_DATA", str(tmp_path))
    warning = "the interval rests on 3 clusters"
    judge = JudgeInfo(name="openai/j", id="j", votes=3, kind="answer", fingerprint="f", metrics=["a", "b"])
    metrics = [share("a", 1, 2, warning=warning, left_out={"invalid": 2}), share("b", 1, 2, warning=warning)]
    (all_lines,) = shown(Report(entries=[Entry(name="m", metrics=metrics)]), "out")
    assert f"all values: {warning}" in all_lines
    entry = Entry(name="m", metrics=[*metrics, share("c", 1, 2)], judges=[judge])
    (lines,) = shown(Report(entries=[entry]), "out")
    assert lines[-3:] == [
        "judge openai/j (a, b, 3 votes): not calibrated",
        f"m a, b: {warning}",
        "2 scores are invalid. See the reasons with: assay show out --failed",
    ]


def test_names_of_others_hold_no_control_characters(shown: Show) -> None:
    """A terminal would obey them."""
    bad = "a\x1b[31mb"
    entry = Entry(
        name=bad,
        metrics=[share(bad, 1, 2, warning=bad)],
        slices=[Slice(by=bad, name=bad)],
        tables=[Table(name=bad, title=bad, columns=[bad], rows=[[bad]], note=bad)],
        curves=[Curve(name="pass@k", x="k", points=[Point(1, share(bad, 1, 2, filter=bad))])],
        examples=[Examples(title=bad, total=1, shown=[Example(label=bad, verdict=bad, reason=bad)])],
    )
    report = Report(entries=[entry], entry_word=bad)
    assert not [line for block in shown(report) for line in block if "\x1b" in line]


def test_an_overview_says_what_would_be_asked(capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be known before is said to be unknown, not 0."""
    calls = [
        PlannedCalls(what="answers", model="openai/m", calls=1200, input_tokens=90_000),
        PlannedCalls(what="verdicts", model="offline", calls=0),
    ]
    section = Section(heading="the first prompt", text="Q: 1+1?\nA:")
    print_overview(Overview(facts={"rows": "40"}, calls=calls, sections=[section]))
    lines = capsys.readouterr().out.splitlines()
    assert ["answers", "openai/m", "1,200", "90,000", "unknown"] in [line.split() for line in lines]
    assert ["verdicts", "offline", "0", "unknown", "unknown"] in [line.split() for line in lines]
    assert lines[-5:] == [
        "the first prompt",
        "  Q: 1+1?",
        "  A:",
        "",
        "Dry run: no requests sent, no files written.",
    ]


def test_sections_are_cut_where_they_say(capsys: pytest.CaptureFixture[str]) -> None:
    """A text of any length is shown up to its limit, with how long it is."""
    table = Table(name="t", columns=["a"], rows=[[1]])
    last = Section(text="below", indent=1)
    print_sections([Section(heading="h", text="x" * 50, max_chars=10, indent=1), Section(table=table), last])
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["  h", "    xxxxxxxxxx… (50 characters)"]
    assert lines[2:] == ["a", "─", "1", "", "  below"]


def test_an_error_of_user_code_is_told_once_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text("def answer(prompt, params):\n    return {'q1': 'x'}[prompt]\n")
    Path("docs.jsonl").write_text('{"q": "q1"}\n{"q": "q2"}\n')
    Path("t.yaml").write_text(
        "task: t\ndataset_path: json\ndataset_kwargs: {data_files: docs.jsonl}\ntest_split: train\n"
        "output_type: generate_until\ndoc_to_text: '{{q}}'\ndoc_to_target: x\n"
        "metric_list: [{metric: exact_match}]\n"
    )
    run = assay.run(assay.spec("task", tasks=["t.yaml"], model="python/model.py:answer", output_dir="out"))
    print_footer(run)
    errors = [line.strip() for line in capsys.readouterr().out.splitlines() if "KeyError" in line]
    assert errors == ["1 × user_code: KeyError: 'q2' at model.py:2"]
