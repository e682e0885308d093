"""`assay check` for a task folder, a contract, settings, or a file of rows. User code is parsed, never run."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.core.errors import InputError, Problem, unreadable
from assay.core.file_check import FileCheck, contents
from assay.files.read import BrokenJson, decode, json_lines, object_lines, read_file
from assay.files.yaml_files import YAML_SUFFIXES, load_yaml
from assay.suites.hop.batch_lines import is_meta, is_observer_line, is_pair, normalize_input
from assay.suites.hop.contract import (
    MARKDOWN,
    YAML_NAMES,
    Contract,
    find_contract,
    read_contract,
)
from assay.suites.hop.contract_markdown import read_metainfo
from assay.suites.hop.result_folder import contract_beside
from assay.suites.hop.rows import read_rows
from assay.suites.hop.settings import NAMES, settings_problems
from assay.suites.hop.target import CODE, HOPLET, TEST_CASES
from assay.usercode.definitions import MAX_CODE_BYTES, python_problem

_ROWS_KIND, _CONTRACT_KIND, _SETTINGS_KIND = "rows of a batch (hop)", "contract (hop)", "settings (hop)"
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
    if path.suffix in YAML_SUFFIXES:
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
    return examine(path).problems


def examine(path: Path) -> FileCheck:
    """Return the check of a task folder, a contract, settings, rows, a result file or an observer's log."""
    try:
        if path.is_dir():
            return _check_task(path)
        if path.suffix in YAML_SUFFIXES and _yaml_check(path) is settings_problems:
            return FileCheck(kind=_SETTINGS_KIND, problems=settings_problems(path))
        if path.suffix in YAML_SUFFIXES or path.name == MARKDOWN:
            return FileCheck(kind=_CONTRACT_KIND, problems=_check_contract(path))
        return _check_lines(path)
    except InputError as error:
        return FileCheck(kind=_kind_of(path), problems=error.problems)


def _kind_of(path: Path) -> str:
    """Return the kind of a file whose reader raised: it is named as what it was read."""
    if path.suffix in YAML_SUFFIXES:
        return _SETTINGS_KIND if _yaml_check(path) is settings_problems else _CONTRACT_KIND
    return _CONTRACT_KIND if path.name == MARKDOWN else _ROWS_KIND


def _check_lines(path: Path) -> FileCheck:
    """Check a file of JSON lines: a log, a result file with the rows in it, or rows."""
    first = _first_value(path)
    if isinstance(first, dict) and is_observer_line(first):
        problems: list[Problem] = []
        lines = sum(1 for _ in object_lines(path, problems))
        return FileCheck(kind="log of an observer (hop)", contents=contents({"line": lines}), problems=problems)
    check = _check_rows(path, contract_beside(path))
    if not _is_output(first):
        return check
    wrapped = isinstance(first, list) or (isinstance(first, dict) and "input" in first)
    form = "View's form" if wrapped else "flat form"
    return msgspec.structs.replace(check, kind=f"results of a batch, {form} (hop)")


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
    try:
        line = next(json_lines(path), None)
        return decode(line.raw) if line else None
    except (InputError, BrokenJson):
        return None


def _is_output(value: Any) -> bool:
    """Return True if a line was written by a batch or its observer, False for an input row."""
    if not isinstance(value, dict):
        return is_pair(value)
    # normalize_input returns the same object if there is nothing to unwrap.
    wrapped = normalize_input(value) is not value or "hop_result" in value or "hop_stats" in value
    return wrapped or is_meta(value) or is_observer_line(value)


def _check_task(folder: Path) -> FileCheck:
    """Check code, contract, settings, and every JSONL file in TestCases/ that is not a result file."""
    counts = Counter({"file": 0, "row": 0})
    hoplet = folder / HOPLET if (folder / HOPLET).is_dir() else folder
    contract = None
    problems: list[Problem] = []
    try:
        contract = find_contract(hoplet)
    except InputError as error:
        problems += error.problems
    else:
        if (hoplet / MARKDOWN).is_file():
            problems += _contract_notes(hoplet / MARKDOWN)
    # A broken contract may name the function.
    is_broken = any(problem.level == "error" for problem in problems)
    problems[:0] = _check_code(hoplet / CODE) or ([] if is_broken else _check_function(hoplet / CODE, contract))
    for settings_folder in dict.fromkeys((hoplet, folder)):
        for name in NAMES:
            if (settings_folder / name).is_file():
                problems += check_file(settings_folder / name)
    for path in sorted((folder / TEST_CASES).glob("*.jsonl")):
        if not _is_output(_first_value(path)):
            rows = _read_rows(path, contract)
            problems += rows.problems
            counts.update(file=1, row=rows.total)
    return FileCheck(
        kind="task folder (hop)",
        contents=contents(counts) + f" in {TEST_CASES}" if counts["file"] else f"no rows in {TEST_CASES}",
        problems=problems,
    )


