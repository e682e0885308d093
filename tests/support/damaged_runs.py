"""Small runs of every suite, ways to damage their folders, and the verdict on what assay makes of the damage.

    runs = SmallRuns(folder)                    # makes every run once
    verdict = Scenario(runs, seed=17).play()    # copies a run, damages it, reads it, continues it

A scenario passes if the damage is named, or if everything that can be read of the run is as before. Then its command is
repeated. The run must end with the numbers and files of the undamaged run, and no logged call may be sent again.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, NamedTuple

import msgspec

import assay
from assay.core.errors import AssayError
from assay.journal.lines import forget_sidecars, seed as checksum_seed, unchanged_line
from assay.store.cases import RunCases
from assay.store.check import RunCheck, check_run
from assay.store.runs import states
from assay.store.sql import RunDatabase

from support.hop_batch import numbered
from support.labels import answer as labelled_answer
from support.memory_samples import MODEL as SAMPLE_MODEL, sample
from support.memory_talks import MODEL as TALK_MODEL, talk
from support.pipeline_project import MODEL as PIPELINE_MODEL, case, says
from support.task_project import as_yaml

JOURNAL = ("calls.jsonl", "records.jsonl", "scores.jsonl")
# A scenario takes a tenth of a second. One that takes this long is stuck, however busy the machine is.
STUCK_SECONDS = 300
# Keys of reports and result files whose values depend on the clock, or on whether a damaged run lent its replies.
_CLOCK = re.compile(
    r"^reused$|second|time|date|duration|latency|stamp|started|elapsed|_at$|speed|throughput|run_id",
    re.IGNORECASE,
)
_CLOCK_COLUMN = re.compile(r"p50|p95|mean|max|seconds|reused|\bs$")
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d")
QUERIES = (
    'select "index", key, status, label from cases order by all',
    'select "index", metric, part, scorer, status, value, reason from scores order by all',
    'select "index", part, answer from answers order by all',
    'select "index", stage, hash, n, reply from calls order by all',
)
ECHO = "async def echo(prompt, params):\n    return prompt.rsplit('\\n', 1)[-1]\n"
HOP = """
def hop(n, session):
    status, said = session.hop_get(f"say {n}", "nothing", str, verifier=None)
    return "OK", {"answer": n * 2 if n % 3 else said}
"""
HOP_MODEL = """
async def reply(messages, params):
    return '{"result": "hello"}'
