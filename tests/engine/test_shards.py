"""`--shard 3/16`: one of several starts that share the rows of a run, each in an output folder of its own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import assay
from assay.core.errors import UsageError
from assay.core.shard import Shard
from assay.journal.run_files import read_info

from support.commands import run_here
from support.damaged_runs import SMALL_RUNS, SmallRun, read_cases, without_clock
from support.shards import SHARDABLE, make_files, small_run

SPARSE = """
from assay import CaseContent, Entry, ListedRows, Outcome, Report, Suite, SuiteOptions

class Options(SuiteOptions, frozen=True, kw_only=True):
    pass

class Solver:
    async def solve(self, inputs, ctx):
        ctx.emit("answer", data=inputs)

    async def close(self):
        pass

class Sparse(Suite):
    name = "sparse"
    Options = Options

    def __init__(self, spec):
        super().__init__(spec)
        self.roles, self.solver = {}, Solver()

    def ask_identity(self):
        return {}

    def rows(self, facts=None):
        return ListedRows([0, 1, 2, 3, 4], key=str, set="numbers")

    def subjects(self):
        return ["a", "b"]

    def has(self, row, subject):
        return row.data % 2 == 1 or subject == "a"

    def total(self, rows):
        return 7

    def case(self, row, subject):
        return CaseContent(row.data)

    def finish(self, results, run):
        return Outcome(Report(entries=[Entry(name=subject, subject=subject) for subject in self.subjects()]))
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("small", SHARDABLE, ids=lambda small: small.suite)
def test_the_cases_of_all_shards_are_those_of_the_whole_run(small: SmallRun, here: Path) -> None:
    """Each case is in one shard, with the index, the answer and the scores that it has in the whole run."""
    make_files(small, here)
    whole = small.start(output_dir="whole")
    shards = [small.start(output_dir=f"shard{number}", shard=f"{number}/3") for number in (1, 2, 3)]
    cases: dict[int, object] = {}
    for shard in shards:
        own = read_cases(shard.folder)
        assert cases.keys().isdisjoint(own)
        cases |= own
        assert shard.summary.state == "finished"
        assert (shard.info.ask, shard.summary.score) == (whole.info.ask, whole.summary.score)
        assert len(own) == shard.info.total == shard.summary.total == shard.summary.ok
    assert without_clock(cases) == without_clock(read_cases(whole.folder))


@pytest.mark.parametrize("small", SHARDABLE, ids=lambda small: small.suite)
def test_the_report_of_a_shard_says_which_part_it_is(small: SmallRun, here: Path) -> None:
    """So do run.json and a second start, which finds the shard finished."""
    make_files(small, here)
    first = small.start(shard="2/2")
    total = len(read_cases(first.folder))
    assert first.report is not None
    notice = first.report.notices[0]
    assert notice.startswith(f"shard 2 of 2: {total} of ")
    assert "`assay merge` makes one run of all shards" in notice
    assert json.loads((first.folder / "run.json").read_text())["shard"] == {"number": 2, "count": 2}
    second = small.start(shard="2/2")
    assert (second.folder, second.asked) == (first.folder, False)


def test_settings_of_a_memory_share_replies_in_a_shard(here: Path) -> None:
    """Both settings of a conversation are in one shard, so the shards pay what the whole run pays."""
    small = small_run("memory-test")
    make_files(small, here)
    memory = ["GAMemory,k=1", "GAMemory,k=2"]
    whole = small.start(output_dir="whole", memory=memory)
    shards = [small.start(output_dir=f"{number}", shard=f"{number}/3", memory=memory) for number in (1, 2, 3)]
    assert sum(shard.summary.spent.calls for shard in shards) == whole.summary.spent.calls > 0


