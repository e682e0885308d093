"""Opens logs of Inspect: `.eval` archives and `.json` files, finished or not.

An archive has `header.json` (only when the evaluation ended), `_journal/start.json`, `reductions.json` and a member
for each sample and epoch. A sample of an agent may have a folder of members instead, in pieces. A JSON log has
everything in one object. The structs below name the fields that assay reads; both formats share them.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from assay.core.errors import InputError, Problem, unreadable
from assay.files.read import convert_json, decode_json, read_object
from assay.files.zip_files import ZipArchive

_SAMPLE_NAME = re.compile(r"samples/(?P<id>.*)_epoch_(?P<epoch>\d+)(\.json|/sample\.json)", re.DOTALL)
# A piece of a sample in pieces, named after the number of its first item.
_PIECE_NAME = re.compile(r"(?P<sequence>samples/.*/)(?P<number>\d+)\.json", re.DOTALL)
_HEADER, _START, _REDUCTIONS = "header.json", "_journal/start.json", "reductions.json"
# The beginning of a JSON log. Inspect writes `version`, `status` and `eval` first.
_SNIFFED_BYTES = 4096


class InspectDataset(Struct, kw_only=True):
    """`eval.dataset`."""

    name: str | None = None
    samples: int | None = None
    sample_ids: list[str | int] | None = None


class InspectSpec(Struct, kw_only=True):
    """`eval`: what was evaluated."""

    task: str
    model: str
    created: str = ""
    dataset: InspectDataset = field(default_factory=InspectDataset)
    packages: dict[str, str] = field(default_factory=dict)
    tags: list[str] | None = None
    metadata: dict[str, Any] | None = None
    task_args: dict[str, Any] = field(default_factory=dict)


class InspectMetric(Struct, kw_only=True):
    """One number of a scorer, such as `accuracy` or `stderr`."""

    name: str
    value: float | None = None
    group: str | None = None
    params: dict[str, Any] | None = None


class InspectScorer(Struct, kw_only=True):
    """The numbers of one scorer, or of one key of its scores, for one reducer of epochs."""

    name: str
    scorer: str = ""
    reducer: str | None = None
    scored_samples: int | None = None
    unscored_samples: int | None = None
    metrics: dict[str, InspectMetric] = field(default_factory=dict)


class InspectResults(Struct, kw_only=True):
    """`results`: the numbers of the evaluation."""

    scores: list[InspectScorer] = field(default_factory=list)
    total_samples: int = 0
    completed_samples: int = 0


class InspectStats(Struct, kw_only=True):
    """`stats`."""

    started_at: str = ""
    completed_at: str = ""


class InspectError(Struct, kw_only=True):
    """An error of the evaluation or of a sample."""

    message: str = ""
    traceback: str = ""


class ReducedScore(Struct, kw_only=True):
    """The value of a sample after its epochs were reduced to one."""

    value: Any = None
    sample_id: str | int | None = None


class InspectReduction(Struct, kw_only=True):
    """The reduced values of all samples for a scorer and a reducer."""

    scorer: str
    reducer: str | None = None
    samples: list[ReducedScore] = field(default_factory=list)


class InspectHeader(Struct, kw_only=True):
    """Everything of a log but its samples."""

    eval: InspectSpec
    version: int = 2
    status: str = "started"
    results: InspectResults | None = None
    stats: InspectStats = field(default_factory=InspectStats)
    error: InspectError | None = None
    reductions: list[InspectReduction] | None = None


class InspectScore(Struct, kw_only=True):
    """The score of one sample by one scorer. `value` is a letter, a number, a list or an object; NaN is no score."""

    value: Any = None
    answer: str | None = None
    explanation: str | None = None
    reason: str | None = None


class InspectUsage(Struct, kw_only=True):
    """Tokens of a model."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_cost: float | None = None


class InspectLimit(Struct, kw_only=True):
    """The limit that ended a sample."""

    type: str
    limit: float | None = None


class InspectSample(Struct, kw_only=True):
    """One sample of one epoch. Messages and events stay plain values: `results.py` picks what it reads."""

    id: str | int
    epoch: int = 1
    input: Any = ""
    choices: list[str] | None = None
    target: Any = ""
    metadata: dict[str, Any] | None = None
    messages: list[dict[str, Any]] | None = None
    output: dict[str, Any] | None = None
    scores: dict[str, InspectScore] | None = None
    score: InspectScore | None = None
    """Logs of 2024 had one score without a name."""
    events: list[dict[str, Any]] | None = None
    events_data: dict[str, Any] | None = None
    transcript: dict[str, Any] | None = None
    """Logs of 2024 had the events here, and the attachments under `content`."""
    attachments: dict[str, Any] | None = None
    model_usage: dict[str, InspectUsage] | None = None
    total_time: float | None = None
    error: InspectError | None = None
    limit: InspectLimit | None = None


class InspectLog(ABC):
    """An open log. `sample_ids` are the samples that it has, in the order of the data set."""

    header: InspectHeader
    sample_ids: list[str]

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def epochs_of(self, sample: str) -> list[InspectSample]:
        """Return all epochs of a sample, in order."""

    def samples(self) -> Iterator[list[InspectSample]]:
        """Yield the epochs of each sample."""
        for name in self.sample_ids:
            yield self.epochs_of(name)

    def _in_data_order(self, names: list[str]) -> list[str]:
        """Return names of samples in the order of the data set. An archive has them as they ended."""
        listed = [str(name) for name in self.header.eval.dataset.sample_ids or ()]
        places = {name: place for place, name in enumerate(dict.fromkeys(listed))}
        return sorted(dict.fromkeys(names), key=lambda name: places.get(name, len(places)))

    def close(self) -> None:  # noqa: B027 - a JSON log keeps no file open
        """Close the file."""


