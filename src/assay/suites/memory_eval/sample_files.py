"""Reads and checks the files of samples.

A file holds one sample, a list of them, or one a line (`.jsonl`). In the older layout three files belong
together: samples with their sessions, and for each sample a row with its points and a row with its checkpoints.

    samples, warnings = load_samples(Path("data"))     # raises InputError with every problem

The structs below are the one statement of the format: `core/schema.py` reports everything that does not fit
them. Rules across keys (ids that stand twice, sessions that are not there) are Python below. `check_samples` has
further rules, about data that a run takes as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct, field

from assay.core.errors import InputError, Problem
from assay.core.records import FileRecord, read_records
from assay.core.schema import Filled, KeyPath, Name, Scalar, convert, json_path, refuse, shorten
from assay.suites.memory_eval.sample import (
    Checkpoint,
    MemoryPoint,
    Sample,
    SampleQuestion,
    SampleSession,
    Turn,
)

MAIN, POINTS, CHECKPOINTS = "domain_a_v2.json", "stage4_memory_points.jsonl", "stage4b_qa_checkpoints.jsonl"
"""The files of the older layout."""
INTERFERENCE = "interference"
"""The `memory_source` of points that no memory should keep."""

_HINT = "--dataset names a sample's file or a folder of them"
_SUFFIXES = (".json", ".jsonl")
_ID_KEYS = ("sample_id", "uuid")
# How many files of a folder are looked at to recognise it.
_MOST_FILES = 20

# `is_update` may be a text in any case; an empty one is false.
Truth = bool | Annotated[str, Meta(pattern=r"(?i)^\s*(true|false)?\s*$")]


class ImageRecord(Struct):
    """An image that is shown with a turn."""

    caption: str | None = None
    image_id: Any = None


class TurnRecord(Struct):
    """A turn of a dialogue. One with attachments needs no content."""

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
    """A session. Its points may stand in it or in a block beside it."""

    dialogue: list[TurnRecord]
    v2_id: Name | None = field(name="_v2_session_id", default=None)
    session_id: Name | None = None
    memory_points: list[PointRecord] | None = None


class BlockRecord(Struct):
    """The points of one session, beside the sessions."""

    session_id: Name
    memory_points: list[PointRecord]


class EvidenceRecord(Struct):
    """What a question's answer follows from: a point or an image."""

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
    """Questions that are asked after the last covered session."""

    checkpoint_id: Name
    questions: list[QuestionRecord]
    covered_sessions: list[Name] | None = None


SESSIONS_PROBLEM = "is empty: a sample needs a session"


class SampleRecord(Struct):
    """A sample without its points and checkpoints, which may stand in other files."""

    sessions: Annotated[list[SessionRecord], Meta(min_length=1, extra={"problem": SESSIONS_PROBLEM})]
    sample_id: Name | None = None
    uuid: Name | None = None


# Reading.


class LoadedSamples(NamedTuple):
    """Samples in the order of the files, and what is odd in them but stops nothing."""

    samples: list[Sample]
    warnings: list[str]


def load_samples(path: Path) -> LoadedSamples:
    """Read a file or a folder. Raises InputError with every problem that makes a run impossible."""
    problems: list[Problem] = []
    samples = [sample for _, sample in _read(path, problems)]
    refuse(problems, path)
    return LoadedSamples(samples, [str(problem) for problem in problems])


def check_samples(path: Path) -> list[Problem]:
    """Every problem of a file or a folder. An error is wrong whatever was meant; a warning may be meant."""
    problems: list[Problem] = []
    for place, sample in _read(path, problems):
        _Inspection(place, sample, problems).run()
    return shorten(problems, path)


def has_samples(path: Path) -> bool:
    """Whether the first sample of a file, or of one of a folder's first files, has the keys of one."""
    return any(_is_sample_file(file) for file in islice(_files(path), _MOST_FILES))


def _files(path: Path) -> Iterable[Path]:
    """The files to read in the order of their paths. The older layout is read by way of its main file."""
    if not path.is_dir():
        return [_main_file(path)]
    files = []
    for file in sorted(path.rglob("*")):
        is_hidden = any(part.startswith(".") for part in file.relative_to(path).parts)
        if file.suffix in _SUFFIXES and not is_hidden and file.is_file():
            files.append(_main_file(file))
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
    """A part of a sample: the record that it stands in, the path of its key, and the value as it was read."""

    record: FileRecord
    path: KeyPath
    value: Any

    def problem(self, path: KeyPath, message: str, level: str = "error") -> Problem:
        """Build the problem of the value at a path below this place."""
        return self.record.problem((*self.path, *path), message, level)

    def name(self, path: KeyPath) -> str:
        """The JSON path of a value below this place, as messages name it within a file."""
        return json_path((*self.path, *path), self.record.root)


