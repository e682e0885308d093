"""BaseService: the service behind HOP's View, in the form of HOP's documents.

    service = BaseService(VIEW_CONFIG, "Tasks/Verify/Hoplet", "Tasks/Verify/TestCases", observer=observer)
    answer = await service.run_task({"claim": "…"})     # {"hop_status": "LACK_OF_INFO", "session_id": "…", …}
    answer = await service.submit_feedback(answer["session_id"], "It was in 2019.")
    await service.start_batch("verify.jsonl", workers=5)
    await service.get_batch_progress()                  # {"running": True, "completed": 3, "total": 20, …}

The batch worker of HOP's View needs no task. It calls a function for each record of a file and writes records in the
View's form, `{"input": …, "result": …}`:

    BaseService()._batch_worker("Tasks/Verify/TestCases/verify.jsonl", hop_verify)

The pages of `assay view` do not use this class.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import shutil
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from tempfile import mkdtemp
from threading import Lock
from typing import TYPE_CHECKING, Any, NotRequired, TextIO, TypedDict, overload
from uuid import uuid4

import msgspec

from assay.core.errors import AssayError, InputError, Problem, UsageError
from assay.core.events import Ended, Event
from assay.files.read import BrokenJson, Place, decode, json_lines, parse_object
from assay.suites.hop.batch_lines import (
    function_fields,
    is_meta,
    is_observer_line,
    is_pair,
    normalize_input,
    result_file_name,
    unwrap,
    view_record,
    without_results,
)
from assay.suites.hop.result import FAIL, LACK_OF_INFO, OK, UNCERTAIN, BadResult, read_result
from assay.suites.hop.store import BaseDataStore, ViewConfig
from assay.suites.hop.store.audit import read_json
from assay.suites.hop.target import CODE
from assay.suites.hop.task_folder import read_task
from assay.suites.hop.trace import HopletObserver
from assay.usercode import user_function
from assay.usercode.errors import UserCodeError
from assay.view.hop.history import RecordCount, count_records

if TYPE_CHECKING:
    from assay.runner.runner import Runner
    from assay.view.hop.round import HopRounds, RoundResult

_TEST_CASES = "TestCases"
_BUSY = "a batch is already running. Wait until it ends"
_encode = msgspec.json.Encoder().encode


CONFIRMED, CANCELLED = "CONFIRMED", "CANCELLED"
"""Statuses of a session that only a person gives. The function never returns them."""
# HOP's documents ask for English and Chinese.
_CONFIRM_PREFIXES = ("confirm", "ok", "确认", "好的", "可以")
_MAX_SESSIONS = 50
"""Sessions that wait for feedback or a retry. The oldest is forgotten."""
_FRONTEND_LOG = "frontend-debug.jsonl"
_NO_WINDOW = (
    "assay has no window of its own for a View. Run `assay view --open` in the project's folder: it has the pages Run, "
    "Batch, History, Stats and Perf of every task"
)


class BatchState(TypedDict):
    """Progress of a batch. The page polls it every second. `completed` counts rows that have run."""

    running: bool
    completed: int
    total: int
    errors: int
    output_file: str | None
    error: NotRequired[str]
    """Why the batch stopped before its end."""


class _Session:
    """One input of the function, and what a person said to its results."""

    def __init__(self, session_id: str, input_data: dict[str, Any]) -> None:
        self.id = session_id
        self.input_data = input_data
        self.scratch = Path(mkdtemp(prefix="assay-hop-"))
        # Also at the end of the program: a session may wait for feedback for ever.
        self.remove_scratch = weakref.finalize(self, shutil.rmtree, self.scratch, ignore_errors=True)
        self.rounds: HopRounds | None = None
        self.work: asyncio.Task[RoundResult] | None = None
        self.feedback: list[str] = []
        self.iteration = 0
        self.retries = 0
        self.status = ""
        """The status of the newest result; empty while the function runs."""
        self.answer: dict[str, Any] = {}


class BaseService:
    """Calls the function of a task for people: single runs with feedback, batches, results and numbers.

    Methods take and return plain values, and raise nothing for a wrong name or a function that fails: the answer then
    has an `error`. One batch runs at a time. `state` is its progress.

    `profile` is the name of the profile to use, by default the first of the settings. The batch worker writes it into
    each record, so that statistics can tell profiles apart. Without a profile, a record has only the two keys of HOP's
    documents.
    """

    def __init__(
        self,
        config: ViewConfig | None = None,
        hoplet_dir: Path | str = "",
        testcases_dir: Path | str = "",
        observer: HopletObserver | None = None,
        *,
        profile: str | None = None,
    ) -> None:
        self.config = config or ViewConfig()
        self.hoplet_dir = str(hoplet_dir)
        self.testcases_dir = str(testcases_dir)
        self.observer = observer
        self.datastore = BaseDataStore(
            self.config, self.testcases_dir, observer.log_path if observer is not None else None
        )
        self.profile = profile
        self.state = BatchState(running=False, completed=0, total=0, errors=0, output_file=None)
        self.left_out: list[int] = []
        """Lines of the last file that have no input: meta lines, lines of a log, bare pairs."""
        self._busy = Lock()
        self._sessions: dict[str, _Session] = {}
        self._batch: asyncio.Task[None] | None = None

    # Single runs.

    async def run_task(self, input_data: dict[str, Any]) -> dict[str, Any]:
        """Call the function. Returns its output with `session_id`, `hop_status` and `iteration`.

        An exception of the function is `hop_status` FAIL with an `error`.
        """
        session = _Session(str(uuid4()), input_data)
        self._sessions[session.id] = session
        while len(self._sessions) > _MAX_SESSIONS:
            await self._forget(next(iter(self._sessions.values())))
        return await self._call(session)

    async def submit_feedback(self, session_id: str, feedback: str) -> dict[str, Any]:
        """Call the function again with a person's feedback to LACK_OF_INFO or UNCERTAIN.

        Feedback to UNCERTAIN that begins with a word of consent, such as "confirm", takes the result as it is: the
        answer is the same with `hop_status` CONFIRMED.
        """
        session = self._sessions.get(session_id)
        if session is None or session.status not in (LACK_OF_INFO, UNCERTAIN):
            return {"error": f"no run with the session {session_id!r} waits for feedback"}
        if session.status == UNCERTAIN and self._is_confirmation(feedback):
            await self._forget(session)
            return {**session.answer, "hop_status": CONFIRMED}
        if len(session.feedback) >= self.config.max_feedback_rounds:
            return {"error": f"there were {len(session.feedback)} rounds of feedback, the most that are allowed"}
        session.feedback.append(feedback)
        return await self._call(session)

    async def retry_task(self, session_id: str) -> dict[str, Any]:
        """Call the function again with the same input, after a FAIL."""
        session = self._sessions.get(session_id)
        if session is None or session.status != FAIL:
            return {"error": f"no run with the session {session_id!r} has failed"}
        if self.config.retry_quota is not None and session.retries >= self.config.retry_quota:
            return {"error": f"there were {session.retries} retries, the most that are allowed"}
        session.retries += 1
        session.feedback.clear()
        return await self._call(session)

    async def cancel_task(self, session_id: str) -> dict[str, Any]:
        """Stop a call that runs. Its own answer then has the `hop_status` CANCELLED, too."""
        session = self._sessions.get(session_id)
        if session is None:
            return {"error": f"there is no run with the session {session_id!r}"}
        session.status = CANCELLED
        # The first one lets calls in flight end, the second one does not.
        for _ in range(2):
            if session.work is not None:
                session.work.cancel()
                await asyncio.sleep(0)
        await self._forget(session)
        return {"session_id": session_id, "hop_status": CANCELLED}

    @staticmethod
    def _is_confirmation(text: str) -> bool:
        """Return whether feedback begins with a word of consent. More words may follow."""
        return text.strip().lower().startswith(_CONFIRM_PREFIXES)

    async def _call(self, session: _Session) -> dict[str, Any]:
        from assay.view.hop.round import ERROR, RoundRequest

        session.iteration += 1
        session.status = ""
        if session.rounds is None:
            session.rounds = self._open_rounds(session.scratch / str(session.iteration))
        request = RoundRequest(session.input_data, list(session.feedback))
        session.work = asyncio.create_task(session.rounds.run(request))
        await asyncio.wait([session.work])
        facts: dict[str, Any] = {"session_id": session.id, "iteration": session.iteration}
        if session.status == CANCELLED or session.work.cancelled():
            return {**facts, "hop_status": CANCELLED}
        result = session.work.result()
        session.status = FAIL if result.status == ERROR else result.status
        output = msgspec.json.decode(result.result) if result.result else {}
        output = output if isinstance(output, dict) else {"result": output}
        session.answer = {**output, **facts, "hop_status": session.status}
        if result.error:
            session.answer["error"] = result.error
        if session.status == FAIL:
            await self._close(session)  # the input is kept for a retry
        elif session.status == OK:
            await self._forget(session)
        return session.answer

    def _open_rounds(self, scratch: Path) -> HopRounds:
        from assay.view.hop.round import HopRounds

        task = Path(self.hoplet_dir).parent
        return HopRounds(task, self._run_profile(), scratch, target=self._function(), observer=self.observer)

    def _function(self) -> str:
        function = f":{self.config.hop_func_name}" if self.config.hop_func_name else ""
        return f"{Path(self.hoplet_dir) / CODE}{function}"

    def _run_profile(self) -> str:
        profiles = read_task(Path(self.hoplet_dir).parent).profiles
        return self.profile or (profiles[0].name if profiles else "")

    async def _forget(self, session: _Session) -> None:
        self._sessions.pop(session.id, None)
        await self._close(session)
        session.remove_scratch()

    async def _close(self, session: _Session) -> None:
        if session.rounds is not None:
            rounds, session.rounds = session.rounds, None
            await rounds.close()

    # Batches.

    async def list_test_files(self) -> list[dict[str, Any]]:
        """Return name, size and number of records of each JSONL file in `TestCases/` that is no log."""
        return [
            {"name": path.name, "size": path.stat().st_size, "records": count.records}
            for path, count in self._files()
            if not count.is_log
        ]

    async def start_batch(self, filename: str, workers: int = 5) -> dict[str, Any]:
        """Start a batch over a file in `TestCases/`, as `assay hop --wrapper view` does, and return at once.

        Returns `{"status": "started", "total": …}`, or `{"error": …}`.
        """
        from assay.runner import api
        from assay.runner.opening import open_run

        if self.state["running"]:
            return {"error": _BUSY}
        path = self._file(filename)
        if path is None:
            return {"error": f"there is no file {filename!r} in {self.testcases_dir}"}
        try:
            profile = self._run_profile()
            spec = api.spec(
                "hop",
                target=self._function(),
                data=str(path),
                profiles=[profile] if profile else [],
                output_dir=self.testcases_dir,
                wrapper="view",
                workers=workers,
                fresh=True,
            )
            runner = open_run(spec, [self._count])
            total = runner.suite.total(runner.suite.rows())
        except AssayError as error:
            return {"error": str(error)}
        self.state = BatchState(running=True, completed=0, total=total, errors=0, output_file=None)
        self._batch = asyncio.create_task(self._run_batch(runner))
        return {"status": "started", "total": total}

    async def get_batch_progress(self) -> dict[str, Any]:
        """Return the progress of the batch: `running`, `completed`, `total`, `errors`, `output_file`.

        A batch that stopped before its end also has an `error`; `assay hop` with the same file continues it.
        """
        return {**self.state, "output_file": self.state["output_file"] or ""}

    def _count(self, event: Event) -> None:
        if isinstance(event, Ended):
            self.state["completed"] += 1
            self.state["errors"] += event.end.status != "ok"

    async def _run_batch(self, runner: Runner) -> None:
        try:
            run = await runner.start_or_show()
            self.state["output_file"] = str(run.files[0]) if run.files else None
            if run.reason:
                self.state["error"] = run.reason
        except AssayError as error:
            self.state["error"] = str(error)
        finally:
            self.state["running"] = False

    # Results and numbers.

    async def list_results(self) -> list[dict[str, Any]]:
        """Return name, size and time of each file in `TestCases/` that has results, the newest first."""
        files = [path for path, count in self._files() if count.results]
        listed = [(path.stat(), path.name) for path in files]
        listed.sort(key=lambda each: (-each[0].st_mtime, each[1]))
        return [{"name": name, "size": stat.st_size, "mtime": stat.st_mtime} for stat, name in listed]

    async def load_result(self, filename: str) -> list[Any] | dict[str, Any]:
        """Return the records of a file in `TestCases/`, meta lines too, or `{"error": …}`. Torn lines are left out."""
        path = self._file(filename)
        if path is None:
            return {"error": f"there is no file {filename!r} in {self.testcases_dir}"}
        records = []
        for line in json_lines(path):
            with suppress(ValueError, RecursionError):
                records.append(read_json(line.raw))
        return records

    async def get_stats(self, profile: str | None = None) -> dict[str, Any]:
        """Return the statistics of all results in `TestCases/`: see `BaseDataStore.get_stats`. Or `{"error": …}`."""
        try:
            self.datastore.load_results()
            return self.datastore.get_stats(profile)
        except AssayError as error:
            return {"error": str(error)}

    async def get_perf_summary(self) -> dict[str, Any]:
        """Return durations of the observer's log: see `BaseDataStore.get_perf_summary`. Or `{"error": …}`."""
        try:
            self.datastore.load_results()
            return self.datastore.get_perf_summary()
        except AssayError as error:
            return {"error": str(error)}

    def log_frontend(self, entry: dict[str, Any]) -> None:
        """Append an entry to `TestCases/frontend-debug.jsonl`. A log that cannot be written raises nothing."""
        with suppress(OSError, TypeError, ValueError):
            line = json.dumps(entry, ensure_ascii=False)
            with (Path(self.testcases_dir) / _FRONTEND_LOG).open("a", encoding="utf-8") as file:
                file.write(line + "\n")

    def _files(self) -> list[tuple[Path, RecordCount]]:
        paths = sorted(Path(self.testcases_dir).glob("*.jsonl"))
        return [(path, count_records(path)) for path in paths if path.is_file() and path.name[0] != "."]

    def _file(self, name: str) -> Path | None:
        """Return the file of this name in `TestCases/`; None for other paths and files that do not exist."""
        path = Path(self.testcases_dir) / name
        return path if path.name == name and path.is_file() else None

    # The batch worker.

    @staticmethod
    def _normalize_input(rec: dict[str, Any]) -> dict[str, Any]:
        """Return the input of a View record; any other record unchanged. Removes one wrapper only."""
        return normalize_input(rec)

    @overload
    def _batch_worker(
        self,
        source: Path | str,
        hop_func: Callable[[dict[str, Any]], Any],
        inputs: Collection[str] = (),
        output_file: str | None = None,
    ) -> list[dict[str, Any]]: ...

    @overload
    def _batch_worker(
        self,
        source: Iterable[dict[str, Any]],
        hop_func: Callable[[dict[str, Any]], Any],
        inputs: Collection[str] = (),
        output_file: str | None = None,
    ) -> Iterator[dict[str, Any]]: ...

    def _batch_worker(
        self,
        source: Path | str | Iterable[dict[str, Any]],
        hop_func: Callable[[dict[str, Any]], Any],
        inputs: Collection[str] = (),
        output_file: str | None = None,
    ) -> list[dict[str, Any]] | Iterator[dict[str, Any]]:
        """Run a sync or async function on every record of a file or an iterable. Returns View records.

        For a file the whole batch runs, and each record is written when it is done: to `output_file`, else to
        `<stem>_<time>_view.jsonl` in the `TestCases/` of the file. A file with a line that is not JSON is refused with
        every such line, and `left_out` has the lines without an input. Records of an iterable run as the result is
        iterated, and are written nowhere.

        Wrappers of earlier batches are removed first, so that output files can be input again. Records without an
        input do not run. The function gets neither results of earlier batches nor `expected_*` keys. `inputs` are the
        contract's fields.
        """
        if isinstance(source, (str, Path)):
            return self._run_file(Path(source), hop_func, inputs, output_file)
        return self._run_records(source, hop_func, inputs, output_file)

    def _run_file(
        self,
        path: Path,
        hop_func: Callable[[dict[str, Any]], Any],
        inputs: Collection[str],
        output_file: str | None,
    ) -> list[dict[str, Any]]:
        records, left_out = _read_records(path)
        if self._busy.locked():
            raise UsageError(_BUSY)
        self.left_out = left_out
        with _open_output(path, output_file) as file:
            view_records = []
            for record in self._run_records(records, hop_func, inputs, file.name):
                # Flushed line by line: what ran is kept if the process ends, and the page can show it.
                file.write(msgspec.json.format(_encode(record), indent=0).decode() + "\n")
                file.flush()
                view_records.append(record)
        return view_records

    def _run_records(
        self,
        records: Iterable[dict[str, Any]],
        function: Callable[[dict[str, Any]], Any],
        inputs: Collection[str],
        output_file: str | None,
    ) -> Iterator[dict[str, Any]]:
        if not self._busy.acquire(blocking=False):
            raise UsageError(_BUSY)
        try:
            total = sum(map(_is_input, records)) if isinstance(records, Sequence) else 0
            self.state |= BatchState(running=True, completed=0, total=total, errors=0, output_file=output_file)
            with asyncio.Runner() as runner:
                for record in filter(_is_input, records):
                    yield self._run_record(record, function, inputs, runner)
        finally:
            self.state["running"] = False
            self._busy.release()

    def _run_record(
        self,
        record: dict[str, Any],
        function: Callable[[dict[str, Any]], Any],
        inputs: Collection[str],
        runner: asyncio.Runner,
    ) -> dict[str, Any]:
        row = record
        try:
            row = without_results(unwrap(record, inputs, self._normalize_input), inputs)
            fields = deepcopy(function_fields(row, inputs))  # the function may change its copy; `row` is written
            value = user_function.call_here(function, (fields,))
            if inspect.isawaitable(value):
                value = runner.run(user_function.call(_await, (value,)))
            done = view_record(row, result=read_result(value).file_text)
        except Exception as error:  # noqa: BLE001 - one bad row must not stop a batch
            self.state["errors"] += 1
            message = str(error) if isinstance(error, BadResult) else UserCodeError.of(error).message
            done = view_record(row, error=message)
        if self.profile is not None:
            done["profile"] = self.profile
        self.state["completed"] += 1
        self.state["total"] = max(self.state["total"], self.state["completed"])
        return done