def test_the_files_of_a_shard_have_its_rows_only(here: Path) -> None:
    """Rows of other shards are not in them, not even as rows without a result."""
    for suite, pattern in (("hop", "out/rows_*.jsonl"), ("pipeline", "out/p/results.jsonl")):
        small = small_run(suite)
        make_files(small, here)
        run = small.start(shard="2/3", fresh=True)
        (path,) = Path().glob(pattern)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert len([line for line in lines if "_type" not in line]) == run.info.total == 2
        assert run.report is not None
        assert run.report.entries[0].metrics[0].denominator == 2
        shutil.rmtree("out")


def test_a_shard_of_a_memory_evaluation_is_judged_later_as_a_shard(here: Path) -> None:
    """`--eval-only` names no shard: run.json says which samples there are."""
    small = small_run("memory-eval")
    make_files(small, here)
    values = {"dataset": "data", "baseline": ["bm25"], "model": "python/model.py:answer", "shard": "2/2"}
    fed = assay.run(assay.spec("memory-eval", **values, no_judge=True, output_dir="out"))
    judged = assay.run(assay.spec("memory-eval", eval_only=True, judge="offline", output_dir="out"))
    assert (judged.folder, judged.exit_code, judged.summary.total) == (fed.folder, 0, 1)
    assert judged.report is not None
    assert judged.report.notices[0].startswith("shard 2 of 2: 1 of 2 cases")


def test_a_shard_that_was_stopped_is_continued(here: Path) -> None:
    """Only its own cases are asked."""
    task = small_run("task")
    make_files(task, here)
    stopped = task.start(shard="1/2", max_calls=3)
    assert (stopped.exit_code, stopped.summary.state) == (3, "stopped")
    done = task.start(shard="1/2")
    assert (done.folder, done.exit_code) == (stopped.folder, 0)
    assert done.summary.spent.calls == 4 * 2  # four of eight documents, two repeats each


def test_a_shard_without_rows_is_a_success_that_says_so(here: Path) -> None:
    """There may be more jobs than rows. Such a shard writes no result files."""
    task = small_run("task")
    make_files(task, here)
    command = ["task", "t.yaml", "--model", "python/model.py:echo", "--output-dir", "out", "--shard", "9/9"]
    done = run_here(command, here)
    assert done.returncode == 0
    assert "shard 9 of 9: 0 of 8 cases" in done.stderr
    assert "this one has nothing to do, and is complete" in done.stderr
    assert [path.name for path in Path("out").iterdir()] == ["assay"]


def test_a_task_without_documents_in_a_shard_has_no_score(here: Path) -> None:
    """The tasks beside it have theirs, and not measured is not 0."""
    task = small_run("task")
    make_files(task, here)
    text = Path("t.yaml").read_text().replace("docs.jsonl", "one.jsonl").replace("task: t", "task: u")
    Path("u.yaml").write_text(text)
    Path("one.jsonl").write_text('{"q": "only", "a": "only"}\n')
    run = task.start(tasks=["u.yaml", "t.yaml"], shard="2/2")
    assert run.exit_code == 0
    assert run.report is not None
    entries = {entry.name: entry.metrics[0] for entry in run.report.entries}
    assert (entries["u"].value, entries["u"].denominator) == (None, 0)
    assert entries["t"].denominator == 4


def test_two_shards_do_not_share_an_output_folder(here: Path) -> None:
    """Nor do a shard and the whole run: one would be taken for the other, and look finished."""
    task = small_run("task")
    make_files(task, here)
    run = task.start(output_dir="one", shard="1/2").folder
    with pytest.raises(UsageError, match=f"one has shard 1/2 of this run: {run}. Each shard needs an output folder"):
        task.start(output_dir="one", shard="2/2")
    with pytest.raises(UsageError, match="shard 1/2 of this run: .* such as one/shard-1"):
        task.start(output_dir="one", shard="1/4", fresh=True)
    with pytest.raises(UsageError, match="one has shard 1/2 of this run, not the whole run: .* Pass --shard 1/2"):
        task.start(output_dir="one")
    whole = task.start(output_dir="all").folder
    with pytest.raises(UsageError, match=f"all has the whole run: {whole}. A shard needs an output folder"):
        task.start(output_dir="all", shard="1/2")
    assert len(list(Path("one/assay").iterdir())) == len(list(Path("all/assay").iterdir())) == 1


