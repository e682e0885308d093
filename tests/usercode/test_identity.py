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

from assay.usercode.identity import identify
from assay.usercode.source import definition_of


def load(folder: Path, source: str, name: str = "app") -> types.ModuleType:
    """Import a file as if it had just been written and imported for the first time."""
    (folder / f"{name}.py").write_text(source)
    for module in [loaded for loaded in sys.modules if loaded.partition(".")[0] in ("app", "tools", "deco", "pack")]:
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
    assert identify(load(tmp_path, SOURCE.replace("Grader(0.5)", "Grader(0.6)")).grader.method).digest != before


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
    source = "import random\nclient = random.Random(3)\n\ndef f(x):\n    return client, x\n"
    identity = identify(load(tmp_path, source).f)
    assert identity.unknown == ("client (random.Random)",)


@pytest.mark.parametrize(
    "source",
    [
        "from os import environ as a\ndef f(r): return a\n",
        "import numpy\na = numpy.random.default_rng()\ndef f(r): return a\n",
        "import random\nclass A(random.Random): pass\na = A()\ndef f(r): return a\n",
        "from concurrent.futures import ThreadPoolExecutor\na = ThreadPoolExecutor(1)\ndef f(r): return a\n",
    ],
    ids=["environment", "random numbers", "subclass of a package's class", "threads"],
)
def test_state_that_differs_between_processes_is_named_and_left_out(tmp_path: Path, source: str) -> None:
    identity = identify(load(tmp_path, source).f)
    assert len(identity.unknown) == 1
    assert identity.unknown[0].startswith("a (")
    assert identify(load(tmp_path, source).f).digest == identity.digest


def test_the_order_of_a_sets_subclass_does_not_count(tmp_path: Path) -> None:
    """0 and 8 have the same place in a small set: the one that was added first comes first, as if by another hash."""
    source = "class Words(set): pass\nwords = Words()\nwords.add(0)\nwords.add(8)\ndef f(r): return words\n"
    module = load(tmp_path, source)
    before = identify(module.f).digest
    other = source.replace("add(0)", "add(1)").replace("add(8)", "add(0)").replace("add(1)", "add(8)")
    reordered = load(tmp_path, other)
    assert list(reordered.words) != list(module.words)
    assert identify(reordered.f).digest == before


@pytest.mark.parametrize(
    ("source", "unknown"),
    [
        ("def f(x):\n    return eval(x)\n", "eval()"),
        ("def f(x):\n    return globals()[x]\n", "globals()"),
        (
            "import importlib\ndef f(x):\n    return importlib.import_module(x)\n",
            "importlib.import_module",
        ),
        ("def f(x):\n    return x.read_csv('a.csv')\n", "read_csv() in f (a file)"),
        ("S = []\nfor _ in range(5000):\n    S = [S]\ndef f(x):\n    return S\n", "a value that is nested"),
        (
            (
                "class A:\n    def __getattr__(self, name):\n        raise RuntimeError(name)\n"
                "    def __getstate__(self):\n        return 1 / 0\na = A()\ndef f(x):\n    return a\n"
            ),
            "a (app.A)",
        ),
    ],
)
def test_what_a_function_looks_up_while_it_runs_is_named(tmp_path: Path, source: str, unknown: str) -> None:
    assert identify(load(tmp_path, source).f).unknown[0].startswith(unknown)


def test_files_that_python_opens_are_not_named_because_a_run_notes_them(tmp_path: Path) -> None:
    source = "from pathlib import Path\ndef f(x):\n    return open(x).read() + Path(x).read_text()\n"
    assert identify(load(tmp_path, source).f).unknown == ()


def test_writing_a_file_logging_and_locks_are_not_named(tmp_path: Path) -> None:
    source = (
        "import asyncio, logging, threading\nlog, lock = logging.getLogger('a'), threading.Lock()\n"
        "gate = asyncio.Semaphore(3)\n\ndef f(x):\n    open('log', 'a').write(str((log, lock, gate)))\n"
    )
    assert identify(load(tmp_path, source).f).unknown == ()


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
    ids=lambda value: type(value).__name__,
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
        "import app; from assay.usercode.identity import identify as i; "
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