def _check_code(path: Path) -> list[Problem]:
    """Check that the file exists and is valid Python."""
    try:
        ast.parse(read_file(path, MAX_CODE_BYTES), str(path))
    except InputError as error:
        return error.problems
    except OSError as error:
        return [unreadable(path, error, "it must contain the function of the task")]
    except SyntaxError as error:
        return [Problem(f"{path}:{error.lineno}", f"not Python: {error.msg}")]
    except (ValueError, RecursionError, MemoryError) as error:
        return [Problem(str(path), f"not Python: {error or 'nested too deeply'}")]
    return []


def _check_function(path: Path, contract: Contract | None) -> list[Problem]:
    """Check that a valid Python file has the function of the task. It is not imported."""
    if contract and contract.function:
        message = python_problem(path, contract.function)
        return [Problem(str(path), message.removeprefix(f"{path} "))] if message else []
    tree = ast.parse(read_file(path, MAX_CODE_BYTES), str(path))
    # Names that are imported or assigned may be functions too. A run takes only those that the file defines.
    functions = [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name[0] != "_"
    ]
    task_name = contract.name if contract else ""
    if task_name in functions or any("hop" in name.lower() for name in functions) or _assigns_hop(tree):
        return []
    names = f"; it has {', '.join(functions)}" if functions else ""
    message = f'has no function with "hop" in its name{names}; write `function: NAME` in the contract'
    return [Problem(str(path), message)]


def _assigns_hop(tree: ast.Module) -> bool:
    """Return whether a module assigns a name with "hop" in it: the result of a call may be a function."""
    return any(
        isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and "hop" in node.id.lower()
        for node in ast.walk(tree)
    )


def _check_contract(path: Path) -> list[Problem]:
    if path.suffix != ".md":
        read_contract(load_yaml(path))
        return []
    return _contract_notes(path)


def _contract_notes(path: Path) -> list[Problem]:
    """Return what was read from tables and lists. Their layout is not fixed, so a person should see the result."""
    metainfo = read_metainfo(path)
    if not metainfo.yaml.value:
        nothing = Problem(str(path), "the file has no contract, only prose", "warning")
        return list(metainfo.warnings) or [nothing]
    if not metainfo.is_prose:
        read_contract(metainfo.yaml)
        return []
    contract = read_contract(metainfo.yaml)
    inputs = [f"{name} {kind}{'?' * (name in contract.optional)}" for name, kind in contract.inputs.items()]
    outputs = [f"{name} {field.type}" for name, field in contract.outputs.items()]
    notes = list(metainfo.warnings)
    for block, fields in (("inputs", inputs), ("outputs", outputs)):
        if fields:
            notes.append(Problem(metainfo.yaml.where(block), f"read {block}: {', '.join(fields)}", "note"))
    if not contract.inputs:
        notes.append(Problem(str(path), "read no inputs: the function gets every field of a row", "note"))
    if metainfo.skipped:
        notes.append(Problem(str(path), f"not part of the contract: {'; '.join(metainfo.skipped)}", "note"))
    return notes


class _RowsCheck(NamedTuple):
    """The number of rows of a file, and its problems."""

    total: int
    problems: list[Problem]


def _check_rows(path: Path, contract: Contract | None) -> FileCheck:
    rows = _read_rows(path, contract)
    return FileCheck(kind=_ROWS_KIND, contents=contents({"row": rows.total}), problems=rows.problems)


def _read_rows(path: Path, contract: Contract | None) -> _RowsCheck:
    """Return the errors and warnings that a batch over this file would report.

    A result file or log without an input row gets a warning instead of an error.
    """
    try:
        file = read_rows(path, contract)
    except InputError as error:
        # A problem without a line number is about the whole file: it has no rows.
        without_rows = [problem.where for problem in error.problems] == [str(path)]
        if without_rows and _is_output(_first_value(path)):
            return _RowsCheck(0, [problem._replace(level="warning") for problem in error.problems])
        return _RowsCheck(0, error.problems)
    return _RowsCheck(len(file.rows), file.warnings)