"""


class SmallRun(NamedTuple):
    """A suite on small data. `files` are its data files, `start` starts or continues the run in the working folder."""

    suite: str
    files: dict[str, str]
    start: Callable[..., assay.Run]


def _lines(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def _started(suite: str, **values: Any) -> Callable[..., assay.Run]:
    def start(observers: Any = (), **options: Any) -> assay.Run:
        return assay.run(assay.spec(suite, **{"output_dir": "out", **values, **options}), observers)

    return start


def double(row: dict[str, Any]) -> int:
    """The function under test of the evaluation from Python."""
    return int(row["n"]) * 2


def _evaluate(observers: Any = (), **options: Any) -> assay.Run:
    del observers
    rows = [{"n": n, "answer": n * 2 if n % 4 else 0, "tag": "even" if n % 2 == 0 else "odd"} for n in range(8)]
    return assay.evaluate(
        rows,
        answer=double,
        score=["exact_match"],
        target="answer",
        name="sums",
        **{"output_dir": "out", **options},
    )


SMALL_RUNS = (
    SmallRun(
        "task",
        {
            "model.py": ECHO,
            "docs.jsonl": _lines(*({"q": f"q{n}", "a": f"q{n if n % 3 else 0}"} for n in range(8))),
            "t.yaml": as_yaml(
                {
                    "task": "t",
                    "dataset_path": "json",
                    "dataset_kwargs": {"data_files": "docs.jsonl"},
                    "test_split": "train",
                    "output_type": "generate_until",
                    "doc_to_text": "{{q}}",
                    "doc_to_target": "{{a}}",
                    "repeats": 2,
                    "metric_list": [{"metric": "exact_match"}],
                }
            ),
        },
        _started("task", tasks=["t.yaml"], model="python/model.py:echo"),
    ),
    SmallRun(
        "pipeline",
        {
            "model.py": PIPELINE_MODEL,
            "p.yaml": as_yaml({"id": "p", "steps": [says("one"), says("two", "{{ one }}!")]}),
            "tests.jsonl": _lines(
                *(
                    case(
                        f"t{n}",
                        inputs={"text": f"word{n}"},
                        expected_outputs={"two": f"word{n}!" if n % 3 else "other"},
                    )
                    for n in range(6)
                )
            ),
        },
        _started("pipeline", pipeline="p.yaml", testset=["tests.jsonl"], model="python/model.py:answer"),
    ),
    SmallRun(
        "hop",
        {
            "function.py": HOP,
            "rows.jsonl": _lines(*numbered(6)),
            "model.py": HOP_MODEL,
        },
        _started("hop", target="function.py:hop", data="rows.jsonl", model="python/model.py:reply"),
    ),
    SmallRun(
        "memory-test",
        {
            "model.py": TALK_MODEL,
            "talks.json": json.dumps([talk(3, "a"), talk(3, "b", "grows"), talk(2, "c", "eats")]),
        },
        _started(
            "memory-test",
            dataset="plain",
            data="talks.json",
            memory=["bm25", "STMemory"],
            model="python/model.py:answer",
            top_k=2,
        ),
    ),
    SmallRun(
        "memory-eval",
        {
            "model.py": SAMPLE_MODEL,
            "data/s1.json": json.dumps(sample("s1", 2)),
            "data/s2.json": json.dumps(sample("s2", 2)),
        },
        _started("memory-eval", dataset="data", baseline=["bm25"], model="python/model.py:answer", judge="offline"),
    ),
    SmallRun("evaluate", {}, _evaluate),
    SmallRun(
        "calibration",
        {"labels.jsonl": _lines(*(labelled_answer(n, right=n % 3 > 0, label=n % 2 > 0) for n in range(8)))},
        _started("calibration", labels="labels.jsonl", judge="offline"),
    ),
)


class Reading(NamedTuple):
    """What people see of a run: its report, its result files and its cases, without what the clock changes."""

    report: Any
    files: dict[str, Any]
    cases: dict[int, Any]


class Prepared(NamedTuple):
    """An undamaged run in a folder of its own: its state, and what is read of it when it is finished."""

    small: SmallRun
    state: str
    folder: Path
    reading: Reading
    unfinished_cases: dict[int, Any]
    """The cases that `show` lists before the run is continued."""
    paid: int
    """Calls of the whole run."""
    in_sql: dict[str, list[tuple[Any, ...]]]
    """The rows of each query of `QUERIES`, before the run is continued."""


class SmallRuns:
    """Every small run in every state: finished; stopped half way; killed before the summary was written.

    The caller sets `sidecar.MIN_LINES`, so that these small runs have sidecars like large ones. Beside each run, the folder `twin` has a second run of the same data, for files that get mixed up.
    """

    def __init__(self, root: Path) -> None:
        self.scratch = root / "scratch"
        self.prepared = [prepared for small in SMALL_RUNS for prepared in self._prepare(small, root)]

    def _prepare(self, small: SmallRun, root: Path) -> Iterator[Prepared]:
        """The runs of all states have the same data, so their folders are copies of the first one."""
        folder = root / f"{small.suite}-finished"
        for name, text in small.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        folder.mkdir(exist_ok=True)
        with chdir(folder):
            whole = small.start(output_dir="whole")
            paid = whole.summary.spent.calls
            small.start(output_dir="twin")
            small.start()
            reading = Reading(read_report(whole), read_files(whole), read_cases(whole.folder))
        for state in ("finished", "stopped", "killed"):
            place = root / f"{small.suite}-{state}"
            if place != folder:
                shutil.copytree(folder, place)
            with chdir(place):
                if state == "stopped" and paid:
                    shutil.rmtree("out")
                    small.start(max_calls=paid // 2)
                (run,) = Path("out/assay").iterdir()
                if state == "killed":
                    (run / "summary.json").unlink()
                cases = read_cases(run)
                with RunDatabase([run]) as database:
                    in_sql = {query: database.query(query).fetch() for query in QUERIES}
            yield Prepared(small, state, place, reading, cases, paid, in_sql)


def read_report(run: assay.Run) -> Any:
    """Return the report of a run without times."""
    assert run.report is not None, run.reason
    return without_clock(msgspec.to_builtins(run.report))


def read_files(run: assay.Run) -> dict[str, Any]:
    """Return the result files by their names without times."""
    return {
        re.sub(r"\d{4}.?\d\d.?\d\d.*?(?=\.)", "DATE", path.name) + str(number): read_file(path)
        for number, path in enumerate(run.files)
    }


def read_file(path: Path) -> Any:
    """Return the content of a result file without times."""
    if path.suffix == ".jsonl":
        return [without_clock(json.loads(line)) for line in path.read_text().splitlines()]
    if path.suffix == ".json":
        return without_clock(json.loads(path.read_text()))
    return re.sub(r"\d+\.\d+", "NUMBER", path.read_text())


def read_cases(folder: Path) -> dict[int, Any]:
    """Return what `assay show` prints of each case, without times and tries."""
    cases = {}
    for stored in RunCases(folder):
        # The questions of a conversation are asked at once, so their records are in any order.
        records = sorted(
            json.dumps([record.kind, record.part, without_clock(record.data)]) for record in stored.records
        )
        scores = sorted(
            json.dumps([score.metric, score.part, score.status, score.value, score.reason]) for score in stored.scores
        )
        cases[stored.end.index] = (stored.end.case, stored.end.status, stored.end.label, records, scores)
    return cases


def without_clock(value: Any) -> Any:
    """Return a JSON value without the keys that depend on the clock."""
    if isinstance(value, dict) and "columns" in value and "rows" in value:
        kept = [number for number, name in enumerate(value["columns"]) if not _CLOCK_COLUMN.search(name)]
        return [[row[number] for number in kept] for row in (value["columns"], *value["rows"])]
    if isinstance(value, dict):
        return {key: without_clock(item) for key, item in value.items() if not _CLOCK.search(str(key))}
    if isinstance(value, (list, tuple)):
        return [without_clock(item) for item in value]
    return _STAMP.sub("DATE", value) if isinstance(value, str) else value


def same(value: Any, expected: Any, where: str = "") -> None:
    """Raise AssertionError with the first place at which two JSON values differ."""
    if isinstance(value, dict) and isinstance(expected, dict):
        for key in {**expected, **value}:
            same(value.get(key), expected.get(key), f"{where}.{key}")
    elif isinstance(value, (list, tuple)) and isinstance(expected, (list, tuple)) and len(value) == len(expected):
        for number, (item, other) in enumerate(zip(value, expected, strict=True)):
            same(item, other, f"{where}[{number}]")
    else:
        assert value == expected, f"{where}: {value!r} instead of {expected!r}"


class Damage(NamedTuple):
    """What was done to which file."""

    path: Path
    what: str


class Scenario:
    """One damaged copy of a run. Everything random in it comes from its seed."""

    def __init__(self, runs: SmallRuns, seed: int) -> None:
        self.seed = seed
        self._random = Random(seed)
        self.prepared = runs.prepared[seed % len(runs.prepared)]
        self._scratch = runs.scratch
        self.damage: list[Damage] = []

    def __str__(self) -> str:
        done = "; ".join(f"{damage.what} in {damage.path}" for damage in self.damage)
        return f"scenario {self.seed}: {self.prepared.small.suite}, {self.prepared.state}: {done}"

    def play(self) -> str:
        """Return how the damage was treated: "named" or "harmless". Raises AssertionError if it was believed."""
        shutil.rmtree(self._scratch, ignore_errors=True)
        shutil.copytree(self.prepared.folder, self._scratch)
        with chdir(self._scratch), _alarm(STUCK_SECONDS):
            (self.run,) = Path("out/assay").iterdir()
            if self.seed % 2:
                forget_sidecars(self.run)
            self.spoil()
            named = self._read()
            self._continue()
        return "named" if named else "harmless"

    # Reading

    def _read(self) -> bool:
        """Read the damaged run in every way. Returns whether a reader named the damage."""
        named = False
        # A reader that finds damage removes the index. So SQL is the first reader in some of the scenarios.
        if self.seed % 4 == 0:
            named = self._reads(self._ask_in_sql)
        check: RunCheck | None = None
        if self.run.is_dir():
            check = check_run(self.run)
            named = named or bool([problem for problem in check.problems if problem.level != "advice"])
        listed = [state for state in states(Path("out")) if state.folder == self.run]
        assert listed, "assay runs hides the run"
        named = named or bool(listed[0].problem)
        named = self._reads(self._show) or named
        named = self._reads(self._compare) or named
        named = self._reads(self._ask_in_sql) or named
        if self.prepared.state == "finished" and listed[0].state == "finished":
            summary = listed[0].summary
            assert summary is not None
            assert summary.report is not None
            expected = [entry["metrics"] for entry in self.prepared.reading.report["entries"] if "metrics" in entry]
            listed_metrics = [entry.metrics for entry in summary.report.entries if entry.metrics]
            same(without_clock(msgspec.to_builtins(listed_metrics)), expected, "runs")
        return named

    def _reads(self, read: Callable[[], None]) -> bool:
        """Call a reader. Returns True if it refused the run with a sentence."""
        try:
            read()
        except AssayError as error:
            return bool(str(error))
        return False

    def _show(self) -> None:
        run = assay.load(self.run)
        if run.report is not None:
            same(read_report(run), self.prepared.reading.report, "report")
        cases = read_cases(self.run)
        if run.summary.state == "finished":
            same(cases, self.prepared.unfinished_cases, "cases")
        for index, shown in cases.items():
            known = self.prepared.unfinished_cases.get(index)
            # A score that was lost at the end of a file has not happened yet.
            assert known is not None
            assert shown[:4] == known[:4]
            assert [score for score in shown[4] if score not in known[4]] == []

    def _compare(self) -> None:
        if self.prepared.small.suite == "calibration":
            return
        result = assay.compare(*Path("twin/assay").iterdir(), self.run)
        for comparison in result.comparisons:
            assert all(row.difference in (0, None) for row in comparison.rows), result
            assert comparison.only_base.count == comparison.only_new.count == 0

    def _ask_in_sql(self) -> None:
        warnings: list[str] = []
        with RunDatabase([self.run], warnings.append) as database:
            for query, known in self.prepared.in_sql.items():
                rows = database.query(query).fetch()
                added = Counter(rows) - Counter(known)
                assert not added, f"{query}: {added}"
                # An unfinished run whose file ends early is an interrupted run.
                if self.prepared.state == "finished" and not warnings:
                    same(rows, known, query)

    # Continuing

    def _continue(self) -> None:
        """Repeat the command; if it is refused, do what its message says. The run ends as if nothing had happened."""
        start = self.prepared.small.start
        logged = self._logged_calls()
        try:
            run = start()
        except AssayError as error:
            run = self._heeding(str(error))
        expected = self.prepared.reading
        assert run.summary.state == "finished", run.reason
        paid = run.summary.this_start.get("paid", 0) if run.asked else 0
        assert paid <= self.prepared.paid - logged, f"{paid} calls, although {logged} replies were intact"
        same(read_report(run), expected.report, "report")
        changed = {damage.path.name for damage in self.damage}
        if not changed & {path.name for path in run.files}:
            same(read_files(run), expected.files, "files")
        same(read_cases(run.folder), expected.cases, "cases")
        problems = [str(problem) for problem in check_run(run.folder).problems if problem.level == "error"]
        assert not [text for text in problems if "changed after the run" not in text], problems

    def _heeding(self, message: str) -> assay.Run:
        """Do what the message of a refused start says, and start again."""
        options: dict[str, Any] = {}
        for _ in range(len(JOURNAL) + 1):
            if "--fresh --reuse" in message:
                options |= {"fresh": True, "reuse": str(self.run)}
            elif "another --output-dir" in message:
                options |= {"output_dir": "elsewhere", "reuse": str(self.run)}
            else:
                assert "delete this one" in message, message
                Path(message.partition(":")[0]).unlink()
            try:
                return self.prepared.small.start(**options)
            except AssayError as error:
                message = str(error)
        raise AssertionError(message)

    def _logged_calls(self) -> int:
        """Return the number of replies that are intact in the damaged run."""
        path = self.run / "calls.jsonl"
        if not path.is_file() or not (self.run / "run.json").is_file():
            return 0
        match = re.search(rb'"id": "([0-9a-f]*)"', (self.prepared.folder / self.run / "run.json").read_bytes())
        assert match is not None
        start = checksum_seed(match[1].decode(), "calls")
        lines = {unchanged_line(line, start) for line in path.read_bytes().split(b"\n")[:-1]}
        return sum(b'"response"' in line.content for line in lines if line is not None)

    # Damage

    def spoil(self) -> None:
        """Damage one file of the run, sometimes two."""
        for _ in range(self._random.choice((1, 1, 1, 1, 2))):
            files = sorted(path for path in self.run.rglob("*") if path.is_file() and path.name != "lock")
            path = self._random.choice(files)
            # The journal is what matters most, and a run folder has many small files besides.
            if self._random.random() < 0.4:
                path = self.run / self._random.choice(JOURNAL)
            if not path.is_file():
                continue
            ways = [*BYTE_DAMAGE, *(LINE_DAMAGE if path.suffix == ".jsonl" else ()), *FILE_DAMAGE]
            way = self._random.choice(ways)
            if self.seed % 8 == 0:
                # What only SQL could believe: a number in a line that the index covers.
                path, way = self.run / "scores.jsonl", change_a_digit
            before = path.read_bytes()
            way(self._random, path)
            if not path.is_file() or path.read_bytes() != before:
                self.damage.append(Damage(path.relative_to(self.run), way.__name__))


# Ways to damage a file. Each gets a source of randomness and the path; the name says what it does.


def flip_bytes(random: Random, path: Path) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(random.choice((1, 1, 2, 8))):
        if content:
            content[random.randrange(len(content))] ^= random.randrange(1, 256)
    path.write_bytes(content)


def change_a_digit(random: Random, path: Path) -> None:
    content = path.read_bytes()
    places = [match.start() for match in re.finditer(rb"\d", content)]
    if places:
        place = random.choice(places)
        digit = b"%d" % ((int(content[place : place + 1]) + random.randrange(1, 10)) % 10)
        path.write_bytes(content[:place] + digit + content[place + 1 :])


def cut_off(random: Random, path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: random.randrange(len(content) + 1)])


def cut_out(random: Random, path: Path) -> None:
    content = path.read_bytes()
    begin = random.randrange(len(content) + 1)
    path.write_bytes(content[:begin] + content[begin + random.randrange(1, 300) :])


def zero_a_block(random: Random, path: Path) -> None:
    content = path.read_bytes()
    begin = random.randrange(len(content) + 1)
    size = min(random.randrange(1, 600), len(content) - begin)
    path.write_bytes(content[:begin] + bytes(size) + content[begin + size :])


def insert_bytes(random: Random, path: Path) -> None:
    content = path.read_bytes()
    begin = random.randrange(len(content) + 1)
    path.write_bytes(content[:begin] + random.randbytes(random.randrange(1, 40)) + content[begin:])


def append_bytes(random: Random, path: Path) -> None:
    path.write_bytes(path.read_bytes() + random.choice((b"\n", b"}\n", b"\0" * 50, b"{}\n", b'{"type":"score"')))


def exchange_blocks(random: Random, path: Path) -> None:
    content = path.read_bytes()
    size = random.randrange(1, 40)
    if len(content) > 2 * size:
        first = random.randrange(len(content) - 2 * size + 1)
        second = random.randrange(first + size, len(content) - size + 1)
        parts = (content[:first], content[second : second + size], content[first + size : second])
        path.write_bytes(b"".join(parts) + content[first : first + size] + content[second + size :])


def write_windows_line_breaks(random: Random, path: Path) -> None:
    del random
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


def _change_lines(path: Path, change: Callable[[list[bytes]], object]) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    if lines:
        change(lines)
        path.write_bytes(b"".join(lines))


def double_a_line(random: Random, path: Path) -> None:
    _change_lines(path, lambda lines: lines.insert(random.randrange(len(lines)) + 1, random.choice(lines)))


def remove_a_line(random: Random, path: Path) -> None:
    _change_lines(path, lambda lines: lines.pop(random.randrange(len(lines))))


def remove_last_lines(random: Random, path: Path) -> None:
    def cut(lines: list[bytes]) -> None:
        del lines[random.randrange(len(lines)) :]

    _change_lines(path, cut)


def move_a_line(random: Random, path: Path) -> None:
    _change_lines(
        path,
        lambda lines: lines.insert(random.randrange(len(lines)), lines.pop(random.randrange(len(lines)))),
    )


def shuffle_lines(random: Random, path: Path) -> None:
    _change_lines(path, random.shuffle)


def take_a_line_of_the_twin(random: Random, path: Path) -> None:
    (twin,) = Path("twin/assay").iterdir()
    other = random.choice(sorted(twin.glob("*.jsonl"))).read_bytes().splitlines(keepends=True)

    def replace_line(lines: list[bytes]) -> None:
        lines[random.randrange(len(lines))] = random.choice(other)

    _change_lines(path, replace_line)


def empty_the_file(random: Random, path: Path) -> None:
    del random
    path.write_bytes(b"")


def delete_the_file(random: Random, path: Path) -> None:
    del random
    path.unlink()


def take_the_file_of_the_twin(random: Random, path: Path) -> None:
    del random
    (twin,) = Path("twin/assay").iterdir()
    if (twin / path.name).is_file():
        shutil.copyfile(twin / path.name, path)


def exchange_files(random: Random, path: Path) -> None:
    others = [other for other in path.parent.iterdir() if other.is_file() and other not in (path, path.parent / "lock")]
    if others:
        other = random.choice(sorted(others))
        content = path.read_bytes()
        path.write_bytes(other.read_bytes())
        other.write_bytes(content)


BYTE_DAMAGE = (
    flip_bytes,
    flip_bytes,
    change_a_digit,
    cut_off,
    cut_out,
    zero_a_block,
    insert_bytes,
    append_bytes,
    exchange_blocks,
    write_windows_line_breaks,
)
LINE_DAMAGE = (
    double_a_line,
    remove_a_line,
    remove_last_lines,
    move_a_line,
    shuffle_lines,
    take_a_line_of_the_twin,
)
FILE_DAMAGE = (empty_the_file, delete_the_file, take_the_file_of_the_twin, exchange_files)


@contextmanager
def _alarm(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in the main thread if the block takes longer."""

    def ring(_: int, __: FrameType | None) -> None:
        raise TimeoutError(f"stuck for {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
