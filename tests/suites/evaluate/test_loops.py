"""`assay.evaluate` in a script, in a running event loop, awaited, interrupted, cancelled and killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import assay

ROWS = [{"number": number} for number in range(8)]


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def double(number: int) -> int:
    return number * 2


async def wait_for_ever(number: int) -> int:
    await asyncio.sleep(3600)
    return number


def test_evaluate_works_inside_a_running_event_loop() -> None:
    """As in a notebook: the run has a thread of its own, and the caller's loop is the same afterwards."""

    async def cell() -> tuple[assay.Run, asyncio.AbstractEventLoop]:
        return assay.evaluate(ROWS, answer=double), asyncio.get_running_loop()

    run, _ = asyncio.run(cell())
    assert [case.answer for case in run.cases()] == [number * 2 for number in range(8)]


def test_errors_come_out_of_the_thread() -> None:
    async def cell() -> None:
        assay.evaluate(ROWS, model="local/none", prompt="{{ number }}")

    with pytest.raises(assay.UsageError):
        asyncio.run(cell())


def test_aevaluate_uses_the_callers_loop_and_leaves_signal_handlers_alone() -> None:
    loops: set[asyncio.AbstractEventLoop] = set()

    async def answer(number: int) -> int:
        loops.add(asyncio.get_running_loop())
        return number

    async def main() -> None:
        loop = asyncio.get_running_loop()
        before = signal.getsignal(signal.SIGTERM)
        task = asyncio.create_task(assay.aevaluate(ROWS, answer=answer, version="1"))
        await asyncio.sleep(0)
        assert signal.getsignal(signal.SIGTERM) is before
        run = await task
        assert run.exit_code == 0
        assert loops == {loop}

    asyncio.run(main())


def test_cancelling_aevaluate_lets_calls_in_flight_finish_and_the_run_continues() -> None:
    """Paid calls are not thrown away; the folder is closed, and the same call asks only for the rest."""
    started: asyncio.Queue[int] = asyncio.Queue()
    finished: list[int] = []

    async def answer(number: int, ctx: Any) -> str:
        return str(await ctx.ask(str(number)))

    async def model(prompt: str) -> str:
        started.put_nowait(int(prompt))
        await asyncio.sleep(0.05)
        finished.append(int(prompt))
        return prompt

    async def main() -> None:
        task = asyncio.create_task(
            assay.aevaluate(ROWS, answer=answer, model=model, concurrency=2, version="1", name="cancelled")
        )
        await started.get()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert len(finished) == 2
    run = assay.load("results")
    assert run.summary.state == "stopped"
    assert run.summary.spent.calls == 2


def test_two_evaluations_run_side_by_side_in_one_loop() -> None:
    async def main() -> list[assay.Run]:
        return await asyncio.gather(*(assay.aevaluate(ROWS, answer=double, name=name) for name in "ab"))

    runs = asyncio.run(main())
    assert len({run.folder for run in runs}) == 2


SCRIPT = """
import sys, time
from pathlib import Path
import assay

def slow(number):
    Path(f"started-{number}").touch()
    time.sleep(float(sys.argv[1]) if number >= 3 else 0)
    return number

if sys.argv[2] == "loop":
    import asyncio
    async def main():
        return assay.evaluate([{"number": n} for n in range(8)], answer=slow, concurrency=1, version="1")
    run = asyncio.run(main())
else:
    run = assay.evaluate([{"number": n} for n in range(8)], answer=slow, concurrency=1, version="1")
print(run["x"] if run.report is None else run.summary.state)
"""


def start(seconds: float, where: str) -> subprocess.Popen[str]:
    Path("program.py").write_text(SCRIPT)
    for file in Path().glob("started-*"):
        file.unlink()
    return subprocess.Popen(
        [sys.executable, "program.py", str(seconds), where],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(path: str, process: subprocess.Popen[str]) -> None:
    """Wait until the program has made a file. It fails only if the program ended without it."""
    while not Path(path).exists():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)


