"""`assay compare`, typed: real runs with recorded replies, so that every flip is known."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.cli.main import main
from assay.core.report import Entry, Report
from assay.runner import api
from assay.runner.rescore import rescore

from conftest import DOCS, write_docs
from servers.loopback import LoopbackServer, chat
from support.runs import Made, passed, run_of

FILTERS = """\
filter_list:
  - {name: first, filter: [{function: take_first}]}
  - {name: digits, filter: [{function: regex, regex_pattern: "([0-9]+)"}, {function: take_first}]}
metadata:"""
Typed = Any


@pytest.fixture
def typed(sums: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Types a command in the folder of the sums; gives exit code, output and errors."""
    monkeypatch.chdir(sums)

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        said = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, said.out, said.err

    return run


def asked(name: str, wrong: set[int], *, says: str = "{}", docs: int = 6) -> str:
    """A run of the sums in a folder of its own; the answers to these numbers are one too high."""
    write_docs(Path("sums.jsonl"), DOCS[:docs])
    lines = [{"prompt": f"Q: {n}+{n}?\nA:", "text": says.format(2 * n + (n in wrong))} for n in range(len(DOCS))]
    Path(f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = assay.run(assay.spec("task", tasks=["sums.yaml"], model=f"script/{name}.jsonl", output_dir=f"out-{name}"))
    assert run.exit_code == 0
    return f"out-{name}"


def test_two_models_on_one_task(typed: Typed) -> None:
    """Who they are, the difference with interval and p, the flips with both answers, what it took."""
    before, after = asked("before", {1, 2}), asked("after", {2, 3, 4})
    code, out, _ = typed("compare", before, after)
    assert code == 0
    lines = out.splitlines()
    assert re.match(r"base  \S+-task-\S+ · script/before.jsonl · 20\S+ \S+ · 6 cases", lines[0])
    row = next(line for line in lines if line.startswith("sums "))
    shown = "sums exact_match,none 0.6667 0.5000 -0.1667 -0.6302 to +0.3976 6 1/2 1.0000 0.7346 unclear"
    assert " ".join(row.split()) == shown
    assert re.search("won/lost +p +detectable +verdict$", out, re.MULTILINE)
    failing, passing = out.index("now failing: 2"), out.index("now passing: 1")
    assert failing < passing
    assert re.findall(r"case (\d) · sums/\w{16} · exact_match,none · (\d → \d)", out) == [
        ("3", "1 → 0"),
        ("4", "1 → 0"),
        ("1", "0 → 1"),
    ]
    assert re.findall(r"(base|new): (\d+)", out[failing:passing]) == [
        ("base", "6"),
        ("new", "7"),
        ("base", "8"),
        ("new", "9"),
    ]
    assert "only in" not in out
    assert re.search(r"^new +0\.\d{3} +6 +– +–$", out, re.MULTILINE)
    assert re.search(r"^change +([+-]?\d+(\.\d)?% +)?0%$", out, re.MULTILINE)


def test_every_filter_has_its_row(typed: Typed) -> None:
    """What one filter forgives is a flip of the other."""
    Path("sums.yaml").write_text(Path("sums.yaml").read_text().replace("metadata:", FILTERS))
    before, after = asked("before", set()), asked("after", {5}, says="It is {}")
    (found,) = api.compare([before, after]).comparisons
    assert [(row.part, row.losses) for row in found.rows] == [("first", 6), ("digits", 1)]
    flip = found.now_failing.shown[0]
    assert (flip.part, flip.base.answer, flip.new.answer) == ("first", ["0"], ["It is 0"])


def test_documents_of_one_side_are_listed(typed: Typed) -> None:
    """Another data file is another run; what both have is compared."""
    before, after = asked("before", set()), asked("after", set(), docs=4)
    _, out, _ = typed("compare", before, after)
    assert re.search(r"only in base: 2\n  sums/\w{16}\n  sums/\w{16}\n", out)
    assert "4 cases" in out


@pytest.mark.parametrize(
    ("gate", "wrong", "code"),
    [
        ([], {0, 1, 2, 3, 4, 5}, 0),
        (["--fail-on-regression"], {0}, 1),
        (["--fail-on-regression"], set(), 0),
        (["--fail-on-regression=significant"], {0}, 0),
        (["--fail-on-regression=significant"], {0, 1, 2, 3, 4, 5}, 1),
    ],
)
def test_the_gate(typed: Typed, gate: list[str], wrong: set[int], code: int) -> None:
    """One case that fails now is a regression; a significant one needs p below 0.05. The reason is said."""
    before, after = asked("before", set()), asked("after", wrong)
    found, _, err = typed("compare", *gate, before, after)
    assert found == code
    assert ("regression: " in err) == (code == 1)


def test_json_is_one_document(typed: Typed) -> None:
    """Everything that is shown, under the names that the page explains."""
    before, after = asked("before", {1}), asked("after", {2})
    code, out, _ = typed("compare", before, after, "--json", "--fail-on-regression")
    found = json.loads(out)
    assert (code, found["schema"]) == (1, 1)
    (one,) = found["comparisons"]
    assert one["now_failing"]["shown"][0]["new"] == {"index": 2, "value": 0.0, "answer": ["5"], "reason": ""}
    page = (Path(__file__).parents[2] / "docs" / "comparing.md").read_text()
    for name in [*found, *one, *one["rows"][0], *one["base"], *one["cost"]["new"]]:
        assert f"`{name}`" in page, name


def test_refusals_have_exit_code_2(typed: Typed, sums: Path) -> None:
    """With the reason and what to do."""
    before = asked("before", {1})
    Path("sums.yaml").write_text(Path("sums.yaml").read_text().replace(", ignore_case: true", ""))
    code, _, err = typed("compare", before, asked("after", {1}))
    assert code == 2
    assert len(re.findall(r"task@[0-9a-f]{16}", err)) == 2
    assert "`assay rescore RUN`" in err
    other = run_of(sums / "other", {"a": True})
    code, _, err = typed("compare", before, str(other))
    assert (code, "is a run of task" in err) == (2, True)


def test_a_regraded_run_can_be_compared_again(typed: Typed) -> None:
    """The way out of another scorer: the old run under the settings of today."""
    before = asked("before", {1})
    Path("sums.yaml").write_text(Path("sums.yaml").read_text().replace(", ignore_case: true", ""))
    after = asked("after", {2})
    rescore(before)
    assert typed("compare", before, after)[0] == 0


def test_texts_of_others_do_not_reach_the_terminal_raw(typed: Typed, sums: Path) -> None:
    """Control characters in names, answers and checks are replaced: here the bell."""
    runs = []
    for name, value in (("base", 1), ("new", 0)):
        run = Made(sums / name)
        check = {
            "path": "\x07[2J",
            "kind": "equals",
            "expected": "\x07[31m",
            "actual": value,
            "passed": bool(value),
        }
        run.case("k\x07[1m", [passed(value, checks=[check])], within="s\x07[7m")
        run.case("one\x07[1m" if value else "other", [passed(1)], within="s\x07[7m")
        runs.append(str(run.finish()))
    _, out, _ = typed("compare", *runs)
    assert "now failing: 1" in out
    assert "�[2J (equals) expected: �[31m" in out
    assert "\x07" not in out


def test_several_new_runs_are_each_compared_with_the_base(typed: Typed) -> None:
    """An overview, then one block for each."""
    runs = [asked("before", {1}), asked("after", {2}), asked("later", set())]
    _, out, _ = typed("compare", *runs)
    overview = out[: out.index("base  20")]
    assert re.findall(r"^sums exact_match,none +20\S+ (script/\w+).jsonl +(\S+) +(\S+)", overview, re.MULTILINE) == [
        ("script/after", "0.8333", "0.8333"),
        ("script/later", "0.8333", "1.0000"),
    ]
    headers = re.findall(r"^(base|new) +20.* · script/(\w+).jsonl · ", out, re.MULTILINE)
    assert headers == [("base", "before"), ("new", "after"), ("base", "before"), ("new", "later")]


def test_groups_of_cases_have_their_rows(typed: Typed, sums: Path) -> None:
    """A word that no tag has is refused with the tags that there are."""
    runs = []
    for name in ("base", "new"):
        run = Made(sums / name)
        for number in range(4):
            value = name == "base" or number != 1
            run.case(f"k{number}", [passed(value)], tags=(f"level:{number % 2}",))
        runs.append(str(run.finish()))
    _, out, _ = typed("compare", *runs, "--by", "level")
    table = out[out.index("by level\n") :].splitlines()
    assert [" ".join(line.split()[:5]) for line in (table[1], *table[3:5])] == [
        "metric level base new difference",
        "passed 0 1.0000 1.0000 +0.0000",
        "passed 1 1.0000 0.5000 -0.5000",
    ]
    code, _, err = typed("compare", *runs, "--by", "color")
    assert (code, "--by color: no case of" in err, "'level:0', 'level:1'" in err) == (2, True, True)


def test_markdown_is_printed_and_html_is_written(typed: Typed) -> None:
    before, after = asked("before", {1}), asked("after", {2})
    code, out, _ = typed("compare", before, after, "--markdown", "--html", "page.html")
    assert code == 0
    assert out.startswith("### 20")
    assert "| sums | exact\\_match,none | 0.8333 | 0.8333 | +0.0000 |" in out
    assert "<details><summary>now failing: 1</summary>" in out
    page = Path("page.html").read_text()
    assert page.startswith("<!doctype html>")
    assert page.endswith("</html>\n")
    code, _, err = typed("compare", before, after, "--html", "missing/page.html")
    assert (code, "cannot write missing/page.html: No such file" in err) == (2, True)
    assert typed("compare", before, after, "--markdown", "--json")[0] == 2
    assert r"\caption{20" in typed("compare", before, after, "--latex")[1]


def test_runs_are_refused_before_they_are_read(typed: Typed, sums: Path) -> None:
    """What the summaries tell needs no journal: here both journals are overwritten."""
    runs = []
    for name, subjects in (("base", "xy"), ("new", "uv")):
        run = Made(sums / name)
        for subject in subjects:
            run.case("a", [passed(1)], subject=subject)
        folder = run.finish(report=Report(entries=[Entry(name=each, subject=each) for each in subjects]))
        for path in folder.glob("*.jsonl"):
            path.write_bytes(b"x" * (path.stat().st_size - 1) + b"\n")
        runs.append(str(folder))
    for words, message in (
        (runs, "have no subject in common"),
        ([f"{runs[0]}@z", runs[1]], "has no subject 'z'; it has 'x', 'y'"),
        ([f"{runs[0]}@x"], "Pass a second run"),
    ):
        code, _, err = typed("compare", *words)
        assert (code, message in err) == (2, True), err


def test_money_is_shown_where_the_endpoint_reports_it(typed: Typed) -> None:
    """Of the paired cases only. A run without prices is not free: it has a dash."""

    def paid(price: float) -> str:
        """A run of the sums at an endpoint that reports this price with each reply."""
        reply = chat("4")
        reply["usage"]["cost"] = price
        with LoopbackServer(lambda body: (200, reply)) as server:
            spec = assay.spec(
                "task",
                tasks=["sums.yaml"],
                model="openai/m",
                base_url=server.url,
                output_dir=f"out-{price}",
            )
            assert assay.run(spec).exit_code == 0
        return f"out-{price}"

    write_docs(Path("sums.jsonl"), DOCS[:4])
    cheap = paid(0.25)
    write_docs(Path("sums.jsonl"), DOCS[:6])
    dear, free = paid(0.5), asked("free", set())
    _, out, _ = typed("compare", cheap, dear)
    assert re.findall(r"^(base|new|change) .* (\S+)$", out[out.index("4 paired cases") :], re.MULTILINE) == [
        ("base", "$1.00"),
        ("new", "$2.00"),
        ("change", "+100%"),
    ]
    (comparison,) = api.compare(dear, free).comparisons
    assert (comparison.cost["base"].cost, comparison.cost["new"].cost) == (3.0, None)
    assert re.search(r"^new .* –$", typed("compare", dear, free)[1], re.MULTILINE)
    assert "cost" not in typed("compare", free, asked("other", {1}))[1]


def test_adjusted_p_and_unreliable_intervals_are_shown(typed: Typed, sums: Path) -> None:
    """With several rows each p is adjusted for the others. Two conversations are too few for an interval."""
    runs = []
    for name in ("base", "new"):
        run = Made(sums / name)
        for talk in ("a", "b"):
            parts = [f"q{number}" for number in range(4)]
            scores = [passed(name == "base" or part != "q1", part) for part in parts]
            scores += [{"metric": "f1", "part": part, "value": len(part) / 4} for part in parts]
            run.case(talk, scores, tags=("short",))
        runs.append(str(run.finish(parts="rows")))
    _, out, _ = typed("compare", *runs, "--by", "tag")
    assert re.search("won/lost +p +adjusted p +verdict$", out, re.MULTILINE)
    assert out.count("\nall rows: too few clusters: 2.") == 2, "of the table and of its groups"
