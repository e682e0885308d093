"""What a program can check to keep the code readable: no import cycles, no class name twice, docstrings."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def test_the_package_has_no_cycles_no_class_name_twice_and_docstrings_on_public_names() -> None:
    """Cycles and repeated names make a reader jump in vain; a public name without a docstring is unexplained."""
    trees = {path: ast.parse(path.read_text()) for path in sorted((SOURCE / "assay").rglob("*.py"))}
    assert len(trees) > 100
    modules = {module_of(path): tree for path, tree in trees.items()}
    assert import_cycle({name: imports_of(tree, set(modules)) for name, tree in modules.items()}) == []
    assert repeated_classes(trees) == {}
    undocumented = [
        f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}"
        for path, tree in trees.items()
        for node in public_definitions(tree.body)
        if not ast.get_docstring(node)
    ]
    assert undocumented == []


def module_of(path: Path) -> str:
    """`src/assay/core/types.py` is `assay.core.types`."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(tree: ast.Module, modules: set[str]) -> set[str]:
    """The modules of this package that a module imports when it is imported itself."""
    imported: set[str] = set()
    for node in top_level(tree.body):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                # `from assay.core import registry` means the module; `from assay.core.types import Case` does not.
                submodule = f"{node.module}.{alias.name}"
                imported.add(submodule if submodule in modules else node.module)
    return imported & modules


def top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run on import; those under TYPE_CHECKING do not."""
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        for name in ("body", "orelse", "finalbody"):
            if not isinstance(node, Definition):
                yield from top_level(getattr(node, name, []))


def import_cycle(imports: dict[str, set[str]]) -> list[str]:
    """The modules of one cycle, in order; empty where there is none."""
    done: set[str] = set()

    def visit(module: str, trail: list[str]) -> list[str]:
        if module in trail:
            return [*trail[trail.index(module) :], module]
        if module in done:
            return []
        for other in sorted(imports[module]):
            if cycle := visit(other, [*trail, module]):
                return cycle
        done.add(module)
        return []

    for module in imports:
        if cycle := visit(module, []):
            return cycle
    return []


def repeated_classes(trees: dict[Path, ast.Module]) -> dict[str, list[str]]:
    """Class names that several modules define, with the modules."""
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(SOURCE)))
    return {name: paths for name, paths in places.items() if len(paths) > 1}


def public_definitions(body: list[ast.stmt]) -> Iterator[Definition]:
    """Public classes, functions and methods."""
    for node in body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node.body)
