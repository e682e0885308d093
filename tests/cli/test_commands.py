"""The commands as people type them, each as a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import assay

from conftest import DOCS, Assay, write_docs

RUN = ("task", "sums.yaml", "--model", "python/model.py:answer", "--output-path", "out")


def test_a_run_ends_with_a_table_and_its_files(assay_in: Assay, sums: Path) -> None:
    """The score comes with its interval and denominator, and with where the files are."""
    done = assay_in(*RUN)
    assert done.returncode == 0, done.stderr
    assert re.search(r"sums +none +exact_match +0\.5000 +0\.2236 +0\.1876 – 0\.8124 +3/6", done.stdout)
    for path in re.findall(r"wrote (\S+)", done.stdout):
        assert (sums / path).is_file()
    assert len(re.findall(r"wrote ", done.stdout)) == 2


def test_the_same_command_shows_a_finished_run(assay_in: Assay, sums: Path) -> None:
    """Nothing is asked and nothing rewritten; table and exit code are the same."""
    first = assay_in(*RUN)
    times = {path: path.stat().st_mtime_ns for path in (sums / "out").rglob("*") if path.is_file()}
    again = assay_in(*RUN)
    assert again.returncode == 0
    assert first.stdout.split("\n\n")[0] == again.stdout.split("\n\n")[0]
    assert "no requests sent" in again.stdout
    assert times == {path: path.stat().st_mtime_ns for path in (sums / "out").rglob("*") if path.is_file()}


def test_a_deleted_file_is_written_again_without_asking(assay_in: Assay, sums: Path) -> None:
    """Files are readings of the journal: they can be had again for nothing."""
    assay_in(*RUN)
    (samples,) = (sums / "out").glob("*/samples_*.jsonl")
    content = samples.read_bytes()
    samples.unlink()
    assert "0 of them now" in assay_in(*RUN).stdout
    assert samples.read_bytes() == content


def test_flags_take_both_spellings_and_win_over_the_file(assay_in: Assay, sums: Path) -> None:
    """`--output_path` is `--output-path`; a YAML file holds any option; flags win."""
    (sums / "run.yaml").write_text("tasks: [sums.yaml]\nmodel: python/model.py:answer\nlimit: 4\noutput_dir: a\n")
    done = assay_in("task", "--config", "run.yaml", "--output_path", "b", "--num_fewshot", "2")
    assert done.returncode == 0, done.stderr
    assert "4 of 4 cases" in done.stdout
    assert (sums / "b").is_dir()
    assert not (sums / "a").exists()


def test_limit_is_a_count_or_a_fraction(assay_in: Assay) -> None:
    """Below 1 it is a share of the documents, rounded up."""
    assert "2 of 2 cases" in assay_in(*RUN, "--limit", "2").stdout
    assert "2 of 2 cases" in assay_in(*RUN, "--limit", "0.2").stdout


def test_quiet_prints_nothing(assay_in: Assay) -> None:
    """The exit code says it."""
    done = assay_in(*RUN, "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_no_log_samples_writes_results_only(assay_in: Assay, sums: Path) -> None:
    """The samples file can be left out, and had later without asking."""
    assay_in(*RUN, "--no-log-samples")
    assert not list((sums / "out").glob("*/samples_*"))
    assert "0 of them now" in assay_in(*RUN).stdout
    assert list((sums / "out").glob("*/samples_*"))


def test_quirks_name_files_as_the_harness_does(assay_in: Assay, sums: Path) -> None:
    """No task in the results' name, microseconds in both."""
    assay_in(*RUN, "--lm-eval-quirks")
    names = sorted(path.name for path in (sums / "out").glob("model.py__answer/*"))
    assert re.fullmatch(r"results_20..-..-..T..-..-..\.\d{6}\.json", names[0])
    assert re.fullmatch(r"samples_sums_20..-..-..T..-..-..\.\d{6}\.jsonl", names[1])


def test_runs_lists_state_progress_and_score(assay_in: Assay) -> None:
    """One line a run, whatever its state."""
    assay_in(*RUN)
    assay_in(*RUN, "--max-calls", "2", "--seed", "7")
    lines = assay_in("runs", "out").stdout.splitlines()
    assert len(lines) == 4
    assert any("finished" in line and "6/6" in line and "exact_match,none 0.5000" in line for line in lines)
    assert any("stopped" in line and "2/6" in line for line in lines)


