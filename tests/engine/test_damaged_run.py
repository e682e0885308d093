"""A run whose journal was torn or changed goes on: only the cases of changed lines are run or scored again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from servers.fake_openai import FakeOpenAI
from support.commands import Finished, Job, task_job, typed
from support.tasks import write_task

DOCS, STOP = 24, 15


class Half(NamedTuple):
    """A run that stopped half way, and a whole one of the same task."""

    server: FakeOpenAI
    task: Path
    stopped: Path
    whole: Job


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Half]:
    """Made once; every test damages a copy."""
    folder = tmp_path_factory.mktemp("half")
    with FakeOpenAI(latency=0.01, jitter=2) as server:
        task = write_task(folder / "task", DOCS)
        whole = task_job(task, server, folder / "whole")
        assert whole.run().code == 0
        assert task_job(task, server, folder / "stopped").run("--max-calls", str(STOP)).code == 3
        yield Half(server, task, folder / "stopped", whole)


def copy_of(half: Half, out: Path) -> Job:
    """The stopped run at another place."""
    shutil.copytree(half.stopped, out)
    return task_job(half.task, half.server, out)


def continued(half: Half, job: Job, asked: int) -> Finished:
    """Run to the end; exactly `asked` requests arrive and the files are those of the whole run."""
    half.server.reset()
    finished = job.run()
    assert finished.code == 0, finished.err
    assert len(half.server.stats().requests) == asked
    assert job.samples() == half.whole.samples()
    assert job.results() == half.whole.results()
    return finished


def journal(job: Job, name: str) -> Path:
    """A file of the journal."""
    return job.folder / f"{name}.jsonl"


@pytest.mark.parametrize("name", ["calls", "records", "scores"])
def test_torn_last_line_is_cut(half: Half, tmp_path: Path, name: str) -> None:
    """Half a line at the end was never told to anyone: it is cut, and whole lines follow."""
    job = copy_of(half, tmp_path / "out")
    path = journal(job, name)
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rpartition(b"\n")[2]
    path.write_bytes(whole + last[: len(last) // 2])
    continued(half, job, DOCS - STOP)
    assert path.read_bytes().startswith(whole)
    assert len(job.lines(name)) == path.read_bytes().count(b"\n") - 1


@pytest.mark.parametrize("name", ["calls", "records", "scores"])
def test_torn_first_line_is_written_again(half: Half, tmp_path: Path, name: str) -> None:
    """A file that was killed before its first line was whole begins anew."""
    job = copy_of(half, tmp_path / "out")
    journal(job, name).write_bytes(b'{"type":"ass')
    continued(half, job, DOCS - STOP)


def damage(path: Path, mark: bytes) -> int:
    """Spoil the text that begins with the mark; returns where its line begins."""
    data = path.read_bytes()
    at = data.index(mark)
    path.write_bytes(data[:at] + b"\xff\x00" + data[at + 2 :])
    return data.rindex(b"\n", 0, at) + 1


@pytest.mark.parametrize(
    ("name", "mark"),
    [
        ("records", b": the answer is"),
        ("records", b'"end"'),
        ("scores", b'"metric"'),
        ("calls", b": the answer is"),
    ],
)
def test_a_changed_line_costs_its_case_and_nothing_else(half: Half, tmp_path: Path, name: str, mark: bytes) -> None:
    """The line is named, the damaged file is kept, and no reply that was logged is requested again."""
    job = copy_of(half, tmp_path / "out")
    path = journal(job, name)
    offset = damage(path, mark)
    number = path.read_bytes().count(b"\n", 0, offset) + 1
    damaged = path.read_bytes()
    finished = continued(half, job, DOCS - STOP)
    assert f"{name}.jsonl:{number}: the line at byte {offset} was changed" in finished.err
    assert [kept.read_bytes() for kept in (job.folder / "damaged").iterdir()] == [damaged]
    assert job.summary()["this_start"]["replayed"] == (1 if name == "records" else 0)


def whole_copy(half: Half, out: Path) -> Job:
    """The finished run at another place. Its result files are where the run wrote them."""
    shutil.copytree(half.whole.out, out)
    return task_job(half.task, half.server, out)


def cut_last_line(path: Path) -> None:
    """Remove the last line of a file."""
    content = path.read_bytes()
    path.write_bytes(content[: content.rindex(b"\n", 0, -1) + 1])


@pytest.mark.parametrize("names", [["records"], ["scores"], ["records", "scores"], ["records", "calls"]])
def test_lines_that_are_lost_at_the_end_of_a_finished_run_are_found(
    half: Half, tmp_path: Path, names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Every reader refuses the run. Its command asks again only what is not in the log of calls."""
    job = whole_copy(half, tmp_path / "out")
    for name in names:
        cut_last_line(journal(job, name))
    assert typed("runs", str(job.out)) == 0
    listed = capsys.readouterr()
    assert "damaged" in listed.out
    assert f"{names[0]}.jsonl: the file ends at byte" in listed.err
    for command in (["compare", str(half.whole.folder), str(job.folder)], ["show", str(job.folder)]):
        assert typed(*command) == 2
        assert ": lines are missing" in capsys.readouterr().err
    finished = continued(half, job, int("calls" in names))
    assert ": lines are missing" in finished.err
    assert typed("check", str(job.folder)) == 0


