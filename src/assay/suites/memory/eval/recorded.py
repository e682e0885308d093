"""`--eval-only`: reads the two pipeline files of a memory, written by assay or by another tool.

A run that writes pipeline files also writes their hashes to `pipeline.json` in its run folder. If the hashes match, the
files are judged within that run, and its cases get further scores. Edited files and files from another tool become a
new run.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Struct, field

from assay.core.errors import DamagedRun, InputError, Problem, UsageError, unreadable
from assay.core.hashing import file_sha256, fingerprint
from assay.core.protocols import Context, Solver
from assay.core.registry import names, short
from assay.core.spec import RunSpec
from assay.core.suite import CaseContent, PlannedCalls, Row
from assay.core.types import End, Record
from assay.files.plain_files import PUBLISHED, read_plain
from assay.files.write import write_json
from assay.scoring.questions import trivial_verdict
from assay.store.runs import file_digests, run_folders, state_of
from assay.suites.memory.eval.options import MemoryEvalOptions
from assay.suites.memory.eval.result_lines import (
    FILES_SET,
    QaLine,
    SampleAnswer,
    SampleResults,
    SessionLine,
    encode,
    sample_answers,
    sample_key,
)
from assay.suites.memory.eval.sample_source import MemoryInfo, SampleLines, SampleSource
from assay.suites.memory.eval.scorers import judge_tasks
from assay.usercode.plugins import find_memory

SESSIONS, QUESTIONS = PIPELINE_FILES = "pipeline_sessions.jsonl", "pipeline_qa.jsonl"
T = TypeVar("T")


class RecordedSample(NamedTuple):
    """The data of a row."""

    sample_id: str
    memory: str = ""
    """The only memory that has this sample; empty if all memories have it."""


class RecordedSource(SampleSource):
    """The samples of the pipeline files. The gold of a case is its SampleResults.

    With `--fresh` the files become a new run even if a run of assay wrote them. That run stays unchanged.
    """

    def __init__(self, spec: RunSpec, options: MemoryEvalOptions) -> None:
        output = Path(spec.output_dir)
        self.folders = pipeline_folders(output, options.baseline)
        self._own_run = None if spec.fresh else find_own_run(output, self.folders)
        sizes: Mapping[str, Mapping[str, int]] = {}
        if self._own_run:
            # Cases are numbered by sample and memory, so the memories must have the order of that run.
            self.folders = {name: self.folders[name] for name in self._own_run.subjects}
            sizes = self._own_run.sizes
        self._files = {name: RecordedFiles(path, sizes.get(name)) for name, path in self.folders.items()}
        # A run that was stopped has left its samples in the order of their answers. They get that of the data.
        self.writes_pipeline = bool(sizes)
        self.subjects = {name: memory_named(name) for name in self.folders}
        self.roles = {}
        self.solver = RecordedSolver()

    # Identity of the run.

    def ask_identity(self) -> dict[str, Any]:
        """Return nothing: only the content of the files counts, see `data_identity`."""
        return {}

    def data_identity(self) -> Any:
        """Return the hashes of the files."""
        return self._content

    @cached_property
    def _content(self) -> dict[str, Any]:
        """The hashes of the files. Cached, because the files can be large."""
        return {"files": {name: pipeline_hashes(folder) for name, folder in self.folders.items()}}

    @property
    def gold_fingerprint(self) -> str:
        """The gold fingerprint of the run that wrote the files, or a fingerprint of the files."""
        return self._own_run.gold if self._own_run else fingerprint(self._content)

    # Rows and cases.

    @cached_property
    def _rows(self) -> RecordedRows:
        if self._own_run:
            data = self._own_run.data
            rows = [
                Row(number, key, data["set"], RecordedSample(name))
                for number, (name, key) in enumerate(data["samples"])
            ]
        else:
            rows = self._checked_rows()
        return RecordedRows(rows, self.facts)

    def _checked_rows(self) -> list[Row[RecordedSample]]:
        """Return a row for each memory and sample. Checks all lines, because another tool may have written them."""
        rows: list[Row[RecordedSample]] = []
        problems: list[Problem] = []
        for memory, files in self._files.items():
            for name in files.samples:
                lines = files.read(name)
                problems += lines.problems()
                # The key needs valid lines. After a problem the rows are not used anyway.
                if not problems:
                    rows.append(Row(len(rows), lines.key(), FILES_SET, RecordedSample(name, memory)))
        if problems:
            raise InputError(problems)
        if not rows:
            folders = ", ".join(map(str, self.folders.values()))
            raise UsageError(f"{SESSIONS} and {QUESTIONS} in {folders} have no lines.")
        return rows

    def rows(self) -> RecordedRows:
        """Return the samples of the run that wrote the files, or all samples of all files."""
        return self._rows

    def facts(self) -> dict[str, Any]:
        """Return the number of samples, the names of the memories, and the hashes of the files."""
        samples = {row.data.sample_id for row in self._rows.iterate()}
        return {"samples": len(samples), "baselines": list(self.subjects), "files": self._content}

    def judged_kinds(self) -> set[str]:
        """Return the kinds of all questions about the files that need a judge."""
        samples = (files.read(name).results() for files in self._files.values() for name in files.samples)
        tasks = (task for results in samples for task in judge_tasks(results))
        return {task.question.kind for task in tasks if trivial_verdict(task.question) is None}

    def planned_calls(self) -> list[PlannedCalls]:
        """Return nothing: memories and the answering model are not called."""
        return []

    def has(self, row: Row[RecordedSample], subject: str) -> bool:
        """Return whether a memory has a sample. Files of other tools may differ in their samples."""
        return row.data.memory in ("", subject)

    def total(self) -> int:
        """Return the number of existing pairs of a sample and a memory."""
        return self._rows.count * (len(self.subjects) if self._own_run else 1)

    def case(self, row: Row[RecordedSample], subject: str) -> CaseContent:
        """Return the results in the files as gold for the scorers. The solver has nothing to do."""
        name = row.data.sample_id
        return CaseContent(name, gold=self._files[subject].read(name).results(), label=name)

    # Rows of the files.

    def sample_results(self, gold: Any, subject: str, records: Sequence[Record]) -> SampleResults:
        """Return the results that `case` read. The records of the run are not used."""
        results: SampleResults = gold
        return results

    def answers(self, gold: Any, subject: str, records: Sequence[Record]) -> list[SampleAnswer]:
        """Return the answers in the files."""
        results: SampleResults = gold
        return sample_answers(results.questions)

    def lines(
        self, sample: RecordedSample, subject: str, end: End | None, records: Sequence[Record]
    ) -> SampleLines | None:
        """Return the unchanged lines of the files, without an existing `eval`.

        Returns None for a sample that failed in stage one: the files have no lines of it.
        """
        lines = self._files[subject].read(sample.sample_id)
        if end is None or end.status == "infra_error" or not (lines.sessions or lines.questions):
            return None
        results = lines.results()
        return SampleLines(
            results,
            _without_evals(results.sessions, lines.sessions),
            _without_evals(results.questions, lines.questions),
        )


class RecordedRows:
    """A list of rows in which keys may repeat, unlike in ListedRows.

    The same sample of two memories has the same key, and `assay compare` pairs cases by their keys.
    """

    def __init__(self, rows: Sequence[Row[RecordedSample]], facts: Callable[[], dict[str, Any]]) -> None:
        self._rows = rows
        self._facts = facts
        self.count = len(rows)

    @property
    def facts(self) -> dict[str, Any]:
        """Facts for `run.json`."""
        return self._facts()

    def iterate(self, skip: Callable[[int], bool] | None = None) -> Iterator[Row[RecordedSample]]:
        """Yield the rows in order, except those that `skip` accepts by number."""
        for row in self._rows:
            if skip is None or not skip(row.number):
                yield row


class RecordedSolver(Solver):
    """Calls no model: the files have the results of stage one."""

    async def solve(self, inputs: str, ctx: Context) -> None:
        """Emit a record that names the sample."""
        ctx.emit("imported", {"sample_id": inputs})


def memory_named(name: str) -> MemoryInfo:
    """Return the title of a built-in memory. A memory of another tool keeps the name in its files."""
    if name not in names("memory"):
        return MemoryInfo(name)
    plugin = find_memory(name)
    return MemoryInfo(plugin.title, plugin.about.reference)


# The two files of a memory.


class _AnySessionLine(SessionLine, frozen=True, kw_only=True):
    """A session line with any `eval`. An existing `eval` is ignored, because the line is judged again."""

    eval: Any = UNSET


class _AnyQaLine(QaLine, frozen=True, kw_only=True):
    """A question line with any `eval`."""

    eval: Any = UNSET


class _SampleId(Struct):
    """Decodes only the sample id of a line. The rest is decoded when the sample is judged."""

    sample_id: str


class FileLine(NamedTuple):
    """The raw bytes of a line, and its place for messages. Record files repeat these bytes."""

    where: str
    raw: bytes


class RecordedLines(NamedTuple):
    """The lines of one sample in both files."""

    sessions: list[FileLine]
    questions: list[FileLine]

    def results(self) -> SampleResults:
        """Decode the lines. Raises InputError for the first line that is not valid."""
        return SampleResults(
            [_decode(line, _AnySessionLine) for line in self.sessions],
            [_decode(line, _AnyQaLine) for line in self.questions],
        )

    def key(self) -> str:
        """Return the key of the sample, see `sample_key`."""
        return sample_key(self.results())

    def problems(self) -> list[Problem]:
        """Return a problem for each line that is not valid."""
        problems: list[Problem] = []
        for lines, kind in ((self.sessions, _AnySessionLine), (self.questions, _AnyQaLine)):
            for line in lines:
                try:
                    _decode(line, kind)
                except InputError as error:
                    problems += error.problems
        return problems


class RecordedFiles:
    """Both pipeline files of one folder. Keeps only the offsets of the lines: snapshots make the files large."""

    def __init__(self, folder: Path, sizes: Mapping[str, int] | None = None) -> None:
        """`sizes` are the bytes of each file to read. None means all."""
        self.folder = folder
        problems: list[Problem] = []
        self._sessions, self._questions = (
            _line_places(folder / name, problems, sizes[name] if sizes else None) for name in (SESSIONS, QUESTIONS)
        )
        if problems:
            raise InputError(problems)

    @property
    def samples(self) -> list[str]:
        """The sample ids in order of first appearance."""
        return list(dict.fromkeys([*self._sessions, *self._questions]))

    def read(self, sample_id: str) -> RecordedLines:
        """Return all lines of a sample from both files."""
        return RecordedLines(
            self._lines(SESSIONS, self._sessions.get(sample_id, ())),
            self._lines(QUESTIONS, self._questions.get(sample_id, ())),
        )

    def _lines(self, name: str, places: Sequence[int]) -> list[FileLine]:
        path = self.folder / name
        lines = []
        with path.open("rb") as file:
            for number, offset in zip(places[::2], places[1::2], strict=True):
                file.seek(offset)
                lines.append(FileLine(f"{path}:{number}", file.readline().strip()))
        return lines


def _line_places(path: Path, problems: list[Problem], size: int | None) -> dict[str, Sequence[int]]:
    """Return the places of each sample's lines, a flat array of line number, offset, line number, offset."""
    places: dict[str, array[int]] = {}
    decoder = msgspec.json.Decoder(_SampleId)
    offset = 0
    try:
        file = path.open("rb")
    except OSError as error:
        raise InputError(unreadable(path, error, "--eval-only needs both pipeline files")) from None
    with file:
        for number, raw in enumerate(file, 1):
            if size is not None and offset >= size:
                break
            if raw.strip():
                try:
                    sample_id = decoder.decode(raw).sample_id
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    problems.append(Problem(f"{path}:{number}", str(error)))
                else:
                    places.setdefault(sample_id, array("q")).extend((number, offset))
            offset += len(raw)
    return dict(places)


