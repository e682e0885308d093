"""What a program can check to keep the code readable: no import cycles, docstrings, one meaning for an exported name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import assay
import assay.hop

SOURCE = Path(__file__).parents[1] / "src"
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def test_the_package_has_no_cycles_and_docstrings_on_public_names() -> None:
    """A cycle makes a reader jump in vain, and a public name without a docstring is unexplained.

    A method that overrides one of the package needs no docstring of its own.
    """
    trees = {path: ast.parse(path.read_text()) for path in sorted((SOURCE / "assay").rglob("*.py"))}
    assert len(trees) > 100
    modules = {module_of(path): tree for path, tree in trees.items()}
    assert import_cycle({name: imports_of(tree, set(modules)) for name, tree in modules.items()}) == []
    bases = Bases(trees.values())
    undocumented = [
        f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}"
        for path, tree in trees.items()
        for node, owner in public_definitions(tree.body)
        if not ast.get_docstring(node) and not (owner and bases.explain(owner, node.name))
    ]
    assert undocumented == []


def test_a_name_that_both_public_modules_export_is_the_same_object() -> None:
    """`assay` and `assay.hop` are the two modules that people import from."""
    shared = set(assay.__all__) & set(assay.hop.__all__)
    assert [name for name in sorted(shared) if getattr(assay, name) is not getattr(assay.hop, name)] == []


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


class Bases:
    """The methods with docstrings of every class, and the names of its base classes."""

    def __init__(self, trees: Iterable[ast.Module]) -> None:
        self._explained: dict[str, set[str]] = defaultdict(set)
        self._bases: dict[str, set[str]] = defaultdict(set)
        for tree in trees:
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    self._explained[node.name] |= {
                        item.name for item in node.body if isinstance(item, Definition) and ast.get_docstring(item)
                    }
                    self._bases[node.name] |= {base_name(base) for base in node.bases}

    def explain(self, class_name: str, method: str) -> bool:
        """Return whether a base class of the class has this method with a docstring."""
        return any(
            method in self._explained[base] or self.explain(base, method) for base in self._bases.get(class_name, ())
        )


def base_name(base: ast.expr) -> str:
    """`Suite` for `Suite[Options, Row]`, `Struct` for `msgspec.Struct`."""
    return ast.unparse(base).partition("[")[0].rpartition(".")[2]


def public_definitions(body: list[ast.stmt], owner: str = "") -> Iterator[tuple[Definition, str]]:
    """Public classes, functions and methods, each with the class that it stands in."""
    for node in body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield node, owner
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node.body, node.name)
