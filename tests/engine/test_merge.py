"""`assay merge`: one run of the shards of a run, with the report and the files that the whole run would have."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import assay
from assay.core.errors import DamagedRun, UsageError
from assay.journal.run_files import read_info, read_summary, write_info, write_summary
from assay.store.check import check_run
from assay.store.open_run import OpenRun
from assay.store.runs import find_run

from servers.fake_openai import FakeOpenAI
from servers.loopback import LoopbackServer
from support.commands import environment, run_here
from support.damaged_runs import SmallRun, read_cases, read_files, read_report, same
from support.example_runs import EXAMPLES, run_example
from support.killed_runs import reading_of
from support.shards import KILLED_MERGES, SHARDABLE, make_files, make_shards, small_run

ROOT = Path(__file__).parents[2]
# A merge of two small shards has some seventy steps.
STRIDE = os.environ.get("MERGE_STRIDE", "10")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as running:
        yield running


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_in_three_shards_are_as_in_one_run(example: str, tmp_path: Path, server: FakeOpenAI) -> None:
    """Report, cases and result files are those of a local run but for times; so are calls, tokens and exit codes."""

    def run(out: str, *flags: str) -> assay.Run:
        return run_example(example, tmp_path / out, server, *flags)

    local = run("local")
    for number in (1, 2, 3):
        run(f"shards/{number}", "--shard", f"{number}/3")
    server.reset()
    words = ["merge", *_shards(tmp_path), "--output-dir", str(tmp_path / "merged"), "--code", "examples"]
    merged = run_here(words, ROOT)
    assert merged.returncode == local.exit_code, merged.stderr
    assert not server.stats().requests
    with chdir(ROOT):
        found = assay.load(tmp_path / "merged")
        for name, value, expected in zip(
            ("report", "files", "cases"), reading_of(found), reading_of(local), strict=True
        ):
            same(value, expected, name)
        assert len(found.files) == len(local.files) > 0
        assert found.summary.spent == local.summary.spent
        assert check_run(found.folder).problems == []
        assert len(_observed(tmp_path / "merged")) == len(_observed(tmp_path / "local"))
    repeated = run("merged")
    assert (repeated.folder, repeated.exit_code) == (found.folder, local.exit_code)
    assert not server.stats().requests, "the command of the whole run finds the merged run finished"


@pytest.mark.parametrize("small", SHARDABLE, ids=lambda small: small.suite)
def test_a_merged_run_is_found_by_the_command_of_the_whole_run(small: SmallRun, here: Path) -> None:
    """For an evaluation from Python this writes the report, because only the program has the scorers."""
    make_files(small, here)
    whole = small.start(output_dir="whole")
    merged = assay.merge(make_shards(small, 3), "merged", code=["."])
    if small.suite == "evaluate":
        assert (merged.exit_code, merged.report) == (3, None)
        assert "again with output_dir='merged' and without shard" in merged.reason
        merged = small.start(output_dir="merged")
        assert merged.summary.this_start["paid"] == 0
    again = small.start(output_dir="merged")
    assert (again.folder, again.asked, again.exit_code) == (merged.folder, False, whole.exit_code)
    same(read_report(again), read_report(whole))
    same(read_files(again), read_files(whole))
    same(read_cases(again.folder), read_cases(whole.folder))
    assert read_info(again.folder).total == whole.info.total


def test_more_shards_than_rows_merge(here: Path) -> None:
    """The empty ones have a place in the order, and no line."""
    task = small_run("task")
    make_files(task, here)
    whole = task.start(output_dir="whole")
    merged = assay.merge(make_shards(task, 11), "merged")
    assert (merged.exit_code, merged.summary.total) == (0, 8)
    same(read_files(merged), read_files(whole))


def test_the_same_merge_again_shows_the_run(here: Path) -> None:
    """In any order of shards, and if one folder has all of them."""
    task = small_run("task")
    make_files(task, here)
    shards = make_shards(task, 2)
    first = assay.merge(shards, "merged")
    second = assay.merge(list(reversed(shards)), "merged")
    assert (second.folder, second.asked) == (first.folder, False)
    inside = assay.merge(["shards"], "shards")
    again = assay.merge(["shards"], "shards")
    assert (again.folder, again.asked) == (inside.folder, False), "the merged run is not taken for a shard"


def test_missing_and_double_shards_are_named_together(here: Path) -> None:
    """With what to run."""
    task = small_run("task")
    make_files(task, here)
    shards = make_shards(task, 4)
    shutil.copytree("shards/3", "copy")
    with pytest.raises(UsageError) as raised:
        assay.merge([shards[0], shards[2], "copy"], "merged")
    double, missing = str(raised.value).splitlines()
    assert double.startswith("shard 3/4 is there twice: shards/3/assay/")
    assert double.endswith(". Pass one of them")
    assert missing.startswith("shards 2,4 of 4 are missing. Run the command of the others with --shard 2/4 and an")
    assert missing.endswith("sbatch --array=2,4")
    assert not Path("merged").exists()


def test_a_shard_that_is_not_complete_is_named_with_what_remains(here: Path) -> None:
    task = small_run("task")
    make_files(task, here)
    words = [
        "task",
        "t.yaml",
        "--model",
        "python/model.py:echo",
        "--output-dir",
        "shards/2",
        "--shard",
        "2/2",
    ]
    assert run_here([*words, "--max-calls", "3"], here).returncode == 3
    task.start(output_dir="shards/1", shard="1/2")
    done = run_here(["merge", "shards/1", "shards/2", "--output-dir", "merged"], here)
    assert done.returncode == 2
    assert "shard 2/2 (shards/2/assay/" in done.stderr
    assert "is not complete (stopped): 3 of 4 cases remain. Continue it with: assay task t.yaml" in done.stderr
    assert not Path("merged").exists()


def test_a_shard_whose_summary_counts_too_few_cases_is_not_complete(here: Path) -> None:
    """Whatever its state is."""
    task = small_run("task")
    make_files(task, here)
    one, two = make_shards(task, 2)
    summary = read_summary(find_run(two))
    assert summary is not None
    write_summary(find_run(two), replace(summary, ok=3))
    with pytest.raises(UsageError, match=r"shard 2/2 .* is not complete \(finished\): 1 of 4 cases remain"):
        assay.merge([one, two], "merged")


def test_shards_of_other_runs_and_whole_runs_are_refused(here: Path) -> None:
    """What differs is named."""
    task = small_run("task")
    make_files(task, here)
    one, two = make_shards(task, 2)
    task.start(output_dir="limited", shard="2/2", limit=4)
    with pytest.raises(UsageError, match=r"limited.* are not shards of one run: they differ in limit"):
        assay.merge([one, "limited"], "merged")
    task.start(output_dir="third", shard="3/3")
    with pytest.raises(UsageError, match=r"is shard 3/3, .* is shard 1/2: they divide the rows otherwise"):
        assay.merge([one, "third"], "merged")
    task.start(output_dir="whole")
    with pytest.raises(UsageError, match=r"whole/assay/\S+ is a whole run, not a shard"):
        assay.merge([one, "whole"], "merged")
    info = read_info(find_run(two))
    info.version = "0.0.9"
    write_info(find_run(two), info)
    with pytest.raises(UsageError, match=r"was made by assay 0\.0\.9, .* by assay"):
        assay.merge([one, two], "merged")
    assert not Path("merged").exists()


def test_shards_that_were_scored_otherwise_are_refused(here: Path) -> None:
    """One number is not made of two rules."""
    task = small_run("task")
    make_files(task, here)
    one, two = make_shards(task, 2)
    path = here / "t.yaml"
    path.write_text(path.read_text().replace("metric: exact_match", "metric: exact_match\n  ignore_case: true"))
    assert task.start(output_dir=two, shard="2/2").exit_code == 0
    with pytest.raises(UsageError, match=r"shard 2/2 .* was scored with other settings than shard 1/2"):
        assay.merge([one, two], "merged")
    assert task.start(output_dir=one, shard="1/2").exit_code == 0
    assert assay.merge([one, two], "merged").exit_code == 0


def test_a_judge_need_not_be_there(here: Path) -> None:
    """Its verdicts are in the shards. The command of the run, which has the judge, finds the merged run finished."""
    small = small_run("memory-eval")
    make_files(small, here)
    (here / "judge.py").write_text('def judge(messages, params):\n    return \'{"reason": "r", "label": "Correct"}\'\n')
    judge = {"judge": "python/judge.py:judge"}
    for number in (1, 2):
        small.start(output_dir=f"shards/{number}", shard=f"{number}/2", **judge)
    merged = assay.merge(["shards"], "merged")
    assert merged.summary.state == "finished", merged.reason
    again = small.start(output_dir="merged", **judge)
    assert (again.folder, again.asked) == (merged.folder, False)


def test_shards_judged_by_another_judge_than_they_began_with_are_left_to_the_command(here: Path) -> None:
    """The settings of the judge are those of a later command, which finishes the merged run without a request."""
    small = small_run("memory-eval")
    make_files(small, here)
    values: dict[str, Any] = {"dataset": "data", "baseline": ["bm25"], "model": "python/model.py:answer"}
    for number in (1, 2):
        for judged in ({"no_judge": True}, {"judge": "offline"}):
            options = {**values, **judged, "output_dir": f"shards/{number}", "shard": f"{number}/2"}
            assert assay.run(assay.spec("memory-eval", **options)).exit_code == 0
    merged = assay.merge(["shards/1", "shards/2"], "merged")
    assert (merged.exit_code, merged.report) == (3, None)
    assert "scored with other settings than those that they began with" in merged.reason
    done = assay.run(assay.spec("memory-eval", **values, judge="offline", output_dir="merged"))
    assert (done.folder, done.exit_code, done.summary.this_start["paid"]) == (merged.folder, 0, 0)


def test_a_file_that_changed_between_shards_is_named(here: Path) -> None:
    """The code reads it itself, so no fingerprint covers it."""
    hop = small_run("hop")
    make_files(hop, here)
    text = (here / "function.py").read_text().replace('f"say {n}"', 'Path("note.txt").read_text() + str(n)')
    text = f"from pathlib import Path\n{text}"
    (here / "function.py").write_text(text)
    shards = []
    for number, note in ((1, "say "), (2, "tell ")):
        (here / "note.txt").write_text(note)
        shards.append(str(hop.start(output_dir=f"shards/{number}", shard=f"{number}/2").folder))
    with pytest.raises(UsageError, match=r"note\.txt, which the code of the run reads, was not the same in shard 1/2"):
        assay.merge(shards, "merged")


def test_data_that_changed_since_is_named_before_a_line_is_copied(here: Path) -> None:
    task = small_run("task")
    make_files(task, here)
    shards = make_shards(task, 2)
    (here / "docs.jsonl").write_text((here / "docs.jsonl").read_text().replace("q1", "q01"))
    with pytest.raises(UsageError, match="asked something else than their command asks now: .* changed since"):
        assay.merge(shards, "merged")
    assert not Path("merged").exists()


def test_an_output_folder_with_this_run_is_refused(here: Path) -> None:
    """Also that of a merge before a shard was continued."""
    task = small_run("task")
    make_files(task, here)
    shards = make_shards(task, 2)
    task.start(output_dir="whole")
    for taken in ("whole", "shards/1"):
        with pytest.raises(UsageError, match=f"{taken} already has this run: .* Choose another --output-dir"):
            assay.merge(shards, taken)
    assay.merge(shards, "merged")
    path = here / "t.yaml"
    path.write_text(path.read_text().replace("metric: exact_match", "metric: exact_match\n  ignore_case: true"))
    for number in (1, 2):
        task.start(output_dir=f"shards/{number}", shard=f"{number}/2")
    with pytest.raises(UsageError, match="was merged from these shards before one of them was continued"):
        assay.merge(shards, "merged")


@pytest.mark.parametrize("file", ["calls.jsonl", "records.jsonl", "scores.jsonl", "summary.json", "run.json"])
def test_damage_of_a_shard_is_found(file: str, here: Path) -> None:
    """A changed character and a lost end. Nothing is left in the output folder that looks like a run."""
    task = small_run("task")
    make_files(task, here)
    shards = make_shards(task, 2)
    path = find_run(shards[1]) / file
    content = path.read_bytes()
    for damaged in (content[:-40] + bytes([content[-40] ^ 1]) + content[-39:], content[:-1]):
        path.write_bytes(damaged)
        with pytest.raises(DamagedRun, match=f"2/assay/.*{file}"):
            assay.merge(shards, "merged")
        assert not list(Path("merged").glob("assay/*"))
    path.write_bytes(content)
    assert assay.merge(shards, "merged").exit_code == 0


def test_cases_without_an_answer_are_asked_again_in_the_merged_run(here: Path) -> None:
    """By the command that `assay merge` prints. Everything else is there."""
    down = {"q3", "q4"}

    def reply(body: dict[str, Any]) -> tuple[int, Any]:
        prompt = body["messages"][-1]["content"]
        if prompt in down:
            return 500, {"error": {"message": "down"}}
        return 200, {"choices": [{"index": 0, "message": {"role": "assistant", "content": prompt}}]}

    make_files(small_run("task"), here)
    with LoopbackServer(reply) as endpoint:
        words = ["task", "t.yaml", "--model", "openai/fake", "--base-url", endpoint.url, "--max-retries", "0"]
        for number in (1, 2):
            flags = ["--output-dir", f"shards/{number}", f"--shard={number}/2", "--quiet"]
            assert run_here([*words, *flags], here).returncode == 3
        merged = run_here(["merge", "shards/1", "shards/2", "--output-dir", "merged"], here)
        assert merged.returncode == 3
        assert "2 cases got no answer; they will be run again." in merged.stderr
        last = shlex_words(merged.stderr)
        assert last == ["assay", *words, "--quiet", "--output-dir", "merged"]
        down.clear()
        asked = len(endpoint.bodies)
        assert run_here(last[1:], here).returncode == 0
        assert len(endpoint.bodies) - asked == 2 * 2  # two documents, two repeats each
    run = assay.load("merged")
    assert (run.summary.state, run.summary.ok) == ("finished", 8)
    again = run_here(["rerun", "merged", "--failed"], here)
    assert (again.returncode, "nothing failed" in again.stdout + again.stderr) == (0, True)


def shlex_words(text: str) -> list[str]:
    """The command at the end of a message."""
    return text.strip().rpartition("Continue with: ")[2].split()


def test_other_commands_read_a_merged_run(here: Path) -> None:
    """show, runs, compare, gate, sql, check, rescore, export, report: as for any run."""
    task = small_run("task")
    make_files(task, here)
    task.start(output_dir="whole")
    assay.merge(make_shards(task, 3), "merged")

    def out(*words: str) -> str:
        done = run_here(words, here)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "exact_match" in out("show", "merged")
    assert "q5" in out("show", "merged", "5")
    assert "finished" in out("runs", "merged")
    compared = json.loads(out("compare", "whole", "merged", "--json"))
    (pair,) = compared["comparisons"]
    assert (pair["paired"], [row["difference"] for row in pair["rows"]]) == (8, [0.0])
    out("gate", "merged", "--require", "exact_match >= 0.2")
    query = "select count(*) as n, count(distinct index) as cases from cases"
    count = out("sql", query, "merged", "--format", "json")
    assert json.loads(count) == [{"n": 8, "cases": 8}]
    out("check", "merged")
    assert "regraded: nothing" in out("rescore", "merged")
    out("export", "merged", "--to", "lm-eval", "--output", "exported")
    out("report", "merged", "-o", "report.html")
    opened = OpenRun(find_run("merged"))
    assert (opened.progress().done, opened.progress().total) == (8, 8)


def test_a_killed_merge_looks_never_finished_and_is_repeated(here: Path) -> None:
    """Kill -9 before files are opened, renamed or removed; MERGE_STRIDE=1 tries it before each of them."""
    small = small_run("pipeline")
    make_files(small, here)
    whole = small.start(output_dir="whole")
    make_shards(small, 2)
    env = environment()
    env["PYTHONPATH"] += f":{ROOT / 'tests'}"
    done = subprocess.run(
        [sys.executable, KILLED_MERGES, STRIDE],
        env=env,
        cwd=here,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1]) >= 50 // int(STRIDE)
    run = assay.load("merged")
    same(read_report(run), read_report(whole))
    same(read_files(run), read_files(whole))


def _observed(folder: Path) -> list[str]:
    """The lines of hop's own log."""
    path = folder / "observer.jsonl"
    return path.read_text().splitlines() if path.exists() else []


def _shards(folder: Path) -> list[str]:
    return [str(path) for path in sorted((folder / "shards").iterdir())]
