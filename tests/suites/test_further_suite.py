"""A further suite is one file outside the package: installed with an entry point, or named by its path.

The file is examples/suites/quiz.py, which docs/extending.md explains. It gets everything a built-in suite has.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import assay
from assay.core.errors import UsageError

from servers.fake_openai import FakeOpenAI, answer_of
from support.commands import Finished, Job
from support.killing import CONCURRENCY, looked_at, lost_so_far

QUIZ = Path(__file__).parents[2] / "examples" / "suites" / "quiz.py"
MOST_LINES = 85
SEED = 1234


class Installed(NamedTuple):
    """The suite in one of the two ways in which people have it."""

    folder: Path
    name: str
    command: list[str]
    shown: str
    """How `assay runs` names it."""

    def job(self, *words: str) -> Job:
        """A command of assay in this folder, where the suite can be found."""
        if Path.cwd() == self.folder:
            return Job(["-m", "assay", *words], self.folder / "out")
        code = (
            f"import os, sys; os.chdir({str(self.folder)!r}); sys.path.insert(0, {str(self.folder / 'site')!r}); "
            "from assay.cli.main import main; main()"
        )
        return Job(["-c", code, *words], self.folder / "out")

    def typed(self, *words: str) -> Finished:
        """What a command says."""
        return self.job(*words).run()

    def quiz(self, *words: str) -> Job:
        """The suite's own command."""
        return self.job(*self.command, "quiz.jsonl", "--output-dir", "out", *words)


