"""`assay memory test` as people type it, and what other commands say of its runs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.commands import typed
from support.memory_samples import Samples
from support.memory_talks import Talks, talk


@pytest.fixture
def talks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Talks:
    """Two conversations in the working directory."""
    monkeypatch.chdir(tmp_path)
    return Talks(tmp_path, talk(4, "ann"), talk(6, "ben"))


def measured(talks: Talks, *flags: str) -> int:
    """A test of two memories without a model, unless flags name others."""
    common = ("memory", "test", "--dataset", "plain", "--data", "talks.json", "--segments", "2")
    memory = () if "--memory" in flags else ("--memory", f"{talks.own},oracle")
    return typed(*common, *memory, "--no-answer", *flags)


def test_files_stand_where_the_format_has_them(talks: Talks) -> None:
    """A folder for each of several memories; none for one."""
    assert measured(talks) == 0
    assert measured(talks, "--memory", "bm25", "--task-id", "ben") == 0
    root = talks.folder / ".sage/benchmarks/benchmark_memory"
    several = {path.relative_to(root).parts[0::3] for path in root.glob("*/plain/*/*.json")}
    assert {(memory, name) for memory in ("own", "oracle") for name in ("0000.json", "0001.json")} < several
    assert {path.name for path in root.glob("plain/*/*.json")} == {"0001.json", "summary.json"}


def test_a_report_has_scores_curves_and_pairs(talks: Talks, capsys: pytest.CaptureFixture[str]) -> None:
    """The same numbers everywhere: those of the last tests, in which each question is asked once."""
    assert measured(talks) == 0
    output = capsys.readouterr().out
    headline = next(line for line in output.splitlines() if line.startswith("own "))
    assert headline.split()[1:] == ["1.000", "(0.34–1.00)", "10/10", "2", "16", "0"]
    assert "█" in output
    (pair,) = [line for line in output.splitlines() if line.startswith("own ") and "oracle" in line]
    assert pair.split()[:6] == ["own", "oracle", "(reference)", "evidence", "1.0000", "1.0000"]
    assert " 10 " in pair


def test_show_is_the_report_and_cases_in_short(talks: Talks, capsys: pytest.CaptureFixture[str]) -> None:
    """Hundreds of scores are told as their mean over the last test."""
    measured(talks, "--output-dir", "out")
    capsys.readouterr()
    assert typed("show", "out") == 0
    output = capsys.readouterr().out
    assert "evidence, test by test" in output
    (row,) = [line for line in output.splitlines() if "conversation ben with own" in line]
    assert row.split()[-5:] == ["ok", "evidence_recall", "1.000", "of", "6"]
    assert "insert_seconds" not in output


def test_show_of_a_conversation_has_its_tests(talks: Talks, capsys: pytest.CaptureFixture[str]) -> None:
    """Each with its mean, then the last one question by question: text, reference, answer and retrieved items."""
    values = talks.values()
    command = ("memory", "test", "--dataset", "plain", "--data", "talks.json", "--segments", "2")
    assert typed(*command, "--memory", talks.own, "--model", values["model"], "--output-dir", "out") == 0
    capsys.readouterr()
    assert typed("show", "out", "ann") == 0
    lines = capsys.readouterr().out.rstrip("\n").splitlines()
    assert lines[0].endswith("conversation ann with own · ok")
    start = lines.index(next(line for line in lines if line.startswith("test ")))
    assert [line.split()[-3:] for line in lines[start + 2 : start + 4]] == [
        ["1.000", "of", "2"],
        ["1.000", "of", "4"],
    ]
    assert lines[-2].split()[0] == "4"
    assert "  who likes fruit4  Bob likes fruit4  Bob likes fruit4  " in lines[-2]
    assert lines[-2].endswith("D1:4, D1:1, D1:2, D1:3")
    assert lines[-1] == "everything about one question: assay show RUN CASE --question NUMBER"


def test_a_failed_conversation_is_named(talks: Talks, capsys: pytest.CaptureFixture[str]) -> None:
    """By both of its ids, with what the memory said and the line of the user's file; in the summary too."""
    (talks.folder / "talks.json").write_text(json.dumps([talk(4, "ann", "poison"), talk(4, "ben")]))
    assert measured(talks, "--output-dir", "out") == 0
    output = capsys.readouterr().out
    reason = 'own.add: [RuntimeError] it is bad (own.py:17: raise RuntimeError("it is bad"))'
    assert f"own: conversations without a file (1)\n  conversation 0000 (ann): {reason}\n" in output
    (path,) = (talks.folder / "out").glob("own/plain/*/summary.json")
    assert json.loads(path.read_text())["failures"] == [{"task_id": "0000", "sample_id": "ann", "reason": reason}]