def find_logs(folder: Path) -> list[Path]:
    """Return the logs in a folder, sorted by name, which begins with their time. Broken ones are included."""
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".eval" or _is_json_log(path))
    except OSError as error:
        raise InputError(unreadable(folder, error)) from None


def open_log(path: Path) -> InspectLog | None:
    """Return the log at a path; None if the file is no log of Inspect. Raises InputError for a broken log."""
    if not path.is_file():
        return None
    if path.suffix == ".eval" or _head(path).startswith(b"PK\x03\x04"):
        return _open_archive(path)
    if _is_json_log(path):
        value = read_object(path)
        if isinstance(value.get("eval"), dict):
            return JsonLog(path, value)
    return None


def _is_json_log(path: Path) -> bool:
    """Return whether a file begins like a JSON log."""
    if path.suffix != ".json" or not path.is_file():
        return False
    head = _head(path)
    return b'"eval"' in head and b'"status"' in head


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_SNIFFED_BYTES)
    except OSError as error:
        raise InputError(unreadable(path, error)) from None


def _open_archive(path: Path) -> InspectLog | None:
    archive = ZipArchive(path)
    if _HEADER in archive or _START in archive:
        try:
            return ArchiveLog(archive)
        except InputError:
            archive.close()
            raise
    archive.close()
    if path.suffix != ".eval":
        return None
    raise InputError(Problem(str(path), f"is no log of Inspect: it has neither {_HEADER} nor {_START}"))


class ArchiveLog(InspectLog):
    """A `.eval` archive. Samples are unpacked one at a time."""

    def __init__(self, archive: ZipArchive) -> None:
        super().__init__(archive.path)
        self._archive = archive
        # An evaluation that was killed has no header.
        self.header = convert_json(
            self._decode(_HEADER if _HEADER in archive else _START),
            InspectHeader,
            archive.where(_HEADER if _HEADER in archive else _START),
        )
        if _REDUCTIONS in archive:
            self.header.reductions = convert_json(
                self._decode(_REDUCTIONS), list[InspectReduction], archive.where(_REDUCTIONS)
            )
        self._members: dict[str, dict[int, str]] = {}
        self._pieces: dict[str, dict[int, str]] = {}
        for name in archive.names():
            if piece := _PIECE_NAME.fullmatch(name):
                self._pieces.setdefault(piece["sequence"], {})[int(piece["number"])] = name
            if match := _SAMPLE_NAME.fullmatch(name):
                self._members.setdefault(match["id"], {})[int(match["epoch"])] = name
        self.sample_ids = self._in_data_order(list(self._members))

    def _decode(self, name: str) -> Any:
        return decode_json(self._archive.read(name), self._archive.where(name))

    def epochs_of(self, sample: str) -> list[InspectSample]:
        epochs = []
        for _, name in sorted(self._members[sample].items()):
            value = self._decode(name)
            if name.endswith("/sample.json") and isinstance(value, dict):
                value = self._joined(value, name.removesuffix("sample.json"))
            epochs.append(convert_json(value, InspectSample, self._archive.where(name)))
        return epochs

    def _joined(self, shell: dict[str, Any], folder: str) -> dict[str, Any]:
        """Return a sample in pieces as one value. Its attachments are numbered instead of named by their hash."""
        messages = self._sequence(f"{folder}messages/")
        attachments = self._sequence(f"{folder}attachments/")
        joined = {
            **shell,
            "messages": None,
            "events": self._sequence(f"{folder}events/"),
            "events_data": {"messages": messages},
            "attachments": {str(number): content for number, content in enumerate(attachments)},
        }
        if f"{folder}metadata.json" in self._archive:
            joined["metadata"] = self._decode(f"{folder}metadata.json")
        return joined

    def _sequence(self, folder: str) -> list[Any]:
        """Return the items of a sequence from all its pieces."""
        items: list[Any] = []
        for _, name in sorted(self._pieces.get(folder, {}).items()):
            piece = self._decode(name)
            items += piece if isinstance(piece, list) else []
        return items

    def close(self) -> None:
        self._archive.close()


class JsonLog(InspectLog):
    """A `.json` log. It is in memory as a whole."""

    def __init__(self, path: Path, value: dict[str, Any]) -> None:
        super().__init__(path)
        samples = value.pop("samples", None)
        self.header = convert_json(value, InspectHeader, str(path))
        self._samples: dict[str, dict[int, InspectSample]] = {}
        for number, item in enumerate(samples if isinstance(samples, list) else ()):
            where = f"{path}: samples[{number}]"
            sample = convert_json(item, InspectSample, where)
            epochs = self._samples.setdefault(str(sample.id), {})
            if sample.epoch in epochs:
                raise InputError(Problem(where, f"is the second sample {sample.id!r} of epoch {sample.epoch}"))
            epochs[sample.epoch] = sample
        self.sample_ids = self._in_data_order(list(self._samples))

    def epochs_of(self, sample: str) -> list[InspectSample]:
        return [epoch for _, epoch in sorted(self._samples[sample].items())]
