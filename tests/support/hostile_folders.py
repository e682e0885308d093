"""Run folders of somebody who wants harm, and every command that reads them, for tests/cli/test_hostile_run_folder.py.

    python -m support.hostile_folders KIND WORK     # prints what went wrong, one line each; nothing if all is well

The process limits its own memory, so that a reader of /dev/zero ends. Its parent bounds the time.
"""

from __future__ import annotations

import asyncio
import io
import os
import pty
import re
import resource
import shutil
import socket
import stat
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import assay
from assay.cli.main import COMMANDS, RUN_CODE, main
from assay.core.errors import AssayError
from assay.core.shard import Shard
from assay.journal.earlier import EARLIER
from assay.journal.folder import RUN_FILES
from assay.journal.run_files import RunInfo, read_info, write_info
from assay.runner import api
from assay.runner.rescore import rescore
from assay.store.sql import RunDatabase
from assay.store.sql.places import find_places
from assay.view.server import ROUTES

from support.view_runs import memory_test_run, task_run
from support.web import view_of

MEMORY_BYTES = 3 << 30
SECRET = "the content of a file outside of the run folder"

# Commands that read no run. A new command stands here or has words in `READERS`.
READ_NO_RUN = frozenset({"init", "run", "completion", "schema", "models", "doctor", "convert"})
READERS: Mapping[str, list[list[str]]] = {
    "rerun": [["rerun", "RUN"]],
    "rescore": [["rescore", "RUN"]],
    "merge": [["merge", "RUN", "--output-dir", "OUT"]],
    "runs": [["runs", "RUN"]],
    "view": [],  # see `pages`
    "report": [["report", "RUN", "--output", "OUT.html"]],
    "note": [["note", "RUN", "text"]],
    "show": [
        ["show", "RUN"],
        ["show", "RUN", "@0"],
        ["show", "RUN", "@0", "--question", "1"],
        ["show", "RUN", "--search", "a"],
    ],
    "sql": [],  # see `python` and `sql`: the command starts a process
    "label": [["label", "RUN"]],
    "diff": [["diff", "RUN", "@0", "@1"]],
    "compare": [["compare", "RUN", "GOOD"]],
    "gate": [["gate", "RUN", "--require", "exact_match >= 0"]],
    "power": [["power", "--run", "RUN", "--effect", "0.1"]],
    "import": [["import", "RUN", "--output-dir", "OUT"]],
    "export": [["export", "RUN", "--to", "csv", "--output", "OUT.csv"]],
    "check": [["check", "RUN"]],
}
"""The words of every command that reads a run. RUN is the hostile folder, GOOD another one, OUT a new place."""

QUERY = "select count(*) from scores"
EXTRA_FILES = (".summary.json.tmp", ".room", EARLIER, f"{EARLIER}/1/summary.json", "damaged")


def _socket(path: Path, _: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the address of a socket is short
    with socket.socket(socket.AF_UNIX) as each:
        each.bind(path.name)
    os.chdir(here)


ENTRIES: Mapping[str, Callable[[Path, Path], None]] = {
    "pipe": lambda path, _: os.mkfifo(path),
    "link to an endless device": lambda path, _: path.symlink_to("/dev/zero"),
    "link to a file outside": lambda path, outside: path.symlink_to(outside),
    "device": lambda path, _: os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5)),
    "folder": lambda path, _: path.mkdir(),
    "socket": _socket,
}
"""What a hostile folder may have in place of a file. A device is /dev/zero; only root can make one."""