def test_show_prints_a_case_as_it_was_sent(assay_in: Assay) -> None:
    """Prompt, reply, filter and score of a case by its number or by its key."""
    assay_in(*RUN)
    shown = assay_in("show", "out", "3").stdout
    for part in (
        "Q: 3+3?",
        "A:",
        '"max_tokens": 8',
        "reply 0",
        "exact_match by none: 0",
        "expected 6 · found 3 ✗",
    ):
        assert part in shown
    key = re.search(r"case 3 · sums · (\w+)", shown)
    assert key
    assert assay_in("show", "out", key[1][:10]).stdout == shown


def test_show_has_replies_below_their_prompt_in_order(assay_in: Assay, sums: Path) -> None:
    """However they arrived; and a score that is a pair, as the pair."""
    task = sums / "sums.yaml"
    task.write_text(task.read_text().replace("exact_match, aggregation: mean", "mcc") + "repeats: 3\n")
    (sums / "late.py").write_text(
        "import asyncio\nfrom collections import defaultdict\n\nlast = defaultdict(asyncio.Event)\n\n"
        "async def late(prompt, params):\n"
        "    if params['seed'] == 1236:\n"
        "        last[prompt].set()\n"
        "    await last[prompt].wait()\n"
        "    return 'x'\n"
    )
    done = assay_in("task", "sums.yaml", "--model", "python/late.py:late", "--output-dir", "late")
    assert done.returncode == 0, done.stderr
    shown = assay_in("show", "late", "0").stdout
    places = [shown.index(part) for part in ("prompt 1", "reply 0", "reply 1", "reply 2")]
    assert places == sorted(places)
    assert re.search(r'mcc by none: \["\d+", "x"\]', shown)


def test_show_failed_lists_failures_only(assay_in: Assay) -> None:
    """--failed and --limit choose cases. A line has question, expected and found, and the last one what is left."""
    assay_in(*RUN)
    listed = assay_in("show", "out", "--failed", "--limit", "2").stdout.split("\n\n")[-1].splitlines()
    assert listed[0].split() == ["position", "question", "expected", "found"]
    assert [line.split() for line in listed[2:4]] == [
        ["1", "✗", "Q:", "1+1?", "A:", "2", "1"],
        ["3", "✗", "Q:", "3+3?", "A:", "6", "3"],
    ]
    assert listed[4:] == ["… 1 more (--limit 3 shows all)"]
    where = assay_in("show", "out", "--where", "score = 0 and calls = 1", "--limit", "2")
    assert where.stdout.splitlines()[0].split() == [*listed[0].split(), "score", "calls"]
    assert where.stdout.splitlines()[2].split() == ["1", "✗", "Q:", "1+1?", "A:", "2", "1", "0", "1"]
    assert where.stderr == "… 1 more (--limit 3 shows all)\n"


def test_the_hint_after_errors_lists_exactly_these_cases(assay_in: Assay, sums: Path) -> None:
    """And `--failed` lists them before the wrong answers."""
    (sums / "half.py").write_text(
        "async def half(prompt, params):\n"
        "    if '4+4' in prompt:\n"
        "        raise ValueError('cannot add')\n"
        "    return '3'\n"
    )
    done = assay_in("task", "sums.yaml", "--model", "python/half.py:half", "--output-dir", "half")
    hint = re.search(r"list them with: assay (show \S+ --errors)", done.stdout)
    assert hint, done.stdout
    shown = assay_in(*hint[1].split()).stdout
    assert "list them with" not in shown
    *_, listed, error = shown.split("\n\n")
    assert [line.split() for line in listed.splitlines()] == [
        ["position", "question", "expected", "found"],
        listed.splitlines()[1].split(),
        ["4", "!", "Q:", "4+4?", "A:", "8", "user_code"],
    ]
    assert error.startswith("4  user_code: ValueError: cannot add")
    assert assay_in(*hint[1].split(), "--failed").stdout == shown
    failed = assay_in("show", "half", "--failed").stdout.split("\n\n")[-2].splitlines()
    assert [line.split()[0] for line in failed[2:5]] == ["4", "0", "1"]