@pytest.fixture(params=["entry point", "path"])
def quiz(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installed:
    """A package in a folder of its own, or the file alone; and four questions."""
    rows = [{"question": f"What is {n} and {n}?", "answer": answer(n) if n % 2 else "x"} for n in range(4)]
    (tmp_path / "quiz.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if request.param == "path":
        monkeypatch.chdir(tmp_path)
        shutil.copy(QUIZ, tmp_path / "my_quiz.py")
        return Installed(tmp_path, str(tmp_path / "my_quiz.py:Quiz"), ["run", "my_quiz.py:Quiz"], "my_quiz.py:Quiz")
    install(tmp_path / "site", "quiz", "Quiz")
    return Installed(tmp_path, "quiz", ["quiz"], "quiz")


def install(site: Path, name: str, attribute: str) -> None:
    """As pip would: a module, and metadata with an entry point."""
    metadata = site / f"further_{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    shutil.copy(QUIZ, site / f"further_{name}.py")
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: further_{name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[assay.suites]\n{name} = further_{name}:{attribute}\n")


def answer(number: int) -> str:
    """What the endpoint says to the question with this number."""
    return answer_of(f"What is {number} and {number}?", SEED)


def test_the_suite_is_one_short_file() -> None:
    assert len(QUIZ.read_text().splitlines()) <= MOST_LINES


def test_it_has_a_command_with_help(quiz: Installed) -> None:
    """Its own arguments and flags, with those that all suites have; an entry point is in the list of commands."""
    done = quiz.typed(*quiz.command, "--help")
    assert done.code == 0
    for text in ("Ask the questions of FILE", "FILE  Lines of question", "--shout", "--model", "--dry-run"):
        assert text in done.out
    listed = quiz.typed("--help").out
    assert ("quiz Ask the questions of FILE" in " ".join(listed.split())) == (quiz.command == ["quiz"])


def test_a_typo_in_a_flag_names_the_nearest(quiz: Installed) -> None:
    done = quiz.quiz("--shuot").run()
    assert (done.code, done.out) == (2, "")
    assert "--shuot" in done.err
    assert "--shout" in done.err
    assert not (quiz.folder / "out").exists()


def test_a_run_without_a_model_is_refused_before_anything_is_written(quiz: Installed) -> None:
    done = quiz.quiz().run()
    assert (done.code, done.out) == (2, "")
    assert "no model is named" in done.err
    assert not (quiz.folder / "out").exists()


def test_check_finds_its_files_and_their_problems(quiz: Installed) -> None:
    """An installed suite recognises its file; one by its path is named."""
    named = [] if quiz.command == ["quiz"] else ["--as", "my_quiz.py:Quiz"]
    assert quiz.typed("check", "quiz.jsonl", *named) == (0, "quiz.jsonl: file of quiz: fine\n", "")
    (quiz.folder / "bad.jsonl").write_text('{"question": "a", "answer": "b"}\n{"question": 1}\n')
    done = quiz.typed("check", "bad.jsonl", *named)
    assert done.code == 1
    assert done.out.splitlines() == [
        "bad.jsonl:2 $.question: must be a text, not a number",
        "bad.jsonl:2 $.answer: is missing",
        "bad.jsonl: file of quiz: 2 errors, 0 warnings",
    ]
    refused = quiz.job(*quiz.command, "bad.jsonl", "--model", "script/none.jsonl").run()
    assert refused.code == 2


def test_two_suites_that_are_equally_sure_are_told(tmp_path: Path) -> None:
    """`--as` decides."""
    (tmp_path / "quiz.jsonl").write_text('{"question": "a", "answer": "b"}\n')
    install(tmp_path / "site", "quiz", "Quiz")
    install(tmp_path / "site", "exam", "Quiz")
    both = Installed(tmp_path, "quiz", ["quiz"], "quiz")
    done = both.typed("check", "quiz.jsonl")
    assert done.code == 2
    assert "quiz.jsonl could be read by" in done.err
    assert "Choose one with --as SUITE" in done.err
    assert both.typed("check", "quiz.jsonl", "--as", "quiz").code == 0


def test_a_dry_run_asks_and_writes_nothing(quiz: Installed) -> None:
    with FakeOpenAI() as server:
        done = quiz.quiz("--model", "openai/fake", "--base-url", server.url, "--dry-run").run()
        assert server.stats().requests == []
    assert done.code == 0
    assert ["cases", "4"] in [line.split() for line in done.out.splitlines()]
    assert done.out.endswith("Dry run: no requests sent, no files written.\n")
    assert not (quiz.folder / "out").exists()


def test_it_runs_and_is_looked_at_like_any_other(quiz: Installed) -> None:
    """Report and file; then `runs`, `show` with and without a case, `compare` and `rescore`.

    A suite that is a file runs only in commands that name the file.
    """
    named = [] if quiz.command == ["quiz"] else ["--code", "my_quiz.py"]
    with FakeOpenAI() as server:
        model = ["--model", "openai/fake", "--base-url", server.url]
        done = quiz.quiz(*model).run()
        assert done.code == 0, done.err
        assert ["openai/fake", "0.500", "(0.15–0.85)", "2/4"] in [line.split() for line in done.out.splitlines()]
        assert "wrote out/answers.jsonl" in done.out
        written = [json.loads(line) for line in (quiz.folder / "out/answers.jsonl").read_text().splitlines()]
        assert [row[1:] for row in written] == [[answer(n), float(n % 2)] for n in range(4)]
        again = quiz.quiz(*model).run()
        assert "already finished; no requests sent" in again.out
        assert len(server.stats().requests) == 4
        other = quiz.job(*quiz.command, "quiz.jsonl", "--output-dir", "other", "--shout", *model).run()
        assert other.code == 0
    (row,) = [line.split() for line in quiz.typed("runs", "out").out.splitlines() if "finished" in line]
    assert row[3:] == [quiz.shown, "openai/fake", "finished", "4/4", "openai/fake", "exact_match", "0.5000"]
    shown = quiz.typed("show", "out", "--failed", *named).out
    assert "0.500 (0.15–0.85) 2/4" in shown
    assert [line.split()[:3] for line in shown.splitlines() if "✗" in line] == [
        ["0", "1", "✗"],
        ["2", "3", "✗"],
    ]
    case = quiz.typed("show", "out", "@1").out.splitlines()
    assert case[0].startswith("case 1 · quiz · ")
    assert "    What is 1 and 1?" in case
    found = f"  expected {answer(1)} · found {answer(1)}"
    assert case[-4:] == ["answer", f"  {answer(1)}", "exact_match: 1", found]
    compared = quiz.typed("compare", "out", "other").out
    assert "now failing: 2" in compared
    assert f"target: {answer(1)}" in compared
    assert quiz.typed("rescore", "out", *named).code == 0
    if named:
        unnamed = quiz.typed("show", "out", "--failed")
        assert "What is 2 and 2?" in unnamed.out
        assert "shown without the run's own suite: add --code my_quiz.py, if you trust it\n" in unnamed.err
        where = quiz.typed("show", "out", "--where", "score = 0").out.splitlines()
        assert where[0].split() == ["position", "case", "question", "expected", "found", "score"]
        refused = quiz.typed("rescore", "out")
        assert refused.code == 2
        assert "add --code my_quiz.py" in refused.err


def test_a_run_is_shown_although_its_suite_is_gone(quiz: Installed) -> None:
    """What the journal has is enough."""
    replies = "".join(json.dumps({"text": answer(1)}) + "\n" for _ in range(4))
    (quiz.folder / "replies.jsonl").write_text(replies)
    assert quiz.quiz("--model", "script/replies.jsonl").run().code == 0
    shutil.rmtree(quiz.folder / "site", ignore_errors=True)
    (quiz.folder / "my_quiz.py").unlink(missing_ok=True)
    assert "0.250 (0.05–0.70) 1/4" in quiz.typed("show", "out").out
    case = quiz.typed("show", "out", "@1")
    assert case.code == 0
    assert case.out.splitlines()[-4:-1] == ["answer", f"  {answer(1)}", "exact_match: 1"]
    assert quiz.typed("compare", "out", "out").code == 0


def test_a_killed_run_continues_with_what_is_left(quiz: Installed) -> None:
    """After kill -9 the same command asks again only what was in flight, and writes the same file."""
    rows = [{"question": f"What is {n}?", "answer": "x"} for n in range(60)]
    (quiz.folder / "quiz.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with FakeOpenAI(latency=0.02, jitter=1.5) as server:
        flags = ["--model", "openai/fake", "--base-url", server.url, "--concurrency", str(CONCURRENCY)]
        job = quiz.quiz(*flags)
        before = lost_so_far(job, server)
        with job.started() as started:
            assert started.wait_for(lambda: job.count("calls") >= 20)
            started.kill()
        kill = looked_at(job, server, before)
        assert 20 <= len(kill.logged) < 60
        done = job.run()
        assert (done.code, "continuing: " in done.err) == (0, True)
        assert 0 <= kill.lost <= CONCURRENCY
        assert server.stats().repeated == kill.lost
    written = [json.loads(line) for line in (quiz.folder / "out/answers.jsonl").read_text().splitlines()]
    assert written == [[f"What is {n}?", answer_of(f"What is {n}?", SEED), 0.0] for n in range(60)]


@pytest.fixture
def importable(quiz: Installed, monkeypatch: pytest.MonkeyPatch) -> Installed:
    """The suite for this process."""
    monkeypatch.chdir(quiz.folder)
    monkeypatch.syspath_prepend(str(quiz.folder / "site"))
    monkeypatch.delitem(sys.modules, "further_quiz", raising=False)
    return quiz


def test_python_runs_it_like_any_other(importable: Installed) -> None:
    with FakeOpenAI() as server:
        spec = assay.spec(
            importable.name, file="quiz.jsonl", model="openai/fake", base_url=server.url, output_dir="out"
        )
        run = assay.run(spec)
    assert run.exit_code == 0
    assert run.report is not None
    ((entry, metric),) = run.report.metrics()
    assert (entry.name, metric.name, metric.value, metric.numerator, metric.denominator) == (
        *("openai/fake", "exact_match", 0.5, 2, 4),
    )
    assert assay.load("out").report == run.report
    with pytest.raises(UsageError, match="did you mean 'shout'"):
        assay.spec(importable.name, shuot=True)


def test_a_suite_that_cannot_be_imported_takes_no_command_away(tmp_path: Path) -> None:
    install(tmp_path / "site", "quiz", "Quiz")
    (tmp_path / "site" / "further_quiz.py").write_text("import nothing_of_this_name\n")
    broken = Installed(tmp_path, "quiz", ["quiz"], "quiz")
    listed = broken.typed("--help")
    assert listed.code == 0
    assert "cannot be loaded: ModuleNotFoundError" in " ".join(listed.out.split())
    assert "Traceback" not in listed.err
    done = broken.typed("quiz", "quiz.jsonl")
    assert done.code == 2
    assert "the suite 'quiz' of further_quiz cannot be loaded" in done.err


def test_a_suite_without_a_required_member_is_named_with_it(tmp_path: Path) -> None:
    (tmp_path / "half.py").write_text(QUIZ.read_text().replace("def case(", "def caes("))
    done = Installed(tmp_path, "half.py:Quiz", ["run", "half.py:Quiz"], "half.py:Quiz").typed(
        "run", "half.py:Quiz", "quiz.jsonl", "--model", "script/replies.jsonl"
    )
    assert done.code == 2
    assert "half.py:Quiz is not a complete suite: it lacks case" in done.err
    assert "Traceback" not in done.err


def test_a_traceback_of_a_suite_begins_with_its_own_error(tmp_path: Path) -> None:
    (tmp_path / "half.py").write_text(QUIZ.read_text().replace("done = [", "done = nothing + ["))
    (tmp_path / "quiz.jsonl").write_text('{"question": "1+1?", "answer": "2"}\n')
    (tmp_path / "replies.jsonl").write_text('{"text": "2"}\n')
    done = Installed(tmp_path, "half.py:Quiz", ["run", "half.py:Quiz"], "half.py:Quiz").typed(
        "run", "half.py:Quiz", "quiz.jsonl", "--model", "script/replies.jsonl"
    )
    assert "name 'nothing' is not defined" in done.err
    assert "no running event loop" not in done.err


def test_a_missing_argument_is_named_as_the_help_names_it(tmp_path: Path) -> None:
    (tmp_path / "quiz.py").write_text(QUIZ.read_text())
    suite = Installed(tmp_path, "quiz.py:Quiz", ["run", "quiz.py:Quiz"], "quiz.py:Quiz")
    done = suite.typed("run", "quiz.py:Quiz", "--model", "script/replies.jsonl")
    assert (done.code, done.err.strip()) == (2, "FILE is missing")
