"""`assay rescore`: other filters, metrics and targets for the replies of a finished run, and not one request."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import DOCS, Assay, write_docs
from servers.echoing import EchoServer
from servers.fake_openai import FakeOpenAI
from servers.loopback import LoopbackServer, chat
from support.commands import environment, task_job
from support.stored import typed
from support.tasks import FILTERS, write_task

Change = Callable[[str], str]
FILTER = """\
filter_list:
  - name: digit
    filter:
      - {function: regex, regex_pattern: "([0-9]+)"}
      - {function: take_first}
metadata:"""


def answer(body: dict[str, Any]) -> tuple[int, Any]:
    """The sum, with a word before it: right only for those who read the digit."""
    question = str(body["messages"][-1]["content"])
    return 200, chat(f"It is {2 * int(question[3])}")


def asked(server: LoopbackServer, *task: str, out: str) -> list[str]:
    """The command that asks this server."""
    model = [
        "--model",
        "local-chat-completions",
        "--model_args",
        f"model=m,base_url={server.url}/chat/completions",
    ]
    return ["task", *(task or ("sums.yaml",)), *model, "--output-path", out]


@pytest.fixture
def answered(sums: Path, assay_in: Assay, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished run whose endpoint is gone, without a key in the environment."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with LoopbackServer(answer) as server:
        done = assay_in(*asked(server, out="out"))
    assert done.returncode == 0, done.stderr
    assert "0/6" in done.stdout
    return sums


def edit(path: Path, old: str, new: str) -> None:
    """One text in place of another."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def files(out: Path) -> dict[str, Any]:
    """What the final files say, without the times in their names and in them."""
    found: dict[str, Any] = {}
    for path in out.glob("m/*"):
        name = re.sub(r"_20\d\d-[^.]*", "", path.name)
        if name.startswith("samples_"):
            found[name] = path.read_bytes()
            continue
        value = json.loads(path.read_text())
        for key in ("date", "total_evaluation_time_seconds", "config"):
            del value[key]
        for config in value["configs"].values():
            del config["metadata"]["base_url"]
        found[name] = value
    return found


