"""`assay check` for a task folder, a contract, settings, or a file of rows. User code is parsed, never run."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from assay.core import jsonl
from assay.core.errors import InputError, Problem, unreadable
from assay.core.hop_records import is_meta, is_observer_line, is_pair, normalize_input
from assay.core.yamlfile import load_yaml
from assay.suites.hop.contract import (
    MARKDOWN,
    YAML_NAMES,
    Contract,
    find_contract,
    markdown_contract,
    read_contract,
)
from assay.suites.hop.files import contract_beside
from assay.suites.hop.rows import read_rows
from assay.suites.hop.settings import NAMES, settings_problems
from assay.suites.hop.target import CODE, HOPLET, TEST_CASES

_YAML_SUFFIXES = (".yaml", ".yml")
_SETTINGS_KEYS = frozenset({"llms", "profiles"})
_CONTRACT_KEYS = frozenset({"inputs", "outputs"})
# Keys of testsets, whose rows may have a `tag` too.
_TESTSET_KEYS = frozenset({"tags", "inputs", "expected_outputs"})
# Keys of pipelines and task files, which may have `inputs` and `outputs` too.
_OTHER_SUITES_KEYS = frozenset({"steps", "task", "group", "include", "dataset_path", "class"})


def is_hop(path: Path) -> bool:
    """Return True if the path certainly belongs to this suite: a task folder, its files, or a result file."""
    if path.is_dir():
        return (path / HOPLET).is_dir() or (path / CODE).is_file() or (path / MARKDOWN).is_file()
    if path.suffix in _YAML_SUFFIXES:
        return _yaml_check(path) is not None
    return path.name == MARKDOWN or (path.suffix == ".jsonl" and _is_output(_first_value(path)))


def has_rows(path: Path) -> bool:
    """Return True if a file probably has rows for a batch: its rows have a `tag`, or it is in `TestCases/`.

    Rows with the keys of a testset, and files in a folder `testsets`, belong to the pipeline suite.
    """
    if path.suffix != ".jsonl" or "testsets" in path.parts:
        return False
    first = _first_value(path)
    if isinstance(first, dict) and isinstance(first.get("tag"), str) and not _TESTSET_KEYS & first.keys():
        return True
    folder = path.resolve().parent
    return folder.name == TEST_CASES and (folder.parent / HOPLET).is_dir()


def check_file(path: Path) -> list[Problem]:
    """Return every problem with its line. Rows are checked against the contract of their task."""
    try:
        if path.is_dir():
            return _check_task(path)
        if path.suffix in _YAML_SUFFIXES:
            return (_yaml_check(path) or _check_contract)(path)
        return _check_contract(path) if path.name == MARKDOWN else _check_rows(path, contract_beside(path))
    except InputError as error:
        return error.problems


def _yaml_check(path: Path) -> Callable[[Path], list[Problem]] | None:
    """Return the check for a YAML file, or None if it belongs to another suite or cannot be read."""
    try:
        keys = frozenset(load_yaml(path).value) if path.is_file() else None
    except InputError:
        return None
    if keys is None or keys & _OTHER_SUITES_KEYS:
        return None
    if keys & _SETTINGS_KEYS or path.name in NAMES:
        return settings_problems
    return _check_contract if keys & _CONTRACT_KEYS or path.name in YAML_NAMES else None


def _first_value(path: Path) -> Any:
    """Return the JSON value of a file's first line, or None if the line is not JSON."""
    if not path.is_file():
        return None
    line = next(iter(jsonl.lines(path)), None)
    try:
        return msgspec.json.decode(line.raw) if line else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _is_output(value: Any) -> bool:
    """Return True if a line was written by a batch or its observer, False for an input row."""
    if not isinstance(value, dict):
        return is_pair(value)
    # normalize_input returns the same object if there is nothing to unwrap.
    wrapped = normalize_input(value) is not value or "hop_result" in value or "hop_stats" in value
    return wrapped or is_meta(value) or is_observer_line(value)


def _check_task(folder: Path) -> list[Problem]:
    """Check code, contract, settings, and every JSONL file in TestCases/ that is not a result file."""
    hoplet = folder / HOPLET if (folder / HOPLET).is_dir() else folder
    problems = _check_code(hoplet / CODE)
    contract = None
    try:
        contract = find_contract(hoplet)
    except InputError as error:
        problems += error.problems
    for settings_folder in dict.fromkeys((hoplet, folder)):
        for name in NAMES:
            if (settings_folder / name).is_file():
                problems += check_file(settings_folder / name)
    for path in sorted((folder / TEST_CASES).glob("*.jsonl")):
        if not _is_output(_first_value(path)):
            problems += _check_rows(path, contract)
    return problems


def _check_code(path: Path) -> list[Problem]:
    """Check that the file exists and is valid Python."""
    try:
        ast.parse(path.read_bytes(), str(path))
    except OSError as error:
        return [unreadable(path, error, "it must contain the function of the task")]
    except SyntaxError as error:
        return [Problem(f"{path}:{error.lineno}", f"not Python: {error.msg}")]
    except ValueError as error:
        return [Problem(str(path), f"not Python: {error}")]
    return []


def _check_contract(path: Path) -> list[Problem]:
    yaml = markdown_contract(path) if path.suffix == ".md" else load_yaml(path)
    if yaml is None:
        return [Problem(str(path), "the file has no contract, only prose", "warning")]
    read_contract(yaml)
    return []


def _check_rows(path: Path, contract: Contract | None) -> list[Problem]:
    """Return the errors and warnings that a batch over this file would report.

    A result file or log without an input row gets a warning instead of an error.
    """
    try:
        return read_rows(path, contract).warnings
    except InputError as error:
        # A problem without a line number is about the whole file: it has no rows.
        without_rows = [problem.where for problem in error.problems] == [str(path)]
        if without_rows and _is_output(_first_value(path)):
            return [problem._replace(level="warning") for problem in error.problems]
        return error.problems