HIDDEN = {
    "the state of an object with slots": """
class A:
    __slots__ = ("x",)
    def __init__(self, x): self.x = x
a = A("OLD")
def f(r): return a.x
""",
    "the state of an object whose class inherits": """
import abc
class B(abc.ABC): pass
class A(B):
    def __init__(self, x): self.x = x
a = A("OLD")
def f(r): return a.x
""",
    "a setting of a decorator that is a class": """
import functools
class Times:
    def __init__(self, function, number):
        functools.update_wrapper(self, function)
        self.number = number
    def __call__(self, r): return self.__wrapped__(r) * self.number
K = "OLD"
@lambda function: Times(function, K)
def f(r): return r
""",
    "the state of an object that hides it": """
class A:
    __dict__ = property(lambda self: 1 / 0)
    def __getattr__(self, name): raise RuntimeError(name)
a = A()
a.x = "OLD"
def f(r): return a.x
""",
    "an attribute of a subclass that pickle leaves out": """
import collections
class A(collections.defaultdict): pass
a = A(list)
a.x = "OLD"
def f(r): return a.x
""",
    "the code of a subclass that pickle leaves out": """
import logging
class A(logging.Logger):
    def x(self): return "OLD"
a = A("a")
def f(r): return a.x()
""",
    "an object of pydantic": """
import pydantic
class A(pydantic.BaseModel):
    x: str
    y: set[str]
a = A(x="OLD", y={"a", "b"})
def f(r): return a.x
""",
    "a metaclass": """
class M(type):
    def __call__(cls, *args): return "OLD"
class A(metaclass=M): pass
def f(r): return A()
""",
    "the factory of a field": """
import dataclasses
def make(): return "OLD"
@dataclasses.dataclass
class A:
    x: str = dataclasses.field(default_factory=make)
def f(r): return A().x
""",
    "the factory of a field, with a variable of the function around the class": """
import dataclasses
def make(default):
    @dataclasses.dataclass
    class A:
        x: str = dataclasses.field(default_factory=lambda: default)
    return A
A = make("OLD")
def f(r): return A().x
""",
    "the default of a field of msgspec, from the function around the class": """
import msgspec
def make(default):
    class A(msgspec.Struct):
        x: str = default
        y: list[str] = msgspec.field(default_factory=list)
    return A
A = make("OLD")
def f(r): return A().x
""",
    "the default of a field of pydantic, from the function around the class": """
import pydantic
def make(default):
    class A(pydantic.BaseModel):
        x: str = default
    return A
A = make("OLD")
def f(r): return A().x
""",
    "the order of fields": """
import dataclasses
@dataclasses.dataclass(order=True)
class A:
    OLD: int
    other: int
def f(r): return max(A(1, 2), A(2, 1))
""",
    "the value of an enum": """
import enum
class A(enum.Enum):
    X = ["OLD"]
def f(r): return A.X.value
""",
    "annotations of a class": """
class A:
    x: "OLD"
def f(r): return A.__annotations__
""",
    "the text of a class": """
class A:
    "OLD"
def f(r): return A.__doc__
""",
    "patterns of a match statement": """
class A:
    __match_args__ = ("OLD",)
def f(r):
    match r:
        case A(x): return x
""",
    "a cached property": """
import functools
class A:
    @functools.cached_property
    def x(self): return "OLD"
def f(r): return A().x
""",
    "a partial method": """
import functools
class A:
    def g(self, x): return x
    h = functools.partialmethod(g, "OLD")
def f(r): return A().h()
""",
    "an attribute of the function": """
def f(r): return f.threshold
f.threshold = "OLD"
""",
    "where a global begins that the function assigns": """
state = "OLD"
def f(r):
    global state
    state += r
    return state
""",
    "a function that is put into a package": """
import json
def mine(r): return "OLD"
json.mine = mine
def f(r): return json.mine(r)
""",
    "a list instead of a tuple": """
X = tuple("ab") if "OLD" == "OLD" else list("ab")
def f(r): return f"{X}"
""",
    "a dict with a default": """
import collections
X = collections.defaultdict(int, {"OLD": 1})
def f(r): return X[r]
""",
    "a number of numpy": """
import numpy
X = numpy.float64(len("OLD"))
def f(r): return X
""",
    "a view of a dict instead of the dict": """
import types
X = (dict if "OLD" == "OLD" else types.MappingProxyType)({"a": 1})
def f(r): return f"{X}"
""",
    "an exception": """
X = ValueError("OLD")
def f(r): return X
""",
    "a getter": """
import operator
f = operator.itemgetter("OLD")
""",
    "an object that a package's wrapper holds": """
import contextlib
class A:
    def __init__(self, x): self.x = x
    def __call__(self, r): yield self.x
f = contextlib.contextmanager(A("OLD"))
""",
    "a subclass of partial": """
import functools
class P(functools.partial):
    x = "OLD"
    def __call__(self, r): return self.x
f = P(len)
""",
    "a text with surrogates and a large number": """
X = ["\\ud800", 2 ** 70, "OLD"]
def f(r): return X
""",
}


@pytest.mark.parametrize("source", HIDDEN.values(), ids=HIDDEN)
def test_a_change_in_a_place_that_is_easily_missed_counts(tmp_path: Path, source: str) -> None:
    before = identify(load(tmp_path, source).f)
    assert identify(load(tmp_path, source).f).digest == before.digest
    assert identify(load(tmp_path, source.replace("OLD", "NEWER", 1)).f).digest != before.digest
    assert before.unknown == ()


