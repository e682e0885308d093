"""The house rules that a program can check: sizes, annotations, docstrings, where imports may stand."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "assay"
FILES = sorted(SOURCE.rglob("*.py"))
MOST_LINES, MOST_FUNCTION_LINES, MOST_PARAMETERS = 400, 60, 6
P95_FUNCTION_LINES = 40
# Heavy or optional packages, and modules that a light command must not load.
LAZY = {
    "numpy",
    "duckdb",
    "rich",
    "uvloop",
    "snowballstemmer",
    "xllamacpp",
    "assay",
    "importlib",
    "difflib",
    "pyarrow",
    "datasets",
    "sacrebleu",
    "pydantic_monty",
    "safetensors",
    "tokenizers",
    "mem0",
    "openai",
    "qdrant_client",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def functions(path: Path) -> Iterator[Function]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, Function))


def length(function: Function) -> int:
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def test_files_are_short() -> None:
    """A file has at most 400 lines: sources, tests and benchmarks alike."""
    root = Path(__file__).parents[1]
    found = [path for folder in ("src", "tests", "benchmarks") for path in (root / folder).rglob("*.py")]
    assert found
    assert [path for path in found if len(path.read_text().splitlines()) > MOST_LINES] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_functions_are_short_and_take_few_parameters(path: Path) -> None:
    """A function has at most 60 lines and 6 parameters besides self."""
    for function in functions(path):
        arguments = function.args
        names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        count = len([name for name in names if name not in ("self", "cls")])
        assert length(function) <= MOST_FUNCTION_LINES, function.name
        assert count <= MOST_PARAMETERS, function.name


def test_most_functions_are_very_short() -> None:
    """Nineteen of twenty functions fit on a screen."""
    lengths = sorted(length(function) for path in FILES for function in functions(path))
    assert lengths[int(len(lengths) * 0.95)] <= P95_FUNCTION_LINES
    assert lengths[len(lengths) // 2] <= 15


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_public_names_are_explained(path: Path) -> None:
    """Every public class, method and function has a docstring."""
    for node in public(tree(path).body):
        assert ast.get_docstring(node), f"{path}:{node.lineno} {node.name}"


def public(body: list[ast.stmt]) -> Iterator[Function | ast.ClassDef]:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name[0] != "_":
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public(node.body)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_stand_at_the_top(path: Path) -> None:
    """Only heavy or optional packages are imported inside functions."""
    for function in functions(path):
        for node in ast.walk(function):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
            for module in modules:
                assert module.split(".")[0] in LAZY, f"{path} {function.name} {module}"
