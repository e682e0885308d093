"""No file of a run has a secret, a secret damages no file, and a replay scores as the first run did."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from servers.loopback import LoopbackServer
from support.commands import TIMEOUT, Finished, environment
from support.small_files import small_task

SECRET = 'sk-0f8fad5b"d9cb'
MODEL = f"""
SECRET = {SECRET!r}

def answer(prompt, params):
    text = prompt if isinstance(prompt, str) else prompt[-1]["content"]
    if "raise" in text:
        raise ValueError(f"cannot use {{SECRET}}")
    return {{"text": f"the response: {{SECRET}}", "reasoning": f"I saw {{SECRET}}"}}
"""
TASK = small_task("echo", "docs.jsonl") + "metric_list: [{metric: exact_match}]\n"
PIPELINE = """
id: p
inputs: [text]
steps:
  - {id: one, template: "{{ text }}"}
  - {id: two, type: code, code: "def transform(inputs): return inputs['text']"}
outputs: [{key: said, from: one}, {key: copied, from: two}]
"""
HOP = """
async def hop_check(session, fields):
    status, found = await session.hop_get(fields["text"], fields["text"], str, verifier=None)
    return "OK", {"knows": "sk-" in str(found)}
"""
EVALUATE = """
import assay
import model

def solve(question):
    return model.answer(question, {})["text"]

rows = [{"question": f"about {line.strip()}", "expected": line.strip()} for line in open("rows.txt")]
# More records of a case than are written at once.
assay.evaluate(rows, answer=solve, score="exact_match", target="expected", repeats=70, output_dir="out")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a task, a pipeline and a program, whose data have the secret too."""
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "echo.yaml").write_text(TASK)
    right = f"the response: {SECRET}"
    docs = [{"question": f"say {SECRET}", "answer": right}, {"question": "raise", "answer": "-"}]
    docs.append({"question": "plain", "answer": right})
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    (tmp_path / "p.yaml").write_text(PIPELINE)
    tests = [
        {
            "id": f"t{number}",
            "tags": [f"of {SECRET}"],
            "inputs": {"text": doc["question"]},
            "expected_outputs": {"said": right},
        }
        for number, doc in enumerate(docs)
    ]
    # The last one would run if the output of code were compared before it is redacted.
    tests.append({"id": "copy", "inputs": {"text": right}, "expected_outputs": {"copied": right}})
    tests.append({"id": "later", "inputs": {"text": "plain"}, "depends_on": ["copy"]})
    (tmp_path / "tests.jsonl").write_text("".join(json.dumps(test) + "\n" for test in tests))
    hoplet = tmp_path / "Check" / "Hoplet"
    hoplet.mkdir(parents=True)
    (hoplet / "Hop.py").write_text(HOP)
    rows = [
        {"id": n, "tag": f"of {SECRET}", "text": doc["question"], "expected_text": right} for n, doc in enumerate(docs)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "evaluate.py").write_text(EVALUATE)
    (tmp_path / "rows.txt").write_text(f"{right}\nplain\n")
    return tmp_path


COMMANDS = {
    "task": ("-m", "assay", "task", "echo.yaml", "--model", "python/model.py:answer", "--log-samples"),
    "pipeline": (
        "-m",
        "assay",
        "pipeline",
        "p.yaml",
        "--testset",
        "tests.jsonl",
        "--model",
        "python/model.py:answer",
    ),
    "hop": ("-m", "assay", "hop", "Check", "rows.jsonl", "--model", "python/model.py:answer"),
    "evaluate": ("evaluate.py",),
}


def run(folder: Path, suite: str, variables: Mapping[str, str], out: str = "out") -> Finished:
    """Run a suite as a process with these variables."""
    output = ("--output-dir", out) if suite != "evaluate" else ()
    return python(folder, (*COMMANDS[suite], *output), variables)


def python(folder: Path, words: Sequence[str], variables: Mapping[str, str]) -> Finished:
    """Run Python in a folder, with these words and variables."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**environment(), **variables},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def written(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.suffix in (".json", ".jsonl", ".csv", ".xml", ".log")
    }