@pytest.mark.parametrize(
    "files",
    [
        {"app.py": "import pack.tools\ndef f(r): return pack.tools.K\n", "pack/tools.py": "K = 1\n"},
        {
            "app.py": "from pack.sub.m import f\n",
            "pack/__init__.py": "",
            "pack/sub/__init__.py": "",
            "pack/tools.py": "K = 1\n",
            "pack/sub/m.py": "def f(r):\n    from ..tools import K\n    return K\n",
        },
        {
            "app.py": "from pack.m import f\n",
            "pack/__init__.py": "",
            "pack/tools.py": "K = 1\n",
            "pack/m.py": "def f(r):\n    from . import tools\n    return tools.K\n",
        },
        {
            "app.py": "def f(r):\n    import pack.tools as t\n    return t.K\n",
            "pack/__init__.py": "",
            "pack/tools.py": "import tools\nK = tools.K\n",
            "tools.py": "K = 1\n",
        },
    ],
    ids=["a folder without __init__", "two dots", "one dot", "an import of an import"],
)
def test_modules_count_however_they_are_imported(
    tmp_path: Path, files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(old: str, new: str) -> Callable[..., Any]:
        for name, source in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(source.replace(old, new))
        function: Callable[..., Any] = load(tmp_path, files["app.py"]).f
        return function

    function = write("K = 1", "K = 1")
    before = identify(function).digest
    function("")
    assert identify(function).digest == before  # whether the module is loaded already or not
    assert identify(write("K = 1", "K = 2")).digest != before


def test_a_class_of_a_file_that_is_not_in_sys_modules_counts(tmp_path: Path) -> None:
    source = (
        "import importlib.util as u, pathlib\n"
        "spec = u.spec_from_file_location('nowhere', pathlib.Path(__file__).parent / 'other.py')\n"
        "module = u.module_from_spec(spec)\nspec.loader.exec_module(module)\nA = module.A\n"
        "def f(r): return A().g()\n"
    )
    digests = set()
    for number in (1, 2):
        (tmp_path / "other.py").write_text(f"class A:\n    def g(self): return {number}\n")
        digests.add(identify(load(tmp_path, source).f).digest)
    assert len(digests) == 2


def test_a_class_of_a_text_without_file_has_no_source(tmp_path: Path) -> None:
    source = "exec('class A:\\n    def g(self): return 1')\ndef f(r): return A().g()\n"
    assert not identify(load(tmp_path, source).f).has_source


@pytest.mark.parametrize(
    "source",
    [
        "import dataclasses\n@dataclasses.dataclass\nclass A:\n    x: str = 'OLD'\n",
        "import pydantic\nclass A(pydantic.BaseModel):\n    x: str = 'OLD'\n",
        "import pydantic\nclass A(pydantic.BaseModel):\n    x: str = pydantic.Field(description='OLD')\n",
        "import msgspec\nclass A(msgspec.Struct):\n    x: str = 'OLD'\n",
    ],
    ids=["dataclass", "pydantic", "pydantic description", "msgspec"],
)
def test_the_fields_of_a_class_without_a_file_count(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class of a notebook has no file: only its methods tell their cell."""
    digests = []
    for text in (source, source, source.replace("OLD", "NEW")):
        module = types.ModuleType("app")
        monkeypatch.setitem(sys.modules, "app", module)
        exec(text, vars(module))
        digests.append(identify(module.A).digest)
    assert digests[0] == digests[1] != digests[2]


def test_a_counter_of_a_notebook_counts_by_the_latest_cell_that_assigns_it(tmp_path: Path) -> None:
    module = load(tmp_path, "def f(r):\n    global count\n    count += 1\n    return count\n")
    vars(module).update(count=1, In=["", "count = 1"])
    before = identify(module.f).digest
    module.f(1)
    assert identify(module.f).digest == before
    module.In.append("count = 100")
    assert identify(module.f).digest != before


def test_a_global_that_begins_outside_the_functions_file_counts_by_its_value(tmp_path: Path) -> None:
    module = load(tmp_path, "def f(r):\n    global count\n    count += 1\n    return count\n")
    vars(module)["count"] = 1
    before = identify(module.f).digest
    vars(module)["count"] = 100
    assert identify(module.f).digest != before


def test_a_large_container_counts_item_by_item() -> None:
    def make(captured: Any) -> Callable[[], Any]:
        return lambda: captured

    rows = [{"number": number, "words": ("a", "b")} for number in range(1000)]
    same = [{"number": number, "words": ("a", "b")} for number in range(1000)]
    other = [{"number": number, "words": ("a", "b" if number < 999 else "c")} for number in range(1000)]
    functions = [*rows, len]
    assert identify(make(rows)).digest == identify(make(same)).digest
    assert identify(make(rows)).digest != identify(make(other)).digest
    assert identify(make(functions)).digest != identify(make([*rows, max])).digest
