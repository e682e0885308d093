"""Recorded rows: `--eval-only` judges the two pipeline files of a baseline, ours or another tool's.

Files that a run of ours wrote are judged as that run: it is found by the marks that it left (`pipeline.json` in its
folder), and its cases stay its cases. Any other files become a run of their own.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Struct

from assay.core.errors import InputError, Problem, UsageError, unreadable
from assay.core.files import write_json
from assay.core.hashing import file_sha256, fingerprint, row_key
from assay.core.memory import find_memory
from assay.core.protocols import Context, Solver
from assay.core.registry import names, short
from assay.core.spec import RunSpec
from assay.core.suite import CaseContent, CaseResult, PlannedCalls, Row
from assay.core.types import Record
from assay.store.runs import run_folders, state_of
from assay.suites.memory_eval.options import MemoryEvalOptions
from assay.suites.memory_eval.row_source import Baseline, RowSource, SampleLines
from assay.suites.memory_eval.rows import (
    AnswerRow,
    QaRow,
    SampleRows,
    SessionRow,
    answer_rows,
    encode,
)

SESSIONS, QUESTIONS = "pipeline_sessions.jsonl", "pipeline_qa.jsonl"
MARKS = "pipeline.json"
"""In a run's folder: the content of the pipeline files that it wrote."""
T = TypeVar("T")


class RecordedSample(NamedTuple):
    """A row: a sample of the run that wrote the files, or of the files of one baseline."""

    sample_id: str
    baseline: str = ""
    """The only baseline that has the row; empty where all have it."""


class RecordedSource(RowSource):
    """The samples of the files. A case's gold is its rows.

    With `--fresh` all files become a run: the judge is asked anew, and the run that wrote them stays as it is.
    """

    writes_pipeline = False

    def __init__(self, spec: RunSpec, options: MemoryEvalOptions) -> None:
        output = Path(spec.output_dir)
        self.folders = pipeline_folders(output, options.baseline)
        self._files = {name: PipelineFiles(folder) for name, folder in self.folders.items()}
        self._own_run = None if spec.fresh else find_own_run(output, self.folders)
        if self._own_run:
            # A case keeps its place: the order of the baselines is that of the run.
            self.folders = {name: self.folders[name] for name in self._own_run.subjects}
        self.baselines = {name: _baseline(name) for name in self.folders}
        self.roles = {}
        self.solver = RecordedSolver()

    # Which run this is.

    def ask_identity(self) -> dict[str, Any]:
        """The files say everything."""
        return {}

    def data_identity(self) -> Any:
        """The files by content."""
        return self._content

    @cached_property
    def _content(self) -> dict[str, Any]:
        """Cached, because large files should be hashed once."""
        return {"files": {name: pipeline_hashes(folder) for name, folder in self.folders.items()}}

    @property
    def gold_fingerprint(self) -> str:
        """That of the run that wrote the files, or the files themselves."""
        return self._own_run.gold if self._own_run else fingerprint(self._content)

    # The data.

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
        """A row for each baseline and sample. All lines are checked now: another program wrote them."""
        rows: list[Row[RecordedSample]] = []
        problems: list[Problem] = []
        for baseline, files in self._files.items():
            for name in files.samples:
                lines = files.read(name)
                problems += lines.problems()
                if not problems:
                    rows.append(Row(len(rows), lines.key(), "files", RecordedSample(name, baseline)))
        if problems:
            raise InputError(problems)
        if not rows:
            folders = ", ".join(map(str, self.folders.values()))
            raise UsageError(f"there is no line in {SESSIONS} and {QUESTIONS} of {folders}")
        return rows

    def rows(self) -> RecordedRows:
        """The samples of the run that wrote the files, or every sample of every file."""
        return self._rows

    def facts(self) -> dict[str, Any]:
        """How many samples there are, and which files they stand in."""
        samples = {row.data.sample_id for row in self._rows.iterate()}
        return {"samples": len(samples), "baselines": list(self.baselines), "files": self._content}

    def planned_calls(self) -> list[PlannedCalls]:
        """No memory is asked."""
        return []

    def has(self, row: Row[RecordedSample], subject: str) -> bool:
        """Files of others need not have the same samples for each baseline."""
        return row.data.baseline in ("", subject)

    def total(self) -> int:
        """The pairs of samples and baselines that are there."""
        return self._rows.count * (len(self.baselines) if self._own_run else 1)

    def case(self, row: Row[RecordedSample], subject: str) -> CaseContent:
        """Nothing is asked; the rows are read for the scorers."""
        name = row.data.sample_id
        return CaseContent(name, gold=self._files[subject].read(name).rows(), label=name)

    # What was recorded.

    def sample_rows(self, gold: Any, subject: str, records: Sequence[Record]) -> SampleRows:
        """The rows that were read; what a run recorded is not needed."""
        rows: SampleRows = gold
        return rows

    def answers(self, gold: Any, subject: str, records: Sequence[Record]) -> list[AnswerRow]:
        """The answers as the files have them."""
        rows: SampleRows = gold
        return answer_rows(rows.questions)

    def lines(self, result: CaseResult[RecordedSample]) -> SampleLines | None:
        """The lines to the byte, without an eval that stands there already.

        Files of a run have no lines of a sample that was not fed to its end.
        """
        end = result.end
        lines = self._files[result.subject].read(result.row.data.sample_id)
        if end is None or end.status == "infra_error" or not (lines.sessions or lines.questions):
            return None
        rows = lines.rows()
        return SampleLines(
            rows,
            _without_evals(rows.sessions, lines.sessions),
            _without_evals(rows.questions, lines.questions),
        )