@pytest.mark.parametrize("suite", COMMANDS)
def test_no_file_has_the_secret_a_replay_scores_the_same_and_others_cannot_read(folder: Path, suite: str) -> None:
    """The solver and the scorers get the redacted reply at once, so the reply is never equal to the target."""
    first = run(folder, suite, {"MY_API_KEY": SECRET})
    assert "Traceback" not in first.err
    texts = written(folder / "out")
    escaped = json.dumps(SECRET)[1:-1]
    for name, text in {**texts, "stdout": first.out, "stderr": first.err}.items():
        assert SECRET not in text, name
        assert escaped not in text, name
    assert any("the response: [redacted]" in text for text in texts.values())
    if suite == "pipeline":
        tests = [json.loads(line) for line in texts["p/results.jsonl"].splitlines()]
        assert [test["result"] for test in tests] == [
            "failed",
            "errored",
            "failed",
            "failed",
            "skipped",
        ]
    if suite == "hop":
        # Its function saw the redacted reply too.
        results = texts[next(name for name in texts if name.startswith("rows_"))]
        assert "knows" in results
        assert '\\"knows\\":true' not in results.replace(" ", "")
    scores = next((folder / "out").glob("assay/*/scores.jsonl"))
    before = scores_in(scores)
    assert before
    # Without its scores, the same command scores the stored replies again.
    scores.unlink()
    again = run(folder, suite, {"MY_API_KEY": SECRET})
    assert again.code == first.code
    assert scores_in(scores) == before
    assert_private(folder / "out", suite)


def scores_in(path: Path) -> list[str]:
    """Return the content of the scores, in an order that does not depend on which case was faster."""
    keys = ("case", "metric", "part", "status", "value", "data", "expected")
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    return sorted(json.dumps([line.get(key) for key in keys]) for line in lines)


def test_variables_with_ordinary_words_change_nothing(folder: Path) -> None:
    """Their names say that they are keys, their values are words that replies, fields and metrics have too."""
    words = {
        "A_KEY": "response",
        "B_TOKEN": "exact_match",
        "C_SECRET": "12345678",
        "D_KEY": "true",
        "E_KEY": "1",
        "F_KEY": "1+1=2?",
    }
    plain, named = run(folder, "task", {}, "plain"), run(folder, "task", words, "named")
    assert (plain.code, named.code) == (0, 0)
    samples = [next((folder / out).rglob("samples_*.jsonl")).read_bytes() for out in ("plain", "named")]
    assert samples[0] == samples[1]
    calls = [next((folder / out).glob("assay/*/calls.jsonl")).read_text().splitlines() for out in ("plain", "named")]
    replies = [sorted(str(json.loads(line).get("response")) for line in lines) for lines in calls]
    assert replies[0] == replies[1]


def assert_private(out: Path, suite: str) -> None:
    """Assert that other users can neither read a file nor enter the run folder. The group may, as umask says."""
    results = [path for path in out.rglob("*") if path.is_file()]
    names = {path.name for path in results}
    assert {"run.json", "summary.json", "calls.jsonl", "records.jsonl", "scores.jsonl"} <= names
    assert ("observer.jsonl" in names) == (suite == "hop")
    for path in results:
        assert not stat.S_IMODE(path.stat().st_mode) & 0o007, path
    (run_folder,) = (out / "assay").glob("*/run.json")
    assert not stat.S_IMODE(run_folder.parent.stat().st_mode) & 0o007


# With characters that Python, JSON, CSV and XML escape.
CUT_SECRET = "tok-4f\"Gh\\77Jk'LmN0pQ"


def assert_no_part(texts: Mapping[str, str]) -> None:
    """Assert that no text has six characters of the secret, also as JSON, Python, CSV or XML write it."""
    for name, text in texts.items():
        plain = re.sub(r"""&quot;|""|\\(?=["'\\])""", lambda match: "" if match[0] == "\\" else '"', text)
        for at in range(len(CUT_SECRET) - 5):
            assert CUT_SECRET[at : at + 6] not in plain, name
            assert CUT_SECRET[at : at + 6] not in text, name


def test_checks_of_a_pipeline_show_no_part_of_a_secret_that_they_cut(tmp_path: Path) -> None:
    """Their messages quote values as Python does, then cut them."""
    (tmp_path / "g.yaml").write_text(
        "inputs: [name]\nsteps:\n  - {id: g, type: code, code: 'def main(name): return name'}\n"
    )
    tests = [{"id": f"a{n}", "name": "x", "expected_output": f"contains:{'z' * n}{CUT_SECRET}"} for n in range(30, 90)]
    tests += [{"id": f"{'i' * n}{CUT_SECRET}", "name": "x", "expected_output": "y"} for n in range(1975, 2000)]
    (tmp_path / "t_basic.jsonl").write_text("".join(json.dumps(test) + "\n" for test in tests))
    words = ("-m", "assay", "pipeline", "g.yaml", "--testset", "t_basic.jsonl", "--output-dir", "out")
    done = python(tmp_path, (*words, "--outfile", "out/lab.csv"), {"SOME_TOKEN": CUT_SECRET})
    assert done.code == 1, done.err
    texts = written(tmp_path / "out")
    endings = {name.rpartition("/")[2] for name in texts}
    assert {"results.jsonl", "results.csv", "lab.csv", "junit.xml", "scores.jsonl", "summary.json"} <= endings
    assert all("[redacted]" in text for name, text in texts.items() if name.endswith((".csv", ".xml")))
    assert "[redacted]" in done.out
    assert_no_part({**texts, "stdout": done.out, "stderr": done.err})


