"""The end of a start: result files first, summary.json last, and the earlier result where that fails."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import DamagedRun, InputError, ModelError
from assay.core.report import Entry, Report
from assay.core.suite import CaseContent, Outcome, Results, Row, RunFacts
from assay.core.types import Failure, Response
from assay.journal.folder import HOME
from assay.journal.run_files import read_summary
from assay.usercode.ownership import PACKAGE

from support.engine_run import EchoModel
from support.word_run import RESULT_FILE, WordRun, WordSuite


def full_disk() -> OSError:
    return OSError(28, "No space left on device", "words.txt")


def test_a_new_run_whose_files_cannot_be_written_is_stopped_not_finished(tmp_path: Path) -> None:
    run = WordRun(tmp_path)
    suite = run.suite()
    suite.broken = full_disk()
    stopped = asyncio.run(run.runner_of(suite, EchoModel()).start_or_show())
    assert (stopped.exit_code, stopped.summary.state, stopped.summary.files) == (3, "stopped", [])
    assert "cannot write words.txt" in stopped.reason
    assert run.start(model := EchoModel()).summary.state == "finished"
    assert model.prompts == []


@pytest.mark.parametrize("trusted", [True, False])
def test_a_scoring_whose_files_cannot_be_written_leaves_the_earlier_result(tmp_path: Path, trusted: bool) -> None:
    run = WordRun(tmp_path)
    first = run.start(EchoModel())
    suite = run.suite(strict=True)
    suite.broken = full_disk()
    stopped = asyncio.run(run.runner_of(suite, EchoModel(), trusted=trusted).start_or_show())
    assert stopped.exit_code == 3
    kept = read_summary(first.folder)
    assert kept is not None
    assert (kept.state, kept.score, kept.scoring_again) == ("finished", first.summary.score, False)
    assert [Path(file).read_text() for file in kept.files] == ["2 of 2\n"]


def test_a_record_that_the_suite_cannot_read_is_damage_only_in_a_folder_that_is_not_trusted(tmp_path: Path) -> None:
    run = WordRun(tmp_path)
    first = run.start(EchoModel())
    suite = run.suite(strict=True)
    suite.broken = KeyError("odd")
    with pytest.raises(DamagedRun):
        asyncio.run(run.runner_of(suite, EchoModel(), trusted=False).start_or_show())
    kept = read_summary(first.folder)
    assert kept is not None
    assert (kept.state, kept.score, kept.scoring_again) == ("finished", first.summary.score, False)
    with pytest.raises(InputError) as refused:
        asyncio.run(run.runner_of(suite, EchoModel()).start_or_show())
    assert not isinstance(refused.value, DamagedRun)


def test_an_exception_of_a_users_finish_is_told_with_its_line_and_with_the_run_that_has_the_replies(
    tmp_path: Path,
) -> None:
    run = WordRun(tmp_path)
    suite = run.suite()
    suite.broken = KeyError("odd")
    with pytest.raises(InputError) as refused:
        asyncio.run(run.runner_of(suite, EchoModel()).start_or_show())
    (folder,) = (tmp_path / HOME).iterdir()
    assert re.fullmatch(
        r"words: `finish` raised KeyError: 'odd' \(word_run\.py:\d+: raise self\.broken\)\. The replies are kept: when it is "
        rf"mended, add --reuse {folder}",
        str(refused.value),
    )
    assert refused.value.exit_code == 2
    assert run.start(model := EchoModel()).summary.state == "finished"
    assert model.prompts == []


def test_an_exception_of_a_finish_of_assay_keeps_its_traceback(tmp_path: Path) -> None:
    run = WordRun(tmp_path)
    suite = run.suite()
    of_assay: dict[str, Any] = {}
    exec(compile("def finish(results, run): 1 / 0", f"{PACKAGE}suite.py", "exec"), of_assay)
    suite.finish = of_assay["finish"]  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        asyncio.run(run.runner_of(suite, EchoModel()).start_or_show())


def test_the_report_has_the_errors_and_no_number_without_an_answer(tmp_path: Path) -> None:
    class Silent(EchoModel):
        async def reply(self, prompt: str) -> Response:
            raise ModelError(Failure("refusal", "I would rather not"))

    run = WordRun(tmp_path)
    ended = run.start(Silent())
    assert ended.report is not None
    assert [(error.message, error.count) for error in ended.report.errors] == [("I would rather not", 2)]
    (entry,) = ended.report.entries
    assert (entry.metrics[0].value, [error.message for error in entry.errors]) == (None, ["I would rather not"])
    assert ended.exit_code == 1


def test_an_entry_that_only_its_name_ties_to_a_subject_has_the_errors_of_this_subject(tmp_path: Path) -> None:
    class TwoSubjects(WordSuite):
        def subjects(self) -> Sequence[str]:
            return ["plain", "fair"]

        def case(self, row: Row[str], subject: str) -> CaseContent:
            return CaseContent(row.data, failure=Failure("user_code", f"{subject} is broken"))

        def finish(self, results: Results[str], run: RunFacts) -> Outcome:
            assert len(list(results)) == 4
            names = [*self.subjects(), "both"]
            return Outcome(Report(entries=[Entry(name=name) for name in names]))

    run = WordRun(tmp_path)
    ended = asyncio.run(run.runner_of(TwoSubjects(run.suite().spec), EchoModel()).start_or_show())
    assert ended.report is not None
    assert [(entry.subject, entry.errors[0].message) for entry in ended.report.entries] == [
        ("plain", "plain is broken"),
        ("fair", "fair is broken"),
        ("", "plain is broken"),
    ]


def test_a_shard_says_that_it_is_one(tmp_path: Path) -> None:
    shard = WordRun(tmp_path / "2").start(EchoModel(), {"shard": "2/2"})
    assert shard.report is not None
    assert shard.report.notices[0].startswith("shard 2 of 2: 1 of 2 cases.")
    empty = WordRun(tmp_path / "3").start(EchoModel(), {"shard": "3/3"})
    assert empty.report is not None
    assert empty.report.notices[0].startswith("shard 3 of 3: 0 of 2 cases. There are more shards than rows")
    assert (empty.exit_code, empty.summary.files) == (0, [])


def test_result_files_are_known_by_their_content(tmp_path: Path) -> None:
    run = WordRun(tmp_path)
    ended = run.start(EchoModel())
    assert list(ended.summary.digests) == [str(run.output / RESULT_FILE)]
    assert run.start(EchoModel()).asked is False
    (run.output / RESULT_FILE).unlink()
    model = EchoModel()
    assert run.start(model).asked is True
    assert (model.prompts, run.result_file) == ([], "2 of 2\n")