class RecordedRows:
    """Rows in memory. Samples of two baselines may have equal keys: then they are compared with each other."""

    def __init__(self, rows: Sequence[Row[RecordedSample]], facts: Callable[[], dict[str, Any]]) -> None:
        self._rows = rows
        self._facts = facts
        self.count = len(rows)

    @property
    def facts(self) -> dict[str, Any]:
        """For the run's own record."""
        return self._facts()

    def iterate(self, skip: Callable[[int], bool] | None = None) -> Iterator[Row[RecordedSample]]:
        """Rows in order."""
        for row in self._rows:
            if skip is None or not skip(row.number):
                yield row


class RecordedSolver(Solver):
    """Asks nobody: the files hold what a run would have recorded."""

    async def solve(self, inputs: str, ctx: Context) -> None:
        """Emit that the sample was read."""
        ctx.emit("imported", {"sample_id": inputs})


def _baseline(name: str) -> Baseline:
    """A memory of ours has its own title. Another tool's memory may have any name."""
    if name not in names("memory"):
        return Baseline(name)
    plugin = find_memory(name)
    return Baseline(plugin.title, plugin.about.reference)


# The two files of a baseline.


class _AnySessionRow(SessionRow, frozen=True, kw_only=True):
    """An `eval` that stands there already may have any form: the row is judged anew."""

    eval: Any = UNSET


class _AnyQaRow(QaRow, frozen=True, kw_only=True):
    """The same for a question."""

    eval: Any = UNSET


class _SampleId(Struct):
    """The one key that tells a line's sample. The rest is read when the sample is judged."""

    sample_id: str


class FileLine(NamedTuple):
    """A line as it stands in the file. What is judged is written again to the byte."""

    where: str
    raw: bytes


class RecordedLines(NamedTuple):
    """One sample's lines in both files."""

    sessions: list[FileLine]
    questions: list[FileLine]

    def rows(self) -> SampleRows:
        """The lines as rows. Raises InputError with the first line that is none."""
        return SampleRows(
            [_decode(line, _AnySessionRow) for line in self.sessions],
            [_decode(line, _AnyQaRow) for line in self.questions],
        )

    def key(self) -> str:
        """The row's key: what is asked and what is held to be right. It is the same for every memory."""
        rows = self.rows()
        gold = [[row.sample_id, row.session_id, row.gold_state] for row in rows.sessions]
        asked = [[row.sample_id, row.checkpoint_id, row.question, row.gold_answer] for row in rows.questions]
        return row_key(encode([gold, asked]))

    def problems(self) -> list[Problem]:
        """Lines that cannot be judged."""
        problems: list[Problem] = []
        for lines, kind in ((self.sessions, _AnySessionRow), (self.questions, _AnyQaRow)):
            for line in lines:
                try:
                    _decode(line, kind)
                except InputError as error:
                    problems += error.problems
        return problems


