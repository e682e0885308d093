"""Functions that misbehave: an ERROR row with the reason, the others go on, and the process ends with the batch."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from servers.fake_openai import FakeOpenAI
from support.hop_batch import Batch, numbered, numbers, results_of

BAD = """
import asyncio, os, sys, time

{kind} hop(n):
    if n != 2:
        return {{"answer": n}}
    {body}
"""
BODIES = {
    "raise KeyError('gone')": "[KeyError] 'gone' (hop.py:7",
    "sys.exit(3)": "[SystemExit] 3 (hop.py:7",
    "os._exit(0)": "[SystemExit] os._exit would end the whole run (hop.py:7",
    "os.execlp('true', 'true')": "[SystemExit] os.execv would end the whole run (hop.py:7",
    "raise KeyboardInterrupt": "[KeyboardInterrupt]",
    "raise GeneratorExit": "[GeneratorExit]",
    "return float('nan')": "no JSON",
    "return {'a': float('inf')}": "no JSON",
    "return b'bytes'": "no JSON",
    "return {1, 2}": "no JSON",
    "return 'x' * 10_000_000": "bytes; at most",
    "return {'x': 'x' * 10_000_000}": "bytes; at most",
    "return '{\"half\": '": "not JSON",
    "return None": "Is a `return` or an `await` forgotten? (hop.py:4)",
    "return ('OK', '{half')": "not JSON",
    "return {'a': '\\ud800'}": "half a character",
    "return [object()]": "no JSON",
}
HANGS = {"def": "time.sleep(3600)", "async def": "await asyncio.sleep(3600)"}


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("body", BODIES)
def test_a_bad_row_is_an_error_and_the_batch_goes_on(tmp_path: Path, kind: str, body: str) -> None:
    """The reason stands in the row; the rows around it have their results; no score counts it as right."""
    run = Batch(tmp_path, BAD.format(kind=kind, body=body), numbered(3)).run()
    one, bad, three = results_of(run)
    assert [json.loads(row["hop_result"]) for row in (one, three)] == [{"answer": 1}, {"answer": 3}]
    assert (bad["hop_result"], bad["hop_stats"]["status"]) == ("null", "ERROR")
    assert BODIES[body] in bad["hop_stats"]["error"]
    assert len(bad["hop_stats"]["error"]) < 3_000
    actual = numbers(run.report)["default"]
    assert (actual["total"], actual["errors"], actual["completed"]) == (3, 1, 2)
    assert (run.exit_code, run.summary.subject_error) == (0, 1)


@pytest.mark.parametrize("kind", HANGS)
def test_what_hangs_ends_with_its_time_and_the_process_with_the_batch(tmp_path: Path, kind: str) -> None:
    """A process whose function sleeps for an hour exits by itself, with a row for it and for the others."""
    rows = [{"id": n, "tag": "t", "n": min(n, 2)} for n in range(1, 8)]
    batch = Batch(tmp_path, BAD.format(kind=kind, body=HANGS[kind]), rows)
    done = batch.run_process("--timeout", "1", "--workers", "3")
    assert done.code == 0, done.err
    (path,) = batch.out.glob("rows_*.jsonl")
    actual = [json.loads(line) for line in path.read_text().splitlines()][1:]
    assert [row["hop_stats"]["status"] for row in actual] == ["OK"] + ["ERROR"] * 6
    assert {row["hop_stats"].get("error") for row in actual} == {None, "it took longer than 1 s"}


@pytest.mark.parametrize("ask", ["def", "async def"])
def test_a_row_that_waits_for_a_silent_model_until_its_time_is_over_is_repeated(tmp_path: Path, ask: str) -> None:
    """The time was the endpoint's, so the row does not count against the function."""
    wait = "await " if ask == "async def" else ""
    code = f"{ask} hop(n, session):\n    return {{'said': {wait}session.model.chat(str(n))}}\n"
    batch = Batch(tmp_path, code, numbered(1))
    with FakeOpenAI(held=True) as server:
        options = {"model": "openai/fake", "base_url": server.url}
        stopped = batch.run(timeout=0.5, **options)
        assert (stopped.exit_code, stopped.summary.infra_error, stopped.summary.subject_error) == (3, 1, 0)
        server.behave(held=False)
        run = batch.run(timeout=60, **options)
    assert run.exit_code == 0
    assert [row["hop_stats"]["status"] for row in results_of(run)] == ["OK"]


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_function_that_asks_without_end_counts_as_an_error_although_it_is_inside_a_call(
    tmp_path: Path, kind: str
) -> None:
    """Each call is answered at once. A row that is repeated would pay for as many calls again, at every start."""
    wait = "await " if kind == "async def" else ""
    code = f"{kind} hop(n, session):\n    while True:\n        {wait}session.model.chat(str(n))\n"
    batch = Batch(tmp_path, code, numbered(1))
    with FakeOpenAI() as server:
        run = batch.run(timeout=2, model="openai/fake", base_url=server.url)
    assert (run.summary.infra_error, run.summary.subject_error) == (0, 1)


