"""Which run a command means: what makes another run, what grades again, and what a rescored run is."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import assay
from assay.core.errors import StopRun, UsageError
from assay.core.roles import CHAT, Role
from assay.core.types import Request, Response
from assay.journal.run_files import write_summary
from assay.runner.rescore import Rescore, rescore
from assay.runner.runner import Runner
from assay.suites import find_suite

from suites import shared

QUIZ = Path(__file__).parents[2] / "examples" / "suites" / "quiz.py"
QUESTIONS = [{"question": "first?", "answer": "yes"}, {"question": "second?", "answer": "no"}]
MODEL = 'def answer(prompt, params):\n    return "yes"\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the quiz, two questions and a model that always says yes."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(QUIZ, "quiz.py")
    Path("model.py").write_text(MODEL)
    write_questions(QUESTIONS)
    return tmp_path


def write_questions(questions: list[dict[str, str]]) -> None:
    Path("quiz.jsonl").write_text("".join(json.dumps(row) + "\n" for row in questions))


def run_quiz(**options: Any) -> assay.Run:
    values = {"file": "quiz.jsonl", "model": "python/model.py:answer", "output_dir": "out", **options}
    return assay.run(assay.spec("quiz.py:Quiz", **values))


def share(run: assay.Run) -> float | None:
    assert run.report is not None
    return run.report.entries[0].metrics[0].value


def rescore_quiz(name: str) -> assay.Run:
    return rescore(name, code=["quiz.py"])


def test_an_edited_answer_changes_the_number_of_the_quiz() -> None:
    """No score of the old answer is shown for the new one."""
    assert share(run_quiz()) == 0.5
    write_questions([QUESTIONS[0], {"question": "second?", "answer": "yes"}])
    assert share(run_quiz()) == 1.0


def test_a_suite_whose_code_was_edited_is_another_run() -> None:
    """By its content, wherever it stands."""
    first = run_quiz()
    Path("quiz.py").write_text(Path("quiz.py").read_text().replace(".upper()", ".lower()"))
    assert run_quiz().folder != first.folder


def test_an_option_may_have_the_name_of_a_part_of_the_fingerprint() -> None:
    """Another value of an option called `data` is another run."""
    text = Path("quiz.py").read_text().replace("shout", "data")
    Path("quiz.py").write_text(text)
    assert run_quiz(data=True).folder != run_quiz(data=False).folder


def test_rescoring_grades_the_run_that_is_named() -> None:
    """Not a newer one with the same settings."""
    old = run_quiz()
    new = run_quiz(fresh=True)
    assert new.folder != old.folder
    before = (new.folder / "summary.json").read_bytes()
    assert rescore_quiz(str(old.folder)).folder == old.folder
    assert (new.folder / "summary.json").read_bytes() == before


def test_a_run_that_was_moved_is_rescored_where_it_is() -> None:
    """No empty run is made beside it."""
    run = run_quiz()
    moved = Path("elsewhere")
    shutil.copytree(run.folder, moved)
    again = rescore_quiz(str(moved))
    assert again.folder == moved
    assert (again.summary.ok, again.summary.total) == (2, 2)
    assert share(again) == 0.5


def test_a_run_folder_that_stands_alone_gets_its_result_files_itself() -> None:
    """The output folder that its run.json names may be any folder of the machine."""
    shutil.copytree(run_quiz().folder, "elsewhere")
    again = Rescore("elsewhere", [])
    assert Path(again.runner.spec.output_dir) == Path("elsewhere/results")


def test_a_run_that_was_killed_while_it_went_on_is_not_rescored() -> None:
    """Its own command asks for the rest."""
    run = run_quiz()
    assert run.summary is not None
    write_summary(run.folder, replace(run.summary, state="unfinished"))
    with pytest.raises(UsageError, match="is not finished"):
        Rescore(str(run.folder), [])


def test_a_secret_among_ignored_words_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line is kept in run.json without it."""
    monkeypatch.setenv("HF_TOKEN", "hf_secret_value_123")
    monkeypatch.setattr("sys.argv", ["assay", "task", "--hf-hub-log-args", "token=hf_secret_value_123"])
    run = run_quiz()
    written = b"".join(path.read_bytes() for path in run.folder.iterdir() if path.is_file())
    assert b"hf_secret_value_123" not in written
    assert run.info.command[:3] == ["assay", "task", "--hf-hub-log-args"]


def test_a_scorer_that_raises_costs_its_cases_and_not_the_run() -> None:
    """The notice names the line; the cases are scored next time, so the exit code is 3."""
    text = Path("quiz.py").read_text()
    Path("quiz.py").write_text(text.replace("right = reply.casefold()", 'right = {}["gone"]'))
    notices: list[str] = []
    values = {"file": "quiz.jsonl", "model": "python/model.py:answer", "output_dir": "out"}
    run = assay.run(
        assay.spec("quiz.py:Quiz", **values), [lambda event: notices.append(str(getattr(event, "text", "")))]
    )
    assert run.exit_code == 3
    assert run.summary.unscored == 2
    assert any("could not be scored: KeyError: 'gone'" in notice and "quiz.py" in notice for notice in notices)
    shutil.copy(QUIZ, "quiz.py")
    assert run_quiz().exit_code == 0


def test_data_that_changed_under_a_run_stops_it() -> None:
    """A suite that does not know its data by content still shows no answer of one row for another."""
    text = Path("quiz.py").read_text()
    Path("quiz.py").write_text(
        text.replace("    def rows(", "    def data_identity(self):\n        return 0\n\n    def rows(")
    )
    assert run_quiz().exit_code == 0
    Path("out/answers.jsonl").unlink()
    write_questions([{"question": "another?", "answer": "yes"}, QUESTIONS[1]])
    with pytest.raises(StopRun, match="is another document now"):
        run_quiz()


class Door:
    """A model that is opened and closed only."""

    can = frozenset({CHAT})
    endpoint = "door"

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.is_closed = False

    async def send(self, request: Request, seed: int) -> Response:
        raise AssertionError("not asked")

    async def close(self) -> None:
        self.is_closed = True
        if self.error is not None:
            raise self.error


def test_a_model_that_cannot_be_closed_leaves_no_other_open() -> None:
    """The first error is raised after all are closed."""
    doors = {"main": Door(OSError("first")), "other": Door(OSError("second")), "third": Door()}
    spec = shared.spec(second="http://127.0.0.1:9/v1")
    suite = find_suite(spec.suite)(spec)
    suite.roles = {name: Role("openai/x") for name in doors}
    with pytest.raises(OSError, match="first"):
        asyncio.run(Runner(suite, doors).close())
    assert all(door.is_closed for door in doors.values())
