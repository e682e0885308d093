"""Reads and checks files of samples.

    samples, warnings = load_samples(Path("data"))     # raises InputError with all problems

A `.json` file has one sample or a list of samples; a `.jsonl` file has one sample per line. The older layout has three
files: samples with their sessions, and for each sample a row with its points and a row with its checkpoints.

The structs below define the format, and `core/schema.py` reports every value that does not fit them. Rules across keys,
such as duplicate ids and unknown sessions, are Python code further down. `check_samples` has further rules for
`assay check`; a run does not apply them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct, field

from assay.core.errors import InputError, Problem
from assay.core.file_check import FileCheck, contents
from assay.core.records import FileRecord, read_records
from assay.core.schema import Filled, KeyPath, Name, Scalar, convert, json_path, refuse, shorten
from assay.suites.memory_eval.sample import (
    Checkpoint,
    MemoryPoint,
    Sample,
    SampleQuestion,
    SampleSession,
    SampleTurn,
)

MAIN, POINTS, CHECKPOINTS = "domain_a_v2.json", "stage4_memory_points.jsonl", "stage4b_qa_checkpoints.jsonl"
"""File names of the older layout."""
INTERFERENCE = "interference"
"""`memory_source` of points that a memory should not store."""

_HINT = "--dataset must be a sample file or a folder of sample files"
_SUFFIXES = (".json", ".jsonl")
_ID_KEYS = ("sample_id", "uuid")
# `assay check` reads this many files of a folder to recognise it. More would make it slow on folders of other data.
_MOST_FILES = 20

# `is_update` is a boolean, or one of the texts that generated data has: "True", "false", "".
Truth = bool | Annotated[str, Meta(pattern=r"(?i)^\s*(true|false)?\s*$")]


class ImageRecord(Struct):
    """An image of a turn. Memories see its caption."""

    caption: str | None = None
    image_id: Any = None


class TurnRecord(Struct):
    """A turn of a dialogue. `content` is optional if the turn has attachments."""

    role: Filled
    content: str | None = None
    timestamp: Scalar | None = None
    attachments: list[ImageRecord] | None = None


class PointRecord(Struct):
    """A memory point."""

    memory_id: Name
    memory_content: Filled
    memory_source: str | None = None
    is_update: Annotated[Truth | None, Meta(description="true or false")] = None
    original_memories: list[str] | str | None = None


class SessionRecord(Struct):
    """A session. Its points are in `memory_points` here, or in a block of the sample."""

    dialogue: list[TurnRecord]
    v2_id: Name | None = field(name="_v2_session_id", default=None)
    session_id: Name | None = None
    memory_points: list[PointRecord] | None = None


class BlockRecord(Struct):
    """A block: the points of one session, in a list of the sample."""

    session_id: Name
    memory_points: list[PointRecord]


class EvidenceRecord(Struct):
    """Evidence of a question: a memory point or an image."""

    memory_id: Name | None = None
    image_id: Name | None = None


class QuestionRecord(Struct):
    """A question of a checkpoint."""

    question: Filled
    answer: Scalar
    evidence: list[EvidenceRecord] | None = None
    question_type: str | None = None
    question_type_abbrev: str | None = None
    difficulty: Scalar | None = None


class CheckpointRecord(Struct):
    """A checkpoint: questions that are asked after the last session it covers."""

    checkpoint_id: Name
    questions: list[QuestionRecord]
    covered_sessions: list[Name] | None = None


SESSIONS_PROBLEM = "is empty: a sample needs at least one session"


class SampleRecord(Struct):
    """A sample without its points and checkpoints: in the older layout these are in other files."""

    sessions: Annotated[list[SessionRecord], Meta(min_length=1, extra={"problem": SESSIONS_PROBLEM})]
    sample_id: Name | None = None
    uuid: Name | None = None


# Reading files.


class LoadedSamples(NamedTuple):
    """The samples in the order of the files, and warnings that do not stop a run."""

    samples: list[Sample]
    warnings: list[str]


def load_samples(path: Path) -> LoadedSamples:
    """Read the samples of a file or folder. Raises InputError with all problems that prevent a run."""
    problems: list[Problem] = []
    samples = [sample for _, sample in _read(path, problems)]
    refuse(problems, path)
    return LoadedSamples(samples, [str(problem) for problem in problems])


def check_samples(path: Path) -> list[Problem]:
    """Return all problems of a file or folder. Errors are certainly wrong; warnings may be intended."""
    return examine_samples(path).problems


def examine_samples(path: Path) -> FileCheck:
    """Return the check of a file or folder of samples."""
    problems: list[Problem] = []
    counts = Counter({"sample": 0, "session": 0, "question": 0})
    for place, sample in _read(path, problems):
        _Inspection(place, sample, problems).run()
        questions = sum(len(checkpoint.questions) for checkpoint in sample.checkpoints)
        counts.update(sample=1, session=len(sample.sessions), question=questions)
    return FileCheck(
        kind="samples (memory eval)", contents=contents(counts), problems=shorten(problems, path)
    )


def has_samples(path: Path) -> bool:
    """Return whether a file, or one of the first files of a folder, starts with a sample."""
    return any(_is_sample_file(file) for file in islice(_files(path), _MOST_FILES))


def _files(path: Path) -> Iterable[Path]:
    """Return the files to read, sorted by path. The three files of the older layout count as their main file."""
    if not path.is_dir():
        return [_main_file(path)]
    files = []
    for file in sorted(path.rglob("*")):
        is_hidden = any(part.startswith(".") for part in file.relative_to(path).parts)
        if file.suffix in _SUFFIXES and not is_hidden and file.is_file():
            files.append(_main_file(file))
    # Without repeats: all three files of the older layout map to the main file.
    return dict.fromkeys(files)


def _main_file(path: Path) -> Path:
    return path.with_name(MAIN) if path.name in (POINTS, CHECKPOINTS) else path


def _is_sample_file(file: Path) -> bool:
    if file.name == MAIN:
        return file.is_file()
    if file.suffix not in _SUFFIXES or not file.is_file():
        return False
    try:
        record = next(read_records(file, []), None)
    except InputError:
        return False
    if record is None or record.value.get("sessions") is None:
        return False
    return any(record.value.get(key) is not None for key in ("memory_points", "qa_checkpoints"))


class PlacedValue(NamedTuple):
    """A part of a sample: its raw value, the record that contains it, and its key path in that record."""

    record: FileRecord
    path: KeyPath
    value: Any

    def problem(self, path: KeyPath, message: str, level: str = "error") -> Problem:
        """Return a problem with the value at `path` below this part."""
        return self.record.problem((*self.path, *path), message, level)

    def name(self, path: KeyPath) -> str:
        """Return the JSON path of the value at `path` below this part, without the file name."""
        return json_path((*self.path, *path), self.record.root)


class SamplePlace(NamedTuple):
    """The three parts of a sample: sessions, blocks of points, checkpoints. They may be in different files."""

    sample: PlacedValue
    points: PlacedValue
    checkpoints: PlacedValue


def _read(path: Path, problems: list[Problem]) -> Iterator[tuple[SamplePlace, Sample]]:
    """Yield every sample that can be built. Adds all problems to the list, also those of other samples."""
    places: dict[str, str] = {}  # of each sample id
    is_empty = True
    for file in _files(path):
        is_empty = False
        try:
            for place in _sample_places(file, problems):
                sample = _build_sample(place, problems)
                if sample is None:
                    continue
                where = place.sample.record.where()
                if (first := places.setdefault(sample.sample_id, where)) != where:
                    message = f"duplicate id {sample.sample_id!r}, first used at {first}"
                    problems.append(place.sample.problem((), message))
                yield place, sample
        except InputError as error:
            problems += error.problems
    if is_empty:
        problems.append(Problem(str(path), "this folder has no .json or .jsonl file"))


def _sample_places(file: Path, problems: list[Problem]) -> Iterator[SamplePlace]:
    records = read_records(file, problems, thing="sample", hint=_HINT)
    if file.name == MAIN:
        yield from _older_places(file, records, problems)
        return
    for record in records:
        yield SamplePlace(
            PlacedValue(record, (), record.value),
            PlacedValue(record, ("memory_points",), _value_or_list(record.value, "memory_points")),
            PlacedValue(record, ("qa_checkpoints",), _value_or_list(record.value, "qa_checkpoints")),
        )


def _value_or_list(value: dict[str, Any], key: str) -> Any:
    """Return the value of a key; an empty list if it is absent or null."""
    item = value.get(key)
    return [] if item is None else item


def _older_places(
    file: Path, records: Iterable[FileRecord], problems: list[Problem]
) -> Iterator[SamplePlace]:
    points = _SampleRows(file.with_name(POINTS), problems)
    checkpoints = _SampleRows(file.with_name(CHECKPOINTS), problems)
    for record in records:
        points_row, checkpoints_row = points.row_of(record), checkpoints.row_of(record)
        if points_row and checkpoints_row:
            yield SamplePlace(
                PlacedValue(record, (), record.value),
                _first_key(points_row, "memory_sessions", "memory_points"),
                _first_key(checkpoints_row, "checkpoints", "qa_checkpoints"),
            )
    points.warn_of_unused()
    checkpoints.warn_of_unused()


def _first_key(record: FileRecord, *keys: str) -> PlacedValue:
    """Return the value of the first key that is present. If none is, the first key is reported as missing."""
    for key in keys:
        if record.value.get(key) is not None:
            return PlacedValue(record, (key,), record.value[key])
    return PlacedValue(record, (keys[0],), msgspec.UNSET)


class _SampleRows:
    """The rows of a file of the older layout, by `sample_id` and `uuid`."""

    def __init__(self, path: Path, problems: list[Problem]) -> None:
        self._path = path
        self._problems = problems
        self._rows: dict[str, FileRecord] = {}
        self._used: set[int] = set()
        for record in read_records(path, problems, hint=f"it must be in the same folder as {MAIN}"):
            names = [str(record.value[key]) for key in _ID_KEYS if record.value.get(key) is not None]
            if not names:
                message = "is missing: it tells the sample of this row"
                problems.append(record.problem(("sample_id",), message))
            for name in dict.fromkeys(names):
                first = self._rows.setdefault(name, record)
                if first is not record:
                    message = f"duplicate row for the sample {name!r}, first on line {first.line}"
                    problems.append(record.problem((), message))

    def row_of(self, sample: FileRecord) -> FileRecord | None:
        """Return the row of a sample. Adds a problem and returns None if there is no such row."""
        names = [str(sample.value[key]) for key in _ID_KEYS if sample.value.get(key) is not None]
        for name in names:
            if name in self._rows:
                row = self._rows[name]
                self._used.add(row.line)
                return row
        message = f"{self._path} has no row for this sample ({' or '.join(names) or 'no id'})"
        self._problems.append(sample.problem((), message))
        return None

    def warn_of_unused(self) -> None:
        """Add a warning for each row without a sample. A run ignores these rows."""
        unused = {row.line: name for name, row in self._rows.items() if row.line not in self._used}
        for line, name in unused.items():
            message = f"{MAIN} has no sample {name!r}"
            self._problems.append(Problem(f"{self._path}:{line}", message, "warning"))


# Building samples.


def _build_sample(place: SamplePlace, problems: list[Problem]) -> Sample | None:
    """Build a sample. Adds all problems, and returns None if a value is missing or has a wrong type."""
    problems_before = len(problems)
    sample = convert(place.sample.value, SampleRecord, place.sample.record, problems)
    blocks = _convert_part(place.points, list[BlockRecord], problems)
    checkpoints = _convert_part(place.checkpoints, list[CheckpointRecord], problems)
    if sample is not None:
        _add_missing_keys(place.sample, problems)
    if checkpoints is not None:
        _add_missing_evidence(place.checkpoints, checkpoints, problems)
    if sample is None or blocks is None or checkpoints is None or len(problems) > problems_before:
        return None
    _add_id_problems(place, sample, blocks, checkpoints, problems)
    return _sample_of(place, sample, blocks, checkpoints)


def _convert_part(place: PlacedValue, schema: Any, problems: list[Problem]) -> Any:
    if place.value is msgspec.UNSET:
        problems.append(place.problem((), "is missing"))
        return None
    return convert(place.value, schema, place.record, problems, place.path)


def _add_missing_keys(place: PlacedValue, problems: list[Problem]) -> None:
    """Add a problem for each missing key that no schema can express, because one of two keys is enough."""
    raw = place.value
    if raw.get("sample_id") is None and raw.get("uuid") is None:
        problems.append(place.problem(("sample_id",), "is missing"))
    for number, session in enumerate(raw["sessions"]):
        if session.get("_v2_session_id") is None and session.get("session_id") is None:
            problems.append(place.problem(("sessions", number, "_v2_session_id"), "is missing"))
        for row, turn in enumerate(session["dialogue"]):
            if turn.get("content") is None and not turn.get("attachments"):
                path = ("sessions", number, "dialogue", row, "content")
                problems.append(place.problem(path, "is missing"))


def _add_missing_evidence(
    place: PlacedValue, checkpoints: Sequence[CheckpointRecord], problems: list[Problem]
) -> None:
    for number, checkpoint in enumerate(checkpoints):
        for row, question in enumerate(checkpoint.questions):
            # `question.evidence` is None if an item is invalid. That problem is already reported.
            raw_items = place.value[number]["questions"][row].get("evidence") if question.evidence else None
            for item, raw in enumerate(raw_items or ()):
                if raw.get("memory_id") is None and raw.get("image_id") is None:
                    path = (number, "questions", row, "evidence", item, "memory_id")
                    problems.append(place.problem(path, "is missing"))


def _add_id_problems(
    place: SamplePlace,
    sample: SampleRecord,
    blocks: Sequence[BlockRecord],
    checkpoints: Sequence[CheckpointRecord],
    problems: list[Problem],
) -> None:
    """Add a problem for each duplicate id and each unknown session, and a warning for checkpoints without sessions."""
    sessions = []
    for number, session in enumerate(sample.sessions):
        key = "_v2_session_id" if session.v2_id is not None else "session_id"
        sessions.append((_session_id(session), place.sample, ("sessions", number, key)))
    _add_duplicates(sessions, problems)
    session_ids = {name for name, _, _ in sessions}

    def check_session(name: Any, where: PlacedValue, path: KeyPath) -> None:
        if str(name) not in session_ids:
            problems.append(where.problem(path, f"the sample has no session {str(name)!r}"))

    for number, block in enumerate(blocks):
        check_session(block.session_id, place.points, (number, "session_id"))
    ids = []
    for number, checkpoint in enumerate(checkpoints):
        ids.append((str(checkpoint.checkpoint_id), place.checkpoints, (number, "checkpoint_id")))
        for row, name in enumerate(checkpoint.covered_sessions or ()):
            check_session(name, place.checkpoints, (number, "covered_sessions", row))
        if not checkpoint.covered_sessions:
            message = "names no session, so the checkpoint is asked after the last session"
            path = (number, "covered_sessions")
            problems.append(place.checkpoints.problem(path, message, "warning"))
    _add_duplicates(ids, problems)


def _add_duplicates(names: Iterable[tuple[str, PlacedValue, KeyPath]], problems: list[Problem]) -> None:
    first_places: dict[str, str] = {}
    for name, place, path in names:
        where = place.name(path)
        first = first_places.setdefault(name, where)
        if first != where:
            problems.append(place.problem(path, f"duplicate id {name!r}, first used at {first}"))


def _sample_of(
    place: SamplePlace,
    sample: SampleRecord,
    blocks: Sequence[BlockRecord],
    checkpoints: Sequence[CheckpointRecord],
) -> Sample:
    points: dict[str, list[MemoryPoint]] = {}
    raw_sessions = place.sample.value["sessions"]
    for session, raw in zip(sample.sessions, raw_sessions, strict=True):
        raw_points = raw.get("memory_points") or []
        session_points = points.setdefault(_session_id(session), [])
        session_points += map(_point_of, session.memory_points or (), raw_points)
    for block, raw in zip(blocks, place.points.value, strict=True):
        session_points = points.setdefault(str(block.session_id), [])
        session_points += map(_point_of, block.memory_points, raw["memory_points"])
    contents = {point.memory_id: point.content for group in points.values() for point in group}
    sessions = []
    for session in sample.sessions:
        name = _session_id(session)
        turns = tuple(_turn_of(turn) for turn in session.dialogue)
        sessions.append(SampleSession(name, turns, tuple(points[name])))
    return Sample(
        str(sample.sample_id if sample.sample_id is not None else sample.uuid),
        str(sample.uuid if sample.uuid is not None else sample.sample_id),
        tuple(sessions),
        tuple(_checkpoint_of(checkpoint, contents) for checkpoint in checkpoints),
    )


def _session_id(session: SessionRecord) -> str:
    return str(session.session_id if session.v2_id is None else session.v2_id)


def _point_of(point: PointRecord, raw: dict[str, Any]) -> MemoryPoint:
    update = point.is_update
    if isinstance(update, str):
        update = update.strip().lower() == "true"
    original = point.original_memories or []
    if isinstance(original, str):
        original = [original]
    return MemoryPoint(
        str(point.memory_id),
        point.memory_content,
        (point.memory_source or "").strip().lower() == INTERFERENCE,
        bool(update),
        tuple(text for text in original if text.strip()),
        raw,
    )


def _turn_of(turn: TurnRecord) -> SampleTurn:
    captions = [image.caption for image in turn.attachments or () if image.caption and image.caption.strip()]
    return SampleTurn(turn.role, turn.content or "", _scalar_text(turn.timestamp), tuple(captions))


def _checkpoint_of(checkpoint: CheckpointRecord, contents: dict[str, str]) -> Checkpoint:
    questions = []
    for question in checkpoint.questions:
        evidence = tuple(_evidence_id(item) for item in question.evidence or ())
        questions.append(
            SampleQuestion(
                text=question.question,
                answer=_scalar_text(question.answer),
                evidence=evidence,
                contents=tuple(contents[name] for name in evidence if name in contents),
                type=question.question_type or "",
                abbrev=question.question_type_abbrev or "",
                difficulty=_scalar_text(question.difficulty),
            )
        )
    covered = tuple(str(name) for name in checkpoint.covered_sessions or ())
    return Checkpoint(str(checkpoint.checkpoint_id), covered, tuple(questions))


def _evidence_id(evidence: EvidenceRecord) -> str:
    return str(evidence.memory_id if evidence.memory_id is not None else evidence.image_id)


def _scalar_text(value: str | float | bool | None) -> str:
    """Return a text unchanged, and a number or boolean as JSON writes it."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()