def _read_records(path: Path) -> tuple[list[dict[str, Any]], list[int]]:
    """Return the records of a file that have an input, and the numbers of the other lines.

    Raises InputError with every line that is neither an object nor a bare pair.
    """
    problems: list[Problem] = []
    records: list[dict[str, Any]] = []
    left_out: list[int] = []
    for line in json_lines(path):
        if line.raw[:1] == b"[" and is_pair(_decode_list(line.raw)):
            left_out.append(line.number)  # a result without its input: nothing to run
            continue
        record = parse_object(line.raw, Place(path, line.number), problems)
        if record is not None and _is_input(record):
            records.append(record)
        elif record is not None:
            left_out.append(line.number)
    if problems:
        raise InputError(problems)
    return records, left_out


def _decode_list(raw: bytes) -> Any:
    try:
        return decode(raw)
    except BrokenJson:
        return None  # `parse_object` says what is wrong with the line


def _open_output(data: Path, output_file: str | None) -> TextIO:
    """Open the result file: the named one, or a new one in the `TestCases/` of the data, else beside the data."""
    if output_file is not None:
        return Path(output_file).open("w", encoding="utf-8")
    folder = data.parent / _TEST_CASES if (data.parent / _TEST_CASES).is_dir() else data.parent
    started = time.time()
    while True:
        try:
            return (folder / result_file_name(data, started, view=True)).open("x", encoding="utf-8")
        except FileExistsError:
            started += 1  # names have whole seconds, and an earlier batch has this one


def _is_input(record: dict[str, Any]) -> bool:
    """Return whether a record has an input. Meta lines, observer lines and bare pairs have none, even if wrapped."""
    if is_pair(record):
        return False
    try:
        inner = unwrap(record)
    except ValueError:
        return True
    return not (is_meta(inner) or is_observer_line(inner))


async def _await(value: Any) -> Any:
    return await value


def create_pywebview_app(
    config: ViewConfig, service: BaseService, view_dir: Path | str, debug: bool | None = None
) -> None:
    """Raise UsageError: `assay view` takes the place of HOP's window."""
    raise UsageError(_NO_WINDOW)


def create_fastapi_app(
    config: ViewConfig, service: BaseService, view_dir: Path | str, debug: bool | None = None
) -> None:
    """Raise UsageError: `assay view` takes the place of HOP's server."""
    raise UsageError(_NO_WINDOW)
