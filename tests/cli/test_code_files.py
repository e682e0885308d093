"""A file that the user's code opens itself, such as a prompt: after an edit, no old number is shown as a new one."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from servers.loopback import LoopbackServer, chat

PATIENCE = 120.0
"""Seconds that a command may take on a machine with other work. Nothing is measured by it."""
RUN = re.compile(r"^run   (\S+)$", re.MULTILINE)
FUNCTION = """\
async def ask(session, row):
    return {"said": await session.model.chat(open(row["file"]).read() + row["name"])}
"""
ROWS = """\
{"id": 1, "tag": "t", "name": "Ada", "file": "one.txt", "expected_said": "x"}
{"id": 2, "tag": "t", "name": "Bo", "file": "two.txt", "expected_said": "x"}
"""


def shout(body: dict[str, Any]) -> tuple[int, Any]:
    """Answers in capital letters."""
    return 200, chat(str(body["messages"][-1]["content"]).upper())


def assay(folder: Path, *words: str, expect: int = 0) -> str:
    """Type a command in a process of its own. Returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "assay", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        env={**os.environ, "OPENAI_API_KEY": "sk-of-nobody-in-particular"},
    )
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A hop function that reads a prompt for each of its two rows."""
    (tmp_path / "f.py").write_text(FUNCTION)
    (tmp_path / "rows.jsonl").write_text(ROWS)
    (tmp_path / "one.txt").write_text("Greet ")
    (tmp_path / "two.txt").write_text("Greet ")
    return tmp_path


def hop_at(server: LoopbackServer) -> list[str]:
    """The command of a run with the model of this server."""
    return [
        "hop",
        "f.py:ask",
        "rows.jsonl",
        "--model",
        "openai/m",
        "--base-url",
        server.url,
        "--output-dir",
        "o",
    ]


def prompts(server: LoopbackServer) -> list[str]:
    """What the server was asked since the last time, in the order of the alphabet."""
    texts = sorted(str(body["messages"][-1]["content"]) for body in server.bodies)
    server.bodies.clear()
    return texts


def test_an_edited_prompt_of_a_hop_function_starts_another_run_and_the_old_text_finds_the_old_run(
    project: Path,
) -> None:
    """Only the changed request is sent. Nothing changed means that the finished run is shown."""
    with LoopbackServer(shout) as server:
        first = assay(project, *hop_at(server))
        assert prompts(server) == ["Greet Ada", "Greet Bo"]
        assert "already finished" in assay(project, *hop_at(server))
        (project / "two.txt").write_text("Praise ")
        second = assay(project, *hop_at(server))
        (run,) = RUN.findall(first)
        why = f"two.txt, which the code of the run reads, changed since {Path(run).name}, so this is another run"
        assert why in second
        assert "PRAISE BO" in second
        assert prompts(server) == ["Praise Bo"]
        assert RUN.findall(second) != RUN.findall(first)
        assert "PRAISE BO" in assay(project, *hop_at(server))
        (project / "two.txt").write_text("Greet ")
        third = assay(project, *hop_at(server))
        assert RUN.findall(third) == [run]
        assert "already finished" in third
        (project / "two.txt").unlink()
        assert "two.txt, which the code of the run reads, changed" in assay(project, *hop_at(server))


def test_an_edited_file_that_a_module_reads_on_import_starts_another_run(project: Path) -> None:
    (project / "f.py").write_text(
        "from pathlib import Path\n"
        "PROMPT = (Path(__file__).parent / 'one.txt').read_text()\n"
        "async def ask(session, row):\n"
        "    return {'said': await session.model.chat(PROMPT + row['name'])}\n"
    )
    with LoopbackServer(shout) as server:
        assay(project, *hop_at(server))
        (project / "one.txt").write_text("Praise ")
        second = assay(project, *hop_at(server))
        assert "one.txt, which the code of the run reads, changed since" in second
        assert "PRAISE ADA" in second


IN_A_THREAD = """\
import asyncio, pathlib
async def ask(session, row):
    return {"said": await asyncio.to_thread(pathlib.Path("one.txt").read_text)}
"""
IN_A_POOL = """\
import concurrent.futures
def read(name):
    return open(name).read()
def ask(session, row):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        return {"said": pool.submit(read, "one.txt").result()}
"""
IN_A_COPY = """\
import multiprocessing
def read(pipe):
    pipe.send(open("one.txt").read())
def ask(session, row):
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=read, args=(theirs,))
    child.start()
    said = ours.recv()
    child.join()
    return {"said": said}
"""


@pytest.mark.parametrize("code", [IN_A_THREAD, IN_A_POOL, IN_A_COPY], ids=["to_thread", "pool", "fork"])
def test_files_are_noted_in_whatever_thread_or_copy_of_the_process_the_code_opens_them(
    project: Path, code: str
) -> None:
    (project / "f.py").write_text(code)
    words = ("hop", "f.py:ask", "rows.jsonl", "--output-dir", "o")
    assay(project, *words)
    assert "already finished" in assay(project, *words)
    (project / "one.txt").write_text("Praise")
    assert "found 'Praise'" in assay(project, *words)


PIPELINE = """\
inputs: [word]
steps:
  - {id: read, type: code, code: "def main(word): return open('one.txt').read() + word"}
  - {id: ask, template: "{{ read }}"}
