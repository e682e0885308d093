"""Forged lines in a run folder: a matching checksum around a form that no suite writes is damage of its case.

Kinds of forged lines x suites x readers. A reader may raise DamagedRun or another error of assay, which names the place,
or show what is left. Any other exception would be a traceback in the terminal and the status 500 in the view.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import chdir, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import AssayError, DamagedRun
from assay.core.suite_pages import RunOrigin
from assay.journal.line_types import RECORDS, SCORES
from assay.runner import api
from assay.runner.exports import FORMATS, export
from assay.store.cases import RunCases, answer_preview
from assay.store.check import check_run
from assay.store.search import search

from support.damaged_runs import SMALL_RUNS
from support.forged_runs import Change, Line, forge, lines_of

SUITES = ["task", "pipeline", "hop", "memory-test", "memory-eval", "evaluate", "calibration"]

ENVELOPES: dict[str, Change] = {
    "an unknown type": lambda line: line | {"type": "reward"},
    "a list": lambda _: [1, 2],
    "a text": lambda _: '{"type": 7}',
    "a case without a key": lambda line: {key: value for key, value in line.items() if key != "case"},
    "an index that is a text": lambda line: line | {"index": "0"},
    "an index below 0": lambda line: line | {"index": -7},
    "an index of 10**12": lambda line: line | {"index": 10**12},
    "an end that is a list": lambda line: line | {"end": []},
    "an end with places outside of the file": lambda line: line | {"end": {"lines": [-1, 10**30]}},
    "nesting without end": lambda _: _deep(100_000),
}
"""Lines that are damaged for every suite: no reader gets them."""

DATA: dict[str, Any] = {
    "null": None,
    "a list": [1, [2]],
    "a text": "x",
    "a number": 7,
    "an empty object": {},
    "an object of lists": {"a": {"b": []}},
}
"""Values in place of the data of a record or score, and of everything in it."""


def _deep(levels: int) -> str:
    return '{"type":"record","data":' + "[" * levels + "]" * levels + "}"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A finished run of each suite."""
    made = {}
    for small in SMALL_RUNS:
        folder = tmp_path_factory.mktemp(small.suite)
        for name, text in small.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        with chdir(folder):
            made[small.suite] = small.start().folder.resolve()
    return made


@pytest.fixture
def copy(runs: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that returns a fresh copy of the run of a suite."""

    def copied(suite: str) -> Path:
        target = tmp_path / "out" / "assay" / runs[suite].name
        shutil.rmtree(target, ignore_errors=True)
        return Path(shutil.copytree(runs[suite], target))

    return copied


def read_everything(run: Path) -> Iterator[Callable[[], object]]:
    """Yield what readers do: the list of cases, the page of each case, labels, search and `assay check`."""
    pages = api.suite_pages(assay.load(run).info.suite)
    yield partial(search_all, run)
    with suppress(AssayError):
        for case in RunCases(run):
            for read in (
                pages.sections,
                pages.details,
                pages.graded_answers,
                pages.held_items,
                pages.curve_values,
            ):
                yield partial(read, case)
            yield partial(answer_preview, pages, case.end.failure, case.records, 80)
            for call in case.calls[:1]:
                if call.request is not None:
                    yield partial(pages.prompt_pieces, call.request, case, RunOrigin({}, {}))
            for score in case.scores[:2]:
                yield partial(pages.question_sections, case, score.part, RunOrigin({}, {}))
                yield partial(pages.question_detail, case, score.part, RunOrigin({}, {}))


def search_all(run: Path) -> object:
    """Find a text that many lines have."""
    return list(search(run, "a", ("prompt", "reply", "record", "score")))


@pytest.mark.parametrize("kind", ENVELOPES)
@pytest.mark.parametrize("file", [RECORDS, SCORES])
@pytest.mark.parametrize("suite", ["task", "memory-eval"])
def test_a_forged_line_is_damage_with_its_place(suite: str, file: str, kind: str, copy: Callable[[str], Path]) -> None:
    run = copy(suite)
    forge(run, file, len(lines_of(run, file)) - 1, ENVELOPES[kind])
    with pytest.raises(DamagedRun, match=rf"{file}:\d+: the line at byte \d+ has a matching checksum, but"):
        list(RunCases(run))
    problems = [str(problem) for problem in check_run(run).problems]
    assert any("has a matching checksum, but assay does not write such a line" in text for text in problems)
    assert isinstance(search_all(run), list)


def changed_places(line: Line) -> Iterator[tuple[str, ...]]:
    """Yield the places in the data of a line that are forged: the data itself, and its values two levels down."""
    yield ("data",)
    data = line.get("data")
    for key, value in data.items() if isinstance(data, dict) else ():
        yield ("data", key)
        first = value[0] if isinstance(value, list) and value else value
        for inner in first if isinstance(first, dict) else ():
            yield ("data", key, inner)


def forged_at(place: tuple[str, ...], value: Any) -> Change:
    """Return a change that puts a value at a place. A list on the way stands for its first item."""

    def change(line: Line) -> Line:
        inside: Any = line
        for key in place[:-1]:
            inside = inside[key]
            inside = inside[0] if isinstance(inside, list) else inside
        inside[place[-1]] = value
        return line

    return change


@pytest.mark.parametrize("value", DATA)
@pytest.mark.parametrize("suite", SUITES)
def test_data_of_a_form_that_the_suite_does_not_write_is_damage_of_its_case(
    suite: str, value: str, copy: Callable[[str], Path]
) -> None:
    names = set()
    for file in (RECORDS, SCORES):
        kinds = set()
        for number, line in enumerate(lines_of(copy(suite), file)):
            kind = line["type"], line.get("kind"), line.get("metric")
            if kind in kinds:
                continue
            kinds.add(kind)
            for place in changed_places(line):
                run = copy(suite)
                forge(run, file, number, forged_at(place, DATA[value]))
                for read in read_everything(run):
                    try:
                        read()
                    except AssayError as error:
                        names.add(str(error).partition(":")[0])
    assert all(name.startswith("case ") for name in names), names


@pytest.mark.parametrize("suite", SUITES)
def test_exports_of_forged_data_name_the_run(suite: str, copy: Callable[[str], Path], tmp_path: Path) -> None:
    for file in (RECORDS, SCORES):
        run = copy(suite)
        forge(run, file, 0, forged_at(("data",), [1, [2]]))
        for name in FORMATS:
            with suppress(AssayError):
                export(run, name, tmp_path / f"{file}-{name}")