def test_an_unknown_category_is_refused(talks: Talks, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing would be asked, or less than was meant."""
    assert measured(talks, "--categories", "plain,plane") == 2
    assert "no category named 'plane'; did you mean 'plain'?" in capsys.readouterr().err
    assert not os.path.lexists(".sage")


def test_compare_is_of_last_tests(talks: Talks, capsys: pytest.CaptureFixture[str]) -> None:
    """Of sixteen answers in four tests, the ten of the last ones."""
    assert measured(talks, "--output-dir", "out") == 0
    capsys.readouterr()
    assert typed("compare", "out", "--json") == 0
    (comparison,) = json.loads(capsys.readouterr().out)["comparisons"]
    assert comparison["rows"][0]["metric"] == "evidence_recall"
    assert {row["n"] for row in comparison["rows"]} == {10}
    assert (comparison["base"]["reference"], comparison["new"]["reference"]) == (False, True)
    assert typed("compare", "out") == 0
    assert " · oracle (reference) · " in capsys.readouterr().out


def test_check_knows_files_of_conversations(talks: Talks, capsys: pytest.CaptureFixture[str]) -> None:
    """By their keys, and tells every problem with its place."""
    assert typed("check", "talks.json") == 0
    conversation = talk()
    conversation["questions"][0]["question"] = ""
    conversation["sessions"][0]["messages"][1] = {"speaker": "Ann"}
    (talks.folder / "talks.json").write_text(json.dumps([conversation]))
    capsys.readouterr()
    assert typed("check", "talks.json") == 1
    output = capsys.readouterr().out
    assert "$[0].sessions[0].messages[1].text: is missing" in output
    assert "$[0].questions[0].question: is empty" in output


def test_a_dry_run_says_how_often_it_will_ask(talks: Talks, capsys: pytest.CaptureFixture[str]) -> None:
    """Ten questions in four tests are sixteen answers; nothing is asked or written."""
    model = talks.values()["model"]
    command = ("memory", "test", "--dataset", "plain", "--data", "talks.json", "--segments", "2")
    assert typed(*command, "--memory", "bm25,none", "--model", model, "--dry-run") == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["questions", "10"] in rows
    assert ["questions", "asked", "16", "for", "each", "memory"] in rows
    (answers,) = [words for words in rows if words[:1] == ["answers"]]
    assert answers[1:3] == [model, "32"]
    assert not os.path.lexists(".sage")
    assert talks.asked() == []


def test_a_file_of_another_data_set_is_named(talks: Talks, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("memory", "test", "--data", "talks.json", "--memory", "bm25", "--no-answer") == 2
    assert "talks.json is not in the format of 'locomo': it looks like 'plain'; pass --dataset plain" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("def make(): pass", "it is called as f(context), but takes ()"),
        ("class make:\n  def __init__(self, a, b): pass", "it is called as f(context), but takes (a, b)"),
    ],
)
def test_a_memory_that_cannot_be_made_is_refused_before_the_run(
    talks: Talks, capsys: pytest.CaptureFixture[str], body: str, message: str
) -> None:
    (talks.folder / "mine.py").write_text(body)
    assert measured(talks, "--memory", "mine.py:make") == 2
    assert message in capsys.readouterr().err


def test_failures_of_a_memory_say_what_a_memory_has(talks: Talks, capsys: pytest.CaptureFixture[str]) -> None:
    """The last lines of a run have the first failure of each kind, and the command that lists all of them."""
    methods = {"add": "(self, messages)", "reset": "(self)", "items": "(self)", "end_session": "(self)"}
    lines = [f"    def {name}{arguments}: pass" for name, arguments in methods.items()]
    (talks.folder / "half.py").write_text(
        "\n".join(["class Mine:", "    def __init__(self, context): pass", *lines, ""])
    )
    measured(talks, "--memory", "half.py:Mine", "--output-dir", "half")
    out = capsys.readouterr().out
    lacks = "half: Mine lacks search; a memory has reset, add, search, items, end_session"
    assert f"  2 × user_code, the first: {lacks}\n  list them with: assay show half/assay/" in out
    with (talks.folder / "half.py").open("a") as file:
        file.write("    def search(self, query, k): return ['text']\n")
    measured(talks, "--memory", "half.py:Mine", "--output-dir", "half")
    assert "it must return a list of SearchHit(MemoryItem(…), score), not of str" in capsys.readouterr().err
    code = (talks.folder / "half.py").read_text()
    (talks.folder / "half.py").write_text(code.replace("['text']", "7"))
    measured(talks, "--memory", "half.py:Mine", "--output-dir", "half")
    asked = "it returned 7; return a list of SearchHit(MemoryItem(…), score) at half.py:7"
    assert f"half.search: TypeError: {asked}" in capsys.readouterr().err


def test_a_flipped_question_is_compared_by_what_was_found(talks: Talks, capsys: pytest.CaptureFixture[str]) -> None:
    measured(talks, "--memory", "none,oracle", "--output-dir", "two")
    capsys.readouterr()
    assert typed("compare", "two") == 0
    out = capsys.readouterr().out
    assert "now passing" in out
    assert 'new: ["D' in out or "new: D" in out
    assert "insert_seconds" not in out


def test_a_share_of_all_evidence_and_its_mean_of_questions_have_two_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table pools the pieces of evidence. The pairs of questions below it cannot, so they say what they show."""
    values = Samples(tmp_path).values()
    monkeypatch.chdir(tmp_path)
    flags = [f"--{name.replace('_', '-')}={values[name]}" for name in ("dataset", "model", "judge", "output_dir")]
    assert typed("memory", "eval", *flags, "--baseline", "bm25,none") == 0
    table, pairs = capsys.readouterr().out.split("\nbase ", 1)
    assert "evidence coverage " in table
    assert "evidence coverage, mean of questions" not in table
    for name in ("evidence coverage", "evidence in all retrieved"):
        assert f"{name}, mean of questions  " in pairs
        assert f"{name}  " not in pairs


def test_runs_with_other_schedules_are_told_apart_by_their_options(
    talks: Talks, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rescore would not help, so it is not advised."""
    measured(talks, "--memory", "bm25", "--output-dir", "one")
    measured(talks, "--memory", "bm25", "--output-dir", "two", "--ask", "at-end", "--limit", "1")
    capsys.readouterr()
    assert typed("compare", "one", "two") == 2
    said = capsys.readouterr().err
    assert "--ask when-visible and at-end" in said
    assert "--limit (none) and 1" in said
    assert "rescore" not in said
    assert "memory@" not in said


def test_a_search_that_fails_is_no_missing_answer(talks: Talks, capsys: pytest.CaptureFixture[str]) -> None:
    """In a run without a model nobody answers: the searches failed."""
    own = talks.folder / "own.py"
    own.write_text(own.read_text().replace("words = set(", "raise KeyError('index'); words = set("))
    assert measured(talks, "--memory", talks.own, "--output-dir", "out") == 1
    output, errors = capsys.readouterr()
    assert "–, 10 no search result" in output
    assert "own evidence: no question has a search result" in output
    assert "No question has a search result, all 16 failed" in output + errors
    assert "no answer" not in output


def test_a_question_without_category_is_in_no_category(talks: Talks, capsys: pytest.CaptureFixture[str]) -> None:
    data = talks.folder / "talks.json"
    data.write_text(data.read_text().replace('"category": "plain"', '"category": null'))
    assert measured(talks, "--memory", "bm25", "--output-dir", "out") == 0
    output = capsys.readouterr().out
    assert "(none) " in output
    assert "None" not in output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("test", "--data", "talks.json", "--memory", "mine.py", "--no-answer"),
            "'mine.py' is a file. Name the function or class in it too, such as mine.py:make",
        ),
        (
            ("test", "--data", "halumem.jsonl", "--memory", "bm25,k=5", "--no-answer"),
            "Use: assay memory eval --dataset halumem.jsonl --baseline bm25,k=5",
        ),
        (
            (
                *("eval", "--dataset", "talks.json", "--baseline", "bm25,FUMemory"),
                *("--model", "openai/m", "--base-url", "http://127.0.0.1:9/v1"),
            ),
            "Use: assay memory test --data talks.json --memory bm25,FUMemory",
        ),
    ],
)
def test_data_of_the_other_command_and_files_without_a_name_get_a_hint(
    words: tuple[str, ...], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is the command that reads the data."""
    monkeypatch.chdir(Path(__file__).parents[2] / "examples" / "memory")
    assert typed("memory", *words) == 2
    assert told in " ".join(capsys.readouterr().err.split())