class PipelineFiles:
    """Both files of one folder. Only the places of lines are held in memory: snapshots make the files large."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        problems: list[Problem] = []
        self._sessions = _line_places(folder / SESSIONS, problems)
        self._questions = _line_places(folder / QUESTIONS, problems)
        if problems:
            raise InputError(problems)

    @property
    def samples(self) -> list[str]:
        """The ids in the order in which they come up."""
        return list(dict.fromkeys([*self._sessions, *self._questions]))

    def read(self, sample_id: str) -> RecordedLines:
        """All lines of a sample."""
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


def _line_places(path: Path, problems: list[Problem]) -> dict[str, Sequence[int]]:
    """For each sample the number and the offset of its lines, one after the other."""
    places: dict[str, array[int]] = {}
    decoder = msgspec.json.Decoder(_SampleId)
    offset = 0
    try:
        file = path.open("rb")
    except OSError as error:
        raise InputError(unreadable(path, error, "--eval-only needs both pipeline files")) from None
    with file:
        for number, raw in enumerate(file, 1):
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


def _without_evals(rows: Sequence[SessionRow | QaRow], lines: Sequence[FileLine]) -> list[bytes]:
    plain = []
    for row, line in zip(rows, lines, strict=True):
        raw = line.raw
        if row.eval is not UNSET:
            value = msgspec.json.decode(raw)
            del value["eval"]
            raw = encode(value)
        plain.append(raw)
    return plain


def pipeline_folders(output: Path, baselines: Sequence[str]) -> dict[str, Path]:
    """Where the files of each baseline are: in the folder itself, or in one below it of the baseline's name.

    Without names, it is the baseline that the files name, or every folder below that has both files. A memory
    of a file is called as that file is.
    """
    named = [short(name) for name in baselines]
    if _has_both_files(output):
        if len(named) > 1:
            raise UsageError(f"{output} has the files of one memory; --baseline names {len(named)}")
        return {named[0] if named else _baseline_in(output): output}
    named = named or sorted(path.name for path in output.glob("*") if _has_both_files(path))
    if not named:
        raise UsageError(f"--eval-only needs {SESSIONS} and {QUESTIONS} in {output}; run it without first")
    return {name: output / name for name in named}


def _has_both_files(folder: Path) -> bool:
    return (folder / SESSIONS).is_file() and (folder / QUESTIONS).is_file()


def _baseline_in(folder: Path) -> str:
    """The baseline that the first question or memory names."""
    files = PipelineFiles(folder)
    for sample in files.samples:
        rows = files.read(sample).rows()
        for question in rows.questions:
            if name := str(question.retrieval.raw_trace.get("baseline", "")):
                return name
        for session in rows.sessions:
            for item in session.memory_snapshot:
                if item.source:
                    return item.source
    return "baseline"


# The run that wrote the files.


class PipelineMarks(Struct):
    """What a run notes of the files that it writes: the gold they carry, and their content by baseline."""

    gold: str
    files: dict[str, dict[str, str]]


class OwnRun(NamedTuple):
    """The run that wrote the files, with its data identity."""

    folder: Path
    gold: str
    data: Mapping[str, Any]
    subjects: Sequence[str]


def find_own_run(output: Path, folders: Mapping[str, Path]) -> OwnRun | None:
    """The newest run in an output folder that wrote these files and no others, to the byte.

    If several baselines were run together, one of them alone is judged apart from that run.
    """
    hashes = {name: pipeline_hashes(folder) for name, folder in folders.items()}
    for run in reversed(list(run_folders(output))):
        for marks in reversed(read_marks(run)):
            if marks.files == hashes:
                asked = state_of(run).info.parts["ask"]
                return OwnRun(run, marks.gold, asked["data"], asked["plan"]["subjects"])
            if list(marks.files.values()) == list(hashes.values()):
                wrote, named = ", ".join(marks.files), ", ".join(hashes)
                raise UsageError(f"a run wrote the files in {output} for {wrote}; --baseline names {named}")
    return None


def read_marks(run: Path) -> list[PipelineMarks]:
    """The marks of a run, oldest first; none where the folder is of another kind of run."""
    try:
        return msgspec.json.decode((run / MARKS).read_bytes(), type=list[PipelineMarks])
    except (OSError, msgspec.DecodeError):
        return []


def add_marks(run: Path, marks: PipelineMarks) -> None:
    """Note what a run is about to write.

    This comes before the files appear: a run that is killed in between must know its own files later.
    """
    earlier = read_marks(run)
    if marks not in earlier:
        write_json(run / MARKS, msgspec.to_builtins([*earlier, marks]))


def pipeline_hashes(folder: Path) -> dict[str, str]:
    """The sha256 of both files, as far as they are there."""
    paths = [folder / name for name in (SESSIONS, QUESTIONS)]
    return {path.name: file_sha256(path) for path in paths if path.is_file()}


def refuse_foreign_files(output: Path, folders: Mapping[str, Path]) -> None:
    """Pipeline files are paid work: those that no run here wrote are not overwritten.

    Each file counts for itself: a run that was killed while its files appeared left a new and an old one.
    """
    noted = [marks for run in run_folders(output) for marks in read_marks(run)]
    for name, folder in folders.items():
        own = {file for marks in noted for file in marks.files.get(name, {}).items()}
        if not own.issuperset(pipeline_hashes(folder).items()):
            raise UsageError(
                f"{folder} has pipeline files that no run there wrote as they are now; judge them with "
                "--eval-only, or name another --output-dir"
            )
