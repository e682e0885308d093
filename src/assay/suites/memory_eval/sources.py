"""Where samples stand: a file for each, a list, a line, or the three files of the older layout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from assay.core.errors import InputError, Problem, unreadable
from assay.core.jsonl import Line, lines, rows
from assay.core.nodes import Node, decoded, records

MAIN, POINTS, CHECKPOINTS = "domain_a_v2.json", "stage4_memory_points.jsonl", "stage4b_qa_checkpoints.jsonl"
"""The older layout: samples with their sessions, and a row for each sample with its points and questions."""
_HINT = "--dataset names a sample's file or a folder of them"
_SUFFIXES = (".json", ".jsonl")
_IDS = ("sample_id", "uuid")
_FILES_LOOKED_AT = 20


class Parts(NamedTuple):
    """What belongs to one sample, each at its place: lists of points by session, and of checkpoints."""

    sample: Node
    points: Node
    checkpoints: Node


def parts(path: Path, problems: list[Problem]) -> Iterator[Parts]:
    """Every sample of a file or a folder, in the order of paths; what cannot be read is noted."""
    found = False
    for file in _files(path):
        found = True
        try:
            yield from _older(file, problems) if file.name == MAIN else _newer(file, problems)
        except InputError as error:
            problems += error.problems
        except OSError as error:
            problems.append(unreadable(file, error, _HINT))
    if not found:
        problems.append(Problem(str(path), "there is no .json or .jsonl file in this folder"))


def has_samples(path: Path) -> bool:
    """Whether the first sample of a file, or of one of a folder's first files, has the keys of one."""
    return any(map(_is_sample_file, islice(_files(path), _FILES_LOOKED_AT)))


def _files(path: Path) -> Iterable[Path]:
    """The files to read. The three files of the older layout are read by way of the first one."""
    if not path.is_dir():
        return [_main(path)]
    below = (each for each in path.rglob("*") if each.suffix in _SUFFIXES and each.is_file())
    shown = (each for each in below if not any(map(_is_hidden, each.relative_to(path).parts)))
    return dict.fromkeys(map(_main, sorted(shown)))


def _main(path: Path) -> Path:
    return path.with_name(MAIN) if path.name in (POINTS, CHECKPOINTS) else path


def _is_hidden(name: str) -> bool:
    return name.startswith(".")


def _is_sample_file(file: Path) -> bool:
    if file.name == MAIN:
        return file.is_file()
    if file.suffix not in _SUFFIXES or not file.is_file():
        return False
    try:
        node = next(_nodes(file, []), None)
    except (InputError, OSError):
        return False
    return node is not None and "sessions" in node and ("memory_points" in node or "qa_checkpoints" in node)


def _newer(file: Path, problems: list[Problem]) -> Iterator[Parts]:
    for node in _nodes(file, problems):
        yield Parts(node, node.get("memory_points", []), node.get("qa_checkpoints", []))


def _nodes(file: Path, problems: list[Problem]) -> Iterator[Node]:
    """The objects of a file: a sample, a list of them, or a line for each."""
    raws: Iterable[tuple[str, msgspec.Raw | bytes]]
    if file.suffix == ".jsonl":
        raws = ((f"{file}:{number} $", raw) for number, raw in lines(file))
    else:
        raws = ((f"{file} {at}", raw) for at, raw in records(file, "sample", _HINT))
    for at, raw in raws:
        if node := decoded(raw, at, problems):
            yield node


def _older(file: Path, problems: list[Problem]) -> Iterator[Parts]:
    points = _Rows(file.with_name(POINTS), problems)
    checkpoints = _Rows(file.with_name(CHECKPOINTS), problems)
    for node in _nodes(file, problems):
        of_points, of_checkpoints = points.of(node), checkpoints.of(node)
        if of_points and of_checkpoints:
            yield Parts(
                node,
                of_points.either("memory_sessions", "memory_points"),
                of_checkpoints.either("checkpoints", "qa_checkpoints"),
            )
    points.tell_unused()
    checkpoints.tell_unused()


class _Rows:
    """The rows of one of the older layout's files, found by the `sample_id` or the `uuid` of a sample."""

    def __init__(self, path: Path, problems: list[Problem]) -> None:
        self._path, self._problems = path, problems
        self._rows: dict[str, Line] = {}
        self._used: set[int] = set()
        try:
            for number, raw, value in rows(path, problems):
                self._keep(Line(number, raw), Node(value, f"{path}:{number} $", problems))
        except OSError as error:
            raise InputError(unreadable(path, error, f"{MAIN} needs it beside it")) from None

    def _keep(self, line: Line, node: Node) -> None:
        names = [node[key].name() for key in _IDS if key in node]
        if not names:
            node["sample_id"].note("is missing: it says which sample the row is of")
        for name in dict.fromkeys(names):
            if (first := self._rows.setdefault(name, line)) is not line:
                node.note(f"line {first.number} is of the sample {name!r} already")

    def of(self, sample: Node) -> Node | None:
        """The row of a sample; None after noting that there is none."""
        names = [str(sample.value[key]) for key in _IDS if key in sample]
        line = next((self._rows[name] for name in names if name in self._rows), None)
        if line is None:
            sample.note(f"{self._path} has no row for this sample ({' or '.join(names) or 'no id'})")
            return None
        self._used.add(line.number)
        return decoded(line.raw, f"{self._path}:{line.number} $", self._problems)

    def tell_unused(self) -> None:
        """Rows that no sample asked for are warnings: they are left out of a run."""
        unused = {line.number: name for name, line in self._rows.items() if line.number not in self._used}
        for number, name in unused.items():
            place, message = f"{self._path}:{number}", f"{MAIN} has no sample {name!r}"
            self._problems.append(Problem(place, message, "warning"))