class SamplePlace(NamedTuple):
    """Where the three parts of a sample stand: itself, its blocks of points, its checkpoints."""

    sample: PlacedValue
    points: PlacedValue
    checkpoints: PlacedValue


def _read(path: Path, problems: list[Problem]) -> Iterator[tuple[SamplePlace, Sample]]:
    """Every sample that can be built. Problems are added to the list, those of unsound samples too."""
    places: dict[str, str] = {}
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
                    message = f"the id {sample.sample_id!r} stands at {first} already; each needs its own"
                    problems.append(place.sample.problem((), message))
                yield place, sample
        except InputError as error:
            problems += error.problems
    if is_empty:
        problems.append(Problem(str(path), "there is no .json or .jsonl file in this folder"))


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
    """The value of a key that may be absent or null; then there are none."""
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
    """The value of the first of these keys that has one. Without any, it is missing at the first key."""
    for key in keys:
        if record.value.get(key) is not None:
            return PlacedValue(record, (key,), record.value[key])
    return PlacedValue(record, (keys[0],), msgspec.UNSET)


class _SampleRows:
    """The rows of one of the older layout's files, by the `sample_id` or the `uuid` of a sample."""

    def __init__(self, path: Path, problems: list[Problem]) -> None:
        self._path = path
        self._problems = problems
        self._rows: dict[str, FileRecord] = {}
        self._used: set[int] = set()
        for record in read_records(path, problems, hint=f"{MAIN} needs it beside it"):
            names = [str(record.value[key]) for key in _ID_KEYS if record.value.get(key) is not None]
            if not names:
                message = "is missing: it says which sample the row is of"
                problems.append(record.problem(("sample_id",), message))
            for name in dict.fromkeys(names):
                first = self._rows.setdefault(name, record)
                if first is not record:
                    message = f"line {first.line} is of the sample {name!r} already"
                    problems.append(record.problem((), message))

    def row_of(self, sample: FileRecord) -> FileRecord | None:
        """The row of a sample; None after adding the problem that there is none."""
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
        """Rows without a sample are warnings: they are left out of a run."""
        unused = {row.line: name for name, row in self._rows.items() if row.line not in self._used}
        for line, name in unused.items():
            message = f"{MAIN} has no sample {name!r}"
            self._problems.append(Problem(f"{self._path}:{line}", message, "warning"))


# Building a sample.


def _build_sample(place: SamplePlace, problems: list[Problem]) -> Sample | None:
    """The sample, with every problem added; None where a value is missing or of another type."""
    count = len(problems)
    sample = convert(place.sample.value, SampleRecord, place.sample.record, problems)
    blocks = _convert_part(place.points, list[BlockRecord], problems)
    checkpoints = _convert_part(place.checkpoints, list[CheckpointRecord], problems)
    if sample is not None:
        _add_missing_keys(place.sample, problems)
    if checkpoints is not None:
        _add_missing_evidence(place.checkpoints, checkpoints, problems)
    if sample is None or blocks is None or checkpoints is None or len(problems) > count:
        return None
    _add_id_problems(place, sample, blocks, checkpoints, problems)
    return _sample_of(place, sample, blocks, checkpoints)


def _convert_part(place: PlacedValue, schema: Any, problems: list[Problem]) -> Any:
    if place.value is msgspec.UNSET:
        problems.append(place.problem((), "is missing"))
        return None
    return convert(place.value, schema, place.record, problems, place.path)


def _add_missing_keys(place: PlacedValue, problems: list[Problem]) -> None:
    """Of some keys one is enough, and a turn that shows an image needs no content."""
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
            # A list with a wrong item was told already and is None here.
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
    """Ids that stand twice, and sessions that are named and not there."""
    sessions = []
    for number, session in enumerate(sample.sessions):
        key = "_v2_session_id" if session.v2_id is not None else "session_id"
        sessions.append((_session_id(session), place.sample, ("sessions", number, key)))
    _add_repeated(sessions, problems)
    known = {name for name, _, _ in sessions}

    def check_session(name: Any, where: PlacedValue, path: KeyPath) -> None:
        if str(name) not in known:
            problems.append(where.problem(path, f"there is no session {str(name)!r} in the sample"))

    for number, block in enumerate(blocks):
        check_session(block.session_id, place.points, (number, "session_id"))
    ids = []
    for number, checkpoint in enumerate(checkpoints):
        ids.append((str(checkpoint.checkpoint_id), place.checkpoints, (number, "checkpoint_id")))
        for row, name in enumerate(checkpoint.covered_sessions or ()):
            check_session(name, place.checkpoints, (number, "covered_sessions", row))
        if not checkpoint.covered_sessions:
            message = "names no session: it is asked after the last one"
            path = (number, "covered_sessions")
            problems.append(place.checkpoints.problem(path, message, "warning"))
    _add_repeated(ids, problems)