def test_an_error_of_an_endpoint_shows_no_part_of_a_secret_that_its_cut_would_divide(tmp_path: Path) -> None:
    """Neither in the files of the run, nor in the line about waiting, nor in what `show` prints."""
    (tmp_path / "e.yaml").write_text(small_task("e", "docs.jsonl"))
    lengths = range(280, 300)
    (tmp_path / "docs.jsonl").write_text("".join(f'{{"question": "{n}", "answer": "x"}}\n' for n in lengths))
    seen: set[str] = set()

    def fail(body: dict[str, Any]) -> tuple[int, Any]:
        question = body["messages"][0]["content"]
        status = 400 if question in seen else 500
        seen.add(question)
        return status, {"error": {"message": "y" * int(question) + CUT_SECRET + "z" * 100}}

    variables = {"OPENAI_API_KEY": "sk-not-this-one-31415", "SOME_TOKEN": CUT_SECRET}
    with LoopbackServer(fail) as server:
        server.headers["Retry-After"] = "5"  # a shorter wait is not told
        words = ("-m", "assay", "task", "e.yaml", "--model", "openai/m", "--base-url", server.url, "--max-wait", "9")
        done = python(tmp_path, (*words, "--output-dir", "out", "--concurrency", "20"), variables)
    assert done.code == 3, done.err
    shown = python(tmp_path, ("-m", "assay", "show", "out", "--failed"), variables)
    texts = {**written(tmp_path / "out"), "stdout": done.out, "stderr": done.err, "show": shown.out}
    assert re.search(r"waiting 5\.\d s: .*yy\[redacted\]…", done.err)
    assert "yy[redacted]…" in shown.out
    assert sum(text.count("yy[redacted]…") for text in texts.values()) > 20
    assert_no_part(texts)


RAISING_HOP = """
import os

class Odd:
    def __init__(self, text):
        self.text = text

    def __str__(self):
        return self.text

def f(session, d):
    secret = os.environ["SOME_TOKEN"]
    with session.tracer.trace_step("odd", "", {"value": Odd("y" * (d["before"] - 1500) + secret)}):
        pass
    raise ValueError("y" * d["before"] + secret + "y" * d["after"])
"""


def test_exceptions_of_a_hop_function_show_no_part_of_a_secret_that_they_cut(tmp_path: Path) -> None:
    """A message is cut at its end, a traceback at its beginning, a step's metadata in `observer.jsonl` too."""
    (tmp_path / "f.py").write_text(RAISING_HOP)
    rows = [{"id": n, "tag": "message", "before": n, "after": 0} for n in range(1970, 2001)]
    rows += [{"id": n, "tag": "traceback", "before": 1500, "after": n} for n in range(5970, 6001)]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("-m", "assay", "hop", "f.py:f", "d.jsonl", "--output-dir", "out")
    done = python(tmp_path, words, {"SOME_TOKEN": CUT_SECRET})
    assert done.code == 1, done.err
    texts = written(tmp_path / "out")
    (observed,) = [text for name, text in texts.items() if name.endswith("observer.jsonl")]
    assert '"metadata":{"value":"y' in observed
    (records,) = [text for name, text in texts.items() if name.endswith("records.jsonl")]
    assert records.count('"traceback":"…[redacted]y') > 10
    assert_no_part({**texts, "stdout": done.out, "stderr": done.err})


RAISING_PIPELINE = """
inputs: [n]
steps:
  - id: g
    type: code
    code: |
      import os
      def main(n):
          secret = os.environ["SOME_TOKEN"]
          print(secret + "z" * (1975 + n))
          raise ValueError("z" * (475 + n) + secret)
"""


def test_code_of_a_pipeline_shows_no_part_of_a_secret_that_it_printed_or_raised(tmp_path: Path) -> None:
    """Its process keeps the end of what it prints and the beginning of what it raises."""
    (tmp_path / "g.yaml").write_text(RAISING_PIPELINE)
    tests = [{"id": f"a{n}", "inputs": {"n": n}} for n in range(26)]
    (tmp_path / "t_basic.jsonl").write_text("".join(json.dumps(test) + "\n" for test in tests))
    words = ("-m", "assay", "pipeline", "g.yaml", "--testset", "t_basic.jsonl", "--output-dir", "out")
    done = python(tmp_path, words, {"SOME_TOKEN": CUT_SECRET})
    texts = written(tmp_path / "out")
    assert any("it printed: …[redacted]zz" in text for text in texts.values())
    assert any("z[redacted]…" in text for text in texts.values())
    assert_no_part({**texts, "stdout": done.out, "stderr": done.err})
