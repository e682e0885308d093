"""Bad input gets a sentence with its place, exit code 2, and nothing is written."""

from __future__ import annotations

import fcntl
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Assay
from servers.loopback import LoopbackServer

Change = Callable[[Path], object]
MODEL = ("--model", "python/model.py:answer", "--output-path", "out")


def replaced(old: str, new: str) -> Change:
    """The task file with one text in place of another."""

    def change(folder: Path) -> None:
        path = folder / "sums.yaml"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return change


def data(content: bytes) -> Change:
    """Another data file."""
    return lambda folder: (folder / "sums.jsonl").write_bytes(content)


BAD: dict[str, tuple[Change, list[str]]] = {
    "a missing data file": (replaced("sums.jsonl", "gone.jsonl"), ["sums.yaml:3", "gone.jsonl"]),
    "a tab": (replaced("task: sums", "task: sums\nmetadata2:\n\tx: 1"), ["sums.yaml:3", "tab"]),
    "an unknown key": (replaced("test_split:", "tset_split:"), ["sums.yaml:4", "did you mean 'test_split'"]),
    "an unknown filter": (
        replaced("metadata:", "filter_list:\n  - name: x\n    filter: [{function: regexp}]\nmetadata:"),
        ["filter_list.0.filter.0", "no filter named 'regexp'", "'regex'"],
    ),
    "an unknown filter option": (
        replaced("metadata:", "filter_list:\n  - name: x\n    filter: [{function: regex, patern: a}]\nmetadata:"),
        ["no option named 'patern'"],
    ),
    "a regex that does not compile": (
        replaced(
            "metadata:",
            "filter_list:\n  - name: x\n    filter: [{function: regex, regex_pattern: '('}]\nmetadata:",
        ),
        ["filter_list.0.filter.0", "unterminated"],
    ),
    "an unknown metric": (
        replaced("metric: exact_match", "metric: exact_mach"),
        ["metric_list.0", "'exact_match'"],
    ),
    "an unknown aggregation": (
        replaced("aggregation: mean", "aggregation: maen"),
        ["metric_list.0", "'mean'"],
    ),
    "an undefined name in the first doc": (
        replaced("{{question}}", "{{qestion}}"),
        ["sums.yaml:5 doc_to_text", "qestion"],
    ),
    "an unsafe template": (
        replaced("{{question}}", "{{ ''.__class__ }}"),
        ["sums.yaml:5 doc_to_text", "__class__"],
    ),
    "a template without bound": (
        replaced("{{question}}", "{{ 'a'*10**10 }}"),
        ["sums.yaml:5 doc_to_text", "larger"],
    ),
    "an empty data set": (data(b""), ["sums.jsonl", "empty"]),
    "bad rows": (data(b'{"question": 1}\n[]\n{"x": NaN}\n'), ["sums.jsonl:2", "sums.jsonl:3"]),
    "a missing split": (replaced("test_split: test", "test_split: dev"), ["no split 'dev'", "test"]),
    "a wrong type": (replaced("num_fewshot: 0", "num_fewshot: many"), ["sums.yaml:12", "whole number"]),
    "too few examples": (
        replaced("num_fewshot: 0", "num_fewshot: 9"),
        ["9 examples are needed, there are 2"],
    ),
    "an include that is not there": (replaced("task: sums", "include: no.yaml\ntask: sums"), ["no.yaml"]),
    "a file that includes itself": (
        replaced("task: sums", "include: sums.yaml\ntask: sums"),
        ["includes itself"],
    ),
    "an output path that is a file": (lambda folder: (folder / "out").write_text(""), ["is a file"]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused_with_their_place(name: str, sums: Path, assay_in: Assay) -> None:
    """Every mistake of a file is told with where it is; no folder appears."""
    change, said = BAD[name]
    change(sums)
    before = sorted(path.name for path in sums.iterdir())
    done = assay_in("task", "sums.yaml", *MODEL)
    assert done.returncode == 2, done.stderr
    for part in said:
        assert part in done.stderr
    assert "Traceback" not in done.stderr
    left = sorted(path.name for path in sums.iterdir() if path.name != "__pycache__")
    assert left == before


WRONG_USE = {
    "no model": (("task", "sums.yaml"), "no model is named"),
    "a model without provider": (("task", "sums.yaml", "--model", "gpt"), "PROVIDER/NAME"),
    "an unknown provider": (("task", "sums.yaml", "--model", "opnai/x"), "did you mean 'openai"),
    "no task": (("task", *MODEL), "no task given"),
    "a task that is not there": (("task", "gone.yaml", *MODEL), "no task file 'gone.yaml'"),
    "an unknown task name": (("task", "sum", "--include-path", ".", *MODEL), "did you mean 'sums'"),
    "a key on the command line": (
        ("task", "sums.yaml", *MODEL, "--model-args", "api_key=abc"),
        "environment",
    ),
    "neither key nor endpoint": (("task", "sums.yaml", "--model", "openai/x"), "OPENAI_API_KEY"),
    "concurrency 0": (("task", "sums.yaml", *MODEL, "--concurrency", "0"), "concurrency"),
    "a model that cannot chat": (
        (
            "task",
            "sums.yaml",
            "--model",
            "openai-completions/x",
            "--base-url",
            "http://127.0.0.1:9",
            "--apply-chat-template",
        ),
        "cannot do chat",
    ),
    "an unknown config key": (
        ("task", "sums.yaml", *MODEL, "--config", "bad.yaml"),
        "bad.yaml: there is no option named 'modle'",
    ),
    "an unknown run": (("show", "nothing"), "there is no run 'nothing'"),
    "reuse of no run": (("task", "sums.yaml", *MODEL, "--reuse", "nothing"), "there is no run 'nothing'"),
}


@pytest.mark.parametrize("name", WRONG_USE)
def test_wrong_use_says_what_to_do(name: str, sums: Path, assay_in: Assay, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong command is answered with one sentence and exit code 2."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    (sums / "bad.yaml").write_text("modle: x\n")
    arguments, said = WRONG_USE[name]
    done = assay_in(*arguments)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert not (sums / "out").exists()


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_on_the_first_reply_leaves_nothing(status: int, sums: Path, assay_in: Assay) -> None:
    """A wrong key or model is no run: exit code 2, and no folder."""
    with LoopbackServer(lambda body: (status, {"error": {"message": "no, not you"}})) as server:
        done = assay_in("task", "sums.yaml", "--model", "openai/x", "--base-url", server.url, "--output-path", "out")
    assert done.returncode == 2
    assert "no, not you" in done.stderr
    assert not (sums / "out").exists()


def test_a_second_process_on_the_same_run_is_refused(sums: Path, assay_in: Assay) -> None:
    """A run has one writer."""
    (sums / "model.py").write_text("def answer(prompt, params):\n    raise ValueError('no')\n")
    assert assay_in("task", "sums.yaml", *MODEL).returncode == 1
    (folder,) = (sums / "out" / "assay").iterdir()
    with (folder / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = assay_in("task", "sums.yaml", *MODEL, "--retry-failed")
    assert done.returncode == 2
    assert "another process" in done.stderr


def test_an_unreachable_endpoint_can_be_continued(sums: Path, assay_in: Assay) -> None:
    """Nothing listens: the run stops after its retries, keeps its folder, and says how to go on."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    url = f"http://127.0.0.1:{port}/v1"
    done = assay_in(
        "task",
        "sums.yaml",
        "--model",
        "openai/x",
        "--base-url",
        url,
        "--output-path",
        "out",
        "--max-retries",
        "1",
    )
    assert done.returncode == 3
    assert "cannot be reached" in done.stderr
    assert "Continue with: assay task sums.yaml" in done.stderr
    assert list((sums / "out" / "assay").glob("*/calls.jsonl"))


LONG = "a" * 300


@pytest.mark.parametrize(
    "words",
    [
        ["task", "sums.yaml", "--model", "python/model.py:answer", "--output-dir", LONG],
        ["task", LONG, "--model", "python/model.py:answer"],
        ["task", "sums.yaml", "--model", f"script/{LONG}"],
        ["task", "sums.yaml", "--model", "python/model.py:answer", "--include-path", LONG],
        ["task", "sums.yaml", "--model", "python/model.py:answer", "--output-dir", f"out/{LONG[:230]}.json"],
        ["hop", LONG, "rows.jsonl", "--model", "python/model.py:answer"],
        ["hop", "--analyse", LONG],
        ["pipeline", LONG, "--model", "python/model.py:answer"],
        ["show", LONG],
        ["check", LONG],
        ["import", LONG],
        ["init", "task", LONG],
        ["compare", LONG, LONG],
    ],
    ids=lambda words: " ".join(word[:16] for word in words),
)
def test_a_name_that_is_too_long_gets_a_sentence(sums: Path, assay_in: Assay, words: list[str]) -> None:
    done = assay_in(*words)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert not (sums / "results").exists(), "found before the first request"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("sums.jsonl", f"{LONG}.jsonl", "sums.yaml:3 dataset_kwargs.data_files: there is no data file"),
        ("dataset_path: json", f"dataset_path: {LONG}", "sums.yaml:2 dataset_path: this can be neither"),
        ("metadata:", f"include: {LONG}.yaml\nmetadata:", "there is no file"),
        ("metadata:", f"process_docs: !function {LONG}.f\nmetadata:", "no file can have this name"),
    ],
)
def test_a_name_in_a_task_file_that_is_too_long_is_named_with_its_place(
    sums: Path, assay_in: Assay, old: str, new: str, message: str
) -> None:
    text = (sums / "sums.yaml").read_text()
    assert old in text
    (sums / "sums.yaml").write_text(text.replace(old, new))
    done = assay_in("task", "sums.yaml", "--model", "python/model.py:answer")
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    checked = assay_in("check", "sums.yaml")
    assert (checked.returncode, message in checked.stdout) == (1, True), checked.stdout
