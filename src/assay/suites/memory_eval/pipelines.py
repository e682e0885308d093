"""The two pipeline files of a baseline, ours or another tool's: read sample by sample."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Struct

from assay.core.errors import InputError, Problem, UsageError, unreadable
from assay.core.hashing import row_key
from assay.core.registry import short
from assay.core.types import Record
from assay.suites.memory_eval.building import Rows
from assay.suites.memory_eval.points import Answer, answers
from assay.suites.memory_eval.rows import QaRow, SessionRow, encode

SESSIONS, QUESTIONS = "pipeline_sessions.jsonl", "pipeline_qa.jsonl"
T = TypeVar("T")


class _Session(SessionRow, frozen=True, kw_only=True):
    """An `eval` that stands there already may have any form: the row is judged anew."""

    eval: Any = UNSET


class _Question(QaRow, frozen=True, kw_only=True):
    """The same of a question."""

    eval: Any = UNSET


class _Head(Struct):
    """What tells a line's sample; the rest is read when it is judged."""

    sample_id: str


class Line(NamedTuple):
    """A line as it stands in the file: what is judged is written again to the byte."""

    where: str
    raw: bytes


class Read(Struct, frozen=True, dict=True):
    """One sample's lines in both files, and what they say. It goes with its case."""

    sessions: list[Line]
    questions: list[Line]

    @property
    def key(self) -> str:
        """Names the sample by what is asked and what is held to be right: the same for every memory."""
        sessions, questions = self.rows([])
        held = [[row.sample_id, row.session_id, row.gold_state] for row in sessions]
        asked = [[row.sample_id, row.checkpoint_id, row.question, row.gold_answer] for row in questions]
        return row_key(encode([held, asked]))

    def rows(self, records: Sequence[Record]) -> Rows:
        """The files say everything; what a run recorded is not needed."""
        return self._said

    @cached_property
    def _said(self) -> Rows:
        """Taken apart once: several scorers ask."""
        return Rows(
            [_decoded(line, _Session) for line in self.sessions],
            [_decoded(line, _Question) for line in self.questions],
        )

    @property
    def problems(self) -> list[Problem]:
        """Lines that cannot be judged."""
        found: list[Problem] = []
        for lines, kind in ((self.sessions, _Session), (self.questions, _Question)):
            for line in lines:
                try:
                    _decoded(line, kind)
                except InputError as error:
                    found += error.problems
        return found

    def answers(self, records: Sequence[Record]) -> list[Answer]:
        """What was answered, as the files say."""
        return answers(self._said.questions)

    def is_there(self, records: Sequence[Record]) -> bool:
        """A run's own files have no lines of a sample that was not fed to its end."""
        return bool(self.sessions or self.questions)

    def lines(self, rows: Rows) -> tuple[list[bytes], list[bytes]]:
        """To the byte; only an eval that stands there already is left out."""
        return _plain(rows.sessions, self.sessions), _plain(rows.questions, self.questions)


class PipelineFiles:
    """Both files of one folder. Each line's place is known, and nothing else is held."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._problems: list[Problem] = []
        self._sessions = self._places(folder / SESSIONS)
        self._questions = self._places(folder / QUESTIONS)
        if self._problems:
            raise InputError(self._problems)

    @property
    def samples(self) -> list[str]:
        """The ids in the order in which they come up."""
        return list(dict.fromkeys([*self._sessions, *self._questions]))

    def __contains__(self, sample_id: str) -> bool:
        return sample_id in self._sessions or sample_id in self._questions

    def read(self, sample_id: str) -> Read:
        """All lines of a sample."""
        return Read(
            list(self._lines(SESSIONS, self._sessions.get(sample_id, ()))),
            list(self._lines(QUESTIONS, self._questions.get(sample_id, ()))),
        )

    def _places(self, path: Path) -> dict[str, array[int]]:
        """For each sample, the number and the place of its lines, one after the other."""
        found: dict[str, array[int]] = {}
        head, at = msgspec.json.Decoder(_Head), 0
        try:
            file = path.open("rb")
        except OSError as error:
            raise InputError(unreadable(path, error, "--eval-only needs both pipeline files")) from None
        with file:
            for number, raw in enumerate(file, 1):
                if raw.strip():
                    try:
                        found.setdefault(head.decode(raw).sample_id, array("q")).extend((number, at))
                    except (msgspec.DecodeError, UnicodeDecodeError) as error:
                        self._problems.append(Problem(f"{path}:{number}", str(error)))
                at += len(raw)
        return found

    def _lines(self, name: str, places: Any) -> Iterator[Line]:
        path = self.folder / name
        with path.open("rb") as file:
            for number, at in zip(places[::2], places[1::2], strict=True):
                file.seek(at)
                yield Line(f"{path}:{number}", file.readline().strip())


def _plain(rows: Sequence[SessionRow | QaRow], lines: Sequence[Line]) -> list[bytes]:
    pairs = zip(rows, lines, strict=True)
    return [line.raw if row.eval is UNSET else _without_eval(line.raw) for row, line in pairs]


def _without_eval(raw: bytes) -> bytes:
    found = msgspec.json.decode(raw)
    del found["eval"]
    return encode(found)


def _decoded(line: Line, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(line.raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(Problem(line.where, str(error))) from None


def folders_of(output: Path, baselines: list[str]) -> dict[str, Path]:
    """Where the files of each baseline are: in the folder itself, or in one below it of the baseline's name.

    Without names, the one that the first question or memory tells, or every folder below that has both files.
    A memory of a file is called as that file is.
    """
    baselines = [short(name) for name in baselines]
    if _has_both(output):
        if len(baselines) > 1:
            raise UsageError(f"{output} has the files of one memory; --baseline names {len(baselines)}")
        name = baselines[0] if baselines else _told_baseline(output)
        return {name: output}
    names = baselines or sorted(path.name for path in output.glob("*") if _has_both(path))
    if not names:
        raise UsageError(f"--eval-only needs {SESSIONS} and {QUESTIONS} in {output}; run it without first")
    return {name: output / name for name in names}


def _has_both(folder: Path) -> bool:
    return (folder / SESSIONS).is_file() and (folder / QUESTIONS).is_file()


def _told_baseline(folder: Path) -> str:
    files = PipelineFiles(folder)
    for sample in files.samples:
        rows = files.read(sample).rows([])
        told = [str(row.retrieval.raw_trace.get("baseline", "")) for row in rows.questions]
        told += [item.source for row in rows.sessions for item in row.memory_snapshot]
        if name := next(filter(None, told), ""):
            return name
    return "baseline"