CHANGES: dict[str, tuple[str, str, str]] = {
    "a filter": ("metadata:", FILTER, "sums +digit +exact_match +1.0000"),
    "a metric": ("ignore_case: true", 'regexes_to_ignore: ["It is "]', "sums +none +exact_match +1.0000"),
    "a target": ('"{{answer}}"', '"It is {{answer}}"', "sums +none +exact_match +1.0000"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_scoring_needs_no_request(name: str, answered: Path, assay_in: Assay) -> None:
    """Files are those of a fresh run with the changed task; what is reused and regraded is said first."""
    old, new, row = CHANGES[name]
    edit(answered / "sums.yaml", old, new)
    done = assay_in("rescore", "out")
    assert done.returncode == 0, done.stderr
    first, second, *rest = done.stdout.splitlines()
    assert re.fullmatch(r"reused: the replies of 6 cases in out/assay/\S+; no requests sent", first)
    assert re.fullmatch(r"regraded: 6 cases by task@(\w+) \(before: task@(?!\1)\w+\)", second)
    assert re.search(row, "\n".join(rest))
    assert re.search("6 calls .* 0 of them now", done.stdout)
    with LoopbackServer(answer) as server:
        assert assay_in(*asked(server, out="fresh")).returncode == 0
    assert files(answered / "out") == files(answered / "fresh")


def test_a_second_time_there_is_nothing_to_regrade(answered: Path, assay_in: Assay) -> None:
    """The scores of these filters and metrics are there: nothing is written."""
    edit(answered / "sums.yaml", "metadata:", FILTER)
    assay_in("rescore", "out")
    before = {path: path.stat().st_mtime_ns for path in (answered / "out").rglob("*") if path.is_file()}
    again = assay_in("rescore", "out")
    assert again.returncode == 0
    assert "regraded: nothing" in again.stdout
    assert "no requests sent" in again.stdout
    assert before == {path: path.stat().st_mtime_ns for path in (answered / "out").rglob("*") if path.is_file()}


def test_another_file_takes_the_place_of_the_task_of_its_name(answered: Path, assay_in: Assay) -> None:
    """--task leaves the run's own file alone; without it the run is graded as before."""
    shutil.copy(answered / "sums.yaml", answered / "strict.yaml")
    edit(answered / "strict.yaml", "metadata:", FILTER)
    before = files(answered / "out")
    done = assay_in("rescore", "out", "--task", "strict.yaml")
    assert re.search("sums +digit +exact_match +1.0000", done.stdout), done.stderr
    with LoopbackServer(answer) as server:
        assay_in(*asked(server, "strict.yaml", out="fresh"))
    assert files(answered / "out") == files(answered / "fresh")
    back = assay_in("rescore", "out")
    assert re.search("sums +none +exact_match +0.0000", back.stdout), back.stderr
    assert files(answered / "out") == before


OTHER = {
    "the prompt": ("Q: {{question}}", "Question: {{question}}", "sums.doc_to_text"),
    "a parameter": ("max_gen_toks: 8", "max_gen_toks: 9", "sums.generation_kwargs.max_gen_toks"),
    "the examples": ("num_fewshot: 0", "num_fewshot: 1", "sums.num_fewshot"),
    "repeats": ("num_fewshot: 0", "num_fewshot: 0\nrepeats: 2", "sums.repeats"),
    "the data": ("sums.jsonl", "more.jsonl", "sums.data"),
}


@pytest.mark.parametrize("name", OTHER)
def test_a_change_that_would_change_requests_is_refused(name: str, answered: Path, assay_in: Assay) -> None:
    """The keys that differ are named, and nothing is written."""
    old, new, key = OTHER[name]
    write_docs(answered / "more.jsonl", DOCS[:5])
    edit(answered / "sums.yaml", old, new)
    before = {path: path.read_bytes() for path in (answered / "out").rglob("*") if path.is_file()}
    done = assay_in("rescore", "out")
    assert done.returncode == 2
    assert "changes what is asked" in done.stderr
    assert key in done.stderr
    assert done.stdout == ""
    assert before == {path: path.read_bytes() for path in (answered / "out").rglob("*") if path.is_file()}


def test_changed_data_is_another_question(answered: Path, assay_in: Assay) -> None:
    """The same file with other documents."""
    write_docs(answered / "sums.jsonl", [*DOCS[:5], {"question": "9+9?", "answer": "18"}])
    done = assay_in("rescore", "out")
    assert done.returncode == 2
    assert "sums.data" in done.stderr


def test_a_file_of_another_task_is_refused(answered: Path, assay_in: Assay) -> None:
    """--task replaces by name."""
    shutil.copy(answered / "sums.yaml", answered / "other.yaml")
    edit(answered / "other.yaml", "task: sums", "task: products")
    done = assay_in("rescore", "out", "--task", "other.yaml")
    assert done.returncode == 2
    assert "other.yaml is not a task of this run; the run has sums" in done.stderr
    assert assay_in("rescore", "out", "--task", "gone.yaml").returncode == 2


def test_a_bad_filter_is_told_before_anything_changes(answered: Path, assay_in: Assay) -> None:
    """The place, and the scores stay as they were."""
    edit(answered / "sums.yaml", "metadata:", FILTER.replace("([0-9]+)", "(["))
    before = files(answered / "out")
    done = assay_in("rescore", "out")
    assert done.returncode == 2
    assert "sums.yaml:19 filter_list.0.filter.0" in done.stderr
    assert files(answered / "out") == before


def test_from_another_folder_it_says_where_to_go(answered: Path, assay_in: Assay, tmp_path: Path) -> None:
    """A relative task file is relative to where the run was started; --task names it from anywhere."""
    edit(answered / "sums.yaml", "metadata:", FILTER)
    away = tmp_path / "away"
    away.mkdir()
    done = assay_in("rescore", "../out", cwd=away)
    assert done.returncode == 2
    assert "there is no 'sums.yaml' in the current folder" in done.stderr
    assert f"the run was started in another folder. Change to {answered} " in done.stderr
    assert "--task" in done.stderr
    done = assay_in("rescore", "../out", "--task", "../sums.yaml", cwd=away)
    assert done.returncode == 0, done.stderr
    assert re.search("sums +digit +exact_match +1.0000", done.stdout)


def test_a_hop_run_is_scored_again_only_in_its_own_folder_and_says_which(assay_in: Assay, tmp_path: Path) -> None:
    """The same holds for every suite whose files are named relative to the folder."""
    hoplet = tmp_path / "Tasks" / "Sums" / "Hoplet"
    away = tmp_path / "away"
    hoplet.mkdir(parents=True)
    away.mkdir()
    (hoplet / "Hop.py").write_text("def hop(n):\n    return {'n': n}\n")
    (hoplet / "contract.yaml").write_text("function: hop\ninputs: {n: int}\noutputs: {n: int}\n")
    (tmp_path / "rows.jsonl").write_text('{"id": 1, "tag": "t", "n": 1, "expected_n": 1}\n')
    done = assay_in("hop", "Tasks/Sums", "rows.jsonl", "--output-dir", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = assay_in("rescore", "../out", cwd=away)
    assert done.returncode == 2
    assert f"the run was started in another folder. Change to {tmp_path} " in done.stderr
    done = assay_in("rescore", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert "add --code Tasks/Sums/Hoplet/Hop.py" in done.stderr
    assert assay_in("rescore", "out", "--code", "Tasks/Sums/Hoplet/Hop.py", cwd=tmp_path).returncode == 0


def test_a_stopped_run_is_refused(sums: Path, assay_in: Assay) -> None:
    """What is not there cannot be graded; the run's own command continues it."""
    with LoopbackServer(answer) as server:
        assert assay_in(*asked(server, out="out"), "--max-calls", "3").returncode == 3
    done = assay_in("rescore", "out")
    assert done.returncode == 2
    assert "is not finished" in done.stderr


def test_a_run_with_failed_documents_keeps_them(sums: Path, assay_in: Assay) -> None:
    """What got no answer is left out before and after, and is not asked; the exit code still says so."""

    def sometimes(body: dict[str, Any]) -> tuple[int, Any]:
        return (500, {}) if "3+3" in str(body) else answer(body)

    with LoopbackServer(sometimes) as server:
        assert assay_in(*asked(server, out="out"), "--max-retries", "0").returncode == 3
    edit(sums / "sums.yaml", "metadata:", FILTER)
    for expected in ("regraded: 5 cases", "regraded: nothing"):
        done = assay_in("rescore", "out")
        assert done.returncode == 3
        assert "reused: the replies of 5 cases" in done.stdout
        assert "left out: 1 without an answer\n" in done.stdout
        assert expected in done.stdout
        assert re.search(r"digit +exact_match +1.0000 .* 5/5 +1 infra error", done.stdout)
        assert "0 of them now" in done.stdout
    (samples,) = (sums / "out").glob("m/samples_*.jsonl")
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    assert [row["doc_id"] for row in rows if "error" in row] == [3]


def test_a_run_of_a_function_needs_no_function(sums: Path, assay_in: Assay) -> None:
    """The model is not connected: its file may be gone."""
    assert assay_in("task", "sums.yaml", "--model", "python/model.py:answer", "--output-path", "out").returncode == 0
    (sums / "model.py").unlink()
    edit(sums / "sums.yaml", 'doc_to_target: "{{answer}}"', 'doc_to_target: "3"')
    done = assay_in("rescore", "out")
    assert done.returncode == 0, done.stderr
    assert re.search(r"exact_match +0.1667 ", done.stdout)


CHOICES = """\
task: choices
dataset_path: json
dataset_kwargs: {data_files: {test: choices.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_target: label
doc_to_choice: [three, seventeen]
metric_list: [{metric: acc}]
"""


async def measured(folder: Path, out: str) -> None:
    """The task of choices, by an endpoint that is gone afterwards."""
    async with EchoServer() as server:
        told = ["--model", "openai-completions/m", "--base-url", server.url, "--output-path", out]
        done = await asyncio.to_thread(typed, ["task", "choices.yaml", *told], folder)
    assert done.returncode == 0, done.stderr


def test_likelihoods_are_regraded_by_another_metric(tmp_path: Path) -> None:
    """What was measured is enough for acc_norm; acc_mutual_info measures more, and is refused."""
    (tmp_path / "choices.yaml").write_text(CHOICES)
    write_docs(tmp_path / "choices.jsonl", [{"question": f"{n}?", "label": n % 2} for n in range(6)])
    asyncio.run(measured(tmp_path, "out"))
    edit(tmp_path / "choices.yaml", "{metric: acc}", "{metric: acc}, {metric: acc_norm}, {metric: mcc}")
    done = typed(["rescore", "out"], tmp_path)
    assert done.returncode == 0, done.stderr
    asyncio.run(measured(tmp_path, "fresh"))
    ours, fresh = files(tmp_path / "out"), files(tmp_path / "fresh")
    assert ours["samples_choices.jsonl"] == fresh["samples_choices.jsonl"]
    assert b'"mcc": [' in ours["samples_choices.jsonl"]
    assert ours["results_choices.json"]["results"] == fresh["results_choices.json"]["results"]
    edit(tmp_path / "choices.yaml", "{metric: mcc}", "{metric: acc_mutual_info}")
    done = typed(["rescore", "out"], tmp_path)
    assert done.returncode == 2
    assert "scored: choices.unconditional." in done.stderr


def test_a_killed_and_continued_run_is_regraded_as_a_whole_one(tmp_path: Path) -> None:
    """After kill -9 and the same command again, rescoring gives what a fresh run of the new file gives."""
    new = [
        *FILTERS,
        {"name": "last", "filter": [{"function": "regex", "group_select": -1}, {"function": "take_first"}]},
    ]
    with FakeOpenAI(latency=0.01) as server:
        task = write_task(tmp_path, 60, filter_list=FILTERS[:1])
        job = task_job(task, server, tmp_path / "out")
        with job.started() as started:
            assert started.wait_for(lambda: job.count("calls") >= 20)
            started.kill()
        assert job.run().code == 0
        write_task(tmp_path, 60, filter_list=new)
        arrived = len(server.stats().requests)
        again = type(job)(["-m", "assay", "rescore", str(tmp_path / "out")], job.out)
        done = again.run()
        assert done.code == 0, done.err
        assert len(server.stats().requests) == arrived
        whole = task_job(task, server, tmp_path / "whole")
        assert whole.run().code == 0
    assert "regraded: 60 cases" in done.out
    assert job.samples() == whole.samples()
    ours, fresh = job.results(), whole.results()
    assert ours["results"] == fresh["results"]
    assert ours["task_hashes"] == fresh["task_hashes"]


@pytest.mark.parametrize("how", ["rescore", "run"])
def test_a_killed_scoring_leaves_the_earlier_one_and_is_continued(how: str, tmp_path: Path) -> None:
    """`kill -9` before every third change of a file, by `assay rescore` and by the run's own command.

    The earlier scoring stays the run's result with all of its files, and what is kept of it is never unfinished.
    """
    command = [sys.executable, "-m", "support.killed_rescores", how, "3"]
    place = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), environment()["PYTHONPATH"]])}
    done = subprocess.run(command, cwd=tmp_path, env=environment() | place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10
