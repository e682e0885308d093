"""The identity of a function: equal in every process as long as it computes the same."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import importlib
import os
import re
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.function_identity import definition_of, identify


def load(folder: Path, source: str, name: str = "app") -> types.ModuleType:
    """Import a file as if it had just been written and imported for the first time."""
    (folder / f"{name}.py").write_text(source)
    for module in [
        loaded for loaded in sys.modules if loaded.partition(".")[0] in ("app", "tools", "deco", "pack")
    ]:
        del sys.modules[module]
    importlib.invalidate_caches()
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))


SOURCE = '''
import functools, re
from dataclasses import dataclass
import tools

WORDS = {"b", "a", "c"}
PATTERN = re.compile("a+", re.I)

@dataclass
class Settings:
    limit: int = 3
    def scaled(self):
        return self.limit * tools.FACTOR

SETTINGS = Settings()

def f(row, *, limit=5):
    """Doc."""
    def inner(x):
        return x in WORDS and PATTERN.match(x) and SETTINGS.scaled()
    return [inner(x) for x in row][:limit]

def unused():
    return 1

class Grader:
    def __init__(self, threshold):
        self.threshold = threshold
    def __call__(self, answer):
        return answer > self.threshold
    def method(self, answer):
        return self(answer)

grader = Grader(0.5)
part = functools.partial(f, limit=2)
cached = functools.cache(f)
first, second = (lambda x: x + 1), (lambda x: x + 2)
'''
TOOLS = "FACTOR = 2\n\ndef other():\n    return 3\n"


@pytest.mark.parametrize(
    ("name", "old", "new", "same"),
    [
        ("f", "[:limit]", "[:limit + 1]", False),
        ("f", "limit=5", "limit=6", False),
        ("f", '"b", "a", "c"', '"b", "a"', False),
        ("f", '"a+", re.I', '"a+"', False),
        ("f", "limit: int = 3", "limit: int = 4", False),
        ("f", "self.limit * ", "self.limit + ", False),
        ("f", "x in WORDS", "x not in WORDS", False),
        ("f", '"b", "a", "c"', '"c", "b", "a"', True),
        ("f", "return 1", "return 2", True),
        ("f", "Grader(0.5)", "Grader(0.6)", True),
        ("f", "    def inner", "    # a comment\n    def inner", True),
        ("f", "def unused():", "\n\n\ndef unused():", True),
        ("grader", "Grader(0.5)", "Grader(0.6)", False),
        ("grader", "answer > self", "answer >= self", False),
        ("grader", "return 1", "return 2", True),
        ("part", "f, limit=2", "f, limit=3", False),
        ("part", "x in WORDS", "x not in WORDS", False),
        ("cached", "x in WORDS", "x not in WORDS", False),
        ("first", "x + 1", "x + 3", False),
        ("first", "x + 2", "x + 3", True),
        ("second", "x + 2", "x + 3", False),
        ("second", "x + 1", "x + 3", True),
    ],
)
def test_an_identity_changes_with_what_the_function_computes(
    tmp_path: Path, name: str, old: str, new: str, same: bool
) -> None:
    assert SOURCE.count(old) >= 1
    (tmp_path / "tools.py").write_text(TOOLS)
    before = identify(vars(load(tmp_path, SOURCE))[name])
    after = identify(vars(load(tmp_path, SOURCE.replace(old, new)))[name])
    assert (before.parts == after.parts) is same
    assert (before.digest == after.digest) is same
    assert before.has_source
    assert not before.unknown


def test_a_constant_of_another_file_counts_and_its_other_functions_do_not(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    before = identify(load(tmp_path, SOURCE).f).digest
    (tmp_path / "tools.py").write_text(TOOLS.replace("return 3", "return 4"))
    assert identify(load(tmp_path, SOURCE).f).digest == before
    (tmp_path / "tools.py").write_text(TOOLS.replace("FACTOR = 2", "FACTOR = 9"))
    assert identify(load(tmp_path, SOURCE).f).digest != before


def test_a_bound_method_counts_with_its_object(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    before = identify(load(tmp_path, SOURCE).grader.method).digest
    assert (
        identify(load(tmp_path, SOURCE.replace("Grader(0.5)", "Grader(0.6)")).grader.method).digest != before
    )


def test_a_function_behind_a_decorator_of_an_installed_package_counts(tmp_path: Path) -> None:
    """`functools.wraps` makes the wrapper look like the user's function; its code is the package's."""
    packages = tmp_path / "site-packages"
    packages.mkdir()
    (packages / "deco.py").write_text(
        "import functools\n\ndef retry(times):\n    def around(f):\n        @functools.wraps(f)\n"
        "        def call(*a):\n            return f(*a), times\n        return call\n    return around\n"
    )
    source = "import sys\nsys.path.insert(0, {!r})\nfrom deco import retry\n\n@retry(3)\ndef f(x):\n    return x + 1\n"
    source = source.format(str(packages))
    before = identify(load(tmp_path, source).f).digest
    assert identify(load(tmp_path, source).f).digest == before
    assert identify(load(tmp_path, source.replace("x + 1", "x + 2")).f).digest != before
    assert identify(load(tmp_path, source.replace("retry(3)", "retry(4)")).f).digest != before


def test_a_module_that_is_imported_inside_the_function_counts(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    source = "def f(x):\n    from tools import FACTOR\n    return x * FACTOR\n"
    sys.path.insert(0, str(tmp_path))
    try:
        before = identify(load(tmp_path, source).f).digest
        (tmp_path / "tools.py").write_text(TOOLS.replace("FACTOR = 2", "FACTOR = 9"))
        assert identify(load(tmp_path, source).f).digest != before
    finally:
        sys.path.remove(str(tmp_path))


def test_a_file_that_was_edited_after_its_import_is_not_believed(tmp_path: Path) -> None:
    """The function in memory is the old one: its answers must not count for the new source."""
    (tmp_path / "tools.py").write_text(TOOLS)
    old = load(tmp_path, SOURCE).f
    honest = identify(old).digest
    (tmp_path / "app.py").write_text(SOURCE.replace("[:limit]", "[:limit + 1]"))
    os.utime(tmp_path / "app.py", (1, 1))
    edited = identify(old).digest
    new = identify(load(tmp_path, SOURCE.replace("[:limit]", "[:limit + 1]")).f).digest
    assert len({honest, edited, new}) == 3


def test_values_that_cannot_be_compared_are_named(tmp_path: Path) -> None:
    source = "import threading\nclient = threading.Lock()\n\ndef f(x):\n    return client, x\n"
    identity = identify(load(tmp_path, source).f)
    assert identity.unknown == ("client (_thread.lock)",)


def test_a_function_without_source_says_so() -> None:
    namespace: dict[str, Any] = {}
    exec("def f(x):\n    return x", namespace)
    assert not identify(namespace["f"]).has_source
    assert identify(len).has_source  # a builtin has a name, and no source that could change


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, 2.5, None, True], "b": {"c": ("x",)}},
        frozenset({"b", "a"}),
        b"bytes",
        Path("folder/file"),
        re.compile("x", re.MULTILINE),
        dataclasses.make_dataclass("Point", ["x"])(3),
        types.SimpleNamespace(limit=3),
        asyncio.sleep,
        float("nan"),
    ],
    ids=repr,
)
def test_captured_values_of_many_kinds_can_be_compared(value: Any) -> None:
    def make(captured: Any) -> Callable[[], Any]:
        return lambda: captured

    assert identify(make(value)).unknown == ()
    assert identify(make(value)).parts == identify(make(value)).parts
    assert identify(make(value)).digest != identify(make("another")).digest


def test_values_that_hold_themselves_are_described_once() -> None:
    loop: list[Any] = []
    loop.append(loop)

    def f() -> Any:
        return loop, f

    assert identify(f).digest == identify(f).digest


def test_a_counter_that_the_function_assigns_is_its_state(tmp_path: Path) -> None:
    module = load(tmp_path, "count = 0\n\ndef f(x):\n    global count\n    count += 1\n    return x\n")
    before = identify(module.f).digest
    module.f(1)
    assert module.count == 1
    assert identify(module.f).digest == before


def test_the_identity_is_the_same_in_every_process(tmp_path: Path) -> None:
    """Hash randomisation orders sets anew in each process."""
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "app.py").write_text(SOURCE)
    program = (
        "import app; from assay.core.function_identity import identify as i; "
        "print(*(i(x).digest for x in (app.f, app.grader, app.part, app.cached, app.second)))"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(digests) == 1


def test_the_definition_of_a_lambda_among_others_is_found() -> None:
    pair = (lambda x: x == 1, lambda x: x + 1)
    definitions: list[Any] = [definition_of(function) for function in pair]
    assert [type(node.body).__name__ for node in definitions] == ["Compare", "BinOp"]


def test_a_partial_of_a_builtin_is_known_by_its_name() -> None:
    assert identify(functools.partial(max, 1)).parts != identify(functools.partial(min, 1)).parts
