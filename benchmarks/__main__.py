"""`python -m benchmarks [NAME ...] [--quick] [--write]`: exit code 1 where a limit is not reached."""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks import lm_eval, overhead, pipeline, tasks
from benchmarks.answers import answers
from benchmarks.arrival import arrival
from benchmarks.bootstrap import bootstraps
from benchmarks.figures import Figure, failed, markdown_table, plain_table
from benchmarks.first import first
from benchmarks.hop import hop
from benchmarks.hopstore import hopstore
from benchmarks.linear import linear
from benchmarks.lm_eval_rescore import rescored
from benchmarks.measure import REPOSITORY, Server, environment, own_core, python, server
from benchmarks.memories import memories
from benchmarks.million import million
from benchmarks.peers import pages
from benchmarks.sessions import sessions
from benchmarks.sql import sql
from benchmarks.store import store
from benchmarks.testset import testset
from benchmarks.view import view


class Sizes(NamedTuple):
    """How much is measured."""

    turns: int
    questions: int
    docs: int
    repeats: int
    cases: int
    asked: int
    prompts: int
    draws: int
    long: int
    records: int
    rows: int
    messages: int
    samples: int
    seconds: int
    arrivals: int


FULL = Sizes(
    turns=3,
    questions=10_000,
    docs=200,
    repeats=64,
    cases=1_000_000,
    asked=1_319,
    prompts=10_000,
    draws=100_000,
    long=20_000,
    records=1_000_000,
    rows=20_000,
    messages=100_000,
    samples=200,
    seconds=60,
    arrivals=2_000,
)
QUICK = Sizes(
    turns=1,
    questions=500,
    docs=10,
    repeats=16,
    cases=5_000,
    asked=50,
    prompts=500,
    draws=2_000,
    long=200,
    records=5_000,
    rows=500,
    messages=2_000,
    samples=10,
    seconds=5,
    arrivals=200,
)
_HOW = """\
CPU is user and system time of the whole process, best of several turns taken alternately with the bare
script (the million: one turn; the pipeline: the median of the turns' ratios). Memory is the peak. The
endpoint runs on another core and is not counted. Ratios are of the same minutes on the same machine;
seconds are for orientation only."""
Measurement = Callable[[Path, Server, Sizes], Iterator[Figure]]


def measure_overhead(folder: Path, endpoint: Server, sizes: Sizes) -> Iterator[Figure]:
    """Many questions, once each, against the bare script."""
    work = overhead.one_each(folder, sizes.questions)
    return overhead.compare(work, endpoint, folder, sizes.turns)


def measure_first(folder: Path, _endpoint: Server, sizes: Sizes) -> Iterator[Figure]:
    """From the start of a task to its first request, against the bare script."""
    return first(folder, sizes.questions, sizes.turns)


def measure_repeats(folder: Path, endpoint: Server, sizes: Sizes) -> Iterator[Figure]:
    """Few questions, many repeats, three filters, against the bare script."""
    work = overhead.repeated(folder, sizes.docs, sizes.repeats)
    return overhead.compare(work, endpoint, folder, sizes.turns)


def measure_pipeline(folder: Path, endpoint: Server, sizes: Sizes) -> Iterator[Figure]:
    """Three steps a case against the bare script; a batch of items against as many cases."""
    return pipeline.compare(folder, endpoint, sizes.questions, sizes.turns)


def measure_million(folder: Path, _endpoint: Server, sizes: Sizes) -> Iterator[Figure]:
    """Very many cases in process: memory, growth, kills."""
    return million(folder, sizes.cases)


def measure_linear(folder: Path, endpoint: Server, sizes: Sizes) -> Iterator[Figure]:
    """From a thousandth of the cases to all of them, at the endpoint: CPU and memory of each step."""
    return linear(folder, endpoint, sizes.cases, sizes.turns)


def measure_store(folder: Path, _endpoint: Server, sizes: Sizes) -> Iterator[Figure]:
    """Very many cases, read: index, pages, search, comparison."""
    return store(folder, sizes.cases)


def measure_view(folder: Path, _endpoint: Server, sizes: Sizes) -> Iterator[Figure]:
    """Very many cases in the browser, beside a run that is running."""
    return view(folder, sizes.cases, sizes.seconds)


def measure_sql(folder: Path, _endpoint: Server, sizes: Sizes) -> Iterator[Figure]:
    """Very many cases, asked in SQL."""
    return sql(folder, sizes.cases, sizes.turns)


def measure_lm_eval(folder: Path, endpoint: Server, sizes: Sizes) -> Iterator[Figure]:
    """The harness whose tasks these are, by its own command line."""
    if not lm_eval.available():
        raise SystemExit(f"{lm_eval.VARIABLE} names no interpreter with lm_eval; try `make bench-lm-eval`")
    turns = min(sizes.turns, 2)
    yield from lm_eval.compare(folder, endpoint, sizes.asked, turns)
    yield from lm_eval.compare_repeats(folder, endpoint, sizes.docs, sizes.repeats, turns)


def measure_prompts(folder: Path, _endpoint: Server, sizes: Sizes) -> Iterator[Figure]:
    """Five random examples before each question, built and thrown away."""
    task = tasks.few_shot_task(folder / "shots.yaml", sizes.prompts, 5)
    script = Path(__file__).with_name("lm_eval_prompts.py")
    turns = [python(script, task, env=environment(uvloop=True), log=folder / "prompts.log") for _ in range(sizes.turns)]
    if {turn.output.strip() for turn in turns} != {str(sizes.prompts)}:
        raise SystemExit(turns[0].output)
    best = min(turn.cpu for turn in turns)
    yield Figure(f"CPU of {sizes.prompts:,} five-shot prompts", best, 2.0, "s", "start-up included")