LEFT = {
    "a thread of asyncio": ("async def", "await asyncio.to_thread(time.sleep, 3600)"),
    "a thread of its own": ("async def", "threading.Thread(target=time.sleep, args=(3600,)).start()"),
    "an executor": ("def", "ThreadPoolExecutor(1).submit(time.sleep, 3600)"),
}


@pytest.mark.parametrize("name", LEFT)
def test_a_thread_that_is_left_behind_does_not_hold_the_process(tmp_path: Path, name: str) -> None:
    """Whoever started it: the batch has its file, and the process its exit code."""
    kind, body = LEFT[name]
    imports = "import threading\nfrom concurrent.futures import ThreadPoolExecutor\n"
    code = imports + BAD.format(kind=kind, body=f"{body}; return {{'answer': 4}}")
    batch = Batch(tmp_path, code, numbered(3))
    done = batch.run_process("--timeout", "1")
    assert done.code == 0, done.err
    assert "3 of 3 cases" in done.out
    assert len(list(batch.out.glob("rows_*.jsonl"))) == 1


BLOCKS = {
    "sleeps": "time.sleep(3600)",
    "turns": "while True: n += 1",
    "reads": "pair = socket.socketpair(); pair[0].recv(1)",
    "catches": "while True:\n        try: time.sleep(0.01)\n        except Exception: pass",
}


@pytest.mark.parametrize("name", BLOCKS)
def test_an_async_function_that_keeps_the_loop_is_ended(tmp_path: Path, name: str) -> None:
    """No other row could run, nor Ctrl-C be heard: its row says where it stood, and the others have results."""
    code = "import socket\n" + BAD.format(kind="async def", body=BLOCKS[name])
    batch = Batch(tmp_path, code, numbered(4))
    done = batch.run_process("--timeout", "0.5", "--workers", "1")
    assert done.code == 0, done.err
    (path,) = batch.out.glob("rows_*.jsonl")
    actual = [json.loads(line)["hop_stats"] for line in path.read_text().splitlines()[1:]]
    assert [stats["status"] for stats in actual] == ["OK", "ERROR", "OK", "OK"]
    assert re.match("it blocked all other rows .*hop.py:", actual[1]["error"])


def test_what_a_function_prints_is_no_part_of_its_result(tmp_path: Path) -> None:
    """Neither on stdout nor on stderr; the report comes after it."""
    body = "print('PRINTED'); print('WARNED', file=sys.stderr); return {'answer': 2}"
    batch = Batch(tmp_path, BAD.format(kind="def", body=body), numbered(3))
    done = batch.typed()
    assert done.code == 0
    assert "PRINTED" in done.out
    (path,) = batch.out.glob("rows_*.jsonl")
    assert "PRINTED" not in path.read_text()
    assert path.read_text().count('"OK"') == 3


def test_a_task_that_exits_does_not_end_the_run(tmp_path: Path) -> None:
    """Also code that an async function starts and leaves behind."""
    body = "asyncio.get_running_loop().create_task(leave()); await asyncio.sleep(0.05); return {'answer': 2}"
    code = BAD.format(kind="async def", body=body) + "\nasync def leave():\n    sys.exit(1)\n"
    assert [row["hop_stats"]["status"] for row in results_of(Batch(tmp_path, code, numbered(3)).run())] == ["OK"] * 3


def test_failed_rows_are_asked_again_only_on_request(tmp_path: Path) -> None:
    """`--retry-failed` calls the function again for them; without it the finished run is shown."""
    code = """
from pathlib import Path

def hop(n):
    here = Path(__file__).with_name("called")
    count = len(here.read_text()) if here.exists() else 0
    here.write_text("x" * (count + 1))
    if count == 0:
        raise ValueError("the first time")
    return {"answer": n}
"""
    batch = Batch(tmp_path, code, numbered(1))
    assert numbers(batch.run().report)["default"]["errors"] == 1
    assert numbers(batch.run().report)["default"]["errors"] == 1
    again = batch.run(retry_failed=True)
    assert numbers(again.report)["default"]["errors"] == 0
    assert (tmp_path / "called").read_text() == "xx"