def test_check_verifies_every_run_of_an_output_folder(assay_in: Assay, sums: Path) -> None:
    assay_in(*RUN)
    assay_in(*RUN, "--fresh")
    fine = assay_in("check", "out")
    assert (fine.returncode, fine.stdout.count("of the journal intact")) == (0, 2), fine.stdout
    (path, *_) = sorted((sums / "out" / "assay").glob("*/scores.jsonl"))
    path.write_bytes(path.read_bytes().replace(b'"value":1.0', b'"value":0.0', 1))
    damaged = assay_in("check", "out")
    assert damaged.returncode == 1
    assert re.search(r"scores.jsonl:\d+: the line at byte \d+ was changed", damaged.stdout.replace("\n", " "))
    # As a user types it, although this process was started as `python -m assay`.
    assert f"\n  assay {' '.join(RUN)}\n" in damaged.stdout


def test_show_search_finds_cases_by_their_texts(assay_in: Assay) -> None:
    assay_in(*RUN)
    found = assay_in("show", "out", "--search", "1+1").stdout
    assert re.search(r"^ +\d+  prompt  .*1\+1", found, re.MULTILINE), found
    assert "contains 'zyzzyva'" in assay_in("show", "out", "--search", "zyzzyva").stdout
    refused = assay_in("show", "out", "--search", "1", "--failed")
    assert refused.returncode == 2
    assert "--search" in refused.stderr


def test_show_hides_control_characters(assay_in: Assay, sums: Path) -> None:
    """A reply cannot move the reader's cursor or change the title of the window."""
    (sums / "model.py").write_text("async def answer(prompt, params):\n    return 'a\\x1b[2Jb'\n")
    assay_in(*RUN)
    assert "\x1b" not in assay_in("show", "out", "0").stdout


def test_check_names_every_problem_and_duplicate(assay_in: Assay, sums: Path) -> None:
    """Errors end with 1, warnings with 0."""
    assert assay_in("check", "sums.yaml", "sums.jsonl").returncode == 0
    write_docs(sums / "sums.jsonl", [DOCS[0], DOCS[1], DOCS[0], {"question": "?"}])
    done = assay_in("check", "sums.yaml")
    assert done.returncode == 0
    assert "sums.jsonl:3: warning: this document is the same as " in done.stdout
    (sums / "sums.yaml").write_text((sums / "sums.yaml").read_text().replace("{{answer}}", "{{answer + 'x'}}"))
    done = assay_in("check", "sums.yaml")
    assert done.returncode == 1
    assert "sums.yaml:6 doc_to_target" in done.stdout
    assert "sums.jsonl:4" in done.stdout


def test_twins_are_told_apart(assay_in: Assay, sums: Path) -> None:
    """Two equal documents are two cases: the second key ends in ~2."""
    write_docs(sums / "sums.jsonl", [DOCS[0], DOCS[1], DOCS[0]])
    assert "3 of 3 cases" in assay_in(*RUN).stdout
    lines = [json.loads(line) for line in next((sums / "out").rglob("records.jsonl")).read_text().splitlines()]
    keys = [line["case"] for line in lines if "end" in line]
    assert keys[2] == f"{keys[0]}~2"


def test_reuse_takes_replies_of_another_run(assay_in: Assay) -> None:
    """A run over more documents pays only for the new ones."""
    assay_in(*RUN, "--limit", "4")
    more = assay_in(*RUN, "--reuse", "out")
    assert "2 calls · 4 replayed" in more.stdout
    assert "no requests sent" in assay_in(*RUN, "--reuse", "out").stdout, "the same command finds its run again"


def test_models_lists_what_each_provider_needs(assay_in: Assay) -> None:
    """Every provider says what it can do and what it needs."""
    listed = assay_in("models").stdout
    blocks = {block.split()[0]: block for block in listed.split("\n\n") if block.strip()}
    for name in ("local", "openai", "openai-completions", "anthropic", "hf", "vllm", "python", "script"):
        assert f"{name}/" in blocks[name]
        assert "can: " in blocks[name]
        assert "needs: " in blocks[name]


