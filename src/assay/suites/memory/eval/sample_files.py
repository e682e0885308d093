"""Reads and checks samples: files of three layouts, and loaders of users.

    samples, warnings = load_samples("data")            # raises InputError with all problems
    samples, warnings = load_samples("own.py:load")

A `.json` file has one sample or a list of samples; a `.jsonl` file has one sample per line. The older layout has three
files: samples with their sessions, and for each sample a row with its points and a row with its checkpoints. An object
with HaluMem's keys is read by `halumem.py`.

`sample_schema.py` defines the format, and `files/schema.py` reports every value that does not fit it. Rules across
keys, such as duplicate ids and unknown sessions, are in `sample_build.py`. `sample_check.py` has further rules for
`assay check`; a run does not apply them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from assay.core.errors import InputError, Problem
from assay.core.file_check import FileCheck, contents
from assay.files.json_objects import FileObject, read_objects
from assay.files.schema import refuse, shorten
from assay.suites.memory.eval.halumem import build_halumem, inspect_halumem, is_halumem
from assay.suites.memory.eval.sample import Sample
from assay.suites.memory.eval.sample_build import build_sample
from assay.suites.memory.eval.sample_check import inspect_sample
from assay.suites.memory.eval.sample_loader import load_own_samples
from assay.suites.memory.eval.sample_places import sample_places
from assay.suites.memory.eval.sample_schema import CHECKPOINTS, MAIN, POINTS

_HINT = "--dataset must be a sample file, a folder of sample files, or FILE.py:load"
_SUFFIXES = (".json", ".jsonl")
# `assay check` reads this many files of a folder to recognise it. More would make it slow on folders of other data.
_MOST_FILES = 20


class LoadedSamples(NamedTuple):
    """The samples in the order of the files, and warnings that do not stop a run."""

    samples: list[Sample]
    warnings: list[str]


def load_samples(dataset: str | Path) -> LoadedSamples:
    """Return the samples of a file, a folder or `FILE.py:load`. Raises InputError with all that prevents a run."""
    if isinstance(dataset, str) and ".py:" in dataset:
        return LoadedSamples(load_own_samples(dataset), [])
    path = Path(dataset)
    problems: list[Problem] = []
    samples = [sample for sample, _ in _read(path, problems)]
    refuse(problems, path)
    return LoadedSamples(samples, [str(problem) for problem in problems])


def check_samples(path: Path) -> list[Problem]:
    """Return all problems of a file or folder. Errors are certainly wrong; warnings may be intended."""
    return examine_samples(path).problems


def examine_samples(path: Path) -> FileCheck:
    """Return the check of a file or folder of samples."""
    problems: list[Problem] = []
    counts = Counter({"sample": 0, "session": 0, "question": 0})
    for sample, inspect in _read(path, problems):
        inspect()
        questions = sum(len(checkpoint.questions) for checkpoint in sample.checkpoints)
        counts.update(sample=1, session=len(sample.sessions), question=questions)
    return FileCheck(kind="samples (memory eval)", contents=contents(counts), problems=shorten(problems, path))


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
        source = next(read_objects(file, []), None)
    except InputError:
        return False
    if source is None or source.value.get("sessions") is None:
        return False
    own_keys = ("memory_points", "qa_checkpoints")
    return is_halumem(source.value) or any(source.value.get(key) is not None for key in own_keys)


# Adds to the list of problems what is wrong in a sample that a run accepts.
Inspection = Callable[[], None]


def _read(path: Path, problems: list[Problem]) -> Iterator[tuple[Sample, Inspection]]:
    """Yield every sample that can be built. Adds all problems to the list, also those of other samples."""
    places: dict[str, str] = {}  # of each sample id
    is_empty = True
    for file in _files(path):
        is_empty = False
        try:
            for source, sample, inspect in _read_file(file, problems):
                where = source.where()
                if (first := places.setdefault(sample.sample_id, where)) != where:
                    message = f"duplicate id {sample.sample_id!r}, first used at {first}"
                    problems.append(source.problem((), message))
                yield sample, inspect
        except InputError as error:
            problems += error.problems
    if is_empty:
        problems.append(Problem(str(path), "this folder has no .json or .jsonl file"))


def _read_file(file: Path, problems: list[Problem]) -> Iterator[tuple[FileObject, Sample, Inspection]]:
    sources = read_objects(file, problems, thing="sample", hint=_HINT)
    if file.name == MAIN:
        yield from _built(file, sources, problems)
        return
    for source in sources:
        if not is_halumem(source.value):
            yield from _built(file, [source], problems)
        elif (sample := build_halumem(source, problems)) is not None:
            yield source, sample, partial(inspect_halumem, source, sample, problems)


def _built(
    file: Path, sources: Iterable[FileObject], problems: list[Problem]
) -> Iterator[tuple[FileObject, Sample, Inspection]]:
    for place in sample_places(file, sources, problems):
        if (sample := build_sample(place, problems)) is not None:
            yield place.sample.source, sample, partial(inspect_sample, place, sample, problems)