def measure_bootstrap(folder: Path, _endpoint: Server, sizes: Sizes) -> Iterator[Figure]:
    """Standard errors, against the harness's own where `ASSAY_LM_EVAL_PYTHON` names one."""
    return bootstraps(folder, sizes.draws)


def measure_rescore(folder: Path, _endpoint: Server, sizes: Sizes) -> Iterator[Figure]:
    """A large samples file, written again with other scores."""
    return rescored(folder, sizes.long)


def measure_testset(folder: Path, _endpoint: Server, sizes: Sizes) -> Iterator[Figure]:
    """A long testset of pipelines, checked and built."""
    return testset(folder, sizes.records)


def measure_hopstore(folder: Path, _endpoint: Server, sizes: Sizes) -> Iterator[Figure]:
    """A folder of very many results of batch tests, asked for its numbers."""
    return hopstore(folder, sizes.records, sizes.turns)


def measure_hop(folder: Path, endpoint: Server, sizes: Sizes) -> Iterator[Figure]:
    """A batch of functions that do nothing, or only sleep."""
    return hop(folder, endpoint, sizes.rows, sizes.turns)


def measure_answers(folder: Path, _endpoint: Server, _sizes: Sizes) -> Iterator[Figure]:
    """One conversation's questions at a slow endpoint, all of a test at once."""
    return answers(folder)


def measure_memories(folder: Path, _endpoint: Server, sizes: Sizes) -> Iterator[Figure]:
    """One very long conversation in memories that search."""
    return memories(folder, sizes.messages)


def measure_sessions(folder: Path, endpoint: Server, sizes: Sizes) -> Iterator[Figure]:
    """Memory evaluations of many samples, and of long ones."""
    return sessions(folder, endpoint, sizes.samples, sizes.turns)


def measure_arrival(folder: Path, _endpoint: Server, sizes: Sizes) -> Iterator[Figure]:
    """From a reply's arrival to its line in the log, while memories and the offline judge compute."""
    return arrival(folder, sizes.arrivals)


def measure_help(folder: Path, _endpoint: Server, sizes: Sizes) -> Iterator[Figure]:
    """The command line's own start."""
    env, log = environment(uvloop=True), folder / "help.log"
    turns = [python("-m", "assay", "--help", env=env, log=log) for _ in range(sizes.turns + 2)]
    if any(turn.code for turn in turns):
        raise SystemExit(turns[0].output)
    empty = min(python("-c", "", env=env, log=log).cpu for _ in range(sizes.turns))
    best = min(turn.cpu for turn in turns)
    yield Figure("CPU of assay --help", best, 0.12, "s", f"an empty Python {empty:.3f} s")


BENCHMARKS: dict[str, Measurement] = {
    "help": measure_help,
    "first": measure_first,
    "overhead": measure_overhead,
    "repeats": measure_repeats,
    "pipeline": measure_pipeline,
    "million": measure_million,
    "linear": measure_linear,
    "store": measure_store,
    "view": measure_view,
    "sql": measure_sql,
    "prompts": measure_prompts,
    "rescore": measure_rescore,
    "lm-eval": measure_lm_eval,
    "bootstrap": measure_bootstrap,
    "testset": measure_testset,
    "hopstore": measure_hopstore,
    "hop": measure_hop,
    "answers": measure_answers,
    "memories": measure_memories,
    "sessions": measure_sessions,
    "arrival": measure_arrival,
}


def main() -> int:
    arguments = _arguments()
    sizes = QUICK if arguments.quick else FULL
    found: dict[str, list[Figure]] = {}
    if arguments.scratch:
        Path(arguments.scratch).mkdir(parents=True, exist_ok=True)
    scratch_folder = tempfile.TemporaryDirectory(prefix="assay-bench-", dir=arguments.scratch)
    with scratch_folder as scratch, server() as endpoint:
        for name in arguments.names or _usual():
            folder = Path(scratch) / name
            folder.mkdir()
            with own_core():
                found[name] = list(BENCHMARKS[name](folder, endpoint, sizes))
            print(f"\n{name}\n{plain_table(found[name], judged=not arguments.quick)}", flush=True)
    if arguments.write:
        pages.RESULTS.write_text(_results(found, sizes), encoding="utf-8")
    missed = failed((figure for figures in found.values() for figure in figures), judged=not arguments.quick)
    return 1 if missed else 0


def _usual() -> list[str]:
    """All that can be measured here."""
    return [name for name in BENCHMARKS if name != "lm-eval" or lm_eval.available()]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(BENCHMARKS)}; else all")
    parser.add_argument("--quick", action="store_true", help="small sizes; only what is exact is judged")
    parser.add_argument("--write", action="store_true", help="write benchmarks/RESULTS.md")
    parser.add_argument("--scratch", metavar="DIR", help="for data and runs (5 GB); else the temporary folder")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in BENCHMARKS]:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    return arguments


def _results(found: dict[str, list[Figure]], sizes: Sizes) -> str:
    command = " ".join(["python -m benchmarks", *sys.argv[1:]])
    machine = f"{_processor()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    text = f"# Results\n\n`{command}`, {time.strftime('%Y-%m-%d')}, commit {_commit()}; {machine}.\n\n{_HOW}\n"
    for name, figures in found.items():
        text += f"\n## {name}\n\n{markdown_table(figures, judged=sizes is FULL)}\n"
    return f"{text}\n{pages.BEGIN}{pages.section_of(pages.RESULTS)}{pages.END}\n"


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown CPU"


def _commit() -> str:
    command = ["git", "-C", str(REPOSITORY), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