def test_check_names_every_problem_of_a_run_folder(
    half: Half, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Changed lines, a changed summary and a changed result file, each with its place; afterwards, nothing."""
    job = whole_copy(half, tmp_path / "out")
    assert typed("check", str(job.folder)) == 0
    assert f"fine: {4 * DOCS} lines of the journal intact, {DOCS} cases ended" in capsys.readouterr().out
    offset = damage(journal(job, "records"), b'"end"')
    damage(job.folder / "summary.json", b'"report"')
    assert typed("check", "--json", str(job.folder)) == 1
    (check,) = json.loads(capsys.readouterr().out)
    assert check["damaged"]
    places = [problem["where"] for problem in check["problems"]]
    assert places == [str(job.folder / "summary.json"), f"{journal(job, 'records')}:2"]
    assert f"the line at byte {offset} was changed" in check["problems"][1]["message"]
    assert check["command"][1] == "task"
    continued(half, job, 0)
    samples = job.file("samples_*.jsonl")
    samples.write_bytes(samples.read_bytes() + b"{}\n")
    assert typed("check", str(job.folder)) == 1
    assert f"{samples}: the file was changed after the run" in capsys.readouterr().out


@pytest.mark.parametrize("way", ["changed", "deleted"])
def test_a_run_that_lost_its_run_json_is_listed_and_gives_its_replies_to_another(
    half: Half, tmp_path: Path, capsys: pytest.CaptureFixture[str], way: str
) -> None:
    """The command is refused, because it would pay again. `--fresh --reuse RUN` pays nothing."""
    job = whole_copy(half, tmp_path / "out")
    folder = job.folder
    if way == "deleted":
        (folder / "run.json").unlink()
    else:
        damage(folder / "run.json", b'"model"')
    assert typed("runs", str(job.out)) == 0
    assert "damaged" in capsys.readouterr().out
    refused = job.run()
    assert refused.code == 2
    assert f"--fresh --reuse {folder}" in refused.err
    half.server.reset()
    again = job.run("--fresh", "--reuse", str(folder))
    assert again.code == 0, again.err
    assert not half.server.stats().requests


def test_a_file_of_another_run_is_refused_and_not_thrown_away(half: Half, tmp_path: Path) -> None:
    """Two files were mixed up, and the right one may exist. Without it the run goes on with the replies of the log."""
    job = copy_of(half, tmp_path / "out")
    shutil.copyfile(half.whole.folder / "records.jsonl", journal(job, "records"))
    refused = job.run()
    assert refused.code == 2
    assert "records.jsonl: the file belongs to another run" in refused.err
    journal(job, "records").unlink()
    finished = continued(half, job, DOCS - STOP)
    assert "records.jsonl: the file is missing" in finished.err


@pytest.mark.parametrize("command", ["show", "compare"])
def test_a_changed_line_is_not_shown(half: Half, tmp_path: Path, command: str) -> None:
    """`compare` refuses the run, `show` leaves the case out; both name the line."""
    shutil.copytree(half.whole.out, tmp_path / "out")
    job = task_job(half.task, half.server, tmp_path / "out")
    offset = damage(journal(job, "scores"), b'"metric"')
    words = {
        "show": ["show", str(job.folder), "0"],
        "compare": ["compare", str(half.whole.folder), str(job.folder)],
    }
    shown = Job(["-m", "assay", *words[command]], job.out).run()
    assert shown.code == 2
    assert f"scores.jsonl:2: the line at byte {offset} was changed" in shown.err


def test_a_run_of_another_format_is_refused(half: Half, tmp_path: Path) -> None:
    """The sentence names both formats; `--fresh` starts another run beside it."""
    job = copy_of(half, tmp_path / "out")
    info = job.folder / "run.json"
    without_checksum = info.read_text().rpartition(",\n")[0] + "\n}\n"
    info.write_text(without_checksum.replace('"schema": 3', '"schema": 2'))
    refused = job.run()
    assert refused.code == 2
    assert "was written in format 2; this version of assay reads and writes format 3" in refused.err
    assert job.run("--fresh").code == 0
    listed = Job(["-m", "assay", "runs", str(job.out)], job.out).run()
    assert (listed.code, listed.out.count("finished")) == (0, 1)
    assert f"{info}: the run was written in format 2" in listed.err


def test_run_with_an_empty_journal_is_listed_and_continues(half: Half, tmp_path: Path) -> None:
    """A run that was killed before the journal's first line is shown as unfinished, and starts."""
    with task_job(half.task, half.server, tmp_path / "out").started() as started:
        job = started.job
        started.wait_for(lambda: any(job.out.glob("assay/[!.]*/run.json")))
        started.kill()
    assert {path.name for path in job.folder.glob("*.jsonl")} == {
        "calls.jsonl",
        "records.jsonl",
        "scores.jsonl",
    }
    for path in job.folder.glob("*.jsonl"):
        path.write_bytes(b"")
    for command in (["runs", str(job.out)], ["show", str(job.out)]):
        shown = Job(["-m", "assay", *command], job.out).run()
        assert shown.code == 0, shown.err
    continued(half, job, DOCS)