# `assay check`: problems that a run accepts.


class _Inspection:
    """Checks one valid sample for mistakes that a run accepts."""

    def __init__(self, place: SamplePlace, sample: Sample, problems: list[Problem]) -> None:
        self._place = place
        self._sample = sample
        self._problems = problems
        self._sessions = [session.id for session in sample.sessions]
        # Ids that evidence may name, points and images, with the position of their session.
        self._positions: dict[str, int] = {}
        self._interference: set[str] = set()
        for number, raw in enumerate(place.sample.value["sessions"]):
            for turn in raw["dialogue"]:
                for image in turn.get("attachments") or ():
                    if image.get("image_id") is not None:
                        self._positions[str(image["image_id"])] = number
        for number, session in enumerate(sample.sessions):
            for point in session.points:
                self._positions[point.memory_id] = number
            self._interference.update(point.memory_id for point in session.interference)

    def run(self) -> None:
        for number, session in enumerate(self._sample.sessions):
            if not session.turns:
                message = "is empty: the session has no turns"
                self._warn(self._place.sample, ("sessions", number, "dialogue"), message)
        point_places = list(self._point_places())
        names = [(str(raw["memory_id"]), place, (*path, "memory_id")) for _, raw, place, path in point_places]
        _add_duplicates(names, self._problems)
        self._check_updates(point_places)
        for number, checkpoint in enumerate(self._sample.checkpoints):
            self._check_checkpoint(checkpoint, number)

    def _warn(self, place: PlacedValue, path: KeyPath, message: str) -> None:
        self._problems.append(place.problem(path, message, "warning"))

    def _point_places(self) -> Iterator[tuple[str, dict[str, Any], PlacedValue, KeyPath]]:
        """Yield session id, raw point, part and key path of every point: first those in sessions, then in blocks."""
        place = self._place.sample
        for number, (session, raw) in enumerate(
            zip(self._sample.sessions, place.value["sessions"], strict=True)
        ):
            for row, point in enumerate(raw.get("memory_points") or ()):
                yield session.id, point, place, ("sessions", number, "memory_points", row)
        for number, block in enumerate(self._place.points.value):
            for row, point in enumerate(block["memory_points"]):
                yield str(block["session_id"]), point, self._place.points, (number, "memory_points", row)

    def _check_updates(self, points: Sequence[tuple[str, dict[str, Any], PlacedValue, KeyPath]]) -> None:
        """Warn about updates whose `original_memories` are not texts of earlier points. The judge gets these texts."""
        by_session: dict[str, list[tuple[PlacedValue, KeyPath]]] = {}
        for session_id, _, place, path in points:
            by_session.setdefault(session_id, []).append((place, (*path, "original_memories")))
        earlier: set[str] = set()
        for session in self._sample.sessions:
            for point, (place, path) in zip(session.points, by_session.get(session.id, ()), strict=True):
                if point.update and not point.interference:
                    if not point.original:
                        self._warn(
                            place, path, "is empty, but an update should have the texts that it replaces"
                        )
                    for original in point.original:
                        if original.strip() not in earlier:
                            self._warn(place, path, f"no earlier point has the text {original!r}")
                earlier.add(point.content.strip())

    def _check_checkpoint(self, checkpoint: Checkpoint, number: int) -> None:
        place = self._place.checkpoints
        covered = [
            index
            for index, name in enumerate(self._sessions)
            if name in checkpoint.covered or not checkpoint.covered
        ]
        last = max(covered, default=0)
        if not checkpoint.questions:
            self._warn(place, (number, "questions"), "is empty: the checkpoint asks nothing")
        for row, question in enumerate(checkpoint.questions):
            path = (number, "questions", row)
            if not question.answer.strip():
                message = "is empty: answers cannot be compared with it"
                self._problems.append(place.problem((*path, "answer"), message))
            raw_evidence = place.value[number]["questions"][row].get("evidence") or ()
            for item, (name, raw) in enumerate(zip(question.evidence, raw_evidence, strict=True)):
                key = "memory_id" if raw.get("memory_id") is not None else "image_id"
                self._check_evidence(name, (*path, "evidence", item, key), last)

    def _check_evidence(self, name: str, path: KeyPath, last: int) -> None:
        place, position = self._place.checkpoints, self._positions.get(name)
        if position is None:
            message = f"the sample has no memory point or image {name!r}"
            self._problems.append(place.problem(path, message))
        elif position > last:
            message = (
                f"{name!r} belongs to session {self._sessions[position]}, but the checkpoint runs before it, "
                f"after {self._sessions[last]}"
            )
            self._problems.append(place.problem(path, message))
        if name in self._interference:
            self._warn(place, path, f"{name!r} is interference, which a memory should not store")