def answered() -> int:
    """Ended cases in the journal."""
    records = next(Path("results").glob("assay/*/records.jsonl")).read_bytes().splitlines()
    return sum(b'"end"' in line for line in records)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_program_continues_where_it_stopped(number: signal.Signals) -> None:
    """Also after kill -9: what has an answer is not called again."""
    process = start(0.2, "script")
    wait_for("started-4", process)
    process.send_signal(number)
    _, stderr = process.communicate()
    assert process.returncode != 0
    if number == signal.SIGINT:
        assert "KeyboardInterrupt: interrupted; the same call continues results/assay/" in stderr
    ended = answered()
    assert ended >= 4
    again = start(0, "script")
    stdout, stderr = again.communicate()
    assert again.returncode == 0, stderr
    assert "continuing" in stderr
    called = {int(path.name.partition("-")[2]) for path in Path().glob("started-*")}
    assert called == set(range(ended, 8))
    assert stdout.strip() == "finished"


def test_ctrl_c_in_a_notebook_stops_the_run_in_its_thread() -> None:
    process = start(0.2, "loop")
    wait_for("started-4", process)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate()
    assert process.returncode != 0
    assert "KeyboardInterrupt" in stderr
    summary = json.loads(next(Path("results").glob("assay/*/summary.json")).read_text())
    assert summary["state"] == "stopped"
    assert answered() >= 4


def test_ctrl_c_in_a_jupyter_cell_waits_for_the_run_and_the_cell_continues_it() -> None:
    """Jupyter keeps Python's own SIGINT handler, which raises KeyboardInterrupt wherever the cell waits."""
    Path("cell.py").write_text(
        "import asyncio, signal, time\n"
        "from pathlib import Path\n"
        "import assay\n\n\n"
        "def double(number):\n"
        "    Path(f'started-{number}').touch()\n"
        "    time.sleep(0.3)\n"
        "    return number * 2\n\n\n"
        "async def cell():\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "    rows = [{'number': number} for number in range(8)]\n"
        "    try:\n"
        "        assay.evaluate(rows, answer=double, concurrency=1)\n"
        "    except KeyboardInterrupt as error:\n"
        "        print(error)\n"
        "    print(assay.evaluate(rows, answer=double, concurrency=1).summary.state)\n\n\n"
        "asyncio.run(cell())\n"
    )
    process = subprocess.Popen([sys.executable, "cell.py"], stdout=subprocess.PIPE, text=True)
    wait_for("started-2", process)
    process.send_signal(signal.SIGINT)
    stdout, _ = process.communicate()
    assert process.returncode == 0
    interrupted, state = stdout.splitlines()
    assert interrupted.startswith("interrupted; the same call continues results/assay/")
    assert state == "finished"


def test_a_program_that_is_a_pytest_test_can_gate_on_an_interval() -> None:
    Path("test_gate.py").write_text(
        "import assay\n\nROWS = [{'q': 'a', 'a': 'A'}, {'q': 'b', 'a': 'B'}]\n\n\n"
        "def test_gate():\n"
        "    run = assay.evaluate(ROWS, answer=lambda q: q.upper(), score='exact_match', target='a', quiet=True)\n"
        "    assert run['exact_match'].interval[0] > 0.3\n\n\n"
        "def test_gate_fails():\n"
        "    run = assay.evaluate(ROWS, answer=lambda q: q, score='exact_match', target='a', quiet=True)\n"
        "    assert run['exact_match'].interval[0] > 0.3\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_gate.py"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout


def test_a_context_cannot_be_used_after_its_case() -> None:
    """The files of the run are closed: a late call would write to whatever file has their number now."""
    contexts: list[Any] = []

    async def answer(row: dict[str, Any], ctx: Any) -> str:
        contexts.append(ctx)
        return "x"

    assay.evaluate([{"q": 1}], answer=answer, model=lambda prompt: "y", quiet=True)
    with pytest.raises(RuntimeError, match="this case is over"):
        asyncio.run(contexts[0].ask("late"))