def _decode(line: FileLine, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(line.raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(Problem(line.where, str(error))) from None


def _without_evals(results: Sequence[SessionLine | QaLine], lines: Sequence[FileLine]) -> list[bytes]:
    plain = []
    for result, line in zip(results, lines, strict=True):
        raw = line.raw
        # Only lines with an eval are encoded again: encoding may change the bytes of a line.
        if result.eval is not UNSET:
            value = msgspec.json.decode(raw)
            del value["eval"]
            raw = encode(value)
        plain.append(raw)
    return plain


def pipeline_folders(output: Path, memories: Sequence[str]) -> dict[str, Path]:
    """Return the folder of each memory: the output folder itself, or a subfolder with the memory's name.

    Without `memories`, the name comes from the files in the output folder; if there are none, every subfolder with
    both files is a memory. `path/to/own.py:make` has the name `own`.
    """
    names = [short(name) for name in memories]
    if ".." in names:
        raise UsageError("--baseline: '..' is no name of a memory")
    if _has_both_files(output):
        if len(names) > 1:
            raise UsageError(f"{output} has the files of one memory, but --baseline names {len(names)}.")
        return {names[0] if names else _memory_name_in(output): output}
    names = names or sorted(path.name for path in output.glob("*") if _has_both_files(path))
    if not names:
        raise UsageError(f"{output} has no {SESSIONS} and {QUESTIONS}. Run the command without --eval-only first.")
    return {name: output / name for name in names}


def _has_both_files(folder: Path) -> bool:
    return (folder / SESSIONS).is_file() and (folder / QUESTIONS).is_file()


def _memory_name_in(folder: Path) -> str:
    """Return the memory name in the first question or item that has one; `baseline` if none has.

    Lines that cannot be read are skipped: whoever reads them all names them.
    """
    for result in _readable_lines(folder / QUESTIONS, _AnyQaLine):
        if name := str(result.retrieval.raw_trace.get("baseline", "")):
            return name
    for session in _readable_lines(folder / SESSIONS, _AnySessionLine):
        for item in session.memory_snapshot:
            if item.source:
                return item.source
    return "baseline"


def _readable_lines(path: Path, kind: type[T]) -> Iterator[T]:
    with path.open("rb") as file:
        for raw in file:
            with suppress(msgspec.DecodeError, UnicodeDecodeError):
                yield msgspec.json.decode(raw, type=kind)


# The run that wrote the files.


class WrittenFiles(Struct, omit_defaults=True):
    """The pipeline files that a run wrote: fingerprint of their gold, and sha256 by memory and file name.

    `sizes` are the bytes that the sha256 is of, in files to which the run still adds samples. Bytes behind them are
    of a sample that a kill cut off.
    """

    gold: str
    files: dict[str, dict[str, str]]
    sizes: dict[str, dict[str, int]] = field(default_factory=dict)

    def has(self, memory: str, path: Path) -> bool:
        """Return whether a file is the one that the run wrote for this memory."""
        size = self.sizes.get(memory, {}).get(path.name)
        return prefix_sha256(path, size) == self.files.get(memory, {}).get(path.name)


class OwnRun(NamedTuple):
    """The run of assay that wrote the pipeline files.

    `gold` is the fingerprint of its gold, `data` its data identity, and `subjects` are its memories in order. `sizes`
    are those of `WrittenFiles`.
    """

    folder: Path
    gold: str
    data: Mapping[str, Any]
    subjects: Sequence[str]
    sizes: Mapping[str, Mapping[str, int]]


def find_own_run(output: Path, folders: Mapping[str, Path]) -> OwnRun | None:
    """Return the newest run in the output folder that wrote exactly these files, or None.

    If the run had several memories and only one is judged now, the result is None: it is judged as a new run. Raises
    UsageError if the files match but `--baseline` has other names, because judging would be paid twice.
    """
    hashes = {name: pipeline_hashes(folder) for name, folder in folders.items()}
    for run in reversed(list(run_folders(output))):
        for written in reversed(read_written_files(run)):
            is_own = written.files == hashes
            if written.sizes and written.files.keys() == folders.keys():
                paths = [(name, folder / file) for name, folder in folders.items() for file in PIPELINE_FILES]
                is_own = all(written.has(name, path) for name, path in paths)
            if is_own:
                ask_parts = state_of(run).info.parts["ask"]
                return OwnRun(run, written.gold, ask_parts["data"], ask_parts["plan"]["subjects"], written.sizes)
            if list(written.files.values()) == list(hashes.values()):
                run_names, names = ",".join(written.files), ",".join(hashes)
                raise UsageError(
                    f"{output} has results for {run_names}, but --baseline is {names}. Pass --baseline {run_names}."
                )
    return None


def read_written_files(run: Path) -> list[WrittenFiles]:
    """Return the hashes in a run's `pipeline.json`, oldest first; an empty list if the run has no such file."""
    try:
        return msgspec.json.decode(read_plain(run / PUBLISHED), type=list[WrittenFiles])
    except (OSError, DamagedRun, msgspec.DecodeError, UnicodeDecodeError):
        return []


def add_written_files(run: Path, files: WrittenFiles) -> None:
    """Add the hashes of files that a run is about to publish to its `pipeline.json`.

    Call it before the files get their final names, so that a run that is killed in between recognises them later.
    """
    earlier = read_written_files(run)
    if files.sizes:
        earlier = [written for written in earlier if not written.sizes]  # the same files, with fewer samples
    if files not in earlier:
        write_json(run / PUBLISHED, msgspec.to_builtins([*earlier, files]))


def forget_checkpoint(run: Path) -> None:
    """Remove the entry of files that were not finished from a run's `pipeline.json`. The finished ones are there."""
    written = read_written_files(run)
    finished = [each for each in written if not each.sizes]
    if finished != written:
        write_json(run / PUBLISHED, msgspec.to_builtins(finished))


def prefix_sha256(path: Path, size: int | None) -> str:
    """Return the SHA-256 of the first bytes of a file, or of all; "" if it is shorter or does not exist."""
    if not path.is_file():
        return ""
    if size is None:
        return file_sha256(path)
    sha256, length = hashlib.sha256(), 0
    for piece in first_bytes(path, size):
        sha256.update(piece)
        length += len(piece)
    return sha256.hexdigest() if length == size else ""


def first_bytes(path: Path, size: int) -> Iterator[bytes]:
    """Yield the first bytes of a file in pieces. A shorter file ends earlier."""
    with path.open("rb") as file:
        while size and (piece := file.read(min(size, 1 << 20))):
            yield piece
            size -= len(piece)


def pipeline_hashes(folder: Path) -> dict[str, str]:
    """Return the sha256 of the pipeline files that exist, by name."""
    paths = [folder / name for name in PIPELINE_FILES]
    return {path.name: file_sha256(path) for path in paths if path.is_file()}


def refuse_foreign_files(output: Path, folders: Mapping[str, Path]) -> None:
    """Raise UsageError if a pipeline file was not written by a run in the output folder.

    Such files cost model calls, so they are never overwritten. Each file is looked up separately, because a run that is
    killed while its files get their names leaves one new and one old file.
    """
    runs = list(run_folders(output))
    all_written = [written for run in runs for written in read_written_files(run)]
    # A run whose `pipeline.json` was damaged has the hashes of its files in its summary too.
    finished = {(Path(path).name, digest) for run in runs for path, digest in file_digests(run).items()}
    for name, folder in folders.items():
        own_files = finished | {file for written in all_written for file in written.files.get(name, {}).items()}
        growing = [written for written in all_written if written.sizes]
        for file, digest in pipeline_hashes(folder).items():
            if (file, digest) in own_files or any(each.has(name, folder / file) for each in growing):
                continue
            raise UsageError(
                f"{folder} has pipeline files that were edited or come from another tool. Judge them with "
                "--eval-only, or choose another --output-dir. If they come from a run whose folder was damaged, "
                "--reuse RUN takes its replies."
            )