"""


def test_an_edited_file_that_a_code_step_reads_starts_another_run(project: Path) -> None:
    """The code runs in processes of its own. A step that fails on what it reads counts as well."""
    (project / "p.yaml").write_text(PIPELINE)
    (project / "tests.jsonl").write_text('{"id": "a", "word": "x", "expected_output": "contains:PRAISE"}\n')
    with LoopbackServer(shout) as server:
        words = ["pipeline", "p.yaml", "-i", "tests.jsonl", "--model", "openai/m", "--base-url", server.url]
        assay(project, *words, expect=1)
        assert "already finished" in assay(project, *words, expect=1)
        (project / "one.txt").write_text("Praise ")
        assert "one.txt, which the code of the run reads, changed since" in assay(project, *words)
        assert prompts(server) == ["Greet x", "Praise x"]


def test_a_code_step_whose_process_ends_has_its_files_noted(project: Path) -> None:
    code = "import os\ndef main(word):\n    return os._exit(3) if 'Greet' in open('one.txt').read() else word"
    (project / "p.yaml").write_text(f"inputs: [word]\nsteps:\n  - {{id: read, type: code, code: {json.dumps(code)}}}\n")
    (project / "tests.jsonl").write_text('{"id": "a", "word": "x", "expected_output": "x"}\n')
    assay(project, "pipeline", "p.yaml", "-i", "tests.jsonl", expect=1)
    (project / "one.txt").write_text("Praise ")
    assay(project, "pipeline", "p.yaml", "-i", "tests.jsonl")


def test_an_edited_file_that_an_answer_function_reads_starts_another_run(project: Path) -> None:
    program = (
        "import assay\n"
        "def answer(name):\n    return open('one.txt').read() + name\n"
        "run = assay.evaluate([{'name': 'Ada', 'want': 'Praise Ada'}], answer=answer, score=['exact_match'],\n"
        "                     target='want', output_dir='o', quiet=True)\n"
        "print([metric.value for _, metric in run.report.metrics()])\n"
    )
    (project / "program.py").write_text(program)

    def start() -> str:
        done = subprocess.run(
            [sys.executable, "program.py"],
            cwd=project,
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
        )
        assert "cannot be compared" not in done.stderr
        return done.stdout

    assert "0.0" in start()
    assert "0.0" in start()
    (project / "one.txt").write_text("Praise ")
    assert "1.0" in start()
    assert len(list((project / "o" / "assay").iterdir())) == 2


def test_rerun_of_failed_rows_after_an_edit_mixes_no_prompts(project: Path) -> None:
    """The failed row would get the new prompt in the run of the old one."""
    refused = True

    def moody(body: dict[str, Any]) -> tuple[int, Any]:
        if refused and "Bo" in str(body["messages"]):
            return 400, {"error": {"code": "content_filter", "message": "not this one"}}
        return shout(body)

    with LoopbackServer(moody) as server:
        (run,) = RUN.findall(assay(project, *hop_at(server)))
        refused = False
        prompts(server)
        (project / "one.txt").write_text("Praise ")
        again = assay(project, "rerun", run, "--failed")
        assert "one.txt, which the code of the run reads, changed since" in again
        assert RUN.findall(again) != [run]
        assert prompts(server) == ["Greet Bo", "Praise Ada"]


@pytest.fixture
def six_rows(project: Path) -> Path:
    """Three rows with the prompt that is edited come first, so that a start can stop before it copies a reply."""
    one, two = (json.loads(line) for line in ROWS.splitlines())
    lines = [json.dumps({**(two if n < 3 else one), "id": n, "name": f"N{n}"}) for n in range(6)]
    (project / "rows.jsonl").write_text("\n".join(lines) + "\n")
    return project


def questions(server: LoopbackServer, first: int) -> list[str]:
    """What was asked from this request on."""
    return [str(body["messages"][-1]["content"]) for body in server.bodies[first:]]


def test_a_run_that_takes_replies_of_the_run_it_replaces_takes_them_in_each_start(six_rows: Path) -> None:
    """Its first start is stopped after one new request. The second one sends the two that are left."""
    with LoopbackServer(shout) as server:
        words = [*hop_at(server), "--concurrency", "1"]
        assay(six_rows, *words)
        (six_rows / "two.txt").write_text("Kindly greet ")
        stopped = assay(six_rows, *words, "--max-calls", "1", expect=3)
        assert "It takes the replies to equal requests from" in stopped
        assay(six_rows, *words)
        assert questions(server, 6) == ["Kindly greet N0", "Kindly greet N1", "Kindly greet N2"]


def test_a_second_edit_loses_no_reply_of_the_first_run(six_rows: Path) -> None:
    """The run between the two was stopped before it came to the rows that no edit concerns."""
    with LoopbackServer(shout) as server:
        words = [*hop_at(server), "--concurrency", "1"]
        assay(six_rows, *words)
        (six_rows / "two.txt").write_text("Kindly greet ")
        assay(six_rows, *words, "--max-calls", "1", expect=3)
        (six_rows / "two.txt").write_text("Warmly greet ")
        assay(six_rows, *words)
        assert questions(server, 7) == ["Warmly greet N0", "Warmly greet N1", "Warmly greet N2"]


def test_a_killed_run_is_continued_only_if_its_prompts_are_as_they_were(project: Path) -> None:
    """Killed with `kill -9` while the second row waits, so no summary was ever written."""
    waits, release = threading.Event(), threading.Event()

    def slow(body: dict[str, Any]) -> tuple[int, Any]:
        if "Bo" in str(body["messages"]) and not release.is_set():
            waits.set()
            release.wait(PATIENCE)
        return shout(body)

    with LoopbackServer(slow) as server:
        words = [*hop_at(server), "--workers", "1"]

        def start_and_kill() -> None:
            waits.clear()
            process = subprocess.Popen(
                [sys.executable, "-m", "assay", *words],
                cwd=project,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "OPENAI_API_KEY": "sk-of-nobody-in-particular"},
            )
            assert waits.wait(PATIENCE)
            process.send_signal(signal.SIGKILL)
            process.wait()

        start_and_kill()
        start_and_kill()
        assert prompts(server) == ["Greet Ada", "Greet Bo", "Greet Bo"], "the second start continued the run"
        (project / "one.txt").write_text("Praise ")
        release.set()
        last = assay(project, *words)
        assert "one.txt, which the code of the run reads, changed since" in last
        assert prompts(server) == ["Greet Bo", "Praise Ada"]
        records = [path.read_text() for path in sorted((project / "o/assay").glob("*/records.jsonl"))]
        assert ["PRAISE ADA" in text for text in records] == [False, True]
        assert "GREET ADA" not in records[1]


def test_no_reply_of_a_python_model_is_reused_after_a_file_changed_that_it_may_have_read(
    project: Path,
) -> None:
    """The request is equal, but the reply was made from the old file."""
    (project / "m.py").write_text("def reply(prompt, params):\n    return open('weights.txt').read()\n")
    (project / "weights.txt").write_text("old")
    words = ("hop", "f.py:ask", "rows.jsonl", "--model", "python/m.py:reply", "--output-dir", "o")
    (run,) = RUN.findall(assay(project, *words))
    (project / "weights.txt").write_text("new")
    second = assay(project, *words, "--reuse", run)
    assert "weights.txt, which the code of the run reads, changed since" in second
    assert f"no reply of {Path(run).name} is reused: weights.txt changed since" in second
    assert "found 'new'" in second


def test_a_file_that_the_code_keeps_for_itself_does_not_start_another_run(project: Path) -> None:
    """A cache is read and written anew, also in one step; keys and other hidden files change as they like."""
    (project / "f.py").write_text(
        "import json, os, pathlib\n"
        "def ask(session, row):\n"
        "    cache = json.load(open('cache.json')) if os.path.exists('cache.json') else {}\n"
        "    key = pathlib.Path('.key').read_text()\n"
        "    cache[row['name']] = len(cache)\n"
        "    json.dump(cache, open('cache.tmp', 'w'))\n"
        "    os.replace('cache.tmp', 'cache.json')\n"
        "    with open('log.txt', 'a+') as log:\n        log.write(key)\n"
        "    return {'said': pathlib.Path('log.txt').read_text()}\n"
    )
    (project / ".key").write_text("a")
    (project / "cache.json").write_text("{}")
    words = ("hop", "f.py:ask", "rows.jsonl", "--output-dir", "o")
    (run,) = RUN.findall(assay(project, *words))
    (project / ".key").write_text("b")
    again = assay(project, *words)
    assert RUN.findall(again) == [run]
    assert "already finished" in again


def test_a_prompt_that_is_edited_and_restored_while_the_run_goes_on_makes_it_outdated(project: Path) -> None:
    """Rows of two prompts are in one run. Its numbers are of neither."""
    (project / "rows.jsonl").write_text(ROWS.replace("two.txt", "one.txt"))

    def edit(body: dict[str, Any]) -> tuple[int, Any]:
        (project / "one.txt").write_text("Praise ")
        return shout(body)

    with LoopbackServer(edit) as server:
        assay(project, *hop_at(server), "--workers", "1")
        assert prompts(server) == ["Greet Ada", "Praise Bo"]
        (project / "one.txt").write_text("Greet ")
        assert "one.txt, which the code of the run reads, changed" in assay(project, *hop_at(server))


def test_a_run_whose_code_reads_too_many_files_says_so_once(project: Path) -> None:
    (project / "pictures").mkdir()
    for number in range(203):
        (project / "pictures" / f"{number}").write_text("x")
    (project / "f.py").write_text(
        "def ask(session, row):\n    return {'said': ''.join(open(f'pictures/{n}').read() for n in range(203))}\n"
    )
    printed = assay(project, "hop", "f.py:ask", "rows.jsonl", "--output-dir", "o")
    assert printed.count("the code reads more than 200 files") == 1
    (noted,) = (project / "o/assay").glob("*/code_files.jsonl")
    assert len(noted.read_text().splitlines()) == 200