class Readers:
    """Runs every reader on a folder and collects what went wrong."""

    def __init__(self, work: Path, good: Path) -> None:
        self.problems: list[str] = []
        self.texts: list[str] = []
        self._work = work
        self._good = good
        self._outputs = 0

    def commands(self, run: Path, about: str, named: str = "", without: frozenset[str] = frozenset()) -> None:
        """Type every command. Each must end with an exit code and without a traceback. `check` must say `named`."""
        for command, lines in READERS.items():
            for words in lines if command not in without else ():
                self._outputs += 1
                names = {"RUN": str(run), "GOOD": str(self._good), "OUT": f"{self._work}/out{self._outputs}"}
                line = [_filled(word, names) for word in words]
                code, text = typed(line)
                self.texts.append(text)
                if code not in (0, 1, 2, 3, 4):
                    self.problems.append(f"{about}: assay {' '.join(words)} ended with {code}: {text[-1500:]}")
                if command == "check" and named and f"/{named}: is " not in text:
                    self.problems.append(f"{about}: assay check does not name it: {text}")

    def python(self, run: Path, about: str) -> None:
        """Read the run as a Python program does."""
        for name, read in (
            ("load", lambda: list(assay.load(run).cases())),
            ("compare", lambda: assay.compare(run, self._good)),
            ("gate", lambda: assay.gate(run, "exact_match >= 0")),
            ("rescore", lambda: rescore(str(run))),
            ("sql", lambda: read_in_sql(run)),
            ("suite", lambda: api.suite_pages(read_info(run).suite)),
        ):
            try:
                read()
            except AssayError:
                pass
            except Exception:  # noqa: BLE001 - any other exception is the finding
                self.problems.append(f"{about}: assay.{name}: {traceback.format_exc()[-1500:]}")

    def sql(self, root: Path) -> None:
        """Type `assay sql` for all runs below a folder."""
        code, text = typed(["sql", QUERY, str(root)])
        self.texts.append(text)
        if code not in (0, 2):
            self.problems.append(f"assay sql ended with {code}: {text[-1500:]}")

    def pages(self, root: Path, runs: list[Path]) -> None:
        """Open every page of the view that shows a run, and the list of runs. None may answer 500."""
        asyncio.run(self._visit(root, runs))

    async def _visit(self, root: Path, runs: list[Path]) -> None:
        async with view_of(root) as client:
            addresses = ["/", "/judges"]
            for method, path, _ in ROUTES:
                if method != "GET" or "{run" not in path:
                    continue
                for run in runs:
                    address = re.sub(r"{run[^}]*}", str(run.relative_to(root)), path)
                    address = re.sub(r"{index[^}]*}+", "0", address)
                    addresses.append(address)
                    if path.startswith("/case"):
                        addresses.append(f"{address}?part=1")
                    # `show --search` searches every run. The page starts a process, which does the same.
                    if path.startswith("/search") and run == runs[0]:
                        addresses.append(f"{address}?q=a")
            for address in addresses:
                response = await client.get(address)
                text = await response.text()
                self.texts.append(text)
                if response.status >= 500:
                    self.problems.append(f"page {address} answered {response.status}")


def read_in_sql(run: Path) -> None:
    """Ask a run in SQL as the process of `assay sql` does."""
    with RunDatabase(find_places([str(run)])[0]) as database:
        list(database.query(QUERY).rows())


def _filled(word: str, names: Mapping[str, str]) -> str:
    for name, value in names.items():
        word = word.replace(name, value)
    return word


def typed(words: list[str]) -> tuple[Any, str]:
    """Type a command in this process. Returns its exit code, or the traceback, and what it printed."""
    out = io.StringIO()
    with ExitStack() as stack:
        if words[0] == "label":
            stack.enter_context(_terminal())
        else:
            stack.enter_context(redirect_stdout(out))
        stack.enter_context(redirect_stderr(out))
        try:
            main(words)
        except SystemExit as end:
            return end.code, out.getvalue()
        except BaseException:  # noqa: BLE001 - it is the finding
            return "a traceback", out.getvalue() + traceback.format_exc()
    return "nothing", out.getvalue()


@contextmanager
def _terminal() -> Iterator[None]:
    """Standard input and output are a terminal at which somebody types q at every question."""
    master, slave = pty.openpty()

    def type_quit() -> None:
        while True:
            try:
                if b"right?" in os.read(master, 1 << 16):
                    os.write(master, b"q")
            except OSError:
                return

    threading.Thread(target=type_quit, daemon=True).start()
    before = sys.stdin, sys.stdout
    with os.fdopen(slave, "r", closefd=False) as reader, os.fdopen(os.dup(slave), "w") as writer:
        sys.stdin, sys.stdout = reader, writer
        try:
            yield
        finally:
            sys.stdin, sys.stdout = before
    os.close(slave)


# Files that are no plain files.


def read_hostile_files(kind: str, work: Path) -> list[str]:
    """Put entries of one kind in place of each file of a run, read each such run in every way, and continue it."""
    outside = work / "outside"
    outside.write_text(SECRET)
    task = work / "task"
    folder = task_run(task).folder
    good = work / "good" / "assay" / folder.name
    shutil.copytree(folder, good)
    readers = Readers(work, good)
    names = sorted(RUN_FILES) + list(EXTRA_FILES)
    runs = []
    for number, name in enumerate(names):
        run = work / "runs" / str(number) / "assay" / folder.name
        shutil.copytree(folder, run)
        info = read_info(run)
        info.shard = Shard.parse("1/1")  # so that `assay merge` reads it
        write_info(run, info)
        put(run / name, kind, outside)
        runs.append(run)
        # assay makes some folders itself.
        is_damage = kind != "folder" or name in RUN_FILES
        readers.commands(run, f"file {name}", named=name if is_damage else "")
        readers.python(run, f"file {name}")
    readers.sql(work / "runs")
    readers.pages(work / "runs", runs)
    for name in names:
        readers.problems += continue_run(task, folder, name, kind, outside)
    if outside.read_text() != SECRET:
        readers.problems.append("the file outside was written")
    if any(SECRET in text for text in readers.texts):
        readers.problems.append("the file outside was shown")
    return readers.problems