def test_lists_comparisons_and_gates_say_that_a_run_is_a_shard(here: Path) -> None:
    """A gate decides about the whole run only, unless cases may be missing."""
    task = small_run("task")
    make_files(task, here)
    task.start(output_dir="whole")
    task.start(output_dir="part", shard="1/2")
    assert "shard=1/2" in run_here(["runs", "part"], here).stdout
    assert "is shard 1/2 of its run, not the whole run" in run_here(["compare", "whole", "part"], here).stdout
    gate = ["gate", "part", "--require", "exact_match >= 0.2"]
    undecided = run_here(gate, here)
    assert undecided.returncode == 4
    assert "is shard 1/2 of its run, not the whole run. Decide about the merged run" in undecided.stdout.replace(
        "\n", " "
    )
    assert run_here([*gate, "--allow-missing"], here).returncode == 0


def test_a_shard_is_scored_again_as_a_shard(here: Path) -> None:
    """`assay rescore` reads from run.json which rows there are."""
    task = small_run("task")
    make_files(task, here)
    run = task.start(shard="2/2")
    path = here / "t.yaml"
    path.write_text(path.read_text().replace("- metric: exact_match", "- metric: exact_match\n  ignore_case: true"))
    done = run_here(["rescore", "out"], here)
    assert done.returncode == 0, done.stderr
    assert "shard 2 of 2: 4 of 8 cases" in done.stderr
    assert read_info(run.folder).shard == Shard(2, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3", "--shard 3: expected I/N, such as 3/16 for the third of 16 shards"),
        ("a/b", "expected I/N"),
        (
            "0/4",
            "I is a number from 1 to N; the first shard is 1/4. A Slurm array with --array=1-4 begins at 1",
        ),
        ("5/4", "I is a number from 1 to N"),
        ("0/0", "a run has at least one shard"),
        ("-1/4", "expected I/N"),
    ],
)
def test_a_shard_that_cannot_be_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        Shard.parse(text)
    assert message in str(raised.value)


def test_suites_whose_rows_belong_together_refuse_shards(here: Path) -> None:
    """A calibration is one number, and --eval-only reads files that one folder has."""
    calibration = small_run("calibration")
    make_files(calibration, here)
    with pytest.raises(UsageError, match="a calibration is one number over all labels; remove --shard"):
        calibration.start(shard="1/2")
    with pytest.raises(UsageError, match="--eval-only judges the files in --output-dir. Remove --shard"):
        assay.run(assay.spec("memory-eval", eval_only=True, shard="1/2", output_dir="out", judge="offline"))


def test_the_plan_of_a_shard_names_its_part(here: Path) -> None:
    """`--dry-run` counts the calls of all shards, and says so."""
    make_files(small_run("task"), here)
    command = ["task", "t.yaml", "--model", "python/model.py:echo", "--shard", "3/3", "--dry-run"]
    done = run_here(command, here)
    assert done.returncode == 0
    assert "shard 3 of 3: 2 of 8 cases; the numbers are those of all" in done.stdout


def test_pairs_that_a_suite_leaves_out_are_in_no_shard(here: Path) -> None:
    """Of five rows, every second one is for one of the two subjects only."""
    (here / "suite.py").write_text(SPARSE)
    suite = f"{here / 'suite.py'}:Sparse"
    totals = [assay.run(assay.spec(suite, output_dir=f"{n}", shard=f"{n}/2")).summary.total for n in (1, 2)]
    assert totals == [3, 4]
    assert assay.merge(["1", "2"], "merged", code=["suite.py"]).summary.total == 7


def test_every_suite_is_tried() -> None:
    assert {small.suite for small in SMALL_RUNS} - {small.suite for small in SHARDABLE} == {"calibration"}
