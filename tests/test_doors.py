"""Doors of the package that break without an error when a file moves: names of plug-ins, strings, commands, data files."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import assay
from assay.core import registry
from assay.usercode import opened_files

PACKAGE = Path(assay.__file__).parent
# A module of these names belongs to an installed package or to nobody: a group of entry points, a logger.
NOT_MODULES = {"assay.suites", "assay.css", "assay.svg", "assay.js"}
NAMES = {
    "model": """anthropic azure deepseek gemini hf llama-server local ollama openai openai-completions openai-responses
        openrouter python qwen script sglang vllm""",
    "memory": """FUMemory GAMemory LTMemory MBMemory MGMemory MTMemory RFMemory SCMemory STMemory bm25 dense graphiti http
        hybrid langmem mem0 none oracle""",
    "embedder": "wordllama",
    "judge": "answer correctness evidence interference recall rubric update",
}


@pytest.mark.parametrize("kind", NAMES)
def test_the_built_in_plugins_have_exactly_these_names(kind: str) -> None:
    """Every file of the kind's package is a plug-in: a helper that is moved there would become one."""
    assert sorted(registry.built_in(kind)) == sorted(NAMES[kind].split())


def modules() -> list[str]:
    """Every module of the package, by name."""
    return [info.name for info in pkgutil.walk_packages([str(PACKAGE)], "assay.") if ".projects." not in info.name]


def dotted_names(tree: ast.Module) -> Iterator[str]:
    """The texts `assay.x.y` and `assay.x.y:Name` in string constants, except docstrings."""
    prose = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield from re.findall(r"(?<![\w./])assay(?:\.\w+)+(?::\w+)?", node.value)


def test_every_module_that_a_string_names_exists() -> None:
    """Tables of suites and public names, `-m` and `-c` commands, and names that are imported when they are used."""
    known = {"assay", *modules()}
    missing = []
    count = 0
    for path in sorted(PACKAGE.rglob("*.py")):
        for name in dotted_names(ast.parse(path.read_text())):
            module, _, attribute = name.partition(":")
            if module in NOT_MODULES:
                continue
            count += 1
            if module not in known and not attribute:  # a class or function of a module
                module, _, attribute = module.rpartition(".")
            if module not in known or (attribute and not hasattr(importlib.import_module(module), attribute)):
                missing.append(f"{path.relative_to(PACKAGE)}: {name}")
    assert not missing
    assert count > 40


def test_every_path_of_the_package_that_a_module_has_exists() -> None:
    """Prompts, price tables, projects, calibrations, and programs that are started by their path."""
    missing = []
    count = 0
    for name in modules():
        source = importlib.util.find_spec(name)
        if source is None or source.origin is None or "__file__" not in Path(source.origin).read_text():
            continue
        for constant, value in vars(importlib.import_module(name)).items():
            if isinstance(value, Path) and PACKAGE in value.parents:
                count += 1
                if not value.exists():
                    missing.append(f"{name}.{constant}: {value}")
    assert not missing
    assert count > 5


def test_the_modules_that_only_call_user_code_exist() -> None:
    """What is opened right below them, the user's code opens."""
    assert [path for path in opened_files._CALLERS if not Path(path).is_file()] == []