def put(path: Path, kind: str, outside: Path) -> None:
    """Put an entry in place of a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    ENTRIES[kind](path, outside)


def continue_run(task: Path, folder: Path, name: str, kind: str, outside: Path) -> list[str]:
    """Repeat the run's own command, which writes. A result file is gone, so that there is something to do."""
    kept = task / "kept"
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(task / "out", kept)
    try:
        put(folder / name, kind, outside)
        for path in (task / "out").rglob("results_*.json"):
            path.unlink()
        task_run(task)
    except AssayError:
        return []
    except Exception:  # noqa: BLE001 - any other exception is the finding
        return [f"continue with {name}: {traceback.format_exc()[-1500:]}"]
    finally:
        shutil.rmtree(task / "out")
        kept.rename(task / "out")
    return []


# Code that a run names.


def hop_run(folder: Path) -> assay.Run:
    """Run a function over two rows."""
    folder.mkdir()
    (folder / "own.py").write_text("def hop(n):\n    return {'n': n}\n")
    (folder / "rows.jsonl").write_text('{"id": 1, "tag": "t", "n": 1}\n{"id": 2, "tag": "t", "n": 2}\n')
    values = {"target": f"{folder}/own.py:hop", "data": f"{folder}/rows.jsonl", "output_dir": f"{folder}/out"}
    return assay.run(assay.spec("hop", **values))


SENTINEL = "from pathlib import Path\nPath(__file__).with_name('executed').touch()\n"
CODE = SENTINEL + (
    "from assay import Suite\nclass Evil(Suite): ...\ndef load(path): return []\ndef hop(n): return n\n"
    "def make(*args): ...\ndef metric(*args): return 1\n"
)


def read_hostile_code(work: Path) -> list[str]:
    """Read runs that name a Python file in every way in which `run.json` can name one. Each has a file of its own."""
    task = task_run(work / "task").folder
    talks = memory_test_run(work / "talks").folder
    hop = hop_run(work / "hop").folder
    good = work / "good" / "assay" / task.name
    shutil.copytree(task, good)
    tasks = (work / "task" / "numbers.yaml").read_text()
    readers = Readers(work, good)
    runs = []
    for number, (name, (folder, change)) in enumerate(_code_of_runs(task, talks, hop).items()):
        run = work / "runs" / str(number) / "assay" / folder.name
        shutil.copytree(folder, run)
        evil = work / "downloads" / str(number) / "evil.py"
        evil.parent.mkdir(parents=True)
        evil.write_text(CODE)
        evil.with_suffix(".yaml").write_text(tasks.replace("exact_match", "!function evil.metric"))
        info = read_info(run)
        info.shard = Shard.parse("1/1")
        change(info, evil)
        write_info(run, info)
        runs.append(run)
        readers.commands(run, f"code, {name}", without=frozenset({"rerun"}))
        readers.python(run, f"code, {name}")
        if evil.with_name("executed").exists():
            readers.problems.append(f"{name}: a command ran the code")
    readers.sql(work / "runs")
    readers.pages(work / "runs", runs)
    if list((work / "downloads").glob("*/executed")):
        readers.problems.append("the code of a run was executed")
    return readers.problems


def _code_of_runs(task: Path, talks: Path, hop: Path) -> dict[str, tuple[Path, Callable[[RunInfo, Path], object]]]:
    """Return the ways to name code: the run to change, and the change of its `run.json`."""
    return {
        "suite": (task, lambda info, evil: setattr(info, "suite", f"{evil}:Evil")),
        "loader in options": (talks, lambda info, evil: _set_options(info, dataset=f"{evil}:load")),
        "loader in facts": (talks, lambda info, evil: _set_facts(info, dataset=f"{evil}:load")),
        "memory": (talks, lambda info, evil: _set_options(info, memory=[f"{evil}:make"])),
        "function of a task": (
            task,
            lambda info, evil: _set_options(info, tasks=[str(evil.with_suffix(".yaml"))]),
        ),
        "target of hop": (hop, lambda info, evil: _set_options(info, target=f"{evil}:hop")),
        "model": (task, lambda info, evil: info.spec.update(model=f"python/{evil}:make")),
    }


def _set_options(info: RunInfo, **values: object) -> None:
    info.spec["options"].update(values)


def _set_facts(info: RunInfo, **values: object) -> None:
    """Set facts about the data, as an imported run has them instead of options."""
    info.spec["options"].update(dict.fromkeys(values, ""))
    info.facts.update(values)


if __name__ == "__main__":
    place = Path(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    assert set(READERS) | READ_NO_RUN == set(COMMANDS), "a command is new: does it read runs?"
    assert set(COMMANDS) >= RUN_CODE
    found = read_hostile_code(place) if sys.argv[1] == "code" else read_hostile_files(sys.argv[1], place)
    print("\n".join(found))  # noqa: T201 - the test reads it