def test_version_and_help(assay_in: Assay) -> None:
    """`python -m assay` is `assay`; every command explains itself with an example."""
    assert assay_in("--version").stdout == f"assay, version {assay.__version__}\n"
    for command in ("task", "runs", "show", "check", "models"):
        shown = assay_in(command, "--help").stdout
        assert "assay " + command in re.split("Examples?:", shown)[1]


def test_a_csv_and_a_parquet_file_are_read_like_json(assay_in: Assay, sums: Path) -> None:
    """The format of the data does not change a score."""
    import duckdb

    rows = ", ".join(f"('{doc['question']}', {doc['answer']})" for doc in DOCS)
    for kind in ("csv", "parquet"):
        query = f"copy (select * from (values {rows}) t(question, answer)) to '{sums}/sums.{kind}'"
        duckdb.execute(query + (" (header)" if kind == "csv" else ""))
        text = (sums / "sums.yaml").read_text()
        path = sums / f"{kind}.yaml"
        path.write_text(
            text.replace("dataset_path: json", f"dataset_path: {kind}").replace("sums.jsonl", f"sums.{kind}")
        )
        done = assay_in("task", str(path), *RUN[2:])
        assert "0.5000" in done.stdout, done.stderr
        samples = next((sums / "out").glob("*/samples_*.jsonl"))
        row = json.loads(samples.read_text().splitlines()[2])
        assert row["doc"] == {"question": "2+2?", "answer": 4}
        samples.unlink()


def test_a_model_function_with_wrong_parameters_is_refused(assay_in: Assay, sums: Path) -> None:
    """Called for each document, it would fail each of them, and the score would be 0."""
    (sums / "short.py").write_text("def answer(prompt):\n    return '1'\n")
    done = assay_in("task", "sums.yaml", "--model", "python/short.py:answer")
    assert done.returncode == 2
    assert "it is called as f(prompt, params), but takes (prompt)" in done.stderr


def test_a_misspelt_function_and_a_missing_provider_get_a_hint(assay_in: Assay, sums: Path) -> None:
    assert "did you mean 'answer'?" in assay_in("task", "sums.yaml", "--model", "python/model.py:anser").stderr
    assert "such as python/model.py:answer" in assay_in("task", "sums.yaml", "--model", "model.py:answer").stderr


def test_a_function_as_metric_and_a_wrong_token_limit_are_problems_of_the_file(assay_in: Assay, sums: Path) -> None:
    text = (sums / "sums.yaml").read_text().partition("metric_list")[0]
    (sums / "mine.py").write_text("def near(references, predictions):\n    return 1\n")
    (sums / "bad.yaml").write_text(text + "metric_list: [{metric: 'mine.py:near'}]\n")
    done = assay_in("check", "bad.yaml", "--run-code")
    assert "mine.py:near is not a metric: a metric has AGGREGATIONS and build()" in done.stdout
    assert "write `metric: !function mine.near`" in done.stdout
    kept = "".join(line for line in text.splitlines(keepends=True) if "generation_kwargs" not in line)
    (sums / "bad.yaml").write_text(kept + "generation_kwargs: {max_gen_toks: lots}\n")
    assert "max_gen_toks: expected a whole number, found 'lots'" in assay_in("check", "bad.yaml").stdout


def test_several_runs_are_listed_with_model_and_score(assay_in: Assay, sums: Path) -> None:
    assay_in(*RUN)
    assay_in(*RUN, "--limit", "2")
    lines = assay_in("show", "out").stderr.splitlines()
    assert lines[0] == "'out' has 2 runs. Pass one of them:"
    assert all("  python/model.py:answer  finished  sums exact_match,none 0." in line for line in lines[1:])


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["show", "out"],
        ["sql", "select prompt from calls", "--format", "csv"],
        ["sql", "select * from range(1000000)", "--format", "json"],
    ],
)
def test_a_closed_pipe_ends_a_command_without_a_message(words: list[str], assay_in: Assay, sums: Path) -> None:
    """As `assay show out | head -1`. A shell reports 141 for its own tools."""
    assay_in(*RUN)
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "assay", *words], cwd=sums, stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")
