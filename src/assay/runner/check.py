"""`assay check`: finds out what a file is, and lists its problems. A folder is checked file by file.

    for each in check_path(Path("examples"), CheckOptions()):
        print(each.path, each.check.kind, each.check.contents, each.check.problems)

Suites recognise and check their own files. Formats that belong to no suite are here: price tables, recorded replies,
and results of other programs, which `assay import` reads.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from assay.core.errors import InputError, MissingExtra, Problem, UsageError, similar_file, unreadable
from assay.core.file_check import (
    FOLDER,
    PRICES,
    REPLIES,
    RESULTS,
    CheckOptions,
    FileCheck,
    contents,
    did_you_mean,
)
from assay.core.suite import files_of
from assay.core.suite_files import Match
from assay.engine.prices import is_price_table, price_problems
from assay.files.read import read_json, refuse_special_file
from assay.files.yaml_files import YAML_SUFFIXES, load_yaml
from assay.journal.folder import HOME, is_run_folder
from assay.models.script import check_replies, looks_like_replies
from assay.runner.imports import FORMATS
from assay.suites import find_suite, suite_names

EXPECTED = (
    "task files, pipelines, settings, contracts and price tables (.yaml); testsets, rows, labels, recorded replies and "
    "results (.jsonl); conversations, samples and results (.json); tables (.csv, .parquet)"
)
_CHECKED_SUFFIXES = frozenset({".yaml", ".yml", ".json", ".jsonl", ".ndjson", ".csv", ".parquet", ".arrow"})
_CONTRACT = "metainfo.md"
_SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules", "site-packages"})
# Names of files that are listed in a sentence. The rest is counted.
_MOST_NAMES = 5
# Keys of YAML files by which a misspelled key is guessed.
_YAML_KEYS = [
    "task",
    "group",
    "dataset_path",
    "steps",
    "llms",
    "profiles",
    "inputs",
    "outputs",
    "as_of",
    "models",
]


class CheckedFile(Struct, frozen=True):
    """The check of a path. `suite` is the name for `--as`; it is empty for a file that is not recognised."""

    path: Path
    suite: str
    check: FileCheck


class FormatMatch(Struct, frozen=True):
    """The name for `--as` that fits a file. `note` says which others fit too."""

    name: str
    note: str = ""


def check_path(path: Path, options: CheckOptions, name: str = "") -> Iterator[CheckedFile]:
    """Yield the check of a file, or of every file of a folder and then their sum. `name` is that of `--as`.

    Raises UsageError if there is no such file, or if two suites are equally sure of it.
    """
    if not path.exists():
        raise UsageError(f"there is no file {str(path)!r}{similar_file(path)}")
    if path.is_dir() and not name and not _is_unit(path):
        yield from _check_folder(path, options)
    else:
        yield check_file(path, options, name)


def check_file(path: Path, options: CheckOptions, name: str = "") -> CheckedFile:
    """Return the check of one file, or of a folder that a suite reads as a whole."""
    note = ""
    try:
        refuse_special_file(path)
        if not name:
            match = recognise(path, options)
            if match is None:
                return CheckedFile(path, "", _unrecognised(path))
            name, note = match.name, match.note
        check = _CHECKS[name](path) if name in _CHECKS else files_of(find_suite(name)).examine(path, options)
    except InputError as error:
        check = FileCheck(kind=f"file of {name}" if name else "", problems=error.problems)
    except MissingExtra as error:
        problem = Problem(str(path), f"not all of it could be checked: {error}", "warning")
        check = FileCheck(kind=f"file of {name}", problems=[problem])
    except (RecursionError, MemoryError) as error:
        # The readers are bounded. This is for what is within their bounds and still too much for this machine.
        why = "is nested too deeply" if isinstance(error, RecursionError) else "needs more memory than there is"
        check = FileCheck(kind=f"file of {name}" if name else "", problems=[Problem(str(path), why)])
    except OSError as error:
        check = FileCheck(kind="", problems=[unreadable(path, error)])
    if note:
        check = FileCheck(kind=check.kind, contents=check.contents, problems=check.problems, notes=[*check.notes, note])
    return CheckedFile(path, name, check)


def recognise(path: Path, options: CheckOptions) -> FormatMatch | None:
    """Return what reads a file; None if nothing does. Raises UsageError if two suites match equally."""
    if options.beside is not None:
        return FormatMatch("pipeline")
    if is_price_table(path):
        return FormatMatch(PRICES)
    matches = {name: files_of(find_suite(name)).recognises(path) for name in suite_names()}
    best = max(matches.values())
    names = [name for name, match in matches.items() if match == best]
    if best > Match.MAYBE:
        if len(names) > 1:
            raise UsageError(f"{path} could be read by {' or '.join(names)}. Choose one with --as SUITE")
        return FormatMatch(names[0])
    if path.is_file() and looks_like_replies(path):
        return FormatMatch(REPLIES, "with --as task it is checked as rows of data")
    if path.is_file() and _result_format(path):
        return FormatMatch(RESULTS)
    if best == Match.NO:
        return None
    note = ""
    if path.suffix == ".jsonl":
        note = "rows of data fit several commands; --as pipeline checks them as a testset, --as hop as rows of a batch"
    return FormatMatch(names[0], note)


def _unrecognised(path: Path) -> FileCheck:
    """Return the check of a file in no format of ours. The message says what is wrong with it, if that is certain."""
    hint = ""
    try:
        if path.suffix in YAML_SUFFIXES:
            keys = list(map(str, load_yaml(path).value))
            near = [f"{key!r}{did_you_mean(key, _YAML_KEYS)}" for key in keys]
            hint = next((text for text in near if "did you mean" in text), "")
        elif path.suffix == ".json":
            read_json(path)
    except InputError as error:
        return FileCheck(kind="", problems=error.problems)
    message = f"cannot tell what this file is{f': {hint}' if hint else ''}. Expected: {EXPECTED}. "
    # The suite `evaluate` has rows of Python programs and no files.
    choices = ", ".join([name for name in suite_names() if name != "evaluate"] + list(_CHECKS))
    return FileCheck(kind="", problems=[Problem(str(path), f"{message}Choose a format with --as, one of: {choices}")])


# Formats without a suite


def _check_prices(path: Path) -> FileCheck:
    problems = price_problems(path)
    models = "" if problems else contents({"model": len(load_yaml(path).value["models"])})
    return FileCheck(kind="price table (--prices)", contents=models, problems=problems)


def _check_replies(path: Path) -> FileCheck:
    replies = check_replies(path)
    return FileCheck(
        kind="recorded replies (--model script/FILE)",
        contents=contents({"line": replies.lines}),
        problems=replies.problems,
    )


def _result_format(path: Path) -> str:
    """Return the name of the format of a result file; empty if it has none. A broken file of a format counts."""
    for name, about in FORMATS.items():
        try:
            source = about.read(path)
        except InputError:
            # Readers of other formats raise for a broken file too, so only a format that is sure by name counts.
            return name if path.name.startswith(("results", "samples")) else ""
        if source is not None:
            source.close()
            return name
    return ""


def _check_results(path: Path) -> FileCheck:
    """Read a result file as `assay import` does, to its last case. Nothing is written."""
    name = _result_format(path)
    if not name:
        formats = "; ".join(f"{each}: {about.files}" for each, about in FORMATS.items())
        message = f"has no results that assay can read. The formats are {formats}"
        return FileCheck(kind="results", problems=[Problem(str(path), message)])
    kind = f"results in the format {name} (import)"
    try:
        source = FORMATS[name].read(path)
        assert source is not None
        try:
            with tempfile.TemporaryDirectory() as folder:
                # Some formats write what their cases refer to. Here nobody reads it.
                source.prepare(Path(folder))
                counts = {"case": sum(1 for _ in source.cases()), "subject": len(source.plan.subjects)}
        finally:
            source.close()
    except InputError as error:
        return FileCheck(kind=kind, problems=error.problems)
    return FileCheck(kind=kind, contents=contents(counts))


_CHECKS = {PRICES: _check_prices, REPLIES: _check_replies, RESULTS: _check_results}


# Folders


def _is_unit(folder: Path) -> bool:
    """Return whether a suite reads a folder as a whole: a task of HOP, or a folder with nothing but samples."""
    if files_of(find_suite("hop")).recognises(folder) is Match.SURE:
        return True
    samples = files_of(find_suite("memory-eval"))
    files = [path for path in folder.iterdir() if path.suffix in (".json", ".jsonl") and path.is_file()]
    return bool(files) and all(samples.recognises(path) is Match.SURE for path in files)


def _check_folder(root: Path, options: CheckOptions) -> Iterator[CheckedFile]:
    """Yield the checks of all files below a folder that assay reads, and last their sum.

    All task files are one check, because they include each other. A file in no format of ours is only named.
    """
    tasks = files_of(find_suite("task"))
    units, files, others = _walk(root)
    task_files = [path for path in files if tasks.recognises(path) is Match.LIKELY]
    checks: list[CheckedFile] = []
    unknown: list[Path] = []
    if task_files:
        checks.append(CheckedFile(root, "task", tasks.examine(root, options)))
        yield checks[-1]
    for path in [*units, *sorted(set(files).difference(task_files))]:
        if task_files and path.suffix in YAML_SUFFIXES and _is_part_of_tasks(path):
            continue
        try:
            each = check_file(path, options)
        except UsageError as error:
            each = CheckedFile(path, "", FileCheck(kind="", problems=[Problem(str(path), str(error))]))
        if not each.suite and not _is_broken(path):
            unknown.append(path)
            continue
        checks.append(each)
        yield each
    yield CheckedFile(root, "", _sum(root, checks, unknown, others))


def _is_part_of_tasks(path: Path) -> bool:
    """Return whether a YAML file has keys of tasks and no name: task files include it, and it is checked with them."""
    suites = {name: files_of(find_suite(name)).recognises(path) for name in suite_names()}
    return not _is_broken(path) and [name for name, match in suites.items() if match != Match.NO] == ["task"]


def _is_broken(path: Path) -> bool:
    """Return whether a file without a format is broken JSON or YAML, which may have been a file of ours."""
    try:
        if path.suffix == ".json":
            read_json(path)
        elif path.suffix in YAML_SUFFIXES:
            load_yaml(path)
    except InputError:
        return True
    return False


def _walk(root: Path) -> tuple[list[Path], list[Path], int]:
    """Return the folders that are checked as a whole, the files to check, and the number of other files.

    Run folders, folders that runs write their results to, and hidden folders are left out.
    """
    units: list[Path] = []
    files: list[Path] = []
    others = 0
    for name, folders, names in os.walk(root):
        folder = Path(name)
        if folder != root and _is_unit(folder):
            units.append(folder)
            folders.clear()
            continue
        folders[:] = sorted(
            each for each in folders if each[0] != "." and each not in _SKIPPED_FOLDERS and not is_output(folder / each)
        )
        for each in sorted(names):
            path = folder / each
            stem = path.with_suffix("") if path.suffix in (".gz", ".bz2", ".xz") else path
            if path.is_file() and (stem.suffix in _CHECKED_SUFFIXES or path.name == _CONTRACT):
                files.append(path)
            else:
                others += each[0] != "."
    return units, files, others


def is_output(folder: Path) -> bool:
    """Return whether a folder is a run, has runs, or has the folder `assay` with the runs that wrote its files."""
    homes = [home for home in (folder, folder / HOME) if home.is_dir()]
    return is_run_folder(folder) or any(is_run_folder(each) for home in homes for each in home.iterdir())


def _sum(root: Path, checks: list[CheckedFile], unknown: list[Path], others: int) -> FileCheck:
    levels = Counter(problem.level for each in checks for problem in each.check.problems)
    fine = sum(not any(problem.level == "error" for problem in each.check.problems) for each in checks)
    total = f"{len(checks):,} checked, {fine:,} without errors"
    total += f"; {contents({'error': levels['error'], 'warning': levels['warning']})}"
    notes: list[str] = []
    if unknown:
        names = ", ".join(str(path.relative_to(root)) for path in unknown[:_MOST_NAMES])
        more = f" and {len(unknown) - _MOST_NAMES:,} more" if len(unknown) > _MOST_NAMES else ""
        notes.append(f"in no format that assay reads, not checked: {names}{more}; --as checks a file as you say")
    if others:
        notes.append(f"{contents({'other file': others})} not checked")
    problems = [] if checks else [Problem(str(root), f"nothing to check is in this folder. Expected: {EXPECTED}")]
    return FileCheck(kind=FOLDER, contents=total, problems=problems, notes=notes)