def _add_repeated(names: Iterable[tuple[str, PlacedValue, KeyPath]], problems: list[Problem]) -> None:
    first: dict[str, str] = {}
    for name, place, path in names:
        where = place.name(path)
        if (earlier := first.setdefault(name, where)) != where:
            message = f"{name!r} stands at {earlier} already; each needs its own"
            problems.append(place.problem(path, message))


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
        listed = points.setdefault(_session_id(session), [])
        listed += map(_point_of, session.memory_points or (), raw_points)
    for block, raw in zip(blocks, place.points.value, strict=True):
        listed = points.setdefault(str(block.session_id), [])
        listed += map(_point_of, block.memory_points, raw["memory_points"])
    contents = {point.memory_id: point.content for listed in points.values() for point in listed}
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


def _turn_of(turn: TurnRecord) -> Turn:
    captions = [image.caption for image in turn.attachments or () if image.caption and image.caption.strip()]
    return Turn(turn.role, turn.content or "", _scalar_text(turn.timestamp), tuple(captions))


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
    """A text as it is; a number or a truth as JSON spells it."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()


# `assay check`: data that a run takes as it is.


class _Inspection:
    """Looks for what is odd in one sound sample."""

    def __init__(self, place: SamplePlace, sample: Sample, problems: list[Problem]) -> None:
        self._place = place
        self._sample = sample
        self._problems = problems
        self._sessions = [session.id for session in sample.sessions]
        # What evidence may name, with the number of the session in which it came up.
        self._came_up: dict[str, int] = {}
        self._interference: set[str] = set()
        for number, raw in enumerate(place.sample.value["sessions"]):
            for turn in raw["dialogue"]:
                for image in turn.get("attachments") or ():
                    if image.get("image_id") is not None:
                        self._came_up[str(image["image_id"])] = number
        for number, session in enumerate(sample.sessions):
            for point in session.points:
                self._came_up[point.memory_id] = number
            self._interference.update(point.memory_id for point in session.interference)

    def run(self) -> None:
        for number, session in enumerate(self._sample.sessions):
            if not session.turns:
                message = "is empty: there is nothing to remember"
                self._warn(self._place.sample, ("sessions", number, "dialogue"), message)
        point_places = list(self._point_places())
        names = [(str(raw["memory_id"]), place, (*path, "memory_id")) for _, raw, place, path in point_places]
        _add_repeated(names, self._problems)
        self._check_updates(point_places)
        for number, checkpoint in enumerate(self._sample.checkpoints):
            self._check_checkpoint(checkpoint, number)

    def _warn(self, place: PlacedValue, path: KeyPath, message: str) -> None:
        self._problems.append(place.problem(path, message, "warning"))

    def _point_places(self) -> Iterator[tuple[str, dict[str, Any], PlacedValue, KeyPath]]:
        """Session, raw point and place of every point: those inside sessions, then those of blocks."""
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
        """An update says what it replaces in the words of an earlier point; judges look for these words."""
        by_session: dict[str, list[tuple[PlacedValue, KeyPath]]] = {}
        for session_id, _, place, path in points:
            by_session.setdefault(session_id, []).append((place, (*path, "original_memories")))
        earlier: set[str] = set()
        for session in self._sample.sessions:
            for point, (place, path) in zip(session.points, by_session.get(session.id, ()), strict=True):
                if point.update and not point.interference:
                    if not point.original:
                        self._warn(place, path, "an update must say what it replaces")
                    for original in point.original:
                        if original.strip() not in earlier:
                            self._warn(place, path, f"no earlier point has this text: {original!r}")
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
            self._warn(place, (number, "questions"), "is empty: nothing is asked")
        for row, question in enumerate(checkpoint.questions):
            path = (number, "questions", row)
            if not question.answer.strip():
                message = "is empty: nothing can be compared with it"
                self._problems.append(place.problem((*path, "answer"), message))
            raw_evidence = place.value[number]["questions"][row].get("evidence") or ()
            for item, (name, raw) in enumerate(zip(question.evidence, raw_evidence, strict=True)):
                key = "memory_id" if raw.get("memory_id") is not None else "image_id"
                self._check_evidence(name, (*path, "evidence", item, key), last)

    def _check_evidence(self, name: str, path: KeyPath, last: int) -> None:
        place, came_up = self._place.checkpoints, self._came_up.get(name)
        if came_up is None:
            message = f"there is no memory point or image {name!r} in the sample"
            self._problems.append(place.problem(path, message))
        elif came_up > last:
            message = (
                f"{name!r} comes up in session {self._sessions[came_up]}, after the checkpoint, "
                f"which ends with {self._sessions[last]}"
            )
            self._problems.append(place.problem(path, message))
        if name in self._interference:
            self._warn(place, path, f"{name!r} is interference, which no memory should keep")
